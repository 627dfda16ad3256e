//! Each lock's commands against a real server, and the one border at which it is decided what
//! became of a call: done, refused or unknown.

mod support;

use std::future::ready;
use std::time::Duration;

use oversold::client::{Conn, Outcome, Patience};
use oversold::clock::Clock;
use oversold::history::event::Release;
use oversold::lock::{self, Acquire, Boxed, Call, Lease, Lock, Points, Renewal, WakeUp, Wakes};
use oversold::scenario::Point;
use oversold::topology::{self, Servers};

const KEY: &str = "stock:lock:sku_1";
const TTL: Duration = Duration::from_secs(30);
const PATIENCE: Patience = Patience {
    connect: Duration::from_secs(5),
    response: Duration::from_secs(5),
};

/// The locks that ask a server, and whether they tell their own key from another's.
const LOCKS: [(&str, bool); 5] = [
    ("setnx-expire-del", false),
    ("set-nx-ex-del", false),
    ("token-get-del", true),
    ("token-lua", true),
    ("token-lua-watchdog", true),
];

/// Locks with a watchdog whose name does not say so.
const RENEWING: [&str; 2] = ["fair", "fenced"];

/// No fault strikes anywhere.
struct Calm;

impl Points for Calm {
    fn reached(&self, _: Point) -> Boxed<'_, ()> {
        Box::pin(ready(()))
    }
}

async fn server() -> Servers {
    let binary = topology::find(None).expect("a redis-server on PATH");
    Servers::start(&binary, 1, 8).await.expect("a server")
}

async fn conn(server: &Servers) -> Conn {
    conn_with(server, PATIENCE).await
}

async fn conn_with(server: &Servers, patience: Patience) -> Conn {
    Conn::open(server.addresses()[0], patience)
        .await
        .expect("a connection")
}

fn lock(name: &str, ttl: Duration) -> Box<dyn Lock> {
    (lock::find(name).expect("a lock of that name").make)(ttl)
}

fn call<'a>(conn: &'a Conn, token: &'a str) -> Call<'a> {
    Call {
        nodes: std::slice::from_ref(conn),
        clock: Clock::start().into(),
        key: KEY,
        token,
        owner: token,
        pause: Duration::ZERO,
        points: &Calm,
    }
}

/// A command as a user would type it.
fn typed(words: &str) -> redis::Cmd {
    let mut words = words.split(' ');
    let mut command = redis::cmd(words.next().expect("a word"));
    words.for_each(|word| {
        command.arg(word);
    });
    command
}

async fn say<T: redis::FromRedisValue>(conn: &Conn, words: &str) -> T {
    match conn.call(&typed(words)).await {
        Outcome::Done(answer) => answer,
        Outcome::Refused(why) | Outcome::Unknown(why) => panic!("{words}: {why}"),
    }
}

fn granted() -> Acquire {
    Acquire::Granted(Lease::of(TTL))
}

#[tokio::test]
async fn every_lock_grants_a_free_key_with_its_ttl_and_denies_a_held_one() {
    let server = server().await;
    let (one, other) = (conn(&server).await, conn(&server).await);
    for (name, _) in LOCKS {
        let lock = lock(name, TTL);
        assert_eq!(lock.acquire(&call(&one, "A")).await, granted(), "{name}");
        let left: i64 = say(&one, &format!("PTTL {KEY}")).await;
        assert!((25_000..=30_000).contains(&left), "{name}: {left} ms");
        assert_eq!(
            lock.acquire(&call(&other, "B")).await,
            Acquire::Denied(None),
            "{name}"
        );
        assert_eq!(
            lock.acquire(&call(&one, "A")).await,
            Acquire::Denied(None),
            "not reentrant: {name}"
        );
        assert_eq!(
            lock.release(&call(&one, "A")).await,
            Release::Removed,
            "{name}"
        );
        assert_eq!(
            say::<i64>(&one, &format!("EXISTS {KEY}")).await,
            0,
            "{name}"
        );
        assert_eq!(lock.acquire(&call(&other, "B")).await, granted(), "{name}");
        assert_eq!(
            lock.release(&call(&other, "B")).await,
            Release::Removed,
            "{name}"
        );
        assert_eq!(
            lock.release(&call(&other, "B")).await,
            Release::Gone,
            "{name}"
        );
    }
}

