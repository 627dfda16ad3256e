//! A Redis that is a user's own: as on servers that the run starts, under the least rights that the
//! README names, through TLS and Sentinels; nothing else there is touched, no password is told, and
//! what a fault changes is restored, even after a `kill -9`.

mod support;

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::*;
use tempfile::TempDir;

const PASSWORD: &str = "hush-4711-hush";
const FOREIGN: &str = "stock:lock:sku_10086";
const SETTING: &str = "min-replicas-to-write";

/// A server of the test's own, which the program knows nothing of.
struct Redis {
    child: Child,
    port: u16,
    folder: TempDir,
}

impl Redis {
    fn start(options: &[&str]) -> Redis {
        Redis::start_in(tempfile::tempdir().expect("a folder"), options)
    }

    fn start_in(folder: TempDir, options: &[&str]) -> Redis {
        let port = free_port();
        let mut command = Command::new("redis-server");
        command
            .args([
                "--port",
                &port.to_string(),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
            ])
            .args(options);
        Redis::ready(command, port, folder)
    }

    fn ready(mut command: Command, port: u16, folder: TempDir) -> Redis {
        let child = command
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server starts");
        let redis = Redis {
            child,
            port,
            folder,
        };
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < FOREVER, "redis-server does not listen");
            std::thread::sleep(Duration::from_millis(5));
        }
        redis
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    fn connect(&self, who: &str) -> redis::Connection {
        let url = format!("redis://{who}127.0.0.1:{}", self.port);
        let client = redis::Client::open(url).expect("a URL");
        client.get_connection().expect("a connection")
    }

    fn ask<T: redis::FromRedisValue>(&self, words: &str) -> T {
        ask(&mut self.connect(""), words)
    }

    /// All keys.
    fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.ask("KEYS *");
        keys.sort();
        keys
    }

    fn setting(&self, name: &str) -> String {
        let told: Vec<String> = self.ask(&format!("CONFIG GET {name}"));
        told[1].clone()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask<T: redis::FromRedisValue>(conn: &mut redis::Connection, words: &str) -> T {
    let words: Vec<&str> = words.split(' ').collect();
    let answer = redis::cmd(words[0]).arg(&words[1..]).query(conn);
    answer.expect("an answer")
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("an address").port()
}

/// The program with a state folder of the test's own.
fn at_home(words: &str, home: &Path) -> Oversold {
    let home = home.to_str().expect("text");
    oversold(words).variable("XDG_STATE_HOME", home)
}

/// The program with a state folder that nobody looks at, for runs that leave nothing in it.
fn run(words: &str) -> Oversold {
    at_home(words, Path::new(env!("CARGO_TARGET_TMPDIR")))
}

/// A sale in which writes are refused for a while from the fifth section on.
fn refused_for(seconds: u32) -> String {
    format!(
        r#"name = "refused"
[load]
instances = 2
workers = 6
duration = "30s"
[workload]
kind = "flash-sale"
stock = 100000
[section]
constant = "5ms"
[lock]
kind = "token-lua"
ttl = "500ms"
[lock.wait]
retry_every = "10ms"
give_up_after = "300ms"
[[fault]]
kind = "refuse-writes"
at = {{ point = "in-section", nth = 5 }}
for = "{seconds}s"
"#
    )
}

/// The whole text of every file in a folder and below.
fn all_text(folder: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        text += &path.display().to_string();
        text += &match path.is_dir() {
            true => all_text(&path),
            false => String::from_utf8_lossy(&std::fs::read(&path).expect("a file")).into_owned(),
        };
    }
    text
}

fn files_in(folder: &Path) -> usize {
    std::fs::read_dir(folder).map_or(0, |entries| entries.count())
}

/// The rule of the README, word by word, with another password and user.
fn grant_as_the_readme_says(redis: &Redis) {
    let readme = std::fs::read_to_string(package("README.md")).expect("the README");
    let rule = readme
        .lines()
        .find(|line| line.starts_with("ACL SETUSER oversold "));
    let rule = rule
        .expect("a rule")
        .replace(">PASSWORD", &format!(">{PASSWORD}"));
    redis.ask::<()>(&rule);
}

