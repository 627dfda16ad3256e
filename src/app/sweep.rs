//! What all experiments share: the trials of every setting, some at a time, and one document. The
//! settings meet the same seeds, and take turns seed by seed, so that what an interrupted
//! experiment leaves is as much of each.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use futures_util::{StreamExt, stream};

use super::session::{Failure, Session, plans, write};
use super::trial::{conduct, new_folder, warn_of_jitter, while_showing, whole};
use crate::plan::{Overrides, Plan};
use crate::progress::Progress;
use crate::report::experiment::{Row, Setting};
use crate::report::{Experiment, Report, json};
use crate::scenario::Scenario;
use crate::topology::Origin;

/// The file with an experiment's document.
const EXPERIMENT: &str = "experiment.json";

/// One setting, and its trials.
pub(super) struct Series {
    lock: String,
    setting: Setting,
    plans: Vec<Plan>,
}

impl Series {
    /// The trials of a scenario that was changed to a setting.
    pub(super) fn new(
        lock: &str,
        setting: Setting,
        changed: Scenario,
        flags: &Overrides,
    ) -> Result<Series, Failure> {
        // Named apart, so that stored histories are judged setting by setting, too.
        let scenario = Scenario {
            name: format!("{}-{}", changed.name, setting.folder()),
            ..changed
        };
        Ok(Series {
            lock: lock.to_owned(),
            plans: plans(&scenario, flags, lock)?,
            setting,
        })
    }

    fn folder(&self) -> PathBuf {
        PathBuf::from(format!("{}-{}", self.lock, self.setting.folder()))
    }
}

/// One trial that is still to be run.
struct Todo<'a> {
    row: usize,
    plan: &'a Plan,
    folder: PathBuf,
}

/// What is left of an experiment: its document, and the folder with everything.
pub(super) struct Done {
    pub(super) experiment: Experiment,
    folder: PathBuf,
}

impl Done {
    /// Prints what is to be said of it.
    pub(super) fn tell(&self, table: &str, session: &Session) {
        session.say(table);
        session.say(&format!("files     {}", self.folder.display()));
    }
}

/// Runs all trials of an experiment and leaves its document in a folder of its own. An interruption
/// leaves what was done until then.
pub(super) async fn sweep(
    name: &str,
    scenario: &Scenario,
    series: Vec<Series>,
    jobs: usize,
    session: &Session,
) -> Result<Done, Failure> {
    session.check_outputs()?;
    let all = series.iter().flat_map(|series| &series.plans);
    let origin = session.server(all).await?;
    let first = series.iter().find_map(|series| series.plans.first());
    let first = first.ok_or_else(|| Failure::usage("no trial was asked for"))?;
    let folder = new_folder(&session.out, name, first.seed)?;
    if session.progress {
        warn_of_jitter(first).await;
    }
    let reports = run(name, todo(&series, &folder), jobs, &origin, session).await?;
    let rows = rows(&series, &reports);
    let experiment = Experiment {
        interrupted: session.interrupted(),
        ..Experiment::new(name, &scenario.name, first, origin.version(), rows)
    };
    let document = json::render_experiment(&experiment);
    write(&folder.join(EXPERIMENT), &document)?;
    session.publish_json(&document)?;
    Ok(Done { experiment, folder })
}

/// Runs trials, some at a time, until all are done or somebody interrupts; each report comes with
/// the number of its row.
async fn run(
    name: &str,
    todo: Vec<Todo<'_>>,
    jobs: usize,
    origin: &Origin,
    session: &Session,
) -> Result<Vec<(usize, Report)>, Failure> {
    let mut progress = Progress::start(name.to_owned(), todo.len(), session.progress);
    let violations = progress.violations();
    let quiet = Session {
        progress: false,
        ..session.clone()
    };
    let running = todo.into_iter().map(async |todo| {
        if quiet.interrupted().is_some() {
            return Ok(None);
        }
        let plans = std::slice::from_ref(todo.plan);
        let report = whole(conduct(plans, origin, &todo.folder, &quiet).await?)?;
        Ok(Some((todo.row, report)))
    });
    let mut running = std::pin::pin!(stream::iter(running).buffer_unordered(jobs.max(1)));
    let mut done = Vec::new();
    while let Some(trial) = while_showing(running.next(), &mut progress).await {
        if let Some((row, report)) = trial? {
            progress.step();
            violations.fetch_add(found(&report), Ordering::Relaxed);
            done.push((row, report));
        }
    }
    Ok(done)
}

/// How many violations were found.
fn found(report: &Report) -> u64 {
    let trials = report.trials.iter();
    trials.flat_map(|trial| trial.violations.values()).sum()
}

/// All trials: the first of every setting, then the second of every setting, and so on.
fn todo<'a>(series: &'a [Series], folder: &Path) -> Vec<Todo<'a>> {
    let trials = series.iter().map(|series| series.plans.len()).max();
    let turns = (0..trials.unwrap_or(0)).flat_map(|trial| {
        let rows = series.iter().enumerate();
        rows.filter_map(move |(row, series)| Some((row, series, series.plans.get(trial)?)))
    });
    let todo = turns.map(|(row, series, plan)| Todo {
        row,
        plan,
        folder: (folder.join(series.folder())).join(format!("seed-{}", plan.seed)),
    });
    todo.collect()
}

fn rows(series: &[Series], reports: &[(usize, Report)]) -> Vec<Row> {
    let row = |(at, series): (usize, &Series)| {
        let of_row = reports.iter().filter(|(row, _)| *row == at);
        let trials = of_row.flat_map(|(_, report)| report.trials.iter().cloned());
        Row::new(&series.lock, series.setting.clone(), trials.collect())
    };
    series.iter().enumerate().map(row).collect()
}