#[tokio::test]
async fn none_walks_in_and_touches_no_key() {
    let server = server().await;
    let conn = conn(&server).await;
    let none = lock("none", TTL);
    let walked_in = Acquire::Granted(Lease {
        ttl: None,
        locked: false,
        fence: None,
        validity: None,
    });
    assert_eq!(none.acquire(&call(&conn, "A")).await, walked_in);
    assert_eq!(none.acquire(&call(&conn, "B")).await, walked_in);
    assert_eq!(none.release(&call(&conn, "A")).await, Release::Nothing);
    assert_eq!(say::<i64>(&conn, "DBSIZE").await, 0);
}

#[tokio::test]
async fn a_lease_that_nobody_renews_ends_by_itself() {
    let server = server().await;
    let (one, other) = (conn(&server).await, conn(&server).await);
    for (name, _) in LOCKS {
        let lock = lock(name, Duration::from_millis(40));
        assert!(
            matches!(lock.acquire(&call(&one, "A")).await, Acquire::Granted(_)),
            "{name}"
        );
        tokio::time::sleep(Duration::from_millis(60)).await;
        assert!(
            matches!(lock.acquire(&call(&other, "B")).await, Acquire::Granted(_)),
            "{name}"
        );
        say::<i64>(&other, &format!("DEL {KEY}")).await;
    }
}

#[tokio::test]
async fn a_late_release_leaves_anothers_lock_alone_where_a_token_is_compared() {
    let server = server().await;
    let (one, other) = (conn(&server).await, conn(&server).await);
    for (name, compares) in LOCKS {
        let lock = lock(name, TTL);
        assert_eq!(lock.acquire(&call(&one, "A")).await, granted());
        // A's lease ends, and B comes in.
        say::<i64>(&other, &format!("DEL {KEY}")).await;
        assert_eq!(lock.acquire(&call(&other, "B")).await, granted());
        let outcome = lock.release(&call(&one, "A")).await;
        let there: i64 = say(&other, &format!("EXISTS {KEY}")).await;
        match compares {
            true => assert_eq!((outcome, there), (Release::NotMine, 1), "{name}"),
            false => assert_eq!((outcome, there), (Release::Removed, 0), "{name}"),
        }
        say::<i64>(&other, &format!("DEL {KEY}")).await;
    }
}

#[tokio::test]
async fn a_renewal_extends_only_the_callers_own_lease() {
    let server = server().await;
    let conn = conn(&server).await;
    let lock = lock("token-lua-watchdog", TTL);
    let watchdog = lock.watchdog().expect("it has a watchdog");
    assert_eq!(watchdog.every(), TTL / 3);
    assert_eq!(lock.acquire(&call(&conn, "A")).await, granted());
    say::<i64>(&conn, &format!("PEXPIRE {KEY} 9000")).await;
    let left = async || say::<i64>(&conn, &format!("PTTL {KEY}")).await;
    assert_eq!(watchdog.renew(&call(&conn, "B")).await, Renewal::Lost);
    assert!(left().await <= 9_000, "another's token extends nothing");
    assert_eq!(watchdog.renew(&call(&conn, "A")).await, Renewal::Extended);
    assert!(
        (25_000..=30_000).contains(&left().await),
        "a full TTL from now"
    );
    assert_eq!(lock.release(&call(&conn, "A")).await, Release::Removed);
    assert_eq!(watchdog.renew(&call(&conn, "A")).await, Renewal::Lost);
    assert_eq!(
        say::<i64>(&conn, "DBSIZE").await,
        0,
        "a renewal never brings a key back"
    );
}

#[tokio::test]
async fn only_the_locks_that_say_so_renew() {
    for entry in &lock::ALL {
        let lock = (entry.make)(TTL);
        assert_eq!(lock.watchdog().is_some(), entry.renews, "{}", entry.name);
        let by_name = entry.name.ends_with("-watchdog") || RENEWING.contains(&entry.name);
        assert_eq!(entry.renews, by_name, "{}", entry.name);
    }
}

