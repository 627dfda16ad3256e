//! How late the driver itself is: all instances share its threads, so its lag is a pause that
//! nobody planned. What it does to a lock must not be blamed on the lock.

use std::time::Duration;

use crate::clock::{Clock, nanos};
use crate::history::Recorder;
use crate::history::event::Kind;

/// How often the driver looks at its own lateness.
const TICK: Duration = Duration::from_millis(5);
/// The least lag that is recorded; timers are a millisecond coarse.
const LEAST: Duration = Duration::from_millis(5);

/// Records each lag of the driver that is worth a fiftieth of the TTL.
pub async fn watch(recorder: Recorder, ttl: Duration) {
    let clock = recorder.clock();
    let worth = LEAST.max(ttl / 50);
    loop {
        let late = lateness(clock).await;
        if late >= worth {
            recorder.record(Kind::DriverLag {
                late_ns: nanos(late),
            });
        }
    }
}

/// Sleeps one tick and tells how much too long that took.
async fn lateness(clock: Clock) -> Duration {
    let due = clock.now().plus(TICK);
    clock.sleep_until(due).await;
    clock.now().since(due)
}

/// The machine's jitter, measured now: the worst lateness of a few ticks.
pub async fn measure() -> Duration {
    let clock = Clock::start();
    let mut worst = Duration::ZERO;
    for _ in 0..20 {
        worst = worst.max(lateness(clock).await);
    }
    worst
}
