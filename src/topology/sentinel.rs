//! A primary, its replicas and three Sentinels, each behind a link of its own and known to the
//! others by that link's port, so that whatever they tell each other passes a link too.
//! (<https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/>)

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, try_join_all};
use tokio::sync::watch;

use super::machine::Machine;
use super::primaries::{Promotion, Split};
use super::process::{Binary, Process, StartError};
use super::recipe::Job;
use super::servers::Running;
use crate::client::{Conn, Outcome, Patience, Sentinels};
use crate::link::Door;

/// How many Sentinels there are: the least that can lose one.
const SENTINELS: usize = 3;
/// How many of them must agree that the primary is down.
const QUORUM: usize = 2;
/// The name under which they know the primary.
const NAME: &str = "oversold";
/// How much longer than the one before each next Sentinel hears nothing of a server until it takes it
/// for down: three that start a vote in one moment may elect nobody.
const LATER_MS: u32 = 200;
/// How often they tell each other what they know, once they do. Four times as long a server may call
/// itself a primary against what a Sentinel knows: then it makes it a replica again. That must be
/// longer than the one that promotes it takes to tell of it, which may have to connect anew first
/// (a second, its ping period).
const PUBLISH_MS: u32 = 500;
/// How long a failover may take until another one is tried.
const FAILOVER_MS: u64 = 3000;
/// How long all may take until they know each other.
const READY: Duration = Duration::from_secs(15);
/// How often it is looked at.
pub(super) const LOOK: Duration = Duration::from_millis(10);

pub(super) const PATIENCE: Patience = Patience {
    connect: Duration::from_secs(2),
    response: Duration::from_secs(2),
};

/// A primary with its replicas and Sentinels.
#[derive(Debug)]
pub struct Group {
    /// The first one is the primary at the start.
    pub(super) nodes: Vec<Arc<Machine>>,
    /// The Sentinels.
    watchers: Vec<Arc<Machine>>,
    /// How clients ask them.
    sentinels: Arc<Sentinels>,
    pub(super) promoted: watch::Sender<Option<Promotion>>,
    pub(super) split: watch::Sender<Option<Split>>,
}

