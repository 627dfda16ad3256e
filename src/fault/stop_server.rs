//! `stop-server`: a server's process stands still for a while (SIGSTOP) and goes on (SIGCONT). Its
//! connections stay open, and what was asked meanwhile is done then.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Entry;
use super::node::{ANSWER, Blow, ask, open};
use crate::topology::Machine;

pub(super) const ENTRY: Entry = Entry {
    name: "stop-server",
    about: "a server stands still for a while (`for = \"8s\"`), and then does what it was asked",
};

/// Lets its server go on when dropped, whatever ended the wait.
struct Stopped(Arc<Machine>);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.stand_still(false);
    }
}

/// Stops it now and lets it go on later. The proof is a question that is answered no sooner.
pub(super) async fn strike(blow: &Blow, for_ns: u64) -> Option<String> {
    let wanted = Duration::from_nanos(for_ns);
    blow.began(|node| format!("{node} stands still for {wanted:?}"));
    let probe = open(&blow.node, wanted + ANSWER).await?;
    if !blow.node.stand_still(true) {
        return None;
    }
    let stopped = Stopped(Arc::clone(&blow.node));
    let asked = Instant::now();
    let answer = async {
        let pong: Option<String> = ask(&probe, &["PING"]).await;
        pong.map(|_| asked.elapsed())
    };
    let on = async {
        tokio::time::sleep(wanted).await;
        drop(stopped);
    };
    let (answered, ()) = tokio::join!(answer, on);
    let after = answered.filter(|after| *after >= wanted)?;
    let node = blow.node.address();
    Some(format!(
        "{node} answered a PING after {after:.1?}, when it went on"
    ))
}
