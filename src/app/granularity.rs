//! `oversold granularity`: what one lock for everything costs, against one for each SKU and one for
//! each unit. One trial at a time, for trials side by side would share the machine's throughput.

use std::path::Path;

use super::scenarios;
use super::session::{Failure, Session};
use super::sweep::{Series, sweep};
use crate::plan::Overrides;
use crate::report::experiment::Setting;
use crate::report::granularity as table;
use crate::scenario::{Expect, Granularity, Scenario, Workload};
use crate::verdict::Exit;

/// How many trials each granularity gets where nobody says.
const TRIALS: u32 = 3;

/// Runs each lock at each granularity and prints their throughput.
pub async fn granularity(
    named: &Path,
    locks: &[String],
    flags: &Overrides,
    session: &Session,
) -> Result<Exit, Failure> {
    let scenario = &scenarios::one(named, "granularity")?;
    let flags = Overrides {
        trials: flags.trials.or(Some(TRIALS)),
        // The throughput of a lock that does not hold is worth nothing.
        expect: Some(Expect::Pass),
        ..flags.clone()
    };
    let own = [flags.lock(scenario).to_owned()];
    let locks = if locks.is_empty() { &own } else { locks };
    let mut series = Vec::new();
    for lock in locks {
        for granularity in Granularity::ALL {
            let changed = at(scenario, granularity)?;
            let setting = Setting::Granularity {
                granularity: granularity.word().to_owned(),
            };
            series.push(Series::new(lock, setting, changed, &flags)?);
        }
    }
    let done = sweep("granularity", scenario, series, 1, session).await?;
    done.tell(&table::table(&done.experiment), session);
    Ok(done.experiment.exit_where_all_must_hold())
}

/// The scenario with another granularity.
fn at(scenario: &Scenario, granularity: Granularity) -> Result<Scenario, Failure> {
    let Workload::FlashSale { stock, skus, .. } = scenario.workload else {
        return Err(Failure::usage(format!(
            "{}: granularity is about a `flash-sale`: choose a scenario with one, with several SKUs",
            scenario.name
        )));
    };
    let units = u64::from(stock) * u64::from(skus);
    if units > Granularity::MOST_UNITS {
        return Err(Failure::usage(format!(
            "{}: {units} units would be as many locks; at most {}: less `stock`",
            scenario.name,
            Granularity::MOST_UNITS
        )));
    }
    let workload = Workload::FlashSale {
        stock,
        skus,
        granularity,
    };
    Ok(Scenario {
        workload,
        ..scenario.clone()
    })
}
