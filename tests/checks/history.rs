//! Histories written as sentences: `history.at(5.1).granted(B)`. Times are seconds of the run; what
//! takes two events (a call and its answer) takes a millisecond unless it is told in two.

use std::collections::BTreeSet;

use oversold::check::{Cause, Finding, Judge, Judgement, Property};
use oversold::clock::Time;
use oversold::history::event::{Effect, GiveUp, Kind, Release, ServerDid, Stop};
use oversold::history::{Event, OpId};
use oversold::lock;
use oversold::plan::{Overrides, Plan};
use oversold::scenario::{Reply, Scenario, Vocabulary, Workload};
use oversold::store::Ledger;

/// An operation: the last two digits of its number are its instance's and worker's too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op {
    pub number: OpId,
    pub key: u32,
}

pub const A: Op = Op { number: 0, key: 0 };
pub const B: Op = Op { number: 1, key: 0 };
pub const C: Op = Op { number: 2, key: 0 };
pub const D: Op = Op { number: 3, key: 0 };
/// Somebody who is refused once, so that the lock is contended for.
const BYSTANDER: Op = Op { number: 9, key: 0 };

impl Op {
    /// The same operation on another key.
    pub fn on(self, key: u32) -> Op {
        Op { key, ..self }
    }

    /// The next operation of the same worker.
    pub fn next(self) -> Op {
        let number = self.number + 100;
        Op { number, ..self }
    }

    pub fn instance(self) -> u32 {
        (self.number % 100) as u32
    }
}

/// A call and its answer lie this far apart.
const CALL: f64 = 0.001;
/// The TTL of every lock here, in seconds.
pub const TTL: f64 = 5.0;
const STOCK: i64 = 100;

/// A history in the making.
#[derive(Debug, Clone)]
pub struct History {
    pub plan: Plan,
    pub keys: usize,
    events: Vec<Event>,
    now: f64,
    arrived: BTreeSet<OpId>,
    asking: BTreeSet<OpId>,
    in_section: BTreeSet<OpId>,
    contended: bool,
    ended: bool,
}

const FLASH_SALE: &str = r#"kind = "flash-sale"
stock = 100"#;
const RECONCILE: &str = r#"kind = "reconcile"
accounts = 2
entries = 20"#;

/// A plan of a lock with a TTL of 5 s, in which a refused worker does not wait.
pub fn plan(lock: &str, workload: &str, faults: &str) -> Plan {
    let known = Vocabulary {
        locks: lock::names(),
        properties: Property::words(),
    };
    let text = format!(
        r#"
name = "told"
[load]
instances = 10
workers = 10
duration = "90s"
[workload]
{workload}
[section]
constant = "1s"
[lock]
kind = "{lock}"
ttl = "5s"
{faults}
"#
    );
    let scenario = Scenario::parse("told.toml", &text, &known).unwrap();
    Plan::resolve(&scenario, &Overrides::default(), lock, 1)
}

/// A flash sale of 100 units under a lock.
pub fn sale_under(lock: &str) -> History {
    History::of(plan(lock, FLASH_SALE, ""), 1)
}

/// The same with one planned fault: instance 0 is frozen at 1 s.
pub fn sale_with_a_planned_freeze() -> History {
    let fault = r#"[[fault]]
kind = "freeze"
for = "8s"
at = { time = "1s", instance = 0 }"#;
    History::of(plan("token-lua", FLASH_SALE, fault), 1)
}

/// The same, planned so: `at = ...`, and what else is said of it.
pub fn sale_with_a_freeze(rest: &str) -> History {
    let fault = format!("[[fault]]\nkind = \"freeze\"\nfor = \"8s\"\n{rest}\n");
    History::of(plan("token-lua", FLASH_SALE, &fault), 1)
}

/// Two accounts of 20 entries, each with its own lock.
pub fn reconciliation_under(lock: &str) -> History {
    History::of(plan(lock, RECONCILE, ""), 2)
}

