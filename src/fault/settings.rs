//! The one place where a fault changes a server's settings: it remembers what they were, and sets
//! them so again. Which replica a server is of goes by a command of its own.

use std::sync::Arc;

use super::node::{ANSWER, ask, open};
use crate::client::{Conn, Outcome};
use crate::topology::Machine;

/// The setting that says whose replica a server is; empty where it is a primary.
pub(super) const REPLICA_OF: &str = "replicaof";

/// Settings of one server that were changed. They are restored by [`Settings::restore`], or, without
/// anybody waiting for it, when this is dropped.
#[derive(Debug)]
pub(super) struct Settings {
    node: Arc<Machine>,
    /// What they were, in the order in which they were changed.
    before: Vec<(&'static str, String)>,
}

impl Settings {
    /// None is changed yet.
    pub(super) fn of(node: &Arc<Machine>) -> Settings {
        Settings {
            node: Arc::clone(node),
            before: Vec::new(),
        }
    }

    /// Changes one. None if the server does not let it be changed.
    pub(super) async fn set(&mut self, conn: &Conn, setting: &'static str, to: &str) -> Option<()> {
        let before: Vec<String> = ask(conn, &["CONFIG", "GET", setting]).await?;
        // Remembered first: whether it was done is not known if the answer is lost.
        self.before.push((setting, before.get(1)?.clone()));
        set(conn, setting, to).await
    }

    /// Sets all of them as they were, the last one first. None if that failed.
    pub(super) async fn restore(mut self) -> Option<()> {
        let before = std::mem::take(&mut self.before);
        restore(&self.node, before).await
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        let before = std::mem::take(&mut self.before);
        let (node, runtime) = (
            Arc::clone(&self.node),
            tokio::runtime::Handle::try_current(),
        );
        if let (false, Ok(runtime)) = (before.is_empty(), runtime) {
            runtime.spawn(async move { restore(&node, before).await });
        }
    }
}

async fn restore(node: &Machine, before: Vec<(&'static str, String)>) -> Option<()> {
    let conn = open(node, ANSWER).await?;
    let mut all = Some(());
    for (setting, value) in before.into_iter().rev() {
        let done = set(&conn, setting, &value).await;
        all = all.and(done);
    }
    all
}

async fn set(conn: &Conn, setting: &str, to: &str) -> Option<()> {
    let _: String = match (setting, to.split_once(' ')) {
        (REPLICA_OF, Some((host, port))) => ask(conn, &["REPLICAOF", host, port]).await?,
        (REPLICA_OF, None) => ask(conn, &["REPLICAOF", "NO", "ONE"]).await?,
        _ => ask(conn, &["CONFIG", "SET", setting, to]).await?,
    };
    Some(())
}

/// The error that a write is answered with, if it is refused.
pub(super) async fn refusal(conn: &Conn) -> Option<String> {
    let mut probe = redis::cmd("SET");
    probe.arg("oversold:probe").arg(1).arg("PX").arg(1);
    match conn.call::<()>(&probe).await {
        Outcome::Refused(error) => Some(error),
        _ => None,
    }
}
