//! Random histories of a lock that is right, made by a small server with one clock: no check may
//! raise an alarm, but of a key that its lost answer did leave behind. With one stranger let in beside a holder, the overlap must be found.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use oversold::check::{Finding, Judgement, Property, Role, Side};
use oversold::clock::Time;
use oversold::history::event::{GiveUp, Kind, Release, ServerDid, Stop};
use oversold::history::{Event, OpId};
use oversold::store::Ledger;
use proptest::prelude::*;
use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};

use crate::history::{History, judge, reconciliation_under};
use crate::stored::{judge_file, store};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const TTL: u64 = 5 * SECOND;
/// How often a watchdog renews.
const EVERY: u64 = TTL / 3;
/// The most that a question, or an answer, is on its way while its instance runs.
const WAY: u64 = 300 * MS;

/// What a random history is made of.
#[derive(Debug, Clone)]
struct Shape {
    seed: u64,
    renews: bool,
    workers: u32,
    operations: u64,
    driver_lags: bool,
}

fn shapes(driver_lags: bool) -> impl Strategy<Value = Shape> {
    let parts = (any::<u64>(), any::<bool>(), 2u32..8, 5u64..80);
    parts.prop_map(move |(seed, renews, workers, operations)| Shape {
        seed,
        renews,
        workers,
        operations,
        driver_lags,
    })
}

/// A call that reaches the server at a time.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    Acquire,
    Renew {
        asked: u64,
        leaves: u64,
        must_work: bool,
    },
    Release,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Caller {
    op: OpId,
    worker: u32,
    key: u32,
}

/// A section that was entered and left.
#[derive(Debug, Clone, Copy)]
struct Section {
    op: OpId,
    key: u32,
    entered: u64,
    left: u64,
}

/// A right lock on one server: who holds each key, and until when.
struct World {
    shape: Shape,
    rng: ChaCha8Rng,
    holders: [Option<(OpId, u64)>; 2],
    calls: BinaryHeap<Reverse<(u64, Caller, Call)>>,
    events: Vec<Event>,
    sections: Vec<Section>,
    /// Who was granted the lock, was not answered and gave up.
    kept: Vec<OpId>,
    issued: u64,
}

fn history_of(shape: &Shape) -> (Vec<Event>, Vec<Section>) {
    let (events, sections, _) = history_with_kept(shape);
    (events, sections)
}

/// The same, and who has kept the lock without knowing it.
fn history_with_kept(shape: &Shape) -> (Vec<Event>, Vec<Section>, Vec<OpId>) {
    let mut world = World {
        shape: shape.clone(),
        rng: ChaCha8Rng::seed_from_u64(shape.seed),
        holders: [None; 2],
        calls: BinaryHeap::new(),
        events: Vec::new(),
        sections: Vec::new(),
        kept: Vec::new(),
        issued: 0,
    };
    for worker in 0..shape.workers {
        world.begin(worker, 0);
    }
    while let Some(Reverse((now, caller, call))) = world.calls.pop() {
        match call {
            Call::Acquire => world.acquire(now, caller),
            Call::Renew {
                asked,
                leaves,
                must_work,
            } => {
                world.renew(now, caller, asked, leaves, must_work);
            }
            Call::Release => world.release(now, caller),
        }
    }
    world.finish()
}

impl World {
    fn record(&mut self, at: u64, event: Kind) {
        let at_ns = Time(at);
        self.events.push(Event { at_ns, event });
    }

    fn draw(&mut self, most: u64) -> u64 {
        self.rng.random_range(1..most)
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.rng.random_range(0..n) == 0
    }

    fn send(&mut self, at: u64, caller: Caller, call: Call) {
        self.calls.push(Reverse((at, caller, call)));
    }

