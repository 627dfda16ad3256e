//! `orphan-key` once more, of who lives: an acquire was applied and its answer lost, its caller gave
//! up, and holds the lock all the same, until its lease ends or for ever. The history proves it in two
//! ways: somebody is refused although nobody else can hold the lock, or a lease runs out that nobody
//! else can have had. Whoever else may have left a key behind (a dead process, a release that was not
//! answered, a promoted server) makes both worthless, until somebody gets in.

use super::finding::{Cause, Finding, Findings, Property, Role, Witness};
use super::key::Key;
use super::scene::{HEARSAY, Scene};
use super::{Check, Entry};
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
            kept: Vec::new(),
            others: Vec::new(),
            suspected: Vec::new(),
        })
    },
};

struct Unheard {
    /// Whether a refusal says that there is a key: not to who waits in a queue, and not where two
    /// may each have got a minority.
    refusals_tell: bool,
    /// On how many servers a lease must have run out.
    majority: u32,
    /// Operations with an acquire that was not answered.
    unsure: Vec<Asked>,
    /// The last one of them to give up, at most one a key.
    kept: Vec<Kept>,
    /// When, and at which key, anybody else may have left one behind; the last time for each key.
    others: Vec<(u32, Time)>,
    /// Refusals that wait for the answers of those who were asking at the time, at most one a key.
    suspected: Vec<(u32, Finding)>,
}

/// An acquire that was not answered.
#[derive(Clone, Copy)]
struct Asked {
    op: OpId,
    instance: u32,
    key: u32,
    asked: Time,
    cause: Cause,
}

/// Whose caller has given up.
struct Kept {
    asked: Asked,
    name: String,
    witness: Witness,
    since: Time,
    told: bool,
}

impl Check for Unheard {
    fn event(&mut self, event: &Event, scene: &mut Scene, out: &mut Findings) {
        let at = event.at_ns;
        match &event.event {
            Kind::AcquireUnknown { op, .. } => self.unanswered(*op, at, scene),
            Kind::GaveUp { op, why } => self.gave_up(*op, *why, at, scene),
            Kind::Denied { op } if self.refusals_tell => self.refused(*op, at, scene),
            Kind::Granted { op, .. } => self.granted(*op, at, scene, out),
            Kind::Released { op, outcome } => self.released(*op, outcome, at, scene),
            Kind::Done { op } => self.unsure.retain(|asked| asked.op != *op),
            Kind::Crashed { instance } => {
                self.unsure.retain(|asked| asked.instance != *instance);
                for key in scene.keys_of(*instance) {
                    self.other(key, at);
                }
            }
            Kind::Promoted { .. } => {
                for key in 0..scene.keys() {
                    self.other(key, at);
                }
            }
            Kind::Server {
                key,
                did: ServerDid::Expired,
            } => self.ran_out(*key, at, scene, out),
            _ => {}
        }
        if !self.suspected.is_empty() {
            self.settle(scene, out);
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
        // Several of one operation: any of them may have been applied, so the first one counts.
        if self.unsure.iter().all(|asked| asked.op != op) {
            self.unsure.push(Asked {
                op,
                instance: operation.instance,
                key: operation.key,
                asked: operation.asked.unwrap_or(at),
                cause: cause.unwrap_or(Cause::ReplyLost),
            });
        }
    }

    fn gave_up(&mut self, op: OpId, why: GiveUp, at: Time, scene: &Scene) {
        let place = self.unsure.iter().position(|asked| asked.op == op);
        let Some(asked) = place.map(|place| self.unsure.swap_remove(place)) else {
            return;
        };
        let Some(operation) = scene.op(op).filter(|_| why == GiveUp::Policy) else {
            // It would have gone on asking, and might have found that the lock is its own.
            return self.other(asked.key, at);
        };
        self.kept.retain(|kept| kept.asked.key != asked.key);
        self.kept.push(Kept {
            asked,
            name: operation.name(),
            witness: operation.witness(Role::Holder, asked.asked),
            since: at,
            told: false,
        });
    }

    /// The key was free: whoever had left one behind is not in its way any more.
    fn granted(&mut self, op: OpId, at: Time, scene: &Scene, out: &mut Findings) {
        let Some(operation) = scene.op(op) else {
            return;
        };
        let (key, asked) = (operation.key, operation.asked.unwrap_or(at));
        self.ran_out(key, at, scene, out);
        self.unsure.retain(|asked| asked.op != op);
        self.forget(key);
        self.others.retain(|(k, left)| *k != key || *left > asked);
    }

    fn released(&mut self, op: OpId, outcome: &Release, at: Time, scene: &Scene) {
        let Some(key) = scene.op(op).map(|operation| operation.key) else {
            return;
        };
        match outcome {
            // Whoever's it was, it is not there any more.
            Release::Removed => {
                self.unsure.retain(|asked| asked.op != op);
                self.forget(key);
            }
            Release::Failed(_) | Release::Unknown(_) => self.other(key, at),
            _ => {}
        }
    }

    fn forget(&mut self, key: u32) {
        self.kept.retain(|kept| kept.asked.key != key);
        self.suspected.retain(|(suspected, _)| *suspected != key);
    }

    fn other(&mut self, key: u32, at: Time) {
        self.others.retain(|(known, _)| *known != key);
        self.others.push((key, at));
    }

    /// Who has kept a key, if nobody else can have it.
    fn keeper<'a>(&'a mut self, key: u32, scene: &Scene) -> Option<(&'a mut Kept, Time)> {
        let others = self.others.iter().any(|(other, _)| *other == key)
            || self.unsure.iter().any(|asked| asked.key == key);
        let vacant_since = scene.key(key).and_then(|key: &Key| key.vacant_since)?;
        let mut kept = self.kept.iter_mut().filter(|kept| kept.asked.key == key);
        let kept = kept.next().filter(|kept| !others && !kept.told)?;
        Some((kept, vacant_since))
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
        let Some((kept, vacant_since)) = self.keeper(key, scene) else {
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
            } else if let Some((kept, _)) = self.keeper(key, scene) {
                kept.told = true;
                out.add(finding);
            }
        }
    }

    /// A lease of nobody's has run out, by what the server said until now.
    fn ran_out(&mut self, key: u32, by: Time, scene: &Scene, out: &mut Findings) {
        let majority = self.majority as usize;
        let ttl = scene.ttl();
        let Some((kept, vacant_since)) = self.keeper(key, scene) else {
            return;
        };
        // Not the lease of the one before, of which the server may tell a little late.
        let first = kept.asked.asked.plus(ttl * 9 / 10);
        let first = first.max(kept.since.max(vacant_since).plus(HEARSAY));
        let expired = scene.expired_within(key, (first, by));
        // Who has been asking for so long may have been granted it, and not heard.
        let unheard = Time(by.0.saturating_sub(crate::clock::nanos(ttl / 2)));
        if expired < majority || scene.asking_since(key, unheard) {
            return;
        }
        kept.told = true;
        out.add(kept.finding(by, "its lease has run out"));
    }
}

impl Kept {
    fn finding(&self, at_ns: Time, then: &str) -> Finding {
        Finding {
            property: Property::OrphanKey,
            cause: self.asked.cause,
            at_ns,
            summary: format!(
                "{} was not answered and gave up, and had the lock all the same: {:.0?} later {then}",
                self.name,
                at_ns.since(self.since)
            ),
            witnesses: vec![self.witness.clone()],
        }
    }
}
