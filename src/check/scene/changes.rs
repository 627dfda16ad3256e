//! How events change the scene: what is taken in before the checks see them, and what is forgotten
//! after.

use std::collections::VecDeque;
use std::time::Duration;

use super::super::finding::Cause;
use super::super::grant::Grant;
use super::super::key::Upset;
use super::super::operation::{Operation, Questions};
use super::Scene;
use crate::clock::Time;
use crate::history::OpId;
use crate::history::event::{Event, Kind, Release, ServerDid};

/// How many past things of one sort (pauses, lags, releases of a key) are remembered.
const REMEMBERED: usize = 64;

impl Scene {
    /// Notes why an operation's section was not its own. The first reason stays, but one that is
    /// the driver's own doing gives way to a real one.
    pub fn note_overlap(&mut self, op: OpId, cause: Cause) {
        self.with(op, |operation| {
            if matches!(operation.overlap, None | Some(Cause::DriverLag)) {
                operation.overlap = Some(cause);
            }
        });
    }

    /// Notes why an operation's own lock was gone; the first reason stays.
    pub fn note_loss(&mut self, op: OpId, cause: Cause) {
        self.with(op, |operation| {
            operation.lost.get_or_insert(cause);
        });
        if cause == Cause::DriverLag
            && let Some(key) = self.ops.get(&op).map(|op| op.key)
            && let Some(key) = self.keys.get_mut(key as usize)
        {
            key.upset = Some(Upset { freed: None });
        }
    }

    /// The questions of an operation that waits for the lock, and does not hold it already.
    pub fn questions(&mut self, op: OpId) -> Option<&mut Questions> {
        let operation = self.ops.get_mut(&op)?;
        operation
            .grant
            .is_none()
            .then_some(&mut operation.questions)
    }

