//! `refuse-writes`: every server answers writes with an error for a while, as a primary does that
//! has lost its replicas (`min-replicas-to-write`,
//! <https://redis.io/docs/latest/operate/oss_and_stack/management/replication/>). Reads go on.

use std::sync::Arc;
use std::time::Duration;

use super::node::{ANSWER, open};
use super::read_only::is_read_only;
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
            let mut settings = Settings::of(&faults, node);
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
        let mut undone = Some(());
        for settings in changed {
            undone = settings.restore().await.and(undone);
        }
        if undone.is_some() {
            faults.ended(fault);
        }
    });
}

/// Has a server need more replicas than it has. Tells the error that a write is answered with then:
/// that it has too few of them, or by a replica, which refuses all writes, that it is one.
async fn refuse(node: &Machine, settings: &mut Settings, probe: &str) -> Option<String> {
    settings.set(SETTING, "1000").await?;
    let error = refusal(&open(node, ANSWER).await?, probe).await?;
    let told = error.contains("NOREPLICAS") || is_read_only(&error);
    told.then_some(error)
}
