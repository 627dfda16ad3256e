//! `false-answer`: what a lock tells its caller is what the server had said. Where a link stands in
//! front of each server the history has the server's own answers: a grant and its fencing token, a
//! refusal, a release, a longer lease, its length and a hold count are held against them. Without links there is
//! nothing to hold them against here; what follows from a false answer is found by the other checks.
//!
//! Answers on one connection come in the order of their questions. While a question has not been
//! answered, what the server says may be meant for it and not for the next one: a request that a black
//! hole has kept comes to the server when the hole lifts, and so after the next one was asked. Then
//! nothing of that kind is judged until the answer has come, or a later question was answered itself.

use std::collections::HashMap;
use std::time::Duration;

use super::finding::{Cause, Finding, Findings, Property, Role};
use super::operation::Operation;
use super::scene::Scene;
use super::{Check, Entry};
use crate::clock::{Time, nanos};
use crate::history::OpId;
use crate::history::event::{Event, Kind, Release};
use crate::lock;
use crate::plan::Plan;
use crate::scenario::{Mistake, Reply, Topology};

pub(super) const ENTRY: Entry = Entry {
    name: "answers",
    about: "what a lock tells its caller is what the server had said, where a link hears it",
    make: |plan| Box::new(Answers::new(plan)),
};

/// In nanoseconds.
const MILLISECOND: u64 = 1_000_000;

struct Answers {
    /// Whether there are links to hear by.
    linked: bool,
    /// Whether there is one server: of several, each may have said something else.
    alone: bool,
    /// How many servers must have done it.
    needed: u32,
    /// Whether a grant counts only when replicas have acknowledged it: without that the attempt has
    /// failed, whatever the server had said, and the lock has given it back.
    acknowledged: bool,
    /// How long a renewal makes the lease.
    ttl_ns: u64,
    /// Whether renewals are asked for in another way than the lock's own.
    renews_otherwise: bool,
    /// Whether anything was heard: an older history has no such answers.
    heard: bool,
    /// What each worker was answered, for the operation that it is at, or was at last if that left an
    /// answer open.
    workers: HashMap<u32, Said>,
}

/// What the servers said to an operation.
struct Said {
    op: OpId,
    instance: u32,
    acquire: Exchange,
    renewal: Exchange,
    release: Exchange,
}

/// One question and the answers to it.
#[derive(Debug, Clone, Copy, Default)]
struct Exchange {
    /// When it was asked, unless its caller was told an answer since.
    asked: Option<Time>,
    /// How many earlier ones have not been answered: what is heard may be meant for those.
    open: u32,
    /// How many servers have done it.
    done: u32,
    /// The last number that was an answer.
    number: Option<i64>,
    /// The shortest lease that any of them was asked for, where the request says that.
    lease_ns: Option<u64>,
}

impl Answers {
    fn new(plan: &Plan) -> Answers {
        let lock = lock::find(&plan.lock.kind);
        let alone = lock.is_some_and(|lock| !lock.quorum);
        let behind_links = plan.needs_link() || matches!(plan.topology, Topology::Sentinel { .. });
        Answers {
            linked: behind_links && lock.is_some_and(|lock| lock.wire.is_some()),
            alone,
            needed: match alone {
                true => 1,
                false => plan.topology.nodes() / 2 + 1,
            },
            acknowledged: plan.lock.acknowledged.is_some(),
            ttl_ns: nanos(plan.ttl()),
            renews_otherwise: plan.lock.mistake == Some(Mistake::RenewBlindly),
            heard: false,
            workers: HashMap::new(),
        }
    }
}

impl Check for Answers {
    fn event(&mut self, event: &Event, scene: &mut Scene, out: &mut Findings) {
        if !self.linked {
            return;
        }
        let at = event.at_ns;
        match &event.event {
            Kind::Answered {
                worker,
                to,
                asked_ns,
                done,
                number,
                lease_ns,
                ..
            } => {
                self.heard = true;
                let alone = self.alone;
                if let Some(said) = self.workers.get_mut(worker) {
                    let exchange = said.to(*to);
                    if !exchange.answered(*asked_ns, *done, *number, *lease_ns) && alone {
                        exchange.open = exchange.open.saturating_sub(1);
                    }
                }
            }
            Kind::Asked { op } => self.asks(*op, Reply::Acquire, at, scene),
            Kind::RenewalAsked { op } => self.asks(*op, Reply::Renewal, at, scene),
            Kind::ReleaseAsked { op } => self.asks(*op, Reply::Release, at, scene),
            Kind::Done { op } | Kind::GaveUp { op, .. } => self.forgets(*op, scene),
            Kind::Crashed { instance } => {
                self.workers.retain(|_, said| said.instance != *instance);
            }
            told => {
                let operation = told_to(told).and_then(|op| scene.op(op));
                if let Some(operation) = operation
                    && let Some(false_answer) = self.told(told, operation)
                    && self.heard
                {
                    out.add(finding(at, operation, &false_answer));
                }
            }
        }
    }
}

