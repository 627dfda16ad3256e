//! What is going on at a moment of the history: who holds what, who is in which section, who is
//! frozen. Kept for what is open, and forgotten with it, so that its size does not grow with the
//! length of a run. All checks read it; it judges nothing.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::clock::Time;
use crate::history::OpId;
use crate::history::event::{Event, Kind, Release, ServerDid};
use crate::lock;
use crate::plan::Plan;

use super::cause;
use super::finding::Cause;
use super::grant::Grant;
use super::key::{Key, Removal, Upset};
use super::operation::Operation;

/// How many past things of one sort (pauses, lags, releases of a key) are remembered.
const REMEMBERED: usize = 64;

/// How much later than what they explain the driver's lag and the server's own word may stand in
/// the history: they are recorded by tasks of their own. An event waits so long to be judged.
pub const HEARSAY: Duration = Duration::from_millis(50);

/// A stretch of time.
pub type Window = (Time, Time);

/// The scene.
#[derive(Debug)]
pub struct Scene {
    ops: HashMap<OpId, Operation>,
    keys: Vec<Key>,
    frozen: HashMap<u32, Time>,
    pauses: HashMap<u32, VecDeque<Window>>,
    lags: VecDeque<Window>,
    /// When a replica was promoted, and which keys it held.
    promotions: VecDeque<(Time, Vec<u32>)>,
    renews_every: Option<Duration>,
    ttl: Duration,
    margin: Duration,
}

impl Scene {
    /// An empty scene.
    pub fn new(plan: &Plan, keys: usize) -> Scene {
        let lock = lock::find(&plan.lock.kind).map(|entry| (entry.make)(plan.ttl()));
        let renews_every = lock.and_then(|lock| Some(lock.watchdog()?.every()));
        Scene {
            ops: HashMap::new(),
            keys: (0..keys).map(|_| Key::default()).collect(),
            frozen: HashMap::new(),
            pauses: HashMap::new(),
            lags: VecDeque::new(),
            promotions: VecDeque::new(),
            renews_every,
            ttl: plan.ttl(),
            margin: plan.ttl() - renews_every.unwrap_or_default(),
        }
    }

    /// An operation that has not ended.
    pub fn op(&self, op: OpId) -> Option<&Operation> {
        self.ops.get(&op)
    }

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

    /// What is going on at a key.
    pub fn key(&self, key: u32) -> Option<&Key> {
        self.keys.get(key as usize)
    }

    /// The holders of a key, the oldest grant first.
    pub fn holders(&self, key: u32) -> impl DoubleEndedIterator<Item = &Operation> {
        let holders = self.key(key).map_or(&[][..], |key| &key.holders);
        holders.iter().filter_map(|op| self.ops.get(op))
    }

    /// Whether some operation has been asking for this key since before `since`: it may have been
    /// granted without our knowing.
    pub fn asking_since(&self, key: u32, since: Time) -> bool {
        let mut asking = self.ops.values().filter(|op| op.key == key && op.asking);
        asking.any(|op| op.asked.is_some_and(|asked| asked <= since))
    }

    /// Whether operations on this key have not come to their end.
    pub fn is_open(&self, key: u32) -> bool {
        self.ops.values().any(|op| op.key == key)
    }

    /// How often the lock renews its leases, if it does.
    pub fn renews_every(&self) -> Option<Duration> {
        self.renews_every
    }

    /// How long an instance stood still in a window, in all.
    pub fn frozen_within(&self, instance: u32, window: Window) -> Duration {
        let now = self.frozen.get(&instance).map(|from| (*from, window.1));
        let past = self.pauses.get(&instance).into_iter().flatten().copied();
        past.chain(now).map(|pause| common(pause, window)).sum()
    }

    /// How long the driver was late in a window, in all.
    pub fn lag_within(&self, window: Window) -> Duration {
        self.lags.iter().map(|lag| common(*lag, window)).sum()
    }

    /// Whether the driver has just stood still for longer than a lease's margin. For a lease after
    /// it nothing can be told of a lock: questions were sent late, answers heard late, or not.
    pub fn unsettled(&self, at: Time) -> bool {
        let mut lags = self.lags.iter();
        lags.any(|(from, to)| {
            to.since(*from) > self.margin && *from <= at && at.since(*to) <= self.ttl
        })
    }

    /// Whether the server evicted a key in a window, by what was heard until shortly after it.
    pub fn evicted_within(&self, key: u32, window: Window) -> bool {
        let evicted = self.key(key).map(|key| &key.evicted);
        let mut evicted = evicted.into_iter().flatten();
        evicted.any(|at| (window.0..=window.1.plus(HEARSAY)).contains(at))
    }

    /// When, in a window, a replica was promoted that did not hold a key, by what was heard until
    /// shortly after it.
    pub fn lost_in_promotion(&self, key: u32, window: Window) -> Option<Time> {
        let heard = window.0..=window.1.plus(HEARSAY);
        let mut lost = self
            .promotions
            .iter()
            .filter(|(_, held)| !held.contains(&key));
        lost.find(|(at, _)| heard.contains(at)).map(|(at, _)| *at)
    }

    /// Releases by others that may have removed an operation's lock by some time. That includes
    /// those that were asked for and whose answers are still on their way.
    pub fn removals(&self, of: &Operation, by: Time) -> impl Iterator<Item = Removal> {
        let pending = self.holders(of.key).chain(self.unacquired(of.key));
        let pending = pending.filter_map(move |op| {
            let asked = op.release_asked?;
            self.may_have_lost(op, by)
                .then(|| self.removal(op, asked, by))
        });
        let known = self.key(of.key).map(|key| &key.removals);
        let all = known.into_iter().flatten().copied().chain(pending);
        all.filter(move |removal| of.may_be_hit_by(removal, by))
    }

