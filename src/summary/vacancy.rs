//! How long nobody was in a section: for a lock that elects a leader, how long nobody led.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::Time;
use crate::history::OpId;

/// How long nobody was in a section, from the first entry to the last end of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Vacancy {
    /// In all, in nanoseconds.
    pub total_ns: u64,
    /// At a time, in nanoseconds.
    pub longest_ns: u64,
}

/// The fold.
#[derive(Debug, Default)]
pub(super) struct Sections {
    inside: BTreeSet<OpId>,
    /// Since when nobody is in a section; absent while somebody is, and before anybody was.
    vacant_since: Option<Time>,
    vacancy: Vacancy,
}

impl Sections {
    pub(super) fn enter(&mut self, op: OpId, at: Time) {
        self.inside.insert(op);
        if let Some(since) = self.vacant_since.take() {
            let vacant = at.0 - since.0;
            self.vacancy.total_ns += vacant;
            self.vacancy.longest_ns = self.vacancy.longest_ns.max(vacant);
        }
    }

    pub(super) fn leave(&mut self, at: Time, who: impl Fn(OpId) -> bool) {
        let before = self.inside.len();
        self.inside.retain(|op| !who(*op));
        if self.inside.is_empty() && before > 0 {
            self.vacant_since = Some(at);
        }
    }

    /// A vacancy counts when the next one enters: what comes after the last section is the run's
    /// end.
    pub(super) fn vacancy(&self) -> Vacancy {
        self.vacancy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::event::{Event, Kind};
    use crate::summary::Summary;

    fn told(events: impl IntoIterator<Item = (u64, Kind)>) -> Vacancy {
        let mut summary = Summary::default();
        for (at, event) in events {
            let at_ns = Time(at);
            summary.event(&Event { at_ns, event });
        }
        summary.vacancy()
    }

    fn arrived(op: OpId) -> Kind {
        let instance = op as u32;
        Kind::Arrived {
            op,
            instance,
            worker: instance,
            key: 0,
            planned_ns: None,
        }
    }

    fn vacancy(total_ns: u64, longest_ns: u64) -> Vacancy {
        Vacancy {
            total_ns,
            longest_ns,
        }
    }

    #[test]
    fn nobody_acts_from_the_last_end_to_the_next_entry() {
        let (entered, left) = (|op| Kind::Entered { op }, |op| Kind::Left { op });
        let alone = [
            (5, arrived(1)),
            (10, entered(1)),
            (20, left(1)),
            (23, entered(2)),
            (30, left(2)),
            (50, entered(3)),
            (60, left(3)),
            (99, Kind::Ended {}),
        ];
        assert_eq!(told(alone), vacancy(23, 20));
        let beside_one_another = [
            (10, entered(1)),
            (15, entered(2)),
            (20, left(1)),
            (30, left(2)),
            (31, entered(3)),
        ];
        assert_eq!(told(beside_one_another), vacancy(1, 1));
    }

    #[test]
    fn who_crashed_in_his_section_acts_no_more() {
        let crashed = |instance| Kind::Crashed { instance };
        let events = [
            (0, arrived(1)),
            (0, arrived(2)),
            (10, Kind::Entered { op: 1 }),
            // Nobody of that one was in a section.
            (12, crashed(2)),
            (20, crashed(1)),
            (70, Kind::Entered { op: 3 }),
        ];
        assert_eq!(told(events), vacancy(50, 50));
        assert_eq!(told([]), Vacancy::default());
    }
}
