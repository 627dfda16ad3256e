//! The newer locks against real servers: Redisson's protocol as a client of another make speaks it,
//! Redlock with nodes that are down, slow or late, the queue of the fair lock, fencing tokens, and
//! what every lock must bear. The hand-written clients send raw commands on connections of their
//! own. Every wait is bounded.

#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::future::ready;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use oversold::client::{Conn, Patience};
use oversold::clock::Clock;
use oversold::history::event::{Event, Kind, Release};
use oversold::history::recorder;
use oversold::lock::{self, Acquire, Boxed, Call, Lease, Lock, Points, Renewal, WakeUp};
use oversold::plan::{Overrides, Plan};
use oversold::run;
use oversold::scenario::{Point, Scenario};
use oversold::store::sqlite::Sqlite;
use oversold::topology::{self, Servers};
use redis::FromRedisValue;
use redis::aio::MultiplexedConnection;

const KEY: &str = "stock:lock:sku_10086";
/// Where its fencing tokens are drawn: in its hash slot.
const COUNTER: &str = "stock:lock:sku_10086:fence:{stock:lock:sku_10086}";
/// Longer than any of these tests: a lease of it does not end by itself.
const LONG: Duration = Duration::from_secs(60);
/// Nothing that is waited for here takes longer, unless it is broken.
const SOON: Duration = Duration::from_secs(15);
/// How often something that is waited for is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// No fault strikes anywhere.
struct Calm;

impl Points for Calm {
    fn reached(&self, _: Point) -> Boxed<'_, ()> {
        Box::pin(ready(()))
    }
}

/// The servers of one test, and who asks them.
struct World {
    servers: Servers,
    /// Where they listen; also those that were killed since.
    addresses: Vec<std::net::SocketAddr>,
    clock: Clock,
}

impl World {
    async fn of(nodes: u32) -> World {
        let binary = topology::find(None).expect("a redis-server on PATH");
        let servers = Servers::start(&binary, nodes, 64).await.expect("servers");
        World {
            addresses: servers.addresses(),
            servers,
            clock: Clock::start(),
        }
    }

    async fn client(&self, name: &str) -> Client {
        self.client_with_patience(name, Duration::from_secs(5))
            .await
    }

    async fn client_with_patience(&self, name: &str, response: Duration) -> Client {
        let patience = Patience {
            connect: Duration::from_secs(5),
            response,
        };
        let conns = self.addresses.iter().map(|at| Conn::open(*at, patience));
        let conns = join_all(conns).await;
        Client {
            nodes: conns.into_iter().map(Result::unwrap).collect(),
            clock: self.clock,
            token: name.to_owned(),
            owner: format!("{name}:1"),
        }
    }

    /// A hand-written client's connection to one node.
    async fn by_hand(&self, node: usize) -> Hand {
        let client = redis::Client::open(format!("redis://{}", self.addresses[node])).unwrap();
        // It is to wait for a node that is slow on purpose.
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(Some(SOON));
        let conn = client.get_multiplexed_async_connection_with_config(&config);
        Hand(conn.await.unwrap())
    }

    async fn all_by_hand(&self) -> Vec<Hand> {
        join_all((0..self.addresses.len()).map(|node| self.by_hand(node))).await
    }

    /// Messages on a channel of the first node, on a connection of its own.
    async fn subscribe(&self, channel: &str) -> redis::aio::PubSub {
        let client = redis::Client::open(format!("redis://{}", self.addresses[0])).unwrap();
        let mut pubsub = client.get_async_pubsub().await.unwrap();
        pubsub.subscribe(channel).await.unwrap();
        pubsub
    }

    /// One node stands still until the answer is dropped; what is sent to it waits in its socket.
    fn halt(&self, node: usize) -> Halted {
        let pid = Pid::from_raw(self.servers.pids()[node] as i32);
        kill(pid, Signal::SIGSTOP).unwrap();
        Halted(pid)
    }
}

struct Halted(Pid);

impl Drop for Halted {
    fn drop(&mut self) {
        let _ = kill(self.0, Signal::SIGCONT);
    }
}

/// A client of ours: its connections, and who it is.
struct Client {
    nodes: Vec<Conn>,
    clock: Clock,
    token: String,
    owner: String,
}

impl Client {
    fn call(&self) -> Call<'_> {
        self.call_as(&self.token)
    }

    fn call_as<'a>(&'a self, token: &'a str) -> Call<'a> {
        Call {
            nodes: &self.nodes,
            clock: self.clock.into(),
            key: KEY,
            token,
            owner: &self.owner,
            pause: Duration::ZERO,
            points: &Calm,
        }
    }

    async fn acquire(&self, lock: &dyn Lock) -> Acquire {
        lock.acquire(&self.call()).await
    }

    async fn is_granted(&self, lock: &dyn Lock) -> Lease {
        match self.acquire(lock).await {
            Acquire::Granted(lease) => lease,
            other => panic!("{} was not granted the lock: {other:?}", self.token),
        }
    }

    /// It is refused; tells after how long it is to ask again.
    async fn is_denied(&self, lock: &dyn Lock) -> Option<Duration> {
        match self.acquire(lock).await {
            Acquire::Denied(again) => again,
            other => panic!("{} was not refused {lock:?}: {other:?}", self.token),
        }
    }

    async fn release(&self, lock: &dyn Lock) -> Release {
        lock.release(&self.call()).await
    }

    async fn renew(&self, lock: &dyn Lock) -> Renewal {
        let watchdog = lock.watchdog().expect("it has a watchdog");
        watchdog.renew(&self.call()).await
    }
}

/// A hand-written client: commands as a user would type them.
#[derive(Clone)]
struct Hand(MultiplexedConnection);

impl Hand {
    async fn say<T: FromRedisValue>(&self, words: &str) -> T {
        self.try_say(words).await.expect(words)
    }

    async fn try_say<T: FromRedisValue>(&self, words: &str) -> redis::RedisResult<T> {
        let mut words = words.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        words.for_each(|word| {
            command.arg(word);
        });
        command.query_async(&mut self.0.clone()).await
    }

    async fn pttl(&self) -> i64 {
        self.say(&format!("PTTL {KEY}")).await
    }

    async fn exists(&self) -> bool {
        self.say(&format!("EXISTS {KEY}")).await
    }

