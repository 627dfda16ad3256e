//! `oversold rate-sweep`: how probable a violation is at each rate of requests, everything else
//! being the same.

use std::path::PathBuf;
use std::time::Duration;

use super::session::{Failure, Session, scenarios};
use super::sweep::{Series, sweep};
use crate::clock::nanos;
use crate::plan::Overrides;
use crate::report::experiment::Setting;
use crate::report::sweep as table;
use crate::scenario::{Dist, Scenario};
use crate::verdict::Exit;

/// How many trials each rate gets where nobody says.
const TRIALS: u32 = 10;

/// What a rate sweep is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// The scenario file.
    pub scenario: PathBuf,
    /// Requests a second, in the incident's own time.
    pub rates: Vec<u32>,
    /// How many trials run at a time.
    pub jobs: usize,
}

/// Runs the trials of each rate and prints their table.
pub async fn rate_sweep(
    request: &Request,
    flags: &Overrides,
    session: &Session,
) -> Result<Exit, Failure> {
    let scenarios = scenarios(std::slice::from_ref(&request.scenario))?;
    let [scenario] = scenarios.as_slice() else {
        return Err(Failure::usage("rate-sweep takes one scenario file"));
    };
    let flags = Overrides {
        trials: flags.trials.or(Some(TRIALS)),
        ..flags.clone()
    };
    let mut rates = request.rates.clone();
    rates.sort_unstable();
    rates.dedup();
    let series = rates.into_iter().map(|rate| {
        let setting = Setting::Rate {
            nominal_per_second: f64::from(rate),
        };
        let changed = at_rate(scenario, rate, &flags);
        Series::new(flags.lock(scenario), setting, changed, &flags)
    });
    let series = series.collect();
    let done = sweep("rate-sweep", scenario, series, request.jobs, session).await?;
    done.tell(&table::rate(&done.experiment), session);
    Ok(done.experiment.exit())
}

/// The scenario at a nominal rate: as many workers as it has, each of whom pauses so long between
/// two requests that together they make so many.
fn at_rate(scenario: &Scenario, rate: u32, flags: &Overrides) -> Scenario {
    let workers = flags.workers.unwrap_or(scenario.load.workers);
    let pause = nanos(Duration::from_secs(1)) as f64 * f64::from(workers) / f64::from(rate);
    let mut changed = scenario.clone();
    changed.load.think = Dist::Uniform {
        low_ns: (pause / 2.0) as u64,
        high_ns: (pause * 1.5) as u64,
    };
    changed
}