    /// Takes in what tasks of their own record, the driver's lag and the server's own word: it may
    /// stand in the history a little after what it explains, and is taken in before that.
    pub fn foresee(&mut self, event: &Event) {
        let at = event.at_ns;
        match &event.event {
            Kind::DriverLag { late_ns, instance } => {
                let from = Time(at.0.saturating_sub(*late_ns));
                remember(self.lags.entry(*instance).or_default(), (from, at));
            }
            Kind::Promoted { held, .. } => remember(&mut self.promotions, (at, held.clone())),
            Kind::TwoPrimaries { servers, .. } => self.split(servers, at),
            Kind::OnePrimary { .. } => {
                if let Some((_, to, _)) = self.splits.back_mut() {
                    to.get_or_insert(at);
                }
            }
            Kind::Restarted { lost, .. } => {
                remember(&mut self.losses, (at, lost.clone(), Cause::ServerLostData));
            }
            Kind::ClockJumped { lost, .. } => {
                remember(&mut self.losses, (at, lost.clone(), Cause::ServerClock));
            }
            Kind::Server { key, did } => {
                let key = self.keys.get_mut(*key as usize);
                match (key, did) {
                    (Some(key), ServerDid::Evicted) => remember(&mut key.evicted, at),
                    (Some(key), ServerDid::Expired) => remember(&mut key.expired, at),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// Takes in an event, before the checks see it.
    pub fn apply(&mut self, event: &Event) {
        let at = event.at_ns;
        match &event.event {
            Kind::Arrived {
                op,
                instance,
                worker,
                key,
                ..
            } => self.arrived(*op, *instance, *worker, *key, at),
            Kind::Asked { op } => self.with(*op, |op| {
                op.asked = Some(at);
                op.asking = true;
                op.undone_inside |= op.holds_inside();
            }),
            Kind::Denied { op } => self.with(*op, |op| {
                op.asking = false;
                op.denied = Some(true);
            }),
            Kind::AcquireFailed { op, .. } => self.with(*op, |op| {
                op.asking = false;
                op.denied = Some(false);
            }),
            Kind::AcquireUnknown { op, .. } => self.maybe_granted(*op, at),
            Kind::Granted {
                op, ttl_ns, locked, ..
            } => {
                self.granted(*op, ttl_ns.map(Duration::from_nanos), *locked, at);
            }
            Kind::Entered { op } => self.entered(*op, at),
            Kind::Read { op, value, .. } => self.with(*op, |op| op.seen = Some(*value)),
            Kind::Working { op, work_ns } => {
                self.with(*op, |op| {
                    op.work = Some((at, Duration::from_nanos(*work_ns)))
                });
            }
            Kind::Left { op } => self.with(*op, |op| op.in_section = false),
            Kind::RenewalAsked { op } => self.with_grant(*op, |grant| grant.renewal_asked(at)),
            Kind::Renewed { op } => self.with(*op, |op| {
                if let Some(grant) = &mut op.grant {
                    grant.renewed(op.answered_by.as_deref(), at);
                }
            }),
            Kind::AnsweredBy { op, server } => {
                self.with(*op, |op| op.answered_by = Some(server.clone()));
            }
            Kind::RenewalFailed { op, .. } => {
                self.with_grant(*op, |grant| grant.renewal_failed(at))
            }
            Kind::LeaseLost { op } => {
                self.with_grant(*op, |grant| grant.lease_lost(at));
                self.with(*op, |op| op.told_lost = true);
            }
            Kind::ReleaseAsked { op } => self.with(*op, |op| {
                op.release_asked = Some(at);
                op.undone_inside |= op.holds_inside();
                op.answered_by = None;
            }),
            Kind::Frozen { instance } => {
                self.frozen.entry(*instance).or_insert(at);
            }
            Kind::Thawed { instance } => {
                if let Some(from) = self.frozen.remove(instance) {
                    remember(self.pauses.entry(*instance).or_default(), (from, at));
                }
            }
            _ => {}
        }
    }

    /// Forgets what ended with an event, after the checks have seen it.
    pub fn forget(&mut self, event: &Event) {
        let at = event.at_ns;
        match &event.event {
            Kind::Released { op, outcome } => {
                if matches!(outcome, Release::Removed | Release::Unknown(_)) {
                    self.remember_removal(*op, at);
                }
                self.released(*op, at, outcome);
            }
            Kind::Done { op } | Kind::GaveUp { op, .. } => self.end(*op, at, None),
            Kind::Crashed { instance } => {
                let dead = self.ops.values().filter(|op| op.instance == *instance);
                let mut dead: Vec<_> = dead.map(|op| op.op).collect();
                dead.sort_unstable();
                for op in dead {
                    // What it had sent may still be applied.
                    self.remember_removal(op, at);
                    self.end(op, at, Some(Cause::HolderCrashed));
                }
            }
            _ => {}
        }
    }

    fn remember_removal(&mut self, op: OpId, at: Time) {
        let Some(operation) = self.ops.get(&op) else {
            return;
        };
        let Some(asked) = operation.release_asked else {
            return;
        };
        if !self.may_have_lost(operation, at) {
            return;
        }
        let removal = self.removal(operation, asked, at);
        if let Some(key) = self.keys.get_mut(operation.key as usize) {
            remember(&mut key.removals, removal);
        }
    }

    fn arrived(&mut self, op: OpId, instance: u32, worker: u32, key: u32, at: Time) {
        if let Some(key) = self.keys.get_mut(key as usize)
            && key.holders.is_empty()
        {
            key.vacant_since.get_or_insert(at);
        }
        let operation = Operation {
            op,
            instance,
            worker,
            key,
            asked: None,
            asking: false,
            questions: Questions::default(),
            grant: None,
            entered: None,
            in_section: false,
            work: None,
            seen: None,
            release_asked: None,
            answered_by: None,
            released: None,
            denied: None,
            undone_inside: false,
            told_lost: false,
            overlap: None,
            lost: None,
        };
        self.ops.insert(op, operation);
    }

    fn granted(&mut self, op: OpId, ttl: Option<Duration>, locked: bool, at: Time) {
        let Some(operation) = self.ops.get_mut(&op) else {
            return;
        };
        operation.asking = false;
        let asked = operation.asked.unwrap_or(at);
        let by = operation.answered_by.clone();
        operation.grant = Some(Grant::new(asked, at, ttl, locked).by(by));
        operation.undone_inside = false;
        if let Some(key) = self.keys.get_mut(operation.key as usize) {
            // Who is granted it once more has it once.
            key.holders.retain(|holder| *holder != op);
            key.holders.push(op);
            // Who asked before the key was free again may hold what an upset one will remove.
            if let Some(upset) = key.upset.as_mut().filter(|upset| upset.concerns(asked)) {
                upset.freed = None;
            }
            key.was_vacant_since = key.vacant_since.take();
            // The key was free after that time, so nobody had left it behind.
            key.left_behind.take_if(|(left, _)| *left <= asked);
        }
        self.supersede(op, at);
    }

    /// One key, one holder: of two grants the earlier one's lock was gone when the later one was
    /// granted.
    fn supersede(&mut self, new: OpId, at: Time) {
        let Some(new) = self.ops.get(&new) else {
            return;
        };
        let others = self.holders(new.key).filter(|old| old.op != new.op);
        let by = |op: &Operation| op.grant.as_ref().and_then(|grant| grant.by.clone());
        let gone = others.filter_map(|old| {
            if self.surely_before(old, new) {
                return Some((old.op, by(new)));
            }
            self.surely_before(new, old).then(|| (new.op, by(old)))
        });
        for (op, by) in gone.collect::<Vec<_>>() {
            self.with_grant(op, |grant| grant.superseded(by.as_deref(), at));
        }
    }

    fn split(&mut self, servers: &[String], at: Time) {
        let lasts =
            |(_, to, split): &&(_, Option<_>, Vec<String>)| to.is_none() && split == servers;
        if self.splits.back().filter(lasts).is_none() {
            remember(&mut self.splits, (at, None, servers.to_vec()));
        }
    }

    fn entered(&mut self, op: OpId, at: Time) {
        let Some(operation) = self.ops.get_mut(&op) else {
            return;
        };
        operation.entered = Some(at);
        operation.in_section = true;
        if operation.grant.is_none()
            && let Some(key) = self.keys.get_mut(operation.key as usize)
        {
            key.holders.push(op);
        }
    }

    /// The server may have granted it, and then the key stays for a lease from now. Where the driver
    /// stood still for most of the wait, the answer was not lost but not heard.
    fn maybe_granted(&mut self, op: OpId, at: Time) {
        let Some(operation) = self.ops.get(&op) else {
            return;
        };
        let asked = operation.asked.unwrap_or(at);
        let late = self.lag_within(operation.instance, (asked, at));
        let unheard = late * 2 > at.since(asked);
        let cause = match unheard || self.unsettled(at) {
            true => Cause::DriverLag,
            false => Cause::ReplyLost,
        };
        let Some(operation) = self.ops.get_mut(&op) else {
            return;
        };
        operation.asking = false;
        operation.denied = Some(false);
        if let Some(key) = self.keys.get_mut(operation.key as usize) {
            key.leave_behind(at, cause);
        }
    }

    /// It holds the lock no more. What it still does (a mistake) is watched until it is done.
    fn released(&mut self, op: OpId, at: Time, outcome: &Release) {
        let Some(operation) = self.ops.get_mut(&op) else {
            return;
        };
        if matches!(outcome, Release::StillHeld(_)) {
            // This release is over, it removed nothing, and its holder holds on.
            let asked = operation.release_asked.take();
            operation.undone_inside = false;
            if let Some(grant) = &mut operation.grant {
                grant.held_on(asked.unwrap_or(at), at);
            }
            return;
        }
        operation.released = Some(at);
        if let Some(key) = self.keys.get_mut(operation.key as usize) {
            key.leaves(op, at);
        }
    }

    fn end(&mut self, op: OpId, at: Time, cause: Option<Cause>) {
        let Some(operation) = self.ops.remove(&op) else {
            return;
        };
        let Some(key) = self.keys.get_mut(operation.key as usize) else {
            return;
        };
        let held = key.holders.contains(&op);
        key.leaves(op, at);
        // A crashed operation that was still asking may have been granted.
        if let Some(cause) = cause
            && (held || operation.asking)
        {
            key.leave_behind(at, cause);
        }
    }

    fn with(&mut self, op: OpId, change: impl FnOnce(&mut Operation)) {
        if let Some(operation) = self.ops.get_mut(&op) {
            change(operation);
        }
    }

    fn with_grant(&mut self, op: OpId, change: impl FnOnce(&mut Grant)) {
        if let Some(grant) = self.ops.get_mut(&op).and_then(|op| op.grant.as_mut()) {
            change(grant);
        }
    }
}

fn remember<T>(things: &mut VecDeque<T>, thing: T) {
    if things.len() == REMEMBERED {
        things.pop_front();
    }
    things.push_back(thing);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock;
    use crate::plan::{Overrides, Plan};
    use crate::scenario::{Scenario, Vocabulary};

    fn scene() -> Option<Scene> {
        let text = r#"
            name = "long"
            load = { instances = 1, workers = 1, duration = "90s" }
            workload = { kind = "flash-sale", stock = 1 }
            section = { constant = "1s" }
            lock = { kind = "set-nx-ex-del", ttl = "5s" }
        "#;
        let known = Vocabulary {
            locks: lock::names(),
            properties: vec![],
        };
        let scenario = Scenario::parse("long", text, &known).ok()?;
        let plan = Plan::resolve(&scenario, &Overrides::default(), "set-nx-ex-del", 1);
        Some(Scene::new(&plan, 1))
    }

    /// An operation that outlives its lease, in an instance that freezes, under a driver that lags.
    fn whole_life(op: OpId) -> Vec<Kind> {
        let (instance, worker, key) = (0, 0, 0);
        let (ttl_ns, locked, fence) = (Some(1), true, None);
        let outcome = Release::Removed;
        vec![
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
            Kind::Frozen { instance },
            Kind::Thawed { instance },
            Kind::DriverLag {
                late_ns: 1,
                instance: None,
            },
            Kind::Server {
                key,
                did: ServerDid::Evicted,
            },
            Kind::Left { op },
            Kind::ReleaseAsked { op },
            Kind::Released { op, outcome },
            Kind::Done { op },
        ]
    }

    #[test]
    fn what_has_ended_is_forgotten_however_long_the_run() {
        let mut scene = scene().expect("the scenario is valid");
        let kinds = (0..1_000).flat_map(whole_life);
        for (at, event) in (0..).zip(kinds) {
            let at_ns = Time(at * 1_000_000);
            let event = Event { at_ns, event };
            scene.foresee(&event);
            scene.apply(&event);
            scene.forget(&event);
        }
        let key = &scene.keys[0];
        assert_eq!((scene.ops.len(), key.holders.len()), (0, 0));
        assert_eq!(key.removals.len(), REMEMBERED);
        assert_eq!(key.evicted.len(), REMEMBERED);
        assert_eq!(scene.lags[&None].len(), REMEMBERED);
        assert_eq!(scene.pauses[&0].len(), REMEMBERED);
    }
}
