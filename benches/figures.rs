//! What oversold claims of its speed, measured in one run and printed as ratios: `make bench`. A
//! ratio holds on any machine; the rates beside it are this one's. Parts alone: `cargo bench --bench
//! figures -- checker cycles history link`, or some of these.

mod common;

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use oversold::check::Judge;
use oversold::history::{Event, file};
use oversold::link::Link;
use oversold::plan::Plan;
use oversold::topology::{self, Servers};
use tempfile::TempDir;

// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failed = Box<dyn std::error::Error>;

/// How long a measurement may take before something is wrong.
const FOREVER: &str = "60";
/// How long a soak issues operations.
const SOAK: &str = "5s";
/// What releases a lock: its owner's token, compared and deleted in one step.
const COMPARE_AND_DELETE: &str = "if redis.call('get', KEYS[1]) == ARGV[1] then return \
    redis.call('del', KEYS[1]) else return 0 end";
/// How often what two processes do is measured, one after the other, in turn.
const PAIRS: usize = 5;

/// Whether a part is to be measured: all of them are, unless words on the command line name some.
fn wanted(part: &str) -> bool {
    let mut named = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with('-'))
        .peekable();
    named.peek().is_none() || named.any(|word| word == part)
}

fn main() -> Result<(), Failed> {
    if wanted("checker") {
        checker()?;
        stored()?;
    }
    if wanted("cycles") || wanted("history") {
        let server = Redis::start()?;
        if wanted("cycles") {
            cycles(&server)?;
        }
        if wanted("history") {
            history(&server)?;
        }
    }
    if !wanted("link") {
        return Ok(());
    }
    let cores = std::thread::available_parallelism()?.get();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads((cores - 1).max(1)) // as the program
        .enable_all()
        .build()?;
    runtime.block_on(link())
}

