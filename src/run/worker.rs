//! One worker: it issues operations one after the other. An operation acquires, works in its
//! section under its watchdog, writes, and releases; mistakes around the lock are made here when
//! the plan asks for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::ChaCha8Rng;

use super::instance::{Sections, Shared, Strays};
use super::load::Interest;
use crate::client::{Conn, Outcome, Subscription};
use crate::clock::{Time, nanos};
use crate::history::OpId;
use crate::history::event::{Effect, GiveUp, Kind};
use crate::lock::{Acquire, Boxed, Call, Lease, Points, Renewal, Watchdog};
use crate::scenario::dist::Sampler;
use crate::scenario::{Guard, Mistake, Point, Wait};
use crate::seed::Seed;
use crate::store::{Seen, Write, Written};
use crate::workload;

/// How often a write that lost a compare-and-set reads again.
const READ_AGAIN: u32 = 1_000;

/// A worker before it runs.
pub(super) struct Worker {
    number: u32,
    instance: u32,
    owner: String,
    nodes: Arc<[Conn]>,
    shared: Arc<Shared>,
    section: Sections,
    think: Sampler,
    wait: ChaCha8Rng,
    choice: ChaCha8Rng,
    /// Where watchdogs go that nobody stops (a mistake).
    strays: Strays,
}

/// What all parts of one operation share. Its own, so that a watchdog can outlive it.
struct Operation {
    op: OpId,
    item: u32,
    instance: u32,
    token: String,
    owner: String,
    nodes: Arc<[Conn]>,
    shared: Arc<Shared>,
    /// The watchdog has told that the lease is lost.
    lost: AtomicBool,
}

/// A lease in its holder's hands.
#[derive(Clone, Copy)]
struct Grant {
    lease: Lease,
    /// Until when he may rely on it, where that is less than the lease.
    reliable_until: Option<Time>,
}

/// How waiting for the lock went on.
enum Next {
    Ask,
    Stop(GiveUp),
}

impl Worker {
    pub(super) fn new(
        number: u32,
        instance: u32,
        nodes: Arc<[Conn]>,
        shared: Arc<Shared>,
        section: Sections,
        strays: Strays,
    ) -> Worker {
        let stream = |purpose| Seed(shared.plan.seed).stream(purpose, u64::from(number));
        Worker {
            number,
            instance,
            owner: format!("{}-{instance}:{number}", shared.plan.seed),
            nodes,
            section,
            think: Sampler::new(&shared.plan.load.think, stream("think")),
            wait: stream("wait"),
            choice: stream("item"),
            strays,
            shared,
        }
    }

    /// Runs until there is no operation left to issue.
    pub(super) async fn run(mut self) {
        while let Some(op) = self.shared.load.next() {
            let Some(item) = self.next_item(op).await else {
                return;
            };
            self.operation(op, item).await;
            let pause = self.think.draw();
            if !pause.is_zero() && !self.pause(pause).await {
                return;
            }
        }
    }

    /// What the operation is about; waits until it is due.
    async fn next_item(&mut self, op: OpId) -> Option<u32> {
        let shared = Arc::clone(&self.shared);
        let draw = self.choice.random_range(0..shared.items);
        let place = workload::place(&shared.plan.workload, op, shared.plan.load.instances, draw);
        let due = Time::default().plus(place.due);
        let now = shared.recorder.clock().now();
        if due > now && !self.pause(due.since(now)).await {
            return None;
        }
        Some(place.item)
    }

    /// Waits, unless the run stops first: then false.
    async fn pause(&self, pause: Duration) -> bool {
        let clock = self.shared.recorder.clock();
        tokio::select! {
            biased;
            _ = self.shared.load.stopped() => false,
            () = clock.sleep(pause) => true,
        }
    }

    fn record(&self, event: Kind) -> Time {
        self.shared.recorder.record(event)
    }

    fn mistake(&self) -> Option<Mistake> {
        self.shared.plan.lock.mistake
    }

    async fn operation(&mut self, op: OpId, item: u32) {
        let operation = Arc::new(Operation {
            op,
            item,
            instance: self.instance,
            token: format!("{}-{}-{op}", self.instance, self.number),
            owner: self.owner.clone(),
            nodes: Arc::clone(&self.nodes),
            shared: Arc::clone(&self.shared),
            lost: AtomicBool::new(false),
        });
        let arrived = self.record(Kind::Arrived {
            op,
            instance: self.instance,
            worker: self.number,
            key: workload::key_of(&self.shared.plan.workload, item),
        });
        match self.acquire(&operation, arrived).await {
            Ok(grant) => self.hold(&operation, grant).await,
            Err(why) => {
                operation.abandon().await;
                if self.mistake() == Some(Mistake::ReleaseUnacquired) {
                    operation.release().await;
                }
                self.record(Kind::GaveUp { op, why });
            }
        }
    }
}

