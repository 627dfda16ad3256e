//! `delay`: for a while, whatever an instance sends arrives later, and in its order.

use std::sync::Arc;
use std::time::Duration;

use super::on_links::{OnLinks, window};
use super::{Entry, Faults};
use crate::link::{Action, Filter, Rule};

pub(super) const ENTRY: Entry = Entry {
    name: "delay",
    about: "an instance's requests arrive late for a while (`by = \"200ms\"`, `for = \"8s\"`)",
};

/// Slows the instance's requests down now, and lets them pass later.
pub(super) fn strike(faults: &Arc<Faults>, fault: u32, instance: u32, by_ns: u64, for_ns: u64) {
    let (by, long) = (Duration::from_nanos(by_ns), Duration::from_nanos(for_ns));
    faults.began(
        fault,
        format!("requests of instance {instance} arrive {by:?} late for {long:?}"),
    );
    let late = Rule::new(Action::Delay(by)).about(Filter::instance(instance));
    let late = OnLinks::lay(faults, &late);
    let all = Arc::clone(faults);
    faults.spawn(async move {
        let proof = async {
            late.applied_on_each().await;
            let (links, times) = (late.applied().0, late.hits());
            tokio::time::sleep(by).await;
            format!(
                "{times} requests of instance {instance} to {links} servers were held back for \
                 {by:?}"
            )
        };
        window(&all, fault, long, proof).await;
        // Recorded first: what passes then comes after it.
        all.ended(fault);
        drop(late);
    });
}