/// Whom an event gives the lock's answer.
fn told_to(event: &Kind) -> Option<OpId> {
    match event {
        Kind::Granted {
            op, locked: true, ..
        }
        | Kind::Denied { op }
        | Kind::AcquireFailed { op, .. }
        | Kind::AcquireUnknown { op, .. }
        | Kind::Renewed { op }
        | Kind::RenewalFailed { op, .. }
        | Kind::LeaseLost { op }
        | Kind::Released { op, .. } => Some(*op),
        _ => None,
    }
}

impl Answers {
    fn asks(&mut self, op: OpId, what: Reply, at: Time, scene: &Scene) {
        let Some(operation) = scene.op(op) else {
            return;
        };
        let new = || Said {
            op,
            instance: operation.instance,
            acquire: Exchange::default(),
            renewal: Exchange::default(),
            release: Exchange::default(),
        };
        let said = self.workers.entry(operation.worker).or_insert_with(new);
        if said.op != op {
            // A watchdog that outlives its operation asks beside the next one.
            if what == Reply::Renewal {
                return;
            }
            said.end();
            said.op = op;
        }
        said.to(what).is_asked(at);
    }

    fn forgets(&mut self, op: OpId, scene: &Scene) {
        let Some(operation) = scene.op(op) else {
            return;
        };
        if let Some(said) = self.workers.get_mut(&operation.worker)
            && said.op == op
            && said.end()
        {
            self.workers.remove(&operation.worker);
        }
    }

    /// What is false about an answer, if the servers said something else, and only then.
    fn told(&mut self, told: &Kind, operation: &Operation) -> Option<String> {
        let said = self.workers.get(&operation.worker);
        let said = said.filter(|said| said.op == operation.op)?;
        let (what, settles) = settles(told)?;
        let sure = said.of(what).open == 0;
        let wrong = self.wrong(told, said);
        let said = self.workers.get_mut(&operation.worker)?;
        said.to(what).is_told(settles);
        wrong.filter(|_| sure)
    }

    /// What is false about an answer, if all that was heard was said to it.
    fn wrong(&self, told: &Kind, said: &Said) -> Option<String> {
        let (needed, alone) = (self.needed, self.alone);
        let done = |exchange: &Exchange| exchange.done >= needed;
        match told {
            Kind::Granted { .. } if !done(&said.acquire) => {
                Some("was told that it has the lock, and the server had not granted it".to_owned())
            }
            Kind::Granted {
                fence: Some(fence), ..
            } if alone && said.acquire.number.is_some_and(|said| said != *fence) => {
                let number = said.acquire.number.unwrap_or_default();
                Some(format!(
                    "was told the fencing token {fence}, and the server had said {number}"
                ))
            }
            Kind::Granted {
                ttl_ns: Some(told), ..
            } if said.acquire.is_shorter_than(*told) => Some(said.acquire.too_short(*told)),
            Kind::Denied { .. } if alone && done(&said.acquire) => {
                Some("was told that another has the lock, and the server had granted it".to_owned())
            }
            Kind::AcquireFailed { .. } if alone && !self.acknowledged && done(&said.acquire) => {
                Some("was told of an error, and the server had granted it the lock".to_owned())
            }
            Kind::Renewed { .. } if !done(&said.renewal) && !self.renews_otherwise => Some(
                "was told that its lease is longer, and the server had not extended it".to_owned(),
            ),
            Kind::Renewed { .. } if said.renewal.is_shorter_than(self.ttl_ns) => {
                Some(said.renewal.too_short(self.ttl_ns))
            }
            Kind::LeaseLost { .. } if said.renewal.asked.is_some() && done(&said.renewal) => {
                Some("was told that its lease is lost, and the server had extended it".to_owned())
            }
            Kind::Released { outcome, .. } => released(outcome, &said.release, done, alone),
            _ => None,
        }
    }
}

/// What an answer settles of what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settles {
    /// The server has answered this question, and so all before it.
    All,
    /// This question is not asked any more. Whether it came to a server at all is not told.
    This,
    /// Nothing: its answer may come yet.
    Nothing,
}

