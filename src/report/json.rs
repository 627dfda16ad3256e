//! `report.json`: all that is known of the trials of one lock in one scenario. Its schema is
//! published as `docs/report.schema.json`.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::experiment::Experiment;
use super::soak::{Soak, warnings};
use super::statistics::Share;
use super::threshold::{Held, Measured, hold, worst};
use crate::check::{Coverage, Expected, Finding, Judgement, Line};
use crate::clock::nanos;
use crate::history::event::Stop;
use crate::plan::Plan;
use crate::scenario::{Expect, Workload};
use crate::store::Ledger;
use crate::summary::{Counts, Part, Quantiles, Summary, Vacancy, quantiles};
use crate::verdict::{Exit, Signal, Verdict};

/// The version of the format. A field may be added within it; none changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// The program and its version.
pub(super) const TOOL: &str = concat!("oversold ", env!("CARGO_PKG_VERSION"));

/// The trials of one lock in one scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// The version of this format.
    pub schema_version: u32,
    /// The program and its version.
    pub tool: String,
    /// The scenario's name.
    pub scenario: String,
    /// The scenario's title.
    pub title: String,
    /// The lock's name.
    pub lock: String,
    /// Whether all was as expected of this lock.
    pub verdict: Verdict,
    /// Whether the lock kept its promise, in the worst trial.
    pub lock_verdict: Verdict,
    /// Whether the ledger was right, in the worst trial.
    pub business_verdict: Verdict,
    /// What was expected.
    pub expected: Expect,
    /// What was not as expected.
    pub missed: Vec<String>,
    /// The first trial's seed.
    pub seed: u64,
    /// The factor from the incident's time to the run's.
    pub time_scale: f64,
    /// The server that was put to the test.
    pub server: String,
    /// Whether this was written while the run went on: it was killed if nothing has replaced it.
    #[serde(default)]
    pub partial: bool,
    /// Whether all thresholds held, where there are some.
    #[serde(default)]
    pub thresholds: Option<Verdict>,
    /// What could not be written or run to its end, and why not: a full disk.
    #[serde(default)]
    pub unkept: Vec<String>,
    /// The signal that ended the trials early, if one did.
    pub interrupted: Option<Signal>,
    /// The share of trials with a violation.
    pub violated: Share,
    /// The trials.
    pub trials: Vec<Trial>,
}

/// One trial.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// Its seed.
    pub seed: u64,
    /// The folder with its plan, history and ledger.
    pub folder: String,
    /// Whether the lock kept its promise.
    pub lock_verdict: Verdict,
    /// Whether the ledger was right.
    pub business_verdict: Verdict,
    /// What the business has at the end; nothing but zeros where it is not known.
    pub ledger: Ledger,
    /// Why it is not known, if it is not.
    #[serde(default)]
    pub ledger_unknown: Option<String>,
    /// How many violations of each property there are.
    pub violations: BTreeMap<String, u64>,
    /// The violations, a bounded number of each property.
    pub findings: Vec<Finding>,
    /// What looked like a violation and was the driver's own lag.
    pub driver_findings: Vec<Finding>,
    /// Why the trial cannot answer the question, if it cannot.
    pub doubts: Vec<String>,
    /// What was put to the test.
    pub coverage: Coverage,
    /// How the first violation came about.
    pub story: Vec<Line>,
    /// Operations by outcome.
    pub counts: Counts,
    /// From the beginning of an operation to its grant; in an open loop from its actual beginning.
    pub lock_wait: Quantiles,
    /// The same from the planned beginning, in an open loop.
    #[serde(default)]
    pub lock_wait_corrected: Option<Quantiles>,
    /// What to know before believing the figures.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// From the entry to the end of a section.
    pub section: Quantiles,
    /// From a release to its answer.
    pub release: Quantiles,
    /// Sections a second.
    pub operations_per_second: f64,
    /// From the first operation's beginning to the last one's end.
    pub elapsed_ns: u64,
    /// Operations begun a second, while operations were issued.
    #[serde(default)]
    pub arrivals_per_second: f64,
    /// How long nobody acted; for the workload `leader` only.
    #[serde(default)]
    pub vacancy: Option<Vacancy>,
    /// Thresholds, and whether they held.
    #[serde(default)]
    pub thresholds: Vec<Held>,
    /// What a soak has beyond a trial.
    #[serde(default)]
    pub soak: Option<Soak>,
}

/// What a ledger is about, and with it what its damage is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Business {
    /// Units that are sold.
    Sale,
    /// Entries that are processed.
    Entries,
    /// A number that grows.
    Counter,
}

