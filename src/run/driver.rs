//! The driver of one trial: connects everybody, starts them together, watches, stops, drains,
//! and looks at what was left behind. Every wait in it is bounded.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::external::{rehearse, watch_sentinels};
use super::freeze::{Alive, End, Life};
use super::instance::{Instance, Shared, lock_of};
use super::lag;
use super::left_behind::look_for_keys;
use super::load::Load;
use super::overheard::overhear;
use super::pace::Pace;
use crate::client::{self, CONNECT, Conn, Patience, Server};
use crate::fault::{Faults, Instances};
use crate::history::Recorder;
use crate::history::event::{Kind, Stop};
use crate::plan::Plan;
use crate::store::Store;
use crate::topology::{Group, Seen, Servers};
use crate::workload;

/// Connections made at the same time; more would overrun the server's backlog.
const PACE: usize = 64;
/// How much longer than its longest section an instance may take to end.
const DRAIN: Duration = Duration::from_secs(5);
/// How long after it was lost a server is listened to again, wherever it is by then.
const LISTEN_AGAIN: Duration = Duration::from_millis(50);

/// Why a trial could not be run at all.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The plan names a lock that this oversold does not have.
    #[error("there is no lock \"{0}\"; `oversold list locks` tells which there are")]
    NoSuchLock(String),
    /// A worker could not connect.
    #[error("cannot connect to {0}: {1}")]
    Connect(Server, String),
    /// The user's own Redis does not allow what the lock does.
    #[error(
        "the lock {lock} may not do this at {place}: {why}\n  grant it there: `ACL SETUSER {user} {missing}`; \
             the README has the whole rule"
    )]
    Forbidden {
        /// The lock.
        lock: String,
        /// The server.
        place: Server,
        /// What the server said.
        why: String,
        /// To whom to grant it.
        user: String,
        /// What to grant.
        missing: String,
    },
}

struct Lives(Vec<Arc<Life>>);

impl Instances for Lives {
    fn freeze(&self, instance: u32) {
        self.0[instance as usize].freeze();
    }

    fn thaw(&self, instance: u32) {
        self.0[instance as usize].thaw();
    }

    fn wakes(&self, instance: u32) -> u64 {
        self.0[instance as usize].wakes()
    }

    fn crash(&self, instance: u32) -> bool {
        self.0[instance as usize].crash()
    }
}

