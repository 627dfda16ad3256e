//! `orphan-key` once more, of who lives: an acquire was applied and its answer lost, its caller gave
//! up, and holds the lock all the same, until its lease ends or for ever. The history proves it in two
//! ways: somebody is refused although nobody else can hold the lock, or a lease runs out that nobody
//! else can have had. Whoever else may have left a key behind (a dead process, a release that was not
//! answered, a promoted server) makes both worthless, until somebody gets in.

use std::collections::HashMap;
use std::time::Duration;

use super::finding::{Cause, Finding, Findings, Property, Role, Witness};
use super::scene::{HEARSAY, Scene};
use super::{Check, Entry, Outcome};
use crate::clock::Time;
use crate::history::OpId;
use crate::history::event::{Event, GiveUp, Kind, Release, ServerDid};
use crate::lock;

pub(super) const ENTRY: Entry = Entry {
    name: "unheard",
    about: "who gave up after an acquire that was not answered has not kept the lock",
    make: |plan| {
        let lock = lock::find(&plan.lock.kind);
        let alone = lock.is_some_and(|lock| !lock.quorum);
        Box::new(Unheard {
            refusals_tell: lock.is_some_and(|lock| alone && !lock.queues),
            majority: match alone {
                true => 1,
                false => plan.topology.nodes() / 2 + 1,
            },
            unsure: Vec::new(),
            kept: HashMap::new(),
            others: HashMap::new(),
            suspected: Vec::new(),
            untold: None,
            now: Time::default(),
            missed: 0,
        })
    },
};

/// How many that may have kept a key are named.
const NAMED: usize = 4;

struct Unheard {
    /// Whether a refusal says that there is a key: not to who waits in a queue, and not where two
    /// may each have got a minority.
    refusals_tell: bool,
    /// On how many servers a lease must have run out.
    majority: u32,
    /// Operations with an acquire that was not answered.
    unsure: Vec<Asked>,
    /// For each key those of them that gave up since somebody got in.
    kept: HashMap<u32, Kept>,
    /// When anybody else may have left a key behind; the last time for each key.
    others: HashMap<u32, Time>,
    /// Refusals that wait for the answers of those who were asking at the time, at most one a key.
    suspected: Vec<(u32, Finding)>,
    /// Why the server tells nothing of its keys, if it does not.
    untold: Option<String>,
    /// The time of the last event.
    now: Time,
    /// How often its word that a lease ran out would have told whether somebody kept the lock.
    missed: u64,
}

/// An acquire that was not answered.
#[derive(Clone, Copy)]
struct Asked {
    op: OpId,
    instance: u32,
    key: u32,
    /// When it was asked first.
    asked: Time,
    /// By when it was applied last, if it was.
    by: Time,
    cause: Cause,
    /// Whether its caller was granted the lock once more, as an owner is that may hold it twice, and
    /// has given back one hold of several.
    holds_on: bool,
}

/// Acquires of one key whose callers have given up: if nobody else has it, one of them does.
struct Kept {
    by: Vec<(Asked, Witness)>,
    /// When the last one of them gave up.
    since: Time,
    told: bool,
}

impl Check for Unheard {
    fn event(&mut self, event: &Event, scene: &mut Scene, out: &mut Findings) {
        let at = event.at_ns;
        self.now = at;
        match &event.event {
            Kind::AcquireUnknown { op, .. } => self.unanswered(*op, at, scene),
            Kind::GaveUp { op, why } => self.gave_up(*op, *why, at, scene),
            Kind::Denied { op } if self.refusals_tell => self.refused(*op, at, scene),
            Kind::Granted { op, .. } => self.granted(*op, at, scene, out),
            Kind::Released { op, outcome } => self.released(*op, outcome, at, scene),
            Kind::Done { op } => self.done(*op, at, scene),
            Kind::Crashed { instance } => self.crashed(*instance, at, scene),
            // It may have come back with keys that were given back long ago.
            Kind::Restarted { .. } => {
                self.others.extend((0..scene.keys()).map(|key| (key, at)));
            }
            Kind::Server {
                key,
                did: ServerDid::Expired,
            } => self.ran_out(*key, vacant_since(*key, scene), at, scene, out),
            Kind::Untold { why } => self.untold = Some(why.clone()),
            _ => {}
        }
        if !self.suspected.is_empty() {
            self.settle(scene, out);
        }
    }

    fn end(&mut self, _: &Outcome<'_>, scene: &Scene, out: &mut Findings) {
        let keys: Vec<u32> = self.kept.keys().copied().collect();
        for key in keys {
            self.miss(key, vacant_since(key, scene), self.now, scene);
        }
        if let Some(why) = self.untold.as_ref().filter(|_| self.missed > 0) {
            let missed = self.missed;
            out.doubt(format!(
                "{missed} times nobody knows whether who was not answered and gave up has kept the \
                 lock: the server tells nothing of its keys: {why}"
            ));
        }
    }
}

