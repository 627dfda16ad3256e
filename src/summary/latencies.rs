//! How long things took: over the whole run, and since the last interval was taken.

use std::time::Duration;

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::nanos;

/// What is measured of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// From the planned start to the grant; the same as `AcquireService` where none is planned.
    Acquire,
    /// From the actual start to the grant.
    AcquireService,
    /// From the entry to the end of the section.
    Section,
    /// From the release to its answer.
    Release,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 4] = [
        Part::Acquire,
        Part::AcquireService,
        Part::Section,
        Part::Release,
    ];

    /// The word for it in files.
    pub fn word(self) -> &'static str {
        match self {
            Part::Acquire => "acquire",
            Part::AcquireService => "acquire-service",
            Part::Section => "section",
            Part::Release => "release",
        }
    }
}

/// A histogram for each part.
#[derive(Debug, Clone)]
pub struct Latencies([Histogram<u64>; Part::ALL.len()]);

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies(Part::ALL.map(|_| histogram()))
    }
}

impl Latencies {
    /// The histogram of a part, in nanoseconds.
    pub fn of(&self, part: Part) -> &Histogram<u64> {
        &self.0[part as usize]
    }

    pub(super) fn record(&mut self, part: Part, took: Duration) {
        self.0[part as usize].saturating_record(nanos(took));
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        for histogram in &mut self.0 {
            histogram.reset();
        }
    }
}

/// Three significant digits, up to a day.
pub(super) fn histogram() -> Histogram<u64> {
    let day = nanos(Duration::from_secs(24 * 60 * 60));
    Histogram::new_with_bounds(1, day, 3).unwrap_or_else(|_| {
        unreachable!("1 ns to a day at 3 digits are bounds that a histogram can have")
    })
}

/// The percentile, if there are enough samples to speak of it: at least ten beyond it. With fewer
/// it is the accident of a few, and its own confidence interval reaches to the longest of all.
/// (A low one needs as many below it.)
pub fn supported(histogram: &Histogram<u64>, quantile: f64) -> Option<u64> {
    Sampled::new(histogram, 0).at_most(quantile)
}

/// What was measured, and how many are missing in it because they never got that far. They may have
/// taken any time: each figure lies between what it would be if they had taken none, and what it
/// would be if they had taken for ever.
#[derive(Debug, Clone, Copy)]
pub struct Sampled<'a> {
    histogram: &'a Histogram<u64>,
    never: u64,
}

impl<'a> Sampled<'a> {
    /// Of a histogram in which so many are missing.
    pub fn new(histogram: &'a Histogram<u64>, never: u64) -> Sampled<'a> {
        Sampled { histogram, never }
    }

    fn all(&self) -> f64 {
        (self.histogram.len() + self.never) as f64
    }

    fn enough_for(&self, quantile: f64) -> bool {
        const BEYOND: f64 = 10.0;
        let beyond = self.all() * (1.0 - quantile.max(1.0 - quantile));
        // The last digits of 1 - 0.999 must not cost the ten thousandth sample.
        !self.histogram.is_empty() && beyond >= BEYOND * (1.0 - 1e-9)
    }

    /// The percentile if the missing ones took longer than any; none where it lies among them, or
    /// where there are not enough samples.
    pub fn at_most(&self, quantile: f64) -> Option<u64> {
        let within = match self.never {
            0 => quantile,
            _ => quantile * self.all() / self.histogram.len() as f64,
        };
        let known = self.enough_for(quantile) && within <= 1.0;
        known.then(|| self.histogram.value_at_quantile(within))
    }

    /// The percentile if the missing ones took no time at all; none where there are not enough
    /// samples.
    pub fn at_least(&self, quantile: f64) -> Option<u64> {
        let within = match self.never {
            0 => quantile,
            never => (quantile * self.all() - never as f64) / self.histogram.len() as f64,
        };
        self.enough_for(quantile).then(|| match within > 0.0 {
            true => self.histogram.value_at_quantile(within),
            false => 0,
        })
    }

    /// The mean, likewise.
    pub fn mean_at_least(&self) -> f64 {
        self.histogram.mean() * self.histogram.len() as f64 / self.all()
    }

    /// How many are missing.
    pub fn never(&self) -> u64 {
        self.never
    }
}

/// Quantiles of one latency, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Quantiles {
    /// How many were measured.
    pub count: u64,
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile; null with fewer than a thousand, of which it would be the accident of a few.
    pub p99_ns: Option<u64>,
    /// The longest.
    pub max_ns: u64,
}

/// The quantiles of a histogram.
pub fn quantiles(histogram: &Histogram<u64>) -> Quantiles {
    Quantiles {
        count: histogram.len(),
        p50_ns: histogram.value_at_quantile(0.5),
        p99_ns: supported(histogram, 0.99),
        max_ns: histogram.max(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_ten_samples_beyond_it() {
        let told = |samples: u64, quantile| {
            let mut histogram = histogram();
            histogram.record_n(1_000, samples).expect("it has room");
            supported(&histogram, quantile).is_some()
        };
        for (quantile, least) in [(0.5, 20), (0.9, 100), (0.99, 1_000), (0.999, 10_000)] {
            assert!(told(least, quantile), "{quantile}");
            assert!(!told(least - 1, quantile), "{quantile}");
        }
    }
}