impl Trial {
    /// A trial's report.
    pub fn new(
        plan: &Plan,
        folder: String,
        judged: Judgement,
        ledger: Result<Ledger, String>,
        summary: &Summary,
    ) -> Trial {
        let counts = judged.counts.iter();
        let measured = Measured {
            summary,
            violations: judged.counts.iter().map(|(_, n)| n).sum(),
            ledger: ledger.as_ref().ok(),
        };
        let thresholds = plan
            .thresholds
            .iter()
            .map(|one| hold(one, measured))
            .collect();
        let (ledger, ledger_unknown) = match ledger {
            Ok(ledger) => (ledger, None),
            Err(why) => (Ledger::default(), Some(why)),
        };
        let open_loop = !plan.load.stages.is_empty();
        let leads = matches!(plan.workload, Workload::Leader);
        Trial {
            seed: plan.seed,
            folder,
            lock_verdict: judged.lock,
            business_verdict: judged.business,
            ledger,
            ledger_unknown,
            violations: counts.map(|(p, n)| (p.word().to_owned(), *n)).collect(),
            findings: judged.findings,
            driver_findings: judged.by_driver,
            doubts: judged.doubts,
            coverage: judged.coverage,
            story: judged.story,
            counts: summary.counts,
            lock_wait: quantiles(summary.latencies.of(Part::AcquireService)),
            lock_wait_corrected: open_loop.then(|| quantiles(summary.latencies.of(Part::Acquire))),
            warnings: warnings(plan, summary),
            section: quantiles(summary.latencies.of(Part::Section)),
            release: quantiles(summary.latencies.of(Part::Release)),
            operations_per_second: summary.operations_per_second(),
            elapsed_ns: nanos(summary.elapsed()),
            arrivals_per_second: summary.arrivals_per_second(),
            vacancy: leads.then(|| summary.vacancy()),
            thresholds,
            soak: Soak::new(plan, summary),
        }
    }

    /// How many violations of a property there are.
    pub fn count(&self, property: &str) -> u64 {
        self.violations.get(property).copied().unwrap_or(0)
    }

    /// Whether anything was violated.
    pub fn violated(&self) -> bool {
        !self.violations.is_empty()
    }

    /// What the business lost: units oversold, entries done twice, or increments that do not show.
    pub fn damage(&self) -> i64 {
        let ledger = &self.ledger;
        let lost = (ledger.increments - ledger.counted).abs();
        ledger.oversold + ledger.double_processed + lost
    }

    /// What its ledger is about.
    pub(super) fn business(&self) -> Business {
        match (self.ledger.stock, self.ledger.entries) {
            (0, 0) => Business::Counter,
            (_, 0) => Business::Sale,
            _ => Business::Entries,
        }
    }

    /// How long it took.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed_ns)
    }

    fn interrupted(&self) -> Option<Signal> {
        match self.coverage.stop {
            Some(Stop::Signal(signal)) => Some(signal),
            _ => None,
        }
    }
}

impl Report {
    /// The report of the trials of one lock in one scenario.
    pub fn new(plan: &Plan, server: &str, trials: Vec<Trial>, expected: Expected) -> Report {
        let worst_of = |verdict: fn(&Trial) -> Verdict| Verdict::worst(trials.iter().map(verdict));
        let violated = trials.iter().filter(|trial| trial.violated()).count();
        Report {
            schema_version: SCHEMA_VERSION,
            tool: TOOL.to_owned(),
            scenario: plan.scenario.clone(),
            title: plan.title.clone(),
            lock: plan.lock.kind.clone(),
            verdict: expected.verdict,
            lock_verdict: worst_of(|trial| trial.lock_verdict),
            business_verdict: worst_of(|trial| trial.business_verdict),
            expected: plan.expect.clone(),
            missed: expected.missed,
            seed: plan.seed,
            time_scale: plan.time_scale,
            server: server.to_owned(),
            partial: false,
            unkept: vec![],
            thresholds: (trials.iter().filter_map(|trial| worst(&trial.thresholds)))
                .reduce(Verdict::and),
            interrupted: trials.iter().find_map(Trial::interrupted),
            violated: Share::new(violated as u64, trials.len() as u64),
            trials,
        }
    }

    /// How a command with this result ends.
    pub fn exit(&self) -> Exit {
        match (self.interrupted, self.verdict, self.thresholds) {
            (Some(signal), _, _) => Exit::Interrupted(signal),
            (None, Verdict::Fail, _) => Exit::Violated,
            _ if !self.unkept.is_empty() => Exit::Environment,
            (None, _, Some(Verdict::Fail)) => Exit::Threshold,
            (None, verdict, thresholds) => verdict.and(thresholds.unwrap_or(verdict)).into(),
        }
    }
}

/// Several reports in one document.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Reports<'a> {
    /// The version of this format.
    pub schema_version: u32,
    /// The worst of all verdicts.
    pub verdict: Verdict,
    /// One a scenario and lock.
    pub reports: &'a [Report],
}

/// What `report.json` and `--json` hold.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(title = "oversold report")]
enum Document<'a> {
    /// One alone is the report itself.
    One(&'a Report),
    /// Several, as `run` and `compare` write them.
    Several(Reports<'a>),
    /// The settings of an experiment.
    Experiment(&'a Experiment),
}

/// The document for some reports: one alone is the report itself.
pub fn render(reports: &[Report]) -> String {
    let document = match reports {
        [report] => Document::One(report),
        _ => Document::Several(Reports {
            schema_version: SCHEMA_VERSION,
            verdict: Verdict::worst(reports.iter().map(|report| report.verdict)),
            reports,
        }),
    };
    text_of(&document)
}

/// The document for an experiment.
pub fn render_experiment(experiment: &Experiment) -> String {
    text_of(&Document::Experiment(experiment))
}

fn text_of(document: &Document<'_>) -> String {
    // Serialising plain data to memory has no way to fail.
    serde_json::to_string_pretty(document).unwrap_or_default() + "\n"
}

/// The published schema of `report.json`, and of what `--json` writes.
pub fn schema() -> String {
    let schema = schemars::schema_for!(Document<'static>);
    serde_json::to_string_pretty(&schema).unwrap_or_default() + "\n"
}