/// Which question an answer is about, and what it settles.
fn settles(told: &Kind) -> Option<(Reply, Settles)> {
    Some(match told {
        Kind::Granted { .. } | Kind::Denied { .. } => (Reply::Acquire, Settles::All),
        Kind::AcquireFailed { .. } => (Reply::Acquire, Settles::This),
        Kind::AcquireUnknown { .. } => (Reply::Acquire, Settles::Nothing),
        Kind::Renewed { .. } | Kind::LeaseLost { .. } => (Reply::Renewal, Settles::All),
        // By an error or by none.
        Kind::RenewalFailed { .. } => (Reply::Renewal, Settles::Nothing),
        Kind::Released { outcome, .. } => match outcome {
            Release::Unknown(_) => (Reply::Release, Settles::Nothing),
            Release::Failed(_) => (Reply::Release, Settles::This),
            _ => (Reply::Release, Settles::All),
        },
        _ => return None,
    })
}

fn released(
    outcome: &Release,
    said: &Exchange,
    done: impl Fn(&Exchange) -> bool,
    alone: bool,
) -> Option<String> {
    match outcome {
        Release::Removed if !done(said) => {
            Some("was told that its lock is removed, and the server had not removed it".to_owned())
        }
        Release::StillHeld(holds) if said.number != Some(i64::from(*holds)) => {
            let counted = said.number.map_or("nothing".to_owned(), |n| n.to_string());
            Some(format!(
                "was told that {holds} holds are left, and the server had said {counted}"
            ))
        }
        Release::Gone | Release::NotMine | Release::Failed(_) if alone && done(said) => {
            Some("was told that its lock was not removed, and the server had removed it".to_owned())
        }
        _ => None,
    }
}

impl Said {
    fn of(&self, what: Reply) -> &Exchange {
        match what {
            Reply::Acquire => &self.acquire,
            Reply::Renewal => &self.renewal,
            Reply::Release => &self.release,
        }
    }

    fn to(&mut self, what: Reply) -> &mut Exchange {
        match what {
            Reply::Acquire => &mut self.acquire,
            Reply::Renewal => &mut self.renewal,
            Reply::Release => &mut self.release,
        }
    }

    /// Nobody waits for an answer any more. True if none is open.
    fn end(&mut self) -> bool {
        let all = Reply::ALL.map(|what| {
            let exchange = self.to(what);
            exchange.is_told(Settles::Nothing);
            exchange.open == 0
        });
        !all.contains(&false)
    }
}

impl Exchange {
    fn is_asked(&mut self, at: Time) {
        *self = Exchange {
            asked: Some(at),
            open: self.open,
            ..Exchange::default()
        };
    }

    /// An answer, if it may be to this question: one to an earlier one may come late. False if it is
    /// that.
    fn answered(
        &mut self,
        to: Time,
        done: bool,
        number: Option<i64>,
        lease_ns: Option<u64>,
    ) -> bool {
        let to_this = self.asked.is_some_and(|asked| asked <= to);
        if to_this {
            self.done += u32::from(done);
            self.number = number;
            let shortest = self.lease_ns.into_iter().chain(lease_ns).min();
            self.lease_ns = shortest;
        }
        to_this
    }

    /// Whether the server was asked for a shorter lease than its caller was told. (A server counts
    /// whole milliseconds.)
    fn is_shorter_than(&self, told_ns: u64) -> bool {
        (self.lease_ns).is_some_and(|asked| asked.saturating_add(MILLISECOND) <= told_ns)
    }

    fn too_short(&self, told_ns: u64) -> String {
        let asked = Duration::from_nanos(self.lease_ns.unwrap_or_default());
        let told = Duration::from_nanos(told_ns);
        format!("was told a lease of {told:?}, and the server had been asked for {asked:?}")
    }

    fn is_told(&mut self, settles: Settles) {
        // A loss by the watchdog's own reckoning is no answer.
        if self.asked.take().is_some() {
            match settles {
                Settles::All => self.open = 0,
                Settles::This => {}
                Settles::Nothing => self.open += 1,
            }
        }
    }
}

fn finding(at_ns: Time, operation: &Operation, what: &str) -> Finding {
    Finding {
        property: Property::FalseAnswer,
        cause: Cause::Mistake,
        at_ns,
        summary: format!("{} {what}", operation.name()),
        witnesses: vec![operation.witness(Role::Holder, at_ns)],
    }
}
