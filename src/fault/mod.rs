//! Faults: one small file each. A fault is applied, proves that it landed, and is undone when its
//! guard is dropped. [`Faults`] knows which one is due where.

mod answer_error;
mod answers;
mod bandwidth;
mod block_executor;
mod cancel;
mod client_clock;
mod client_kill;
mod client_pause;
mod clock_jump;
mod crash;
mod cut_off;
mod debug_sleep;
mod delay;
mod disk_full;
mod due;
mod evict;
mod failover;
mod freeze;
mod graceful;
mod grip;
mod instance;
mod kill_server;
mod lose_reply;
mod lost_grant;
mod no_memory;
mod node;
mod on_links;
mod partition;
mod permission;
mod quorum;
mod read_only;
mod refuse;
mod refuse_writes;
mod reset;
mod restart;
mod script_flush;
mod settings;
mod split_brain;
mod stall_watchdog;
mod stop_server;

pub use permission::commands;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::clock::LocalClock;
use crate::history::Recorder;
use crate::history::event::Kind;
use crate::link::Guard;
use crate::plan::Plan;
use crate::scenario::{At, Fault, How, LinkFault, Moment, Point, Reply, Seen};
use crate::topology::Reach;
use due::{Counts, Passing};
use grip::Grip;

/// The instances of a run, as far as a fault may touch them.
pub trait Instances: Send + Sync {
    /// Stops an instance from making any progress.
    fn freeze(&self, instance: u32);
    /// Lets it go on.
    fn thaw(&self, instance: u32);
    /// How often it has wanted to move since it was frozen.
    fn wakes(&self, instance: u32) -> u64;
    /// Ends an instance with all its connections; false if it had ended before.
    fn crash(&self, instance: u32) -> bool;
}

/// A kind of fault as the registry knows it.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Its name in scenarios.
    pub name: &'static str,
    /// One line for a list.
    pub about: &'static str,
}

/// Every fault there is. (Slow sections are no fault but the section's own distribution.)
pub static ALL: [Entry; 32] = [
    freeze::ENTRY,
    block_executor::ENTRY,
    crash::ENTRY,
    stall_watchdog::ENTRY,
    cancel::ENTRY,
    client_clock::ENTRY,
    refuse_writes::ENTRY,
    lost_grant::ENTRY,
    split_brain::ENTRY,
    graceful::ENTRY,
    partition::ENTRY,
    bandwidth::ENTRY,
    answer_error::ENTRY,
    lose_reply::ENTRY,
    cut_off::ENTRY,
    delay::ENTRY,
    reset::ENTRY,
    refuse::ENTRY,
    restart::ENTRY,
    kill_server::ENTRY,
    stop_server::ENTRY,
    clock_jump::ENTRY,
    script_flush::ENTRY,
    client_pause::ENTRY,
    client_kill::ENTRY,
    evict::ENTRY,
    read_only::ENTRY,
    disk_full::ENTRY,
    no_memory::ENTRY,
    debug_sleep::ENTRY,
    quorum::RESTART,
    quorum::CLOCK,
];

/// The planned faults of a run.
pub struct Faults {
    plan: Vec<Fault>,
    /// What they wait for, and how often it has come to pass.
    counts: Counts,
    /// The instance that each one has struck last, and one more; 0 for none.
    struck_last: Vec<AtomicU32>,
    /// What they can take hold of, of each instance.
    grips: Vec<Grip>,
    instances: Arc<dyn Instances>,
    /// The servers.
    reach: Reach,
    /// The lock, and its keys.
    lock: String,
    keys: Vec<String>,
    /// What was prepared for faults that strike next.
    // A std mutex and not tokio's: it is held to put one in or take it out.
    prepared: Mutex<HashMap<usize, Vec<Guard>>>,
    /// The answers to which something is to be done.
    // The same: it is held for a look at one or two.
    awaited: Mutex<Vec<answers::Awaited>>,
    /// The requests that are to be dropped, by their workers.
    cancelled: watch::Sender<Vec<(u32, Reply)>>,
    /// How many servers are struck at present.
    struck: watch::Sender<u32>,
    /// How many failovers are in progress that a section is held up by.
    failing_over: watch::Sender<u32>,
    /// What goes on for a while, each until it undoes what it did.
    // The same: they are held to put a task in, or to take all out.
    tasks: Mutex<JoinSet<()>>,
    /// What those still undo that were ended before their time.
    undoing: Mutex<JoinSet<()>>,
    recorder: Recorder,
}

