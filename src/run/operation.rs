//! One operation: what it does with the lock, on its worker's connections. All of it is recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::instance::Shared;
use crate::client::{Conn, Outcome};
use crate::clock::{LocalClock, LocalTime, Time, nanos};
use crate::history::OpId;
use crate::history::event::Kind;
use crate::lock::{Acquire, Boxed, Call, Lease, Points, Renewal, Watchdog};
use crate::scenario::{Mistake, Point, Reply, Seen};
use crate::workload;

/// What all parts of one operation share. Its own, so that a watchdog can outlive it.
pub(super) struct Operation {
    /// Its number.
    pub(super) op: OpId,
    /// What it is about.
    pub(super) item: u32,
    /// The instance that issues it.
    pub(super) instance: u32,
    /// Its worker.
    pub(super) worker: u32,
    /// A value unique to it.
    pub(super) token: String,
    /// A value unique to its worker.
    pub(super) owner: String,
    /// Its worker's connections, one to each node.
    pub(super) nodes: Arc<[Conn]>,
    /// What all operations share.
    pub(super) shared: Arc<Shared>,
    /// The watchdog has told that the lease is lost.
    pub(super) lost: AtomicBool,
}

/// A lease in its holder's hands.
#[derive(Clone, Copy)]
pub(super) struct Grant {
    /// What was granted.
    pub(super) lease: Lease,
    /// Until when he may rely on it, where that is less than the lease.
    pub(super) reliable_until: Option<LocalTime>,
}

/// Its task was cancelled while it was asking.
pub(super) struct Cancelled;

impl Operation {
    pub(super) fn record(&self, event: Kind) -> Time {
        self.shared.recorder.record(event)
    }

    /// What its instance takes for the time.
    pub(super) fn clock(&self) -> &LocalClock {
        self.shared.faults.clock(self.instance)
    }