// Waiting for the lock.
impl Worker {
    /// Asks until it is granted, or the wait policy or the run ends it. The grant is absent where a
    /// mistake lets the operation go on without one.
    async fn acquire(
        &mut self,
        operation: &Operation,
        arrived: Time,
    ) -> Result<Option<Grant>, GiveUp> {
        let mut waiting = Waiting::default();
        loop {
            let answer = operation.attempt().await;
            match (answer, self.mistake()) {
                (Acquire::Granted(lease), _) => return Ok(Some(self.grant(lease))),
                (Acquire::Denied, Some(Mistake::IgnoreDenied)) => return Ok(None),
                (Acquire::Failed(_) | Acquire::Unknown(_), Some(Mistake::FailOpen)) => {
                    return Ok(None);
                }
                _ => {}
            }
            if let Next::Stop(why) = self.wait_more(operation, arrived, &mut waiting).await {
                return Err(why);
            }
        }
    }

    /// A validity counts from here: whatever comes before the work takes its time from it.
    fn grant(&self, lease: Lease) -> Grant {
        let now = self.shared.recorder.clock().now();
        Grant {
            lease,
            reliable_until: lease.validity.map(|validity| now.plus(validity)),
        }
    }

    async fn wait_more(
        &mut self,
        operation: &Operation,
        arrived: Time,
        waiting: &mut Waiting,
    ) -> Next {
        let waited = self.shared.recorder.clock().now().since(arrived);
        let shared = Arc::clone(&self.shared);
        match shared.plan.lock.wait {
            Wait::FailFast => Next::Stop(GiveUp::Policy),
            Wait::Retry {
                every_ns,
                jitter,
                backoff,
                give_up_after_ns,
            } => {
                let away = 1.0 + jitter * self.wait.random_range(-1.0..=1.0);
                let grown = backoff.powi(waiting.asked.min(64) as i32);
                let pause = Duration::from_nanos(every_ns).mul_f64(away * grown.min(1e6));
                waiting.asked += 1;
                if waited + pause > Duration::from_nanos(give_up_after_ns) {
                    return Next::Stop(GiveUp::Policy);
                }
                self.pause_or_stop(pause).await
            }
            Wait::WakeUp { bound_ns } => {
                let bound = Duration::from_nanos(bound_ns);
                match bound.checked_sub(waited) {
                    Some(left) => self.wake_up(operation, left, waiting).await,
                    None => Next::Stop(GiveUp::Policy),
                }
            }
        }
    }

    async fn pause_or_stop(&self, pause: Duration) -> Next {
        match self.pause(pause).await {
            true => Next::Ask,
            false => Next::Stop(GiveUp::RunEnded),
        }
    }

    /// Waits for the message of a release. The first call only subscribes, and asks again at once:
    /// the release may have come before. No message is waited for longer than a lease, for a dead
    /// holder sends none.
    async fn wake_up(
        &mut self,
        operation: &Operation,
        left: Duration,
        waiting: &mut Waiting,
    ) -> Next {
        let Some(wake_up) = self.shared.lock.wake_up() else {
            return Next::Stop(GiveUp::Policy);
        };
        let channel = wake_up.channel(operation.call().key);
        let at_most = left.min(self.shared.plan.ttl());
        let Some(subscription) = &mut waiting.subscription else {
            return match self.nodes[0].subscribe(&channel).await {
                Ok(subscription) => {
                    waiting.subscription = Some(subscription);
                    Next::Ask
                }
                // Without a subscription: ask again when a lease may have ended.
                Err(_) => self.pause_or_stop(at_most / 4).await,
            };
        };
        let shared = Arc::clone(&self.shared);
        tokio::select! {
            biased;
            _ = shared.load.stopped() => Next::Stop(GiveUp::RunEnded),
            _ = tokio::time::timeout(at_most, subscription.message()) => Next::Ask,
        }
    }
}

/// How far waiting has gone.
#[derive(Default)]
struct Waiting {
    asked: u32,
    subscription: Option<Subscription>,
}

// What an operation does with the lock.
impl Operation {
    fn record(&self, event: Kind) -> Time {
        self.shared.recorder.record(event)
    }

