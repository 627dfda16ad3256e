//! `read-only`: a server takes itself for a replica and answers writes with `READONLY`, as an old
//! primary does that was demoted, or one to which a client holds on by a stale name
//! (<https://redis.io/docs/latest/commands/replicaof/>). The primary that it is told to follow
//! listens and says nothing, so that it keeps its data, and goes on with it when it is over.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use super::Entry;
use super::node::{ANSWER, Blow, open};
use super::settings::{Settings, refusal};
use crate::topology::REPLICA_OF;

pub(super) const ENTRY: Entry = Entry {
    name: "read-only",
    about: "a server takes itself for a replica and refuses writes, READONLY (`for = \"8s\"`)",
};

/// Makes it a replica of nobody's, and a primary again later. The proof is the error.
pub(super) async fn strike(blow: &Blow, for_ns: u64) -> Option<String> {
    let long = Duration::from_nanos(for_ns);
    blow.began(|node| format!("{node} takes itself for a replica for {long:?}"));
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    let primary = format!("127.0.0.1 {}", silent.local_addr().ok()?.port());
    let conn = open(&blow.node, ANSWER).await?;
    let mut settings = Settings::of(&blow.node);
    settings.set(REPLICA_OF, &primary).await?;
    let error = refusal(&conn, &blow.faults.reach.probe()).await;
    tokio::time::sleep(long).await;
    settings.restore().await;
    let error = error.filter(|error| is_read_only(error))?;
    let node = blow.node.address();
    Some(format!("{node} answered a write with: {error}"))
}

fn is_read_only(error: &str) -> bool {
    error.to_uppercase().contains("READONLY")
}
