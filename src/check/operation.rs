//! An operation that has not ended, as the checks see it.

use std::time::Duration;

use super::finding::{Cause, Role, Witness};
use super::grant::Grant;
use super::key::Removal;
use crate::clock::Time;
use crate::history::OpId;

/// An operation that has not ended.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Its number.
    pub op: OpId,
    /// Its instance.
    pub instance: u32,
    /// Its worker.
    pub worker: u32,
    /// The key of its lock.
    pub key: u32,
    /// When it last asked for the lock.
    pub asked: Option<Time>,
    /// Whether that was not yet answered.
    pub asking: bool,
    /// How it asks, while it waits.
    pub questions: Questions,
    /// Its grant.
    pub grant: Option<Grant>,
    /// When it entered its section.
    pub entered: Option<Time>,
    /// Whether it is in its section.
    pub in_section: bool,
    /// When its work began, and how long it was planned to take.
    pub work: Option<(Time, Duration)>,
    /// What it read.
    pub seen: Option<i64>,
    /// When it asked to release.
    pub release_asked: Option<Time>,
    /// Which server has given its last answer, as far as that was told; unknown again while it
    /// releases.
    pub answered_by: Option<String>,
    /// When its release was answered.
    pub released: Option<Time>,
    /// How its last attempt was answered, if not by a grant: true if it was refused, false if it
    /// failed.
    pub denied: Option<bool>,
    /// Whether it may have given its own lock back inside its section: it asked for it once more and
    /// was not granted it again, which a lock may undo altogether, or asked to release.
    pub undone_inside: bool,
    /// Whether its watchdog has told it that the lease is lost.
    pub told_lost: bool,
    /// Why its section was not its own, if it was not.
    pub overlap: Option<Cause>,
    /// Why its own lock was gone before it released it, if it was.
    pub lost: Option<Cause>,
}

/// A waiter's last questions in a row.
#[derive(Debug, Clone, Default)]
pub struct Questions {
    /// How many there are.
    pub asked: u32,
    /// When the first one of them was asked.
    pub since: Time,
    /// How often its key had been released by then.
    pub releases: u64,
    /// Whether it was told that there are too many.
    pub told: bool,
}

impl Operation {
    /// This operation as a witness.
    pub fn witness(&self, role: Role, at_ns: Time) -> Witness {
        Witness {
            op: self.op,
            instance: self.instance,
            worker: self.worker,
            role,
            at_ns,
        }
    }

    /// Whether it is in its section and has been granted the lock.
    pub fn holds_inside(&self) -> bool {
        self.in_section && self.grant.is_some()
    }

    /// Whether a release by another one may have removed its lock by some time.
    pub fn may_be_hit_by(&self, removal: &Removal, by: Time) -> bool {
        let granted = self.grant.as_ref().map(|grant| grant.asked);
        removal.op != self.op
            && removal.asked <= by
            && granted.is_some_and(|asked| removal.answered >= asked)
    }

    /// How it is called in sentences.
    pub fn name(&self) -> String {
        format!(
            "operation {} (instance {}, worker {})",
            self.op, self.instance, self.worker
        )
    }
}