    /// Takes the lock as Redisson does, for an owner.
    async fn takes(&self, owner: &str, lease: Duration) {
        let holds: i64 = self.say(&format!("HINCRBY {KEY} {owner} 1")).await;
        assert_eq!(holds, 1, "it was free");
        self.leases(lease).await;
    }

    async fn leases(&self, lease: Duration) {
        let lease = lease.as_millis();
        assert_eq!(self.say::<i64>(&format!("PEXPIRE {KEY} {lease}")).await, 1);
    }

    /// Gives it back as Redisson does, and tells how many heard of it.
    async fn gives_back(&self) -> i64 {
        assert_eq!(self.say::<i64>(&format!("DEL {KEY}")).await, 1);
        self.say(&format!("PUBLISH {CHANNEL} 0")).await
    }
}

fn lock(name: &str, ttl: Duration) -> Box<dyn Lock> {
    (lock::find(name).expect("a lock of that name").make)(ttl)
}

/// Looks until it is so.
async fn until(what: &str, so: impl AsyncFn() -> bool) {
    let began = Instant::now();
    while !so().await {
        assert!(began.elapsed() < SOON, "still not after {SOON:?}: {what}");
        tokio::time::sleep(LOOK).await;
    }
}

// Redisson's protocol.

/// The owner of a hand-written client: its id, and its thread's.
const HAND: &str = "8743c9c0-0795-4907-87fd-6c719a6b4586:51";
/// Where Redisson tells that the key was released.
const CHANNEL: &str = "redisson_lock__channel:{stock:lock:sku_10086}";

/// Workers that wait to be woken, one in each instance with one operation to do, as a run drives
/// them: their events as they come.
struct Waiters {
    events: Arc<Mutex<Vec<Event>>>,
    running: tokio::task::JoinHandle<Servers>,
}

impl Waiters {
    /// One of them. The run's servers are its own; so the first one of `servers` is where the lock is.
    fn one(servers: Servers, lock: &str, ttl: Duration) -> Waiters {
        Waiters::start(servers, lock, ttl, (1, 1), "")
    }

    /// So many workers in so many instances, and a fault that strikes them.
    fn start(
        mut servers: Servers,
        lock: &str,
        ttl: Duration,
        (workers, instances): (u32, u32),
        fault: &str,
    ) -> Waiters {
        let text = format!(
            r#"
            name = "waiters"
            [load]
            instances = {instances}
            workers = {workers}
            operations = {workers}
            duration = "60s"
            [workload]
            kind = "flash-sale"
            stock = 100
            [section]
            constant = "1ms"
            [lock]
            kind = "{lock}"
            ttl = "{}ms"
            [lock.wait]
            wake_up_within = "50s"
            {fault}
            "#,
            ttl.as_millis()
        );
        let known = oversold::scenario::Vocabulary {
            locks: lock::names(),
            properties: Vec::new(),
        };
        let scenario = Scenario::parse("waiters.toml", &text, &known).unwrap();
        let plan = Plan::resolve(&scenario, &Overrides::default(), &scenario.lock, 1);
        let events = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&events);
        let (recorder, drain) = recorder::start(Clock::start(), sink, |sink, batch, _| {
            sink.lock().unwrap().extend_from_slice(batch);
        });
        let running = tokio::spawn(async move {
            let folder = tempfile::tempdir().unwrap();
            let ledger = folder.path().join("ledger");
            let store = Sqlite::create(&ledger, &plan.workload, plan.guard).unwrap();
            let (_interrupt, interrupted) = tokio::sync::watch::channel(None);
            let store = Arc::new(store);
            let ran = run::run(&plan, &mut servers, store, recorder, interrupted).await;
            ran.unwrap();
            drain.close();
            servers
        });
        Waiters { events, running }
    }

    /// They come to their end; the servers go on.
    async fn end(self) -> (Servers, Vec<Event>) {
        let servers = self.running.await.unwrap();
        let events = self.events.lock().unwrap().clone();
        (servers, events)
    }

    fn count(&self, like: impl Fn(&Kind) -> bool) -> usize {
        let events = self.events.lock().unwrap();
        events.iter().filter(|event| like(&event.event)).count()
    }

    fn asked(&self) -> usize {
        self.count(|event| matches!(event, Kind::Asked { .. }))
    }

    fn denied(&self) -> usize {
        self.count(|event| matches!(event, Kind::Denied { .. }))
    }

    fn granted(&self) -> usize {
        self.count(|event| matches!(event, Kind::Granted { .. }))
    }
}

#[tokio::test]
async fn our_worker_is_woken_by_the_message_of_a_hand_written_release_and_does_not_poll() {
    let world = World::of(1).await;
    let hand = world.by_hand(0).await;
    hand.takes(HAND, LONG).await;
    let waiter = Waiters::one(world.servers, "reentrant-watchdog", LONG);
    until("it was refused, and again after subscribing", async || {
        waiter.denied() == 2
    })
    .await;
    assert!(hand.exists().await);
    let released = Instant::now();
    assert_eq!(hand.gives_back().await, 1, "one waiter hears of it");
    until("it was granted", async || waiter.granted() == 1).await;
    assert!(released.elapsed() < SOON, "long before a lease ends");
    assert_eq!(waiter.asked(), 3, "once, once subscribed, once woken");
    waiter.end().await;
}

#[tokio::test]
async fn our_worker_gets_in_after_a_hand_written_holder_died() {
    let world = World::of(1).await;
    let hand = world.by_hand(0).await;
    let ttl = Duration::from_millis(1_000);
    hand.takes(HAND, ttl).await;
    let waiter = Waiters::one(world.servers, "reentrant-watchdog", ttl);
    let taken = Instant::now();
    // Nobody renews, nobody tells.
    until("it was granted", async || waiter.granted() == 1).await;
    let waited = taken.elapsed();
    assert!(waited < 4 * ttl, "soon after the lease: {waited:?}");
    assert!(waiter.denied() >= 2, "it was held");
    assert!(waiter.asked() <= 6, "it hardly polls: {}", waiter.asked());
    waiter.end().await;
}

#[tokio::test]
async fn our_worker_waits_no_longer_than_a_dead_holders_lease_though_its_own_is_long() {
    let world = World::of(1).await;
    let hand = world.by_hand(0).await;
    hand.takes(HAND, Duration::from_secs(1)).await;
    let taken = Instant::now();
    let waiter = Waiters::one(world.servers, "reentrant-watchdog", LONG);
    until("it was granted", async || waiter.granted() == 1).await;
    assert!(waiter.denied() >= 1, "it was held");
    assert!(taken.elapsed() >= Duration::from_millis(990));
    assert!(waiter.asked() <= 6, "it hardly polls: {}", waiter.asked());
    waiter.end().await;
}

