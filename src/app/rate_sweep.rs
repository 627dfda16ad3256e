//! `oversold rate-sweep`: how probable a violation is at each rate of requests, everything else
//! being the same.

use std::path::PathBuf;
use std::time::Duration;

use super::scenarios;
use super::session::{Failure, Session};
use super::sweep::{Series, sweep};
use crate::clock::nanos;
use crate::plan::Overrides;
use crate::report::experiment::Setting;
use crate::report::sweep as table;
use crate::scenario::{Dist, Scenario};
use crate::verdict::Exit;
use crate::workload;

/// How many trials each rate gets where nobody says.
const TRIALS: u32 = 10;

/// What a rate sweep is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// The scenario.
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
    let scenario = &scenarios::one(&request.scenario, "rate-sweep")?;
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
    let series = series.collect::<Result<_, _>>()?;
    let done = sweep("rate-sweep", scenario, series, request.jobs, session).await?;
    done.tell(&table::rate(&done.experiment), session);
    Ok(done.experiment.exit())
}

/// The scenario at a nominal rate: as many workers as it has, each of whom pauses so long between
/// two requests that together they make so many.
fn at_rate(scenario: &Scenario, rate: u32, flags: &Overrides) -> Scenario {
    let workers = flags.workers.unwrap_or(scenario.load.workers);
    let rate = f64::from(rate);
    let pause = f64::from(workers) / rate - busy(scenario, rate);
    let ns = |part: f64| nanos(Duration::from_secs_f64((part * pause).max(0.0)));
    let mut changed = scenario.clone();
    changed.load.think = Dist::Uniform {
        low_ns: ns(0.5),
        high_ns: ns(1.5),
    };
    changed
}

/// How many seconds a request takes on average: its section, unless the lock is taken. With one
/// place at each key and nobody waiting, 1 / (1 + load) get in (Erlang's loss formula).
fn busy(scenario: &Scenario, rate: f64) -> f64 {
    let section = scenario.section.mean().as_secs_f64();
    let load = rate * section / f64::from(workload::keys(&scenario.workload));
    section / (1.0 + load)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::scenarios::vocabulary;

    fn pause(name: &str, text: &str, rate: u32) -> f64 {
        let scenario = Scenario::parse(name, text, &vocabulary()).expect("it is valid");
        let flags = Overrides::default();
        at_rate(&scenario, rate, &flags)
            .load
            .think
            .mean()
            .as_secs_f64()
    }

    #[test]
    fn a_worker_pauses_for_what_a_request_leaves_of_its_turn() {
        let quiet = include_str!("../../scenarios/incident-137-quiet.toml");
        let under_one_lock = pause("quiet", quiet, 300);
        assert!(
            (0.19..0.2).contains(&under_one_lock),
            "nearly all are refused: {under_one_lock}"
        );
        let shop = include_str!("../../scenarios/rate-sweep.toml");
        let alone = pause("shop", shop, 300);
        assert!((0.58..0.62).contains(&alone), "nearly all get in: {alone}");
        assert_eq!(pause("shop", shop, 1_000_000), 0.0);
    }
}
