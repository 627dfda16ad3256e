//! When nobody was answered: the outages of the lock's servers, as their clients saw them.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::{Time, nanos};

/// How long nobody must have been answered, while somebody asked, for it to be an outage.
const LEAST: Duration = Duration::from_millis(250);
/// How many are kept; all are counted.
const KEPT: usize = 100;

/// A time in which nobody who asked for the lock was granted or refused it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Outage {
    /// Since when, in nanoseconds of the run: the last answer, or the first question after it.
    pub from_ns: u64,
    /// For how long.
    pub for_ns: u64,
    /// Questions that failed or were answered by nothing meanwhile.
    pub errors: u64,
}

/// All of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Silence {
    /// How many.
    pub count: u64,
    /// How long they were together.
    pub total_ns: u64,
    /// The first of them, up to a hundred.
    pub outages: Vec<Outage>,
}

/// The fold.
#[derive(Debug, Clone, Default)]
pub(super) struct Outages {
    over: Silence,
    /// Questions that are not answered yet.
    asking: u64,
    /// Operations that want the lock, and may be between two questions.
    wanting: u64,
    /// Since when nobody was answered.
    since: Time,
    errors: u64,
    /// Since when nobody wants the lock, while nobody does.
    quiet: Time,
    /// How long nobody wanted it since then, apart from short pauses between two operations.
    idle: Duration,
}

impl Outages {
    /// An operation has come for the lock.
    pub(super) fn came(&mut self, at: Time) {
        self.idle += self.idle_by(at);
        self.wanting += 1;
    }

    /// One has it, or has given up.
    pub(super) fn went(&mut self, at: Time) {
        self.wanting = self.wanting.saturating_sub(1);
        self.rests(at);
    }

    fn rests(&mut self, at: Time) {
        if self.asking == 0 && self.wanting == 0 {
            self.quiet = at;
        }
    }

    pub(super) fn asked(&mut self, at: Time) {
        self.idle += self.idle_by(at);
        if self.asking == 0 {
            self.excused(at);
        }
        self.asking += 1;
    }

    /// Granted or refused.
    pub(super) fn answered(&mut self, at: Time) {
        if let Some(outage) = self.at(at) {
            self.over.add(outage);
        }
        self.errors = 0;
        self.excused(at);
        self.forgotten(at);
    }

    /// Failed, or answered by nothing.
    pub(super) fn erred(&mut self, at: Time) {
        self.forgotten(at);
        self.errors += 1;
    }

    /// Nobody waits for this answer any more.
    pub(super) fn forgotten(&mut self, at: Time) {
        self.asking = self.asking.saturating_sub(1);
        self.rests(at);
    }

    /// There is a reason other than the servers' why nobody was answered until now.
    pub(super) fn excused(&mut self, at: Time) {
        if self.errors == 0 {
            self.since = at;
            self.idle = Duration::ZERO;
        }
    }

    /// The driver itself stood still.
    pub(super) fn lagged(&mut self, at: Time, late_ns: u64) {
        if late_ns >= nanos(LEAST) {
            self.excused(at);
        }
    }

    /// All that there were by `now`, one that goes on with them.
    pub(super) fn by(&self, now: Time) -> Silence {
        let mut all = self.over.clone();
        if (self.asking > 0 || self.errors > 0)
            && let Some(outage) = self.at(now)
        {
            all.add(outage);
        }
        all
    }

    /// For how long somebody has asked, and nobody was answered.
    pub(super) fn lasting(&self, now: Time) -> Duration {
        match self.asking > 0 || self.errors > 0 {
            true => self.silent(now),
            false => Duration::ZERO,
        }
    }

    /// How long nobody has wanted the lock by now, if that is more than a pause between two operations.
    fn idle_by(&self, now: Time) -> Duration {
        let quiet = now.since(self.quiet);
        match self.asking == 0 && self.wanting == 0 && quiet >= LEAST {
            true => quiet,
            false => Duration::ZERO,
        }
    }

    fn silent(&self, now: Time) -> Duration {
        let idle = self.idle + self.idle_by(now);
        now.since(self.since).saturating_sub(idle)
    }

    fn at(&self, now: Time) -> Option<Outage> {
        let silent = self.silent(now);
        (silent >= LEAST).then_some(Outage {
            from_ns: self.since.0,
            for_ns: nanos(silent),
            errors: self.errors,
        })
    }
}

impl Silence {
    fn add(&mut self, outage: Outage) {
        self.count += 1;
        self.total_ns += outage.for_ns;
        if self.outages.len() < KEPT {
            self.outages.push(outage);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn who_asks_and_is_not_answered_for_long_sees_an_outage() {
        let mut seen = Outages::default();
        seen.asked(Time(0));
        seen.answered(Time(10 * MS));
        // Nobody asked: no outage.
        seen.asked(Time(900 * MS));
        seen.answered(Time(901 * MS));
        assert_eq!(seen.by(Time(9_000 * MS)).count, 0);
        seen.asked(Time(1_000 * MS));
        assert_eq!(seen.by(Time(1_900 * MS)).total_ns, 900 * MS);
        seen.erred(Time(2_400 * MS));
        // A failure that comes at once does not end it.
        seen.asked(Time(2_500 * MS));
        seen.answered(Time(3_000 * MS));
        let outage = Outage {
            from_ns: 1_000 * MS,
            for_ns: 2_000 * MS,
            errors: 1,
        };
        assert_eq!(seen.by(Time(3_100 * MS)).outages, [outage]);
    }

    #[test]
    fn a_time_in_which_nobody_asked_is_no_outage_whatever_failed_before() {
        let mut seen = Outages::default();
        seen.asked(Time(0));
        seen.erred(Time(MS));
        assert_eq!(seen.lasting(Time(9_000 * MS)), Duration::from_millis(1));
        seen.asked(Time(9_000 * MS));
        seen.answered(Time(9_001 * MS));
        assert_eq!(seen.by(Time(9_001 * MS)).count, 0);
        // Who waits for his next turn to ask wants the lock all the same.
        seen.came(Time(9_100 * MS));
        seen.asked(Time(9_100 * MS));
        seen.erred(Time(9_100 * MS));
        assert_eq!(seen.lasting(Time(9_900 * MS)), Duration::from_millis(800));
        seen.asked(Time(9_900 * MS));
        seen.answered(Time(9_900 * MS));
        seen.went(Time(9_900 * MS));
        assert_eq!(seen.by(Time(9_900 * MS)).count, 1);
        // Questions that fail at once, one soon after the other, are one outage.
        for at in 0..20 {
            seen.asked(Time((10_000 + at * 100) * MS));
            seen.erred(Time((10_000 + at * 100) * MS));
        }
        seen.asked(Time(12_000 * MS));
        seen.answered(Time(12_000 * MS));
        let outage = Outage {
            from_ns: 10_000 * MS,
            for_ns: 2_000 * MS,
            errors: 20,
        };
        assert_eq!(seen.by(Time(12_000 * MS)).outages[1..], [outage]);
    }

    #[test]
    fn a_driver_that_stood_still_is_no_outage() {
        let mut seen = Outages::default();
        seen.asked(Time(0));
        seen.lagged(Time(900 * MS), 900 * MS);
        seen.answered(Time(901 * MS));
        assert_eq!(seen.by(Time(901 * MS)).count, 0);
    }
}
