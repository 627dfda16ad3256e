//! `read-only`: a server takes itself for a replica and answers writes with `READONLY`, as an old
//! primary does that was demoted, or one to which a client holds on by a stale name
//! (<https://redis.io/docs/latest/commands/replicaof/>). The primary that it is told to follow
//! says nothing, so that it keeps its data, and goes on with it when it is over.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use super::Entry;
use super::node::{ANSWER, Blow, open};
use super::settings::{Settings, refusal};
use crate::client::Conn;
use crate::topology::REPLICA_OF;

pub(super) const ENTRY: Entry = Entry {
    name: "read-only",
    about: "a server takes itself for a replica and refuses writes, READONLY (`for = \"8s\"`)",
};

/// Where nobody can be (RFC 5737, <https://www.rfc-editor.org/rfc/rfc5737>). On a user's server our own
/// loopback is not his, and whoever listens on his could give it other data.
const NOBODY: &str = "192.0.2.1";
const PORT: u16 = 6379;

/// Makes it a replica of nobody's, and a primary again later. The proof is the error.
pub(super) async fn strike(blow: &Blow, for_ns: u64) -> Option<String> {
    let long = Duration::from_nanos(for_ns);
    blow.began(|node| format!("{node} takes itself for a replica for {long:?}"));
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?;
    let primary = match blow.faults.reach.stay {
        Some(_) => format!("{NOBODY} {PORT}"),
        None => format!("127.0.0.1 {}", silent.local_addr().ok()?.port()),
    };
    let conn = open(&blow.node, ANSWER).await?;
    let mut settings = Settings::of(&blow.faults, &blow.node);
    let error = follow(blow, &conn, &mut settings, &primary).await;
    if error.is_some() {
        tokio::time::sleep(long).await;
    }
    blow.undo(settings).await;
    let error = error.filter(|error| is_read_only(error))?;
    let node = blow.node.address();
    Some(format!("{node} answered a write with: {error}"))
}

/// Has it follow a primary. Tells the error that a write is answered with then.
async fn follow(
    blow: &Blow,
    conn: &Conn,
    settings: &mut Settings,
    primary: &str,
) -> Option<String> {
    settings.set(REPLICA_OF, primary).await?;
    refusal(conn, &blow.faults.reach.probe()).await
}

pub(super) fn is_read_only(error: &str) -> bool {
    error.to_uppercase().contains("READONLY")
}