/// Runs one trial to its end. All that happens goes to `recorder`; `stop` may end it early.
pub async fn run(
    plan: &Plan,
    servers: &mut Servers,
    store: Arc<dyn Store>,
    recorder: Recorder,
    mut stop: watch::Receiver<Option<Stop>>,
) -> Result<(), RunError> {
    let lock = lock_of(plan).ok_or_else(|| RunError::NoSuchLock(plan.lock.kind.clone()))?;
    let items = workload::items(&plan.workload);
    let finite = (!plan.workload.counts_up()).then_some(items);
    let reach = servers.reach();
    let keys = reach.key_names(&plan.workload);
    let ready = async {
        let nodes = connect(plan, &reach.servers()).await?;
        if reach.stay.is_some() {
            rehearse(plan, &*lock, &nodes, &reach, recorder.clock()).await?;
        }
        Ok(nodes)
    };
    let nodes = tokio::select! {
        biased;
        ready = ready => ready?,
        why = asked(&mut stop) => {
            // Nothing has been done that could be judged.
            recorder.record(Kind::Draining { why });
            recorder.record(Kind::Ended {});
            return Ok(());
        }
    };
    if let Some(why) = reach.stay.as_ref().and_then(|stay| stay.untold.clone()) {
        recorder.record(Kind::Untold { why });
    }
    let lives: Vec<_> = (0..plan.load.instances).map(|_| Life::new()).collect();
    let faults = Faults::new(
        plan,
        Arc::new(Lives(lives.clone())),
        reach.clone(),
        recorder.clone(),
    );
    let shared = Arc::new(Shared {
        plan: plan.clone(),
        lock,
        keys,
        items,
        store,
        load: Load::new(plan.most_operations(), finite),
        pace: (plan.schedule())
            .map(|starts| Pace::start(starts, plan.load.operations, recorder.clock())),
        recorder,
        faults,
    });
    overhear(&shared, &reach);
    let mut beside = JoinSet::new();
    beside.spawn(lag::watch(shared.recorder.clone(), plan.ttl()));
    // Servers that tell nothing need no listener.
    let telling = reach.stay.as_ref().is_none_or(|stay| stay.untold.is_none());
    for server in reach.servers_themselves() {
        if let (Server::Primary(sentinels), None) = (&server, &reach.group) {
            let (keys, recorder) = (shared.keys.clone(), shared.recorder.clone());
            beside.spawn(watch_sentinels(Arc::clone(sentinels), keys, recorder));
        }
        if telling {
            beside.spawn(listen(Arc::clone(&shared), server));
        }
    }
    if let Some(group) = &reach.group {
        beside.spawn(watch_primaries(Arc::clone(&shared), Arc::clone(group)));
    }
    shared.faults.prepare();
    let clock = shared.recorder.clock();
    let began = clock.now();
    for (fault, moments) in shared.faults.timed() {
        let faults = Arc::clone(&shared.faults);
        beside.spawn(async move {
            for moment in moments {
                let at = began.plus(Duration::from_nanos(moment.at_ns));
                clock.sleep_until(at).await;
                faults.strike_instance(fault, moment.instance);
            }
        });
    }
    let mut instances = start(&shared, nodes, &lives);
    let died = watch_over(&shared, &mut instances, servers, &mut stop).await;
    drain(&shared, &mut instances).await;
    // What is struck when the load ends is to be itself again before it is looked at.
    let _ = tokio::time::timeout(plan.longest_section() + DRAIN, shared.faults.settled()).await;
    let looked = match died {
        true => Ok(()),
        false => {
            let (connect, response) = (CONNECT, CONNECT);
            look_for_keys(&shared, &reach, Patience { connect, response }).await
        }
    };
    beside.shutdown().await;
    shared.faults.end().await;
    shared.recorder.record(match looked {
        Ok(()) => Kind::Ended {},
        Err(error) => Kind::KeysUnseen { error },
    });
    Ok(())
}

/// Every worker's own connections, one to each node, made at a pace that the servers can follow.
async fn connect(plan: &Plan, servers: &[Server]) -> Result<Vec<Arc<[Conn]>>, RunError> {
    let patience = Patience {
        connect: CONNECT,
        response: Duration::from_nanos(plan.lock.response_timeout_ns),
    };
    let one = async |server: &Server, worker: u32| {
        let name = format!("oversold-{}-{worker}", worker % plan.load.instances);
        let opened = Conn::open_as(Some(name), server.clone(), patience).await;
        opened.map_err(|error| RunError::Connect(server.clone(), error.to_string()))
    };
    stream::iter(0..plan.load.workers)
        .map(async |worker| {
            let mut conns = Vec::with_capacity(servers.len());
            for server in servers {
                conns.push(one(server, worker).await?);
            }
            Ok(Arc::from(conns))
        })
        .buffered(PACE)
        .try_collect()
        .await
}

fn start(shared: &Arc<Shared>, nodes: Vec<Arc<[Conn]>>, lives: &[Arc<Life>]) -> JoinSet<End> {
    let mut workers: Vec<Vec<_>> = lives.iter().map(|_| Vec::new()).collect();
    for (number, nodes) in nodes.into_iter().enumerate() {
        workers[number % lives.len()].push((number as u32, nodes));
    }
    let mut instances = JoinSet::new();
    for ((number, workers), life) in workers.into_iter().enumerate().zip(lives) {
        let instance = Instance {
            number: number as u32,
            workers,
            shared: Arc::clone(shared),
        };
        let (number, recorder) = (instance.number, shared.recorder.clone());
        let alive = Alive::new(Arc::clone(life), instance.run());
        let late = lag::watch_instance(recorder.clone(), shared.plan.ttl(), number);
        instances.spawn(async move {
            let end = with_its_lag(alive, late).await;
            if end == End::Crashed {
                recorder.record(Kind::Crashed { instance: number });
            }
            end
        });
    }
    instances
}

