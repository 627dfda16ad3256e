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

/// Tells the servers now, and tells them otherwise later.
pub(super) fn strike(faults: &Arc<Faults>, fault: u32, for_ns: u64) {
    let faults = Arc::clone(faults);
    tokio::spawn(async move {
        let wanted = Duration::from_nanos(for_ns);
        faults.began(fault, format!("servers refuse writes for {wanted:?}"));
        let mut refused = Vec::new();
        for node in &faults.reach.nodes {
            refused.extend(refuse(node, 1).await);
        }
        if refused.len() == faults.reach.nodes.len() {
            faults.landed(
                fault,
                format!("a write was answered: {}", refused.join("; ")),
            );
        }
        tokio::time::sleep(wanted).await;
        for node in &faults.reach.nodes {
            refuse(node, 0).await;
        }
        faults.ended(fault);
    });
}

/// Sets how many replicas a write needs, of which there are none. Tells the error that a write is
/// answered with then.
async fn refuse(node: &Machine, replicas: u32) -> Option<String> {
    let conn = open(node, ANSWER).await?;
    let mut set = redis::cmd("CONFIG");
    set.arg("SET").arg("min-replicas-to-write").arg(replicas);
    let _: Outcome<()> = conn.call(&set).await;
    let mut probe = redis::cmd("SET");
    probe.arg("oversold:probe").arg(1).arg("PX").arg(1);
    match conn.call::<()>(&probe).await {
        Outcome::Refused(error) => Some(error),
        _ => None,
    }
}
