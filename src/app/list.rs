//! `oversold list`: what there is, read from the registries.

use super::scenarios::all_built_in;
use super::session::{Failure, Session};
use crate::check;
use crate::fault;
use crate::lock;
use crate::scenario::{Expect, Mistake, Scenario, Trap};
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
    /// The scenarios that come with the program.
    Scenarios,
    /// The traps and rules of the incidents.
    Traps,
}

impl Registry {
    /// All of them, in the order of a full list.
    pub const ALL: [Registry; 7] = [
        Registry::Locks,
        Registry::Faults,
        Registry::Checks,
        Registry::Workloads,
        Registry::Mistakes,
        Registry::Scenarios,
        Registry::Traps,
    ];

    fn heading(self) -> &'static str {
        match self {
            Registry::Locks => "locks",
            Registry::Faults => "faults",
            Registry::Checks => "checks",
            Registry::Workloads => "workloads",
            Registry::Mistakes => "mistakes",
            Registry::Scenarios => "scenarios",
            Registry::Traps => "traps",
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
        Registry::Scenarios => return scenario_rows(),
        Registry::Traps => return trap_rows(),
    })
}

/// The scenarios that come with the program.
fn scenario_rows() -> Result<Vec<(String, String)>, Failure> {
    let all = all_built_in()?.into_iter();
    Ok(all
        .map(|scenario| (scenario.name, scenario.title))
        .collect())
}

/// Each trap and rule, with the scenarios that show it and the locks that fall for it there.
fn trap_rows() -> Result<Vec<(String, String)>, Failure> {
    let scenarios = all_built_in()?;
    let mut rows = Vec::new();
    for trap in Trap::ALL {
        rows.push((trap.word().to_owned(), trap.about().to_owned()));
        for scenario in scenarios.iter().filter(|s| s.shows.contains(&trap)) {
            let falls = match fallen(scenario) {
                falls if falls.is_empty() => "no lock breaks".to_owned(),
                falls => format!("falls: {}", falls.join(", ")),
            };
            rows.push((String::new(), format!("{}: {falls}", scenario.name)));
        }
    }
    Ok(rows)
}

/// The locks that a scenario breaks. That there is none always breaks, which shows nothing.
fn fallen(scenario: &Scenario) -> Vec<String> {
    let broken = (scenario.expect.iter())
        .filter(|(lock, expect)| *lock != "none" && **expect != Expect::Pass)
        .map(|(lock, _)| match scenario.mistake {
            Some(mistake) => format!("{lock} with `{}`", mistake.word()),
            None => lock.clone(),
        });
    broken.collect()
}

/// A lock; and, where it does so, how it wakes its waiters.
fn lock_row(lock: &lock::Entry) -> (String, String) {
    let about = match lock.wakes {
        Some(wakes) => format!("{}; wakes {}", lock.about, wakes.word()),
        None => lock.about.to_owned(),
    };
    (lock.name.to_owned(), about)
}
