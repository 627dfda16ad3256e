//! `oversold run`: scenarios through the whole flow; one summary, one exit code.

use std::io::Write;
use std::path::PathBuf;

use super::scenarios::scenarios;
use super::session::{Failure, Session, plans, worst};
use super::trial::{conduct, new_folder};
use crate::plan::Overrides;
use crate::report::{Report, terminal};
use crate::verdict::Exit;

/// Runs scenarios, each with its own lock or the one named by flag.
pub async fn run(named: &[PathBuf], flags: &Overrides, session: &Session) -> Result<Exit, Failure> {
    let scenarios = scenarios(named)?;
    let plans = |scenario| plans(scenario, flags, flags.lock(scenario));
    let all: Vec<_> = scenarios.iter().map(plans).collect::<Result<_, _>>()?;
    session.check_outputs()?;
    let origin = session.server(all.iter().flatten()).await?;
    let mut reports = Vec::new();
    for (scenario, plans) in scenarios.iter().zip(all) {
        let folder = new_folder(&session.out, &scenario.name, plans[0].seed)?;
        let report = conduct(&plans, &origin, &folder, session).await?;
        session.say(&terminal::summary(&report));
        let over = session.interrupted().is_some() || !report.unkept.is_empty();
        reports.push(report);
        if over {
            break;
        }
    }
    conclude(&reports, session)
}

/// Publishes the reports; several of them get a summary of their own.
pub(super) fn conclude(reports: &[Report], session: &Session) -> Result<Exit, Failure> {
    if reports.len() > 1 {
        session.say(&terminal::overview(reports));
    }
    published(session.publish(reports), worst(reports))
}

/// How a command ends whose documents were written or not: what was found stands in any case.
pub(super) fn published(written: Result<(), Failure>, exit: Exit) -> Result<Exit, Failure> {
    match (written, exit) {
        (Err(why), Exit::Violated) => {
            // Nobody may listen any more, which is no reason to panic.
            let _ = writeln!(anstream::stderr(), "error: not written: {why}");
            Ok(exit)
        }
        (written, exit) => written.map(|()| exit),
    }
}
