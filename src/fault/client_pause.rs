//! `client-pause`: a server keeps all its clients waiting for a while
//! (<https://redis.io/docs/latest/commands/client-pause/>). Its connections stay open, and what was
//! asked meanwhile is done then.

use std::time::{Duration, Instant};

use super::Entry;
use super::node::{ANSWER, Blow, ask, open};

pub(super) const ENTRY: Entry = Entry {
    name: "client-pause",
    about: "a server keeps all its clients waiting for a while (`for = \"8s\"`)",
};

/// Has them wait. The proof is a question that is answered no sooner.
pub(super) async fn strike(blow: &Blow, for_ns: u64) -> Option<String> {
    let wanted = Duration::from_nanos(for_ns);
    blow.began(|node| format!("{node} keeps its clients waiting for {wanted:?}"));
    let probe = open(&blow.node, wanted + ANSWER).await?;
    // It ends by itself: nobody could be told to end it.
    let milliseconds = wanted.as_millis().max(1);
    let words = ["CLIENT", "PAUSE", &milliseconds.to_string(), "ALL"];
    let asked = Instant::now();
    let _: String = ask(&probe, &words).await?;
    let _: String = ask(&probe, &["PING"]).await?;
    let after = asked.elapsed();
    let node = blow.node.address();
    let waited = after.as_millis() >= milliseconds;
    waited.then(|| format!("{node} answered a PING after {after:.1?}"))
}
