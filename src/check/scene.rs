//! What is going on at a moment of the history: who holds what, who is in which section, who is
//! frozen. Kept for what is open, and forgotten with it, so that its size does not grow with the
//! length of a run. All checks read it; it judges nothing.

mod changes;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use crate::clock::Time;
use crate::history::OpId;
use crate::lock;
use crate::plan::Plan;

use super::cause;
use super::finding::Cause;
use super::key::{Key, Removal};
use super::operation::Operation;

/// How much later than what it explains the server's own word may stand in the history: it is
/// recorded by a task of its own.
pub const HEARSAY: Duration = Duration::from_millis(50);

/// How long an event waits to be judged. The driver's lag is recorded when it is over, and where
/// only one thread stood still the others' events come before that.
pub const PATIENCE: Duration = Duration::from_millis(300);

/// A stretch of time.
pub type Window = (Time, Time);

/// The scene.
#[derive(Debug)]
pub struct Scene {
    ops: HashMap<OpId, Operation>,
    keys: Vec<Key>,
    frozen: HashMap<u32, Time>,
    pauses: HashMap<u32, VecDeque<Window>>,
    /// The driver's lags, of all instances and of one.
    lags: HashMap<Option<u32>, VecDeque<Window>>,
    /// When a replica was promoted, and which keys it held.
    promotions: VecDeque<(Time, Vec<u32>)>,
    /// Since when two servers called themselves the primary, until when, and which.
    splits: VecDeque<(Time, Option<Time>, Vec<String>)>,
    /// When a server lost keys that it held, which ones, and why.
    losses: VecDeque<(Time, Vec<u32>, Cause)>,
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
            lags: HashMap::new(),
            promotions: VecDeque::new(),
            splits: VecDeque::new(),
            losses: VecDeque::new(),
            renews_every,
            ttl: plan.ttl(),
            margin: plan.ttl() - renews_every.unwrap_or_default(),
        }
    }

    /// An operation that has not ended.
    pub fn op(&self, op: OpId) -> Option<&Operation> {
        self.ops.get(&op)
    }

    /// What is going on at a key.
    pub fn key(&self, key: u32) -> Option<&Key> {
        self.keys.get(key as usize)
    }

    /// How many keys there are.
    pub fn keys(&self) -> u32 {
        self.keys.len() as u32
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

    /// The keys of an instance's operations that have not ended.
    pub fn keys_of(&self, instance: u32) -> BTreeSet<u32> {
        let ops = self.ops.values().filter(|op| op.instance == instance);
        ops.map(|op| op.key).collect()
    }

    /// How long a lease lives.
    pub fn ttl(&self) -> Duration {
        self.ttl
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

    /// How long the driver kept an instance back in a window, in all.
    pub fn lag_within(&self, instance: u32, window: Window) -> Duration {
        let lags = [None, Some(instance)].map(|whose| self.lags.get(&whose));
        let mut lags: Vec<Window> = lags.into_iter().flatten().flatten().copied().collect();
        lags.sort_unstable();
        // What was measured twice happened once.
        let mut told = window.0;
        let mut late = Duration::ZERO;
        for (from, to) in lags {
            late += common((from.max(told), to), window);
            told = told.max(to);
        }
        late
    }

    /// Whether the driver has just stood still for longer than a lease's margin. For a lease after
    /// it nothing can be told of a lock: questions were sent late, answers heard late, or not.
    pub fn unsettled(&self, at: Time) -> bool {
        let mut lags = self.lags.values().flatten();
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

    /// How often the server said that a key's lease had run out, in a window, by what was heard until
    /// shortly after it. Several servers say it once each.
    pub fn expired_within(&self, key: u32, window: Window) -> usize {
        let expired = self.key(key).map(|key| &key.expired);
        let heard = window.0..=window.1.plus(HEARSAY);
        let expired = expired.into_iter().flatten();
        expired.filter(|at| heard.contains(at)).count()
    }

    /// Whether a replica was promoted since, or so shortly before that it may have come with keys that
    /// were given back long ago and whose leases still last.
    pub fn promoted_since(&self, at: Time) -> bool {
        let lasts = self.ttl * 2;
        let mut promotions = self.promotions.iter();
        promotions.any(|(promoted, _)| promoted.plus(lasts) >= at)
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

    /// Since when two different servers were the primary at once, if they were so at some moment of
    /// a window, by what was heard until shortly after it.
    pub fn split_between(&self, servers: (&str, &str), window: Window) -> Option<Time> {
        let both =
            |split: &[String]| [servers.0, servers.1].map(|one| split.iter().any(|s| s == one));
        let mut splits = self.splits.iter();
        let split = splits.find(|(from, to, split)| {
            servers.0 != servers.1
                && both(split) == [true, true]
                && *from <= window.1.plus(HEARSAY)
                && to.is_none_or(|to| to >= window.0)
        });
        split.map(|(from, ..)| *from)
    }

    /// When, in a window, a server lost a key that it held, and why. It is told before anybody can
    /// be granted the key again.
    pub fn lost_by_server(&self, key: u32, window: Window) -> Option<(Time, Cause)> {
        let mut losses = self.losses.iter();
        let lost =
            losses.find(|(at, lost, _)| lost.contains(&key) && (window.0..=window.1).contains(at));
        lost.map(|(at, _, cause)| (*at, *cause))
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
        let gone = grant.gone(op.answered_by.as_deref());
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
        // While both were asking, the one that can have lost its lock to the other came first; but
        // the other may have given its own back by then, and come first itself.
        let given_back = other.release_asked.is_some_and(|at| at <= first.answered);
        then.asked >= first.answered
            || self.may_have_lost(one, then.answered)
                && !self.may_have_lost(other, first.answered)
                && !given_back
    }
}

/// How much two stretches of time have in common.
pub(super) fn common(one: Window, other: Window) -> Duration {
    one.1.min(other.1).since(one.0.max(other.0))
}