/// Starts them. They are ready when the primary has its replicas and every Sentinel sees all.
pub(super) async fn raise(
    binary: &Binary,
    options: &[String],
    (replicas, min_replicas_to_write, down_after_ms): (u32, u32, u32),
) -> Result<(Vec<Running>, Arc<Group>), StartError> {
    let mut options = options.to_vec();
    options.extend(words(&format!(
        "--min-replicas-to-write {min_replicas_to_write} --min-replicas-max-lag 1 \
         --repl-diskless-sync yes --repl-diskless-sync-delay 0 --repl-ping-replica-period 1"
    )));
    let primary = node(binary, &options, None).await?;
    let of = Some(primary.machine.address());
    let starting = (0..replicas).map(|_| node(binary, &options, of));
    let mut running = vec![primary];
    running.extend(try_join_all(starting).await?);
    let nodes: Vec<_> = running.iter().map(|one| Arc::clone(&one.machine)).collect();
    // A Sentinel asks a primary for its replicas when it first sees it, and then only every ten
    // seconds.
    until(binary, "the replicas are online", async || {
        online(&nodes[0], replicas).await
    })
    .await?;
    let starting = (0..SENTINELS as u32).map(|number| {
        let down_after = down_after_ms + number * LATER_MS;
        sentinel(binary, down_after, nodes[0].address())
    });
    let sentinels = try_join_all(starting).await?;
    let watchers = sentinels.iter().map(|one| Arc::clone(&one.machine));
    let watchers: Vec<_> = watchers.collect();
    running.extend(sentinels);
    until(binary, "the Sentinels see all", async || {
        let looks = watchers.iter().map(|one| sees_all(one.own, replicas));
        join_all(looks).await.into_iter().all(|sees| sees)
    })
    .await?;
    until(binary, "the replicas hear of each write", async || {
        hear(&nodes[0], replicas).await
    })
    .await?;
    for watcher in &watchers {
        set_periods(watcher.own, &[("PUBLISH-PERIOD", PUBLISH_MS)]).await;
    }
    let places = watchers.iter().map(|one| one.address().into()).collect();
    let sentinels = Sentinels::new(NAME, places, Arc::default());
    let group = Group {
        nodes,
        watchers,
        sentinels: Arc::new(sentinels),
        promoted: watch::Sender::new(None),
        split: watch::Sender::new(None),
    };
    Ok((running, Arc::new(group)))
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

async fn door(binary: &Binary) -> Result<Door, StartError> {
    let io = |why| StartError::Io(binary.path.clone(), why);
    Door::open().await.map_err(io)
}

/// A primary, or a replica of one.
async fn node(
    binary: &Binary,
    options: &[String],
    of: Option<SocketAddr>,
) -> Result<Running, StartError> {
    let door = door(binary).await?;
    let mut options = options.to_vec();
    let port = door.address().port();
    options.extend(words(&format!(
        "--replica-announce-ip 127.0.0.1 --replica-announce-port {port}"
    )));
    if let Some(of) = of {
        options.extend(words(&format!("--replicaof {} {}", of.ip(), of.port())));
    }
    let process = Process::start(binary, Job::Server(&options)).await?;
    Ok(behind(door, process))
}

async fn sentinel(
    binary: &Binary,
    down_after: u32,
    primary: SocketAddr,
) -> Result<Running, StartError> {
    let door = door(binary).await?;
    let configuration = format!(
        "sentinel announce-ip 127.0.0.1\n\
         sentinel announce-port {}\n\
         sentinel monitor {NAME} {} {} {QUORUM}\n\
         sentinel down-after-milliseconds {NAME} {down_after}\n\
         sentinel failover-timeout {NAME} {FAILOVER_MS}\n\
         sentinel parallel-syncs {NAME} 9\n",
        door.address().port(),
        primary.ip(),
        primary.port(),
    );
    let process = Process::start(binary, Job::Sentinel(&configuration)).await?;
    // They hear of each other every two seconds, and of replicas every ten. (Their ping period stays:
    // how fresh a replica must be to be promoted is reckoned by it.)
    let hurry = [
        ("PUBLISH-PERIOD", 100),
        ("INFO-PERIOD", 200),
        ("ASK-PERIOD", 100),
    ];
    set_periods(process.address, &hurry).await;
    Ok(behind(door, process))
}

/// How often a Sentinel does things. Redis 7.0 can be told; an older one takes its own time.
async fn set_periods(sentinel: SocketAddr, periods: &[(&str, u32)]) {
    if let Ok(conn) = Conn::open(sentinel, PATIENCE).await {
        let mut set = redis::cmd("SENTINEL");
        set.arg("DEBUG");
        for (name, milliseconds) in periods {
            set.arg(*name).arg(*milliseconds);
        }
        let _: Outcome<()> = conn.call(&set).await;
    }
}

fn behind(door: Door, process: Process) -> Running {
    let link = door.lead_to(process.address);
    let machine = Machine::new(&process, Some(link));
    Running::new(process, Arc::new(machine))
}

async fn until(
    binary: &Binary,
    what: &str,
    ready: impl AsyncFn() -> bool,
) -> Result<(), StartError> {
    let began = Instant::now();
    while !ready().await {
        if began.elapsed() > READY {
            let missing = format!("not yet: {what}");
            return Err(StartError::NotReady(binary.path.clone(), READY, missing));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// Whether a primary has so many replicas that follow it.
async fn online(primary: &Machine, replicas: u32) -> bool {
    let Ok(conn) = Conn::open(primary.own, PATIENCE).await else {
        return false;
    };
    let mut info = redis::cmd("INFO");
    info.arg("replication");
    match conn.call::<String>(&info).await {
        Outcome::Done(info) => info.matches("state=online").count() == replicas as usize,
        _ => false,
    }
}

/// Whether all replicas of a primary hear of what is written. One that calls itself online gets nothing
/// yet where the primary waits for its first acknowledgement, which comes once a second.
async fn hear(primary: &Machine, replicas: u32) -> bool {
    let Ok(conn) = Conn::open(primary.own, PATIENCE).await else {
        return false;
    };
    let mut probe = redis::cmd("SET");
    probe.arg("oversold:probe").arg(1).arg("PX").arg(1);
    let mut wait = redis::cmd("WAIT");
    wait.arg(replicas).arg(LOOK.as_millis() as u64);
    let _: Outcome<()> = conn.call(&probe).await;
    conn.call::<u32>(&wait).await == Outcome::Done(replicas)
}

/// Whether a Sentinel sees the primary, its replicas and the other Sentinels, all of them well.
async fn sees_all(sentinel: SocketAddr, replicas: u32) -> bool {
    let Ok(conn) = Conn::open(sentinel, PATIENCE).await else {
        return false;
    };
    let ask = |what: &str| {
        let mut ask = redis::cmd("SENTINEL");
        ask.arg(what).arg(NAME);
        ask
    };
    type Fields = HashMap<String, String>;
    let Outcome::Done(primary) = conn.call::<Fields>(&ask("MASTER")).await else {
        return false;
    };
    let all = async |what: &str, flags: &str, number: usize| match conn
        .call::<Vec<Fields>>(&ask(what))
        .await
    {
        Outcome::Done(found) => {
            let well = |one: &&Fields| one.get("flags").is_some_and(|found| found == flags);
            found.iter().filter(well).count() == number
        }
        _ => false,
    };
    primary.get("flags").is_some_and(|flags| flags == "master")
        && all("REPLICAS", "slave", replicas as usize).await
        && all("SENTINELS", "sentinel", SENTINELS - 1).await
}

impl Group {
    /// The primary of the start, and its replicas.
    pub fn nodes(&self) -> &[Arc<Machine>] {
        &self.nodes
    }

    /// The Sentinels.
    pub fn watchers(&self) -> &[Arc<Machine>] {
        &self.watchers
    }

    /// Whom clients ask for the primary.
    pub fn sentinels(&self) -> Arc<Sentinels> {
        Arc::clone(&self.sentinels)
    }

    /// The name under which the Sentinels know the primary.
    pub fn name(&self) -> &'static str {
        NAME
    }

    /// The epoch of the configuration in which a majority of the Sentinels names this address as
    /// the primary, if they do.
    pub async fn epoch(&self, primary: SocketAddr) -> Option<u64> {
        let asked = self.watchers.iter().map(|sentinel| async move {
            let conn = Conn::open(sentinel.own, PATIENCE).await.ok()?;
            let mut ask = redis::cmd("SENTINEL");
            ask.arg("MASTER").arg(NAME);
            let Outcome::Done(fields) = conn.call::<HashMap<String, String>>(&ask).await else {
                return None;
            };
            let named = fields.get("port")? == &primary.port().to_string();
            let epoch = fields.get("config-epoch")?.parse().ok()?;
            named.then_some(epoch)
        });
        let epochs: Vec<u64> = join_all(asked).await.into_iter().flatten().collect();
        let agreed = epochs.len() >= QUORUM;
        agreed.then(|| epochs.into_iter().max()).flatten()
    }
}