#[tokio::test]
async fn only_the_locks_that_say_so_wake_their_waiters_and_as_they_say() {
    let server = server().await;
    let conn = conn(&server).await;
    for entry in &lock::ALL {
        let lock = (entry.make)(TTL);
        let wakes = lock
            .wake_up(&call(&conn, "A"))
            .map(|wake_up| match wake_up {
                WakeUp::Message(_) => Wakes::ByMessage,
                WakeUp::Pop(_) => Wakes::ByPop,
            });
        assert_eq!(wakes, entry.wakes, "{}", entry.name);
    }
    assert_eq!(lock::waking(), ["reentrant-watchdog", "fair"]);
}

#[test]
fn waiting_for_a_wake_up_under_a_lock_that_wakes_nobody_is_refused_before_anything_runs() {
    let scenario = "scenarios/wake-up.toml";
    for words in [
        format!("run scenarios/calm.toml {scenario} --lock token-lua"),
        format!("compare {scenario} --locks fair,token-lua"),
    ] {
        let ended = support::oversold(&words).run();
        ended.exits(support::USAGE);
        let told = "token-lua wakes nobody; these locks do: reentrant-watchdog, fair";
        assert!(ended.stderr.contains(told), "{words}: {}", ended.stderr);
        assert!(
            support::files_named("history.jsonl", &ended.reports).is_empty(),
            "{words}: nothing ran"
        );
    }
}

#[test]
fn a_matrix_leaves_out_the_cell_of_a_lock_that_wakes_nobody_and_wants_one_to_run() {
    let only = |locks: &str| format!("matrix --scenarios wake-up --locks {locks}");
    let ended = support::oversold(&only("fair,token-lua")).run();
    ended.exits(support::PASS);
    assert_eq!(ended.report().name(), "fair");
    assert!(ended.stderr.contains("left out"), "{}", ended.stderr);
    let ended = support::oversold(&only("token-lua")).run();
    ended.exits(support::USAGE);
    assert!(ended.stderr.contains("no cell to run"), "{}", ended.stderr);
}

#[test]
fn workers_that_wait_for_a_wake_up_need_room_for_a_second_connection() {
    let calm = "run scenarios/calm.toml -c 200 -n 200 --lock fair";
    support::oversold(calm)
        .with_open_files(400)
        .run()
        .exits(support::PASS);
    let waking = "run scenarios/wake-up.toml -c 200 --lock fair";
    let ended = support::oversold(waking).with_open_files(400).run();
    ended.exits(support::ENVIRONMENT);
    assert!(ended.stderr.contains("ulimit -Hn"), "{}", ended.stderr);
    support::oversold(waking).run().exits(support::PASS);
}

#[test]
fn the_locks_that_wake_their_waiters_pass_the_scenario_of_it_and_the_others_are_left_out() {
    let ended = support::oversold("compare scenarios/wake-up.toml").run();
    ended.exits(support::PASS);
    let names: Vec<_> = ended.all().iter().map(|report| report.name()).collect();
    assert_eq!(names, lock::waking());
    let left_out = ended
        .stderr
        .lines()
        .filter(|line| line.contains("left out"));
    let left_out: Vec<_> = left_out.collect();
    let [line] = left_out.as_slice() else {
        panic!("one line: {}", ended.stderr);
    };
    assert!(
        line.contains("none, ") && line.contains("token-lua, "),
        "{line}"
    );
    assert!(!line.contains("fair"), "{line}");
}

#[tokio::test]
async fn scripts_survive_a_script_flush_between_two_calls() {
    let server = server().await;
    let conn = conn(&server).await;
    let lock = lock("token-lua-watchdog", TTL);
    let watchdog = lock.watchdog().expect("it has a watchdog");
    for _ in 0..2 {
        assert_eq!(lock.acquire(&call(&conn, "A")).await, granted());
        assert_eq!(watchdog.renew(&call(&conn, "A")).await, Renewal::Extended);
        say::<String>(&conn, "SCRIPT FLUSH").await;
        assert_eq!(watchdog.renew(&call(&conn, "A")).await, Renewal::Extended);
        assert_eq!(lock.release(&call(&conn, "A")).await, Release::Removed);
        say::<String>(&conn, "SCRIPT FLUSH").await;
    }
}

#[tokio::test]
async fn a_token_that_another_kind_of_value_holds_the_place_of_is_refused_by_the_server() {
    let server = server().await;
    let conn = conn(&server).await;
    say::<i64>(&conn, &format!("LPUSH {KEY} A")).await;
    for name in ["token-get-del", "token-lua"] {
        let outcome = lock(name, TTL).release(&call(&conn, "A")).await;
        assert!(matches!(outcome, Release::Failed(_)), "{name}: {outcome:?}");
        assert_eq!(
            say::<i64>(&conn, &format!("EXISTS {KEY}")).await,
            1,
            "{name}"
        );
    }
}

