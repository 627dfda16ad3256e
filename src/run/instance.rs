//! One simulated application process: its workers and their watchdogs. All of it is one future, so
//! that a freeze stops all of it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;

use super::load::Load;
use super::pace::Pace;
use super::worker::Worker;
use crate::client::Conn;
use crate::fault::Faults;
use crate::history::Recorder;
use crate::lock::{self, Boxed, Lock};
use crate::plan::Plan;
use crate::scenario::dist::Sampler;
use crate::seed::Seed;
use crate::store::Store;

/// What all instances of a run share.
pub(super) struct Shared {
    /// What was planned.
    pub(super) plan: Plan,
    /// The lock.
    pub(super) lock: Box<dyn Lock>,
    /// The lock keys.
    pub(super) keys: Vec<String>,
    /// How many items there are.
    pub(super) items: u32,
    /// The business's database.
    pub(super) store: Arc<dyn Store>,
    /// Where events go.
    pub(super) recorder: Recorder,
    /// The load.
    pub(super) load: Load,
    /// When operations are planned to start; absent in a closed loop.
    pub(super) pace: Option<Pace>,
    /// The faults.
    pub(super) faults: Arc<Faults>,
}

/// The section lengths of one instance: its workers draw from it in turn.
#[derive(Clone)]
pub(super) struct Sections(Arc<Mutex<Sampler>>);

impl Sections {
    /// The next one.
    pub(super) fn draw(&self) -> Duration {
        let sampler = self.0.lock();
        sampler.unwrap_or_else(PoisonError::into_inner).draw()
    }
}

/// Futures of an instance that no worker waits for.
pub(super) type Strays = mpsc::UnboundedSender<Boxed<'static, ()>>;

/// One instance before it runs.
pub(super) struct Instance {
    /// Its number.
    pub(super) number: u32,
    /// Its workers' numbers and connections, one to each node.
    pub(super) workers: Vec<(u32, Arc<[Conn]>)>,
    /// What all share.
    pub(super) shared: Arc<Shared>,
}

impl Instance {
    /// Runs until its workers have nothing more to do.
    pub(super) async fn run(self) {
        let plan = &self.shared.plan;
        let stream = Seed(plan.seed).stream("section", u64::from(self.number));
        let sampler = Sampler::new(&plan.section, stream);
        let sections = Sections(Arc::new(Mutex::new(sampler)));
        let (strays, mut astray) = mpsc::unbounded_channel();
        let workers = self.workers.into_iter().map(|(number, nodes)| {
            let (shared, sections) = (Arc::clone(&self.shared), sections.clone());
            Worker::new(number, self.number, nodes, shared, sections, strays.clone()).run()
        });
        let mut workers: FuturesUnordered<_> = workers.collect();
        let mut straying = FuturesUnordered::new();
        loop {
            tokio::select! {
                ended = workers.next() => if ended.is_none() { return },
                Some(stray) = astray.recv() => straying.push(stray),
                Some(()) = straying.next() => {}
            }
        }
    }
}

/// The lock of a plan.
pub(super) fn lock_of(plan: &Plan) -> Option<Box<dyn Lock>> {
    let entry = lock::find(&plan.lock.kind)?;
    let lock = (entry.make)(plan.made_ttl());
    // Independent nodes have no replicas, and what keeps no key has nothing to replicate.
    let one_primary = entry.excludes && !entry.quorum;
    Some(match plan.lock.acknowledged.filter(|_| one_primary) {
        Some(how) => lock::acknowledged(lock, how),
        None => lock,
    })
}