#[tokio::test]
async fn a_hand_written_lease_without_an_end_is_told_as_none() {
    let world = World::of(1).await;
    let (ours, hand) = (world.client("A").await, world.by_hand(0).await);
    hand.takes(HAND, LONG).await;
    assert_eq!(hand.say::<i64>(&format!("PERSIST {KEY}")).await, 1);
    let lock = lock("reentrant-watchdog", LONG);
    assert_eq!(ours.is_denied(&*lock).await, None);
}

#[tokio::test]
async fn a_message_is_heard_only_on_redissons_channel_of_the_key() {
    let world = World::of(1).await;
    let ours = world.client("A").await;
    let lock = lock("reentrant-watchdog", LONG);
    let told = |key| {
        let call = Call { key, ..ours.call() };
        lock.wake_up(&call).unwrap()
    };
    assert_eq!(told(KEY), WakeUp::Message(CHANNEL.to_owned()));
    assert_eq!(
        told("stock:{sku_1}"),
        WakeUp::Message("redisson_lock__channel:stock:{sku_1}".to_owned()),
        "a key with a hash tag of its own gets no second one"
    );
}

#[tokio::test]
async fn a_hand_written_client_is_refused_while_we_hold_and_sees_whose_it_is_and_for_how_long() {
    let world = World::of(1).await;
    let (ours, hand) = (world.client("A").await, world.by_hand(0).await);
    let lock = lock("reentrant-watchdog", LONG);
    ours.is_granted(&*lock).await;
    assert!(hand.exists().await);
    assert_eq!(hand.say::<i64>(&format!("HEXISTS {KEY} {HAND}")).await, 0);
    assert_eq!(hand.say::<i64>(&format!("HGET {KEY} A:1")).await, 1);
    let left = hand.pttl().await;
    assert!((45_000..=60_000).contains(&left), "{left} ms");
}

#[tokio::test]
async fn we_are_refused_by_a_hand_written_holder_and_change_nothing() {
    let world = World::of(1).await;
    let (ours, hand) = (world.client("A").await, world.by_hand(0).await);
    let lock = lock("reentrant-watchdog", LONG);
    hand.takes(HAND, Duration::from_secs(40)).await;
    let left = ours.is_denied(&*lock).await.expect("its lease ends");
    let tells = Duration::from_secs(25)..=Duration::from_millis(40_001);
    assert!(tells.contains(&left), "what is left of it: {left:?}");
    assert_eq!(ours.release(&*lock).await, Release::NotMine);
    assert_eq!(ours.renew(&*lock).await, Renewal::Lost);
    let fields: Vec<(String, i64)> = hand.say(&format!("HGETALL {KEY}")).await;
    assert_eq!(fields, [(HAND.to_owned(), 1)]);
    assert!(hand.pttl().await <= 40_000, "its lease is its own");
}

#[tokio::test]
async fn holds_are_counted_and_only_the_last_release_removes_the_key_and_wakes_the_hand() {
    let world = World::of(1).await;
    let (ours, hand) = (world.client("A").await, world.by_hand(0).await);
    let mut channel = world.subscribe(CHANNEL).await;
    let mut messages = channel.on_message();
    let lock = lock("reentrant-watchdog", LONG);
    let holds = async || hand.say::<Option<i64>>(&format!("HGET {KEY} A:1")).await;
    ours.is_granted(&*lock).await;
    assert_eq!(holds().await, Some(1));
    ours.is_granted(&*lock).await;
    assert_eq!(holds().await, Some(2));
    hand.leases(Duration::from_secs(9)).await;
    assert_eq!(ours.release(&*lock).await, Release::StillHeld(1));
    assert_eq!(holds().await, Some(1));
    assert!(
        hand.pttl().await > 45_000,
        "a release that is not the last renews"
    );
    let early = tokio::time::timeout(Duration::from_millis(100), messages.next()).await;
    assert!(
        early.is_err(),
        "nobody is woken while it is held: {early:?}"
    );
    assert_eq!(ours.release(&*lock).await, Release::Removed);
    assert!(!hand.exists().await);
    let message = tokio::time::timeout(SOON, messages.next()).await;
    let message = message.expect("it is woken").unwrap();
    assert_eq!(message.get_payload::<String>().unwrap(), "0");
    assert_eq!(ours.release(&*lock).await, Release::Gone);
    hand.takes(HAND, LONG).await;
}

#[tokio::test]
async fn a_renewal_of_ours_makes_the_lease_full_again_and_the_hands_renewal_lets_nobody_in() {
    let world = World::of(1).await;
    let (ours, hand) = (world.client("A").await, world.by_hand(0).await);
    let lock = lock("reentrant-watchdog", LONG);
    assert_eq!(lock.watchdog().unwrap().every(), LONG / 3);
    ours.is_granted(&*lock).await;
    hand.leases(Duration::from_secs(9)).await;
    assert_eq!(ours.renew(&*lock).await, Renewal::Extended);
    assert!(hand.pttl().await > 45_000);
    assert_eq!(ours.release(&*lock).await, Release::Removed);
    // The other way round: the hand renews in time, then dies.
    hand.takes(HAND, Duration::from_millis(200)).await;
    hand.leases(LONG).await;
    ours.is_denied(&*lock).await;
    hand.leases(Duration::from_millis(50)).await;
    until("its lease has ended", async || {
        matches!(ours.acquire(&*lock).await, Acquire::Granted(_))
    })
    .await;
}

#[tokio::test]
async fn a_lost_answer_of_the_reentrant_lock_leaves_a_hold_behind() {
    let world = World::of(1).await;
    let hand = world.by_hand(0).await;
    let ours = world
        .client_with_patience("A", Duration::from_millis(300))
        .await;
    let lock = lock("reentrant-watchdog", LONG);
    // The server knows the script: the late call is the call itself, not its hash's refusal.
    ours.is_granted(&*lock).await;
    assert_eq!(ours.release(&*lock).await, Release::Removed);
    let halted = world.halt(0);
    let unheard = ours.acquire(&*lock).await;
    assert!(matches!(unheard, Acquire::Unknown(_)), "{unheard:?}");
    drop(halted);
    until("it is applied late", async || hand.exists().await).await;
    ours.is_granted(&*lock).await;
    assert_eq!(ours.release(&*lock).await, Release::StillHeld(1));
}