    /// A worker begins its next operation after some thought; seldom a long one.
    fn begin(&mut self, worker: u32, now: u64) {
        if self.issued == self.shape.operations {
            return;
        }
        let op = self.issued;
        self.issued += 1;
        let thought = if self.one_in(6) { 30 * SECOND } else { SECOND };
        let at = now + self.draw(thought);
        let key = self.rng.random_range(0..2);
        let caller = Caller { op, worker, key };
        let instance = worker;
        self.record(
            at,
            Kind::Arrived {
                op,
                instance,
                worker,
                key,
                planned_ns: None,
            },
        );
        self.ask(at, caller);
    }

    fn ask(&mut self, at: u64, caller: Caller) {
        self.record(at, Kind::Asked { op: caller.op });
        let arrives = at + self.draw(WAY);
        self.send(arrives, caller, Call::Acquire);
    }

    fn holder(&self, key: u32, now: u64) -> Option<OpId> {
        let held = self.holders[key as usize].filter(|(_, until)| now < *until);
        held.map(|(op, _)| op)
    }

    /// The server tells that a lease has run out, a little later than it did.
    fn expire(&mut self, key: u32, now: u64) {
        let ended = self.holders[key as usize].take_if(|(_, until)| *until <= now);
        if let Some((_, until)) = ended {
            let told = until + self.draw(40 * MS);
            let did = ServerDid::Expired;
            self.record(told, Kind::Server { key, did });
        }
    }

    fn acquire(&mut self, now: u64, caller: Caller) {
        let Caller { op, worker, key } = caller;
        self.expire(key, now);
        let free = self.holder(key, now).is_none();
        if self.one_in(15) {
            // The question or the answer is lost.
            if free && self.one_in(2) {
                self.holders[key as usize] = Some((op, now + TTL));
                self.kept.push(op);
            }
            let heard = now + self.draw(SECOND);
            let error = "timed out".to_owned();
            self.record(heard, Kind::AcquireUnknown { op, error });
            return self.give_up(heard, caller);
        }
        if free {
            self.holders[key as usize] = Some((op, now + TTL));
            return self.enter(now, caller);
        }
        let mut heard = now + self.draw(WAY);
        if self.one_in(8) {
            let frozen = self.draw(12 * SECOND);
            self.freeze(worker, now, now + frozen);
            heard += frozen;
        }
        self.record(heard, Kind::Denied { op });
        match self.one_in(2) {
            true => self.give_up(heard, caller),
            false => {
                let again = heard + self.draw(2 * SECOND);
                self.ask(again, caller);
            }
        }
    }

    fn give_up(&mut self, at: u64, caller: Caller) {
        let why = GiveUp::Policy;
        self.record(at + 1, Kind::GaveUp { op: caller.op, why });
        self.begin(caller.worker, at + 2);
    }

    fn freeze(&mut self, instance: u32, from: u64, until: u64) {
        self.record(from, Kind::Frozen { instance });
        self.record(until, Kind::Thawed { instance });
    }

    /// The section ends before its lease does, or is kept alive by renewals.
    fn enter(&mut self, now: u64, caller: Caller) {
        let op = caller.op;
        let heard = now + self.draw(WAY);
        let granted = Kind::Granted {
            op,
            ttl_ns: Some(TTL),
            locked: true,
            fence: None,
        };
        self.record(heard, granted);
        self.record(heard, Kind::Entered { op });
        let longest = if self.shape.renews {
            3 * TTL
        } else {
            TTL - WAY - MS
        };
        let leaves = heard + self.draw(longest);
        if self.shape.renews {
            // The watchdog counts from the entry.
            self.watch(heard + EVERY, caller, leaves, false);
        }

        if !self.shape.renews || heard + EVERY >= leaves {
            self.leave(leaves, caller);
        }
    }

    fn watch(&mut self, asks: u64, caller: Caller, leaves: u64, must_work: bool) {
        if asks >= leaves {
            return;
        }
        let op = caller.op;
        self.record(asks, Kind::RenewalAsked { op });
        let arrives = asks + self.draw(WAY);
        let call = Call::Renew {
            asked: asks,
            leaves,
            must_work,
        };
        self.send(arrives, caller, call);
    }

