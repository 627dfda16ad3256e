//! One worker: it issues operations one after the other. An operation waits for the lock, and then
//! holds it or gives up.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::ChaCha8Rng;

use super::instance::{Sections, Shared, Strays};
use super::operation::Operation;
use crate::client::Conn;
use crate::clock::Time;
use crate::history::OpId;
use crate::history::event::{GiveUp, Kind};
use crate::scenario::Mistake;
use crate::scenario::dist::Sampler;
use crate::seed::Seed;
use crate::workload;

/// A worker before it runs.
pub(super) struct Worker {
    /// Its number.
    pub(super) number: u32,
    /// Its instance.
    pub(super) instance: u32,
    owner: String,
    nodes: Arc<[Conn]>,
    /// What all workers share.
    pub(super) shared: Arc<Shared>,
    /// How long its sections take.
    pub(super) section: Sections,
    think: Sampler,
    /// The jitter of its waits.
    pub(super) wait: ChaCha8Rng,
    choice: ChaCha8Rng,
    /// Where watchdogs go that nobody stops (a mistake).
    pub(super) strays: Strays,
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
        while let Some((op, planned)) = self.next().await {
            let Some(item) = self.next_item(op).await else {
                return;
            };
            self.operation(op, item, planned).await;
            let pause = self.think.draw();
            if !pause.is_zero() && !self.pause(pause).await {
                return;
            }
        }
    }

    /// The next operation that nobody else issues, and when it was planned to begin; waits until
    /// then.
    async fn next(&self) -> Option<(OpId, Option<Time>)> {
        let Some(pace) = &self.shared.pace else {
            return Some((self.shared.load.next()?, None));
        };
        pace.due().await?;
        let op = self.shared.load.next()?;
        Some((op, Some(pace.planned(op))))
    }

    /// What the operation is about; waits until it is due.
    async fn next_item(&mut self, op: OpId) -> Option<u32> {
        let shared = Arc::clone(&self.shared);
        let draw = self.choice.random_range(0..shared.items);
        let (plan, worker) = (&shared.plan, self.number);
        let place = workload::place(&plan.workload, op, worker, plan.load.instances, draw);
        let due = Time::default().plus(place.due);
        let now = shared.recorder.clock().now();
        if due > now && !self.pause(due.since(now)).await {
            return None;
        }
        Some(place.item)
    }

    /// Waits, unless the run stops first: then false.
    pub(super) async fn pause(&self, pause: Duration) -> bool {
        let clock = self.shared.recorder.clock();
        tokio::select! {
            biased;
            _ = self.shared.load.stopped() => false,
            () = clock.sleep(pause) => true,
        }
    }

    pub(super) fn record(&self, event: Kind) -> Time {
        self.shared.recorder.record(event)
    }

    pub(super) fn mistake(&self) -> Option<Mistake> {
        self.shared.plan.lock.mistake
    }

    async fn operation(&mut self, op: OpId, item: u32, planned: Option<Time>) {
        let operation = Arc::new(Operation {
            op,
            item,
            instance: self.instance,
            worker: self.number,
            token: format!("{}-{}-{op}", self.instance, self.number),
            owner: self.owner.clone(),
            nodes: Arc::clone(&self.nodes),
            shared: Arc::clone(&self.shared),
            lost: AtomicBool::default(),
        });
        let arrived = self.record(Kind::Arrived {
            op,
            instance: self.instance,
            worker: self.number,
            key: workload::key_of(&self.shared.plan.workload, item),
            planned_ns: planned,
        });
        match self.acquire(&operation, arrived).await {
            Ok(grant) => self.hold(&operation, grant).await,
            Err(why) => {
                // Who is cancelled tidies up nothing.
                if why != GiveUp::Cancelled {
                    operation.abandon().await;
                }
                if self.mistake() == Some(Mistake::ReleaseUnacquired) {
                    operation.release().await;
                }
                self.record(Kind::GaveUp { op, why });
            }
        }
    }
}