impl History {
    pub fn of(plan: Plan, keys: usize) -> History {
        History {
            plan,
            keys,
            events: Vec::new(),
            now: 0.0,
            arrived: BTreeSet::new(),
            asking: BTreeSet::new(),
            in_section: BTreeSet::new(),
            contended: true,
            ended: true,
        }
    }

    /// What follows happens at this time.
    pub fn at(mut self, seconds: f64) -> History {
        self.now = seconds;
        self
    }

    fn record_at(&mut self, seconds: f64, event: Kind) {
        let at_ns = Time((seconds.max(0.0) * 1e9).round() as u64);
        self.events.push(Event { at_ns, event });
    }

    fn record(mut self, event: Kind) -> History {
        self.record_at(self.now, event);
        self
    }

    fn ask_at(&mut self, op: Op, seconds: f64) {
        if self.arrived.insert(op.number) {
            let arrived = Kind::Arrived {
                op: op.number,
                instance: op.instance(),
                worker: op.instance(),
                key: op.key,
                planned_ns: None,
            };
            self.record_at(seconds, arrived);
        }
        self.record_at(seconds, Kind::Asked { op: op.number });
        self.asking.insert(op.number);
    }

    /// The answer to its question; which was asked just before, if it was not told when.
    fn answered(mut self, op: Op, event: Kind) -> History {
        if !self.asking.remove(&op.number) {
            self.ask_at(op, self.now - CALL);
            self.asking.remove(&op.number);
        }
        self.record(event)
    }

    /// It asks for the lock, and the answer is told apart.
    pub fn asks(mut self, op: Op) -> History {
        self.ask_at(op, self.now);
        self
    }

    /// It is granted the lock, and enters its section.
    pub fn granted(self, op: Op) -> History {
        self.granted_only(op).enters(op)
    }

    /// It is granted the lock and has not entered yet.
    pub fn granted_only(self, op: Op) -> History {
        self.granted_only_for(op, TTL)
    }

    /// It is granted the lock for so many seconds, and enters its section.
    pub fn granted_for(self, op: Op, seconds: f64) -> History {
        self.granted_only_for(op, seconds).enters(op)
    }

    fn granted_only_for(self, op: Op, seconds: f64) -> History {
        let granted = Kind::Granted {
            op: op.number,
            ttl_ns: Some((seconds * 1e9) as u64),
            locked: true,
            fence: None,
        };
        self.answered(op, granted)
    }

    /// It is granted the lock with a fencing token, and enters its section.
    pub fn granted_with(self, op: Op, fence: i64) -> History {
        let granted = Kind::Granted {
            op: op.number,
            ttl_ns: Some((TTL * 1e9) as u64),
            locked: true,
            fence: Some(fence),
        };
        self.answered(op, granted).enters(op)
    }

    /// It takes no lock, and enters its section.
    pub fn walks_in(self, op: Op) -> History {
        let granted = Kind::Granted {
            op: op.number,
            ttl_ns: None,
            locked: false,
            fence: None,
        };
        self.answered(op, granted).enters(op)
    }

    pub fn enters(mut self, op: Op) -> History {
        self.in_section.insert(op.number);
        self.record(Kind::Entered { op: op.number })
    }

    pub fn denied(self, op: Op) -> History {
        self.answered(op, Kind::Denied { op: op.number })
    }

    /// The answer to its question never comes.
    pub fn hears_nothing(self, op: Op) -> History {
        let error = "timed out".to_owned();
        let op_number = op.number;
        self.answered(
            op,
            Kind::AcquireUnknown {
                op: op_number,
                error,
            },
        )
    }

    /// Its question is answered by an error: it surely has no lock.
    pub fn acquire_fails(self, op: Op) -> History {
        let failed = Kind::AcquireFailed {
            op: op.number,
            error: "READONLY".to_owned(),
        };
        self.answered(op, failed)
    }

    pub fn gives_up(self, op: Op) -> History {
        let why = GiveUp::Policy;
        self.record(Kind::GaveUp { op: op.number, why })
    }

