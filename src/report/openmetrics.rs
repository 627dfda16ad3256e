//! What a soak's `--metrics` endpoint answers: counters and histograms in the OpenMetrics text
//! format (<https://prometheus.io/docs/specs/om/open_metrics_spec/>), as of a moment.

use std::fmt;

use hdrhistogram::Histogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::check::Property;
use crate::summary::{Part, Summary};

/// What the answer says of itself.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The upper ends of the histograms' buckets, in seconds: 1, 2.5 and 5 of each power of ten, from
/// what an idle server on the same machine takes up to a long wait.
const BUCKETS: [f64; 18] = [
    1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    25.0, 50.0,
];

/// The figures of a moment.
#[derive(Debug)]
pub struct Snapshot {
    outcomes: Vec<(&'static str, u64)>,
    answers: Vec<(&'static str, u64)>,
    violations: Vec<(&'static str, u64)>,
    issued: u64,
    late: Option<u64>,
    waiting: u64,
    workers: u32,
    times: Vec<(&'static str, &'static str, Times)>,
}

impl Snapshot {
    /// Of a run with so many workers.
    pub fn new(summary: &Summary, violations: impl Fn(Property) -> u64, workers: u32) -> Snapshot {
        let outcomes = summary.ended_so_far();
        let counts = &summary.counts;
        let open_loop = summary.starts();
        let times = |part| Times::new(summary.latencies.of(part));
        let mut timed = vec![
            (
                "acquire",
                "From the start (the planned one, if any) to the grant",
                times(Part::Acquire),
            ),
            (
                "section",
                "From the entry to the end of the section",
                times(Part::Section),
            ),
            (
                "release",
                "From the release to its answer",
                times(Part::Release),
            ),
        ];
        if open_loop.is_some() {
            let what = "From the actual start to the grant";
            timed.push(("acquire_service", what, times(Part::AcquireService)));
        }
        Snapshot {
            outcomes: vec![
                ("completed", outcomes.completed),
                ("gave_up", outcomes.gave_up),
                ("failed", outcomes.failed),
                ("unknown", outcomes.unknown),
                ("run_ended", outcomes.run_ended),
                ("rejected", outcomes.rejected),
                ("withheld", outcomes.withheld),
                ("idle", outcomes.idle),
                ("store_failed", outcomes.store_failed),
                ("unfinished", outcomes.unfinished),
            ],
            answers: vec![
                ("granted", counts.granted),
                ("denied", counts.denied),
                ("failed", counts.failed),
                ("unknown", counts.unknown),
            ],
            violations: (Property::ALL.into_iter())
                .map(|property| (property.word(), violations(property)))
                .collect(),
            issued: outcomes.issued,
            late: open_loop.map(|starts| starts.late),
            waiting: summary.waiting(),
            workers,
            times: timed,
        }
    }

    /// In the text format.
    pub fn render(self) -> String {
        let mut registry = Registry::with_prefix("oversold");
        registry.register_collector(Box::new(self));
        let mut answer = String::new();
        // Writing to a string cannot fail.
        let _ = text::encode(&mut answer, &registry);
        answer
    }
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let families = [
            (
                "operations",
                "Operations that have ended, by how",
                "outcome",
                &self.outcomes,
            ),
            (
                "attempts",
                "Questions for the lock, by their answer",
                "answer",
                &self.answers,
            ),
            (
                "violations",
                "Violations found so far",
                "property",
                &self.violations,
            ),
        ];
        for (name, help, label, counts) in families {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (value, count) in counts {
                let labels = [(label, *value)];
                ConstCounter::new(*count).encode(family.encode_family(&labels)?)?;
            }
        }
        let issued = ConstCounter::new(self.issued);
        one(
            &mut encoder,
            "operations_issued",
            "Operations begun",
            &issued,
        )?;
        if let Some(late) = self.late {
            let what = "Operations begun late (open loop)";
            one(&mut encoder, "starts_late", what, &ConstCounter::new(late))?;
        }
        let waiting = ConstGauge::new(self.waiting);
        one(
            &mut encoder,
            "waiters",
            "Operations that wait for the lock",
            &waiting,
        )?;
        let workers = ConstGauge::new(self.workers);
        one(
            &mut encoder,
            "workers",
            "Workers over all instances",
            &workers,
        )?;
        for (name, help, times) in &self.times {
            let unit = Some(&Unit::Seconds);
            let metric = encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?;
            times.encode(metric)?;
        }
        Ok(())
    }
}

fn one(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    metric: &impl EncodeMetric,
) -> fmt::Result {
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}

/// A histogram in seconds.
#[derive(Debug)]
struct Times {
    sum: f64,
    count: u64,
    /// Upper ends, and how many lie in each bucket.
    buckets: Vec<(f64, u64)>,
}

impl Times {
    fn new(histogram: &Histogram<u64>) -> Times {
        let mut before = 0;
        let bucket = |end: f64| {
            let reaching = match end.is_finite() {
                true => histogram.count_between(0, (end * 1e9) as u64),
                false => histogram.len(),
            };
            let within = reaching.saturating_sub(before);
            before = reaching.max(before);
            (end, within)
        };
        Times {
            sum: histogram.mean() * histogram.len() as f64 / 1e9,
            count: histogram.len(),
            buckets: BUCKETS
                .into_iter()
                .chain([f64::INFINITY])
                .map(bucket)
                .collect(),
        }
    }

    fn encode(&self, mut metric: MetricEncoder<'_>) -> fmt::Result {
        metric.encode_histogram::<NoLabelSet>(self.sum, self.count, &self.buckets, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_what_a_prometheus_user_expects() {
        let text = Snapshot::new(&Summary::default(), |_| 3, 7).render();
        for line in [
            "# TYPE oversold_operations counter",
            "oversold_operations_total{outcome=\"completed\"} 0",
            "oversold_violations_total{property=\"overlap\"} 3",
            "# TYPE oversold_acquire_seconds histogram",
            "# UNIT oversold_acquire_seconds seconds",
            "oversold_acquire_seconds_bucket{le=\"+Inf\"} 0",
            "oversold_workers 7",
            "oversold_waiters 0",
        ] {
            assert!(text.lines().any(|told| told == line), "{line} in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}
