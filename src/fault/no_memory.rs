//! `no-memory`: a server has no memory left, and evicts nothing: what needs some is answered with
//! `OOM`, what needs none is done (<https://redis.io/docs/latest/develop/reference/eviction/>, policy
//! `noeviction`).

use std::time::Duration;

use super::Entry;
use super::node::{ANSWER, Blow, open};
use super::settings::{Settings, refusal};
use crate::client::Conn;

pub(super) const ENTRY: Entry = Entry {
    name: "no-memory",
    about: "a server has no memory left and evicts nothing: writes get OOM (`for = \"8s\"`)",
};

/// Takes its memory away, and gives it back later. The proof is the error.
pub(super) async fn strike(blow: &Blow, for_ns: u64) -> Option<String> {
    let long = Duration::from_nanos(for_ns);
    blow.began(|node| format!("{node} has no memory left for {long:?}"));
    let conn = open(&blow.node, ANSWER).await?;
    let mut settings = Settings::of(&blow.faults, &blow.node);
    let error = take(blow, &conn, &mut settings).await;
    if error.is_some() {
        tokio::time::sleep(long).await;
    }
    blow.undo(settings).await;
    let error = error.filter(|error| error.contains("OOM"))?;
    let node = blow.node.address();
    Some(format!("{node} answered a write with: {error}"))
}

/// Takes its memory away. Tells the error that a write is answered with then.
async fn take(blow: &Blow, conn: &Conn, settings: &mut Settings) -> Option<String> {
    settings.set("maxmemory-policy", "noeviction").await?;
    settings.set("maxmemory", "1").await?;
    refusal(conn, &blow.faults.reach.probe()).await
}
