//! What all commands share: where results go, which server, who may interrupt.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::fault;
use crate::history::keep::Kept;
use crate::lock;
use crate::plan::{ExternalShape, Overrides, Plan};
use crate::report::{Report, json, junit};
use crate::scenario::{Scenario, Topology, Wait};
use crate::store::StoreUrl;
use crate::topology::{self, External, Origin};
use crate::verdict::{Exit, Signal};

/// What all commands share.
#[derive(Debug, Clone)]
pub struct Session {
    /// The server that was named, if one was.
    pub redis_server: Option<PathBuf>,
    /// The PostgreSQL that was named, if one was.
    pub store_url: Option<StoreUrl>,
    /// The Redis of the user's own that was named, if one was.
    pub external: Option<External>,
    /// The folder for reports.
    pub out: PathBuf,
    /// Where the JSON document goes, if anywhere.
    pub json: Option<Output>,
    /// Where the JUnit document goes, if anywhere.
    pub junit: Option<Output>,
    /// How much of each history is kept.
    pub history: Kept,
    /// Where the figures of a running soak are served, if anywhere.
    pub metrics: Option<Arc<TcpListener>>,
    /// How often a running soak leaves the report of the moment.
    pub rolling: Duration,
    /// Whether the progress of each report's trials is shown.
    pub progress: bool,
    /// The signal to end early, once it has come.
    pub interrupt: watch::Receiver<Option<Signal>>,
}

/// Where a document goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Standard output; the summary then gives way to standard error.
    Stdout,
    /// A file.
    File(PathBuf),
}

impl std::str::FromStr for Output {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Output, Self::Err> {
        Ok(match text {
            "-" => Output::Stdout,
            path => Output::File(path.into()),
        })
    }
}

/// Why a command could not do its work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// How the program ends.
    pub exit: Exit,
    /// What to tell the user.
    pub message: String,
}

impl Failure {
    /// The user's mistake.
    pub fn usage(message: impl ToString) -> Failure {
        Failure {
            exit: Exit::Usage,
            message: message.to_string(),
        }
    }

    /// The machine's: no server, port, permission or disk.
    pub fn environment(message: impl ToString) -> Failure {
        Failure {
            exit: Exit::Environment,
            message: message.to_string(),
        }
    }
}

impl Session {
    /// Where the servers of some plans come from: the user's own Redis that was named, after a look at
    /// it; else the binary that was named, or the first on PATH, prepared for what their faults do to
    /// it, before anything runs.
    pub(super) async fn server(
        &self,
        plans: impl Iterator<Item = &Plan>,
    ) -> Result<Origin, Failure> {
        let plans: Vec<&Plan> = plans.collect();
        if let Some(external) = &self.external {
            let outside = (external.look(&plans).await).map_err(Failure::environment)?;
            let commands = fault::commands(&plans);
            let may = outside.may(&commands).await;
            may.map_err(Failure::environment)?;
            return Ok(Origin::External(outside));
        }
        let binary = topology::find(self.redis_server.as_deref()).map_err(Failure::environment)?;
        let binary = match plans.into_iter().any(Plan::moves_clocks) {
            true => binary.with_own_wall_clock().await,
            false => Ok(binary),
        };
        binary.map(Origin::Own).map_err(Failure::environment)
    }

    /// The signal that has come, if one has.
    pub fn interrupted(&self) -> Option<Signal> {
        *self.interrupt.borrow()
    }

    /// Prints for a person: to standard output, unless a document goes there.
    pub fn say(&self, text: &str) {
        let taken = [&self.json, &self.junit];
        // A closed pipe is the reader's choice, and no reason to lose the exit code.
        let _ = match taken.into_iter().flatten().any(|to| *to == Output::Stdout) {
            true => writeln!(anstream::stderr(), "{text}"),
            false => writeln!(anstream::stdout(), "{text}"),
        };
    }

    /// Says before anything is run when a document could not be written at its end.
    pub fn check_outputs(&self) -> Result<(), Failure> {
        check_folder(&self.out, "\n  choose another folder: `--out DIR`")?;
        for output in [&self.json, &self.junit].into_iter().flatten() {
            if let Output::File(path) = output {
                check_file(path)?;
            }
        }
        Ok(())
    }

