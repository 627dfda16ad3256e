//! `oversold replay`: stored plans again, as they were decided. A seed replays the plan and not
//! the interleaving.

use std::path::Path;

use super::run::conclude;
use super::session::{Failure, Session, fits, stored_files};
use super::trial::{PLAN, conduct, new_folder};
use crate::lock;
use crate::plan::{ExternalShape, Plan, SCHEMA_VERSION};
use crate::report::soak;
use crate::scenario::Topology;
use crate::topology::{External, StartError};
use crate::verdict::Exit;

/// Runs the plan that is stored in a run's folder (or a plan file) again.
pub async fn replay(stored: &Path, session: &Session) -> Result<Exit, Failure> {
    let plans = plans(stored, session.external.as_ref().map(External::shape))?;
    session.check_outputs()?;
    let origin = session.server(plans.iter()).await?;
    let mut reports = Vec::new();
    // Plans of one lock are trials of one report.
    for group in plans.chunk_by(|one, next| one.lock == next.lock) {
        let folder = new_folder(&session.out, &group[0].scenario, group[0].seed)?;
        let report = conduct(group, &origin, &folder, session).await?;
        session.say(&soak::summary(&report));
        reports.push(report);
        if session.interrupted().is_some() {
            break;
        }
    }
    conclude(&reports, session)
}

fn plans(stored: &Path, external: Option<ExternalShape>) -> Result<Vec<Plan>, Failure> {
    let files = stored_files(stored, &[PLAN])?;
    let read: Result<Vec<Plan>, Failure> = files.iter().map(|file| plan(file, external)).collect();
    let mut plans = read?;
    plans.sort_by(|one, other| (&one.lock.kind, one.seed).cmp(&(&other.lock.kind, other.seed)));
    Ok(plans)
}

fn plan(path: &Path, external: Option<ExternalShape>) -> Result<Plan, Failure> {
    let at = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|why| at(why.to_string()))?;
    let plan: Plan = serde_json::from_str(&text).map_err(|why| at(format!("not a plan: {why}")))?;
    if plan.schema_version != SCHEMA_VERSION {
        let version = plan.schema_version;
        return Err(at(format!(
            "it has schema_version {version}, and this oversold reads {SCHEMA_VERSION}"
        )));
    }
    elsewhere(plan, external, path)
}

/// A plan at the servers that are named now, if some are.
fn elsewhere(plan: Plan, external: Option<ExternalShape>, path: &Path) -> Result<Plan, Failure> {
    let at = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let quorum = lock::find(&plan.lock.kind).is_some_and(|entry| entry.quorum);
    match (external, plan.topology) {
        (Some(external), _) if quorum && !external.has_quorum() => Err(at(
            "its lock needs three servers or more, each named by a `--url` of its own".to_owned(),
        )),
        (Some(external), _) => {
            fits(&external, &plan, &path.display().to_string())?;
            let topology = external.topology(quorum);
            Ok(Plan { topology, ..plan })
        }
        (None, Topology::External { .. }) => Err(at(StartError::NoUrl.to_string())),
        (None, _) => Ok(plan),
    }
}
