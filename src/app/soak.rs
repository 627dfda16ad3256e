//! `oversold soak`: one long trial under load, checked while it runs.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::signal::unix::{self, SignalKind};

use super::metrics;
use super::run::conclude;
use super::scenarios;
use super::session::{Failure, Session, plans};
use super::trial::{conduct, new_folder};
use crate::plan::Overrides;
use crate::report::soak;
use crate::scenario::Scenario;
use crate::verdict::Exit;

/// Runs one scenario as a soak.
pub async fn soak(
    named: &Path,
    metrics: Option<SocketAddr>,
    flags: &Overrides,
    session: &Session,
) -> Result<Exit, Failure> {
    let scenario = &scenarios::one(named, "soak")?;
    check_keys(scenario, flags)?;
    let plans = plans(scenario, flags, flags.lock(scenario))?;
    session.check_outputs()?;
    let session = &Session {
        metrics: listening(metrics).await?,
        ..session.clone()
    };
    // From now on it asks for a status line; by itself it would end the program.
    let _ = unix::signal(SignalKind::user_defined1());
    let binary = session.server(plans.iter()).await?;
    let folder = new_folder(&session.out, &scenario.name, plans[0].seed)?;
    let report = conduct(&plans, &binary, &folder, session).await?;
    session.say(&soak::summary(&report));
    conclude(&[report], session)
}

/// Has the endpoint listen, where one is asked for, and says where.
async fn listening(address: Option<SocketAddr>) -> Result<Option<Arc<TcpListener>>, Failure> {
    let Some(address) = address else {
        return Ok(None);
    };
    let listener = metrics::listen(address).await?;
    let at = listener.local_addr().map_err(Failure::environment)?;
    // Nobody may listen any more, which is no reason to stop.
    let _ = writeln!(anstream::stderr(), "metrics at http://{at}/metrics");
    Ok(Some(Arc::new(listener)))
}

fn check_keys(scenario: &Scenario, flags: &Overrides) -> Result<(), Failure> {
    let keys = flags.soak.as_ref().and_then(|soak| soak.keys);
    match keys.map(|keys| keys.of(&scenario.workload, 1)) {
        Some(None) => Err(Failure::usage(format!(
            "{}: `--keys` chooses among the keys of `tally`, `flash-sale` or `reconcile` (`own` only \
             those of `tally`), and its workload is another",
            scenario.name
        ))),
        _ => Ok(()),
    }
}
