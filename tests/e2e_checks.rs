//! What the checks rely on, against real servers: the keys that are looked up at the end, the answers
//! that a link hears, and whose a connection is that only listens.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oversold::client::{Conn, Outcome, Patience};
use oversold::clock::Clock;
use oversold::history::Event;
use oversold::history::event::Kind;
use oversold::history::recorder;
use oversold::link::{Action, Filter, Link, Rule, Ways};
use oversold::lock;
use oversold::plan::{Overrides, Plan};
use oversold::run;
use oversold::scenario::{Scenario, Vocabulary};
use oversold::store::sqlite::Sqlite;
use oversold::topology::{self, Servers};
use support::{files_named, oversold, package};

/// Nothing that is waited for here takes longer, unless it is broken.
const SOON: Duration = Duration::from_secs(15);
const PATIENCE: Patience = Patience {
    connect: SOON,
    response: SOON,
};

async fn a_server() -> Servers {
    let binary = topology::find(None).expect("a redis-server on PATH");
    Servers::start(&binary, 1, 16).await.unwrap()
}

async fn say(server: SocketAddr, words: &str) {
    let conn = Conn::open(server, PATIENCE).await.unwrap();
    said(&conn, words).await;
}

async fn said(conn: &Conn, words: &str) {
    let mut words = words.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    for word in words {
        command.arg(word);
    }
    let answer: Outcome<redis::Value> = conn.call(&command).await;
    assert!(matches!(answer, Outcome::Done(_)), "{answer:?}");
}

// ---- what is left at the end

/// One worker that asks once.
fn one_question() -> Plan {
    let text = r#"
name = "one-question"
[load]
instances = 1
workers = 1
operations = 1
duration = "10s"
[workload]
kind = "flash-sale"
stock = 1
[section]
constant = "1ms"
[lock]
kind = "token-lua-watchdog"
ttl = "400ms"
"#;
    let known = Vocabulary {
        locks: lock::names(),
        properties: Vec::new(),
    };
    let scenario = Scenario::parse("one-question.toml", text, &known).unwrap();
    Plan::resolve(&scenario, &Overrides::default(), &scenario.lock, 1)
}

/// Runs it beside a stranger that holds the key with a lease of 400 ms; with its watchdog, or not.
/// What is found of the key at the end.
async fn beside_a_stranger(its_watchdog_goes_on: bool) -> Option<Kind> {
    let mut servers = a_server().await;
    let server = servers.addresses()[0];
    let plan = one_question();
    let key = oversold::workload::key_name(&plan.workload, 0);
    say(server, &format!("SET {key} stranger PX 400")).await;
    let watchdog = its_watchdog_goes_on.then(|| {
        tokio::spawn(async move {
            let conn = Conn::open(server, PATIENCE).await.unwrap();
            loop {
                tokio::time::sleep(Duration::from_millis(100)).await;
                said(&conn, &format!("PEXPIRE {key} 400")).await;
            }
        })
    });
    let events = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&events);
    let (recorder, drain) = recorder::start(Clock::start(), sink, |sink, batch: &[Event], _| {
        sink.lock().unwrap().extend_from_slice(batch);
    });
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    let store = Arc::new(Sqlite::create(&ledger, &plan.workload, plan.guard).unwrap());
    let (_interrupt, interrupted) = tokio::sync::watch::channel(None);
    let ran = run::run(&plan, &mut servers, store, recorder, interrupted).await;
    ran.unwrap();
    if let Some(watchdog) = watchdog {
        watchdog.abort();
    }
    drain.close();
    servers.stop().await;
    let events = events.lock().unwrap();
    let left = |event: &&Event| matches!(event.event, Kind::KeyAtEnd { .. });
    events.iter().find(left).map(|event| event.event.clone())
}

