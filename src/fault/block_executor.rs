//! `block-executor`: one task of an instance computes for a while without giving way, and its
//! executor polls nobody else: the classic blocking call in an asynchronous handler. Timers fire and
//! answers arrive, and are not looked at.
//!
//! For a lock this is a `freeze`, and it is made and recorded as one: its sections, watchdogs and
//! time-outs stand still together, and the server goes on. What differs lies outside: other
//! processes on the machine, and threads of this one without a part in the lock, go on; here the
//! sockets are read meanwhile, so that answers are heard at once afterwards. A lock whose watchdog
//! has a thread of its own is not struck by it, but none of these locks has.

use std::sync::Arc;
use std::time::Duration;

use super::freeze::stand_still;
use super::{Entry, Faults};

pub(super) const ENTRY: Entry = Entry {
    name: "block-executor",
    about: "a task of an instance computes and lets nobody else of it go on (`for = \"8s\"`)",
};

/// Blocks the instance's executor now and gives it free later.
pub(super) fn strike(faults: &Arc<Faults>, fault: u32, instance: u32, for_ns: u64) {
    let long = Duration::from_nanos(for_ns);
    faults.began(
        fault,
        format!(
            "a task of instance {instance} blocks its executor for {long:?}: for its locks, a freeze"
        ),
    );
    stand_still(faults, fault, instance, long);
}