    /// Writes the documents that were asked for.
    pub fn publish(&self, reports: &[Report]) -> Result<(), Failure> {
        self.publish_json(&json::render(reports))?;
        if let Some(to) = &self.junit {
            put(to, &junit::render(reports))?;
        }
        Ok(())
    }
}

impl Session {
    /// Writes the JSON document, if it was asked for.
    pub(super) fn publish_json(&self, document: &str) -> Result<(), Failure> {
        match &self.json {
            Some(to) => put(to, document),
            None => Ok(()),
        }
    }
}

/// Whether files can be made in a folder.
fn check_folder(folder: &Path, hint: &str) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .and_then(|()| tempfile::tempfile_in(folder).map(drop))
        .map_err(|why| {
            let folder = folder.display();
            Failure::environment(format!("{folder}: cannot write here: {why}{hint}"))
        })
}

/// Whether a file can be written, without touching what is in it.
fn check_file(path: &Path) -> Result<(), Failure> {
    if !path.exists() {
        return check_folder(folder_of(path), "");
    }
    let opened = std::fs::OpenOptions::new().append(true).open(path);
    opened.map(drop).map_err(|why| {
        Failure::environment(format!("{}: cannot write this: {why}", path.display()))
    })
}

/// The folder of a file; a bare name's is this one.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn put(to: &Output, text: &str) -> Result<(), Failure> {
    match to {
        Output::Stdout => match std::io::stdout().write_all(text.as_bytes()) {
            // A closed pipe is the reader's choice; a full disk behind it is not.
            Err(why) if why.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(Failure::environment(format!("standard output: {why}")))
            }
            _ => Ok(()),
        },
        Output::File(path) => write(path, text),
    }
}

/// Writes a file so that whoever looks finds all of the old one or all of the new one.
pub(super) fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    write(&beside, text)?;
    std::fs::rename(&beside, path)
        .map_err(|why| Failure::environment(format!("{}: {why}", path.display())))
}

/// Writes a file, or says which one could not be written.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|why| Failure::environment(format!("{}: {why}", path.display())))
}

/// How many independent nodes a lock on a majority gets where the scenario does not say.
const QUORUM: Topology = Topology::Quorum { nodes: 5 };

/// The plans of some trials of a scenario under a lock, with what the lock itself asks for: its
/// nodes, and the store's guard that is its own way to protect the business.
pub(super) fn plans(
    scenario: &Scenario,
    flags: &Overrides,
    lock: &str,
) -> Result<Vec<Plan>, Failure> {
    if !waits_as_asked(scenario, lock) {
        return Err(Failure::usage(format!(
            "{}: `wake_up_within` waits for a wake-up, and {lock} wakes nobody; these locks do: {}",
            scenario.name,
            lock::waking().join(", ")
        )));
    }
    let entry = lock::find(lock);
    if let (Some(external), true) = (&flags.external, entry.is_some_and(|entry| entry.quorum))
        && !external.has_quorum()
    {
        return Err(Failure::usage(format!(
            "{}: {lock} is a lock on a majority: name three servers or more, each by a `--url` of its \
             own",
            scenario.file
        )));
    }
    let seeds = flags.seeds(scenario).into_iter();
    let plans = seeds.map(|seed| {
        let mut plan = Plan::resolve(scenario, flags, lock, seed);
        let Some(entry) = entry else {
            return plan;
        };
        plan.topology = match (flags.external, entry.quorum, plan.topology) {
            (Some(external), quorum, _) => external.topology(quorum),
            (None, true, Topology::Single | Topology::Sentinel { .. }) => QUORUM,
            (None, false, Topology::Quorum { .. }) => Topology::Single,
            (None, _, asked) => asked,
        };
        plan.guard = entry.guard.unwrap_or(plan.guard);
        plan
    });
    let plans: Vec<Plan> = plans.collect();
    if let (Some(external), Some(plan)) = (&flags.external, plans.first()) {
        fits(external, plan, &scenario.file)?;
    }
    Ok(plans)
}

