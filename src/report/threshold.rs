//! Thresholds held against what was measured. One without samples is inconclusive, never a pass.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::terminal::rounded;
use crate::scenario::threshold::{
    Comparison, Counted, Figure, Metric, Threshold, Timed, threshold,
};
use crate::store::Ledger;
use crate::summary::{Part, Sampled, Summary};
use crate::verdict::Verdict;

/// Of so many operations at least a share is told, while more of them are still being issued.
const LEAST_ENDED: u64 = 100;

/// A threshold, and whether it held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Held {
    /// As it was written.
    pub threshold: String,
    /// Pass if it held; inconclusive without samples enough, and where it depends on operations that
    /// never got so far as to be measured.
    pub verdict: Verdict,
    /// What was measured, in the threshold's own unit: nanoseconds, operations a second, a share or
    /// a number; absent where nothing can be told.
    pub measured: Option<f64>,
}

impl Held {
    /// As it was written, and what was measured.
    pub(super) fn words(&self) -> String {
        let Some(measured) = self.measured else {
            return format!(
                "{}: too few samples to tell, or too many operations that never got that far",
                self.threshold
            );
        };
        let measured = match threshold(&self.threshold).map(|read| read.metric) {
            Ok(Metric::Latency { .. }) => rounded(measured as u64),
            Ok(Metric::Rate) => format!("{measured:.1}/s"),
            Ok(Metric::Share(_)) => format!("{:.3} %", measured * 100.0),
            _ => format!("{measured}"),
        };
        format!("{}: {measured}", self.threshold)
    }
}

/// What was measured.
#[derive(Debug, Clone, Copy)]
pub struct Measured<'a> {
    /// Of the history.
    pub summary: &'a Summary,
    /// How many violations there are.
    pub violations: u64,
    /// The ledger, if it is known.
    pub ledger: Option<&'a Ledger>,
}

/// Between what and what a figure lies. Operations that never got so far as to be measured leave it
/// open, and a threshold holds or not only where it does so for all that lies between.
#[derive(Debug, Clone, Copy)]
struct Value {
    least: f64,
    most: f64,
}

impl Value {
    fn exactly(value: f64) -> Value {
        Value {
            least: value,
            most: value,
        }
    }

    fn holds(self, threshold: &Threshold) -> Option<bool> {
        let Value { least, most } = self;
        let [low, high] = [least, most].map(|end| threshold.is.holds(end, threshold.bound));
        let between = least < threshold.bound && threshold.bound < most;
        (low == high && !between).then_some(low)
    }

    /// The one to tell: the worse one, where there is one.
    fn told(self, holds: Option<bool>) -> Option<f64> {
        match self.most.is_finite() {
            true => Some(self.most),
            false => holds.map(|_| self.least),
        }
    }
}

/// Holds a threshold against what was measured.
pub fn hold(threshold: &Threshold, measured: Measured<'_>) -> Held {
    let value = measured.value(threshold.metric);
    let holds = value.and_then(|value| value.holds(threshold));
    Held {
        threshold: threshold.text.clone(),
        verdict: match holds {
            Some(true) => Verdict::Pass,
            Some(false) => Verdict::Fail,
            None => Verdict::Inconclusive,
        },
        measured: value.and_then(|value| value.told(holds)),
    }
}

/// Whether a run that goes on has crossed a threshold for good, or by samples enough.
pub fn crossed(threshold: &Threshold, measured: Measured<'_>) -> bool {
    let Some(value) = measured.value(threshold.metric) else {
        return false;
    };
    let failed = value.holds(threshold) == Some(false);
    let enough = match threshold.metric {
        // A number only grows: what is too small now may be enough later.
        Metric::Count(_) => match threshold.is {
            Comparison::Below | Comparison::AtMost => true,
            Comparison::Equal => value.least > threshold.bound,
            Comparison::Above | Comparison::AtLeast | Comparison::Other => false,
        },
        Metric::Share(_) => measured.summary.ended_so_far().ended() >= LEAST_ENDED,
        Metric::Rate => measured.summary.measured_for().as_secs() >= 2,
        Metric::Latency { .. } => true,
    };
    failed && enough
}

