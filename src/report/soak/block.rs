//! What a soak's `report.json` says beyond a trial's.

use std::time::Duration;

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::nanos;
use crate::plan::Plan;
use crate::summary::{ErrorKind, IN_TIME, Outcomes, Part, Sampled, Silence, Starts, Summary};
use crate::workload;

/// The percentiles that are told, as far as there are samples for them.
pub(super) const PERCENTILES: [f64; 10] = [
    10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999,
];
/// Bars of a histogram up to the 99th percentile.
const BARS: u64 = 10;
/// What share of the starts may be missed without a warning.
const MISSED: f64 = 0.01;

/// What a soak has beyond a trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Soak {
    /// Whether starts were planned ahead; in a closed loop each worker's next operation waits for
    /// the one before, and latencies say nothing of who came meanwhile (coordinated omission).
    pub open_loop: bool,
    /// The rates, where starts were planned.
    pub stages: Vec<String>,
    /// Workers over all instances.
    pub workers: u32,
    /// Simulated application processes.
    pub instances: u32,
    /// Keys, each under a lock of its own.
    pub keys: u32,
    /// Where the business's numbers were.
    pub store: String,
    /// How long after the first operation latencies were left out.
    pub warm_up_ns: u64,
    /// How operations came to their ends.
    pub outcomes: Outcomes,
    /// Operations completed a second, of those that began after the warm-up.
    pub completed_per_second: f64,
    /// What became of planned starts.
    pub starts: Option<Starts>,
    /// The share of the time in which the workers were at operations.
    pub busy_share: f64,
    /// The share of the time in which the keys were in somebody's section.
    pub held_share: f64,
    /// From the start to the grant; in an open loop from the planned start (corrected).
    pub acquire: Latency,
    /// From the actual start to the grant (service time), in an open loop.
    pub acquire_service: Option<Latency>,
    /// From the entry to the end of the section.
    pub section: Latency,
    /// From the release to its answer.
    pub release: Latency,
    /// Errors by kind.
    pub errors: Vec<ErrorKind>,
    /// When nobody was answered.
    pub silence: Silence,
    /// What to know before believing the figures.
    pub warnings: Vec<String>,
}

/// How long something took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// How many were measured.
    pub count: u64,
    /// How many never got so far as to be measured, in nothing but the percentiles: there they took
    /// longer than any.
    #[serde(default)]
    pub never: u64,
    /// The mean.
    pub mean_ns: u64,
    /// The shortest.
    pub min_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// Percentiles, as far as ten samples lie beyond each, and none that would lie among those that
    /// never got so far.
    pub percentiles: Vec<Percentile>,
    /// The histogram: eleven bars, linear up to the 99th percentile, and all beyond it.
    pub bars: Vec<Bar>,
}

/// One percentile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Percentile {
    /// Which, from 0 to 100.
    pub percentile: f64,
    /// Its value.
    pub ns: u64,
}

/// One bar of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bar {
    /// Up to so long.
    pub up_to_ns: u64,
    /// How many took so long, and longer than the bar before.
    pub count: u64,
}

impl Latency {
    fn new(histogram: &Histogram<u64>, never: u64) -> Latency {
        let sampled = Sampled::new(histogram, never);
        let percentiles = PERCENTILES.iter().filter_map(|percentile| {
            Some(Percentile {
                percentile: *percentile,
                ns: sampled.at_most(percentile / 100.0)?,
            })
        });
        Latency {
            count: histogram.len(),
            never,
            mean_ns: histogram.mean() as u64,
            min_ns: histogram.min(),
            max_ns: histogram.max(),
            percentiles: percentiles.collect(),
            bars: bars(histogram),
        }
    }

    /// A percentile, if there were samples enough for it.
    pub fn at(&self, percentile: f64) -> Option<u64> {
        let mut told = self.percentiles.iter();
        told.find(|one| one.percentile == percentile)
            .map(|one| one.ns)
    }
}

/// What to know before believing the figures of a run, a soak or none.
pub fn warnings(plan: &Plan, summary: &Summary) -> Vec<String> {
    match plan.load.stages.is_empty() {
        true => vec![],
        false => Soak::of(plan, summary).warnings,
    }
}

fn bars(histogram: &Histogram<u64>) -> Vec<Bar> {
    if histogram.is_empty() {
        return vec![];
    }
    let (low, high) = (histogram.min(), histogram.value_at_quantile(0.99));
    let mut ends: Vec<u64> = (0..=BARS)
        .map(|bar| low + (high - low) * bar / BARS)
        .collect();
    ends.push(histogram.max());
    ends.dedup();
    let mut before = 0;
    let bar = |up_to_ns: u64| {
        let reaching = histogram.count_between(0, up_to_ns);
        let count = reaching.saturating_sub(before);
        before = reaching.max(before);
        Bar { up_to_ns, count }
    };
    ends.into_iter().map(bar).collect()
}

