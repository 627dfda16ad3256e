//! `client-clock`: the clock of an instance jumps, as when its host's clock is set, and by it all
//! that its locks read off a clock: a validity, and when the next renewal is due. What the driver
//! measures goes by its own clock. A lock that reads no clock is not struck.
//! (<https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html>, "making assumptions
//! about timing".)

use std::sync::Arc;
use std::time::Duration;

use super::clock_jump::signed;
use super::on_links::{LOOK, until, window};
use super::{Entry, Faults};
use crate::clock::LocalClock;

pub(super) const ENTRY: Entry = Entry {
    name: "client-clock",
    about: "an instance's clock jumps (`by = \"-40s\"`), for a while (`for`) or for good",
};

/// Sets a clock right again when dropped.
struct Moved {
    clock: LocalClock,
    by_ns: i64,
}

impl Drop for Moved {
    fn drop(&mut self) {
        self.clock.jump(-self.by_ns);
    }
}

/// Moves it, and back after a while, if it is for one. The proof is that a lock has read it since.
pub(super) fn strike(
    faults: &Arc<Faults>,
    fault: u32,
    instance: u32,
    by_ns: i64,
    for_ns: Option<u64>,
) {
    let by = signed(by_ns);
    faults.began(
        fault,
        format!("the clock of instance {instance} jumps by {by}"),
    );
    let clock = faults.clock(instance).clone();
    // Who waits for a time is told of the jump, and reads it again.
    let before = clock.reads();
    clock.jump(by_ns);
    let all = Arc::clone(faults);
    let proof = format!("a lock of instance {instance} read a clock that is off by {by}");
    let Some(for_ns) = for_ns else {
        faults.spawn(until(all, move |faults| {
            let read = clock.reads() > before;
            if read {
                faults.landed(fault, proof.clone());
                faults.ended(fault);
            }
            read
        }));
        return;
    };
    faults.spawn(async move {
        let moved = Moved { clock, by_ns };
        let read = async {
            while moved.clock.reads() == before {
                tokio::time::sleep(LOOK).await;
            }
            proof
        };
        window(&all, fault, Duration::from_nanos(for_ns), read).await;
        drop(moved);
        all.ended(fault);
    });
}
