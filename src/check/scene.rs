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

use super::finding::{Cause, Role, Witness};

/// How many past things of one sort (pauses, lags, releases of a key) are remembered.
const REMEMBERED: usize = 64;

/// An operation that has not ended.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Its number.
    pub op: OpId,
    /// Its instance.
    pub instance: u32,
    /// Its worker.
    pub worker: u32,
    /// The key of its lock.
    pub key: u32,
    /// When it last asked for the lock, if that was not yet answered.
    pub asking: Option<Time>,
    /// Its grant.
    pub grant: Option<Grant>,
    /// When it entered its section.
    pub entered: Option<Time>,
    /// Whether it is in its section.
    pub in_section: bool,
    /// When its work began, and how long it was planned to take.
    pub work: Option<(Time, Duration)>,
    /// What it read.
    pub seen: Option<i64>,
    /// When it asked to release.
    pub release_asked: Option<Time>,
    /// Why its section was not its own, if it was not.
    pub overlap: Option<Cause>,
}

/// A lock that was granted, and what is known of its lease.
#[derive(Debug, Clone)]
pub struct Grant {
    /// When it was asked for.
    pub asked: Time,
    /// When the driver saw it granted.
    pub answered: Time,
    /// How long the lease lives without renewal, if it ends at all.
    pub ttl: Option<Duration>,
    /// Whether a server granted it.
    pub locked: bool,
    /// When the extension that surely happened last was asked for (or the grant).
    extended_asked: Time,
    /// The last moment at which an extension may have happened.
    extended_latest: Time,
    /// A renewal that was asked for and not answered.
    pub renewal_asked: Option<Time>,
    /// Whether a renewal has failed since the last one that worked.
    pub renewal_failed: bool,
    /// Whether the watchdog has told that the lease is lost.
    pub lost: bool,
}

impl Grant {
    /// Before this the lease surely lived, if nobody removed it.
    pub fn earliest_end(&self) -> Option<Time> {
        Some(self.extended_asked.plus(self.ttl?))
    }

    /// From this on the lease was surely over, unless a renewal is still unanswered.
    pub fn latest_end(&self) -> Option<Time> {
        match self.renewal_asked {
            Some(_) => None,
            None => Some(self.extended_latest.plus(self.ttl?)),
        }
    }

    /// When the lease was last surely extended.
    pub fn extended(&self) -> Time {
        self.extended_asked
    }
}

impl Operation {
    /// This operation as a witness.
    pub fn witness(&self, role: Role, at_ns: Time) -> Witness {
        Witness {
            op: self.op,
            instance: self.instance,
            worker: self.worker,
            role,
            at_ns,
        }
    }

    /// How it is called in sentences.
    pub fn name(&self) -> String {
        format!(
            "operation {} (instance {}, worker {})",
            self.op, self.instance, self.worker
        )
    }
}

/// A key's release that the server answered with "removed".
#[derive(Debug, Clone, Copy)]
pub struct Removal {
    /// Who asked for it.
    pub op: OpId,
    /// When it was asked for.
    pub asked: Time,
    /// When it was answered.
    pub answered: Time,
}

/// What is going on at a key.
#[derive(Debug, Default)]
pub struct Key {
    /// Operations that were granted its lock and have not ended, the oldest grant first.
    pub holders: Vec<OpId>,
    /// Since when nobody alive holds the lock, if nobody does.
    pub vacant_since: Option<Time>,
    /// Why it became vacant, where that says something.
    pub vacant_cause: Option<Cause>,
    /// The last removals by a release.
    pub removals: VecDeque<Removal>,
    /// When the server last evicted it.
    pub evicted: Option<Time>,
}

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
    renews: bool,
    /// The run stops issuing operations.
    pub draining: bool,
}

impl Scene {
    /// An empty scene.
    pub fn new(plan: &Plan, keys: usize) -> Scene {
        Scene {
            ops: HashMap::new(),
            keys: (0..keys).map(|_| Key::default()).collect(),
            frozen: HashMap::new(),
            pauses: HashMap::new(),
            lags: VecDeque::new(),
            renews: lock::find(&plan.lock.kind).is_some_and(|entry| entry.renews),
            draining: false,
        }
    }

