//! Redlock: the lock on a majority of N independent nodes
//! (<https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>).
//!
//! `SET key token NX PX ttl` on every node at once, each with a time-out of its own: a tenth of the
//! TTL, at least 10 ms. Granted if a majority said yes and time is left: validity = TTL - elapsed -
//! drift, with drift = TTL x 0.01 + 2 ms. After any other outcome, and at release, the
//! compare-and-delete script goes to all nodes, also to those that did not answer: on the same
//! connection, so that a `SET` that is applied late is undone after it. How often to ask again, and
//! with what jitter, is the wait policy's.
//!
//! Survives the loss of a minority of nodes, data included, and lost replies. Known failures: a
//! section that outlives its validity; a pause (<https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html>,
//! and the answer <http://antirez.com/news/101>); a node whose clock jumps, or that restarts
//! without its data, when the grant rests on just a majority.

use std::time::Duration;

use futures_util::future::join_all;

use super::{
    Acquire, Boxed, COMPARE_AND_DELETE, COMPARE_AND_EXTEND, Call, Entry, Lease, Lock, Renewal,
    Watchdog, milliseconds,
};
use crate::client::{Conn, Outcome, Script};
use crate::history::event::Release;
use crate::scenario::Point;

/// How far clocks may run apart, as a fraction of the TTL, and at least.
const DRIFT: f64 = 0.01;
const DRIFT_LEAST: Duration = Duration::from_millis(2);
/// The share of the TTL that one node may take to answer before it counts as down; of a short TTL a
/// larger one, for a busy machine's lateness does not shrink with it.
const NODE_PATIENCE: f64 = 0.1;
const NODE_PATIENCE_LEAST: Duration = Duration::from_millis(50);
const NODE_PATIENCE_MOST: f64 = 0.25;

pub(super) const ENTRY: Entry = Entry {
    about: "a majority of independent nodes, with a validity; never extended",
    quorum: true,
    ..Entry::lock("redlock", |ttl| Box::new(Redlock::new(ttl, false)))
};

pub(super) const WATCHDOG: Entry = Entry {
    about: "redlock whose lease is extended on a majority every TTL/3",
    quorum: true,
    renews: true,
    ..Entry::lock("redlock-watchdog", |ttl| Box::new(Redlock::new(ttl, true)))
};

#[derive(Debug)]
struct Redlock {
    ttl: Duration,
    extends: bool,
    extend: Script,
}

impl Redlock {
    fn new(ttl: Duration, extends: bool) -> Redlock {
        Redlock {
            ttl,
            extends,
            extend: Script::new(COMPARE_AND_EXTEND),
        }
    }