fn say(text: &str) {
    // Nobody may listen any more, which is no reason to panic.
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn millions(events: usize, time: Duration) -> f64 {
    events as f64 / time.as_secs_f64() / 1e6
}

/// The time that the checks take for so many events, on one core.
fn judged(plan: &Plan, events: usize) -> Duration {
    let mut judge = Judge::new(plan, common::WORKERS as usize);
    let mut history = common::history(events);
    let mut spent = Duration::ZERO;
    loop {
        let batch: Vec<Event> = history.by_ref().take(common::BATCH).collect();
        if batch.is_empty() {
            break;
        }
        let began = Instant::now();
        batch.iter().for_each(|event| judge.event(event));
        spent += began.elapsed();
    }
    let began = Instant::now();
    let _ = judge.end(&common::ledger(0));
    spent + began.elapsed()
}

fn checker() -> Result<(), Failed> {
    let plan = common::plan()?;
    let _ = judged(&plan, 100_000); // to warm up
    let mut first = None;
    let mut resident = None;
    for events in [100_000, 1_000_000, 10_000_000] {
        let time = judged(&plan, events);
        let each = time.as_secs_f64() / events as f64;
        let ratio = each / *first.get_or_insert(each);
        let now = resident_kib()?;
        let grown = now as f64 / *resident.get_or_insert(now) as f64;
        say(&format!(
            "checker, one core: {events:>8} events at {:5.2} M/s; time per event {ratio:.2} of that \
             at 100000, resident memory {grown:.2} of that after 100000",
            millions(events, time)
        ));
    }
    Ok(())
}

fn stored() -> Result<(), Failed> {
    const EVENTS: usize = 1_000_000;
    let stored = common::Stored::new(EVENTS)?;
    let began = Instant::now();
    let (header, events) = file::read::<Plan>(&stored.path)?;
    let mut judge = Judge::new(&header.plan, header.keys.len());
    for event in events {
        judge.event(&event?);
    }
    say(&format!(
        "checker, from a stored file: {EVENTS} events read and checked at {:.2} M/s",
        millions(EVENTS, began.elapsed())
    ));
    Ok(())
}

/// A server for the binary, reached by its port and by a Unix socket.
struct Redis {
    child: Child,
    port: u16,
    folder: TempDir,
}

impl Redis {
    fn start() -> Result<Redis, Failed> {
        let folder = tempfile::tempdir()?;
        let free = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let mut command = Command::new("redis-server");
        command.args(["--port", &free.to_string(), "--save", ""]);
        command.args(["--bind", "127.0.0.1", "--notify-keyspace-events", "Exe"]);
        command
            .arg("--unixsocket")
            .arg(folder.path().join("redis.sock"));
        command.current_dir(folder.path()).stdout(Stdio::null());
        let redis = Redis {
            child: command.spawn()?,
            port: free,
            folder,
        };
        let began = Instant::now();
        while !redis.socket().exists() {
            if began.elapsed() > Duration::from_secs(10) {
                return Err("redis-server does not listen".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(redis)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("redis.sock")
    }

    /// How each is told to connect, by TCP and by a Unix socket: the binary's URL, the benchmark's
    /// words.
    fn ways(&self) -> [(String, [String; 2]); 2] {
        let (port, socket) = (self.port, self.socket().display().to_string());
        let tcp = ["-p".to_owned(), port.to_string()];
        let unix = ["-s".to_owned(), socket.clone()];
        [
            (format!("redis://127.0.0.1:{port}"), tcp),
            (format!("unix://{socket}"), unix),
        ]
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lock cycles a second of the binary: 200 workers with a key each, checked while they run.
fn soak(url: &str, kept: &str) -> Result<f64, Failed> {
    let out = tempfile::tempdir()?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_oversold"));
    command.args([
        "soak",
        "-c",
        "200",
        "--keys",
        "own",
        "--section",
        "0",
        "-z",
        SOAK,
    ]);
    command.args(["--lock", "token-lua", "--url", url, "--history", kept]);
    command.args(["--json", "-", "--out"]).arg(out.path());
    let output = command.stderr(Stdio::null()).output()?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let trial = &report["trials"][0];
    if trial["findings"]
        .as_array()
        .is_none_or(|found| !found.is_empty())
    {
        return Err(format!("a soak that found something: {trial}").into());
    }
    let rate = trial["soak"]["completed_per_second"].as_f64();
    rate.ok_or_else(|| format!("no rate in {trial}").into())
}

/// The same two commands by `redis-benchmark -c 200`, one kind after the other: the rate of both in
/// turn. Its keys are drawn of so many that four of five are free to be set, and there to be deleted.
fn two_commands(way: &[String; 2]) -> Result<f64, Failed> {
    const KEYS: &str = "200000";
    const FILL: &str = "for i = 0, ARGV[1] - 1 do \
        redis.call('set', string.format('bench:%012d', i), 'token', 'PX', 600000) end";
    let redis = |words: &[&str]| -> Result<String, Failed> {
        let output = Command::new("redis-cli").args(way).args(words).output()?;
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    let key = "bench:__rand_int__";
    redis(&["FLUSHDB"])?;
    let set = ["-r", KEYS, "SET", key, "token", "NX", "PX", "600000"];
    let set = benchmark(way, &set)?;
    redis(&["EVAL", FILL, "0", KEYS])?;
    let sha = redis(&["SCRIPT", "LOAD", COMPARE_AND_DELETE])?;
    let release = benchmark(way, &["-r", KEYS, "EVALSHA", &sha, "1", key, "token"])?;
    redis(&["FLUSHDB"])?;
    Ok(1.0 / (1.0 / set + 1.0 / release))
}

/// Our lock cycles, with history and checks on, over the benchmark's: over TCP, and over a Unix
/// socket, there over the benchmark's own way too.
fn cycles(server: &Redis) -> Result<(), Failed> {
    let [(tcp, tcp_words), (unix, unix_words)] = server.ways();
    let mut last = [0.0; 4];
    let mut ratios: [Vec<f64>; 3] = Default::default();
    for _ in 0..PAIRS {
        let yardstick = two_commands(&tcp_words)?;
        last = [
            yardstick,
            soak(&tcp, "window")?,
            soak(&unix, "window")?,
            two_commands(&unix_words)?,
        ];
        let [yardstick, over_tcp, over_unix, its_unix] = last;
        ratios[0].push(over_tcp / yardstick);
        ratios[1].push(over_unix / yardstick);
        ratios[2].push(over_unix / its_unix);
    }
    let [tcp, unix, same] = ratios.map(|mut ratios| told(&mut ratios));
    let [yardstick, over_tcp, over_unix, its_unix] = last;
    say(
        "lock cycles, token-lua, -c 200, a key each, over redis-benchmark -c 200 with the same two commands",
    );
    say(&format!(
        "  over TCP: {tcp} (the last {over_tcp:.0}/s of {yardstick:.0}/s)"
    ));
    say(&format!(
        "  over a Unix socket: {unix} of that by TCP (the last {over_unix:.0}/s)"
    ));
    say(&format!(
        "  over a Unix socket: {same} of that by one (the last of {its_unix:.0}/s)"
    ));
    Ok(())
}

/// What recording and checking cost: with the last history kept, over without any. (The checks are
/// on in both; what is switched off is the keeping.)
fn history(server: &Redis) -> Result<(), Failed> {
    let [(url, _), _] = server.ways();
    let mut ratios = Vec::new();
    for pair in 0..PAIRS {
        // In turn the one and the other first: a machine that grows slower favours neither.
        let order = match pair % 2 {
            0 => ["off", "window"],
            _ => ["window", "off"],
        };
        let [first, second] = order;
        let (first, second) = (soak(&url, first)?, soak(&url, second)?);
        ratios.push(match order {
            ["off", _] => second / first,
            _ => first / second,
        });
    }
    say(&format!(
        "throughput with `--history window`: {} of that with `--history off`",
        told(&mut ratios)
    ));
    Ok(())
}

/// What a link with no rule costs: `redis-benchmark -c 200` through it over the same past it.
async fn link() -> Result<(), Failed> {
    let binary = topology::find(None)?;
    let servers = Servers::start(&binary, 1, 500).await?;
    let server = servers.addresses()[0];
    let link = Link::start(server).await?;
    for test in ["set", "get"] {
        let mut ratios = Vec::new();
        let (mut direct, mut through) = (0.0, 0.0);
        for _ in 0..PAIRS {
            direct = beside(server, test).await?;
            through = beside(link.address(), test).await?;
            ratios.push(through / direct);
        }
        say(&format!(
            "link, -c 200 {test}: {} of the direct rate (the last {through:.0}/s of {direct:.0}/s)",
            told(&mut ratios),
        ));
    }
    servers.stop().await;
    Ok(())
}

/// The benchmark of one of its own tests, without keeping the link from its work.
async fn beside(server: SocketAddr, test: &'static str) -> Result<f64, Failed> {
    let way = ["-p".to_owned(), server.port().to_string()];
    let measuring = move || benchmark(&way, &["-t", test]).map_err(|why| why.to_string());
    Ok(tokio::task::spawn_blocking(measuring).await??)
}

/// The rate, a second, at which `redis-benchmark -c 200` performs a command.
fn benchmark(way: &[String; 2], what: &[&str]) -> Result<f64, Failed> {
    let mut command = Command::new("timeout");
    // It never ends by itself where nobody listens.
    command.args([FOREVER, "redis-benchmark"]).args(way);
    command
        .args(["--csv", "-c", "200", "-n", "100000"])
        .args(what);
    let output = command.stderr(Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().rev().find(|line| line.starts_with('"'));
    // "name","requests a second",latencies
    let rate = line.and_then(|line| line.rsplit("\",\"").nth(6)?.parse().ok());
    rate.ok_or_else(|| format!("redis-benchmark ended with {}: {text}", output.status).into())
}

/// The median of some ratios, and how far they spread.
fn told(ratios: &mut [f64]) -> String {
    ratios.sort_by(f64::total_cmp);
    let (median, last) = (ratios[ratios.len() / 2], ratios.len() - 1);
    let (least, most) = (ratios[0], ratios[last]);
    format!("{median:.2} (median of {PAIRS} pairs, {least:.2} to {most:.2})")
}

/// How much memory this process has in use, by Linux's own reckoning.
fn resident_kib() -> Result<u64, Failed> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| "no VmRSS in /proc/self/status".into())
}
