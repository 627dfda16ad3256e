//! `freeze`: an instance stands still for a while, its watchdogs too, as in a stop-the-world pause
//! of a garbage collector or a paused virtual machine. Time and the server go on.

use std::sync::Arc;
use std::time::Duration;

use super::{Entry, Faults};
use crate::history::event::Kind;

pub(super) const ENTRY: Entry = Entry {
    name: "freeze",
    about: "an instance stands still for a while, its watchdogs too (`for = \"8s\"`)",
};

/// Freezes the instance now and thaws it later.
pub(super) fn strike(faults: &Arc<Faults>, fault: u32, instance: u32, for_ns: u64) {
    let long = Duration::from_nanos(for_ns);
    faults.began(fault, format!("freeze of instance {instance} for {long:?}"));
    stand_still(faults, fault, instance, long);
}

/// An instance that makes no progress, until this is dropped.
struct Still {
    faults: Arc<Faults>,
    fault: u32,
    instance: u32,
    planned: Duration,
    /// How often it had wanted to move before.
    before: u64,
    over: bool,
}

/// Keeps an instance from making any progress for so long. The proof is that it wanted to.
pub(super) fn stand_still(faults: &Arc<Faults>, fault: u32, instance: u32, planned: Duration) {
    let mut times = faults.grip(instance).still();
    *times += 1;
    if *times == 1 {
        faults.instances.freeze(instance);
        faults.recorder.record(Kind::Frozen { instance });
    }
    let before = faults.instances.wakes(instance);
    drop(times);
    let mut still = Still {
        faults: Arc::clone(faults),
        fault,
        instance,
        planned,
        before,
        over: false,
    };
    let clock = faults.recorder.clock();
    let until = clock.now().plus(planned);
    faults.spawn(async move {
        clock.sleep_until(until).await;
        still.end(true);
    });
}

impl Still {
    fn end(&mut self, in_full: bool) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let (faults, instance) = (&self.faults, self.instance);
        let mut times = faults.grip(instance).still();
        *times -= 1;
        let wakes = faults.instances.wakes(instance) - self.before;
        if *times == 0 {
            // Recorded first: what the instance does next comes after it.
            faults.recorder.record(Kind::Thawed { instance });
            faults.instances.thaw(instance);
        }
        drop(times);
        // An instance that did not once want to move may have been idle: no proof.
        if in_full && wakes > 0 {
            let proof = format!(
                "instance {instance} wanted to move {wakes} times within {:?} and did not",
                self.planned
            );
            faults.landed(self.fault, proof);
        }
        faults.ended(self.fault);
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        self.end(false);
    }
}