    /// Asks every node at once; one that does not answer in time counts as unknown.
    async fn ask<'a, F>(&self, call: &'a Call<'_>, ask: impl Fn(&'a Conn) -> F) -> Vec<Outcome<i64>>
    where
        F: Future<Output = Outcome<i64>>,
    {
        let patience = (self.ttl.mul_f64(NODE_PATIENCE).max(NODE_PATIENCE_LEAST))
            .min(self.ttl.mul_f64(NODE_PATIENCE_MOST));
        join_all(call.nodes.iter().map(|node| {
            let answer = ask(node);
            async move {
                match tokio::time::timeout(patience, answer).await {
                    Ok(outcome) => outcome,
                    Err(_) => Outcome::Unknown(format!("no answer within {patience:?}")),
                }
            }
        }))
        .await
    }

    fn validity(&self, elapsed: Duration) -> Option<Duration> {
        let drift = self.ttl.mul_f64(DRIFT) + DRIFT_LEAST;
        let left = self.ttl.checked_sub(elapsed)?.checked_sub(drift)?;
        (!left.is_zero()).then_some(left)
    }

    async fn acquire(&self, call: &Call<'_>) -> Acquire {
        let began = call.clock.now();
        let answers = self.ask(call, |node| self.set(node, call)).await;
        let answered = call.clock.now();
        let validity = self.validity(answered.since(began));
        if let (true, Some(validity)) = (majority(&answers, said(1)), validity) {
            call.points.reached(Point::BetweenCommands).await;
            // A pause at that point is not given to the holder on top.
            let paused = call.clock.now().since(answered);
            return Acquire::Granted(Lease {
                validity: Some(validity.saturating_sub(paused)),
                ..Lease::of(self.ttl)
            });
        }
        // Also where the answer was lost: the key may be there.
        let released = self.release_all(call).await;
        refusal(&answers, &released)
    }

    async fn set(&self, node: &Conn, call: &Call<'_>) -> Outcome<i64> {
        let mut set = redis::cmd("SET");
        set.arg(call.key).arg(call.token).arg("NX");
        set.arg("PX").arg(milliseconds(self.ttl));
        node.call::<Option<String>>(&set)
            .await
            .map(|set| i64::from(set.is_some()))
    }

    /// The script goes in full and not by its hash: a node that answers late that it does not know
    /// the hash would find nobody waiting to send it the rest, and would keep the key.
    async fn release_all(&self, call: &Call<'_>) -> Vec<Outcome<i64>> {
        let mut release = redis::cmd("EVAL");
        release.arg(COMPARE_AND_DELETE).arg(1);
        release.arg(call.key).arg(call.token);
        self.ask(call, |node| node.call(&release)).await
    }

    async fn release(&self, call: &Call<'_>) -> Release {
        call.points.reached(Point::BeforeDelete).await;
        let answers = self.release_all(call).await;
        if majority(&answers, said(1)) {
            return Release::Removed;
        }
        if majority(&answers, |answer| said(1)(answer) || silent(answer)) {
            let (removed, nodes) = (count(&answers, said(1)), answers.len());
            return Release::Unknown(format!("removed on {removed} of {nodes} nodes"));
        }
        match count(&answers, said(0)) > count(&answers, said(-1)) {
            true => Release::NotMine,
            false => Release::Gone,
        }
    }

    async fn extend(&self, call: &Call<'_>) -> Renewal {
        let began = call.clock.now();
        let ttl = milliseconds(self.ttl).to_string();
        let (keys, args) = ([call.key], [call.token, ttl.as_str()]);
        let answers = self
            .ask(call, |node| node.eval(&self.extend, &keys, &args))
            .await;
        let in_time = self.validity(call.clock.now().since(began)).is_some();
        if majority(&answers, said(1)) && in_time {
            Renewal::Extended
        } else if majority(&answers, |answer| said(1)(answer) || silent(answer)) {
            let (extended, nodes) = (count(&answers, said(1)), answers.len());
            Renewal::Failed(format!("extended on {extended} of {nodes} nodes"))
        } else {
            Renewal::Lost
        }
    }
}

/// Whether a node answered, and that.
fn said(what: i64) -> impl Fn(&Outcome<i64>) -> bool {
    move |answer| *answer == Outcome::Done(what)
}

/// Whether a node's answer is no answer.
fn silent(answer: &Outcome<i64>) -> bool {
    !matches!(answer, Outcome::Done(_))
}

fn count(answers: &[Outcome<i64>], like: impl Fn(&Outcome<i64>) -> bool) -> usize {
    answers.iter().filter(|answer| like(answer)).count()
}

fn majority(answers: &[Outcome<i64>], like: impl Fn(&Outcome<i64>) -> bool) -> bool {
    count(answers, like) > answers.len() / 2
}

/// What an attempt was that has no majority, or has it too late, and has released everywhere.
fn refusal(answers: &[Outcome<i64>], released: &[Outcome<i64>]) -> Acquire {
    if majority(answers, said(0)) {
        return Acquire::Denied(None);
    }
    // Where the key may be, and the release may not have come through.
    let left = answers.iter().zip(released).filter(|(set, released)| {
        let may_be_there = !matches!(set, Outcome::Done(0) | Outcome::Refused(_));
        may_be_there && silent(released)
    });
    let nodes = answers.len();
    match left.count() {
        0 if majority(answers, said(1)) => Acquire::Failed("granted too late".to_owned()),
        0 if majority(answers, |answer| !silent(answer)) => Acquire::Denied(None),
        0 => Acquire::Failed("no majority answered".to_owned()),
        left => Acquire::Unknown(format!("the key may be left on {left} of {nodes} nodes")),
    }
}

impl Lock for Redlock {
    fn acquire<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Acquire> {
        Box::pin(self.acquire(call))
    }

    fn release<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Release> {
        Box::pin(self.release(call))
    }

    fn watchdog(&self) -> Option<&dyn Watchdog> {
        self.extends.then_some(self as &dyn Watchdog)
    }
}

impl Watchdog for Redlock {
    fn every(&self) -> Duration {
        self.ttl / 3
    }

    fn renew<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Renewal> {
        Box::pin(self.extend(call))
    }
}
