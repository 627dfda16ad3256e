//! An experiment: the same business under one setting after the other, some trials each. What its
//! document holds, and what may be said of a setting.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::json::{SCHEMA_VERSION, TOOL, Trial};
use super::statistics::{Share, spread};
use crate::history::event::Stop;
use crate::plan::Plan;
use crate::verdict::{Exit, Signal};

/// The settings of an experiment, each with its trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Experiment {
    /// The version of this format.
    pub schema_version: u32,
    /// The program and its version.
    pub tool: String,
    /// The command: `ttl-sweep`, `rate-sweep` or `granularity`.
    pub experiment: String,
    /// The scenario's name.
    pub scenario: String,
    /// The first trial's seed.
    pub seed: u64,
    /// The factor from the incident's time to the run's.
    pub time_scale: f64,
    /// The server that was put to the test.
    pub server: String,
    /// The signal that ended it early, if one did.
    pub interrupted: Option<Signal>,
    /// The settings.
    pub rows: Vec<Row>,
}

/// One setting, and the trials that came to their own end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The lock's name.
    pub lock: String,
    /// The setting.
    pub setting: Setting,
    /// The share of trials with a violation, of those that could be judged.
    pub violated: Share,
    /// Trials that could not.
    pub unsure: u64,
    /// The trials.
    pub trials: Vec<Trial>,
}

/// What differs from one row to the next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// The TTL.
    Ttl {
        /// As a multiple of the section's 99th percentile.
        of_p99: f64,
        /// In the incident's own time.
        ttl_ns: u64,
    },
    /// Requests a second, in the incident's own time.
    Rate {
        /// The nominal rate: the load is a closed loop and may stay below it.
        nominal_per_second: f64,
    },
    /// What one lock protects.
    Granularity {
        /// `all`, `sku` or `unit`.
        granularity: String,
    },
}

impl Setting {
    /// The setting in a folder's name.
    pub fn folder(&self) -> String {
        match self {
            Setting::Ttl { of_p99, .. } => format!("ttl-{of_p99}x"),
            Setting::Rate { nominal_per_second } => format!("rate-{nominal_per_second}"),
            Setting::Granularity { granularity } => format!("granularity-{granularity}"),
        }
    }
}

impl Row {
    /// A row of the trials that were run; one that was cut short by a signal tells nothing about
    /// how often a violation comes, whatever was found until then.
    pub fn new(lock: &str, setting: Setting, trials: Vec<Trial>) -> Row {
        let mut trials = trials;
        let cut = |trial: &Trial| matches!(trial.coverage.stop, Some(Stop::Signal(_)));
        trials.retain(|trial| !cut(trial));
        trials.sort_by_key(|trial| trial.seed);
        let unsure = trials.iter().filter(|trial| unsure(trial)).count() as u64;
        let violated = trials.iter().filter(|trial| trial.violated()).count() as u64;
        Row {
            lock: lock.to_owned(),
            setting,
            violated: Share::new(violated, trials.len() as u64 - unsure),
            unsure,
            trials,
        }
    }

    /// The violated share as one number; none where no trial could be judged.
    pub fn estimate(&self) -> Option<f64> {
        let Share { count, of, .. } = self.violated;
        (of > 0).then(|| count as f64 / of as f64)
    }

    /// The median of a number over the trials that could be judged.
    pub fn median(&self, of: impl Fn(&Trial) -> i64) -> Option<f64> {
        let judged = self.trials.iter().filter(|trial| !unsure(trial));
        spread(&judged.map(of).collect::<Vec<_>>()).map(|[_, _, middle, _, _]| middle)
    }
}

/// A found violation outranks a doubt.
fn unsure(trial: &Trial) -> bool {
    !trial.violated() && !trial.doubts.is_empty()
}

impl Experiment {
    /// An experiment with its rows. Seed and scale are those of its `first` plan; the scenario has
    /// its own name here, not that of a setting.
    pub fn new(
        experiment: &str,
        scenario: &str,
        first: &Plan,
        server: &str,
        rows: Vec<Row>,
    ) -> Experiment {
        Experiment {
            schema_version: SCHEMA_VERSION,
            tool: TOOL.to_owned(),
            experiment: experiment.to_owned(),
            scenario: scenario.to_owned(),
            seed: first.seed,
            time_scale: first.time_scale,
            server: server.to_owned(),
            interrupted: None,
            rows,
        }
    }

    /// How it ends: an experiment expects nothing, but every trial has to tell something.
    pub fn exit(&self) -> Exit {
        match self.interrupted {
            Some(signal) => Exit::Interrupted(signal),
            None if self.rows.iter().any(|row| row.unsure > 0) => Exit::Inconclusive,
            None => Exit::Pass,
        }
    }

    /// How it ends where every lock has to hold.
    pub fn exit_where_all_must_hold(&self) -> Exit {
        let violated = self.rows.iter().any(|row| row.violated.count > 0);
        match self.exit() {
            Exit::Pass | Exit::Inconclusive if violated => Exit::Violated,
            exit => exit,
        }
    }
}
