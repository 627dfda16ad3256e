//! `oversold list`: what there is, read from the registries.

use std::path::Path;

use super::session::{Failure, Session, scenarios};
use crate::check;
use crate::fault;
use crate::lock;
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
    /// The scenario files in `scenarios/`.
    Scenarios,
}

impl Registry {
    /// All of them, in the order of a full list.
    pub const ALL: [Registry; 5] = [
        Registry::Locks,
        Registry::Faults,
        Registry::Checks,
        Registry::Workloads,
        Registry::Scenarios,
    ];

    fn heading(self) -> &'static str {
        match self {
            Registry::Locks => "locks",
            Registry::Faults => "faults",
            Registry::Checks => "checks",
            Registry::Workloads => "workloads",
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
        Registry::Locks => lock::ALL.iter().map(|e| row(e.name, e.about)).collect(),
        Registry::Faults => fault::ALL.iter().map(|e| row(e.name, e.about)).collect(),
        Registry::Checks => check::ALL.iter().map(|e| row(e.name, e.about)).collect(),
        Registry::Workloads => workload::ALL.iter().map(|e| row(e.name, e.about)).collect(),
        Registry::Scenarios => {
            let folder = Path::new("scenarios");
            if !folder.is_dir() {
                return Ok(vec![row("-", "no folder `scenarios` here")]);
            }
            let found = scenarios(&[folder.to_owned()])?;
            found.iter().map(|s| row(&s.name, &s.title)).collect()
        }
    })
}