impl Soak {
    /// The block of a plan's run, if it was a soak.
    pub fn new(plan: &Plan, summary: &Summary) -> Option<Soak> {
        plan.soak.as_ref().map(|_| Soak::of(plan, summary))
    }

    fn of(plan: &Plan, summary: &Summary) -> Soak {
        let keys = workload::keys(&plan.workload);
        let latency = |part| Latency::new(summary.latencies.of(part), summary.never(part));
        let open_loop = !plan.load.stages.is_empty();
        let mut soak = Soak {
            open_loop,
            stages: plan.load.stages.iter().map(|stage| stage.words()).collect(),
            workers: plan.load.workers,
            instances: plan.load.instances,
            keys,
            store: plan.store.described().to_owned(),
            warm_up_ns: nanos(plan.warm_up()),
            outcomes: summary.outcomes(),
            completed_per_second: summary.completed_per_second(),
            starts: summary.starts(),
            busy_share: summary.busy_share(plan.load.workers),
            held_share: summary.held_share(keys),
            acquire: latency(Part::Acquire),
            acquire_service: open_loop.then(|| latency(Part::AcquireService)),
            section: latency(Part::Section),
            release: latency(Part::Release),
            errors: summary.errors.by_kind(),
            silence: summary.silence(),
            warnings: vec![],
        };
        soak.warnings.extend(soak.missed_starts(summary.elapsed()));
        soak
    }

    /// Who took part.
    pub(super) fn set_up(&self) -> String {
        format!(
            "{} workers in {} instances, {} keys, store: {}",
            self.workers, self.instances, self.keys, self.store
        )
    }

    /// How operations were issued.
    pub(super) fn loop_words(&self) -> String {
        match self.open_loop {
            true => format!(
                "open loop: {} over all workers; latency counts from the planned start",
                self.stages.join(", ")
            ),
            false => "closed loop: each worker's next operation waits for the one before, so that \
                      latency leaves out who would have come meanwhile (`--rate` plans starts)"
                .to_owned(),
        }
    }

    /// Its latencies, by what they are called.
    pub(super) fn columns(&self) -> Vec<(&'static str, &Latency)> {
        let acquires = match &self.acquire_service {
            Some(service) => vec![
                ("acquire, corrected", &self.acquire),
                ("acquire, service", service),
            ],
            None => vec![("acquire", &self.acquire)],
        };
        let others = [("section", &self.section), ("release", &self.release)];
        acquires.into_iter().chain(others).collect()
    }

    /// Tells why too many operations did not start in time.
    fn missed_starts(&self, elapsed: Duration) -> Option<String> {
        let starts = self
            .starts
            .filter(|starts| starts.missed_share() > MISSED)?;
        let missed = starts.late + starts.never;
        let what = format!(
            "{missed} of {} operations ({:.1} %) could not start within {} ms of their planned \
             start, {} of them never",
            starts.due,
            starts.missed_share() * 100.0,
            nanos(IN_TIME) / 1_000_000,
            starts.never
        );
        Some(format!("{what}: {}", self.why_missed(&starts, elapsed)))
    }

    /// Whether most of the missed starts fell due while nobody was answered. (Those that came while
    /// the others caught up are as many again at half load.)
    fn outages_explain(&self, starts: &Starts, elapsed: Duration) -> bool {
        let share = self.silence.total_ns as f64 / nanos(elapsed).max(1) as f64;
        starts.due as f64 * share * 2.0 >= (starts.late + starts.never) as f64
    }

    fn why_missed(&self, starts: &Starts, elapsed: Duration) -> String {
        let (busy, held) = (self.busy_share * 100.0, self.held_share * 100.0);
        let workers = self.workers;
        if starts.late_though_free * 2 > starts.late {
            return "their workers were free, and this machine was too busy to wake them (or their \
                    instance stood still)"
                .to_owned();
        }
        if self.outages_explain(starts, elapsed) {
            return "nobody was answered for a while (see the outages), and what came meanwhile \
                    had to wait"
                .to_owned();
        }
        if self.held_share > 0.7 {
            return format!(
                "the lock is slower than the rate: its keys were held {held:.0} % of the time; \
                 more keys (`--keys`) or shorter sections (`--section`)"
            );
        }
        if self.busy_share > 0.7 {
            return format!(
                "too few workers, or a server slower than the rate: the {workers} workers were \
                 busy {busy:.0} % of the time; more workers (`-c`) tell which"
            );
        }
        format!(
            "all workers were busy at times, though only {busy:.0} % of the whole: more workers \
             (`-c {}`) for the peaks",
            workers.saturating_mul(2)
        )
    }
}
