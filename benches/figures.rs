//! What oversold claims of its speed, measured in one run and printed as ratios: `make bench`. A
//! ratio holds on any machine; the rates beside it are this one's.

mod common;

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use oversold::check::Judge;
use oversold::history::{Event, file};
use oversold::link::Link;
use oversold::plan::Plan;
use oversold::topology::{self, Servers};

type Failed = Box<dyn std::error::Error>;

/// How long a measurement may take before something is wrong.
const FOREVER: &str = "60";
/// How often what two processes do is measured, one after the other, in turn.
const PAIRS: usize = 5;

fn main() -> Result<(), Failed> {
    checker()?;
    stored()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
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
            direct = benchmark(server, &["-t", test]).await?;
            through = benchmark(link.address(), &["-t", test]).await?;
            ratios.push(through / direct);
        }
        say(&format!(
            "link, -c 200 {test}: {:.2} of the direct rate (median of {PAIRS} pairs, {:.2} to \
             {:.2}; the last {through:.0}/s of {direct:.0}/s)",
            median(&mut ratios),
            ratios[0],
            ratios[PAIRS - 1],
        ));
    }
    servers.stop().await;
    Ok(())
}

/// The rate, a second, at which `redis-benchmark -c 200` performs a command.
async fn benchmark(server: SocketAddr, what: &[&str]) -> Result<f64, Failed> {
    let port = server.port().to_string();
    let mut command = Command::new("timeout");
    // It never ends by itself where nobody listens.
    command.args([FOREVER, "redis-benchmark", "-p", &port, "--csv"]);
    command.args(["-c", "200", "-n", "100000"]).args(what);
    command.stderr(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().rev().find(|line| line.starts_with('"'));
    // "name","requests a second",latencies
    let rate = line.and_then(|line| line.rsplit("\",\"").nth(6)?.parse().ok());
    rate.ok_or_else(|| format!("redis-benchmark ended with {}: {text}", output.status).into())
}

fn median(ratios: &mut [f64]) -> f64 {
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

/// How much memory this process has in use, by Linux's own reckoning.
fn resident_kib() -> Result<u64, Failed> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.ok_or_else(|| "no VmRSS in /proc/self/status".into())
}
