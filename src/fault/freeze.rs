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

/// Thaws its instance when dropped, whatever ended the wait.
struct Frozen {
    faults: Arc<Faults>,
    fault: u32,
    instance: u32,
    planned: Duration,
    thawed: bool,
}

/// Freezes the instance now and thaws it later.
pub(super) fn strike(faults: &Arc<Faults>, fault: u32, instance: u32, for_ns: u64) {
    let planned = Duration::from_nanos(for_ns);
    faults.began(
        fault,
        format!("freeze of instance {instance} for {planned:?}"),
    );
    faults.instances.freeze(instance);
    faults.recorder.record(Kind::Frozen { instance });
    let mut guard = Frozen {
        faults: Arc::clone(faults),
        fault,
        instance,
        planned,
        thawed: false,
    };
    let clock = faults.recorder.clock();
    let until = clock.now().plus(planned);
    tokio::spawn(async move {
        clock.sleep_until(until).await;
        guard.thaw(true);
    });
}

impl Frozen {
    fn thaw(&mut self, in_full: bool) {
        if std::mem::replace(&mut self.thawed, true) {
            return;
        }
        let (faults, instance) = (&self.faults, self.instance);
        // Recorded first: what the instance does next comes after it.
        faults.recorder.record(Kind::Thawed { instance });
        let wakes = faults.instances.thaw(instance);
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

impl Drop for Frozen {
    fn drop(&mut self) {
        self.thaw(false);
    }
}
