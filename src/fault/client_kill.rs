//! `client-kill`: a server closes the connections of all its clients
//! (<https://redis.io/docs/latest/commands/client-kill/>). What was asked on them is unknown.

use super::Entry;
use super::node::{ANSWER, Blow, ask, open};

pub(super) const ENTRY: Entry = Entry {
    name: "client-kill",
    about: "a server closes the connections of all its clients",
};

/// Has it close them. The proof is its own count.
pub(super) async fn strike(blow: &Blow) -> Option<String> {
    blow.began(|node| format!("{node} closes its clients' connections"));
    let conn = open(&blow.node, ANSWER).await?;
    let words = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
    let closed: u64 = ask(&conn, &words).await?;
    let node = blow.node.address();
    (closed > 0).then(|| format!("{node} closed {closed} connections"))
}
