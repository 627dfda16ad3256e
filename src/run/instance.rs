//! One simulated application process: its workers, each of which issues operations one after the
//! other, and their watchdogs. All of it is one future, so that a freeze stops all of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rand::RngExt;
use rand::rngs::ChaCha8Rng;

use super::load::{Interest, Load};
use crate::client::Conn;
use crate::clock::Time;
use crate::fault::Faults;
use crate::history::event::{Effect, GiveUp, Kind};
use crate::history::{OpId, Recorder};
use crate::lock::{self, Acquire, Boxed, Call, Lock, Points, Renewal, Watchdog};
use crate::plan::Plan;
use crate::scenario::dist::Sampler;
use crate::scenario::{Point, Wait};
use crate::seed::Seed;
use crate::store::{Store, Write};

/// What all instances of a run share.
pub struct Shared {
    /// What was planned.
    pub plan: Plan,
    /// The lock.
    pub lock: Box<dyn Lock>,
    /// The lock keys, one an item.
    pub keys: Vec<String>,
    /// The business's database.
    pub store: Box<dyn Store>,
    /// Where events go.
    pub recorder: Recorder,
    /// The load.
    pub load: Load,
    /// The faults.
    pub faults: Arc<Faults>,
}

/// One instance before it runs.
pub struct Instance {
    /// Its number.
    pub number: u32,
    /// Its workers' numbers and connections.
    pub workers: Vec<(u32, Conn)>,
    /// What all share.
    pub shared: Arc<Shared>,
}

impl Instance {
    /// Runs until its workers have nothing more to do.
    pub async fn run(self) {
        let stream = Seed(self.shared.plan.seed).stream("section", u64::from(self.number));
        let section = Mutex::new(Sampler::new(&self.shared.plan.section, stream));
        let workers = self.workers.into_iter().map(|(number, conn)| {
            let stream = |purpose| Seed(self.shared.plan.seed).stream(purpose, u64::from(number));
            Worker {
                number,
                instance: self.number,
                conn,
                shared: &self.shared,
                section: &section,
                think: Sampler::new(&self.shared.plan.load.think, stream("think")),
                rng: stream("wait"),
                choice: stream("item"),
            }
            .run()
        });
        let mut workers: FuturesUnordered<_> = workers.collect();
        while workers.next().await.is_some() {}
    }
}

struct Worker<'a> {
    number: u32,
    instance: u32,
    conn: Conn,
    shared: &'a Arc<Shared>,
    /// The instance's own: its workers draw from it in turn.
    section: &'a Mutex<Sampler>,
    think: Sampler,
    rng: ChaCha8Rng,
    choice: ChaCha8Rng,
}

/// One operation of a worker.
struct Operation<'a> {
    op: OpId,
    item: u32,
    call: Call<'a>,
    lost: AtomicBool,
}