impl Faults {
    /// The faults of a plan, none of which has struck yet.
    pub fn new(
        plan: &Plan,
        instances: Arc<dyn Instances>,
        reach: Reach,
        recorder: Recorder,
    ) -> Arc<Faults> {
        let keys = reach.key_names(&plan.workload);
        Arc::new(Faults {
            plan: plan.faults.clone(),
            counts: Counts::new(plan),
            struck_last: plan.faults.iter().map(|_| AtomicU32::new(0)).collect(),
            grips: (0..plan.load.instances)
                .map(|_| Grip::new(recorder.clock()))
                .collect(),
            instances,
            reach,
            lock: plan.lock.kind.clone(),
            keys,
            prepared: Mutex::default(),
            awaited: Mutex::default(),
            cancelled: watch::Sender::default(),
            struck: watch::Sender::new(0),
            failing_over: watch::Sender::new(0),
            tasks: Mutex::default(),
            undoing: Mutex::default(),
            recorder,
        })
    }

    /// Prepares the faults that strike when what they wait for comes to pass first.
    pub fn prepare(self: &Arc<Faults>) {
        for fault in Counts::first(&self.plan) {
            self.prepare_one(fault);
        }
    }

    /// Prepares a fault that strikes when what it waits for comes to pass next.
    fn prepare_one(self: &Arc<Faults>, fault: usize) {
        let number = fault as u32;
        let cut = match self.plan[fault].how {
            How::LostGrant => lost_grant::stall(self, number),
            How::SplitBrain { .. } => split_brain::cut(self, number),
            _ => vec![],
        };
        if !cut.is_empty() {
            self.prepared().insert(fault, cut);
        }
        if let How::Server { node, fault: how } = self.plan[fault].how
            && how.needs_majority()
        {
            quorum::cut(self, number, node);
        }
    }

    fn grip(&self, instance: u32) -> &Grip {
        // Only instances of the plan are struck, and pass by here.
        &self.grips[instance as usize]
    }

    /// What the locks of an instance take for the time.
    pub fn clock(&self, instance: u32) -> &LocalClock {
        &self.grip(instance).clock
    }

    /// A watchdog of an instance is due, or answered: returns when it may go on.
    pub async fn watchdog_passes(&self, instance: u32) {
        self.grip(instance).watchdogs.pass().await;
    }

    /// Waits until a worker's request of that sort is to be dropped; mostly for ever.
    pub async fn cancelled(&self, worker: u32, which: Reply) {
        cancel::of(self, worker, which).await;
    }

    /// How many sections an instance has left so far.
    fn sections_left(&self, instance: u32) -> u64 {
        self.grip(instance).left.load(Ordering::Relaxed)
    }