    /// It stops waiting because the run ends.
    pub fn stops_waiting(self, op: Op) -> History {
        let why = GiveUp::RunEnded;
        self.record(Kind::GaveUp { op: op.number, why })
    }

    /// It reads what is left, and begins a work of so many seconds.
    pub fn works(mut self, op: Op, seconds: f64, seen: i64) -> History {
        self.record_at(
            self.now,
            Kind::Read {
                op: op.number,
                item: op.key,
                value: seen,
            },
        );
        let work_ns = (seconds * 1e9) as u64;
        let op = op.number;
        self.record(Kind::Working { op, work_ns })
    }

    /// It writes what it had seen over what is there by now.
    pub fn writes(self, op: Op, seen: i64, replaced: i64, rows: u32) -> History {
        let effect = Effect::Written { rows, rejected: 0 };
        self.wrote(op, seen, replaced, effect)
    }

    /// It writes, and the store's guard refuses it.
    pub fn bounces_off_the_guard(self, op: Op, seen: i64, replaced: i64) -> History {
        let effect = Effect::Written {
            rows: 0,
            rejected: 1,
        };
        self.wrote(op, seen, replaced, effect)
    }

    /// It heeds the loss of its lease.
    pub fn withholds(self, op: Op, seen: i64) -> History {
        self.wrote(op, seen, seen, Effect::Withheld)
    }

    /// A store without a guard holds afterwards what follows from what was seen; a write that did
    /// not land changes nothing.
    fn wrote(self, op: Op, seen: i64, replaced: i64, effect: Effect) -> History {
        let landed = matches!(effect, Effect::Written { rows: 1.., .. });
        let left = match &self.plan.workload {
            _ if !landed => replaced,
            Workload::Reconcile { .. } => 0,
            Workload::Counter | Workload::Tally { .. } | Workload::Leader => seen + 1,
            _ => seen - 1,
        };
        self.record(Kind::Wrote {
            op: op.number,
            item: op.key,
            seen,
            replaced,
            left,
            effect,
        })
    }

    pub fn store_fails(self, op: Op) -> History {
        let error = "database is locked".to_owned();
        let op = op.number;
        self.record(Kind::StoreFailed { op, error })
    }

    pub fn leaves(mut self, op: Op) -> History {
        self.in_section.remove(&op.number);
        self.record(Kind::Left { op: op.number })
    }

    /// It leaves its section if it is in it, and asks to release.
    pub fn asks_to_release(mut self, op: Op) -> History {
        if self.in_section.contains(&op.number) {
            self = self.leaves(op);
        }
        self.record(Kind::ReleaseAsked { op: op.number })
    }

    /// It gives one hold back and stays in its section.
    pub fn asks_to_release_inside(self, op: Op) -> History {
        self.record(Kind::ReleaseAsked { op: op.number })
    }

    /// Its release is answered, and it has come to its end.
    pub fn release_answered(self, op: Op, outcome: Release) -> History {
        self.released_only(op, outcome).ends(op)
    }

    /// Its release is answered, and something of it goes on.
    pub fn released_only(self, op: Op, outcome: Release) -> History {
        let op = op.number;
        self.record(Kind::Released { op, outcome })
    }

    pub fn ends(self, op: Op) -> History {
        self.record(Kind::Done { op: op.number })
    }

    /// It leaves its section, and its release removes the key.
    pub fn releases(self, op: Op) -> History {
        self.releases_and_hears(op, Release::Removed)
    }

    pub fn releases_and_hears(self, op: Op, outcome: Release) -> History {
        let now = self.now;
        let answered = self.asks_to_release(op).at(now + CALL);
        answered.release_answered(op, outcome).at(now)
    }

    /// Its release removes the key, and something of it goes on.
    pub fn releases_and_goes_on(self, op: Op) -> History {
        let now = self.now;
        let answered = self.asks_to_release(op).at(now + CALL);
        answered.released_only(op, Release::Removed).at(now)
    }