#[test]
fn under_the_least_rights_every_lock_is_judged_and_nothing_else_is_touched() {
    let redis = Redis::start(&["--notify-keyspace-events", "Ex"]);
    grant_as_the_readme_says(&redis);
    redis.ask::<()>(&format!("SET {FOREIGN} theirs"));
    redis.ask::<()>("SET oversold:theirs-too 1");
    let before = redis.keys();
    let home = tempfile::tempdir().expect("a folder");
    let url = format!("redis://oversold:{PASSWORD}@127.0.0.1:{}", redis.port);
    let words = "compare calm --time-scale 0.3 -n 60 -c 12 --store redis --locks token-get-del,token-lua-watchdog,\
                 reentrant-watchdog,fair,fenced,unique";
    let ended = at_home(words, home.path())
        .variable("OVERSOLD_URL", &url)
        .run();
    ended.exits(PASS);
    for lock in ended.all() {
        assert_eq!(lock.verdict(), "pass", "{lock:?}");
        let place = format!("127.0.0.1:{}", redis.port);
        assert!(
            lock.word("server").contains(&place),
            "{}",
            lock.word("server")
        );
    }
    assert_eq!(redis.keys(), before);
    assert_eq!(redis.ask::<String>(&format!("GET {FOREIGN}")), "theirs");
    let told = [
        all_text(&ended.reports),
        all_text(home.path()),
        ended.stdout.clone(),
        ended.stderr.clone(),
        format!("{:?}", ended.document()),
    ];
    assert!(told[0].contains("oversold:1_"), "the keys' own prefix");
    assert!(told.iter().all(|text| !text.contains(PASSWORD)));
}

#[test]
fn what_breaks_a_lock_on_servers_of_the_runs_own_breaks_it_there() {
    let redis = Redis::start(&["--notify-keyspace-events", "Ex"]);
    let words = "run gc-pause --lock token-lua";
    let own = oversold(words).run();
    let there = run(words).word("--url").word(redis.url()).run();
    own.exits(PASS);
    there.exits(PASS);
    for of in [&own, &there] {
        let report = of.report();
        assert_eq!(report.lock_verdict(), "fail", "{report:?}");
        assert!(report.violated().contains("overlap"), "{report:?}");
        assert!(report.causes().contains("frozen-holder"), "{report:?}");
    }
    assert!(redis.keys().is_empty());
}

#[test]
fn two_runs_beside_each_other_under_one_seed_do_not_meet() {
    let redis = Redis::start(&["--notify-keyspace-events", "Ex"]);
    let start = || {
        let words = "run calm --time-scale 0.3 -n 60 -c 12 --seed 7 --lock token-lua";
        run(words).word("--url").word(redis.url()).start()
    };
    let (one, other) = (start(), start());
    let ends = [one.ends(), other.ends()];
    let keys: Vec<String> = ends
        .iter()
        .map(|ended| {
            ended.exits(PASS);
            let history = files_named("history.jsonl", &ended.reports);
            let text = std::fs::read_to_string(&history[0]).expect("a history");
            let header: serde_json::Value =
                serde_json::from_str(text.lines().next().expect("a line")).expect("a header");
            header["keys"][0].as_str().expect("a key").to_owned()
        })
        .collect();
    assert!(
        keys.iter().all(|key| key.starts_with("oversold:7_")),
        "{keys:?}"
    );
    assert_ne!(keys[0], keys[1]);
    assert!(redis.keys().is_empty());
}

#[test]
fn a_lock_on_a_majority_takes_three_servers_that_are_three() {
    let servers = [(); 3].map(|()| Redis::start(&["--notify-keyspace-events", "Ex"]));
    let urls = servers.each_ref().map(Redis::url);
    let start = |urls: &[&str]| {
        let words = "run calm --time-scale 0.3 -n 40 -c 8 --lock redlock-watchdog";
        let words = urls
            .iter()
            .fold(run(words), |words, url| words.word("--url").word(url));
        words.run()
    };
    let ended = start(&[&urls[0], &urls[1], &urls[2]]);
    ended.exits(PASS);
    assert!(servers.iter().all(|redis| redis.keys().is_empty()));
    let few = start(&[&urls[0]]);
    few.exits(USAGE);
    assert!(few.stderr.contains("three servers"), "{}", few.stderr);
    let same = start(&[&urls[0], &urls[1], &urls[0]]);
    same.exits(ENVIRONMENT);
    assert!(same.stderr.contains("the same server"), "{}", same.stderr);
}

