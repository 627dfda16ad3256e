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
    /// Whether its watchdog has told it that the lease is lost.
    pub told_lost: bool,
    /// Why its section was not its own, if it was not.
    pub overlap: Option<Cause>,
    /// Why its own lock was gone before it released it, if it was.
    pub lost: Option<Cause>,
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