impl Unheard {
    fn unanswered(&mut self, op: OpId, at: Time, scene: &Scene) {
        let Some(operation) = scene.op(op) else {
            return;
        };
        let left = scene.key(operation.key).and_then(|key| key.left_behind);
        let cause = left.filter(|(left, _)| *left == at).map(|(_, cause)| cause);
        // Who was refused meanwhile may have been refused by this one's key.
        let key = operation.key;
        self.suspected.retain(|(suspected, _)| *suspected != key);
        // Several of one operation: any of them may have been applied.
        if let Some(asked) = self.unsure.iter_mut().find(|asked| asked.op == op) {
            asked.by = at;
            return;
        }
        self.unsure.push(Asked {
            op,
            instance: operation.instance,
            key: operation.key,
            asked: operation.asked.unwrap_or(at),
            by: at,
            cause: cause.unwrap_or(Cause::ReplyLost),
            holds_on: false,
        });
    }

    fn gave_up(&mut self, op: OpId, why: GiveUp, at: Time, scene: &Scene) {
        let Some(asked) = self.ended(op) else {
            return;
        };
        match why {
            GiveUp::Policy | GiveUp::Cancelled => self.keeps(asked, at, scene),
            // It would have gone on asking, and might have found that the lock is its own.
            GiveUp::RunEnded => drop(self.others.insert(asked.key, at)),
        }
    }

    /// An owner that was let in once more has given back one hold, and does not know of the other.
    fn done(&mut self, op: OpId, at: Time, scene: &Scene) {
        if let Some(asked) = self.ended(op).filter(|asked| asked.holds_on) {
            self.keeps(asked, at, scene);
        }
    }

    fn ended(&mut self, op: OpId) -> Option<Asked> {
        let place = self.unsure.iter().position(|asked| asked.op == op)?;
        Some(self.unsure.swap_remove(place))
    }

    fn keeps(&mut self, asked: Asked, at: Time, scene: &Scene) {
        let Some(operation) = scene.op(asked.op) else {
            return;
        };
        let kept = self.kept.entry(asked.key).or_insert_with(|| Kept {
            by: Vec::new(),
            since: at,
            told: false,
        });
        kept.since = at;
        if kept.by.len() == NAMED {
            kept.by.remove(0);
        }
        let witness = operation.witness(Role::Holder, asked.asked);
        kept.by.push((asked, witness));
    }

    /// The dead are excused: what they have left, by giving up or not, stays until its lease ends.
    fn crashed(&mut self, instance: u32, at: Time, scene: &Scene) {
        let its = |asked: &Asked| asked.instance == instance;
        self.unsure.retain(|asked| !its(asked));
        for (key, kept) in &self.kept {
            if kept.by.iter().any(|(asked, _)| its(asked)) {
                self.others.insert(*key, at);
            }
        }
        for key in scene.keys_of(instance) {
            self.others.insert(key, at);
        }
    }

    /// The key was free: whoever had left one behind is not in its way any more.
    fn granted(&mut self, op: OpId, at: Time, scene: &Scene, out: &mut Findings) {
        let Some(operation) = scene.op(op) else {
            return;
        };
        let (key, asked) = (operation.key, operation.asked.unwrap_or(at));
        let vacant_since = scene.key(key).and_then(|key| key.was_vacant_since);
        self.ran_out(key, vacant_since, at, scene, out);
        self.miss(key, vacant_since, at, scene);
        // Who was to have it before does not have it now; but an owner may have it twice.
        (self.unsure).retain(|asked| asked.key != key || asked.op == op);
        self.kept.remove(&key);
        self.suspected.retain(|(suspected, _)| *suspected != key);
        self.others
            .retain(|other, left| *other != key || *left > asked);
    }

    fn released(&mut self, op: OpId, outcome: &Release, at: Time, scene: &Scene) {
        let Some(operation) = scene.op(op) else {
            return;
        };
        let key = operation.key;
        match outcome {
            Release::Removed | Release::Gone => {
                self.unsure.retain(|asked| asked.op != op);
                self.removed(key, operation.release_asked.unwrap_or(at));
            }
            Release::StillHeld(_) => {
                let own = self.unsure.iter_mut().filter(|asked| asked.op == op);
                own.for_each(|asked| asked.holds_on = true);
            }
            Release::Failed(_) | Release::Unknown(_) => {
                self.others.insert(key, at);
            }
            Release::NotMine | Release::Nothing => {}
        }
    }

    /// Whoever's the key was, at some moment since then it was not there: who had it before that does
    /// not have it now.
    fn removed(&mut self, key: u32, since: Time) {
        let gone = |asked: &Asked| asked.key == key && asked.by < since;
        self.unsure.retain(|asked| !gone(asked));
        if let Some(kept) = self.kept.get_mut(&key) {
            kept.by.retain(|(asked, _)| !gone(asked));
        }
        self.suspected.retain(|(suspected, _)| *suspected != key);
    }

