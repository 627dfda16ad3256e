//! The section under its watchdog, from the grant to the release: read, work, write. Mistakes that
//! people make inside it are made here when the plan asks for one.

use std::sync::Arc;

use super::load::Interest;
use super::operation::{Grant, Operation, stray};
use super::worker::Worker;
use crate::clock::nanos;
use crate::history::OpId;
use crate::history::event::{Effect, Kind};
use crate::lock::{Acquire, Points};
use crate::scenario::{Guard, Mistake, Point};
use crate::store::{Seen, Write, Written};
use crate::workload;

/// How often a write that lost a compare-and-set reads again.
const READ_AGAIN: u32 = 1_000;

impl Worker {
    /// The section under its watchdog, then the release. Without a lease (a mistake) there is
    /// nothing to watch, and the release comes all the same, as from a `finally`.
    pub(super) async fn hold(&self, operation: &Arc<Operation>, grant: Option<Grant>) {
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
                // Read before the section goes on, as it is when a watchdog is started: what happens to
                // the clock inside the section comes after it.
                let since = operation.clock().now();
                let watch = async {
                    operation.watch(watchdog, since).await;
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
        // Who relies on a validity, and has no watchdog to renew it, looks at his clock himself.
        let reliable_until = (grant.and_then(|grant| grant.reliable_until))
            .filter(|_| self.shared.lock.watchdog().is_none());
        if let Some(until) = reliable_until {
            let his = operation.clock();
            tokio::select! {
                () = his.sleep_until(until) => {}
                () = clock.sleep_until(done) => {}
            }
            if his.moment(until) < done && !operation.lost() {
                operation.lose();
            }
        }
        // Timers are a millisecond coarse: no work at all must not take one.
        if !work.is_zero() {
            clock.sleep_until(done).await;
        }
    }

    /// A second acquire of the same lock by its holder, as a method that locks does when it calls
    /// another that locks.
    async fn nested(&self, operation: &Operation) {
        let clock = self.shared.recorder.clock();
        let began = clock.now();
        while clock.now().since(began) < self.shared.plan.ttl() {
            match operation.attempt().await {
                Ok(Acquire::Granted(_)) => return operation.release().await,
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