impl Measured<'_> {
    fn value(&self, metric: Metric) -> Option<Value> {
        match metric {
            Metric::Latency { of, figure } => self.latency(of, figure),
            _ => self.number(metric).map(Value::exactly),
        }
    }

    fn number(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::Latency { .. } => None,
            Metric::Rate => {
                let some = self.summary.measured_for().as_nanos() > 0;
                some.then(|| self.summary.completed_per_second())
            }
            Metric::Count(counted) => self.count(counted).map(|(n, _)| n as f64),
            Metric::Share(counted) => {
                let (n, of) = self.count(counted)?;
                (of > 0).then(|| n as f64 / of as f64)
            }
        }
    }

    fn latency(&self, of: Timed, figure: Figure) -> Option<Value> {
        let part = match of {
            Timed::Acquire => Part::Acquire,
            Timed::Service => Part::AcquireService,
            Timed::Section => Part::Section,
            Timed::Release => Part::Release,
        };
        let histogram = self.summary.latencies.of(part);
        if histogram.is_empty() {
            return None;
        }
        let never = self.summary.never(part);
        let sampled = Sampled::new(histogram, never);
        // How long those would have taken that never got that far is not known.
        let open = |least: f64| Value {
            least,
            most: match never {
                0 => least,
                _ => f64::INFINITY,
            },
        };
        Some(match figure {
            Figure::Avg => open(sampled.mean_at_least()),
            Figure::Max => open(histogram.max() as f64),
            Figure::Min => Value {
                least: if never == 0 {
                    histogram.min() as f64
                } else {
                    0.0
                },
                most: histogram.min() as f64,
            },
            Figure::Quantile(quantile) => Value {
                least: sampled.at_least(quantile)? as f64,
                most: sampled
                    .at_most(quantile)
                    .map_or(f64::INFINITY, |ns| ns as f64),
            },
        })
    }

    /// How many of them, and of how many; absent where there could be none.
    fn count(&self, counted: Counted) -> Option<(u64, u64)> {
        let outcomes = self.summary.ended_so_far();
        // Until it is over those in flight may still come to any end.
        let all = match self.summary.is_over() {
            true => outcomes.issued,
            false => outcomes.ended(),
        };
        let of_all = |n: u64| (all > 0).then_some((n, all));
        let of_ledger = |n: fn(&Ledger) -> i64, of: fn(&Ledger) -> i64| {
            let ledger = self.ledger.filter(|ledger| of(ledger) > 0)?;
            Some((n(ledger).unsigned_abs(), of(ledger).unsigned_abs()))
        };
        match counted {
            Counted::Oversold => of_ledger(|ledger| ledger.oversold, |ledger| ledger.stock),
            Counted::Lost => of_ledger(
                |ledger| ledger.increments - ledger.counted,
                |ledger| ledger.increments,
            ),
            Counted::Doubled => {
                of_ledger(|ledger| ledger.double_processed, |ledger| ledger.entries)
            }
            Counted::Violations => of_all(self.violations),
            Counted::Errors => of_all(self.summary.failures()),
            Counted::GaveUp => of_all(outcomes.gave_up),
            Counted::Completed => of_all(outcomes.completed),
            Counted::Late => {
                let starts = self.summary.starts().filter(|starts| starts.due > 0)?;
                Some((starts.late + starts.never, starts.due))
            }
        }
    }
}

