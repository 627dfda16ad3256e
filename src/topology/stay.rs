//! A run's stay at a user's own Redis: the prefix under which it keeps all its keys, a look whether
//! the servers are still there, and the departure, which leaves everything as it was found.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::select_all;
use tokio::sync::OwnedSemaphorePermit;

use crate::client::{Conn, Outcome, Patience, Server};

/// How long a server may be silent by itself; where Sentinels have to find another primary, longer.
const SILENCE: Duration = Duration::from_secs(3);
const FAILOVER: Duration = Duration::from_secs(60);
/// How often it is asked.
const ASK: Duration = Duration::from_millis(250);
/// How long the search for what is left may take.
const SWEEP: Duration = Duration::from_secs(60);

const PATIENCE: Patience = Patience {
    connect: Duration::from_secs(2),
    response: Duration::from_secs(5),
};

/// One trial's stay.
#[derive(Debug)]
pub struct Stay {
    /// What all its keys begin with; no other trial has it.
    pub prefix: String,
    /// Why the servers tell nothing of their keys, if they do not.
    pub untold: Option<String>,
    /// How the servers are asked past all links.
    pub(super) servers: Vec<Server>,
}

/// A stay while it lasts.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) stay: Arc<Stay>,
    /// How long the servers may be silent beyond that, because of faults or as a soak allows.
    pub(super) silence: Duration,
    /// Keeps others from having theirs meanwhile.
    pub(super) turn: Option<OwnedSemaphorePermit>,
}

/// A name that no other trial has, of letters, digits and `_`.
pub fn own_name(seed: u64) -> String {
    static TRIALS: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let (process, trial) = (std::process::id(), TRIALS.fetch_add(1, Ordering::Relaxed));
    let began = now.unwrap_or_default().as_millis();
    format!("{seed}_{began:x}_{process}_{trial}")
}

impl Stay {
    /// Waits until a server is silent for so much longer than it may be by itself, and tells of it.
    pub(super) async fn gone(&self, longer: Duration) -> String {
        let gone = self.servers.iter().map(|server| {
            let most = match server {
                Server::At(..) => SILENCE,
                Server::Primary(_) => FAILOVER,
            };
            Box::pin(silent(server, most + longer))
        });
        select_all(gone).await.0
    }

    /// Removes what is left under the prefix. Tells what could not be removed.
    pub(super) async fn clear(&self) -> Vec<String> {
        let mut left = Vec::new();
        for server in &self.servers {
            let cleared = tokio::time::timeout(SWEEP, clear(server, &self.prefix)).await;
            let why = match cleared {
                Ok(Ok(())) => continue,
                Ok(Err(why)) => why,
                Err(_) => format!("not done within {SWEEP:?}"),
            };
            let prefix = &self.prefix;
            left.push(format!(
                "{server}: keys that begin with {prefix} may be left: {why}"
            ));
        }
        left
    }
}

/// Waits until a server has not answered for so long.
async fn silent(server: &Server, most: Duration) -> String {
    let patience = Patience {
        connect: most,
        response: most,
    };
    let mut heard = Instant::now();
    let mut conn = None;
    loop {
        let asked = async {
            let opened = match conn.take() {
                Some(conn) => conn,
                None => Conn::open(server.clone(), patience)
                    .await
                    .map_err(|why| why.to_string())?,
            };
            match opened.call::<String>(&redis::cmd("PING")).await {
                Outcome::Done(_) => Ok(opened),
                Outcome::Refused(why) | Outcome::Unknown(why) => Err(why),
            }
        };
        let why = match tokio::time::timeout(most, asked).await {
            Ok(Ok(opened)) => {
                (conn, heard) = (Some(opened), Instant::now());
                String::new()
            }
            Ok(Err(why)) => why,
            Err(_) => "no answer".to_owned(),
        };
        if heard.elapsed() >= most {
            return format!("{server} has not answered for {most:?}: {why}");
        }
        tokio::time::sleep(ASK).await;
    }
}

/// Removes the keys of a server that begin with a prefix
/// (<https://redis.io/docs/latest/commands/scan/>: what is there all the time is found).
async fn clear(server: &Server, prefix: &str) -> Result<(), String> {
    let conn = Conn::open(server.clone(), PATIENCE).await;
    let conn = conn.map_err(|why| why.to_string())?;
    let pattern = format!("{}*", literally(prefix));
    let mut cursor = "0".to_owned();
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(&cursor)
            .arg("MATCH")
            .arg(&pattern)
            .arg("COUNT")
            .arg(1000);
        let (next, keys): (String, Vec<String>) = done(conn.call(&scan).await)?;
        if !keys.is_empty() {
            done::<i64>(conn.call(redis::cmd("UNLINK").arg(&keys)).await)?;
        }
        if next == "0" {
            return Ok(());
        }
        cursor = next;
    }
}

fn done<T>(outcome: Outcome<T>) -> Result<T, String> {
    match outcome {
        Outcome::Done(answer) => Ok(answer),
        Outcome::Refused(why) | Outcome::Unknown(why) => Err(why),
    }
}

/// A pattern that only the text itself matches.
fn literally(text: &str) -> String {
    let mut pattern = String::new();
    for c in text.chars() {
        if r"*?[]^-\".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_no_pattern() {
        assert_eq!(literally(r"a*b?[c]\:"), r"a\*b\?\[c\]\\:");
    }

    #[test]
    fn no_two_trials_have_one_name() {
        assert_ne!(own_name(1), own_name(1));
    }
}