    pub fn asks_to_renew(self, op: Op) -> History {
        self.record(Kind::RenewalAsked { op: op.number })
    }

    pub fn renewed(self, op: Op) -> History {
        self.record(Kind::Renewed { op: op.number })
    }

    /// It asks for a longer lease and gets it.
    pub fn renews(self, op: Op) -> History {
        let now = self.now;
        let asked = self.asks_to_renew(op).at(now + CALL);
        asked.renewed(op).at(now)
    }

    pub fn renewal_fails(self, op: Op) -> History {
        let error = "timed out".to_owned();
        let op = op.number;
        self.record(Kind::RenewalFailed { op, error })
    }

    /// Its watchdog gives the lease up.
    pub fn lease_lost(self, op: Op) -> History {
        self.record(Kind::LeaseLost { op: op.number })
    }

    pub fn freezes(self, op: Op) -> History {
        let instance = op.instance();
        self.record(Kind::Frozen { instance })
    }

    pub fn thaws(self, op: Op) -> History {
        let instance = op.instance();
        self.record(Kind::Thawed { instance })
    }

    pub fn crashes(self, op: Op) -> History {
        let instance = op.instance();
        self.record(Kind::Crashed { instance })
    }

    /// The driver has been late by so many seconds.
    pub fn driver_was_late(self, seconds: f64) -> History {
        let late_ns = (seconds * 1e9) as u64;
        let instance = None;
        self.record(Kind::DriverLag { late_ns, instance })
    }

    /// The driver has kept back one instance by so many seconds.
    pub fn driver_kept_back(self, op: Op, seconds: f64) -> History {
        let (late_ns, instance) = ((seconds * 1e9) as u64, Some(op.instance()));
        self.record(Kind::DriverLag { late_ns, instance })
    }

    pub fn evicts(self, key: u32) -> History {
        let did = ServerDid::Evicted;
        self.record(Kind::Server { key, did })
    }

    /// The server says that a key's time to live has run out.
    pub fn expires(self, key: u32) -> History {
        let did = ServerDid::Expired;
        self.record(Kind::Server { key, did })
    }

    /// The server's answer to a question that was put to it at a time comes to the link.
    pub fn server_says(self, op: Op, to: Reply, asked: f64, done: bool) -> History {
        self.server_says_a_number(op, to, asked, done, None)
    }

    /// The same, and it is a number.
    pub fn server_says_a_number(
        self,
        op: Op,
        to: Reply,
        asked: f64,
        done: bool,
        number: Option<i64>,
    ) -> History {
        self.server_answers(op, to, asked, (done, number, None))
    }

    /// The same, of a request for a lease of so many seconds.
    pub fn server_leases(self, op: Op, to: Reply, asked: f64, lease: f64) -> History {
        self.server_answers(op, to, asked, (true, None, Some(lease)))
    }

    fn server_answers(
        self,
        op: Op,
        to: Reply,
        asked: f64,
        (done, number, lease): (bool, Option<i64>, Option<f64>),
    ) -> History {
        self.record(Kind::Answered {
            worker: op.instance(),
            key: op.key,
            to,
            asked_ns: Time((asked * 1e9).round() as u64),
            done,
            number,
            lease_ns: lease.map(|lease| (lease * 1e9).round() as u64),
        })
    }

    pub fn promotes(self, held: &[u32]) -> History {
        let (server, held) = ("127.0.0.1:1".to_owned(), held.to_vec());
        self.record(Kind::Promoted { server, held })
    }

    /// A server gives the answer that is told next.
    pub fn answered_by(self, op: Op, server: &str) -> History {
        let (op, server) = (op.number, server.to_owned());
        self.record(Kind::AnsweredBy { op, server })
    }

    /// It is granted the lock by that server, and enters its section.
    pub fn granted_by(mut self, op: Op, server: &str) -> History {
        if !self.asking.contains(&op.number) {
            self.ask_at(op, self.now - CALL);
        }
        self.answered_by(op, server).granted(op)
    }

