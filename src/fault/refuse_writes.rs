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

/// Tells the servers now, and tells them otherwise later.
pub(super) fn strike(faults: &Arc<Faults>, fault: u32, for_ns: u64) {
    let faults = Arc::clone(faults);
    tokio::spawn(async move {
        let wanted = Duration::from_nanos(for_ns);
        faults.began(fault, format!("servers refuse writes for {wanted:?}"));
        let mut changed = Vec::new();
        let mut refused = Vec::new();
        for node in &faults.reach.nodes {
            let mut settings = Settings::of(node);
            refused.extend(refuse(node, &mut settings).await);
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

/// Sets how many replicas a write needs: one, of which there are none. Tells the error that a write
/// is answered with then.
async fn refuse(node: &Machine, settings: &mut Settings) -> Option<String> {
    let conn = open(node, ANSWER).await?;
    settings.set(&conn, "min-replicas-to-write", "1").await?;
    refusal(&conn).await
}
