//! `cut-off`: an instance is cut off from all servers for a while. Nothing passes either way, and
//! both ends believe that they are connected, as behind a firewall that drops what it sees. What was
//! sent meanwhile arrives late. Of a primary with replicas the Sentinels are cut off from it too.

use std::sync::Arc;
use std::time::Duration;

use super::on_links::{OnLinks, window};
use super::{Entry, Faults};
use crate::link::{Action, Filter, Rule, Ways};

pub(super) const ENTRY: Entry = Entry {
    name: "cut-off",
    about: "nothing passes between an instance and the servers for a while (`for = \"8s\"`)",
};

/// Cuts the instance off now, and lets it through later.
pub(super) fn strike(faults: &Arc<Faults>, fault: u32, instance: u32, for_ns: u64) {
    let long = Duration::from_nanos(for_ns);
    faults.began(
        fault,
        format!("instance {instance} is cut off from the servers for {long:?}"),
    );
    let hole = Rule::new(Action::BlackHole(Ways::Both)).about(Filter::instance(instance));
    let holes = OnLinks::lay(faults, &hole);
    let beside = OnLinks::beside_the_sentinels(faults, &hole);
    let all = Arc::clone(faults);
    faults.spawn(async move {
        let proof = async {
            holes.applied_on_each().await;
            let (links, times) = (holes.applied().0, holes.hits());
            format!(
                "what instance {instance} and {links} servers said to each other was stopped, \
                 {times} times by now, on connections that stay open"
            )
        };
        window(&all, fault, long, proof).await;
        // Recorded first: what passes then comes after it.
        all.ended(fault);
        drop((holes, beside));
    });
}
