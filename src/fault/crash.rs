//! `crash`: an instance's process dies. Its workers, watchdogs and connections are gone at once;
//! what it had sent may still be applied.

use std::sync::Arc;

use super::{Entry, Faults};

pub(super) const ENTRY: Entry = Entry {
    name: "crash",
    about: "an instance's process dies, with its watchdogs and connections",
};

/// Ends the instance. It records its own `crashed` when it is gone.
pub(super) fn strike(faults: &Arc<Faults>, fault: u32, instance: u32) {
    faults.began(fault, format!("crash of instance {instance}"));
    // A second crash of a dead instance proves nothing.
    if faults.instances.crash(instance) {
        faults.landed(
            fault,
            format!("instance {instance} is dropped, connections closed"),
        );
    }
    faults.ended(fault);
}
