//! `restart`: a server's process is killed and started again on the same port, with the data that
//! it had or without (<https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/>).
//! Between the last write and the death nothing can change, and nobody gets in to the new process
//! before it was looked at: what it lost by the restart is known for certain.

use std::time::{Duration, Instant};

use super::Entry;
use super::node::{ANSWER, Blow, Held, ask, held, info, lost, open, own};
use crate::client::Conn;
use crate::history::event::Kind;
use crate::topology::Machine;

pub(super) const ENTRY: Entry = Entry {
    name: "restart",
    about: "a server is killed and started again (`data = \"kept\"` or `\"lost\"`, `for = \"2s\"`)",
};

/// Keeps everybody out of a new process who does not know it.
const PASSWORD: &str = "not-yet";
/// How long writes wait at most for the death of their server, in milliseconds.
const LAST_WRITES: &str = "10000";

/// What a server was before it was killed.
pub(super) struct Before {
    run_id: String,
    held: Vec<Held>,
    size: u64,
    at: Instant,
    /// Its data is its primary's, who tells it again.
    replica: bool,
}

/// What it is now.
pub(super) struct After {
    run_id: String,
    size: u64,
    pub(super) lost: Vec<u32>,
}

/// Kills it, and starts it again.
pub(super) async fn strike(blow: &Blow, empty: bool, for_ns: u64) -> Option<String> {
    let data = match empty {
        true => "without its data",
        false => "with its data",
    };
    blow.began(|node| format!("restart of {node} {data}"));
    let before = go_down(blow, empty).await?;
    tokio::time::sleep(Duration::from_nanos(for_ns)).await;
    let after = come_back(blow, &blow.node, !empty, Some(&before)).await?;
    let back = format!(
        "{} was killed and is back {data} after {:.0?}: run_id {:.8} became {:.8}, DBSIZE {} became {}",
        blow.node.address(),
        before.at.elapsed(),
        before.run_id,
        after.run_id,
        before.size,
        after.size,
    );
    let other = before.run_id != after.run_id;
    let (lost, none) = (blow.name(&after.lost), before.held.is_empty());
    match (empty, lost) {
        (true, Some(lost)) => other.then(|| format!("{back}, EXISTS {lost} became 0")),
        // It may have been told again before it could be looked at.
        (true, None) if before.replica => {
            other.then(|| format!("{back}; it is a replica, and its primary tells it again"))
        }
        (true, None) => (other && none && blow.lock_keeps_none()).then_some(back),
        (false, lost) => (other && lost.is_none()).then_some(back),
    }
}

/// Kills it after its last write, which is saved if its data is to be kept.
pub(super) async fn go_down(blow: &Blow, empty: bool) -> Option<Before> {
    let conn = open(&blow.node, ANSWER).await?;
    let _: String = ask(&conn, &["CLIENT", "PAUSE", LAST_WRITES, "WRITE"]).await?;
    let before = last_look(blow, &conn, empty).await;
    if before.is_none() || !blow.node.end() {
        unpause(blow, &conn).await;
        return None;
    }
    before
}

/// Lets writes pass again.
pub(super) async fn unpause(blow: &Blow, conn: &Conn) {
    let told: Option<String> = ask(conn, &["CLIENT", "UNPAUSE"]).await;
    if told.is_none() {
        blow.stays();
    }
}

async fn last_look(blow: &Blow, conn: &Conn, empty: bool) -> Option<Before> {
    if !empty {
        let _: String = ask(conn, &["SAVE"]).await?;
    }
    let at = Instant::now();
    Some(Before {
        run_id: info(conn, "server", "run_id").await?,
        held: own(conn, &blow.faults.keys).await?,
        size: ask(conn, &["DBSIZE"]).await?,
        at,
        replica: info(conn, "replication", "role").await? != "master",
    })
}

/// Starts a server again that is down, looks at it, and lets everybody in.
pub(super) async fn come_back(
    blow: &Blow,
    node: &Machine,
    with_data: bool,
    before: Option<&Before>,
) -> Option<After> {
    let back = raised(blow, node, with_data, before).await;
    if back.is_none() {
        // It is down still, or nobody can get in.
        blow.stays();
    }
    back?
}

/// The same. None if nobody can use it again; what it is now is another question.
async fn raised(
    blow: &Blow,
    node: &Machine,
    with_data: bool,
    before: Option<&Before>,
) -> Option<Option<After>> {
    node.raise(with_data, &["--requirepass", PASSWORD]).await?;
    let conn = open(node, ANSWER).await?;
    let _: String = ask(&conn, &["AUTH", PASSWORD]).await?;
    let after = look(blow, &conn, before).await;
    let lost = match (&after, before) {
        (Some(after), _) => after.lost.clone(),
        // It could not be looked at: without its data all is gone.
        (None, Some(before)) if !with_data => before.held.iter().map(|(key, _)| *key).collect(),
        (None, _) => vec![],
    };
    blow.faults.recorder.record(Kind::Restarted {
        server: node.address().to_string(),
        lost,
    });
    let _: String = ask(&conn, &["CONFIG", "SET", "requirepass", ""]).await?;
    Some(after)
}

async fn look(blow: &Blow, conn: &Conn, before: Option<&Before>) -> Option<After> {
    let now = held(conn, &blow.faults.keys).await?;
    let lost = before.map(|before| lost(&before.held, &now, before.at.elapsed()));
    Some(After {
        run_id: info(conn, "server", "run_id").await?,
        size: ask(conn, &["DBSIZE"]).await?,
        lost: lost.unwrap_or_default(),
    })
}