/// Says what of a plan cannot be done at a user's own Redis. The plan came from this file.
pub(super) fn fits(external: &ExternalShape, plan: &Plan, file: &str) -> Result<(), Failure> {
    let misfits = external.misfits(plan);
    match misfits.is_empty() {
        true => Ok(()),
        false => Err(Failure::usage(format!(
            "{file}: {}",
            misfits.join("\n  and ")
        ))),
    }
}

/// Whether a lock has the wait policy that a scenario asks for.
fn waits_as_asked(scenario: &Scenario, lock: &str) -> bool {
    let wakes = || lock::find(lock).is_none_or(|entry| entry.wakes.is_some());
    !matches!(scenario.wait, Wait::WakeUp { .. }) || wakes()
}

/// Those of some locks that a scenario is about, and whose waiters wait as it asks, where there are
/// servers enough for them. Tells which are left out, and why.
pub(super) fn locks_for(scenario: &Scenario, of: &[String], flags: &Overrides) -> Vec<String> {
    let about = |lock: &&String| scenario.locks.is_empty() || scenario.locks.contains(*lock);
    let about = of.iter().filter(about).cloned();
    let (fit, unfit): (Vec<_>, Vec<_>) = about.partition(|lock| waits_as_asked(scenario, lock));
    leave_out(scenario, &unfit, "they wake nobody (`wake_up_within`)");
    let quorum = |lock: &String| lock::find(lock).is_some_and(|entry| entry.quorum);
    let few = flags
        .external
        .is_some_and(|external| !external.has_quorum());
    let (unfit, fit): (Vec<_>, Vec<_>) = fit.into_iter().partition(|lock| few && quorum(lock));
    leave_out(
        scenario,
        &unfit,
        "they need three servers (`--url`) or more",
    );
    fit
}

/// Tells which locks a scenario is not run with.
fn leave_out(scenario: &Scenario, locks: &[String], why: &str) {
    if !locks.is_empty() {
        let (name, locks) = (&scenario.name, locks.join(", "));
        // Nobody may listen, which is no reason to stop.
        let _ = writeln!(anstream::stderr(), "{name}: left out, for {why}: {locks}");
    }
}

/// The locks that were named, or else all.
pub(super) fn named_or_all(named: &[String]) -> Vec<String> {
    match named {
        [] => lock::names().into_iter().map(str::to_owned).collect(),
        named => named.to_vec(),
    }
}

/// How deep a run's folder goes: run, lock, seed.
const DEEP: u32 = 3;

/// The files of one of these names in a run's folder, in the order of their folders; or the file
/// itself.
pub(super) fn stored_files(stored: &Path, names: &[&str]) -> Result<Vec<PathBuf>, Failure> {
    let files = files_below(stored, names, DEEP)?;
    match files.is_empty() {
        true => Err(Failure::usage(format!(
            "{}: no {} here or below",
            stored.display(),
            names.join(" or ")
        ))),
        false => Ok(files),
    }
}

fn files_below(stored: &Path, names: &[&str], deep: u32) -> Result<Vec<PathBuf>, Failure> {
    if stored.is_file() {
        return Ok(vec![stored.to_owned()]);
    }
    let mut here = names.iter().map(|name| stored.join(name));
    if let Some(here) = here.find(|here| here.is_file()) {
        return Ok(vec![here]);
    }
    let at = |why: std::io::Error| Failure::usage(format!("{}: {why}", stored.display()));
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(stored).map_err(at)? {
        let path = entry.map_err(at)?.path();
        if path.is_dir() && deep > 1 {
            folders.push(path);
        }
    }
    folders.sort();
    let below = folders
        .iter()
        .map(|folder| files_below(folder, names, deep - 1));
    Ok(below.collect::<Result<Vec<_>, _>>()?.concat())
}

/// The worst of several exits. An interruption outranks all, for the results are partial.
pub(super) fn worst(reports: &[Report]) -> Exit {
    let exits = reports.iter().map(Report::exit);
    exits.max_by_key(weight).unwrap_or(Exit::Inconclusive)
}

fn weight(exit: &Exit) -> u8 {
    match exit {
        Exit::Pass => 0,
        Exit::Inconclusive => 1,
        Exit::Threshold => 2,
        // What was found stands, whatever of it could not be written.
        Exit::Environment => 3,
        Exit::Violated => 4,
        Exit::Usage => 5,
        Exit::Interrupted(_) => 6,
    }
}
