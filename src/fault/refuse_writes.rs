//! `refuse-writes`: every server answers writes with an error for a while, as a primary does that
//! has lost its replicas (`min-replicas-to-write`,
//! <https://redis.io/docs/latest/operate/oss_and_stack/management/replication/>). Reads go on.

use std::sync::Arc;
use std::time::Duration;

use super::node::{ANSWER, open};
use super::{Entry, Faults};
use crate::client::Outcome;
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
        let mut refused = Vec::new();
        for node in &faults.reach.nodes {
            refused.extend(refuse(node, &faults.reach.probe()).await);
        }
        if refused.len() == faults.reach.nodes.len() {
            faults.landed(
                fault,
                format!("a write was answered: {}", refused.join("; ")),
            );
        }
        tokio::time::sleep(wanted).await;
        for node in &faults.reach.nodes {
            // What cannot be restored now is restored when the run ends, or told.
            let _ = node.settings.restore(SETTING).await;
        }
        faults.ended(fault);
    });
}

/// Has a server need more replicas than it has. Tells the error that a write is answered with then.
async fn refuse(node: &Machine, probe: &str) -> Option<String> {
    node.settings.change(SETTING, "1000").await.ok()?;
    let conn = open(node, ANSWER).await?;
    let mut set = redis::cmd("SET");
    set.arg(probe).arg(1).arg("PX").arg(1);
    match conn.call::<()>(&set).await {
        Outcome::Refused(error) => Some(error),
        _ => None,
    }
}