    /// It leaves its section, and its release removes the key on that server.
    pub fn releases_on(self, op: Op, server: &str) -> History {
        let now = self.now;
        let answered = self.asks_to_release(op).at(now + CALL);
        let answered = answered.answered_by(op, server);
        answered.release_answered(op, Release::Removed).at(now)
    }

    /// It asks for a longer lease, and that server gives it.
    pub fn renews_on(self, op: Op, server: &str) -> History {
        let now = self.now;
        let asked = self.asks_to_renew(op).at(now + CALL);
        asked.answered_by(op, server).renewed(op).at(now)
    }

    pub fn two_primaries(self, servers: [&str; 2], both: &[u32]) -> History {
        let (servers, both) = (servers.map(str::to_owned).to_vec(), both.to_vec());
        self.record(Kind::TwoPrimaries { servers, both })
    }

    pub fn one_primary(self, server: &str) -> History {
        let server = server.to_owned();
        self.record(Kind::OnePrimary { server })
    }

    /// A server is back after a restart, without these keys.
    pub fn restarts_without(self, lost: &[u32]) -> History {
        let (server, lost) = ("127.0.0.1:1".to_owned(), lost.to_vec());
        self.record(Kind::Restarted { server, lost })
    }

    /// A server's clock jumps by so many seconds, and these keys are gone.
    pub fn clock_jumps(self, seconds: f64, lost: &[u32]) -> History {
        let (server, lost) = ("127.0.0.1:1".to_owned(), lost.to_vec());
        let by_ns = (seconds * 1e9) as i64;
        self.record(Kind::ClockJumped {
            server,
            by_ns,
            lost,
        })
    }

    pub fn fault_strikes(self) -> History {
        let what = "freeze of instance 0 for 8s".to_owned();
        self.record(Kind::FaultBegan {
            fault: 0,
            what,
            instance: None,
        })
    }

    /// A fault strikes an instance.
    pub fn fault_strikes_at(self, fault: u32, op: Op) -> History {
        let what = "freeze for 8s".to_owned();
        let instance = Some(op.instance());
        self.record(Kind::FaultBegan {
            fault,
            what,
            instance,
        })
    }

    pub fn fault_ends(self, fault: u32) -> History {
        self.record(Kind::FaultEnded { fault })
    }

    pub fn fault_is_proven(self) -> History {
        let proof = "instance 0 wanted to move and did not".to_owned();
        self.record(Kind::FaultLanded { fault: 0, proof })
    }

    pub fn server_dies(self) -> History {
        let why = "exit status 1".to_owned();
        self.record(Kind::ServerDied { why })
    }

    pub fn server_tells_nothing_of_its_keys(self) -> History {
        let why = "no notifications".to_owned();
        self.record(Kind::Untold { why })
    }

    pub fn stops(self, why: Stop) -> History {
        self.record(Kind::Draining { why })
    }

    pub fn drain_is_cut(self) -> History {
        self.record(Kind::DrainCut { instances: 1 })
    }

    /// A key is still there after everybody has stopped.
    pub fn key_is_left(self, key: u32, pttl: Option<f64>) -> History {
        self.key_is_left_and_rises(key, pttl, 0)
    }

    /// The same, and its time to live has risen so many times since.
    pub fn key_is_left_and_rises(self, key: u32, pttl: Option<f64>, rises: u32) -> History {
        let pttl_ns = pttl.map(|seconds| (seconds * 1e9) as u64);
        let after_ns = (2.0 * TTL * 1e9) as u64;
        self.record(Kind::KeyAtEnd {
            key,
            pttl_ns,
            after_ns,
            rises,
        })
    }

    pub fn keys_cannot_be_looked_up(mut self) -> History {
        self.ended = false;
        let error = "not connected".to_owned();
        self.record(Kind::KeysUnseen { error })
    }

