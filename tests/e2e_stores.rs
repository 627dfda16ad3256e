//! The three stores, on real servers: what each guard promises holds under two hundred writers at
//! once, what it does not promise is lost, and one scenario has one verdict on all of them.

#![expect(clippy::print_stderr, reason = "a test that is skipped says so")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use assert_cmd::Command;
use futures_util::future::join_all;
use oversold::clock::Time;
use oversold::plan::{Overrides, Plan};
use oversold::scenario::{self, Granularity, Guard, Scenario, Vocabulary, Workload};
use oversold::store::{Database, Ledger, Opened, Seen, Store, Write};
use oversold::topology::{self, Postgres, Servers};
use oversold::{check, lock};
use serde_json::Value;
use tempfile::TempDir;

/// Writers at once.
const WRITERS: u64 = 200;
/// Units in stock.
const STOCK: u32 = 100;
/// How often a refused compare-and-set reads again.
const AGAIN: usize = 1_000;

fn skip(kind: scenario::Store) -> bool {
    let missing = kind == scenario::Store::Postgres && Postgres::installed().is_err();
    if missing {
        eprintln!("SKIPPED: PostgreSQL is not installed here (initdb and postgres)");
    }
    missing
}

fn flash_sale() -> Workload {
    Workload::FlashSale {
        stock: STOCK,
        skus: 1,
        granularity: Granularity::Sku,
    }
}

/// The workloads: each shape of a business, and those that share one.
fn workloads() -> [Workload; 6] {
    [
        flash_sale(),
        Workload::Reconcile {
            accounts: 2,
            entries: 20,
        },
        Workload::Counter,
        Workload::Tally {
            keys: 3,
            own: false,
        },
        Workload::Cron {
            ticks: 3,
            every_ns: 1,
        },
        Workload::Leader,
    ]
}

fn plan(workload: Workload, guard: Guard) -> Plan {
    let text = "name = \"stores\"\nload = { workers = 2, duration = \"10s\" }\n\
                workload = { kind = \"counter\" }\nsection = { constant = \"1s\" }\n\
                lock = { kind = \"token-lua\", ttl = \"5s\" }\n";
    let known = Vocabulary {
        locks: lock::names(),
        properties: check::Property::words(),
    };
    let scenario = Scenario::parse("stores", text, &known).expect("a scenario");
    let plan = Plan::resolve(&scenario, &Overrides::default(), "token-lua", 1);
    Plan {
        workload,
        guard,
        ..plan
    }
}

/// A database with what it stands on.
struct House {
    database: Database,
    servers: Servers,
    folder: TempDir,
}

