//! What a trial did in numbers: operations by outcome, and how long they took. A fold over the
//! history, so a stored history gives the same numbers again.

use std::collections::HashMap;
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
}

#[derive(Debug, Clone, Copy, Default)]
struct Open {
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
            Kind::Arrived { op, .. } => {
                counts.operations += 1;
                self.first.get_or_insert(at);
                let open = Open {
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
            }
            Kind::Left { op } => {
                if let Some(open) = self.open.get(op) {
                    self.section.saturating_record(at.0 - open.entered.0);
                }
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

    /// From the first operation's beginning to the last one's end.
    pub fn elapsed(&self) -> Duration {
        self.last.since(self.first.unwrap_or(self.last))
    }

    /// Sections a second: what the business got done.
    pub fn operations_per_second(&self) -> f64 {
        let seconds = self.elapsed().as_secs_f64();
        match seconds > 0.0 {
            true => self.counts.released as f64 / seconds,
            false => 0.0,
        }
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
