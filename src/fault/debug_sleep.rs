//! `debug-sleep`: a server is busy with one command and answers nobody, as during a slow script or
//! `KEYS *` (<https://redis.io/docs/latest/commands/debug/>). Unlike a stopped process it wakes by
//! itself, and unlike `client-pause` nothing of it runs: no key expires, no replica is fed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::Entry;
use super::node::{ANSWER, Blow, ask, open};

pub(super) const ENTRY: Entry = Entry {
    name: "debug-sleep",
    about: "a server is busy with one command for a while, DEBUG SLEEP (`for = \"8s\"`)",
};

/// Has it sleep. The proof is how long others had to wait for an answer.
pub(super) async fn strike(blow: &Blow, for_ns: u64) -> Option<String> {
    let wanted = Duration::from_nanos(for_ns);
    blow.began(|node| format!("{node} is busy with one command for {wanted:?}"));
    let sleeper = open(&blow.node, wanted + ANSWER).await?;
    let probe = open(&blow.node, wanted + ANSWER).await?;
    let seconds = wanted.as_secs_f64().to_string();
    let over = AtomicBool::new(false);
    let sleep = async {
        let slept: Option<String> = ask(&sleeper, &["DEBUG", "SLEEP", &seconds]).await;
        over.store(true, Ordering::Relaxed);
        slept
    };
    let others = async {
        let mut longest = Duration::ZERO;
        while !over.load(Ordering::Relaxed) {
            let asked = Instant::now();
            let _: Option<String> = ask(&probe, &["PING"]).await;
            longest = longest.max(asked.elapsed());
        }
        longest
    };
    let (slept, waited) = tokio::join!(sleep, others);
    slept?;
    let node = blow.node.address();
    // The one that waited may have been sent a little after it had begun.
    let long = waited >= wanted.mul_f64(0.9);
    long.then(|| format!("{node} answered a PING after {waited:.1?}"))
}
