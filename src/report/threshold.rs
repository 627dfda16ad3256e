//! Thresholds held against what was measured. One without samples is inconclusive, never a pass.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::terminal::rounded;
use crate::scenario::threshold::{
    Comparison, Counted, Figure, Metric, Threshold, Timed, threshold,
};
use crate::store::Ledger;
use crate::summary::{Part, Summary, supported};
use crate::verdict::Verdict;

/// Of so many operations at least a share is told, while they are still being issued.
const LEAST_ISSUED: u64 = 100;

/// A threshold, and whether it held.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Held {
    /// As it was written.
    pub threshold: String,
    /// Pass if it held; inconclusive without samples enough.
    pub verdict: Verdict,
    /// What was measured, in the threshold's own unit: nanoseconds, operations a second, a share or
    /// a number; absent without samples enough.
    pub measured: Option<f64>,
}

impl Held {
    /// As it was written, and what was measured.
    pub(super) fn words(&self) -> String {
        let Some(measured) = self.measured else {
            return format!("{}: too few samples to tell", self.threshold);
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
    /// The ledger, once the run is over.
    pub ledger: Option<&'a Ledger>,
}

/// Holds a threshold against what was measured.
pub fn hold(threshold: &Threshold, measured: Measured<'_>) -> Held {
    let value = measured.value(threshold.metric);
    let holds = value.map(|value| threshold.is.holds(value, threshold.bound));
    Held {
        threshold: threshold.text.clone(),
        verdict: match holds {
            Some(true) => Verdict::Pass,
            Some(false) => Verdict::Fail,
            None => Verdict::Inconclusive,
        },
        measured: value,
    }
}

/// Whether a run that goes on has crossed a threshold for good, or by samples enough.
pub fn crossed(threshold: &Threshold, measured: Measured<'_>) -> bool {
    let Some(value) = measured.value(threshold.metric) else {
        return false;
    };
    let failed = !threshold.is.holds(value, threshold.bound);
    let enough = match threshold.metric {
        // A number only grows: what is too small now may be enough later.
        Metric::Count(_) => match threshold.is {
            Comparison::Below | Comparison::AtMost => true,
            Comparison::Equal => value > threshold.bound,
            Comparison::Above | Comparison::AtLeast | Comparison::Other => false,
        },
        Metric::Share(_) => measured.summary.counts.operations >= LEAST_ISSUED,
        Metric::Rate => measured.summary.measured_for().as_secs() >= 2,
        Metric::Latency { .. } => true,
    };
    failed && enough
}

impl Measured<'_> {
    fn value(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::Latency { of, figure } => self.latency(of, figure),
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

    fn latency(&self, of: Timed, figure: Figure) -> Option<f64> {
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
        Some(match figure {
            Figure::Avg => histogram.mean(),
            Figure::Min => histogram.min() as f64,
            Figure::Max => histogram.max() as f64,
            Figure::Quantile(quantile) => supported(histogram, quantile)? as f64,
        })
    }

    /// How many of them, and of how many; absent where there could be none.
    fn count(&self, counted: Counted) -> Option<(u64, u64)> {
        let outcomes = self.summary.ended_so_far();
        let issued = outcomes.issued;
        let of_all = |n: u64| (issued > 0).then_some((n, issued));
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
            Counted::Errors => of_all(outcomes.errors()),
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
}
