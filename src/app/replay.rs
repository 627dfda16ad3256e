//! `oversold replay`: stored plans again, as they were decided. A seed replays the plan and not
//! the interleaving.

use std::path::Path;

use super::run::conclude;
use super::session::{Failure, Session, stored_files};
use super::trial::{PLAN, conduct, new_folder};
use crate::plan::{Plan, SCHEMA_VERSION};
use crate::report::soak;
use crate::verdict::Exit;

/// Runs the plan that is stored in a run's folder (or a plan file) again.
pub async fn replay(stored: &Path, session: &Session) -> Result<Exit, Failure> {
    let plans = plans(stored)?;
    session.check_outputs()?;
    let binary = session.server(plans.iter()).await?;
    let mut reports = Vec::new();
    // Plans of one lock are trials of one report.
    for group in plans.chunk_by(|one, next| one.lock == next.lock) {
        let folder = new_folder(&session.out, &group[0].scenario, group[0].seed)?;
        let report = conduct(group, &binary, &folder, session).await?;
        session.say(&soak::summary(&report));
        reports.push(report);
        if session.interrupted().is_some() {
            break;
        }
    }
    conclude(&reports, session)
}

fn plans(stored: &Path) -> Result<Vec<Plan>, Failure> {
    let files = stored_files(stored, PLAN)?;
    let read: Result<Vec<Plan>, Failure> = files.iter().map(|file| plan(file)).collect();
    let mut plans = read?;
    plans.sort_by(|one, other| (&one.lock.kind, one.seed).cmp(&(&other.lock.kind, other.seed)));
    Ok(plans)
}

fn plan(path: &Path) -> Result<Plan, Failure> {
    let at = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|why| at(why.to_string()))?;
    let plan: Plan = serde_json::from_str(&text).map_err(|why| at(format!("not a plan: {why}")))?;
    match plan.schema_version {
        SCHEMA_VERSION => Ok(plan),
        other => Err(at(format!(
            "it has schema_version {other}, and this oversold reads {SCHEMA_VERSION}"
        ))),
    }
}