    /// An operation that has not ended.
    pub fn op(&self, op: OpId) -> Option<&Operation> {
        self.ops.get(&op)
    }

    /// Notes why an operation's section was not its own; the first reason stays.
    pub fn note_overlap(&mut self, op: OpId, cause: Cause) {
        if let Some(operation) = self.ops.get_mut(&op) {
            operation.overlap.get_or_insert(cause);
        }
    }

    /// What is going on at a key.
    pub fn key(&self, key: u32) -> Option<&Key> {
        self.keys.get(key as usize)
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = (u32, &Key)> {
        (0..).zip(&self.keys)
    }

    /// The holders of a key, the oldest grant first.
    pub fn holders(&self, key: u32) -> impl DoubleEndedIterator<Item = &Operation> {
        let holders = self.key(key).map_or(&[][..], |key| &key.holders);
        holders.iter().filter_map(|op| self.ops.get(op))
    }

    /// Whether some operation has been asking for this key since before `since`: it may have been
    /// granted without our knowing.
    pub fn asking_since(&self, key: u32, since: Time) -> bool {
        let mut ops = self.ops.values();
        ops.any(|op| op.key == key && op.asking.is_some_and(|asked| asked <= since))
    }

    /// Whether the lock renews its leases.
    pub fn renews(&self) -> bool {
        self.renews
    }

    /// Whether an instance stood still at some time in a window.
    pub fn frozen_within(&self, instance: u32, window: Window) -> bool {
        let now = self.frozen.get(&instance).map(|from| (*from, window.1));
        let past = self.pauses.get(&instance);
        past.into_iter()
            .flatten()
            .copied()
            .chain(now)
            .any(|pause| overlap(pause, window))
    }

    /// How long the driver was late in a window, in all.
    pub fn lag_within(&self, window: Window) -> Duration {
        let parts = self.lags.iter().filter(|lag| overlap(**lag, window));
        parts
            .map(|(from, to)| to.0.min(window.1.0) - from.0.max(window.0.0))
            .map(Duration::from_nanos)
            .sum()
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
            Kind::Asked { op } => self.with(*op, |op| op.asking = Some(at)),
            Kind::Denied { op } | Kind::AcquireFailed { op, .. } => {
                self.with(*op, |op| op.asking = None);
            }
            Kind::AcquireUnknown { op, .. } => self.maybe_granted(*op, at),
            Kind::Granted { op, ttl_ns, locked } => {
                self.granted(*op, ttl_ns.map(Duration::from_nanos), *locked, at);
            }
            Kind::Entered { op } => self.with(*op, |op| {
                op.entered = Some(at);
                op.in_section = true;
            }),
            Kind::Read { op, value, .. } => self.with(*op, |op| op.seen = Some(*value)),
            Kind::Working { op, work_ns } => {
                self.with(*op, |op| {
                    op.work = Some((at, Duration::from_nanos(*work_ns)))
                });
            }
            Kind::Left { op } => self.with(*op, |op| op.in_section = false),
            Kind::RenewalAsked { op } => {
                self.with_grant(*op, |grant| grant.renewal_asked = Some(at));
            }
            Kind::Renewed { op } => self.with_grant(*op, |grant| {
                grant.extended_asked = grant.renewal_asked.take().unwrap_or(at);
                grant.extended_latest = at;
                grant.renewal_failed = false;
            }),
            Kind::RenewalFailed { op, .. } => self.with_grant(*op, |grant| {
                grant.renewal_asked = None;
                grant.extended_latest = at;
                grant.renewal_failed = true;
            }),
            Kind::LeaseLost { op } => self.with_grant(*op, |grant| {
                grant.renewal_asked = None;
                grant.lost = true;
            }),
            Kind::ReleaseAsked { op } => self.with(*op, |op| op.release_asked = Some(at)),
            Kind::Frozen { instance } => {
                self.frozen.insert(*instance, at);
            }
            Kind::Thawed { instance } => {
                if let Some(from) = self.frozen.remove(instance) {
                    remember(self.pauses.entry(*instance).or_default(), (from, at));
                }
            }
            Kind::DriverLag { late_ns } => {
                let from = Time(at.0.saturating_sub(*late_ns));
                remember(&mut self.lags, (from, at));
            }
            Kind::Server { key, did } => {
                if *did == ServerDid::Evicted
                    && let Some(key) = self.keys.get_mut(*key as usize)
                {
                    key.evicted = Some(at);
                }
            }
            Kind::Draining { .. } => self.draining = true,
            _ => {}
        }
    }