    fn prepared(&self) -> MutexGuard<'_, HashMap<usize, Vec<Guard>>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An operation of a worker of `instance` is at `point`: strikes if a fault is due. True if it did, and the
    /// operation must not go on before its instance does.
    pub fn reached(self: &Arc<Faults>, point: Point, instance: u32, worker: u32) -> bool {
        match point {
            Point::BeforeAcquire => answers::asks_anew(self, worker),
            Point::BeforeRelease => {
                let left = &self.grip(instance).left;
                left.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
        self.passed(Passing::Point(point), instance, worker)
    }

    /// The same when a worker has seen something of a key.
    pub fn seen(self: &Arc<Faults>, what: (Seen, u32), instance: u32, worker: u32) -> bool {
        self.passed(Passing::Seen(what.0, what.1), instance, worker)
    }

    fn passed(self: &Arc<Faults>, passing: Passing, instance: u32, worker: u32) -> bool {
        let due = self.counts.passed(&self.plan, passing, instance);
        for fault in &due.now {
            self.strike(*fault, instance, worker);
        }
        for fault in due.next {
            self.prepare_one(fault);
        }
        !due.now.is_empty()
    }

    /// The faults that strike at times, and their strikes in order.
    pub fn timed(&self) -> Vec<(usize, Box<dyn Iterator<Item = Moment> + Send>)> {
        let timed = self.plan.iter().enumerate();
        let timed = timed.filter_map(|(fault, planned)| {
            let moments: Box<dyn Iterator<Item = Moment> + Send> = match &planned.at {
                At::Time { at_ns, instance } => {
                    let instance = instance.unwrap_or(0);
                    let times = planned.repeat.times_from(*at_ns);
                    Box::new(times.map(move |at_ns| Moment { at_ns, instance }))
                }
                At::Random { drawn, .. } => Box::new(drawn.clone().into_iter()),
                At::Point { .. } | At::Seen { .. } => return None,
            };
            Some((fault, moments))
        });
        timed.collect()
    }

    /// Applies a fault to an instance, at a time.
    pub fn strike_instance(self: &Arc<Faults>, fault: usize, instance: u32) {
        // Whose workers' numbers do not matter then.
        self.strike(fault, instance, instance);
    }

    fn strike(self: &Arc<Faults>, fault: usize, instance: u32, worker: u32) {
        let number = fault as u32;
        let how = self.plan[fault].how;
        if how.strikes_an_instance() {
            self.struck_last[fault].store(instance + 1, Ordering::Relaxed);
        }
        match how {
            How::Instance { fault } => instance::strike(self, number, (instance, worker), fault),
            How::RefuseWrites { for_ns } => {
                refuse_writes::strike(self, number, for_ns);
            }
            How::LostGrant => {
                let stalled = self.prepared().remove(&fault).unwrap_or_default();
                lost_grant::strike(self, number, instance, stalled);
            }
            How::SplitBrain { for_ns } => {
                let cut = self.prepared().remove(&fault).unwrap_or_default();
                split_brain::strike(self, number, instance, for_ns, cut);
            }
            How::Graceful => graceful::strike(self, number),
            How::OnLink(fault) => self.strike_links(number, instance, fault),
            How::LoseReply { which } => lose_reply::strike(self, number, worker, which),
            How::CutOff { for_ns } => cut_off::strike(self, number, instance, for_ns),
            How::Delay { by_ns, for_ns } => delay::strike(self, number, instance, by_ns, for_ns),
            How::Reset { applied } => reset::strike(self, number, instance, applied),
            How::Refuse { for_ns } => refuse::strike(self, number, for_ns),
            How::Server { node, fault } => node::strike(self, number, node, fault),
        }
    }

    fn strike_links(self: &Arc<Faults>, number: u32, instance: u32, fault: LinkFault) {
        match fault {
            LinkFault::Partition {
                between,
                stops,
                for_ns,
            } => partition::strike(self, number, (between, stops), for_ns),
            LinkFault::Bandwidth { rate, for_ns } => {
                bandwidth::strike(self, number, instance, rate, for_ns);
            }
            LinkFault::AnswerError { error, for_ns } => {
                answer_error::strike(self, number, instance, error, for_ns);
            }
        }
    }

    /// How many instances there are in the plan.
    fn instances_planned(&self) -> u32 {
        self.grips.len() as u32
    }

    /// A failover begins that holds up the struck section, until what is returned is dropped.
    fn fails_over(&self) -> Over {
        Over::begin(&self.failing_over)
    }

    /// Waits until no failover holds up a section any more.
    pub async fn failed_over(&self) {
        let mut failing_over = self.failing_over.subscribe();
        // It cannot fail: the sender lives as long as this.
        let _ = failing_over.wait_for(|count| *count == 0).await;
    }

    /// Does something to a server, beside the instances. [`Faults::settled`] waits for its end.
    fn beside(self: &Arc<Faults>, work: impl Future<Output = ()> + Send + 'static) {
        let over = Over::begin(&self.struck);
        self.spawn(async move {
            work.await;
            drop(over);
        });
    }

    /// Has something go on for a while, until the end of the trial at most.
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        spawn_in(&self.tasks, work);
    }

    /// Undoes something when nobody waits for it any more. The end of the trial does.
    fn undo(&self, work: impl Future<Output = ()> + Send + 'static) {
        spawn_in(&self.undoing, work);
    }

    /// Ends what still goes on, by which it is undone: the servers may be another trial's next.
    pub async fn end(&self) {
        taken(&self.tasks).shutdown().await;
        let mut undoing = taken(&self.undoing);
        while undoing.join_next().await.is_some() {}
    }

    /// Waits until no server is struck any more.
    pub async fn settled(&self) {
        let mut struck = self.struck.subscribe();
        // It cannot fail: the sender lives as long as this.
        let _ = struck.wait_for(|struck| *struck == 0).await;
    }

    fn began(&self, fault: u32, what: String) {
        let struck = self.struck_last.get(fault as usize);
        let struck = struck.map_or(0, |struck| struck.load(Ordering::Relaxed));
        self.recorder.record(Kind::FaultBegan {
            fault,
            what,
            instance: struck.checked_sub(1),
        });
    }

    fn landed(&self, fault: u32, proof: String) {
        self.recorder.record(Kind::FaultLanded { fault, proof });
    }

    fn ended(&self, fault: u32) {
        self.recorder.record(Kind::FaultEnded { fault });
    }
}

fn spawn_in(tasks: &Mutex<JoinSet<()>>, work: impl Future<Output = ()> + Send + 'static) {
    let mut tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
    // Those that have ended are not kept.
    while tasks.try_join_next().is_some() {}
    tasks.spawn(work);
}

fn taken(tasks: &Mutex<JoinSet<()>>) -> JoinSet<()> {
    std::mem::take(&mut tasks.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Something that is counted while it goes on: until this is dropped.
struct Over(watch::Sender<u32>);

impl Over {
    fn begin(count: &watch::Sender<u32>) -> Over {
        count.send_modify(|count| *count += 1);
        Over(count.clone())
    }
}

impl Drop for Over {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
