//! A primary with replicas and Sentinels: how soon it is ready, how clients follow the primary, and
//! what becomes of a lock whose grant no replica knew.

mod support;

use std::time::{Duration, Instant};

use oversold::client::{Conn, Outcome, Patience};
use oversold::link::{Action, Filter, Refusal, Rule};
use oversold::scenario::Topology;
use oversold::topology::{self, Group, Servers};
use support::{INCONCLUSIVE, PASS, files_named, oversold, package};

/// How long a failover may take, on a slow machine too.
const FAILOVER: Duration = Duration::from_secs(30);
/// How soon all must be ready.
const READY: Duration = Duration::from_secs(4);
/// How long a server may outlive its driver.
const SOON: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(10);
const PATIENCE: Patience = Patience {
    connect: Duration::from_secs(5),
    response: Duration::from_secs(1),
};
const GROUP: Topology = Topology::Sentinel {
    replicas: 2,
    min_replicas_to_write: 0,
    down_after_ms: 500,
};

async fn group() -> Servers {
    let binary = topology::find(None).expect("a redis-server on PATH");
    let servers = Servers::raise(&binary, GROUP, 8, false).await;
    servers.expect("a primary with replicas and Sentinels")
}

async fn client(servers: &Servers) -> Conn {
    let server = servers.reach().servers().remove(0);
    Conn::open(server, PATIENCE).await.expect("a connection")
}

fn incr() -> redis::Cmd {
    let mut incr = redis::cmd("INCR");
    incr.arg("count");
    incr
}

/// Increments until it is done; tells the outcomes before.
async fn until_done(conn: &Conn) -> Vec<Outcome<i64>> {
    let began = Instant::now();
    let mut before = Vec::new();
    loop {
        match conn.call::<i64>(&incr()).await {
            Outcome::Done(_) => return before,
            other => before.push(other),
        }
        assert!(began.elapsed() < FAILOVER, "{before:?}");
        tokio::time::sleep(LOOK).await;
    }
}