    fn call(&self) -> Call<'_> {
        let key = workload::key_of(&self.shared.plan.workload, self.item);
        Call {
            nodes: &self.nodes,
            clock: self.shared.recorder.clock(),
            key: &self.shared.keys[key as usize],
            token: &self.token,
            owner: &self.owner,
            points: self,
        }
    }

    /// Asks once for the lock.
    async fn attempt(&self) -> Acquire {
        let op = self.op;
        self.record(Kind::Asked { op });
        let answer = self.shared.lock.acquire(&self.call()).await;
        self.record(match &answer {
            Acquire::Granted(lease) => Kind::Granted {
                op,
                ttl_ns: lease.ttl.map(nanos),
                locked: lease.locked,
                fence: lease.fence,
            },
            Acquire::Denied => Kind::Denied { op },
            Acquire::Failed(error) => {
                let error = error.clone();
                Kind::AcquireFailed { op, error }
            }
            Acquire::Unknown(error) => {
                let error = error.clone();
                Kind::AcquireUnknown { op, error }
            }
        });
        answer
    }

    async fn release(&self) {
        let op = self.op;
        self.record(Kind::ReleaseAsked { op });
        let outcome = self.shared.lock.release(&self.call()).await;
        self.record(Kind::Released { op, outcome });
    }

    async fn abandon(&self) {
        self.shared.lock.abandon(&self.call()).await;
    }

    fn lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Renews the lease until nobody polls it any more; tells the section if the lease is lost.
    /// One failed renewal is no loss while the lease may still live.
    async fn watch(&self, watchdog: &dyn Watchdog) {
        let op = self.op;
        let clock = self.shared.recorder.clock();
        let ttl = self.shared.plan.ttl();
        let mut asked = clock.now();
        let mut extended = asked;
        loop {
            clock.sleep_until(asked.plus(watchdog.every())).await;
            asked = self.record(Kind::RenewalAsked { op });
            match self.renew(watchdog).await {
                Renewal::Extended => {
                    extended = asked;
                    self.record(Kind::Renewed { op });
                }
                Renewal::Lost => break,
                Renewal::Failed(error) => {
                    let now = self.record(Kind::RenewalFailed { op, error });
                    if now.since(extended) >= ttl {
                        break;
                    }
                }
            }
        }
        self.lose();
    }

    fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
        self.record(Kind::LeaseLost { op: self.op });
    }

    async fn renew(&self, watchdog: &dyn Watchdog) -> Renewal {
        let call = self.call();
        if self.shared.plan.lock.mistake != Some(Mistake::RenewBlindly) {
            return watchdog.renew(&call).await;
        }
        // Whoever's key it is by now.
        let mut pexpire = redis::cmd("PEXPIRE");
        pexpire
            .arg(call.key)
            .arg(self.shared.plan.ttl().as_millis() as u64);
        match call.conn().call::<bool>(&pexpire).await {
            Outcome::Done(true) => Renewal::Extended,
            Outcome::Done(false) => Renewal::Lost,
            Outcome::Refused(error) | Outcome::Unknown(error) => Renewal::Failed(error),
        }
    }
}

impl Points for Operation {
    fn reached(&self, point: Point) -> Boxed<'_, ()> {
        let struck = self.shared.faults.reached(point, self.instance);
        Box::pin(async move {
            if struck {
                // Gives way once: the next poll finds the instance frozen, or dropped.
                tokio::task::yield_now().await;
            }
        })
    }

    fn deletes(&self) {
        self.record(Kind::ReleaseAsked { op: self.op });
    }
}

// The section.
impl Worker {
    /// The section under its watchdog, then the release. Without a lease (a mistake) there is
    /// nothing to watch, and the release comes all the same, as from a `finally`.
    async fn hold(&self, operation: &Arc<Operation>, grant: Option<Grant>) {
        self.held(operation, grant).await;
        if self.mistake() == Some(Mistake::WatchdogNotCancelled) && grant.is_some() {
            // Nobody listens only when the instance has ended.
            let _ = self.strays.send(stray(Arc::clone(operation)));
            return;
        }
        self.record(Kind::Done { op: operation.op });
    }

    async fn held(&self, operation: &Operation, grant: Option<Grant>) {
        let op = operation.op;
        self.record(Kind::Entered { op });
        let section = self.section(operation, grant);
        let late = match self.shared.lock.watchdog().filter(|_| grant.is_some()) {
            None => section.await,
            Some(watchdog) => {
                let watch = async {
                    operation.watch(watchdog).await;
                    std::future::pending().await
                };
                tokio::select! { biased; late = section => late, late = watch => late }
            }
        };
        self.record(Kind::Left { op });
        operation.reached(Point::BeforeRelease).await;
        operation.release().await;
        if let Some((seen, _while_it_lives)) = late {
            self.write(operation, seen, grant).await;
        }
    }

