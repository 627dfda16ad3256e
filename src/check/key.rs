//! What is going on at a lock's key: who holds it, who may have removed it, who may have left it
//! behind.

use std::collections::VecDeque;

use super::finding::Cause;
use crate::clock::Time;
use crate::history::OpId;

/// A release that may have removed another's lock: its own may have been gone by then.
#[derive(Debug, Clone, Copy)]
pub struct Removal {
    /// Who asked for it.
    pub op: OpId,
    /// When it was asked for.
    pub asked: Time,
    /// By when the server has acted on it.
    pub answered: Time,
    /// Whether the releaser's own lock was gone by the driver's lag.
    pub by_lag: bool,
}

impl Removal {
    /// The cause that it is to the one whose lock it removed.
    pub fn cause(&self) -> Cause {
        match self.by_lag {
            true => Cause::DriverLag,
            false => Cause::ForeignRelease,
        }
    }
}

/// Somebody lost its lock to the driver's own lag. Removals of each other's locks that follow are
/// that lag's doing too: without it nobody would have been beside another.
#[derive(Debug, Clone, Copy)]
pub struct Upset {
    /// When nobody held the key any more, if that was so since.
    pub freed: Option<Time>,
}

impl Upset {
    /// Whether it still concerns who asked for the lock at that time.
    pub fn concerns(&self, asked: Time) -> bool {
        self.freed.is_none_or(|freed| asked < freed)
    }
}

/// What is going on at a key.
#[derive(Debug, Default)]
pub struct Key {
    /// Operations that were granted its lock, or are in its section, and have not ended; the
    /// oldest grant first.
    pub holders: Vec<OpId>,
    /// Since when nobody alive holds the lock, if nobody does.
    pub vacant_since: Option<Time>,
    /// Since when nobody alive had held it when it was granted last, if nobody did.
    pub was_vacant_since: Option<Time>,
    /// When, and why, somebody may have left the key behind that will not release it.
    pub left_behind: Option<(Time, Cause)>,
    /// The last releases that may have removed another's lock.
    pub removals: VecDeque<Removal>,
    /// When the server last evicted it.
    pub evicted: VecDeque<Time>,
    /// When the server last said that its time to live had run out.
    pub expired: VecDeque<Time>,
    /// The last upset by the driver's own lag.
    pub upset: Option<Upset>,
}

impl Key {
    /// Somebody may have left the key behind; if nobody else holds it, it is vacant from then on.
    pub fn leave_behind(&mut self, at: Time, cause: Cause) {
        self.left_behind = Some((at, cause));
        if self.holders.is_empty() {
            self.vacant_since = Some(at);
        }
    }

    /// Why nobody can get in although nobody alive holds the lock, where the history tells.
    pub fn why_vacant(&self) -> Option<Cause> {
        self.left_behind.map(|(_, cause)| cause)
    }

    /// An operation holds it no more; if nobody else does, it is vacant from then on.
    pub fn leaves(&mut self, op: OpId, at: Time) {
        let held = self.holders.contains(&op);
        self.holders.retain(|holder| *holder != op);
        if held && self.holders.is_empty() {
            self.vacant_since = Some(at);
            if let Some(upset) = &mut self.upset {
                upset.freed.get_or_insert(at);
            }
        }
    }
}
