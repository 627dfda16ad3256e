//! What a run has of each instance for its faults to hold on to: how often it stands still, its
//! watchdogs, its clock, how many sections it has left.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::clock::{Clock, LocalClock};

/// One instance.
#[derive(Debug)]
pub(super) struct Grip {
    /// How many faults keep it from making any progress.
    // A std mutex and not tokio's: it is held to freeze or to thaw, never across an await.
    still: Mutex<u32>,
    /// Its watchdogs.
    pub(super) watchdogs: Stall,
    /// What its locks take for the time.
    pub(super) clock: LocalClock,
    /// How many sections it has left.
    pub(super) left: AtomicU64,
}

impl Grip {
    pub(super) fn new(clock: Clock) -> Grip {
        Grip {
            still: Mutex::default(),
            watchdogs: Stall::default(),
            clock: clock.into(),
            left: AtomicU64::new(0),
        }
    }

    pub(super) fn still(&self) -> MutexGuard<'_, u32> {
        self.still.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps those back who pass here, while it is told to.
#[derive(Debug, Default)]
pub(super) struct Stall {
    stalls: watch::Sender<u32>,
    kept_back: AtomicU64,
}

impl Stall {
    /// Keeps everybody back once more (true), or once less.
    pub(super) fn keep_back(&self, more: bool) {
        self.stalls.send_modify(|stalls| match more {
            true => *stalls += 1,
            false => *stalls -= 1,
        });
    }

    /// How many were kept back so far.
    pub(super) fn kept_back(&self) -> u64 {
        self.kept_back.load(Ordering::Relaxed)
    }

    /// Passes, when nobody is kept back any more.
    pub(super) async fn pass(&self) {
        if *self.stalls.borrow() == 0 {
            return;
        }
        self.kept_back.fetch_add(1, Ordering::Relaxed);
        // It cannot fail: the sender lives as long as this.
        let _ = self
            .stalls
            .subscribe()
            .wait_for(|stalls| *stalls == 0)
            .await;
    }
}