    /// Read, work, write: check and act are two statements, as in the incident. What is still to
    /// be written after the release (a mistake) is returned.
    async fn section(
        &self,
        operation: &Operation,
        grant: Option<Grant>,
    ) -> Option<(Seen, Interest<'_>)> {
        let load = &self.shared.load;
        for _ in 0..READ_AGAIN {
            let mut interest = load.reading(operation.item);
            let seen = self.read(operation, &mut interest).await?;
            if self.mistake() == Some(Mistake::Nested) {
                self.nested(operation).await;
            }
            let checked = self.mistake() == Some(Mistake::CheckOnce) && operation.lost();
            self.work(operation, grant).await;
            let heeds = self.shared.plan.heeds_lost_lease
                && self.mistake() != Some(Mistake::CheckOnce)
                && operation.lost();
            if heeds || checked {
                self.withheld(operation, seen);
                return None;
            }
            if self.mistake() == Some(Mistake::EffectAfterRelease) {
                return Some((seen, interest));
            }
            let refused = self.write(operation, seen, grant).await;
            // Only who compared what he had read may read again; a refused duplicate is done.
            if !(refused && self.shared.plan.guard == Guard::Optimistic) {
                return None;
            }
        }
        None
    }

    async fn read(&self, operation: &Operation, interest: &mut Interest<'_>) -> Option<Seen> {
        let (op, item) = (operation.op, operation.item);
        let seen = match self.shared.store.read(item).await {
            Ok(seen) => seen,
            Err(error) => {
                self.store_failed(op, error.to_string());
                return None;
            }
        };
        self.record(Kind::Read {
            op,
            item,
            value: seen.value,
        });
        let left = workload::left(&self.shared.plan.workload, seen.value);
        interest.read(left);
        (left > 0).then_some(seen)
    }

    async fn work(&self, operation: &Operation, grant: Option<Grant>) {
        let work = self.section.draw();
        let op = operation.op;
        self.record(Kind::Working {
            op,
            work_ns: nanos(work),
        });
        operation.reached(Point::InSection).await;
        let clock = self.shared.recorder.clock();
        let done = clock.now().plus(work);
        // Who relies on a validity, and has no watchdog to renew it, looks at the clock himself.
        let reliable_until = (grant.and_then(|grant| grant.reliable_until))
            .filter(|until| self.shared.lock.watchdog().is_none() && *until < done);
        if let Some(until) = reliable_until {
            clock.sleep_until(until).await;
            if !operation.lost() {
                operation.lose();
            }
        }
        clock.sleep_until(done).await;
    }

    /// A second acquire of the same lock by its holder, as a method that locks does when it calls
    /// another that locks.
    async fn nested(&self, operation: &Operation) {
        let clock = self.shared.recorder.clock();
        let began = clock.now();
        while clock.now().since(began) < self.shared.plan.ttl() {
            match operation.attempt().await {
                Acquire::Granted(_) => return operation.release().await,
                _ => clock.sleep(self.shared.plan.ttl() / 20).await,
            }
        }
    }

    fn withheld(&self, operation: &Operation, seen: Seen) {
        self.record(Kind::Wrote {
            op: operation.op,
            item: operation.item,
            seen: seen.value,
            replaced: seen.value,
            left: seen.value,
            effect: Effect::Withheld,
        });
    }

    /// Writes what was decided. True if the store's guard refused it.
    async fn write(&self, operation: &Operation, seen: Seen, grant: Option<Grant>) -> bool {
        let (op, item) = (operation.op, operation.item);
        let write = Write {
            op,
            instance: self.instance,
            worker: self.number,
            at: self.shared.recorder.clock().now(),
            item,
            seen,
            fence: grant.and_then(|grant| grant.lease.fence),
        };
        match self.shared.store.write(write).await {
            Ok(written) => {
                self.wrote(operation, seen, written);
                written.rows == 0
            }
            Err(error) => {
                self.store_failed(op, error.to_string());
                false
            }
        }
    }

    fn wrote(&self, operation: &Operation, seen: Seen, written: Written) {
        self.record(Kind::Wrote {
            op: operation.op,
            item: operation.item,
            seen: seen.value,
            replaced: written.replaced,
            left: written.left,
            effect: Effect::Written {
                rows: written.rows,
                rejected: written.rejected,
            },
        });
    }

    fn store_failed(&self, op: OpId, error: String) {
        self.record(Kind::StoreFailed { op, error });
    }
}

/// A watchdog that goes on after its operation: for three leases, or until it loses.
fn stray(operation: Arc<Operation>) -> Boxed<'static, ()> {
    Box::pin(async move {
        let at_most = operation.shared.plan.ttl() * 3;
        if let Some(watchdog) = operation.shared.lock.watchdog() {
            let _ = tokio::time::timeout(at_most, operation.watch(watchdog)).await;
        }
        operation.record(Kind::Done { op: operation.op });
    })
}
