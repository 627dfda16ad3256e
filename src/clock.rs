//! The run's one monotonic clock. Every time in a history is read here, so that two times can be
//! compared without asking whose clock they come from. Touches nothing but the operating system.

mod local;

use std::time::{Duration, Instant};

pub use local::{LocalClock, LocalTime};
use serde::{Deserialize, Serialize};

/// A moment of a run: nanoseconds since its clock was started.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Time(pub u64);

impl Time {
    /// The moment `later` after this one.
    pub fn plus(self, later: Duration) -> Time {
        Time(self.0.saturating_add(nanos(later)))
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Seconds since the start of the run, for people.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

/// The whole nanoseconds of a duration; 584 years are enough for a run.
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A monotonic clock that starts at zero. Copies of it agree.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock that reads zero now.
    pub fn start() -> Clock {
        Clock {
            origin: Instant::now(),
        }
    }

    /// The time now.
    pub fn now(&self) -> Time {
        Time(nanos(self.origin.elapsed()))
    }

    /// Waits for a while. Like all waiting in a run it passes here and never blocks a thread.
    pub async fn sleep(self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    /// Waits until a moment of this clock.
    pub async fn sleep_until(self, at: Time) {
        tokio::time::sleep_until((self.origin + Duration::from_nanos(at.0)).into()).await;
    }
}