// Redlock.

/// A TTL whose tenth, the patience for one node, is longer than a busy machine's hiccups.
const QUORUM_TTL: Duration = Duration::from_secs(10);
const NODE_PATIENCE: Duration = Duration::from_secs(1);

async fn with_the_key(hands: &[Hand]) -> usize {
    let there = join_all(hands.iter().map(Hand::exists)).await;
    there.into_iter().filter(|there| *there).count()
}

#[tokio::test]
async fn redlock_is_granted_with_two_of_five_nodes_down_and_refused_with_three_down() {
    let mut world = World::of(5).await;
    let (ours, hands) = (world.client("A").await, world.all_by_hand().await);
    let lock = lock("redlock", QUORUM_TTL);
    world.servers.kill(4).await;
    world.servers.kill(3).await;
    ours.is_granted(&*lock).await;
    assert_eq!(with_the_key(&hands[..3]).await, 3);
    assert_eq!(ours.release(&*lock).await, Release::Removed);
    assert_eq!(with_the_key(&hands[..3]).await, 0);
    world.servers.kill(2).await;
    let mut answers = Vec::new();
    for _ in 0..2 {
        answers.push(ours.acquire(&*lock).await);
        assert_eq!(with_the_key(&hands[..2]).await, 0, "nothing is left");
    }
    // The node that just died may have died with it; once nobody listens it is certain.
    assert!(
        matches!(answers[0], Acquire::Unknown(_) | Acquire::Failed(_)),
        "{answers:?}"
    );
    assert!(matches!(answers[1], Acquire::Failed(_)), "{answers:?}");
}

#[tokio::test]
async fn redlock_leaves_nothing_where_it_was_granted_by_a_minority_only() {
    let world = World::of(5).await;
    let (ours, hands) = (world.client("A").await, world.all_by_hand().await);
    let lock = lock("redlock", QUORUM_TTL);
    for hand in &hands[..3] {
        hand.say::<String>(&format!("SET {KEY} B PX 60000")).await;
    }
    assert_eq!(ours.acquire(&*lock).await, Acquire::Denied(None));
    assert_eq!(
        with_the_key(&hands[3..]).await,
        0,
        "its minority is given back"
    );
    for hand in &hands[..3] {
        let holder: String = hand.say(&format!("GET {KEY}")).await;
        assert_eq!(holder, "B", "another's majority is left alone");
    }
    assert_eq!(ours.release(&*lock).await, Release::NotMine);
    assert_eq!(with_the_key(&hands).await, 3);
}

#[tokio::test]
async fn redlock_is_denied_to_both_when_the_votes_are_split_and_nothing_is_left() {
    let world = World::of(5).await;
    let hands = world.all_by_hand().await;
    let (ours, lock) = (world.client("A").await, lock("redlock", QUORUM_TTL));
    for (hand, other) in hands.iter().zip(["B", "B", "C"]) {
        hand.say::<String>(&format!("SET {KEY} {other} PX 60000"))
            .await;
    }
    assert_eq!(ours.acquire(&*lock).await, Acquire::Denied(None));
    assert_eq!(with_the_key(&hands[3..]).await, 0);
}

#[tokio::test]
async fn redlocks_validity_is_never_longer_than_the_shortest_lease_that_it_rests_on() {
    let world = World::of(5).await;
    let (ours, hands) = (world.client("A").await, world.all_by_hand().await);
    let lock = lock("redlock", QUORUM_TTL);
    let drift = QUORUM_TTL / 100 + Duration::from_millis(2);
    for round in 0..100 {
        // Now and then one node answers later than the others.
        if round % 10 == 0 {
            let pause: String = hands[round / 10 % 5].say("CLIENT PAUSE 60 ALL").await;
            assert_eq!(pause, "OK");
        }
        let asked = Instant::now();
        let validity = ours.is_granted(&*lock).await.validity.unwrap();
        let (granted, took) = (Instant::now(), asked.elapsed());
        assert!(validity <= QUORUM_TTL - drift, "{validity:?}");
        let least = QUORUM_TTL.saturating_sub(drift + took);
        assert!(
            validity >= least,
            "TTL - elapsed - drift: {validity:?}, {least:?}"
        );
        let mut grants = 0;
        for hand in &hands {
            // What is left of the validity when the node answers is this or less.
            let left = validity.saturating_sub(granted.elapsed());
            let pttl = hand.pttl().await;
            grants += usize::from(pttl >= 0);
            assert!(
                pttl == -2 || left.as_millis() as i64 <= pttl,
                "{left:?} > {pttl} ms"
            );
        }
        assert!(grants >= 3, "{grants} nodes");
        assert_eq!(ours.release(&*lock).await, Release::Removed);
    }
}

#[tokio::test]
async fn redlock_gives_back_on_all_nodes_also_where_it_was_not_granted() {
    let world = World::of(5).await;
    let (ours, hands) = (world.client("A").await, world.all_by_hand().await);
    let lock = lock("redlock", QUORUM_TTL);
    ours.is_granted(&*lock).await;
    assert_eq!(with_the_key(&hands).await, 5);
    assert_eq!(ours.release(&*lock).await, Release::Removed);
    assert_eq!(with_the_key(&hands).await, 0);
    assert_eq!(ours.release(&*lock).await, Release::Gone);
}

#[tokio::test]
async fn a_slow_node_delays_redlock_by_its_own_timeout_at_most() {
    let world = World::of(5).await;
    let (ours, hands) = (world.client("A").await, world.all_by_hand().await);
    let lock = lock("redlock", QUORUM_TTL);
    hands[2].say::<String>("CLIENT PAUSE 8000 ALL").await;
    let asked = Instant::now();
    let validity = ours.is_granted(&*lock).await.validity.unwrap();
    let took = asked.elapsed();
    assert!(took < 3 * NODE_PATIENCE, "{took:?}");
    assert!(
        validity <= QUORUM_TTL - NODE_PATIENCE,
        "the wait counts: {validity:?}"
    );
    let asked = Instant::now();
    assert_eq!(ours.release(&*lock).await, Release::Removed);
    assert!(asked.elapsed() < 3 * NODE_PATIENCE, "{:?}", asked.elapsed());
    // The pause ends before the lease would have.
    until("the slow node has given it back", async || {
        !hands[2].exists().await
    })
    .await;
    assert!(asked.elapsed() < QUORUM_TTL, "{:?}", asked.elapsed());
}