#[tokio::test]
async fn a_key_that_is_kept_alive_after_everybody_has_stopped_is_seen_to_rise() {
    let left = beside_a_stranger(true).await;
    let Some(Kind::KeyAtEnd {
        rises, after_ns, ..
    }) = left
    else {
        panic!("{left:?}");
    };
    assert!(rises >= 2, "{left:?}");
    assert!(after_ns >= 800_000_000, "two leases: {left:?}");
}

#[tokio::test]
async fn a_lease_that_only_runs_out_is_no_key_left_behind() {
    assert_eq!(beside_a_stranger(false).await, None);
}

// ---- what the links hear

#[test]
fn what_the_servers_answer_is_in_the_history_and_no_lock_says_otherwise() {
    let locks = "token-get-del,reentrant-watchdog,fair,redlock-watchdog";
    let words = format!("matrix --scenarios reply-lost --jobs 4 --locks {locks}");
    let ended = oversold(&words).run();
    for lock in ended.all() {
        assert!(!lock.violated().contains("false-answer"), "{lock:?}");
    }
    let histories = files_named("history.jsonl", &ended.reports);
    assert_eq!(histories.len(), 4);
    for history in histories {
        let text = std::fs::read_to_string(&history).unwrap();
        let heard = |what: &str| {
            let mut lines = text.lines().filter(|line| line.contains("{\"answered\""));
            let (to, done) = (format!("\"to\":\"{what}\""), "\"done\":true");
            lines.any(|line| line.contains(&to) && line.contains(done))
        };
        assert!(heard("acquire") && heard("release"), "{history:?}");
    }
}

// ---- whose a connection is that only listens

#[tokio::test]
async fn an_instance_that_is_cut_off_is_not_woken_either() {
    let servers = a_server().await;
    let server = servers.addresses()[0];
    let link = Link::start(server).await.unwrap();
    let name = Some("oversold-3-7".to_owned());
    let conn = Conn::open_as(name, link.address(), PATIENCE).await.unwrap();
    let mut message = conn.subscribe("released").await.unwrap();
    let mut pop = conn.blocking_pop("woken", PATIENCE.response).await.unwrap();
    let popped = tokio::spawn(async move { pop.pop(SOON).await });
    // It blocks by the time at which it is cut off.
    tokio::time::sleep(Duration::from_millis(100)).await;
    let hole = Rule::new(Action::BlackHole(Ways::Both)).about(Filter::instance(3));
    let hole = link.add(hole);
    say(server, "PUBLISH released 0").await;
    say(server, "RPUSH woken 1").await;
    let heard = tokio::time::timeout(Duration::from_millis(300), message.message()).await;
    assert!(heard.is_err(), "it was heard");
    assert!(!popped.is_finished(), "it was popped");
    drop(hole);
    let heard = tokio::time::timeout(SOON, message.message()).await;
    assert!(heard.is_ok(), "what was said meanwhile comes late");
    popped.await.unwrap().unwrap();
    servers.stop().await;
}

// ---- every scenario is explained

#[test]
fn the_scenarios_that_no_other_test_runs_are_explained_too() {
    let others = "cron,cron-missed,counter,incident-137-quiet";
    let locks = "set-nx-ex-del,token-lua-watchdog";
    let words = format!("matrix --scenarios {others} --locks {locks} --jobs 4 --trials 1");
    let ended = oversold(&words).run();
    // Each report that is read of a scenario of ours is held against it.
    assert!(ended.all().len() >= 4);
}

#[test]
fn every_scenario_is_run_by_some_test() {
    let folder = std::fs::read_dir(package("tests")).unwrap();
    let paths = folder.map(|entry| entry.unwrap().path());
    let runs = paths.filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("e2e_"))
    });
    let text: String = runs
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let part_of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let words: BTreeSet<&str> = text.split(|c| !part_of_a_name(c)).collect();
    for scenario in oversold::scenario::built_in::ALL {
        // Of the mistakes there is a list of its own.
        let name = scenario.name.trim_start_matches("mistake-");
        assert!(words.contains(name), "no test runs {name}");
    }
}