    /// Who has kept a key, if nobody else can have it.
    fn keeper(&mut self, key: u32, scene: &Scene) -> Option<&mut Kept> {
        let kept = self.kept.get_mut(&key).filter(|kept| !kept.told)?;
        let others = self.others.contains_key(&key)
            || self.unsure.iter().any(|asked| asked.key == key)
            || scene.promoted_since(kept.asked()?);
        (!others).then_some(kept)
    }

    fn refused(&mut self, op: OpId, at: Time, scene: &Scene) {
        let Some(refused) = scene.op(op) else {
            return;
        };
        let key = refused.key;
        if self
            .suspected
            .iter()
            .any(|(suspected, _)| *suspected == key)
        {
            return;
        }
        let Some((kept, vacant_since)) = self.keeper(key, scene).zip(vacant_since(key, scene))
        else {
            return;
        };
        // The server refused it at some moment since it asked.
        let after = |moment: Time| refused.asked.is_some_and(|asked| asked >= moment);
        if !after(kept.since) || !after(vacant_since) {
            return;
        }
        let mut finding = kept.finding(at, &format!("{} is refused", refused.name()));
        finding.witnesses.push(refused.witness(Role::Refused, at));
        self.suspected.push((key, finding));
    }

    /// Tells each suspicion that nobody can disprove any more. (A grant has already dropped it.)
    fn settle(&mut self, scene: &Scene, out: &mut Findings) {
        let suspected = std::mem::take(&mut self.suspected);
        for (key, finding) in suspected {
            if scene.asking_since(key, finding.at_ns) {
                self.suspected.push((key, finding));
            } else if let Some(kept) = self.keeper(key, scene) {
                kept.told = true;
                out.add(finding);
            }
        }
    }

    /// A lease of nobody's has run out, by what the server said until now.
    fn ran_out(
        &mut self,
        key: u32,
        vacant_since: Option<Time>,
        by: Time,
        scene: &Scene,
        out: &mut Findings,
    ) {
        let majority = self.majority as usize;
        let ttl = scene.ttl();
        let Some((kept, vacant_since)) = self.keeper(key, scene).zip(vacant_since) else {
            return;
        };
        let first = kept.may_end(vacant_since, ttl);
        let expired = scene.expired_within(key, (first, by));
        // Who has been asking for so long may have been granted it, and not heard.
        let unheard = Time(by.0.saturating_sub(crate::clock::nanos(ttl / 2)));
        if expired < majority || scene.asking_since(key, unheard) {
            return;
        }
        kept.told = true;
        out.add(kept.finding(by, "its lease has run out"));
    }

    /// Nobody told whether a lease of nobody's had run out by then. A lock that was free sooner than
    /// one could has not been kept.
    fn miss(&mut self, key: u32, vacant_since: Option<Time>, by: Time, scene: &Scene) {
        let silent = self.untold.is_some();
        let kept = self.keeper(key, scene).filter(|_| silent);
        let missed = kept
            .zip(vacant_since)
            .is_some_and(|(kept, since)| by >= kept.may_end(since, scene.ttl()));
        self.missed += u64::from(missed);
    }
}

fn vacant_since(key: u32, scene: &Scene) -> Option<Time> {
    scene.key(key)?.vacant_since
}

impl Kept {
    /// When the first one of them asked; none if all of them surely do not have it.
    fn asked(&self) -> Option<Time> {
        self.by.iter().map(|(asked, _)| asked.asked).min()
    }

    /// When a lease that one of them has may run out first: not the lease of the one before, of which
    /// the server may tell a little late.
    fn may_end(&self, vacant_since: Time, ttl: Duration) -> Time {
        let asked = self.asked().unwrap_or(self.since);
        let first = asked.plus(ttl * 9 / 10);
        first.max(self.since.max(vacant_since).plus(HEARSAY))
    }

    fn finding(&self, at_ns: Time, then: &str) -> Finding {
        let names = self.by.iter().map(|(_, witness)| {
            let Witness {
                op,
                instance,
                worker,
                ..
            } = witness;
            format!("operation {op} (instance {instance}, worker {worker})")
        });
        let names: Vec<String> = names.collect();
        // One that only the driver's lag may have made is no proof against the lock.
        let by_lag = |(asked, _): &(Asked, Witness)| asked.cause == Cause::DriverLag;
        let cause = match self.by.iter().any(by_lag) {
            true => Cause::DriverLag,
            false => Cause::ReplyLost,
        };
        Finding {
            property: Property::OrphanKey,
            cause,
            at_ns,
            summary: format!(
                "{} was not answered and gave up, and had the lock all the same: {:.0?} later {then}",
                names.join(", or "),
                at_ns.since(self.since)
            ),
            witnesses: self.by.iter().map(|(_, witness)| witness.clone()).collect(),
        }
    }
}
