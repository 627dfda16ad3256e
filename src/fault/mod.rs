//! Faults: one small file each. A fault is applied, proves that it landed, and is undone when its
//! guard is dropped. [`Faults`] knows which one is due where.

mod answer_error;
mod bandwidth;
mod client_kill;
mod client_pause;
mod clock_jump;
mod crash;
mod cut_off;
mod delay;
mod evict;
mod failover;
mod freeze;
mod graceful;
mod kill_server;
mod lose_reply;
mod lost_grant;
mod node;
mod on_links;
mod partition;
mod quorum;
mod refuse;
mod refuse_writes;
mod reset;
mod restart;
mod script_flush;
mod split_brain;
mod stop_server;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::history::Recorder;
use crate::history::event::Kind;
use crate::link::Guard;
use crate::plan::Plan;
use crate::scenario::{At, Fault, How, LinkFault, Point};
use crate::topology::Reach;
use crate::workload;

/// The instances of a run, as far as a fault may touch them.
pub trait Instances: Send + Sync {
    /// Stops an instance from making any progress.
    fn freeze(&self, instance: u32);
    /// Lets it go on, and tells how often it had wanted to while it was frozen.
    fn thaw(&self, instance: u32) -> u64;
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
pub static ALL: [Entry; 24] = [
    freeze::ENTRY,
    crash::ENTRY,
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
    quorum::RESTART,
    quorum::CLOCK,
];

/// The planned faults of a run, each of which strikes once.
pub struct Faults {
    plan: Vec<Fault>,
    /// How often each point was reached, in the order of [`Point::ALL`].
    reached: [AtomicU64; Point::ALL.len()],
    /// How many sections each instance has left.
    left: Vec<AtomicU64>,
    instances: Arc<dyn Instances>,
    /// The servers.
    reach: Reach,
    /// The lock, and its keys.
    lock: String,
    keys: Vec<String>,
    /// What was prepared for faults that strike next.
    // A std mutex and not tokio's: it is held to put one in or take it out.
    prepared: Mutex<HashMap<usize, Vec<Guard>>>,
    /// The answers that are to be lost.
    // The same: it is held for a look at one or two.
    losing: Mutex<Vec<lose_reply::Losing>>,
    /// How many servers are struck at present.
    struck: watch::Sender<u32>,
    /// How many failovers are in progress that a section is held up by.
    failing_over: watch::Sender<u32>,
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
        let keys =
            (0..workload::keys(&plan.workload)).map(|key| workload::key_name(&plan.workload, key));
        Arc::new(Faults {
            plan: plan.faults.clone(),
            reached: Default::default(),
            left: (0..plan.load.instances)
                .map(|_| AtomicU64::new(0))
                .collect(),
            instances,
            reach,
            lock: plan.lock.kind.clone(),
            keys: keys.collect(),
            prepared: Mutex::default(),
            losing: Mutex::default(),
            struck: watch::Sender::new(0),
            failing_over: watch::Sender::new(0),
            recorder,
        })
    }

    /// Prepares the faults that strike when the next operation gets as far as the last one has, or
    /// when the first one does.
    pub fn prepare(self: &Arc<Faults>, last: Option<(Point, u64)>) {
        for (fault, planned) in self.plan.iter().enumerate() {
            let At::Point { point, nth } = planned.at else {
                continue;
            };
            let next = match last {
                None => nth == 1,
                Some((reached, times)) => reached == point && times + 1 == nth,
            };
            let cut = match planned.how {
                How::LostGrant if next => lost_grant::stall(self, fault as u32),
                How::SplitBrain { .. } if next => split_brain::cut(self, fault as u32),
                _ => vec![],
            };
            if !cut.is_empty() {
                self.prepared().insert(fault, cut);
            }
            if next
                && let How::Server { node, fault: how } = planned.how
                && how.needs_majority()
            {
                quorum::cut(self, fault as u32, node);
            }
        }
    }

    /// How many sections an instance has left so far.
    fn sections_left(&self, instance: u32) -> u64 {
        let left = self.left.get(instance as usize);
        left.map_or(0, |left| left.load(Ordering::Relaxed))
    }

    fn prepared(&self) -> MutexGuard<'_, HashMap<usize, Vec<Guard>>> {
        self.prepared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An operation of a worker of `instance` is at `point`: strikes if a fault is due. True if it did, and the
    /// operation must not go on before its instance does.
    pub fn reached(self: &Arc<Faults>, point: Point, instance: u32, worker: u32) -> bool {
        if point == Point::BeforeAcquire {
            lose_reply::asks_anew(self, worker);
        }
        let place = Point::ALL.iter().position(|known| *known == point);
        let Some(counter) = place.and_then(|place| self.reached.get(place)) else {
            return false;
        };
        let times = counter.fetch_add(1, Ordering::Relaxed) + 1;
        if point == Point::BeforeRelease
            && let Some(left) = self.left.get(instance as usize)
        {
            left.fetch_add(1, Ordering::Relaxed);
        }
        let due = At::Point { point, nth: times };
        let due = self.plan.iter().position(|fault| fault.at == due);
        if let Some(fault) = due {
            self.strike(fault, instance, worker);
        }
        self.prepare(Some((point, times)));
        due.is_some()
    }

    /// The faults that strike at a time: which, when, and whom.
    pub fn timed(&self) -> Vec<(usize, u64, u32)> {
        let timed = self.plan.iter().enumerate();
        let timed = timed.filter_map(|(fault, planned)| match planned.at {
            At::Time { at_ns, instance } => Some((fault, at_ns, instance.unwrap_or(0))),
            At::Point { .. } => None,
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
        match self.plan[fault].how {
            How::Crash => crash::strike(self, number, instance),
            How::Freeze { for_ns } => freeze::strike(self, number, instance, for_ns),
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
        self.left.len() as u32
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
        tokio::spawn(async move {
            work.await;
            drop(over);
        });
    }

    /// Waits until no server is struck any more.
    pub async fn settled(&self) {
        let mut struck = self.struck.subscribe();
        // It cannot fail: the sender lives as long as this.
        let _ = struck.wait_for(|struck| *struck == 0).await;
    }

    fn began(&self, fault: u32, what: String) {
        self.recorder.record(Kind::FaultBegan { fault, what });
    }

    fn landed(&self, fault: u32, proof: String) {
        self.recorder.record(Kind::FaultLanded { fault, proof });
    }

    fn ended(&self, fault: u32) {
        self.recorder.record(Kind::FaultEnded { fault });
    }
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
