//! How late the driver itself is: instances share its threads, so its lag is a pause that nobody
//! planned. What it does to a lock must not be blamed on the lock. The driver as a whole is looked
//! at, and each instance for itself: one thread can stand still while the others go on.

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
    record(recorder, ttl, TICK, None).await;
}

/// The same for one instance, to be polled with it. It looks less often, for there are many; a lag
/// that matters is longer.
pub async fn watch_instance(recorder: Recorder, ttl: Duration, instance: u32) {
    record(recorder, ttl, TICK.max(ttl / 16), Some(instance)).await;
}

async fn record(recorder: Recorder, ttl: Duration, tick: Duration, instance: Option<u32>) {
    let clock = recorder.clock();
    let worth = LEAST.max(ttl / 50);
    loop {
        let late = lateness(clock, tick).await;
        if late >= worth {
            let late_ns = nanos(late);
            recorder.record(Kind::DriverLag { late_ns, instance });
        }
    }
}

/// Sleeps one tick and tells how much too long that took.
async fn lateness(clock: Clock, tick: Duration) -> Duration {
    let due = clock.now().plus(tick);
    clock.sleep_until(due).await;
    clock.now().since(due)
}

/// The machine's jitter, measured now: the worst lateness of a few ticks.
pub async fn measure() -> Duration {
    let clock = Clock::start();
    let mut worst = Duration::ZERO;
    for _ in 0..20 {
        worst = worst.max(lateness(clock, TICK).await);
    }
    worst
}