    /// Operations that release what they have not acquired, in the order of their numbers, until
    /// they are answered.
    fn unacquired(&self, key: u32) -> impl Iterator<Item = &Operation> {
        let without = |op: &&Operation| op.entered.is_none() && op.grant.is_none();
        let ops = self.ops.values().filter(move |op| op.key == key);
        let mut ops: Vec<_> = ops.filter(without).collect();
        ops.retain(|op| op.release_asked.is_some() && op.released.is_none());
        ops.sort_unstable_by_key(|op| op.op);
        ops.into_iter()
    }

    /// An operation's release. Whether the driver's lag made it come too late is decided here, for
    /// it may be the reason of what happens before it is answered; and by its answer, for the
    /// driver may stand still between the question and its sending.
    fn removal(&self, op: &Operation, asked: Time, answered: Time) -> Removal {
        let late = op
            .grant
            .as_ref()
            .filter(|grant| grant.may_have_ended(answered));
        let lost = op.lost.or_else(|| Some(cause::of_expiry(self, op, late?)));
        Removal {
            op: op.op,
            asked,
            answered,
            by_lag: lost == Some(Cause::DriverLag),
        }
    }

    /// Whether an operation may have lost its lock by some time, as far as answered calls tell.
    fn may_have_lost(&self, op: &Operation, by: Time) -> bool {
        // Who has acquired nothing can only remove another's.
        let Some(grant) = &op.grant else {
            return true;
        };
        let removals = self.key(op.key).map(|key| &key.removals);
        // What was found gone only after it asked to release may be gone by its own release.
        let gone = grant.gone;
        gone.is_some_and(|gone| op.release_asked.is_none_or(|asked| gone <= asked))
            || grant.may_have_ended(by)
            || self.evicted_within(op.key, (grant.asked, by))
            || (removals.into_iter().flatten()).any(|removal| op.may_be_hit_by(removal, by))
    }

    /// Whether one operation was surely granted the lock before another one, whatever the order
    /// in which their answers came in.
    pub fn surely_before(&self, one: &Operation, other: &Operation) -> bool {
        let (Some(first), Some(then)) = (&one.grant, &other.grant) else {
            return false;
        };
        if !first.locked || !then.locked {
            return false;
        }
        // While both were asking, the one that can have lost its lock to the other came first.
        then.asked >= first.answered
            || self.may_have_lost(one, then.answered) && !self.may_have_lost(other, first.answered)
    }

    /// Takes in what tasks of their own record, the driver's lag and the server's own word: it may
    /// stand in the history a little after what it explains, and is taken in before that.
    pub fn foresee(&mut self, event: &Event) {
        let at = event.at_ns;
        match &event.event {
            Kind::DriverLag { late_ns } => {
                let from = Time(at.0.saturating_sub(*late_ns));
                remember(&mut self.lags, (from, at));
            }
            Kind::Promoted { held, .. } => remember(&mut self.promotions, (at, held.clone())),
            Kind::Server {
                key,
                did: ServerDid::Evicted,
            } => {
                if let Some(key) = self.keys.get_mut(*key as usize) {
                    remember(&mut key.evicted, at);
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
            } => self.arrived(*op, *instance, *worker, *key, at),
            Kind::Asked { op } => self.with(*op, |op| {
                op.asked = Some(at);
                op.asking = true;
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
            Kind::Renewed { op } => self.with_grant(*op, |grant| grant.renewed(at)),
            Kind::RenewalFailed { op, .. } => self.with_grant(*op, Grant::renewal_failed),
            Kind::LeaseLost { op } => {
                self.with_grant(*op, |grant| grant.lease_lost(at));
                self.with(*op, |op| op.told_lost = true);
            }
            Kind::ReleaseAsked { op } => self.with(*op, |op| op.release_asked = Some(at)),
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
            grant: None,
            entered: None,
            in_section: false,
            work: None,
            seen: None,
            release_asked: None,
            released: None,
            denied: None,
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
        operation.grant = Some(Grant::new(asked, at, ttl, locked));
        if let Some(key) = self.keys.get_mut(operation.key as usize) {
            key.holders.push(op);
            // Who asked before the key was free again may hold what an upset one will remove.
            if let Some(upset) = key.upset.as_mut().filter(|upset| upset.concerns(asked)) {
                upset.freed = None;
            }
            key.vacant_since = None;
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
        let gone = others.filter_map(|old| {
            if self.surely_before(old, new) {
                return Some(old.op);
            }
            self.surely_before(new, old).then_some(new.op)
        });
        for op in gone.collect::<Vec<_>>() {
            self.with_grant(op, |grant| {
                grant.gone.get_or_insert(at);
            });
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
        let Some(asked) = self.ops.get(&op).map(|op| op.asked.unwrap_or(at)) else {
            return;
        };
        let unheard = self.lag_within((asked, at)) * 2 > at.since(asked);
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

/// How much two stretches of time have in common.
fn common(one: Window, other: Window) -> Duration {
    one.1.min(other.1).since(one.0.max(other.0))
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
    use crate::plan::Overrides;
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
            Kind::DriverLag { late_ns: 1 },
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
        assert_eq!(scene.lags.len(), REMEMBERED);
        assert_eq!(scene.pauses[&0].len(), REMEMBERED);
    }
}
