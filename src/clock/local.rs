//! The clock of one instance, which a fault can move. What its locks read is read here; what the
//! driver measures is not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use super::{Clock, Time, nanos};

/// What an instance's clock shows. A type of its own, so that it is never taken for a moment of the
/// run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalTime(i64);

impl LocalTime {
    /// What the clock shows so much later.
    pub fn plus(self, later: Duration) -> LocalTime {
        LocalTime(self.0.saturating_add_unsigned(nanos(later)))
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    pub fn since(self, earlier: LocalTime) -> Duration {
        let ns = self.0.saturating_sub(earlier.0);
        Duration::from_nanos(u64::try_from(ns).unwrap_or(0))
    }
}

/// An instance's clock. Copies of it agree.
#[derive(Debug, Clone)]
pub struct LocalClock {
    clock: Clock,
    /// How far it is ahead of the run's.
    ahead: Arc<watch::Sender<i64>>,
    reads: Arc<AtomicU64>,
}

impl From<Clock> for LocalClock {
    /// One that shows the right time.
    fn from(clock: Clock) -> LocalClock {
        LocalClock {
            clock,
            ahead: Arc::new(watch::Sender::new(0)),
            reads: Arc::default(),
        }
    }
}

impl LocalClock {
    /// What it shows now.
    pub fn now(&self) -> LocalTime {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let now = i64::try_from(self.clock.now().0).unwrap_or(i64::MAX);
        LocalTime(now.saturating_add(*self.ahead.borrow()))
    }

    /// The moment of the run at which it shows this, if it is not moved.
    pub fn moment(&self, at: LocalTime) -> Time {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let moment = at.0.saturating_sub(*self.ahead.borrow());
        Time(u64::try_from(moment).unwrap_or(0))
    }

    /// Waits until it shows this, however it is moved meanwhile.
    pub async fn sleep_until(&self, at: LocalTime) {
        let mut moved = self.ahead.subscribe();
        loop {
            tokio::select! {
                () = self.clock.sleep_until(self.moment(at)) => return,
                // It cannot fail: the sender lives as long as this.
                _ = moved.changed() => {}
            }
        }
    }

    /// Moves it, back if it is negative.
    pub fn jump(&self, by_ns: i64) {
        self.ahead
            .send_modify(|ahead| *ahead = ahead.saturating_add(by_ns));
    }

    /// How often it was read so far.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_for_a_time_hears_of_a_jump() {
        let clock = LocalClock::from(Clock::start());
        let hour = Duration::from_secs(3600);
        let due = clock.now().plus(hour);
        let waiting = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep_until(due).await }
        });
        tokio::task::yield_now().await;
        clock.jump(nanos(hour) as i64);
        waiting.await.expect("it is over at once");
    }

    #[test]
    fn a_jump_back_makes_a_time_come_later_and_is_not_the_drivers() {
        let run = Clock::start();
        let clock = LocalClock::from(run);
        let before = clock.now();
        clock.jump(-1_000_000_000);
        assert_eq!(clock.now().since(before), Duration::ZERO);
        let due = before.plus(Duration::from_secs(1));
        assert!(clock.moment(due).since(run.now()) > Duration::from_secs(1));
    }
}