impl House {
    async fn raise(kind: scenario::Store) -> House {
        let binary = topology::find(None).expect("a redis-server");
        let servers = Servers::start(&binary, 1, 8).await.expect("a Redis");
        House {
            database: Database::raise(kind, None).await.expect("a database"),
            servers,
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    fn redis(&self) -> SocketAddr {
        self.servers.addresses()[0]
    }

    /// A business of its own, in a folder of its own.
    async fn business(&self, workload: Workload, guard: Guard) -> (Opened, PathBuf) {
        let folder = tempfile::tempdir_in(self.folder.path()).expect("a folder");
        let folder = folder.keep();
        let plan = plan(workload, guard);
        let opened = self
            .database
            .open(&plan, &folder, Some(self.redis().into()), "");
        (opened.await.expect("an open store"), folder)
    }

    async fn end(self) {
        self.database.stop().await;
        self.servers.stop().await;
    }
}

/// What became of everybody's writes.
#[derive(Debug, Default)]
struct Sum {
    rows: i64,
    rejected: i64,
}

fn write_of(op: u64, item: u32, seen: Seen, fence: Option<i64>) -> Write {
    Write {
        op,
        instance: 0,
        worker: op as u32,
        at: Time::default(),
        item,
        seen,
        fence,
    }
}

/// Everybody reads, then everybody writes what he has decided: the worst that a lock can let in.
/// Who compared and lost reads again.
async fn rush(store: Arc<dyn Store>, guard: Guard, left: impl Fn(i64) -> i64 + Copy + Send) -> Sum {
    let all = (0..WRITERS).map(|op| {
        let store = Arc::clone(&store);
        async move {
            let mut sum = Sum::default();
            for _ in 0..AGAIN {
                let seen = store.read(0).await.expect("a read");
                if left(seen.value) <= 0 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
                // Neither growing nor falling with the order in which they come, whichever that is.
                let fence = (op * 77 % WRITERS) as i64;
                let write = write_of(op, 0, seen, Some(fence));
                let written = store.write(write).await.expect("a write");
                sum.rows += i64::from(written.rows);
                sum.rejected += i64::from(written.rejected);
                if written.rows > 0 || guard != Guard::Optimistic {
                    break;
                }
            }
            sum
        }
    });
    let sums = join_all(all).await;
    Sum {
        rows: sums.iter().map(|sum| sum.rows).sum(),
        rejected: sums.iter().map(|sum| sum.rejected).sum(),
    }
}

async fn rushed(house: &House, workload: Workload, guard: Guard) -> (Sum, Ledger) {
    let counts = workload.counts_up();
    let (opened, folder) = house.business(workload, guard).await;
    let sum = rush(
        opened.store(),
        guard,
        move |value| if counts { 1 } else { value },
    )
    .await;
    let ledger = opened.ledger().await.expect("a ledger");
    opened.keep(&folder, &ledger).expect("room for it");
    opened.close().await.expect("nothing left");
    (sum, ledger)
}

/// The stock: rows told are rows landed, and nobody sells what a guard protects.
async fn stock_holds(house: &House, guard: Guard) {
    let (sum, ledger) = rushed(house, flash_sale(), guard).await;
    let told = format!("{guard:?}: {sum:?} {ledger:?}");
    assert_eq!(ledger.orders, sum.rows, "{told}");
    match guard {
        Guard::None => assert!(ledger.oversold > 0 && sum.rejected == 0, "{told}"),
        // Tokens come in no order; those that are younger may still write over one another.
        Guard::Fence => assert!(sum.rejected > 0, "{told}"),
        Guard::Unique => assert!(ledger.oversold == 0 && sum.rejected > 0, "{told}"),
        Guard::Conditional | Guard::Optimistic => assert_eq!(
            (ledger.orders, ledger.remaining, ledger.oversold),
            (i64::from(STOCK), 0, 0),
            "{told}"
        ),
    }
}

async fn entries_hold(house: &House, guard: Guard) {
    let reconcile = Workload::Reconcile {
        accounts: 1,
        entries: 20,
    };
    let (sum, ledger) = rushed(house, reconcile, guard).await;
    let told = format!("{guard:?}: {sum:?} {ledger:?}");
    assert_eq!(ledger.postings, sum.rows, "{told}");
    assert_eq!(ledger.never_processed, 0, "{told}");
    match guard {
        Guard::None => assert!(ledger.double_processed > 0, "{told}"),
        Guard::Fence => assert!(sum.rejected > 0, "{told}"),
        _ => assert_eq!(
            (ledger.postings, ledger.double_processed),
            (20, 0),
            "{told}"
        ),
    }
}

async fn counter_holds(house: &House, guard: Guard) {
    let (sum, ledger) = rushed(house, Workload::Counter, guard).await;
    let told = format!("{guard:?}: {sum:?} {ledger:?}");
    assert_eq!(ledger.increments, sum.rows, "{told}");
    match guard {
        Guard::None => assert!(ledger.counted < WRITERS as i64, "{told}"),
        Guard::Fence | Guard::Unique => assert!(sum.rejected > 0, "{told}"),
        Guard::Conditional | Guard::Optimistic => assert_eq!(
            (ledger.counted, ledger.increments),
            (WRITERS as i64, WRITERS as i64),
            "{told}"
        ),
    }
}

/// A token that is older than the last one is refused, an equal or a younger one is not.
async fn an_older_token_is_refused(house: &House) {
    for workload in workloads() {
        let (opened, _) = house.business(workload.clone(), Guard::Fence).await;
        let store = opened.store();
        let seen = store.read(0).await.expect("a read");
        for (token, lands) in [(7, true), (6, false), (7, true), (8, true)] {
            let write = write_of(1, 0, seen, Some(token));
            let written = store.write(write).await.expect("a write");
            assert_eq!(
                written.rows > 0,
                lands,
                "{workload:?}, token {token}: {written:?}"
            );
        }
        drop(store);
        opened.close().await.expect("nothing left");
    }
}

/// One writer after the other, in every workload: each number as in any other store.
async fn in_turn(house: &House) -> Vec<(Vec<Seen>, Ledger)> {
    let mut told = Vec::new();
    for workload in workloads() {
        for guard in Guard::ALL {
            let (opened, folder) = house.business(workload.clone(), guard).await;
            let store = opened.store();
            let first = store.read(0).await.expect("a read");
            let mut seen = vec![first];
            for (op, stale) in [(1, false), (2, false), (3, true)] {
                let now = store.read(0).await.expect("a read");
                let base = if stale { first } else { now };
                let write = write_of(op, 0, base, Some(op as i64));
                let written = store.write(write).await.expect("a write");
                seen.push(Seen {
                    value: written.replaced,
                    version: i64::from(written.rows),
                });
                seen.push(store.read(0).await.expect("a read"));
            }
            let meanwhile = store.ledger_meanwhile().await.expect("an answer");
            drop(store);
            let ledger = opened.ledger().await.expect("a ledger");
            // Whoever can be asked while others are at work tells the same.
            assert_eq!(meanwhile.unwrap_or(ledger), ledger);
            opened.keep(&folder, &ledger).expect("room for it");
            opened.close().await.expect("nothing left");
            told.push((seen, ledger));
        }
    }
    told
}

async fn guards_hold(kind: scenario::Store) {
    if skip(kind) {
        return;
    }
    let house = House::raise(kind).await;
    for guard in Guard::ALL {
        stock_holds(&house, guard).await;
        entries_hold(&house, guard).await;
        counter_holds(&house, guard).await;
    }
    an_older_token_is_refused(&house).await;
    house.end().await;
}

#[tokio::test]
async fn sqlite_guards_hold_under_two_hundred_writers() {
    guards_hold(scenario::Store::Sqlite).await;
}

#[tokio::test]
async fn redis_guards_hold_under_two_hundred_writers() {
    guards_hold(scenario::Store::Redis).await;
}

#[tokio::test]
async fn memory_guards_hold_under_two_hundred_writers() {
    guards_hold(scenario::Store::Memory).await;
}

#[tokio::test]
async fn postgres_guards_hold_under_two_hundred_writers() {
    guards_hold(scenario::Store::Postgres).await;
}

#[tokio::test]
async fn the_stores_do_the_same_step_by_step() {
    let sqlite = House::raise(scenario::Store::Sqlite).await;
    let expected = in_turn(&sqlite).await;
    sqlite.end().await;
    let others = [
        scenario::Store::Redis,
        scenario::Store::Postgres,
        scenario::Store::Memory,
    ];
    for kind in others {
        if !skip(kind) {
            let house = House::raise(kind).await;
            let told = in_turn(&house).await;
            for (at, (told, expected)) in told.iter().zip(&expected).enumerate() {
                let place = (&workloads()[at / 5], Guard::ALL[at % 5]);
                assert_eq!(told, expected, "{kind:?}: {place:?}");
            }
            house.end().await;
        }
    }
}

// Nothing is left behind.

#[tokio::test]
async fn a_closed_redis_store_leaves_no_key() {
    let house = House::raise(scenario::Store::Redis).await;
    let _ = rushed(&house, flash_sale(), Guard::Unique).await;
    let client = redis::Client::open(format!("redis://{}/", house.redis())).expect("a client");
    let mut conn = client
        .get_multiplexed_async_connection()
        .await
        .expect("a connection");
    let keys: i64 = redis::cmd("DBSIZE")
        .query_async(&mut conn)
        .await
        .expect("a number");
    assert_eq!(keys, 0);
    house.end().await;
}

/// A PostgreSQL that belongs to the test as a user's own would.
fn url_of(own: &Postgres) -> String {
    let socket = own.socket().display().to_string().replace('/', "%2F");
    let (user, database) = (Postgres::USER, Postgres::DATABASE);
    format!("postgres://{user}:hush@{socket}/{database}")
}

/// How many schemas of ours there are.
async fn schemas(own: &Postgres) -> i64 {
    let config: tokio_postgres::Config = url_of(own).parse().expect("a URL");
    let (client, connection) = config
        .connect(tokio_postgres::NoTls)
        .await
        .expect("a connection");
    tokio::spawn(connection);
    let count = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'oversold%'";
    client.query_one(count, &[]).await.expect("a count").get(0)
}

#[tokio::test]
async fn a_named_postgres_is_left_as_it_was_and_its_password_is_nowhere() {
    if skip(scenario::Store::Postgres) {
        return;
    }
    let own = Postgres::start(60).await.expect("a PostgreSQL");
    let url = url_of(&own);
    let named = url.parse().expect("a URL");
    let database = Database::raise(scenario::Store::Postgres, Some(&named)).await;
    let database = database.expect("a database");
    let folder = tempfile::tempdir().expect("a folder");
    let plan = plan(flash_sale(), Guard::None);
    let opened = database
        .open(&plan, folder.path(), None, "")
        .await
        .expect("a store");
    assert_eq!(schemas(&own).await, 1);
    opened.close().await.expect("nothing left");
    assert_eq!(schemas(&own).await, 0);

    let place = Place::with_pause("unique");
    let ran = place.oversold(&["run", "pause.toml", "--store-url", &url]);
    assert_eq!(ran.status.code(), Some(10), "{}", said(&ran));
    assert!(!said(&ran).contains("hush"), "{}", said(&ran));
    let files = files_below(place.0.path());
    assert!(
        files.iter().any(|file| file.ends_with("ledger.json")),
        "{files:?}"
    );
    for file in files {
        let text = std::fs::read(&file).expect("a file");
        let text = String::from_utf8_lossy(&text);
        assert!(
            !text.contains("hush") && !text.contains("postgres://"),
            "{}",
            file.display()
        );
    }
    assert_eq!(schemas(&own).await, 0);
    own.stop().await;
}

#[test]
fn a_store_url_that_cannot_be_used_is_told_without_its_password() {
    let place = Place::with_pause("none");
    for (url, store) in [
        ("mysql://me:hush@host/db", None),
        ("postgres://me:hush@host/db", Some("redis")),
    ] {
        let mut arguments = vec!["run", "pause.toml", "--store-url", url];
        arguments.extend(store.iter().flat_map(|store| ["--store", *store]));
        let ran = place.oversold(&arguments);
        assert_eq!(ran.status.code(), Some(2), "{}", said(&ran));
        assert!(
            said(&ran).contains("--store-url") && !said(&ran).contains("hush"),
            "{}",
            said(&ran)
        );
    }
    // Port 1 answers nobody.
    let ran = place.oversold(&[
        "run",
        "pause.toml",
        "--store-url",
        "postgres://me:hush@127.0.0.1:1/db",
    ]);
    assert_eq!(ran.status.code(), Some(3), "{}", said(&ran));
    assert!(
        said(&ran).contains("may connect and create a schema") && !said(&ran).contains("hush"),
        "{}",
        said(&ran)
    );
}

#[test]
fn without_postgres_the_way_to_get_one_is_told() {
    // Only where no installation lies beside PATH can its absence be shown.
    if Path::new("/usr/lib/postgresql").is_dir() {
        eprintln!("SKIPPED: PostgreSQL is installed here outside PATH");
        return;
    }
    let place = Place::with_pause("none");
    let server = topology::find(None).expect("a redis-server").path;
    let mut command = place.command(&["run", "pause.toml", "--store", "postgres"]);
    let ran = command
        .env("PATH", "")
        .env("OVERSOLD_REDIS_SERVER", server)
        .output()
        .expect("a run");
    assert_eq!(ran.status.code(), Some(3), "{}", said(&ran));
    assert!(
        said(&ran).contains("apt-get install postgresql"),
        "{}",
        said(&ran)
    );
}

// Through the program.

/// A pause longer than the TTL in the middle of a section, as in scenarios/gc-pause.toml.
fn pause(guard: &str) -> String {
    format!(
        r#"name = "pause"
time_scale = 0.05
[load]
instances = 4
workers = 16
duration = "120s"
think = "1s"
[workload]
kind = "flash-sale"
stock = 40
[store]
guard = "{guard}"
[section]
uniform = ["200ms", "400ms"]
[lock]
kind = "token-lua-watchdog"
ttl = "6s"
wait = {{ retry_every = "500ms", give_up_after = "100s" }}
[[fault]]
kind = "freeze"
at = {{ point = "in-section", nth = 10 }}
for = "14s"
"#
    )
}

/// A folder with a scenario, in which the program runs.
struct Place(TempDir);

impl Place {
    fn with_pause(guard: &str) -> Place {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("pause.toml"), pause(guard)).expect("a scenario");
        Place(folder)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::cargo_bin("oversold").expect("the program");
        command.current_dir(self.0.path()).args(arguments);
        command.timeout(Duration::from_secs(180));
        command
    }

    fn oversold(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("a run")
    }

    /// Exit code, lock verdict, business verdict and violated properties of what a command reports.
    fn verdicts(&self, arguments: &[&str]) -> Verdicts {
        let ran = self.oversold(&[arguments, &["--json", "report.json"]].concat());
        let text = std::fs::read_to_string(self.0.path().join("report.json"));
        let text = text.unwrap_or_else(|why| panic!("{why}: {}", said(&ran)));
        let report: Value = serde_json::from_str(&text).expect("JSON");
        let trial = &report["trials"][0];
        assert!(trial.is_object(), "{text}");
        let findings = trial["findings"].as_array().into_iter().flatten();
        let mut properties: Vec<String> = findings
            .map(|finding| finding["property"].to_string())
            .collect();
        properties.sort();
        properties.dedup();
        Verdicts {
            exit: ran.status.code(),
            lock: trial["lock_verdict"].clone(),
            business: trial["business_verdict"].clone(),
            properties,
        }
    }
}

#[derive(Debug, PartialEq)]
struct Verdicts {
    exit: Option<i32>,
    lock: Value,
    business: Value,
    properties: Vec<String>,
}

fn said(ran: &Output) -> String {
    String::from_utf8_lossy(&[ran.stdout.clone(), ran.stderr.clone()].concat()).into_owned()
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .flat_map(|path| {
            if path.is_dir() {
                files_below(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

/// One scenario has one verdict on all stores, and `check` gives it again.
fn one_verdict(guard: &str, lock: &str, business: &str) {
    let place = Place::with_pause(guard);
    for kind in scenario::Store::ALL.into_iter().filter(|kind| !skip(*kind)) {
        let store = kind.word();
        let told = place.verdicts(&[
            "run",
            "pause.toml",
            "--store",
            store,
            "--out",
            store,
            "--lock",
            lock,
        ]);
        assert_eq!(told.exit, Some(10), "{store}: {told:?}");
        assert_eq!(
            (&told.lock, &told.business),
            (&"fail".into(), &business.into()),
            "{store}: {told:?}"
        );
        assert_eq!(place.verdicts(&["check", store]), told, "{store}");
    }
}

#[test]
fn a_pause_has_one_verdict_on_all_stores_without_a_guard() {
    one_verdict("none", "token-lua-watchdog", "fail");
}

#[test]
fn a_pause_has_one_verdict_on_all_stores_with_a_unique_constraint() {
    one_verdict("unique", "token-lua-watchdog", "pass");
}

#[test]
fn a_pause_has_one_verdict_on_all_stores_with_a_compare_and_set() {
    // A lock without a watchdog: one that was told of its loss and reads again has not heeded it.
    one_verdict("optimistic", "token-lua", "pass");
}

/// However the driver dies, the PostgreSQL that it has started dies with it.
#[test]
fn a_killed_driver_leaves_no_postgres() {
    if skip(scenario::Store::Postgres) || !cfg!(target_os = "linux") {
        return;
    }
    let place = Place::with_pause("none");
    // Not below a folder that may be closed to the server's user.
    let temporary = tempfile::Builder::new()
        .prefix("o")
        .tempdir_in("/tmp")
        .expect("a folder");
    open_to_all(temporary.path());
    let mut driver = start(&place, temporary.path());
    let postmaster = wait_for(|| postmaster_below(temporary.path()));
    driver.kill().expect("a kill");
    driver.wait().expect("its end");
    let process = PathBuf::from(format!("/proc/{postmaster}"));
    wait_for(|| (!process.exists()).then_some(()));
}

/// The server runs as somebody else when the test runs as root.
fn open_to_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder, open).expect("permissions");
}

fn start(place: &Place, temporary: &Path) -> Child {
    std::process::Command::new(env!("CARGO_BIN_EXE_oversold"))
        .args(["run", "pause.toml", "--store", "postgres"])
        .current_dir(place.0.path())
        .env("TMPDIR", temporary)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a driver")
}

/// The first line of its own file, once it accepts connections.
fn postmaster_below(temporary: &Path) -> Option<u32> {
    let files = std::fs::read_dir(temporary).ok()?;
    let mut files = files
        .flatten()
        .map(|entry| entry.path().join("data/postmaster.pid"));
    let text = files.find_map(|file| std::fs::read_to_string(file).ok())?;
    text.contains("ready")
        .then(|| text.lines().next()?.parse().ok())?
}

fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let began = std::time::Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "it did not happen"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}