/// A node's own record of what was done to it, in order.
async fn commands_of(world: &World, node: usize) -> impl AsyncFnMut() -> String {
    let client = redis::Client::open(format!("redis://{}", world.addresses[node])).unwrap();
    let monitor = client.get_async_monitor().await.unwrap();
    let mut lines = Box::pin(monitor.into_on_message::<String>());
    async move || {
        let line = tokio::time::timeout(SOON, lines.next()).await;
        line.expect("a command").unwrap()
    }
}

#[tokio::test]
async fn a_set_that_redlock_gave_up_on_is_undone_after_it_is_applied_late() {
    let world = World::of(5).await;
    let (ours, hands) = (world.client("A").await, world.all_by_hand().await);
    let lock = lock("redlock", QUORUM_TTL);
    // No node knows any script by its hash.
    let mut done = commands_of(&world, 0).await;
    let halted: Vec<_> = (0..3).map(|node| world.halt(node)).collect();
    let answer = ours.acquire(&*lock).await;
    assert!(matches!(answer, Acquire::Unknown(_)), "{answer:?}");
    assert_eq!(
        with_the_key(&hands[3..]).await,
        0,
        "its minority is given back"
    );
    drop(halted);
    let next = done().await;
    assert!(next.contains("\"SET\""), "the late SET comes first: {next}");
    let next = done().await;
    assert!(next.contains("\"EVAL\""), "then the release: {next}");
    assert_eq!(with_the_key(&hands).await, 0, "no node keeps it");
}

#[tokio::test]
async fn a_release_of_redlock_that_is_heard_late_still_gives_back_everywhere() {
    let world = World::of(5).await;
    let (ours, hands) = (world.client("A").await, world.all_by_hand().await);
    let lock = lock("redlock", QUORUM_TTL);
    ours.is_granted(&*lock).await;
    let halted: Vec<_> = (0..2).map(|node| world.halt(node)).collect();
    assert_eq!(ours.release(&*lock).await, Release::Removed);
    drop(halted);
    let asked = Instant::now();
    until("no node keeps it", async || with_the_key(&hands).await == 0).await;
    assert!(asked.elapsed() < QUORUM_TTL / 2, "not by its lease's end");
}

#[tokio::test]
async fn a_release_of_redlock_without_a_majority_of_answers_is_unknown() {
    let world = World::of(5).await;
    let ours = world.client("A").await;
    let lock = lock("redlock", QUORUM_TTL);
    ours.is_granted(&*lock).await;
    let _halted: Vec<_> = (0..3).map(|node| world.halt(node)).collect();
    let outcome = ours.release(&*lock).await;
    assert!(matches!(outcome, Release::Unknown(_)), "{outcome:?}");
}

#[tokio::test]
async fn redlock_is_extended_by_a_majority_and_not_by_less() {
    let world = World::of(5).await;
    let (ours, hands) = (world.client("A").await, world.all_by_hand().await);
    assert!(lock("redlock", QUORUM_TTL).watchdog().is_none());
    let lock = lock("redlock-watchdog", QUORUM_TTL);
    ours.is_granted(&*lock).await;
    for hand in &hands {
        hand.leases(Duration::from_secs(4)).await;
    }
    for hand in &hands[..2] {
        hand.say::<i64>(&format!("DEL {KEY}")).await;
    }
    assert_eq!(ours.renew(&*lock).await, Renewal::Extended);
    for hand in &hands[2..] {
        assert!(hand.pttl().await > 6_000, "a full TTL again");
    }
    assert_eq!(with_the_key(&hands[..2]).await, 0, "it brings no key back");
    // With one more silent it is not known; with one more gone it is lost.
    let halted = world.halt(2);
    let renewal = ours.renew(&*lock).await;
    assert!(matches!(renewal, Renewal::Failed(_)), "{renewal:?}");
    drop(halted);
    hands[2].say::<i64>(&format!("DEL {KEY}")).await;
    assert_eq!(ours.renew(&*lock).await, Renewal::Lost);
}

#[tokio::test]
async fn one_of_many_that_contend_for_redlock_holds_it_and_asking_again_is_the_callers() {
    let world = World::of(5).await;
    let hands = world.all_by_hand().await;
    let lock = lock("redlock", QUORUM_TTL);
    let (inside, most, grants) = (
        AtomicUsize::new(0),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    let contend = async |number: u64| {
        let ours = world.client(&format!("C{number}")).await;
        let began = Instant::now();
        let mut asked = 0;
        while !matches!(ours.acquire(&*lock).await, Acquire::Granted(_)) {
            assert!(began.elapsed() < 2 * SOON, "C{number} starves");
            asked += 1;
            tokio::time::sleep(Duration::from_millis(5 + (number * 7 + asked * 13) % 40)).await;
        }
        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(2)).await;
        inside.fetch_sub(1, Ordering::SeqCst);
        grants.fetch_add(1, Ordering::SeqCst);
        assert_eq!(ours.release(&*lock).await, Release::Removed);
    };
    join_all((0..8).map(&contend)).await;
    assert_eq!((grants.into_inner(), most.into_inner()), (8, 1));
    assert_eq!(with_the_key(&hands).await, 0);
}

// The fair lock.

#[tokio::test]
async fn the_fair_lock_serves_ten_waiters_in_their_order_however_often_they_ask() {
    let world = World::of(1).await;
    let hand = world.by_hand(0).await;
    let lock = lock("fair", LONG);
    let holder = world.client("holder").await;
    holder.is_granted(&*lock).await;
    let mut waiters = Vec::new();
    for number in 0..10 {
        let waiter = world.client(&format!("W{number}")).await;
        waiter.is_denied(&*lock).await;
        waiters.push(waiter);
    }
    let served = Mutex::new(Vec::new());
    let wait = async |number: usize| {
        let began = Instant::now();
        // The later they came, the more often they ask.
        let every = Duration::from_millis(40 - 4 * number as u64 + 1);
        while !matches!(waiters[number].acquire(&*lock).await, Acquire::Granted(_)) {
            assert!(began.elapsed() < 2 * SOON, "W{number} starves");
            tokio::time::sleep(every).await;
        }
        served.lock().unwrap().push(number);
        assert_eq!(waiters[number].release(&*lock).await, Release::Removed);
    };
    let release = async {
        assert_eq!(holder.release(&*lock).await, Release::Removed);
    };
    tokio::join!(join_all((0..10).map(&wait)), release);
    assert_eq!(served.into_inner().unwrap(), (0..10).collect::<Vec<_>>());
    assert_eq!(hand.say::<i64>("DBSIZE").await, 0, "nothing is left");
}