#[test]
fn through_tls_with_the_right_authority_and_not_without() {
    let folder = tempfile::tempdir().expect("a folder");
    let openssl = |words: &str| {
        let done = Command::new("openssl")
            .args(words.split(' '))
            .current_dir(folder.path())
            .output();
        let done = done.expect("openssl");
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    };
    openssl(
        "req -x509 -newkey rsa:2048 -nodes -days 2 -keyout ca.key -out ca.pem -subj /CN=ca \
         -addext basicConstraints=critical,CA:TRUE",
    );
    openssl("req -newkey rsa:2048 -nodes -keyout own.key -out own.csr -subj /CN=redis");
    std::fs::write(folder.path().join("names"), "subjectAltName=IP:127.0.0.1").expect("a file");
    openssl(
        "x509 -req -in own.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names \
         -out own.pem",
    );
    let port = free_port();
    let ca = folder.path().join("ca.pem");
    let tls = format!(
        "--tls-port {port} --tls-cert-file own.pem --tls-key-file own.key --tls-ca-cert-file ca.pem \
         --tls-auth-clients no --requirepass {PASSWORD}"
    );
    let redis = Redis::start_in(folder, &tls.split(' ').collect::<Vec<_>>());
    let url = format!("rediss://:{PASSWORD}@127.0.0.1:{port}");
    let start = |words: &str| run(words).variable("OVERSOLD_URL", &url);

    let ended = start("run calm --time-scale 0.3 -n 40 -c 8 --lock token-lua-watchdog --tls-ca")
        .word(&ca)
        .run();
    ended.exits(PASS);
    assert!(redis.folder.path().exists());

    let stranger = start("run calm").run();
    stranger.exits(ENVIRONMENT).within(Duration::from_secs(10));
    for word in [&format!("127.0.0.1:{port}"), "--tls-ca FILE"] {
        assert!(stranger.stderr.contains(word), "{}", stranger.stderr);
    }
    let link = start("run reply-lost").run();
    link.exits(USAGE);
    for word in ["reply-lost", "`lose-reply`", "TLS", "redis://"] {
        assert!(link.stderr.contains(word), "{}", link.stderr);
    }
    for ended in [&ended, &stranger, &link] {
        assert!(!format!("{}{}", ended.stdout, ended.stderr).contains(PASSWORD));
    }
}

#[test]
fn sentinels_say_where_the_primary_is() {
    let password = format!("--requirepass {PASSWORD} --masterauth {PASSWORD}");
    let primary = Redis::start(&password.split(' ').collect::<Vec<_>>());
    let (port, folder) = (free_port(), tempfile::tempdir().expect("a folder"));
    let configuration = format!(
        "port {port}\nbind 127.0.0.1\nsentinel monitor shop 127.0.0.1 {} 1\n\
         sentinel auth-pass shop {PASSWORD}\n",
        primary.port
    );
    std::fs::write(folder.path().join("sentinel.conf"), configuration).expect("a file");
    let mut command = Command::new("redis-server");
    command.args(["sentinel.conf", "--sentinel"]);
    let _sentinel = Redis::ready(command, port, folder);
    let nobody = free_port();
    let url = |name: &str| {
        format!("redis+sentinel://:{PASSWORD}@127.0.0.1:{nobody},127.0.0.1:{port}/{name}/1")
    };
    let words = "run calm --time-scale 0.3 -n 40 -c 8 --lock token-lua";
    let ended = run(words).variable("OVERSOLD_URL", &url("shop")).run();
    ended.exits(PASS);
    let mut left = primary.connect(&format!(":{PASSWORD}@"));
    assert_eq!(ask::<i64>(&mut left, "DBSIZE"), 0);
    let ended = run(words).variable("OVERSOLD_URL", &url("other")).run();
    ended.exits(ENVIRONMENT).within(Duration::from_secs(10));
    assert!(
        ended.stderr.contains("no Sentinel there names a primary"),
        "{}",
        ended.stderr
    );
    assert!(!ended.stderr.contains(PASSWORD), "{}", ended.stderr);
}

#[test]
fn what_cannot_or_must_not_be_done_there_is_refused_before_anything_is_asked() {
    let nobody = format!("redis://127.0.0.1:{}", free_port());
    let process = "a server's own process";
    for (scenario, fault, why) in [
        ("promotion-lost-grant", "`lost-grant`", process),
        ("restart-empty", "`restart`", process),
        ("clock-jump", "`clock-jump`", process),
        ("quorum-restart", "`quorum-restart`", process),
        ("quorum-clock", "`quorum-clock`", process),
    ] {
        let words = format!("run {scenario} --lock token-lua --url {nobody} --allow-server-faults");
        let ended = run(&words).run();
        ended.exits(USAGE);
        for word in [scenario, fault, why] {
            assert!(ended.stderr.contains(word), "{}", ended.stderr);
        }
    }
    let ended = run("run - --url")
        .word(&nobody)
        .reading(&refused_for(1))
        .run();
    ended.exits(USAGE);
    for word in ["`refuse-writes`", "--allow-server-faults"] {
        assert!(ended.stderr.contains(word), "{}", ended.stderr);
    }
}

