//! `clock-jump`: a server's wall clock jumps, as when somebody sets it or it is corrected in one
//! step. Redis lets leases run out by the wall clock: a jump forward ends them, a jump back makes
//! them longer (<https://redis.io/docs/latest/commands/expire/>). It stays where it has jumped to.

use std::time::{Duration, Instant};

use super::Entry;
use super::node::{ANSWER, Blow, Held, ahead, ask, held, lost, open, own};
use super::restart::unpause;
use crate::client::Conn;
use crate::history::event::Kind;

pub(super) const ENTRY: Entry = Entry {
    name: "clock-jump",
    about: "a server's wall clock jumps (`by = \"40s\"`, or back: `by = \"-40s\"`)",
};

/// How long a server may take to see that its clock has jumped, and how often it is asked.
const SEEN: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(1);

/// What a jump did.
pub(super) struct Jumped {
    /// By how much, as measured.
    pub(super) by: String,
    /// The locks' keys that were gone by it.
    pub(super) lost: Vec<u32>,
}

/// Moves the clock. The proof is the server's own time.
pub(super) async fn strike(blow: &Blow, by_ns: i64) -> Option<String> {
    blow.began(|node| format!("the clock of {node} jumps by {}", signed(by_ns)));
    let jumped = jump(blow, by_ns).await?;
    let gone = match blow.name(&jumped.lost) {
        Some(name) => format!(", and EXISTS {name} became 0"),
        None => String::new(),
    };
    let (node, by) = (blow.node.address(), jumped.by);
    Some(format!(
        "TIME of {node} went {by} against the driver's clock{gone}"
    ))
}

/// Moves the clock while writes wait, so that what is gone is gone by that.
pub(super) async fn jump(blow: &Blow, by_ns: i64) -> Option<Jumped> {
    let conn = open(&blow.node, ANSWER).await?;
    // The pause is over by the wall clock too, which is about to jump.
    let most = Duration::from_nanos(by_ns.unsigned_abs()) + 2 * ANSWER;
    let most = most.as_millis().to_string();
    let _: String = ask(&conn, &["CLIENT", "PAUSE", &most, "WRITE"]).await?;
    let jumped = moved(blow, &conn, by_ns).await;
    unpause(blow, &conn).await;
    jumped
}

/// Moves the clock, and records what is gone by that.
async fn moved(blow: &Blow, conn: &Conn, by_ns: i64) -> Option<Jumped> {
    let looked = Instant::now();
    let before = own(conn, &blow.faults.keys).await?;
    let first = ahead(conn).await?;
    blow.node.move_wall_clock(by_ns).ok()?;
    let then = seen(conn, first, by_ns).await;
    let after = held(conn, &blow.faults.keys).await;
    let lost = match &after {
        Some(after) => lost(&before, after, looked.elapsed()),
        // It could not be looked at: what had less time left than it jumped is gone.
        None => {
            let run_out = |(_, left): &&Held| (0..=by_ns / 1_000_000).contains(left);
            before.iter().filter(run_out).map(|(key, _)| *key).collect()
        }
    };
    // It has jumped, whether that can be proven or not.
    blow.faults.recorder.record(Kind::ClockJumped {
        server: blow.node.address().to_string(),
        by_ns,
        lost: lost.clone(),
    });
    let (by, _) = (then?, after?);
    Some(Jumped {
        by: signed(by),
        lost,
    })
}

/// Waits until the server itself has seen its clock jump: some look at it only now and then, and
/// count on by another one in between. Tells by how much, as far as two questions can tell.
async fn seen(conn: &Conn, first: (i64, i64), by_ns: i64) -> Option<i64> {
    let seen = async {
        loop {
            let then = ahead(conn).await?;
            let (least, most) = (then.0 - first.1, then.1 - first.0);
            let sure = most - least < by_ns.saturating_abs() / 2;
            if sure && (least..=most).contains(&by_ns) {
                return Some(least + (most - least) / 2);
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(SEEN, seen).await.ok()?
}

/// A duration with its sign.
pub(super) fn signed(ns: i64) -> String {
    let sign = match ns < 0 {
        true => '-',
        false => '+',
    };
    format!("{sign}{:.3?}", Duration::from_nanos(ns.unsigned_abs()))
}
