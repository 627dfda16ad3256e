//! `oversold compare`: the same plan under several locks, one table.

use std::path::PathBuf;

use super::run::published;
use super::scenarios;
use super::session::{Failure, Session, locks_for, named_or_all, plans, worst};
use super::trial::{conduct, new_folder};
use crate::plan::Overrides;
use crate::report::terminal;
use crate::verdict::Exit;

/// Runs one scenario under each of some locks; all that it is about if none is named.
pub async fn compare(
    named: PathBuf,
    locks: &[String],
    flags: &Overrides,
    session: &Session,
) -> Result<Exit, Failure> {
    let scenario = &scenarios::one(&named, "compare")?;
    let locks = match locks {
        [] => locks_for(scenario, &named_or_all(locks), flags),
        named => named.to_vec(),
    };
    let plans = |lock: &String| plans(scenario, flags, lock);
    let all: Vec<_> = locks.iter().map(plans).collect::<Result<_, _>>()?;
    session.check_outputs()?;
    let origin = session.server(all.iter().flatten()).await?;
    let folder = new_folder(&session.out, &scenario.name, flags.seeds(scenario)[0])?;
    let mut reports = Vec::new();
    for (lock, plans) in locks.iter().zip(all) {
        let folder = folder.join(lock);
        let report = conduct(&plans, &origin, &folder, session).await?;
        let over = session.interrupted().is_some() || !report.unkept.is_empty();
        reports.push(report);
        if over {
            break;
        }
    }
    session.say(&terminal::comparison(&reports));
    // The story that the scenario is about, or else that of the first lock that broke.
    let broken = || reports.iter().filter(|report| report.violated.count > 0);
    let own = broken().find(|report| report.lock == scenario.lock);
    if let Some(report) = own.or(broken().next()) {
        session.say(&terminal::summary(report));
    }
    session.say(&format!("files     {}", folder.display()));
    published(session.publish(&reports), worst(&reports))
}
