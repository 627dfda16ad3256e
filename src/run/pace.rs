//! Lets operations start when they are planned to (open loop), whoever is free. A thread of its own
//! keeps the time: the runtime's timers are a millisecond coarse, which is longer than most locks
//! take. What is late is started at once, and keeps the time for which it was planned.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::clock::{Clock, Time};
use crate::history::OpId;
use crate::scenario::pace::Schedule;

/// How long the thread sleeps at most, to see that nobody needs it any more.
const LOOK: Duration = Duration::from_millis(50);
/// More than there are workers: with so many each one hears that nothing is left.
const EVERYBODY: usize = 1 << 20;

/// The planned starts of a run.
#[derive(Debug)]
pub(super) struct Pace {
    schedule: Arc<Schedule>,
    origin: Time,
    /// One permit for each start that is due and that nobody has taken.
    due: Arc<Semaphore>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pace {
    /// Starts the schedule now. It ends after `most` operations at the latest.
    pub(super) fn start(schedule: Schedule, most: Option<u64>, clock: Clock) -> Pace {
        let schedule = Arc::new(schedule);
        let due = Arc::new(Semaphore::new(0));
        let over = Arc::new(AtomicBool::new(false));
        let origin = clock.now();
        let keeper = Keeper {
            schedule: Arc::clone(&schedule),
            all: most.unwrap_or(u64::MAX).min(schedule.len()),
            origin,
            clock,
            due: Arc::clone(&due),
            over: Arc::clone(&over),
        };
        Pace {
            schedule,
            origin,
            due,
            over,
            thread: Some(std::thread::spawn(move || keeper.keep())),
        }
    }

    /// Waits until a start is due that nobody else takes. None when the run stops.
    pub(super) async fn due(&self) -> Option<()> {
        let permit = self.due.acquire().await.ok()?;
        permit.forget();
        Some(())
    }

    /// When the operation of that number is planned to start.
    pub(super) fn planned(&self, op: OpId) -> Time {
        self.origin.plus(self.schedule.due(op))
    }

    /// Has nobody wait any more.
    pub(super) fn stop(&self) {
        self.over.store(true, Ordering::Relaxed);
        self.due.close();
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It only sleeps and counts; if it has panicked, there is nothing of it to save.
            let _ = thread.join();
        }
    }
}

/// What the thread knows.
struct Keeper {
    schedule: Arc<Schedule>,
    all: u64,
    origin: Time,
    clock: Clock,
    due: Arc<Semaphore>,
    over: Arc<AtomicBool>,
}

impl Keeper {
    fn keep(self) {
        let mut released = 0;
        while released < self.all {
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            let since = self.clock.now().since(self.origin);
            let due = self.schedule.due_by(since).min(self.all);
            if due > released {
                self.due.add_permits((due - released) as usize);
                released = due;
                continue;
            }
            let wait = self.schedule.due(released).saturating_sub(since);
            std::thread::park_timeout(wait.min(LOOK));
        }
        // Who waits now is to ask, and hears that there is no more.
        self.due.add_permits(EVERYBODY);
    }
}
