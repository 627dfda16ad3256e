//! What a trial did in numbers: operations by outcome, and how long they took. A fold over the
//! history, so a stored history gives the same numbers again.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::{Time, nanos};
use crate::history::OpId;
use crate::history::event::{Event, Kind};

/// Operations by outcome.
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
}

/// Quantiles of one latency, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Quantiles {
    /// How many were measured.
    pub count: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// How long nobody was in a section, from the first entry to the last end of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Vacancy {
    /// In all, in nanoseconds.
    pub total_ns: u64,
    /// At a time, in nanoseconds.
    pub longest_ns: u64,
}

/// The fold.
#[derive(Debug)]
pub struct Summary {
    /// Operations by outcome.
    pub counts: Counts,
    open: HashMap<OpId, Open>,
    /// From the beginning of an operation to its grant.
    pub lock_wait: Histogram<u64>,
    /// From the entry to the end of a section.
    pub section: Histogram<u64>,
    /// From a release to its answer.
    pub release: Histogram<u64>,
    first: Option<Time>,
    last: Time,
    last_arrival: Time,
    inside: BTreeSet<OpId>,
    /// Since when nobody is in a section; absent while somebody is, and before anybody was.
    vacant_since: Option<Time>,
    vacancy: Vacancy,
}

#[derive(Debug, Clone, Copy, Default)]
struct Open {
    instance: u32,
    arrived: Time,
    entered: Time,
    releasing: Option<Time>,
}

impl Default for Summary {
    fn default() -> Summary {
        Summary {
            counts: Counts::default(),
            open: HashMap::new(),
            lock_wait: histogram(),
            section: histogram(),
            release: histogram(),
            first: None,
            last: Time::default(),
            last_arrival: Time::default(),
            inside: BTreeSet::new(),
            vacant_since: None,
            vacancy: Vacancy::default(),
        }
    }
}

/// Three significant digits, up to a day.
fn histogram() -> Histogram<u64> {
    let day = nanos(Duration::from_secs(24 * 60 * 60));
    Histogram::new_with_bounds(1, day, 3).unwrap_or_else(|_| {
        unreachable!("1 ns to a day at 3 digits are bounds that a histogram can have")
    })
}

impl Summary {
    /// Takes in an event.
    pub fn event(&mut self, event: &Event) {
        let at = event.at_ns;
        let counts = &mut self.counts;
        match &event.event {
            Kind::Arrived { op, instance, .. } => {
                counts.operations += 1;
                self.first.get_or_insert(at);
                self.last_arrival = at;
                let open = Open {
                    instance: *instance,
                    arrived: at,
                    ..Open::default()
                };
                self.open.insert(*op, open);
            }
            Kind::Asked { .. } => counts.attempts += 1,
            Kind::Granted { op, .. } => {
                counts.granted += 1;
                if let Some(open) = self.open.get(op) {
                    self.lock_wait.saturating_record(at.0 - open.arrived.0);
                }
            }
            Kind::Denied { .. } => counts.denied += 1,
            Kind::AcquireFailed { .. } => counts.failed += 1,
            Kind::AcquireUnknown { .. } => counts.unknown += 1,
            Kind::GaveUp { op, .. } => {
                counts.gave_up += 1;
                self.open.remove(op);
                self.last = at;
            }
            Kind::Entered { op } => {
                if let Some(open) = self.open.get_mut(op) {
                    open.entered = at;
                }
                self.enter(*op, at);
            }
            Kind::Left { op } => {
                if let Some(open) = self.open.get(op) {
                    self.section.saturating_record(at.0 - open.entered.0);
                }
                self.leave(at, |inside| inside == *op);
            }
            // Who died in his section acts no more, though he never left it.
            Kind::Crashed { instance } => {
                let open = std::mem::take(&mut self.open);
                let of = |op: OpId| open.get(&op).map(|open| open.instance);
                self.leave(at, |op| of(op) == Some(*instance));
                self.open = open;
            }
            Kind::Renewed { .. } => counts.renewed += 1,
            Kind::ReleaseAsked { op } => {
                if let Some(open) = self.open.get_mut(op) {
                    open.releasing.get_or_insert(at);
                }
            }
            Kind::Released { op, .. } => {
                counts.released += 1;
                self.last = at;
                if let Some(open) = self.open.remove(op) {
                    let asked = open.releasing.unwrap_or(at);
                    self.release.saturating_record(at.0 - asked.0);
                }
            }
            _ => {}
        }
    }

    fn enter(&mut self, op: OpId, at: Time) {
        self.inside.insert(op);
        if let Some(since) = self.vacant_since.take() {
            let vacant = at.0 - since.0;
            self.vacancy.total_ns += vacant;
            self.vacancy.longest_ns = self.vacancy.longest_ns.max(vacant);
        }
    }

    fn leave(&mut self, at: Time, who: impl Fn(OpId) -> bool) {
        let before = self.inside.len();
        self.inside.retain(|op| !who(*op));
        if self.inside.is_empty() && before > 0 {
            self.vacant_since = Some(at);
        }
    }

    /// How long nobody was in a section. A vacancy counts when the next one enters: what comes
    /// after the last section is the run's end.
    pub fn vacancy(&self) -> Vacancy {
        self.vacancy
    }

    /// Operations begun a second, while operations were issued.
    pub fn arrivals_per_second(&self) -> f64 {
        let first = self.first.unwrap_or(self.last_arrival);
        a_second(self.counts.operations, self.last_arrival.since(first))
    }

    /// From the first operation's beginning to the last one's end.
    pub fn elapsed(&self) -> Duration {
        self.last.since(self.first.unwrap_or(self.last))
    }

    /// Sections a second: what the business got done.
    pub fn operations_per_second(&self) -> f64 {
        a_second(self.counts.released, self.elapsed())
    }
}

fn a_second(n: u64, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    match seconds > 0.0 {
        true => n as f64 / seconds,
        false => 0.0,
    }
}

/// The quantiles of a histogram.
pub fn quantiles(histogram: &Histogram<u64>) -> Quantiles {
    Quantiles {
        count: histogram.len(),
        p50_ns: histogram.value_at_quantile(0.5),
        p99_ns: histogram.value_at_quantile(0.99),
        max_ns: histogram.max(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