    pub(super) fn call(&self) -> Call<'_> {
        let key = workload::key_of(&self.shared.plan.workload, self.item);
        Call {
            nodes: &self.nodes,
            clock: self.clock().clone(),
            key: &self.shared.keys[key as usize],
            token: &self.token,
            owner: &self.owner,
            pause: self.shared.plan.longest_pause(),
            points: self,
        }
    }

    /// Asks once for the lock.
    pub(super) async fn attempt(&self) -> Result<Acquire, Cancelled> {
        let op = self.op;
        self.reached(Point::BeforeAcquire).await;
        self.record(Kind::Asked { op });
        let call = self.call();
        let mut answer = tokio::select! {
            biased;
            () = self.cancelled(Reply::Acquire) => {
                // The question is on its way, or done.
                let error = "cancelled in flight".to_owned();
                self.record(Kind::AcquireUnknown { op, error });
                return Err(Cancelled);
            }
            answer = self.shared.lock.acquire(&call) => answer,
        };
        if matches!(answer, Acquire::Granted(_)) {
            self.answered();
        }
        let answered = self.record(match &answer {
            Acquire::Granted(lease) => Kind::Granted {
                op,
                ttl_ns: lease.ttl.map(nanos),
                locked: lease.locked,
                fence: lease.fence,
            },
            Acquire::Denied(_) => Kind::Denied { op },
            Acquire::Failed(error) => {
                let error = error.clone();
                Kind::AcquireFailed { op, error }
            }
            Acquire::Unknown(error) => {
                let error = error.clone();
                Kind::AcquireUnknown { op, error }
            }
        });
        match &mut answer {
            Acquire::Granted(lease) => {
                self.saw(Seen::Granted).await;
                // A pause there is not given to the holder on top.
                let paused = self.shared.recorder.clock().now().since(answered);
                lease.validity = lease
                    .validity
                    .map(|validity| validity.saturating_sub(paused));
            }
            Acquire::Denied(_) => self.saw(Seen::Denied).await,
            Acquire::Failed(_) | Acquire::Unknown(_) => {}
        }
        Ok(answer)
    }

    /// Waits until its request of that sort is to be dropped; mostly for ever.
    async fn cancelled(&self, which: Reply) {
        self.shared.faults.cancelled(self.worker, which).await;
    }

    /// Something was seen, and a fault may strike there.
    async fn saw(&self, what: Seen) {
        let key = workload::key_of(&self.shared.plan.workload, self.item);
        let faults = &self.shared.faults;
        if faults.seen((what, key), self.instance, self.worker) {
            // As at a point.
            tokio::task::yield_now().await;
        }
    }

    pub(super) async fn release(&self) {
        let op = self.op;
        self.record(Kind::ReleaseAsked { op });
        let outcome = self.shared.lock.release(&self.call()).await;
        self.answered();
        self.record(Kind::Released { op, outcome });
        self.saw(Seen::Released).await;
    }

    /// Says who has answered, where that may be one server or another.
    fn answered(&self) {
        if let Some(server) = self.nodes[0].answered_by() {
            let (op, server) = (self.op, server.to_string());
            self.record(Kind::AnsweredBy { op, server });
        }
    }

    pub(super) async fn abandon(&self) {
        self.shared.lock.abandon(&self.call()).await;
    }

    pub(super) fn lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Renews the lease, held since that moment, until nobody polls it any more; tells the section if
    /// the lease is lost. One failed renewal is no loss while the lease may still live.
    pub(super) async fn watch(&self, watchdog: &dyn Watchdog, since: LocalTime) {
        let (op, clock) = (self.op, self.clock());
        let ttl = self.shared.plan.ttl();
        let mut asked = since;
        let mut extended = since;
        loop {
            clock.sleep_until(asked.plus(watchdog.every())).await;
            self.shared.faults.watchdog_passes(self.instance).await;
            asked = clock.now();
            self.record(Kind::RenewalAsked { op });
            let renewal = tokio::select! {
                biased;
                () = self.cancelled(Reply::Renewal) => {
                    Renewal::Failed("cancelled in flight".to_owned())
                }
                renewal = self.renew(watchdog) => renewal,
            };
            // One that stands still hears nothing either.
            self.shared.faults.watchdog_passes(self.instance).await;
            match renewal {
                Renewal::Extended => {
                    extended = asked;
                    self.answered();
                    self.record(Kind::Renewed { op });
                    self.saw(Seen::Renewed).await;
                }
                Renewal::Lost => break,
                Renewal::Failed(error) => {
                    self.record(Kind::RenewalFailed { op, error });
                    if self.shared.plan.lock.mistake == Some(Mistake::WatchdogDies) {
                        return std::future::pending().await;
                    }
                    if clock.now().since(extended) >= ttl {
                        break;
                    }
                }
            }
        }
        self.lose();
    }

    pub(super) fn lose(&self) {
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
        let struck = self
            .shared
            .faults
            .reached(point, self.instance, self.worker);
        Box::pin(async move {
            if struck {
                // Gives way once: the next poll finds the instance frozen, or dropped.
                tokio::task::yield_now().await;
                // Its work goes on when it can have lost its lock.
                if point == Point::InSection {
                    self.shared.faults.failed_over().await;
                }
                // It was held up on its way: what it asks for is asked for now.
                if point == Point::BeforeDelete {
                    self.deletes();
                }
            }
        })
    }

    fn deletes(&self) {
        self.record(Kind::ReleaseAsked { op: self.op });
    }
}

/// A watchdog that goes on after its operation: for three leases, or until it loses.
pub(super) fn stray(operation: Arc<Operation>) -> Boxed<'static, ()> {
    Box::pin(async move {
        let at_most = operation.shared.plan.ttl() * 3;
        if let Some(watchdog) = operation.shared.lock.watchdog() {
            let since = operation.clock().now();
            let _ = tokio::time::timeout(at_most, operation.watch(watchdog, since)).await;
        }
        operation.record(Kind::Done { op: operation.op });
    })
}
