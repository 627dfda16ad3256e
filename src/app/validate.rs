//! `oversold validate`: everything that is wrong with some scenarios, without running them.

use std::path::PathBuf;

use super::scenarios::scenarios;
use super::session::{Failure, Session, plans};
use crate::plan::Overrides;
use crate::verdict::Exit;

/// Reads scenarios and tells their mistakes.
pub fn validate(named: &[PathBuf], session: &Session) -> Result<Exit, Failure> {
    let scenarios = scenarios(named)?;
    for scenario in &scenarios {
        plans(scenario, &Overrides::default(), &scenario.lock)?;
    }
    for scenario in scenarios {
        session.say(&format!("{}: valid", scenario.name));
    }
    Ok(Exit::Pass)
}