impl Worker<'_> {
    async fn run(mut self) {
        while let Some(op) = self.shared.load.next() {
            self.operation(op).await;
            let pause = self.think.draw();
            if !pause.is_zero() && !self.wait(pause).await {
                return;
            }
        }
    }

    /// Waits, unless the run stops first: then false.
    async fn wait(&self, pause: Duration) -> bool {
        tokio::select! {
            biased;
            _ = self.shared.load.stopped() => false,
            () = self.shared.recorder.clock().sleep(pause) => true,
        }
    }

    fn record(&self, event: Kind) -> Time {
        self.shared.recorder.record(event)
    }

    async fn operation(&mut self, op: OpId) {
        let item = self.choice.random_range(0..self.shared.keys.len() as u32);
        let token = format!("{}-{}-{op}", self.instance, self.number);
        let shared = Arc::clone(self.shared);
        let arrived = self.record(Kind::Arrived {
            op,
            instance: self.instance,
            worker: self.number,
            key: item,
        });
        let points = Struck {
            faults: &shared.faults,
            instance: self.instance,
        };
        let acquired = loop {
            let call = self.call(&shared, item, &token, &points);
            if let Some(watchdog) = self.attempt(op, &call).await {
                break Some(watchdog);
            }
            if let Some(why) = self.retry(arrived).await {
                self.record(Kind::GaveUp { op, why });
                break None;
            }
        };
        if acquired.is_some() {
            let operation = Operation {
                op,
                item,
                call: self.call(&shared, item, &token, &points),
                lost: AtomicBool::new(false),
            };
            self.hold(&operation).await;
        }
    }

    fn call<'c>(
        &'c self,
        shared: &'c Shared,
        item: u32,
        token: &'c str,
        points: &'c Struck<'c>,
    ) -> Call<'c> {
        Call {
            conn: &self.conn,
            key: &shared.keys[item as usize],
            token,
            points,
        }
    }

    /// Asks once for the lock.
    async fn attempt(&self, op: OpId, call: &Call<'_>) -> Option<()> {
        self.record(Kind::Asked { op });
        let (event, granted) = match self.shared.lock.acquire(call).await {
            Acquire::Granted { ttl, locked } => {
                let ttl_ns = ttl.map(crate::clock::nanos);
                (Kind::Granted { op, ttl_ns, locked }, Some(()))
            }
            Acquire::Denied => (Kind::Denied { op }, None),
            Acquire::Failed(error) => (Kind::AcquireFailed { op, error }, None),
            Acquire::Unknown(error) => (Kind::AcquireUnknown { op, error }, None),
        };
        self.record(event);
        granted
    }

    /// Waits for the next attempt as the plan says, or tells why there is none.
    async fn retry(&mut self, arrived: Time) -> Option<GiveUp> {
        let Wait::Retry {
            every_ns,
            jitter,
            give_up_after_ns,
        } = self.shared.plan.lock.wait
        else {
            return Some(GiveUp::Policy);
        };
        let away = 1.0 + jitter * self.rng.random_range(-1.0..=1.0);
        let pause = Duration::from_nanos(every_ns).mul_f64(away);
        let waited = self.shared.recorder.clock().now().since(arrived);
        if waited + pause > Duration::from_nanos(give_up_after_ns) {
            return Some(GiveUp::Policy);
        }
        (!self.wait(pause).await).then_some(GiveUp::RunEnded)
    }

    /// The section under its watchdog, then the release.
    async fn hold(&self, operation: &Operation<'_>) {
        let op = operation.op;
        self.record(Kind::Entered { op });
        let section = self.section(operation);
        match self.shared.lock.watchdog() {
            None => section.await,
            Some(watchdog) => tokio::select! {
                biased;
                () = section => {}
                () = self.watch(watchdog, operation) => {}
            },
        }
        self.record(Kind::Left { op });
        operation.call.points.reached(Point::BeforeRelease).await;
        self.record(Kind::ReleaseAsked { op });
        let outcome = self.shared.lock.release(&operation.call).await;
        self.record(Kind::Released { op, outcome });
    }

    /// Read, work, write: check and act are two statements, as in the incident.
    async fn section(&self, operation: &Operation<'_>) {
        let (op, item) = (operation.op, operation.item);
        let mut interest = self.shared.load.reading(item);
        let seen = match self.shared.store.read(item).await {
            Ok(value) => value,
            Err(error) => return self.store_failed(op, error.to_string()),
        };
        self.record(Kind::Read {
            op,
            item,
            value: seen,
        });
        interest.read(seen);
        if seen <= 0 {
            return;
        }
        let work = self.draw_work();
        self.record(Kind::Working {
            op,
            work_ns: crate::clock::nanos(work),
        });
        operation.call.points.reached(Point::InSection).await;
        self.shared.recorder.clock().sleep(work).await;
        self.write(operation, seen, &interest).await;
    }

    fn draw_work(&self) -> Duration {
        let section = self.section.lock();
        section.unwrap_or_else(PoisonError::into_inner).draw()
    }

    async fn write(&self, operation: &Operation<'_>, seen: i64, _while_it_lives: &Interest<'_>) {
        let (op, item) = (operation.op, operation.item);
        let wrote = |replaced, effect| Kind::Wrote {
            op,
            item,
            seen,
            replaced,
            effect,
        };
        if self.shared.plan.heeds_lost_lease && operation.lost.load(Ordering::Relaxed) {
            self.record(wrote(seen, Effect::Withheld));
            return;
        }
        let write = Write {
            op,
            instance: self.instance,
            worker: self.number,
            at: self.shared.recorder.clock().now(),
            item,
            seen,
        };
        match self.shared.store.write(write).await {
            Ok(written) => {
                let effect = Effect::Written {
                    rows: written.rows,
                    rejected: written.rejected,
                };
                self.record(wrote(written.replaced, effect));
            }
            Err(error) => self.store_failed(op, error.to_string()),
        }
    }

    fn store_failed(&self, op: OpId, error: String) {
        self.record(Kind::StoreFailed { op, error });
    }

    /// Renews the lease until the section is over; tells the section if the lease is lost. One
    /// failed renewal is no loss while the lease may still live.
    async fn watch(&self, watchdog: &dyn Watchdog, operation: &Operation<'_>) {
        let op = operation.op;
        let clock = self.shared.recorder.clock();
        let ttl = self.shared.plan.ttl();
        let mut asked = clock.now();
        let mut extended = asked;
        loop {
            clock.sleep_until(asked.plus(watchdog.every())).await;
            asked = self.record(Kind::RenewalAsked { op });
            match watchdog.renew(&operation.call).await {
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
        operation.lost.store(true, Ordering::Relaxed);
        self.record(Kind::LeaseLost { op });
        std::future::pending::<()>().await;
    }
}

/// The points of an operation, as the faults see them.
struct Struck<'a> {
    faults: &'a Arc<Faults>,
    instance: u32,
}

impl Points for Struck<'_> {
    fn reached(&self, point: Point) -> Boxed<'_, ()> {
        let struck = self.faults.reached(point, self.instance);
        Box::pin(async move {
            if struck {
                // Gives way once: the next poll finds the instance frozen, or dropped.
                tokio::task::yield_now().await;
            }
        })
    }
}

/// The lock of a plan.
pub fn lock_of(plan: &Plan) -> Option<Box<dyn Lock>> {
    lock::find(&plan.lock.kind).map(|entry| (entry.make)(plan.ttl()))
}