    fn renew(&mut self, now: u64, caller: Caller, asked: u64, leaves: u64, must_work: bool) {
        let op = caller.op;
        assert_eq!(self.holder(caller.key, now), Some(op), "the lock is right");
        let heard = now + self.draw(WAY);
        let fails = !must_work && self.one_in(4);
        let applied = !fails || self.one_in(2);
        if applied {
            self.holders[caller.key as usize] = Some((op, now + TTL));
        }
        if heard < leaves {
            let error = "timed out".to_owned();
            let heard_of = match fails {
                true => Kind::RenewalFailed { op, error },
                false => Kind::Renewed { op },
            };
            self.record(heard, heard_of);
        }
        let next = (asked + EVERY).max(heard + 1);
        match next < leaves {
            true => self.watch(next, caller, leaves, !applied),
            // The release follows on the same connection.
            false => self.leave(leaves.max(now), caller),
        }
    }

    fn leave(&mut self, at: u64, caller: Caller) {
        let Caller { op, worker, key } = caller;
        let entered = Kind::Entered { op };
        let entered = self.events.iter().find(|event| event.event == entered);
        let entered = entered.map_or(at, |event| event.at_ns.0);
        self.sections.push(Section {
            op,
            key,
            entered,
            left: at,
        });
        if self.one_in(15) {
            // It dies in its section, and its worker with it.
            return self.record(at, Kind::Crashed { instance: worker });
        }
        self.record(at, Kind::Left { op });
        let mut asks = at + 1;
        if self.one_in(10) {
            asks += self.draw(12 * SECOND);
            self.freeze(worker, at, asks);
        }
        self.record(asks, Kind::ReleaseAsked { op });
        let arrives = asks + self.draw(WAY);
        self.send(arrives, caller, Call::Release);
    }

    fn release(&mut self, now: u64, caller: Caller) {
        let Caller { op, worker, key } = caller;
        let lost = self.one_in(15);
        let outcome = match self.holder(key, now) {
            // The question is lost, and changes nothing.
            Some(_) if lost && self.one_in(2) => Release::Gone,
            Some(holder) if holder == op => {
                self.holders[key as usize] = None;
                Release::Removed
            }
            Some(_) => Release::NotMine,
            None => Release::Gone,
        };
        let outcome = match lost {
            true => Release::Unknown("timed out".to_owned()),
            false => outcome,
        };
        let heard = now + self.draw(2 * WAY);
        self.record(heard, Kind::Released { op, outcome });
        self.record(heard, Kind::Done { op });
        self.begin(worker, heard);
    }

    fn finish(mut self) -> (Vec<Event>, Vec<Section>, Vec<OpId>) {
        let last = self.events.iter().map(|event| event.at_ns.0).max();
        let last = last.unwrap_or_default();
        if self.shape.driver_lags {
            for _ in 0..10 {
                let (at, late_ns) = (self.draw(last + 2), self.draw(2 * SECOND));
                let instance = None;
                self.record(at, Kind::DriverLag { late_ns, instance });
            }
        }
        let why = Stop::OperationsDone;
        self.record(last + SECOND, Kind::Draining { why });
        self.record(last + 2 * SECOND, Kind::Ended {});
        self.events.sort_by_key(|event| event.at_ns);
        (self.events, self.sections, self.kept)
    }
}

fn told(shape: &Shape) -> History {
    reconciliation_under(match shape.renews {
        true => "token-lua-watchdog",
        false => "token-lua",
    })
}

fn judged(shape: &Shape, events: &[Event]) -> Judgement {
    let told = told(shape);
    judge(&told.plan, told.keys, events, &Ledger::default())
}