#[tokio::test]
async fn a_dead_waiter_of_the_fair_lock_is_dropped_after_a_ttl_and_not_before() {
    let world = World::of(1).await;
    let hand = world.by_hand(0).await;
    let ttl = Duration::from_millis(1_500);
    let lock = lock("fair", ttl);
    let holder = world.client("holder").await;
    let (dead, alive) = (world.client("dead").await, world.client("alive").await);
    holder.is_granted(&*lock).await;
    let died = Instant::now();
    dead.is_denied(&*lock).await;
    let asked_last = Instant::now();
    alive.is_denied(&*lock).await;
    assert_eq!(holder.release(&*lock).await, Release::Removed);
    until("the living one is served", async || {
        matches!(alive.acquire(&*lock).await, Acquire::Granted(_))
    })
    .await;
    let waited = died.elapsed();
    assert!(
        waited >= ttl - Duration::from_millis(2),
        "too early: {waited:?}"
    );
    assert!(
        asked_last.elapsed() < 3 * ttl,
        "too late: {:?}",
        asked_last.elapsed()
    );
    assert_eq!(alive.release(&*lock).await, Release::Removed);
    assert_eq!(hand.say::<i64>("DBSIZE").await, 0, "nothing is left");
}

#[tokio::test]
async fn who_abandons_the_fair_lock_is_out_of_its_queue_at_once() {
    let world = World::of(1).await;
    let hand = world.by_hand(0).await;
    let lock = lock("fair", LONG);
    let holder = world.client("holder").await;
    let (first, second) = (world.client("first").await, world.client("second").await);
    holder.is_granted(&*lock).await;
    first.is_denied(&*lock).await;
    second.is_denied(&*lock).await;
    assert_eq!(holder.release(&*lock).await, Release::Removed);
    second.is_denied(&*lock).await; // "not its turn"
    lock.abandon(&first.call()).await;
    second.is_granted(&*lock).await;
    assert_eq!(second.release(&*lock).await, Release::Removed);
    assert_eq!(hand.say::<i64>("DBSIZE").await, 0);
}

#[tokio::test]
async fn a_holder_of_the_fair_lock_that_asked_again_does_not_stay_in_its_queue() {
    let world = World::of(1).await;
    let hand = world.by_hand(0).await;
    let lock = lock("fair", LONG);
    let (holder, next) = (world.client("holder").await, world.client("next").await);
    holder.is_granted(&*lock).await;
    holder.is_denied(&*lock).await; // "not reentrant"
    next.is_denied(&*lock).await;
    assert_eq!(holder.release(&*lock).await, Release::Removed);
    next.is_granted(&*lock).await;
    assert_eq!(next.release(&*lock).await, Release::Removed);
    assert_eq!(hand.say::<i64>("DBSIZE").await, 0);
}

#[tokio::test]
async fn what_dead_waiters_of_the_fair_lock_left_ends_by_itself() {
    let world = World::of(1).await;
    let hand = world.by_hand(0).await;
    let lock = lock("fair", Duration::from_millis(300));
    let (holder, dead) = (world.client("holder").await, world.client("dead").await);
    holder.is_granted(&*lock).await;
    dead.is_denied(&*lock).await;
    for key in hand.say::<Vec<String>>("KEYS *").await {
        let left: i64 = hand.say(&format!("PTTL {key}")).await;
        assert!(left >= 0, "{key} has a TTL");
    }
    until("no key is left", async || {
        hand.say::<i64>("DBSIZE").await == 0
    })
    .await;
}

/// Who stands in the fair lock's queue, in order.
async fn queue(hand: &Hand) -> Vec<String> {
    hand.say(&format!("ZRANGE {KEY}:queue:{{{KEY}}} 0 -1"))
        .await
}

/// The wake-ups that lie ready for a waiter.
async fn wake_ups(hand: &Hand, lock: &dyn Lock, of: &Client) -> i64 {
    let Some(WakeUp::Pop(list)) = lock.wake_up(&of.call()) else {
        panic!("it wakes by blocking pop");
    };
    let ready = hand.say(&format!("LLEN {list}")).await;
    let left: i64 = hand.say(&format!("PTTL {list}")).await;
    assert_eq!(left > 0, ready > 0, "a wake-up does not stay: {left} ms");
    ready
}

#[tokio::test]
async fn every_key_of_the_fair_lock_begins_with_the_locks_and_has_its_hash_tag() {
    let world = World::of(1).await;
    let ours = world.client("A").await;
    let lock = lock("fair", LONG);
    let told = |key| {
        let call = Call { key, ..ours.call() };
        lock.wake_up(&call).unwrap()
    };
    assert_eq!(
        [told("sku"), told("stock:{sku}")],
        [
            WakeUp::Pop("sku:woken:{sku}:A".to_owned()),
            WakeUp::Pop("stock:{sku}:woken:A".to_owned())
        ]
    );
}

#[tokio::test]
async fn a_release_of_the_fair_lock_wakes_the_head_of_the_queue_alone() {
    let world = World::of(1).await;
    let hand = world.by_hand(0).await;
    let lock = lock("fair", LONG);
    let holder = world.client("holder").await;
    let (first, second) = (world.client("first").await, world.client("second").await);
    let ready = async |of: &Client| wake_ups(&hand, &*lock, of).await;
    holder.is_granted(&*lock).await;
    for waiter in [&first, &second] {
        let again = waiter.is_denied(&*lock).await.expect("in time");
        assert!(
            again <= LONG / 2,
            "well before it counts as dead: {again:?}"
        );
    }
    assert_eq!((ready(&first).await, ready(&second).await), (0, 0));
    assert_eq!(holder.release(&*lock).await, Release::Removed);
    assert_eq!((ready(&first).await, ready(&second).await), (1, 0));
    second.is_denied(&*lock).await;
    first.is_granted(&*lock).await;
    assert_eq!((ready(&first).await, ready(&second).await), (0, 0));
    assert_eq!(first.release(&*lock).await, Release::Removed);
    assert_eq!((ready(&first).await, ready(&second).await), (0, 1));
    second.is_granted(&*lock).await;
    assert_eq!(second.release(&*lock).await, Release::Removed);
    assert_eq!(hand.say::<i64>("DBSIZE").await, 0, "nothing is left");
}