    /// Forgets what ended with an event, after the checks have seen it.
    pub fn forget(&mut self, event: &Event) {
        match &event.event {
            Kind::Released { op, outcome } => {
                if *outcome == Release::Removed
                    && let Some(operation) = self.ops.get(op)
                    && let Some(key) = self.keys.get_mut(operation.key as usize)
                {
                    let removal = Removal {
                        op: *op,
                        asked: operation.release_asked.unwrap_or(event.at_ns),
                        answered: event.at_ns,
                    };
                    remember(&mut key.removals, removal);
                }
                self.end(*op, event.at_ns, None);
            }
            Kind::GaveUp { op, .. } => self.end(*op, event.at_ns, None),
            Kind::Crashed { instance } => {
                let dead = self.ops.values().filter(|op| op.instance == *instance);
                let dead: Vec<_> = dead.map(|op| op.op).collect();
                for op in dead {
                    self.end(op, event.at_ns, Some(Cause::HolderCrashed));
                }
            }
            _ => {}
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
            asking: None,
            grant: None,
            entered: None,
            in_section: false,
            work: None,
            seen: None,
            release_asked: None,
            overlap: None,
        };
        self.ops.insert(op, operation);
    }

    fn granted(&mut self, op: OpId, ttl: Option<Duration>, locked: bool, at: Time) {
        let Some(operation) = self.ops.get_mut(&op) else {
            return;
        };
        let asked = operation.asking.take().unwrap_or(at);
        operation.grant = Some(Grant {
            asked,
            answered: at,
            ttl,
            locked,
            extended_asked: asked,
            extended_latest: at,
            renewal_asked: None,
            renewal_failed: false,
            lost: false,
        });
        if let Some(key) = self.keys.get_mut(operation.key as usize) {
            key.holders.push(op);
            key.vacant_since = None;
            key.vacant_cause = None;
        }
    }

    /// The server may have granted it, and then the key stays for a lease from now.
    fn maybe_granted(&mut self, op: OpId, at: Time) {
        let Some(operation) = self.ops.get_mut(&op) else {
            return;
        };
        operation.asking = None;
        if let Some(key) = self.keys.get_mut(operation.key as usize)
            && key.holders.is_empty()
        {
            key.vacant_since = Some(at);
            key.vacant_cause = Some(Cause::ReplyLost);
        }
    }

    fn end(&mut self, op: OpId, at: Time, cause: Option<Cause>) {
        let Some(operation) = self.ops.remove(&op) else {
            return;
        };
        let Some(key) = self.keys.get_mut(operation.key as usize) else {
            return;
        };
        // A crashed operation that was still asking may have been granted.
        let held = operation.grant.is_some();
        key.holders.retain(|holder| *holder != op);
        if key.holders.is_empty() && (held || cause.is_some() && operation.asking.is_some()) {
            key.vacant_since = Some(at);
            key.vacant_cause = cause;
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

fn overlap(one: Window, other: Window) -> bool {
    one.0 < other.1 && other.0 < one.1
}

fn remember<T>(things: &mut VecDeque<T>, thing: T) {
    if things.len() == REMEMBERED {
        things.pop_front();
    }
    things.push_back(thing);
}
