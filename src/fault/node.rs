//! What the faults that strike one server share: the blow, and the questions by which they prove
//! that it landed. All of them are asked past any link.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use redis::FromRedisValue;

use super::failover::lock_keeps_none;
use super::settings::Settings;
use super::{
    Faults, client_kill, client_pause, clock_jump, debug_sleep, disk_full, evict, kill_server,
    no_memory, quorum, read_only, restart, script_flush, stop_server,
};
use crate::client::{Conn, Outcome, Patience};
use crate::scenario::ServerFault;
use crate::topology::Machine;

/// How long a server may take to answer that is not kept from it.
pub(super) const ANSWER: Duration = Duration::from_secs(5);

/// One fault that strikes one server.
pub(super) struct Blow {
    pub(super) faults: Arc<Faults>,
    pub(super) fault: u32,
    pub(super) node: Arc<Machine>,
    /// Something that it did could not be undone.
    stays: AtomicBool,
}

/// Strikes a server, and tells in the history what came of it.
pub(super) fn strike(faults: &Arc<Faults>, fault: u32, node: u32, how: ServerFault) {
    let Some(machine) = faults.reach.nodes.get(node as usize) else {
        faults.began(
            fault,
            format!("there is no node {node} that it could strike"),
        );
        faults.ended(fault);
        return;
    };
    let blow = Blow {
        faults: Arc::clone(faults),
        fault,
        node: Arc::clone(machine),
        stays: AtomicBool::new(false),
    };
    faults.beside(async move {
        let proof = match how {
            ServerFault::Restart { empty, for_ns } => restart::strike(&blow, empty, for_ns).await,
            ServerFault::Kill => kill_server::strike(&blow).await,
            ServerFault::Stop { for_ns } => stop_server::strike(&blow, for_ns).await,
            ServerFault::ClockJump { by_ns } => clock_jump::strike(&blow, by_ns).await,
            ServerFault::ScriptFlush => script_flush::strike(&blow).await,
            ServerFault::ClientPause { for_ns } => client_pause::strike(&blow, for_ns).await,
            ServerFault::ClientKill => client_kill::strike(&blow).await,
            ServerFault::Evict => evict::strike(&blow).await,
            ServerFault::ReadOnly { for_ns } => read_only::strike(&blow, for_ns).await,
            ServerFault::DiskFull { for_ns } => disk_full::strike(&blow, for_ns).await,
            ServerFault::NoMemory { for_ns } => no_memory::strike(&blow, for_ns).await,
            ServerFault::DebugSleep { for_ns } => debug_sleep::strike(&blow, for_ns).await,
            ServerFault::QuorumRestart => quorum::strike(&blow, None).await,
            ServerFault::QuorumClock { by_ns } => quorum::strike(&blow, Some(by_ns)).await,
        };
        if let Some(proof) = proof {
            blow.faults.landed(blow.fault, proof);
        }
        // What goes on has not ended: nobody may hold against the lock what comes of it.
        if !blow.stays.load(Ordering::Relaxed) {
            blow.faults.ended(blow.fault);
        }
    });
}

impl Blow {
    pub(super) fn began(&self, what: impl FnOnce(&str) -> String) {
        let address = self.node.address().to_string();
        self.faults.began(self.fault, what(&address));
    }

    /// Something that it did could not be undone, and goes on.
    pub(super) fn stays(&self) {
        self.stays.store(true, Ordering::Relaxed);
    }

    /// Sets settings as they were.
    pub(super) async fn undo(&self, settings: Settings) {
        if settings.restore().await.is_none() {
            self.stays();
        }
    }

    /// The name of one of these keys.
    pub(super) fn name(&self, keys: &[u32]) -> Option<&str> {
        let key = *keys.first()?;
        self.faults.keys.get(key as usize).map(String::as_str)
    }

    /// Whether there is no key that the lock could lose, for it keeps none in Redis.
    pub(super) fn lock_keeps_none(&self) -> bool {
        lock_keeps_none(&self.faults)
    }
}

/// A connection to a node, which is answered within so long.
pub(super) async fn open(node: &Machine, within: Duration) -> Option<Conn> {
    let patience = Patience {
        connect: ANSWER,
        response: within,
    };
    Conn::open(node.itself(), patience).await.ok()
}

/// Asks, and gives the answer, if there is one.
pub(super) async fn ask<T: FromRedisValue>(conn: &Conn, words: &[&str]) -> Option<T> {
    let (name, rest) = words.split_first()?;
    match conn.call(redis::cmd(name).arg(rest)).await {
        Outcome::Done(answer) => Some(answer),
        Outcome::Refused(_) | Outcome::Unknown(_) => None,
    }
}

/// A field of `INFO`.
pub(super) async fn info(conn: &Conn, section: &str, field: &str) -> Option<String> {
    let info: String = ask(conn, &["INFO", section]).await?;
    let mut lines = info.lines().filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(name, _)| *name == field)?;
    Some(value.trim().to_owned())
}

/// A key that a node holds, and for how long still, in milliseconds: -1 for ever
/// (<https://redis.io/docs/latest/commands/pttl/>).
pub(super) type Held = (u32, i64);

/// Which of the locks' keys a node holds, in one moment.
pub(super) async fn held(conn: &Conn, keys: &[String]) -> Option<Vec<Held>> {
    let asked: Vec<_> = keys
        .iter()
        .map(|key| {
            let mut pttl = redis::cmd("PTTL");
            pttl.arg(key);
            pttl
        })
        .collect();
    let Outcome::Done(left) = conn.transaction::<Vec<i64>>(&asked).await else {
        return None;
    };
    let left = (0u32..).zip(left);
    Some(left.filter(|(_, left)| *left != -2).collect())
}

/// The same of what is the node's own to lose: a replica has none, for its primary tells it again.
pub(super) async fn own(conn: &Conn, keys: &[String]) -> Option<Vec<Held>> {
    let held = held(conn, keys).await?;
    let role = info(conn, "replication", "role").await?;
    Some(if role == "master" { held } else { vec![] })
}

/// What a node held and, so much time later, should hold still and does not.
pub(super) fn lost(before: &[Held], after: &[Held], passed: Duration) -> Vec<u32> {
    let passed = passed.as_millis() as i64 + 1;
    let should = before
        .iter()
        .filter(|(_, left)| *left == -1 || *left > passed);
    let missing = should.filter(|(key, _)| after.iter().all(|(held, _)| held != key));
    missing.map(|(key, _)| *key).collect()
}

/// How far a node's wall clock is ahead of the driver's, in nanoseconds, at least and at most
/// (<https://redis.io/docs/latest/commands/time/>).
pub(super) async fn ahead(conn: &Conn) -> Option<(i64, i64)> {
    let now = || {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since
            .ok()
            .and_then(|since| i64::try_from(since.as_nanos()).ok())
    };
    let asked = now()?;
    let (seconds, microseconds): (i64, i64) = ask(conn, &["TIME"]).await?;
    let answered = now()?;
    let told = seconds * 1_000_000_000 + microseconds * 1000;
    Some((told - answered, told - asked))
}