#[test]
fn nobody_behind_a_port_and_a_wrong_password_are_told_at_once() {
    let nobody = free_port();
    let ended = run(&format!("run calm --url redis://127.0.0.1:{nobody}")).run();
    ended.exits(ENVIRONMENT).within(Duration::from_secs(5));
    let place = format!("127.0.0.1:{nobody}");
    assert!(
        ended.stderr.contains(&place) && ended.stderr.contains("redis-cli"),
        "{}",
        ended.stderr
    );

    let redis = Redis::start(&["--requirepass", "another"]);
    let wrong = format!("redis://:{PASSWORD}@127.0.0.1:{}", redis.port);
    for (url, word) in [
        (wrong, "OVERSOLD_URL"),
        (redis.url(), "redis://USER:PASSWORD@HOST:PORT"),
    ] {
        let ended = run("run calm").variable("OVERSOLD_URL", &url).run();
        ended.exits(ENVIRONMENT).within(Duration::from_secs(5));
        assert!(ended.stderr.contains(word), "{}", ended.stderr);
        assert!(!ended.stderr.contains(PASSWORD), "{}", ended.stderr);
    }
}

#[test]
fn a_soak_at_a_port_with_nobody_behind_it_ends_at_once() {
    let ended = run(&format!(
        "soak -c 200 --url redis://127.0.0.1:{}",
        free_port()
    ))
    .run();
    ended.exits(3).within(Duration::from_secs(5));
}

#[test]
fn a_soak_bears_an_outage_there_for_as_long_as_it_is_told_to() {
    let redis = Redis::start(&[]);
    let url = redis.url();
    let mut running = run(&format!("soak -c 20 -z 6s --history full --url {url}")).start();
    running.until_history_tells("released");
    let server = Pid::from_raw(redis.child.id() as i32);
    kill(server, Signal::SIGSTOP).expect("a server");
    std::thread::sleep(Duration::from_secs(4));
    kill(server, Signal::SIGCONT).expect("a server");
    let ended = running.ends();
    let trial = &ended.report().trials()[0];
    assert_eq!(trial["coverage"]["stop"], "duration_over", "{trial}");
    assert_ne!(trial["soak"]["silence"]["count"], 0, "{trial}");
}