fn group_of(servers: &Servers) -> std::sync::Arc<Group> {
    servers.reach().group.expect("a group")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_ready_soon_and_all_that_it_says_passes_the_links() {
    let began = Instant::now();
    let servers = group().await;
    assert!(began.elapsed() < READY, "{:?}", began.elapsed());
    let group = group_of(&servers);
    let [primary, replica, _] = group.nodes() else {
        panic!("three nodes");
    };
    // What they know of each other is the links' addresses.
    let conn = Conn::open(primary.own, PATIENCE).await.expect("it listens");
    let info = conn
        .call::<String>(redis::cmd("INFO").arg("replication"))
        .await;
    let Outcome::Done(info) = info else {
        panic!("{info:?}");
    };
    let link = format!("port={},state=online", replica.address().port());
    assert!(info.contains(&link), "{info}");
    assert_ne!(replica.address(), replica.own);
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_as_soon_as_a_group_is_ready_is_on_all_replicas() {
    let servers = group().await;
    let conn = client(&servers).await;
    assert_eq!(until_done(&conn).await, []);
    let mut wait = redis::cmd("WAIT");
    wait.arg(2).arg(500);
    assert_eq!(conn.call::<u32>(&wait).await, Outcome::Done(2));
    servers.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_follows_the_primary_and_hides_nothing() {
    let servers = group().await;
    let group = group_of(&servers);
    let conn = client(&servers).await;
    assert_eq!(until_done(&conn).await, []);
    // Handed over in order: the old primary lives on as a replica, and refuses writes.
    let sentinel = group.sentinels();
    let sentinel = Conn::open(sentinel.places()[0].clone(), PATIENCE)
        .await
        .expect("a Sentinel");
    let mut failover = redis::cmd("SENTINEL");
    failover.arg("FAILOVER").arg(sentinel_name(&group));
    let told = sentinel.call::<()>(&failover).await;
    assert_eq!(told, Outcome::Done(()));
    // Until then it takes writes beside the new one.
    let old = &group.nodes()[0];
    let at_old = Conn::open(old.own, PATIENCE).await.expect("it lives");
    let began = Instant::now();
    while role(&at_old).await != "slave" {
        assert!(began.elapsed() < FAILOVER);
        tokio::time::sleep(LOOK).await;
    }
    until_done(&conn).await;
    // Killed: what was asked meanwhile was refused or is unknown, and the next call gets through.
    let named = async |node: &std::sync::Arc<topology::Machine>| group.epoch(node.address()).await;
    let (mut primary, began) = (None, Instant::now());
    while primary.is_none() {
        for node in group.nodes() {
            if named(node).await.is_some() {
                primary = Some(node);
            }
        }
        assert!(began.elapsed() < FAILOVER);
    }
    assert!(primary.expect("found").kill(), "killed once");
    let before = until_done(&conn).await;
    assert!(!before.is_empty(), "the primary was gone for a while");
    servers.stop().await;
}

async fn role(conn: &Conn) -> String {
    match conn.call::<Vec<redis::Value>>(&redis::cmd("ROLE")).await {
        Outcome::Done(answer) => match answer.first() {
            Some(redis::Value::BulkString(role)) => String::from_utf8_lossy(role).into_owned(),
            other => panic!("no role: {other:?}"),
        },
        // Its clients are cut off when it changes its role.
        Outcome::Refused(_) | Outcome::Unknown(_) => String::new(),
    }
}

/// The number of the connection that a call goes through.
async fn connection(conn: &Conn) -> i64 {
    let mut id = redis::cmd("CLIENT");
    id.arg("ID");
    match conn.call::<i64>(&id).await {
        Outcome::Done(id) => id,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_looks_for_the_primary_anew_after_what_may_mean_that_it_moved() {
    let servers = group().await;
    let primary = &group_of(&servers).nodes()[0].clone();
    let link = primary.link.as_ref().expect("a link");
    let follows = client(&servers).await;
    let stays = Conn::open(primary.address(), PATIENCE)
        .await
        .expect("a connection");
    let read_only = Action::Answer(Refusal::ReadOnly);
    for (conn, moves, actions) in [
        (&follows, true, vec![read_only.clone(), Action::Drop]),
        (&stays, false, vec![read_only.clone()]),
    ] {
        for action in actions {
            let before = connection(conn).await;
            let rule = Rule::new(action.clone()).about(Filter::command("INCR"));
            let rule = link.add(rule);
            let outcome = conn.call::<i64>(&incr()).await;
            // What never was answered stays unknown; it is not asked again.
            match action == read_only {
                true => assert!(matches!(outcome, Outcome::Refused(_)), "{outcome:?}"),
                false => assert!(matches!(outcome, Outcome::Unknown(_)), "{outcome:?}"),
            }
            assert_eq!(rule.hits(), 1);
            assert_eq!(connection(conn).await != before, moves, "{action:?}");
        }
    }
    servers.stop().await;
}

fn sentinel_name(group: &Group) -> String {
    group.sentinels().name().to_owned()
}

/// Five trials under a lock.
fn lost_grant(lock: &str) -> support::Ended {
    let words = "run scenarios/promotion-lost-grant.toml --trials 5 --lock";
    oversold(&format!("{words} {lock}")).run()
}

#[test]
fn a_lock_on_one_primary_is_lost_in_each_promotion_without_its_grant() {
    let ended = lost_grant("token-lua-watchdog");
    ended.exits(PASS);
    let report = ended.report();
    assert_eq!(report.doubts(), [""; 0], "{report:?}");
    assert_eq!(report.trials().len(), 5);
    for trial in report.trials() {
        assert!(
            trial["violations"]["overlap"].as_u64() > Some(0),
            "{report:?}"
        );
        let proof = trial["coverage"]["faults"][0]["proof"].as_str();
        assert!(
            proof.is_some_and(|proof| proof.contains("was promoted")),
            "{proof:?}"
        );
    }
    // The fault is over when the run ends: it was lifted, not cut off.
    for history in files_named("history.jsonl", &ended.reports) {
        let history = std::fs::read_to_string(history).expect("a history");
        let at = |event: &str| history.find(&format!("{{\"{event}\":"));
        assert!(at("promoted") < at("fault_landed"), "{history}");
        assert!(at("promoted").is_some() && at("fault_landed") < at("fault_ended"));
    }
    let causes: Vec<_> = report.causes_of("overlap").into_iter().collect();
    assert_eq!(causes, ["promotion-lost-grant"], "{report:?}");
}

#[test]
fn a_lock_on_a_majority_survives_the_loss_of_a_node() {
    let ended = lost_grant("redlock");
    ended.exits(PASS);
    let report = ended.report();
    assert_eq!(report.violated().len(), 0, "{report:?}");
    assert_eq!(report.doubts(), [""; 0], "{report:?}");
    assert_eq!(report.trials().len(), 5);
}

/// The scenario with something replaced.
fn with(from: &str, to: &str) -> String {
    let file = package("scenarios/promotion-lost-grant.toml");
    let text = std::fs::read_to_string(file).expect("the scenario");
    assert!(text.contains(from), "{from}");
    text.replace(from, to)
}

#[test]
fn a_promotion_that_comes_after_the_lease_proves_nothing() {
    let short = with("ttl = \"60s\"", "ttl = \"1s\"");
    let ended = oversold("run - --lock token-lua --expect pass -c 1")
        .reading(&short)
        .run();
    ended.exits(INCONCLUSIVE);
    let doubts = ended.report().doubts().join("; ");
    assert!(doubts.contains("nothing proves that it landed"), "{doubts}");
}

#[test]
fn all_servers_end_with_a_driver_that_is_killed_in_the_middle_of_a_lost_grant() {
    let mut running = oversold("run scenarios/promotion-lost-grant.toml").start();
    running.until_history_tells("fault_began");
    let servers = running.servers();
    assert!(servers.len() >= 5, "{servers:?}");
    running.signal(nix::sys::signal::Signal::SIGKILL);
    for server in servers {
        server.is_gone_within(SOON);
    }
}