/// Somebody who is granted the lock, enters and leaves while `beside` is in its section.
fn stranger(beside: &Section, shape: &Shape, quarter: u64) -> Vec<Event> {
    let op = 1_000_000;
    let (instance, key) = (shape.workers, beside.key);
    let (ttl_ns, locked, fence) = (Some(TTL), true, None);
    let worker = instance;
    let outcome = Release::Gone;
    let kinds = [
        Kind::Arrived {
            op,
            instance,
            worker,
            key,
            planned_ns: None,
        },
        Kind::Asked { op },
        Kind::Granted {
            op,
            ttl_ns,
            locked,
            fence,
        },
        Kind::Entered { op },
        Kind::Left { op },
        Kind::ReleaseAsked { op },
        Kind::Released { op, outcome },
        Kind::Done { op },
    ];
    let step = (beside.left - beside.entered) / 40;
    let first = beside.entered + 1 + quarter * 8 * step;
    let at = (0..).map(|n| Time(first + n * step));
    at.zip(kinds)
        .map(|(at_ns, event)| Event { at_ns, event })
        .collect()
}

fn lock_findings(judged: &Judgement) -> Vec<String> {
    let all = judged.findings.iter().chain(&judged.by_driver);
    let lock = all.filter(|finding| finding.property.side() == Side::Lock);
    lock.map(|finding| format!("{:?}: {}", finding.cause, finding.summary))
        .collect()
}

/// Takes out the one alarm for which there is a reason: each key that is said to be kept is.
fn without_kept_keys(judged: &mut Judgement, kept: &[OpId]) {
    let by_right = |finding: &Finding| {
        let mut named = finding.witnesses.iter().filter(|w| w.role == Role::Holder);
        finding.property == Property::OrphanKey && named.any(|w| kept.contains(&w.op))
    };
    judged.findings.retain(|finding| !by_right(finding));
    judged.by_driver.retain(|finding| !by_right(finding));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_lock_that_is_right_raises_no_alarm(shape in shapes(true)) {
        let (events, _, kept) = history_with_kept(&shape);
        let mut judged = judged(&shape, &events);
        without_kept_keys(&mut judged, &kept);
        prop_assert_eq!(lock_findings(&judged), Vec::<String>::new());
    }

    #[test]
    fn a_lock_that_is_right_raises_no_alarm_where_its_history_is_cut_off(
        shape in shapes(true),
        at in any::<prop::sample::Index>(),
    ) {
        let (mut events, _, kept) = history_with_kept(&shape);
        events.truncate(at.index(events.len()));
        let mut judged = judged(&shape, &events);
        without_kept_keys(&mut judged, &kept);
        prop_assert_eq!(lock_findings(&judged), Vec::<String>::new());
        let why = judged.doubts.iter().any(|why| why.contains("cut off"));
        prop_assert!(why, "{:?}", judged.doubts);
    }

    #[test]
    fn a_stranger_beside_a_holder_is_always_found(
        shape in shapes(false),
        which in any::<prop::sample::Index>(),
        quarter in 0u64..4,
    ) {
        let (mut events, mut sections) = history_of(&shape);
        sections.retain(|section| section.left - section.entered > 1_000);
        prop_assume!(!sections.is_empty());
        let beside = which.get(&sections);
        events.extend(stranger(beside, &shape, quarter));
        events.sort_by_key(|event| event.at_ns);
        let judged = judged(&shape, &events);
        let overlaps = judged.findings.iter().filter(|f| f.property == Property::Overlap);
        let found = overlaps.into_iter().any(|finding| {
            let ops: Vec<_> = finding.witnesses.iter().map(|w| (w.op, w.role)).collect();
            ops == [(beside.op, Role::Holder), (1_000_000, Role::Intruder)]
        });
        prop_assert!(found, "{:?}", lock_findings(&judged));
    }

    #[test]
    fn a_stored_history_is_judged_as_the_running_one(shape in shapes(true), broken in any::<bool>()) {
        let (mut events, sections) = history_of(&shape);
        if broken && let Some(section) = sections.first() {
            events.extend(stranger(section, &shape, 0));
            events.sort_by_key(|event| event.at_ns);
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("history.jsonl");
        store(&told(&shape), &events, &path);
        let stored = judge_file(&path, &Ledger::default());
        prop_assert_eq!(stored, judged(&shape, &events));
    }
}
