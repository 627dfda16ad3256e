//! `oversold list`: what there is, read from the registries.

use std::path::{Path, PathBuf};
use std::slice;

use super::session::{Failure, Session, scenarios};
use crate::check;
use crate::fault;
use crate::lock;
use crate::scenario::Mistake;
use crate::verdict::Exit;
use crate::workload;

/// What can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registry {
    /// Lock strategies.
    Locks,
    /// Faults.
    Faults,
    /// Checks.
    Checks,
    /// Workloads.
    Workloads,
    /// Mistakes around a lock.
    Mistakes,
    /// The scenario files in `scenarios/`.
    Scenarios,
}

impl Registry {
    /// All of them, in the order of a full list.
    pub const ALL: [Registry; 6] = [
        Registry::Locks,
        Registry::Faults,
        Registry::Checks,
        Registry::Workloads,
        Registry::Mistakes,
        Registry::Scenarios,
    ];

    fn heading(self) -> &'static str {
        match self {
            Registry::Locks => "locks",
            Registry::Faults => "faults",
            Registry::Checks => "checks",
            Registry::Workloads => "workloads",
            Registry::Mistakes => "mistakes",
            Registry::Scenarios => "scenarios",
        }
    }
}

/// Lists one registry, or all.
pub fn list(which: Option<Registry>, session: &Session) -> Result<Exit, Failure> {
    let which = which.map_or(Registry::ALL.to_vec(), |one| vec![one]);
    for registry in which {
        session.say(registry.heading());
        for (name, about) in rows(registry)? {
            session.say(&format!("  {name:20} {about}"));
        }
    }
    Ok(Exit::Pass)
}

fn rows(registry: Registry) -> Result<Vec<(String, String)>, Failure> {
    let row = |name: &str, about: &str| (name.to_owned(), about.to_owned());
    Ok(match registry {
        Registry::Locks => lock::ALL.iter().map(lock_row).collect(),
        Registry::Faults => fault::ALL.iter().map(|e| row(e.name, e.about)).collect(),
        Registry::Checks => check::ALL.iter().map(|e| row(e.name, e.about)).collect(),
        Registry::Workloads => workload::ALL.iter().map(|e| row(e.name, e.about)).collect(),
        Registry::Mistakes => {
            let all = Mistake::ALL.iter();
            all.map(|mistake| row(mistake.word(), mistake.about()))
                .collect()
        }
        Registry::Scenarios => return scenario_rows(Path::new("scenarios")),
    })
}

/// A lock; and, where it does so, how it wakes its waiters.
fn lock_row(lock: &lock::Entry) -> (String, String) {
    let about = match lock.wakes {
        Some(wakes) => format!("{}; wakes {}", lock.about, wakes.word()),
        None => lock.about.to_owned(),
    };
    (lock.name.to_owned(), about)
}

/// The scenarios of a folder. One that is invalid does not hide the others.
fn scenario_rows(folder: &Path) -> Result<Vec<(String, String)>, Failure> {
    if !folder.is_dir() {
        let what = format!("no folder `{}` here", folder.display());
        return Ok(vec![("-".to_owned(), what)]);
    }
    let at = |why: std::io::Error| Failure::usage(format!("{}: {why}", folder.display()));
    let entries = std::fs::read_dir(folder).map_err(at)?;
    let paths: Result<Vec<PathBuf>, _> = entries.map(|e| e.map(|e| e.path())).collect();
    let mut files = paths.map_err(at)?;
    files.retain(|file| file.extension().is_some_and(|ending| ending == "toml"));
    files.sort();
    let rows = files
        .iter()
        .map(|file| match scenarios(slice::from_ref(file)) {
            Ok(found) => found.into_iter().map(|s| (s.name, s.title)).collect(),
            Err(_) => {
                let name = file.file_name().unwrap_or_default().display().to_string();
                let what = format!("invalid: `oversold validate {}`", file.display());
                vec![(name, what)]
            }
        });
    Ok(rows.flat_map(|rows: Vec<_>| rows).collect())
}
