//! `stall-watchdog`: the watchdogs of an instance stand still for a while, and its sections go on:
//! as where the thread or timer that renews is starved, dead-locked, or dead.

use std::sync::Arc;
use std::time::Duration;

use super::{Entry, Faults};

pub(super) const ENTRY: Entry = Entry {
    name: "stall-watchdog",
    about: "only the watchdogs of an instance stand still, its sections go on (`for = \"8s\"`)",
};

/// Lets the watchdogs go on when dropped, whatever ended the wait.
struct Stalled {
    faults: Arc<Faults>,
    fault: u32,
    instance: u32,
    long: Duration,
    /// How many had been kept back before.
    before: u64,
    in_full: bool,
}

/// Keeps the watchdogs back now and lets them go on later. The proof is that some were due, or had
/// been answered, and did nothing.
pub(super) fn strike(faults: &Arc<Faults>, fault: u32, instance: u32, for_ns: u64) {
    let long = Duration::from_nanos(for_ns);
    faults.began(
        fault,
        format!("the watchdogs of instance {instance} stand still for {long:?}"),
    );
    let watchdogs = &faults.grip(instance).watchdogs;
    let before = watchdogs.kept_back();
    watchdogs.keep_back(true);
    let stalled = Stalled {
        faults: Arc::clone(faults),
        fault,
        instance,
        long,
        before,
        in_full: false,
    };
    let clock = faults.recorder.clock();
    let until = clock.now().plus(long);
    faults.spawn(async move {
        clock.sleep_until(until).await;
        stalled.end();
    });
}

impl Stalled {
    /// It was in force for as long as it was meant to be.
    fn end(mut self) {
        self.in_full = true;
    }
}

impl Drop for Stalled {
    fn drop(&mut self) {
        let watchdogs = &self.faults.grip(self.instance).watchdogs;
        let times = watchdogs.kept_back() - self.before;
        if self.in_full && times > 0 {
            let proof = format!(
                "{times} times a watchdog of instance {} was due within {:?} and did nothing",
                self.instance, self.long
            );
            self.faults.landed(self.fault, proof);
        }
        // Recorded first: what a watchdog does next comes after it.
        self.faults.ended(self.fault);
        watchdogs.keep_back(false);
    }
}