/// The worst of some thresholds; none without one.
pub fn worst(held: &[Held]) -> Option<Verdict> {
    let verdicts = held.iter().map(|held| held.verdict);
    (!held.is_empty()).then(|| Verdict::worst(verdicts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Time;
    use crate::history::Event;
    use crate::history::event::{Effect, GiveUp, Kind, Release};

    fn held(text: &str, summary: &Summary, ledger: Option<&Ledger>) -> Verdict {
        let measured = Measured {
            summary,
            violations: 0,
            ledger,
        };
        hold(&threshold(text).expect("a threshold"), measured).verdict
    }

    #[test]
    fn a_threshold_without_samples_is_inconclusive() {
        let nothing = Summary::default();
        let no_stock = Ledger::default();
        for text in [
            "acquire p(99) < 1h",
            "errors < 1%",
            "errors == 0",
            "rate > 1/s",
            "late == 0",
        ] {
            let verdict = held(text, &nothing, Some(&no_stock));
            assert_eq!(verdict, Verdict::Inconclusive, "{text}");
        }
        assert_eq!(
            held("oversold == 0", &nothing, Some(&no_stock)),
            Verdict::Inconclusive
        );
        let stock = Ledger {
            stock: 1,
            oversold: 1,
            ..no_stock
        };
        assert_eq!(held("oversold == 0", &nothing, Some(&stock)), Verdict::Fail);
        assert_eq!(held("oversold == 0", &nothing, None), Verdict::Inconclusive);
    }

    fn event(op: u64, at_ms: u64, event: Kind) -> [Event; 2] {
        let arrived = Kind::Arrived {
            op,
            instance: 0,
            worker: op as u32,
            key: 0,
            planned_ns: None,
        };
        let at = |at_ms: u64, event| Event {
            at_ns: Time(at_ms * 1_000_000),
            event,
        };
        [at(0, arrived), at(at_ms, event)]
    }

    /// What is known when so many operations were granted after 1 ms, 2 ms, ... each, and more came to
    /// these ends.
    fn summed_up(granted: u64, ends: &[GiveUp]) -> Summary {
        let grants = (0..granted).flat_map(|op| {
            let granted = Kind::Granted {
                op,
                ttl_ns: None,
                locked: true,
                fence: None,
            };
            event(op, op + 1, granted)
        });
        let others = (granted..).zip(ends).flat_map(|(op, why)| {
            let why = *why;
            event(op, 5_000, Kind::GaveUp { op, why })
        });
        let mut events: Vec<Event> = grants.chain(others).collect();
        events.sort_by_key(|event| event.at_ns);
        let mut summary = Summary::default();
        events.iter().for_each(|event| summary.event(event));
        summary
    }

    #[test]
    fn a_percentile_that_would_lie_among_those_that_were_never_granted_is_no_pass() {
        let all = summed_up(1000, &[]);
        assert_eq!(held("acquire p(99) < 1s", &all, None), Verdict::Pass);
        assert_eq!(held("acquire max < 2s", &all, None), Verdict::Pass);
        let some = summed_up(1000, &[GiveUp::Policy; 20]);
        for open in [
            "acquire p(99) < 1s",
            "service p(99) < 1s",
            "acquire max < 2s",
            "acquire avg < 2s",
        ] {
            assert_eq!(held(open, &some, None), Verdict::Inconclusive, "{open}");
        }
        // However long they would have taken.
        assert_eq!(held("acquire p(90) < 1s", &some, None), Verdict::Pass);
        assert_eq!(held("acquire p(99) < 900ms", &some, None), Verdict::Fail);
        assert_eq!(held("acquire max < 900ms", &some, None), Verdict::Fail);
        assert_eq!(held("acquire max > 900ms", &some, None), Verdict::Pass);
        // They move the others up.
        assert_eq!(
            held("acquire p(90) < 905ms", &some, None),
            Verdict::Inconclusive
        );
        assert_eq!(held("acquire p(90) < 925ms", &some, None), Verdict::Pass);
    }

    #[test]
    fn a_low_percentile_needs_ten_samples_below_it() {
        let few = summed_up(12, &[]);
        assert_eq!(
            held("acquire p(10) < 1s", &few, None),
            Verdict::Inconclusive
        );
        assert_eq!(
            held("acquire p(10) < 1s", &summed_up(100, &[]), None),
            Verdict::Pass
        );
    }

    #[test]
    fn what_is_in_flight_crosses_no_threshold_on_a_share() {
        let written = |op| Kind::Wrote {
            op,
            item: 0,
            seen: 0,
            replaced: 0,
            left: 1,
            effect: Effect::Written {
                rows: 1,
                rejected: 0,
            },
        };
        let mut summary = summed_up(300, &[]);
        for op in 0..200 {
            let [_, wrote] = event(op, 6_000, written(op));
            let [_, done] = event(op, 6_000, Kind::Done { op });
            summary.event(&wrote);
            summary.event(&done);
        }
        let measured = |summary| Measured {
            summary,
            violations: 0,
            ledger: None,
        };
        let completed = threshold("completed > 99%").expect("a threshold");
        assert!(
            !crossed(&completed, measured(&summary)),
            "a third is in flight"
        );
        let [_, ended] = event(0, 7_000, Kind::Ended {});
        summary.event(&ended);
        assert_eq!(held("completed > 99%", &summary, None), Verdict::Fail);
    }

    #[test]
    fn errors_are_told_whoever_ended_the_operation_and_those_of_a_release_too() {
        let mut summary = summed_up(98, &[]);
        for op in 0..98 {
            let error = || "no answer".to_owned();
            let outcome = match op {
                0 => Release::Unknown(error()),
                _ => Release::Removed,
            };
            for kind in [Kind::Released { op, outcome }, Kind::Done { op }] {
                let [_, event] = event(op, 6_000, kind);
                summary.event(&event);
            }
        }
        assert_eq!(held("errors < 1", &summary, None), Verdict::Fail);
        assert_eq!(held("errors == 1", &summary, None), Verdict::Pass);
        let error = "refused".to_owned();
        let op = 98;
        let [came, failed] = event(op, 7_000, Kind::AcquireFailed { op, error });
        let why = GiveUp::RunEnded;
        let [_, ended] = event(op, 7_001, Kind::GaveUp { op, why });
        [came, failed, ended]
            .iter()
            .for_each(|event| summary.event(event));
        assert_eq!(held("errors == 2", &summary, None), Verdict::Pass);
        assert_eq!(summary.outcomes().failed, 1);
    }
}