#[tokio::test]
async fn who_gives_up_after_its_wake_up_passes_it_on() {
    let world = World::of(1).await;
    let hand = world.by_hand(0).await;
    let lock = lock("fair", LONG);
    let holder = world.client("holder").await;
    let (first, second) = (world.client("first").await, world.client("second").await);
    holder.is_granted(&*lock).await;
    first.is_denied(&*lock).await;
    second.is_denied(&*lock).await;
    assert_eq!(holder.release(&*lock).await, Release::Removed);
    lock.abandon(&first.call()).await;
    assert_eq!(wake_ups(&hand, &*lock, &first).await, 0);
    assert_eq!(wake_ups(&hand, &*lock, &second).await, 1);
    lock.abandon(&second.call()).await;
    assert_eq!(hand.say::<i64>("DBSIZE").await, 0, "nothing is left");
}

#[tokio::test]
async fn waiters_that_block_on_the_fair_lock_are_woken_in_their_order_and_do_not_poll() {
    let world = World::of(1).await;
    let hand = world.by_hand(0).await;
    let holder = world.client("holder").await;
    let lock = lock("fair", LONG);
    holder.is_granted(&*lock).await;
    let waiters = Waiters::start(world.servers, "fair", LONG, (10, 10), "");
    until("all were refused", async || waiters.denied() == 10).await;
    let queued = queue(&hand).await;
    let released = Instant::now();
    assert_eq!(holder.release(&*lock).await, Release::Removed);
    until("all were granted", async || waiters.granted() == 10).await;
    // By polling, each would have waited for half a TTL until it asked again.
    assert!(released.elapsed() < LONG / 4, "{:?}", released.elapsed());
    assert_eq!(waiters.asked(), 20, "each once, and once woken");
    let (servers, events) = waiters.end().await;
    let mut tokens = std::collections::HashMap::new();
    let mut served = Vec::new();
    for event in &events {
        match event.event {
            Kind::Arrived {
                op,
                instance,
                worker,
                ..
            } => {
                tokens.insert(op, format!("{instance}-{worker}-{op}"));
            }
            Kind::Granted { op, .. } => served.push(tokens[&op].clone()),
            _ => {}
        }
    }
    assert_eq!(served, queued);
    assert_eq!(hand.say::<i64>("DBSIZE").await, 0, "nothing is left");
    drop(servers);
}

#[tokio::test]
async fn waiters_of_the_fair_lock_that_crash_delay_the_living_by_a_lease_at_most() {
    let world = World::of(1).await;
    let hand = world.by_hand(0).await;
    let holder = world.client("holder").await;
    let ttl = Duration::from_secs(4);
    // Its lease outlives this test; whether a waiter is dead is reckoned by the waiters' TTL.
    holder.is_granted(&*lock("fair", LONG)).await;
    let crash = r#"
        [[fault]]
        kind = "crash"
        at = { time = "1s", instance = 0 }
    "#;
    let waiters = Waiters::start(world.servers, "fair", ttl, (10, 2), crash);
    until("half of them have crashed", async || {
        waiters.count(|event| matches!(event, Kind::Crashed { .. })) == 1
    })
    .await;
    let crashed = Instant::now();
    assert!(waiters.denied() >= 10, "all stood in the queue");
    assert_eq!(holder.release(&*lock("fair", ttl)).await, Release::Removed);
    until("the living were served", async || waiters.granted() == 5).await;
    let waited = crashed.elapsed();
    assert!(waited < ttl + ttl / 2, "one lease, and no more: {waited:?}");
    let (servers, _) = waiters.end().await;
    until("nothing is left", async || {
        hand.say::<i64>("DBSIZE").await == 0
    })
    .await;
    drop(servers);
}

#[tokio::test]
async fn a_waiter_whose_blocking_connection_is_lost_listens_again() {
    let world = World::of(1).await;
    let hand = world.by_hand(0).await;
    let holder = world.client("holder").await;
    let lock = lock("fair", LONG);
    holder.is_granted(&*lock).await;
    // It asks again by itself an eighth of a TTL after the loss, and then waits for half a TTL.
    let waiter = Waiters::one(world.servers, "fair", Duration::from_secs(20));
    let blocked = async || {
        let clients: String = hand.say("CLIENT LIST").await;
        let blocked = clients
            .lines()
            .find(|client| client.contains(" cmd=blpop "));
        let id = blocked.and_then(|client| client.split_once(' ')?.0.strip_prefix("id="));
        id.map(str::to_owned)
    };
    until("it blocks", async || blocked().await.is_some()).await;
    let lost = blocked().await.unwrap();
    assert_eq!(hand.say::<i64>(&format!("CLIENT KILL ID {lost}")).await, 1);
    until("it blocks again", async || {
        blocked().await.is_some_and(|id| id != lost)
    })
    .await;
    let released = Instant::now();
    assert_eq!(holder.release(&*lock).await, Release::Removed);
    until("it was granted", async || waiter.granted() == 1).await;
    assert!(released.elapsed() < Duration::from_secs(5), "it was woken");
    waiter.end().await;
}

// Fencing tokens.

#[tokio::test]
async fn fencing_tokens_grow_strictly_over_a_thousand_contended_grants() {
    let world = World::of(1).await;
    let lock = lock("fenced", LONG);
    let drawn = Mutex::new(Vec::new());
    let work = async |number: usize| {
        let ours = world.client(&format!("F{number}")).await;
        let began = Instant::now();
        loop {
            assert!(
                began.elapsed() < 4 * SOON,
                "{} drawn",
                drawn.lock().unwrap().len()
            );
            match ours.acquire(&*lock).await {
                Acquire::Granted(lease) => drawn.lock().unwrap().push(lease.fence.unwrap()),
                _ => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    continue;
                }
            }
            let enough = drawn.lock().unwrap().len() >= 1_000;
            assert_eq!(ours.release(&*lock).await, Release::Removed);
            if enough {
                return;
            }
        }
    };
    join_all((0..8).map(&work)).await;
    let drawn = drawn.into_inner().unwrap();
    assert!(drawn.len() >= 1_000);
    // Each holder writes its number down while it holds, so this is the order of the grants.
    assert!(drawn.is_sorted_by(|one, next| one < next), "{drawn:?}");
}

