//! `oversold matrix`: locks against scenarios, one cell each. A cell's result is kept as soon as it
//! is done, in a folder of its own, so an interrupted matrix goes on where it was.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};

use super::scenarios::{all_built_in, scenarios};
use super::session::{Failure, Session, locks_for, named_or_all, plans, worst};
use super::trial::{PLAN, conduct, new_folder, whole};
use crate::plan::{Overrides, Plan};
use crate::report::{Report, matrix as table};
use crate::scenario::Scenario;
use crate::topology::Origin;
use crate::verdict::Exit;

/// What a matrix is asked for.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Scenarios; all that come with the program if none is named.
    pub scenarios: Vec<PathBuf>,
    /// The locks, all if none is named; a scenario gets those that it is about.
    pub locks: Vec<String>,
    /// How many cells run at a time.
    pub jobs: usize,
    /// The folder of an earlier matrix that is to be finished.
    pub resume: Option<PathBuf>,
}

/// One lock in one scenario.
struct Cell {
    plans: Vec<Plan>,
    folder: PathBuf,
}

/// Runs every lock in every scenario.
pub async fn matrix(
    request: &Request,
    flags: &Overrides,
    session: &Session,
) -> Result<Exit, Failure> {
    let scenarios = match request.scenarios.as_slice() {
        [] => possible(all_built_in()?, flags),
        named => scenarios(named)?,
    };
    let mut cells = cells(&scenarios, &request.locks, flags)?;
    session.check_outputs()?;
    let all = cells.iter().flat_map(|cell| &cell.plans);
    let origin = session.server(all).await?;
    let folder = match &request.resume {
        Some(folder) => folder.clone(),
        None => new_folder(&session.out, "matrix", flags.seed.unwrap_or(1))?,
    };
    for cell in &mut cells {
        cell.folder = folder.join(&cell.folder);
    }
    let quiet = Session {
        progress: false,
        ..session.clone()
    };
    let reports = run(cells, request.jobs, &origin, &quiet).await?;
    session.say(&table::table(&reports));
    session.say(&format!("files     {}", folder.display()));
    session.publish(&reports)?;
    Ok(match session.interrupted() {
        Some(signal) => Exit::Interrupted(signal),
        None => worst(&reports),
    })
}

/// Those of some scenarios that nobody named which can be run at the user's own Redis, if one is to
/// be used. Tells which are left out.
fn possible(scenarios: Vec<Scenario>, flags: &Overrides) -> Vec<Scenario> {
    let Some(external) = &flags.external else {
        return scenarios;
    };
    let fits = |scenario: &Scenario| {
        let plan = Plan::resolve(scenario, flags, &scenario.lock, scenario.seed);
        external.misfits(&plan).is_empty()
    };
    let (fit, unfit): (Vec<_>, Vec<_>) = scenarios.into_iter().partition(fits);
    if !unfit.is_empty() {
        use std::io::Write;
        let unfit: Vec<&str> = unfit.iter().map(|unfit| unfit.name.as_str()).collect();
        // Nobody may listen, which is no reason to stop.
        let _ = writeln!(
            anstream::stderr(),
            "left out, for their faults cannot be made at an external Redis as it was named: {}",
            unfit.join(", ")
        );
    }
    fit
}

/// All cells, their folders within the matrix's.
fn cells(
    scenarios: &[Scenario],
    locks: &[String],
    flags: &Overrides,
) -> Result<Vec<Cell>, Failure> {
    let mut cells = Vec::new();
    let locks = named_or_all(locks);
    for scenario in scenarios {
        for lock in locks_for(scenario, &locks, flags) {
            cells.push(Cell {
                plans: plans(scenario, flags, &lock)?,
                folder: Path::new(&scenario.name).join(lock),
            });
        }
    }
    match cells.is_empty() {
        true => Err(Failure::usage(format!(
            "no cell to run: none of these scenarios is about {}",
            locks.join(", ")
        ))),
        false => Ok(cells),
    }
}

/// Runs the cells that have no result yet, some at a time, and gives all results in order.
async fn run(
    cells: Vec<Cell>,
    jobs: usize,
    origin: &Origin,
    session: &Session,
) -> Result<Vec<Report>, Failure> {
    let mut progress = Progress::start(cells.len());
    let mut results: Vec<Option<Report>> = cells.iter().map(Cell::kept).collect();
    let missing = cells
        .iter()
        .zip(0..)
        .filter(|(_, at)| results[*at].is_none());
    let missing: Vec<_> = missing.collect();
    progress.skip(cells.len() - missing.len());
    for (cell, _) in &missing {
        cell.clear()?;
    }
    let running = missing.into_iter().map(async |(cell, at)| {
        if session.interrupted().is_some() {
            return Ok(None);
        }
        let report = whole(conduct(&cell.plans, origin, &cell.folder, session).await?)?;
        Ok(Some((at, report)))
    });
    let mut running = std::pin::pin!(stream::iter(running).buffer_unordered(jobs.max(1)));
    while let Some(done) = running.next().await {
        if let Some((at, report)) = done? {
            progress.step(&report);
            results[at] = Some(report);
        }
    }
    Ok(results.into_iter().flatten().collect())
}

impl Cell {
    /// The result of an earlier run of this very cell, if it came to its end.
    fn kept(&self) -> Option<Report> {
        let report = self.finished()?;
        let plans: Option<Vec<Plan>> = (report.trials.iter())
            .map(|trial| stored_plan(Path::new(&trial.folder)))
            .collect();
        (plans? == self.plans).then_some(report)
    }

    /// What is stored of it, if that came to its end.
    fn finished(&self) -> Option<Report> {
        let text = std::fs::read_to_string(self.folder.join("report.json")).ok()?;
        let report: Report = serde_json::from_str(&text).ok()?;
        report.interrupted.is_none().then_some(report)
    }

    /// Removes what an interrupted run of it left behind; a result is never removed.
    fn clear(&self) -> Result<(), Failure> {
        let folder = self.folder.display();
        if self.finished().is_some() {
            let why = format!("{folder}: holds the result of another plan");
            return Err(Failure::usage(why));
        }
        match std::fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Failure::environment(format!("{folder}: {error}")))
            }
            _ => Ok(()),
        }
    }
}

fn stored_plan(folder: &Path) -> Option<Plan> {
    let text = std::fs::read_to_string(folder.join(PLAN)).ok()?;
    serde_json::from_str(&text).ok()
}

/// A line for each cell, with an estimate of the time left.
struct Progress {
    began: Instant,
    cells: usize,
    done: usize,
    skipped: usize,
}

impl Progress {
    fn start(cells: usize) -> Progress {
        Progress {
            began: Instant::now(),
            cells,
            done: 0,
            skipped: 0,
        }
    }

    fn skip(&mut self, cells: usize) {
        (self.done, self.skipped) = (cells, cells);
    }

    fn step(&mut self, report: &Report) {
        use std::io::Write;
        self.done += 1;
        let took = self.began.elapsed().as_secs_f64() / (self.done - self.skipped) as f64;
        let left = Duration::from_secs_f64(took * (self.cells - self.done) as f64);
        // Nobody may listen any more, which is no reason to stop.
        let _ = writeln!(
            anstream::stderr(),
            "{} of {}: {} / {} {} ({} of {} violated); some {:.0?} left",
            self.done,
            self.cells,
            report.scenario,
            report.lock,
            report.verdict.word(),
            report.violated.count,
            report.violated.of,
            left
        );
    }
}
