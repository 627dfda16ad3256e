//! `oversold doctor`: whether this machine has what a run needs, and what to do if not.

use std::net::{Ipv4Addr, TcpListener};

use super::session::{Failure, Session};
use crate::run::lag;
use crate::topology;
use crate::verdict::Exit;

/// The most workers that the limits are measured against.
const WORKERS: u64 = 10_000;

/// Looks at servers, limits, ports and timers.
pub async fn doctor(session: &Session) -> Result<Exit, Failure> {
    let mut healthy = true;
    let mut servers = 0;
    for candidate in topology::looked_for(session.redis_server.as_deref()) {
        match topology::find(Some(&candidate)) {
            Ok(found) => {
                servers += 1;
                session.say(&format!(
                    "server      {}: {}",
                    found.path.display(),
                    found.version
                ));
            }
            Err(why) => session.say(&format!("server      {why}")),
        }
    }
    if servers == 0 {
        healthy = false;
        let missing = topology::StartError::NotFound("the list above is all there is".to_owned());
        session.say(&format!("server      {missing}"));
    }
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
    match TcpListener::bind((Ipv4Addr::LOCALHOST, 0)) {
        Ok(_) => session.say("ports       free ones on 127.0.0.1"),
        Err(why) => {
            healthy = false;
            session.say(&format!("ports       none to be had on 127.0.0.1: {why}"));
        }
    }
    let jitter = lag::measure().await;
    session.say(&format!(
        "timers      wander by {jitter:.1?} just now: TTLs from {:.0?} on are safe from it",
        jitter * 12
    ));
    Ok(if healthy {
        Exit::Pass
    } else {
        Exit::Environment
    })
}
