//! `oversold ttl-sweep`: the TTL as a multiple of the section's P99, and how probable a violation
//! is at each.

use std::path::PathBuf;

use super::scenarios;
use super::session::{Failure, Session};
use super::sweep::{Series, sweep};
use crate::clock::nanos;
use crate::plan::Overrides;
use crate::report::experiment::Setting;
use crate::report::sweep as table;
use crate::scenario::Scenario;
use crate::verdict::Exit;

/// How many trials each multiple gets where nobody says.
const TRIALS: u32 = 20;

/// What a TTL sweep is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// The scenario.
    pub scenario: PathBuf,
    /// The multiples of the P99.
    pub multiples: Vec<f64>,
    /// How many trials run at a time.
    pub jobs: usize,
}

/// Runs the trials of each multiple and prints their table.
pub async fn ttl_sweep(
    request: &Request,
    flags: &Overrides,
    session: &Session,
) -> Result<Exit, Failure> {
    let scenario = &scenarios::one(&request.scenario, "ttl-sweep")?;
    let flags = Overrides {
        trials: flags.trials.or(Some(TRIALS)),
        ..flags.clone()
    };
    let p99 = scenario.section.quantile(0.99);
    let mut multiples = request.multiples.clone();
    multiples.sort_by(f64::total_cmp);
    multiples.dedup();
    let series = multiples.into_iter().map(|of_p99| {
        let ttl = p99.mul_f64(of_p99);
        let ttl_ns = nanos(ttl);
        let changed = Scenario {
            ttl,
            ..scenario.clone()
        };
        let setting = Setting::Ttl { of_p99, ttl_ns };
        Series::new(flags.lock(scenario), setting, changed, &flags)
    });
    let series = series.collect::<Result<_, _>>()?;
    let done = sweep("ttl-sweep", scenario, series, request.jobs, session).await?;
    done.tell(&table::ttl(&done.experiment, p99), session);
    Ok(done.experiment.exit())
}
