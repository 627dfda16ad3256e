//! The faults that strike one instance, or a worker of it.

use std::sync::Arc;

use super::{Faults, block_executor, cancel, client_clock, crash, freeze, stall_watchdog};
use crate::scenario::InstanceFault;

/// Strikes an instance, by what one of its workers has reached or seen.
pub(super) fn strike(
    faults: &Arc<Faults>,
    fault: u32,
    (instance, worker): (u32, u32),
    how: InstanceFault,
) {
    match how {
        InstanceFault::Freeze { for_ns } => freeze::strike(faults, fault, instance, for_ns),
        InstanceFault::BlockExecutor { for_ns } => {
            block_executor::strike(faults, fault, instance, for_ns);
        }
        InstanceFault::Crash => crash::strike(faults, fault, instance),
        InstanceFault::StallWatchdog { for_ns } => {
            stall_watchdog::strike(faults, fault, instance, for_ns);
        }
        InstanceFault::Cancel { which } => cancel::strike(faults, fault, worker, which),
        InstanceFault::ClientClock { by_ns, for_ns } => {
            client_clock::strike(faults, fault, instance, by_ns, for_ns);
        }
    }
}