#[tokio::test]
async fn a_call_that_is_not_answered_in_time_is_unknown_and_may_have_been_applied() {
    let server = server().await;
    let admin = conn(&server).await;
    let short = Patience {
        response: Duration::from_millis(100),
        ..PATIENCE
    };
    let conn = conn_with(&server, short).await;
    let lock = lock("token-lua", TTL);
    say::<String>(&admin, "CLIENT PAUSE 400 ALL").await;
    let outcome = lock.acquire(&call(&conn, "A")).await;
    assert!(matches!(outcome, Acquire::Unknown(_)), "{outcome:?}");
    // It was on its way and the server applies it when the pause is over.
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(say::<String>(&admin, &format!("GET {KEY}")).await, "A");
    // The late answer is not taken for that of the next call.
    assert_eq!(say::<String>(&conn, &format!("GET {KEY}")).await, "A");
    assert_eq!(lock.release(&call(&conn, "A")).await, Release::Removed);
}

#[tokio::test]
async fn a_refused_connection_is_a_refusal_for_nothing_was_sent() {
    let server = server().await;
    let conn = conn(&server).await;
    let address = server.addresses()[0];
    server.stop().await;
    // The first call may find that the connection is gone only when it has written to it.
    let first = conn.call::<i64>(&typed("DBSIZE")).await;
    assert!(!matches!(first, Outcome::Done(_)), "{first:?}");
    let next = conn.call::<i64>(&typed("DBSIZE")).await;
    assert!(matches!(next, Outcome::Refused(_)), "{next:?}");
    assert!(Conn::open(address, PATIENCE).await.is_err());
    let outcome = lock("token-lua", TTL).acquire(&call(&conn, "A")).await;
    assert!(matches!(outcome, Acquire::Failed(_)), "{outcome:?}");
}

#[tokio::test]
async fn a_killed_connection_is_made_again_by_the_next_call_and_nothing_is_sent_twice() {
    let server = server().await;
    let (admin, conn) = (conn(&server).await, conn(&server).await);
    let id: i64 = say(&conn, "CLIENT ID").await;
    say::<i64>(&conn, "INCR counted").await;
    say::<i64>(&admin, &format!("CLIENT KILL ID {id}")).await;
    // Whether this one was applied nobody can know, unless it was answered.
    let hit = conn.call::<i64>(&typed("INCR counted")).await;
    assert!(
        !matches!(hit, Outcome::Refused(_)),
        "it may have been sent: {hit:?}"
    );
    let counted: i64 = say(&conn, "INCR counted").await;
    let expected = if matches!(hit, Outcome::Done(_)) {
        3
    } else {
        2
    };
    assert_eq!(counted, expected, "{hit:?}");
    assert_ne!(say::<i64>(&conn, "CLIENT ID").await, id, "a new connection");
}

#[tokio::test]
async fn the_servers_own_word_is_a_refusal() {
    let server = server().await;
    let conn = conn(&server).await;
    say::<i64>(&conn, "LPUSH list 1").await;
    let wrong = conn.call::<i64>(&typed("INCR list")).await;
    assert!(matches!(wrong, Outcome::Refused(_)), "{wrong:?}");
    say::<String>(&conn, "CONFIG SET maxmemory 1").await;
    let full = lock("token-lua", TTL).acquire(&call(&conn, "A")).await;
    assert!(matches!(full, Acquire::Failed(_)), "{full:?}");
    assert_eq!(say::<i64>(&conn, &format!("EXISTS {KEY}")).await, 0);
}

#[tokio::test]
async fn a_dropped_server_is_gone_with_its_folder() {
    let server = server().await;
    let pid = server.pids()[0];
    let children = support::children_of(std::process::id());
    let process = children.into_iter().find(|child| child.pid == pid);
    let process = process.expect("it is our child");
    let folder = std::fs::read_link(format!("/proc/{pid}/cwd")).expect("its folder");
    assert!(folder.is_dir());
    drop(server);
    process.is_gone_within(Duration::from_secs(2));
    assert!(!folder.exists(), "{}", folder.display());
}