#[test]
fn a_unix_socket_is_reached_by_its_path_and_no_link_stands_before_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("redis.sock");
    let path = socket.display().to_string();
    let redis = Redis::start_in(folder, &["--unixsocket", &path]);
    let began = Instant::now();
    while !socket.exists() {
        assert!(began.elapsed() < FOREVER, "no socket");
        std::thread::sleep(Duration::from_millis(5));
    }
    let ended = run(&format!("soak -c 20 -n 2k --keys 2 --url unix://{path}")).run();
    ended.exits(0);
    assert_eq!(redis.keys(), Vec::<String>::new());
    let ended = run(&format!("run reply-lost --url unix://{path}")).run();
    ended.exits(2);
    assert!(
        ended.stderr.contains("redis://HOST:PORT"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_missing_permission_is_named_with_what_grants_it() {
    let redis = Redis::start(&[]);
    let url = format!("redis://oversold:{PASSWORD}@127.0.0.1:{}", redis.port);
    for (taken, words, named) in [
        ("-info", "run calm", "ACL SETUSER oversold +info"),
        (
            "-evalsha",
            "run calm --lock token-lua",
            "ACL SETUSER oversold +evalsha",
        ),
        (
            "-publish",
            "run calm --lock reentrant-watchdog",
            "ACL SETUSER oversold +@read +@write",
        ),
        ("resetkeys", "run calm", "ACL SETUSER oversold ~oversold:*"),
        (
            "-config",
            "run - --allow-server-faults",
            "ACL SETUSER oversold +config|get",
        ),
    ] {
        grant_as_the_readme_says(&redis);
        redis.ask::<()>(&format!("ACL SETUSER oversold {taken}"));
        let start = run(words)
            .variable("OVERSOLD_URL", &url)
            .reading(&refused_for(1));
        let ended = start.run();
        ended.exits(ENVIRONMENT);
        assert!(ended.stderr.contains(named), "{taken}: {}", ended.stderr);
        assert!(redis.keys().is_empty(), "{taken}: {:?}", redis.keys());
    }
}

#[test]
fn a_server_that_cannot_be_used_is_told_before_the_load() {
    let redis = Redis::start(&["--maxclients", "50"]);
    let few = run(&format!("run calm --url {}", redis.url())).run();
    few.exits(ENVIRONMENT);
    assert!(few.stderr.contains("it takes 50 clients"), "{}", few.stderr);
    let of = format!("127.0.0.1 {}", redis.port);
    let replica = Redis::start(&["--replicaof", &of]);
    let ended = run(&format!("run calm -c 8 --url {}", replica.url())).run();
    ended.exits(ENVIRONMENT);
    let told = format!("a replica of 127.0.0.1:{}", redis.port);
    assert!(ended.stderr.contains(&told), "{}", ended.stderr);
}

#[test]
fn a_server_that_goes_away_in_the_middle_ends_the_run_without_a_verdict() {
    let mut redis = Redis::start(&[]);
    let words = format!(
        "run - --lock token-lua --url {} --allow-server-faults",
        redis.url()
    );
    let home = tempfile::tempdir().expect("a folder");
    let mut running = at_home(&words, home.path())
        .reading(&refused_for(1))
        .start();
    running.until_history_tells("entered");
    redis.child.kill().expect("it is ours");
    let ended = running.ends();
    ended.exits(INCONCLUSIVE).within(Duration::from_secs(60));
    assert!(ended.stderr.contains("may be left"), "{}", ended.stderr);
}

#[test]
fn what_a_fault_changes_is_restored_when_the_run_ends_and_when_it_is_interrupted() {
    let redis = Redis::start(&["--maxmemory-policy", "volatile-lfu"]);
    let home = tempfile::tempdir().expect("a folder");
    let words = format!("run - --url {} --allow-server-faults -n 12", redis.url());
    let evict = refused_for(1)
        .replace("refuse-writes", "evict")
        .replace("for = \"1s\"\n", "")
        .replace("nth = 5", "nth = 2")
        .replace("5ms", "300ms")
        .replace("500ms", "5s");
    let ended = at_home(&words, home.path()).reading(&evict).run();
    let fault = &ended.report().trials()[0]["coverage"]["faults"][0];
    assert!(
        fault["proof"]
            .as_str()
            .is_some_and(|proof| proof.contains("evicted")),
        "{fault}"
    );
    assert_eq!(redis.setting("maxmemory-policy"), "volatile-lfu");
    assert_eq!(redis.setting("maxmemory"), "0");
    assert_eq!(redis.setting("notify-keyspace-events"), "");

    let words = format!("run - --url {} --allow-server-faults", redis.url());
    let mut running = at_home(&words, home.path())
        .reading(&refused_for(2))
        .start();
    running.until_history_tells("fault_landed");
    assert_eq!(redis.setting(SETTING), "1000");
    running.signal(Signal::SIGINT);
    running.ends().exits(SIGINT);
    assert_eq!(redis.setting(SETTING), "0");
    assert_eq!(redis.setting("notify-keyspace-events"), "");
    assert_eq!(files_in(&home.path().join("oversold/heal")), 0);
    assert!(redis.keys().is_empty());
}

/// A run with these faults at a server, interrupted when `then` has seen what it waits for.
fn interrupted(redis: &Redis, text: &str, then: impl FnOnce(&mut Running)) -> Ended {
    let home = tempfile::tempdir().expect("a folder");
    let words = format!("run - --url {} --allow-server-faults", redis.url());
    let mut running = at_home(&words, home.path()).reading(text).start();
    then(&mut running);
    running.signal(Signal::SIGINT);
    let ended = running.ends();
    ended.exits(SIGINT);
    assert_eq!(files_in(&home.path().join("oversold/heal")), 0);
    ended
}

#[test]
fn what_somebody_else_has_changed_meanwhile_is_left_so() {
    let redis = Redis::start(&[]);
    let ended = interrupted(&redis, &refused_for(2), |running| {
        running.until_history_tells("fault_landed");
        redis.ask::<()>(&format!("CONFIG SET {SETTING} 7"));
    });
    assert_eq!(redis.setting(SETTING), "7");
    let told = "somebody else has changed it";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    assert_eq!(redis.setting("notify-keyspace-events"), "");
}

#[test]
fn of_two_faults_that_change_one_setting_the_last_one_restores_it() {
    let redis = Redis::start(&[]);
    let point = "at = { point = \"in-section\", nth = 5 }";
    let first = refused_for(1).replace(point, "at = { time = \"300ms\" }");
    let second = "[[fault]]\nkind = \"refuse-writes\"\nat = { time = \"800ms\" }\nfor = \"4s\"\n";
    interrupted(&redis, &(first + second), |running| {
        running.until_history_tells("fault_ended");
        assert_eq!(redis.setting(SETTING), "1000");
    });
    assert_eq!(redis.setting(SETTING), "0");
}

#[test]
fn what_somebody_else_has_set_between_two_faults_is_what_it_was() {
    let redis = Redis::start(&[]);
    let point = "at = { point = \"in-section\", nth = 5 }";
    let first = refused_for(3).replace(point, "at = { time = \"300ms\" }");
    let second = "[[fault]]\nkind = \"refuse-writes\"\nat = { time = \"1500ms\" }\nfor = \"4s\"\n";
    interrupted(&redis, &(first + second), |running| {
        running.until_history_tells("fault_landed");
        redis.ask::<()>(&format!("CONFIG SET {SETTING} 7"));
        let began = Instant::now();
        while redis.setting(SETTING) != "1000" {
            assert!(
                began.elapsed() < FOREVER,
                "the second fault does not strike"
            );
        }
    });
    assert_eq!(redis.setting(SETTING), "7");
}

#[test]
fn a_server_that_takes_itself_for_a_replica_follows_nobody() {
    let redis = Redis::start(&[]);
    let read_only = refused_for(1).replace("refuse-writes", "read-only");
    let ended = interrupted(&redis, &read_only, |running| {
        running.until_history_tells("fault_began");
        let began = Instant::now();
        while redis.setting("replicaof").is_empty() {
            assert!(began.elapsed() < FOREVER, "it follows nobody");
        }
        assert_eq!(redis.setting("replicaof"), "192.0.2.1 6379");
        running.until_history_tells("fault_landed");
    });
    let fault = &ended.report().trials()[0]["coverage"]["faults"][0];
    let proof = fault["proof"].as_str();
    assert!(
        proof.is_some_and(|proof| proof.to_uppercase().contains("READONLY")),
        "{fault}"
    );
    assert_eq!(redis.setting("replicaof"), "");
}

#[test]
fn after_a_kill_9_the_doctor_restores_what_was_changed() {
    let redis = Redis::start(&["--notify-keyspace-events", "K$"]);
    grant_as_the_readme_says(&redis);
    redis.ask::<()>("ACL SETUSER oversold +config|get +config|set");
    let home = tempfile::tempdir().expect("a folder");
    let url = format!("redis://oversold:{PASSWORD}@127.0.0.1:{}", redis.port);
    let program = |words: &str| at_home(words, home.path()).variable("OVERSOLD_URL", &url);
    let events = redis.setting("notify-keyspace-events");
    let mut running = program("run - --allow-server-faults")
        .reading(&refused_for(30))
        .start();
    running.until_history_tells("fault_landed");
    running.signal(Signal::SIGKILL);
    drop(running);
    assert_eq!(redis.setting(SETTING), "1000");
    assert!(!all_text(home.path()).contains(PASSWORD));

    let told = program("doctor").run();
    for word in [
        &format!("127.0.0.1:{}", redis.port),
        SETTING,
        "doctor --heal",
    ] {
        assert!(told.stdout.contains(word), "{}", told.stdout);
    }
    let refused = program("run calm").run();
    refused.exits(ENVIRONMENT);
    assert!(
        refused.stderr.contains("doctor --heal"),
        "{}",
        refused.stderr
    );

    let healed = program("doctor --heal").run();
    healed.exits(PASS);
    assert!(
        healed
            .stdout
            .contains(&format!("`{SETTING}` is \"0\" again")),
        "{}",
        healed.stdout
    );
    assert_eq!(redis.setting(SETTING), "0");
    assert_eq!(redis.setting("notify-keyspace-events"), events);
    assert_eq!(files_in(&home.path().join("oversold/heal")), 0);
    assert!(!program("doctor").run().stdout.contains("heal"));
    for ended in [told, refused, healed] {
        assert!(!format!("{}{}", ended.stdout, ended.stderr).contains(PASSWORD));
    }
}