#[tokio::test]
async fn fencing_tokens_grow_over_an_expiry_and_a_refusal_draws_none() {
    let world = World::of(1).await;
    let (one, other) = (world.client("A").await, world.client("B").await);
    let lock = lock("fenced", Duration::from_millis(60));
    let mut last = 0;
    for holder in [&one, &other, &one, &other] {
        let granted = Mutex::new(None);
        until("the last lease has ended", async || {
            if let Acquire::Granted(lease) = holder.acquire(&*lock).await {
                *granted.lock().unwrap() = lease.fence;
            }
            granted.lock().unwrap().is_some()
        })
        .await;
        let fence = granted.into_inner().unwrap().unwrap();
        assert_eq!(fence, last + 1);
        last = fence;
    }
}

#[tokio::test]
async fn where_no_fencing_token_can_be_drawn_nothing_is_taken() {
    let world = World::of(1).await;
    let (ours, hand) = (world.client("A").await, world.by_hand(0).await);
    hand.say::<i64>(&format!("LPUSH {COUNTER} x")).await;
    let answer = ours.acquire(&*lock("fenced", LONG)).await;
    assert!(matches!(answer, Acquire::Failed(_)), "{answer:?}");
    assert!(!hand.exists().await);
}

// The worthless token.

#[tokio::test]
async fn a_late_release_removes_anothers_lock_where_the_token_is_always_the_same() {
    let world = World::of(1).await;
    let (late, other) = (world.client("A").await, world.client("B").await);
    let hand = world.by_hand(0).await;
    let cases = [
        ("fixed-token-lua", Release::Removed, false),
        ("token-lua", Release::NotMine, true),
    ];
    for (name, outcome, stays) in cases {
        let (short, long) = (lock(name, Duration::from_millis(30)), lock(name, LONG));
        late.is_granted(&*short).await;
        until("the lease has ended", async || !hand.exists().await).await;
        other.is_granted(&*long).await;
        assert_eq!(late.release(&*short).await, outcome, "{name}");
        assert_eq!(hand.exists().await, stays, "{name}");
    }
}

// Every lock.

/// Those that ask a server.
fn locks() -> impl Iterator<Item = &'static lock::Entry> {
    lock::ALL.iter().filter(|entry| {
        let walks_in = entry.name == "none" || !entry.excludes;
        !walks_in
    })
}

#[tokio::test]
async fn every_lock_refuses_while_it_is_held_and_can_be_released_twice() {
    let world = World::of(3).await;
    let (one, other) = (world.client("A").await, world.client("B").await);
    for entry in locks() {
        let (name, lock) = (entry.name, (entry.make)(LONG));
        one.is_granted(&*lock).await;
        other.is_denied(&*lock).await;
        lock.abandon(&other.call()).await;
        assert_eq!(one.release(&*lock).await, Release::Removed, "{name}");
        assert_eq!(one.release(&*lock).await, Release::Gone, "{name}");
        other.is_granted(&*lock).await;
        assert_eq!(other.release(&*lock).await, Release::Removed, "{name}");
    }
    let keys: Vec<String> = world.by_hand(0).await.say("KEYS *").await;
    assert_eq!(keys, [COUNTER], "only the counter stays");
}

#[tokio::test]
async fn those_that_lock_nothing_walk_in_and_touch_no_key() {
    let world = World::of(1).await;
    let (one, other) = (world.client("A").await, world.client("B").await);
    let asking: HashSet<_> = locks().map(|entry| entry.name).collect();
    for entry in lock::ALL
        .iter()
        .filter(|entry| !asking.contains(entry.name))
    {
        let lock = (entry.make)(LONG);
        assert!(!one.is_granted(&*lock).await.locked);
        assert!(!other.is_granted(&*lock).await.locked);
        assert_eq!(one.release(&*lock).await, Release::Nothing);
        assert_eq!(one.release(&*lock).await, Release::Nothing);
    }
    assert_eq!(world.by_hand(0).await.say::<i64>("DBSIZE").await, 0);
}

#[tokio::test]
async fn every_lock_survives_a_script_flush_between_any_two_calls() {
    let world = World::of(3).await;
    let (one, other) = (world.client("A").await, world.client("B").await);
    let hands = world.all_by_hand().await;
    let flush = async || {
        for hand in &hands {
            hand.say::<String>("SCRIPT FLUSH").await;
        }
    };
    for entry in locks() {
        let (name, lock) = (entry.name, (entry.make)(LONG));
        flush().await;
        one.is_granted(&*lock).await;
        flush().await;
        other.is_denied(&*lock).await;
        flush().await;
        lock.abandon(&other.call()).await;
        flush().await;
        if lock.watchdog().is_some() {
            assert_eq!(one.renew(&*lock).await, Renewal::Extended, "{name}");
            flush().await;
        }
        assert_eq!(one.release(&*lock).await, Release::Removed, "{name}");
        flush().await;
        other.is_granted(&*lock).await;
        flush().await;
        assert_eq!(other.release(&*lock).await, Release::Removed, "{name}");
    }
}

#[tokio::test]
async fn no_lock_is_granted_by_a_server_that_is_gone_or_hangs_and_each_says_so_in_time() {
    let mut world = World::of(3).await;
    let ours = world
        .client_with_patience("A", Duration::from_millis(300))
        .await;
    let fails = async |entry: &'static lock::Entry| {
        let (name, lock) = (entry.name, (entry.make)(Duration::from_secs(5)));
        let began = Instant::now();
        let acquire = ours.acquire(&*lock).await;
        assert!(
            matches!(acquire, Acquire::Failed(_) | Acquire::Unknown(_)),
            "{name}: {acquire:?}"
        );
        let release = ours.release(&*lock).await;
        assert!(
            matches!(release, Release::Failed(_) | Release::Unknown(_)),
            "{name}: {release:?}"
        );
        if lock.watchdog().is_some() {
            let renewal = ours.renew(&*lock).await;
            assert!(matches!(renewal, Renewal::Failed(_)), "{name}: {renewal:?}");
        }
        lock.abandon(&ours.call()).await;
        assert!(began.elapsed() < SOON, "{name}: {:?}", began.elapsed());
    };
    let halted: Vec<_> = (0..3).map(|node| world.halt(node)).collect();
    for entry in locks() {
        fails(entry).await;
    }
    drop(halted);
    for _ in 0..3 {
        world.servers.kill(0).await;
    }
    for entry in locks() {
        fails(entry).await;
    }
}