/// An instance and the look at its lag, in one task: what keeps back the one keeps back the other.
/// Each has a waker of its own, so that an instance is not polled for the other's sake.
async fn with_its_lag(
    alive: impl Future<Output = End> + Send + 'static,
    late: impl Future<Output = ()> + Send + 'static,
) -> End {
    let ends: [BoxFuture<'_, Option<End>>; 2] =
        [Box::pin(alive.map(Some)), Box::pin(late.map(|()| None))];
    let mut both: FuturesUnordered<_> = ends.into_iter().collect();
    let first = both.next().await.flatten();
    // The look at the lag never ends.
    first.unwrap_or(End::Done)
}

/// Waits for the first reason to stop. True if it is that the server died.
async fn watch_over(
    shared: &Arc<Shared>,
    instances: &mut JoinSet<End>,
    servers: &mut Servers,
    stop: &mut watch::Receiver<Option<Stop>>,
) -> bool {
    let mut crashed = 0;
    let all_ended = async {
        let mut total = 0;
        while let Some(end) = instances.join_next().await {
            total += 1;
            crashed += u32::from(!matches!(end, Ok(End::Done)));
        }
        if crashed == total {
            Stop::NobodyLeft
        } else {
            Stop::OperationsDone
        }
    };
    let why = tokio::select! {
        biased;
        why = shared.load.stopped() => why,
        why = asked(stop) => why,
        why = servers.died() => {
            shared.recorder.record(Kind::ServerDied { why });
            Stop::ServerDied
        }
        () = tokio::time::sleep(shared.plan.issues_for()) => Stop::DurationOver,
        why = all_ended => why,
    };
    shared.recorder.record(Kind::Draining { why: why.clone() });
    shared.load.stop(why.clone());
    if let Some(pace) = &shared.pace {
        pace.stop();
    }
    why == Stop::ServerDied
}

/// Waits until somebody asks for an early end.
async fn asked(stop: &mut watch::Receiver<Option<Stop>>) -> Stop {
    let why = stop.wait_for(Option::is_some).await.map(|why| why.clone());
    match why {
        Ok(why) => why.unwrap_or(Stop::OperationsDone),
        // Nobody is left who could interrupt.
        Err(_) => std::future::pending().await,
    }
}

/// Lets every instance finish the operation that it is in, within bounds.
async fn drain(shared: &Arc<Shared>, instances: &mut JoinSet<End>) {
    let limit = shared.plan.longest_section() + client::longest_call(&shared.plan) + DRAIN;
    let all = async { while instances.join_next().await.is_some() {} };
    if tokio::time::timeout(limit, all).await.is_err() {
        let left = instances.len() as u32;
        shared.recorder.record(Kind::DrainCut { instances: left });
        instances.shutdown().await;
    }
}

/// Records what the server itself says of the locks' keys.
async fn listen(shared: Arc<Shared>, server: Server) {
    let keys = shared.keys.iter().zip(0u32..);
    let keys: HashMap<String, u32> = keys.map(|(name, key)| (name.clone(), key)).collect();
    let recorder = shared.recorder.clone();
    drop(shared);
    loop {
        // Without it the run goes on: what the server says helps to name a cause, it decides
        // nothing.
        let _ = client::listen(&server, |name, did| {
            if let Some(key) = keys.get(name) {
                recorder.record(Kind::Server { key: *key, did });
            }
        })
        .await;
        tokio::time::sleep(LISTEN_AGAIN).await;
    }
}

/// Records who is the primary, whenever that changes.
async fn watch_primaries(shared: Arc<Shared>, group: Arc<Group>) {
    let (keys, recorder) = (shared.keys.clone(), shared.recorder.clone());
    drop(shared);
    let watching = group.watch(&keys, |seen| {
        recorder.record(match seen {
            Seen::Promoted(promotion) => Kind::Promoted {
                server: promotion.address.to_string(),
                held: promotion.held.clone(),
            },
            Seen::Two(split) => Kind::TwoPrimaries {
                servers: split.servers.map(|server| server.to_string()).to_vec(),
                both: split.both.clone(),
            },
            Seen::One(server) => Kind::OnePrimary {
                server: server.to_string(),
            },
        });
    });
    watching.await;
}
