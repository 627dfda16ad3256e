//! `bandwidth`: for a while only so many bytes a second pass between an instance and each server.

use std::sync::Arc;
use std::time::Duration;

use super::on_links::{OnLinks, window};
use super::{Entry, Faults};
use crate::link::{Action, Filter, Rule};

pub(super) const ENTRY: Entry = Entry {
    name: "bandwidth",
    about: "an instance's traffic is limited for a while (`bytes_per_second = 200`, `for = \"8s\"`)",
};

/// Limits it now, and lifts the limit later.
pub(super) fn strike(faults: &Arc<Faults>, fault: u32, instance: u32, rate: u64, for_ns: u64) {
    let long = Duration::from_nanos(for_ns);
    faults.began(
        fault,
        format!("{rate} bytes a second pass to and from instance {instance} for {long:?}"),
    );
    let limit = Rule::new(Action::Bandwidth(rate)).about(Filter::instance(instance));
    let limits = OnLinks::lay(faults, &limit);
    let all = Arc::clone(faults);
    faults.spawn(async move {
        let proof = async {
            limits.applied_on_each().await;
            let (links, pieces) = (limits.applied().0, limits.hits());
            format!(
                "{pieces} pieces between instance {instance} and {links} servers passed at {rate} \
                 bytes a second by now"
            )
        };
        window(&all, fault, long, proof).await;
        // Recorded first: what passes then comes after it.
        all.ended(fault);
        drop(limits);
    });
}
