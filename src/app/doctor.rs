//! `oversold doctor`: whether this machine has what a run needs, and what to do if not.

use std::net::{Ipv4Addr, TcpListener};

use super::heal::tell_unhealed;
use super::session::{Failure, Session};
use crate::run::lag;
use crate::topology::{self, External, Postgres};
use crate::verdict::Exit;

/// The most workers that the limits are measured against.
const WORKERS: u64 = 10_000;

/// Looks at servers, databases, limits, ports and timers.
pub async fn doctor(session: &Session) -> Result<Exit, Failure> {
    let server = match &session.external {
        Some(external) => tell_external(external, session).await,
        None => tell_servers(session),
    };
    tell_postgres(session);
    tell_open_files(session);
    let port = tell_ports(session);
    tell_timers(session).await;
    tell_unhealed(session);
    Ok(match server && port {
        true => Exit::Pass,
        false => Exit::Environment,
    })
}

/// Tells of the Redis that was named, and whether a run could use it.
async fn tell_external(external: &External, session: &Session) -> bool {
    let seen = external.look(&[]).await;
    session.say(&match &seen {
        Ok(outside) => format!("server      {}", outside.version()),
        Err(why) => format!("server      {why}"),
    });
    seen.is_ok()
}

/// Tells which servers there are, and whether a run would find one.
fn tell_servers(session: &Session) -> bool {
    let named = session.redis_server.as_deref();
    let candidates = topology::looked_for(named);
    for candidate in &candidates {
        session.say(&match topology::find(Some(candidate)) {
            Ok(found) => format!("server      {}: {}", found.path.display(), found.version),
            Err(why) => format!("server      {why}"),
        });
    }
    let first = topology::find(named);
    if let (Err(why), true) = (&first, candidates.is_empty()) {
        session.say(&format!("server      {why}"));
    }
    first.is_ok()
}

/// A run needs one only for the store of that name.
fn tell_postgres(session: &Session) {
    session.say(&match Postgres::installed() {
        Ok(folder) => format!("postgres    {} (for --store postgres)", folder.display()),
        Err(why) => format!("postgres    {why}\n  (only for --store postgres)"),
    });
}

fn tell_open_files(session: &Session) {
    let (soft, hard) = topology::open_file_limit();
    session.say(&format!(
        "open files  {soft} now, {hard} at most (a run raises the first)"
    ));
    if hard < WORKERS {
        session.say(&format!(
            "            enough for some {} workers; more need a higher `ulimit -Hn`",
            hard.saturating_sub(128)
        ));
    }
}

fn tell_ports(session: &Session) -> bool {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    session.say(&match &bound {
        Ok(_) => "ports       free ones on 127.0.0.1".to_owned(),
        Err(why) => format!("ports       none to be had on 127.0.0.1: {why}"),
    });
    bound.is_ok()
}

async fn tell_timers(session: &Session) {
    let jitter = lag::measure().await;
    session.say(&format!(
        "timers      wander by {jitter:.1?} just now: TTLs from {:.0?} on are safe from it",
        jitter * 12
    ));
}
