//! How operations came to their ends: each one begun is counted once and no more.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::history::event::{Effect, GiveUp};

/// Operations, and what they asked for, by outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Operations begun.
    pub operations: u64,
    /// Attempts to acquire.
    pub attempts: u64,
    /// Attempts granted.
    pub granted: u64,
    /// Attempts refused because another held the lock.
    pub denied: u64,
    /// Attempts that failed and changed nothing.
    pub failed: u64,
    /// Attempts that may have been applied.
    pub unknown: u64,
    /// Operations that ended without the lock.
    pub gave_up: u64,
    /// Leases extended.
    pub renewed: u64,
    /// Releases answered.
    pub released: u64,
    /// Operations of which the release alone failed, or was answered by nothing.
    #[serde(default)]
    pub release_errors: u64,
}

/// Operations by their ends. All but `rows` add up to `issued`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Outcomes {
    /// Begun.
    pub issued: u64,
    /// Had the lock, and their write landed.
    pub completed: u64,
    /// Ended without the lock, which another held when they asked last.
    pub gave_up: u64,
    /// Ended without the lock: what they asked last failed and changed nothing.
    pub failed: u64,
    /// Ended without the lock: what they asked last was answered by nothing.
    pub unknown: u64,
    /// Still waited for the lock, which another held when they asked last, when the run ended.
    pub run_ended: u64,
    /// Had the lock, and the store's guard refused their write.
    pub rejected: u64,
    /// Had the lock, and withheld their write because their lease was lost.
    pub withheld: u64,
    /// Had the lock, and found nothing to do.
    pub idle: u64,
    /// Had the lock, and the store failed.
    pub store_failed: u64,
    /// Never came to an end: their instance crashed, or was cut off when the run ended.
    pub unfinished: u64,
    /// Rows that all of them wrote: as many as the ledger shows.
    pub rows: u64,
}

/// What an operation's last question was answered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Answer {
    #[default]
    Denied,
    Failed,
    Unknown,
}

/// What became of an operation's write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Fate {
    /// It did not write.
    #[default]
    Idle,
    Landed,
    Rejected,
    Withheld,
    StoreFailed,
}

impl Fate {
    pub(super) fn of(effect: &Effect) -> Fate {
        match effect {
            Effect::Written { rows: 0, .. } => Fate::Rejected,
            Effect::Written { .. } => Fate::Landed,
            Effect::Withheld => Fate::Withheld,
        }
    }
}

impl Outcomes {
    /// An operation ended without the lock.
    pub(super) fn gave_up(&mut self, why: GiveUp, last: Answer) {
        *match (why, last) {
            (GiveUp::Cancelled, _) | (_, Answer::Unknown) => &mut self.unknown,
            (_, Answer::Failed) => &mut self.failed,
            (GiveUp::RunEnded, Answer::Denied) => &mut self.run_ended,
            (GiveUp::Policy, Answer::Denied) => &mut self.gave_up,
        } += 1;
    }

    /// An operation that had the lock ended.
    pub(super) fn held(&mut self, fate: Fate) {
        *match fate {
            Fate::Idle => &mut self.idle,
            Fate::Landed => &mut self.completed,
            Fate::Rejected => &mut self.rejected,
            Fate::Withheld => &mut self.withheld,
            Fate::StoreFailed => &mut self.store_failed,
        } += 1;
    }

    /// Operations that did not get the lock, or not the store, because of an error. (Those of which
    /// the release alone failed are [`Counts::release_errors`].)
    pub fn errors(&self) -> u64 {
        self.failed + self.unknown + self.store_failed
    }

    /// All ends together.
    pub fn ended(&self) -> u64 {
        self.without_lock()
            + self.completed
            + self.rejected
            + self.withheld
            + self.idle
            + self.store_failed
            + self.unfinished
    }

    fn without_lock(&self) -> u64 {
        self.gave_up + self.failed + self.unknown + self.run_ended
    }
}
