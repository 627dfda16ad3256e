//! The flags that several commands share, and how their values are read.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::app::{Failure, Output};
use crate::history::keep::Kept;
use crate::lock;
use crate::plan::Overrides;
use crate::scenario::{Mistake, Store};
use crate::store::StoreUrl;
use crate::topology::External;

#[derive(Debug, Args)]
pub(super) struct PlanFlags {
    /// The first trial's seed
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// How many trials, each under the next seed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) trials: Option<u32>,
    /// The factor from the scenario's seconds to the run's
    #[arg(long, value_name = "FACTOR", value_parser = time_scale)]
    pub(super) time_scale: Option<f64>,
    /// Workers over all instances
    #[arg(short = 'c', long = "workers", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) workers: Option<u32>,
    /// Operations over all workers
    #[arg(short = 'n', long = "operations", value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) operations: Option<u64>,
    /// How long operations are issued, in the scenario's own time
    #[arg(short = 'z', long = "duration", value_name = "DURATION", value_parser = duration)]
    pub(super) duration: Option<Duration>,
    /// The store, instead of the scenario's own
    #[arg(long, value_name = "sqlite|postgres|redis|memory")]
    pub(super) store: Option<StoreFlag>,
    /// A mistake around the lock (`oversold list mistakes`)
    #[arg(long, value_name = "MISTAKE", value_parser = mistake)]
    pub(super) mistake: Option<Mistake>,
}

#[derive(Debug, Args)]
pub(super) struct ResultFlags {
    /// The folder for reports
    #[arg(long, value_name = "DIR", default_value = "reports")]
    pub(super) out: PathBuf,
    /// How much of each history is kept: full (default; of a soak: window), gzip, window (around
    /// findings), off. Only full and gzip can be checked again with `oversold check`
    #[arg(long, value_name = "HOW")]
    pub(super) history: Option<Kept>,
    #[command(flatten)]
    pub(super) documents: DocumentFlags,
}

#[derive(Debug, Args)]
pub(super) struct ExperimentFlags {
    /// The folder for reports
    #[arg(long, value_name = "DIR", default_value = "reports")]
    pub(super) out: PathBuf,
    /// How much of each history is kept: full, gzip, window (around findings), off
    #[arg(long, value_name = "HOW", default_value = "gzip")]
    pub(super) history: Kept,
    /// Also write the JSON document to this file (- is standard output)
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<Output>,
}

#[derive(Debug, Default, Args)]
pub(super) struct DocumentFlags {
    /// Also write the JSON report to this file (- is standard output)
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<Output>,
    /// Also write the JUnit report to this file (- is standard output)
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<Output>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum ExpectFlag {
    Pass,
    Violation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum StoreFlag {
    Sqlite,
    Postgres,
    Redis,
    Memory,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum ListFlag {
    Locks,
    Faults,
    Checks,
    Workloads,
    Mistakes,
    Scenarios,
    Traps,
}

pub(super) fn mistake(text: &str) -> Result<Mistake, String> {
    let found = Mistake::ALL.into_iter().find(|known| known.word() == text);
    found.ok_or_else(|| format!("there are {}", Mistake::ALL.map(Mistake::word).join(", ")))
}

pub(super) fn lock_name(text: &str) -> Result<String, String> {
    match lock::find(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(format!(
            "no such lock; there are {}",
            lock::names().join(", ")
        )),
    }
}

pub(super) fn multiple(text: &str) -> Result<f64, String> {
    let multiple = text.parse().ok();
    multiple
        .filter(|multiple| (0.01..=100.0).contains(multiple))
        .ok_or_else(|| "a multiple of the P99 between 0.01 and 100".to_owned())
}

pub(super) fn time_scale(text: &str) -> Result<f64, String> {
    let scale = text.parse().ok();
    scale
        .filter(|scale| (0.001..=10.0).contains(scale))
        .ok_or_else(|| "a factor between 0.001 and 10".to_owned())
}

/// As long as a scenario may say.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let day = Duration::from_secs(24 * 60 * 60);
    let duration = humantime::parse_duration(text).map_err(|why| why.to_string())?;
    match duration > Duration::ZERO && duration <= day {
        true => Ok(duration),
        false => Err("a duration longer than 0 and up to a day".to_owned()),
    }
}

impl StoreFlag {
    /// The store that was chosen, by its word or by a URL.
    pub(super) fn chosen(
        flag: Option<StoreFlag>,
        named: Option<&StoreUrl>,
    ) -> Result<Option<Store>, Failure> {
        let store = flag.map(|flag| match flag {
            StoreFlag::Sqlite => Store::Sqlite,
            StoreFlag::Postgres => Store::Postgres,
            StoreFlag::Redis => Store::Redis,
            StoreFlag::Memory => Store::Memory,
        });
        let store = store.or(named.map(|_| Store::Postgres));
        match named.is_some() && store != Some(Store::Postgres) {
            true => Err(Failure::usage(
                "`--store-url` names a PostgreSQL: leave it out, or use `--store postgres`",
            )),
            false => Ok(store),
        }
    }
}

impl PlanFlags {
    /// What is overridden, where a store or a Redis was named by its URL, too.
    pub(super) fn overrides(
        self,
        named: Option<&StoreUrl>,
        external: Option<&External>,
    ) -> Result<Overrides, Failure> {
        let store = StoreFlag::chosen(self.store, named)?;
        Ok(Overrides {
            seed: self.seed,
            trials: self.trials,
            time_scale: self.time_scale,
            workers: self.workers,
            mistake: self.mistake,
            operations: self.operations,
            duration: self.duration,
            store,
            external: external.map(External::shape),
            ..Overrides::default()
        })
    }
}

impl ExperimentFlags {
    pub(super) fn parts(self) -> (PathBuf, Kept, DocumentFlags) {
        let documents = DocumentFlags {
            json: self.json,
            junit: None,
        };
        (self.out, self.history, documents)
    }
}

impl DocumentFlags {
    /// Two documents on standard output would be none.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let stdout = Some(Output::Stdout);
        match self.json == stdout && self.junit == stdout {
            true => Err(Failure::usage(
                "`--json -` and `--junit -`: one of the two can go to standard output; name a file \
                 for the other",
            )),
            false => Ok(()),
        }
    }
}
