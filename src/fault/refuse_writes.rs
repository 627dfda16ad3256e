//! `refuse-writes`: every server answers writes with an error for a while, as a primary does that
//! has lost its replicas (`min-replicas-to-write`,
//! <https://redis.io/docs/latest/operate/oss_and_stack/management/replication/>). Reads go on.

use std::sync::Arc;
use std::time::Duration;

use super::node::{ANSWER, open};
use super::settings::{Settings, refusal};
use super::{Entry, Faults};
use crate::topology::Machine;

pub(super) const ENTRY: Entry = Entry {
    name: "refuse-writes",
    about: "every server refuses writes with an error for a while (`for = \"8s\"`)",
};

/// The setting by which they do: how many replicas a write needs, of which they have fewer.
const SETTING: &str = "min-replicas-to-write";

/// Tells the servers now, and tells them otherwise later.
pub(super) fn strike(faults: &Arc<Faults>, fault: u32, for_ns: u64) {
    let of = Arc::clone(faults);
    faults.beside(async move {
        let faults = of;
        let wanted = Duration::from_nanos(for_ns);
        faults.began(fault, format!("servers refuse writes for {wanted:?}"));
        let mut changed = Vec::new();
        let mut refused = Vec::new();
        for node in &faults.reach.nodes {
            let mut settings = Settings::of(node);
            refused.extend(refuse(node, &mut settings, &faults.reach.probe()).await);
            changed.push(settings);
        }
        if refused.len() == faults.reach.nodes.len() {
            faults.landed(
                fault,
                format!("a write was answered: {}", refused.join("; ")),
            );
        }
        tokio::time::sleep(wanted).await;
        for settings in changed {
            settings.restore().await;
        }
        faults.ended(fault);
    });
}

/// Has a server need more replicas than it has. Tells the error that a write is answered with then.
async fn refuse(node: &Machine, settings: &mut Settings, probe: &str) -> Option<String> {
    settings.set(SETTING, "1000").await?;
    refusal(&open(node, ANSWER).await?, probe).await
}