    /// Nobody else is there.
    pub fn without_bystander(mut self) -> History {
        self.contended = false;
        self
    }

    /// The driver was killed.
    pub fn cut_off(mut self) -> History {
        self.ended = false;
        self
    }

    /// All events, in the order of their times; with the bystander, and with its end.
    pub fn events(&self) -> Vec<Event> {
        let mut whole = self.clone();
        let entered = |event: &&Event| matches!(event.event, Kind::Entered { .. });
        let first = self.events.iter().find(entered);
        if let Some(first) = first.filter(|_| self.contended) {
            let soon = first.at_ns.seconds() + 2.0 * CALL;
            whole = whole.at(soon).denied(BYSTANDER).gives_up(BYSTANDER);
        }
        let last = whole.events.iter().map(|event| event.at_ns).max();
        let end = last.unwrap_or_default().seconds() + 1.0;
        let drained = |event: &Event| matches!(event.event, Kind::Draining { .. });
        if self.ended {
            if !whole.events.iter().any(drained) {
                whole = whole.at(end).stops(Stop::OperationsDone);
            }
            whole = whole.at(end + 10.0).record(Kind::Ended {});
        }
        whole.events.sort_by_key(|event| event.at_ns);
        whole.events
    }

    /// What is said of it beside a ledger to which nothing but its own writes were done.
    pub fn judged(&self) -> Judgement {
        let rows = self.events.iter().map(|event| match event.event {
            Kind::Wrote {
                effect: Effect::Written { rows, .. },
                ..
            } => i64::from(rows),
            _ => 0,
        });
        let rows = rows.sum();
        self.judged_with(match self.keys {
            1 => sold(rows),
            _ => posted(rows),
        })
    }

    pub fn judged_with(&self, ledger: Ledger) -> Judgement {
        judge(&self.plan, self.keys, &self.events(), &ledger)
    }
}

/// What the checks say of events as they come in.
pub fn judge(plan: &Plan, keys: usize, events: &[Event], ledger: &Ledger) -> Judgement {
    let mut judge = Judge::new(plan, keys);
    for event in events {
        judge.event(event);
    }
    judge.end(ledger)
}

/// The ledger of a sale that is right.
pub fn sold(orders: i64) -> Ledger {
    Ledger {
        stock: STOCK,
        remaining: STOCK - orders,
        orders,
        unsold: STOCK - orders,
        ..Ledger::default()
    }
}

/// The ledger of a reconciliation of 40 entries that is right.
pub fn posted(postings: i64) -> Ledger {
    Ledger {
        entries: 40,
        postings,
        never_processed: 40 - postings,
        ..Ledger::default()
    }
}

/// The one finding of a property; fails if there are more, or none.
pub fn the_one(judged: &Judgement, property: Property) -> &Finding {
    let found = judged.findings.iter().filter(|f| f.property == property);
    let found: Vec<_> = found.collect();
    assert_eq!(judged.count(property), 1, "{property:?}: {judged:#?}");
    found[0]
}

/// Fails unless the property was violated exactly once, for this reason.
pub fn assert_found(judged: &Judgement, property: Property, cause: Cause) {
    let finding = the_one(judged, property);
    assert_eq!(finding.cause, cause, "{judged:#?}");
}

/// Fails if a property was violated, or only the driver's lag excused it.
pub fn assert_not_found(judged: &Judgement, property: Property) {
    assert_eq!(judged.count(property), 0, "{judged:#?}");
    let excused = judged.by_driver.iter().any(|f| f.property == property);
    assert!(!excused, "{judged:#?}");
}

/// Fails unless nothing at all was found and nothing was in doubt.
pub fn assert_clean(judged: &Judgement) {
    use oversold::verdict::Verdict::Pass;
    assert_eq!(judged.findings, vec![]);
    assert_eq!(judged.by_driver, vec![]);
    assert_eq!(judged.doubts, Vec::<String>::new());
    assert_eq!((judged.lock, judged.business), (Pass, Pass));
}
