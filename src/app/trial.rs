//! The trials of one lock in one scenario: each with servers, a store and a folder of its own.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use super::live::Live;
use super::recording::{Files, Recording, Sink};
use super::session::{Failure, Session, replace, write};
use crate::check::{Judge, Judgement, meet};
use crate::clock::Clock;
use crate::history::event::Stop;
use crate::history::file::{Header, SCHEMA_VERSION};
use crate::history::keep::Kept;
use crate::history::recorder;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::report::{Report, Trial, hgrm, json, junit};
use crate::run;
use crate::store::{Database, Ledger};
use crate::summary::{Part, Summary};
use crate::topology::{Origin, Servers};
use crate::verdict::Verdict;
use crate::workload;

/// The files of a trial.
pub(super) const PLAN: &str = "plan.json";
const SERVER_LOG: &str = "server.log";

/// How often progress is looked at.
const TICK: Duration = Duration::from_millis(100);

/// A new folder `<out>/<scenario>/<time>-<seed>`.
pub(super) fn new_folder(out: &Path, scenario: &str, seed: u64) -> Result<PathBuf, Failure> {
    let parent = out.join(scenario);
    let at = |path: &Path, why| Failure::environment(format!("{}: {why}", path.display()));
    std::fs::create_dir_all(&parent).map_err(|why| at(&parent, why))?;
    let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let name = format!("{}-{seed}", time.replace(':', "-"));
    for again in 1..1000 {
        let folder = match again {
            1 => parent.join(&name),
            n => parent.join(format!("{name}-{n}")),
        };
        match std::fs::create_dir(&folder) {
            Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(why) => return Err(at(&folder, why)),
            Ok(()) => return Ok(folder),
        }
    }
    Err(at(
        &parent,
        std::io::Error::other("a thousand runs in one second"),
    ))
}

/// Runs the trials of one lock in one scenario, and leaves a report in `folder`. An interruption
/// ends the trial that is running and leaves out the rest. So does a file that cannot be written, or a
/// later trial that cannot be run: the report of the others tells of it.
pub(super) async fn conduct(
    plans: &[Plan],
    origin: &Origin,
    folder: &Path,
    session: &Session,
) -> Result<Report, Failure> {
    let [first, ..] = plans else {
        return Err(Failure::usage("no trial was asked for"));
    };
    let origin = origin.for_plans(plans);
    let database = Database::raise(first.store, session.store_url.as_ref());
    let database = database.await.map_err(Failure::environment)?;
    if session.progress {
        warn_of_jitter(first).await;
    }
    let label = format!("{} / {}", first.scenario, first.lock.kind);
    let shown = session.progress && first.soak.is_none();
    let mut progress = Progress::start(label, plans.len(), shown);
    let mut judged = Vec::new();
    let mut trials = Vec::new();
    let mut unkept = Vec::new();
    for plan in plans {
        let folder = match plans.len() {
            1 => folder.to_owned(),
            _ => folder.join(format!("seed-{}", plan.seed)),
        };
        let under = Under {
            origin: &origin,
            database: &database,
        };
        let ran = match one(plan, &under, &folder, session, &mut progress).await {
            Ok(ran) => ran,
            // What the others have shown is not to be lost with this one.
            Err(why) if !trials.is_empty() => {
                unkept.push(why.message);
                break;
            }
            Err(why) => return Err(why),
        };
        progress.step();
        judged.push((plan.seed, ran.judgement));
        trials.push(ran.trial);
        unkept.extend(ran.unkept);
        // What comes after would be lost as well.
        if session.interrupted().is_some() || !unkept.is_empty() {
            break;
        }
    }
    drop(progress);
    database.stop().await;
    let mut report = merge(first, origin.version(), &judged, trials);
    // Also when the signal came too late to cut a trial short: it is why the rest was left out.
    report.interrupted = report.interrupted.or(session.interrupted());
    report.unkept = unkept;
    if let Err(why) = leave(folder, &report) {
        report.unkept.push(why.message);
    }
    for lost in &report.unkept {
        // Nobody may listen any more, which is no reason to panic.
        let _ = writeln!(anstream::stderr(), "error: {lost}");
    }
    Ok(report)
}

/// A report of which everything was written, where nobody could go on without it.
pub(super) fn whole(report: Report) -> Result<Report, Failure> {
    match report.unkept.first() {
        Some(lost) => Err(Failure::environment(lost)),
        None => Ok(report),
    }
}

/// The report of some trials.
pub(super) fn merge(
    plan: &Plan,
    server: &str,
    judged: &[(u64, Judgement)],
    trials: Vec<Trial>,
) -> Report {
    let judged: Vec<_> = judged.iter().map(|(seed, trial)| (*seed, trial)).collect();
    let expected = meet(&plan.expect, &judged);
    Report::new(plan, server, trials, expected)
}

/// Writes a report's own files.
pub(super) fn leave(folder: &Path, report: &Report) -> Result<(), Failure> {
    let reports = std::slice::from_ref(report);
    replace(&folder.join("report.json"), &json::render(reports))?;
    replace(&folder.join("junit.xml"), &junit::render(reports))
}

/// What trials are run with.
struct Under<'a> {
    origin: &'a Origin,
    database: &'a Database,
}

async fn one(
    plan: &Plan,
    under: &Under<'_>,
    folder: &Path,
    session: &Session,
    progress: &mut Progress,
) -> Result<Ran, Failure> {
    std::fs::create_dir_all(folder)
        .map_err(|why| Failure::environment(format!("{}: {why}", folder.display())))?;
    let text = serde_json::to_string_pretty(plan).map_err(Failure::environment)?;
    write(&folder.join(PLAN), &(text + "\n"))?;
    let prefix = under.origin.prefix(plan);
    let header = header(plan, under.origin, &prefix, session.history);
    let files = Files::create(plan, &folder.join(session.history.file()), &header)?;
    let sink = Sink::new(plan, header.keys.len(), progress.violations());
    let raised = under.origin.raise(plan, &prefix).await;
    let mut servers = raised.map_err(Failure::environment)?;
    let at = At {
        plan,
        folder,
        sink,
        files,
        under,
    };
    let ran = at.run(&mut servers, session, progress).await;
    for left in servers.stop().await {
        warn(&left);
    }
    ran
}

/// One trial, when its servers are there.
struct At<'a> {
    plan: &'a Plan,
    folder: &'a Path,
    sink: Sink,
    files: Files,
    under: &'a Under<'a>,
}

impl At<'_> {
    async fn run(
        self,
        servers: &mut Servers,
        session: &Session,
        progress: &mut Progress,
    ) -> Result<Ran, Failure> {
        let At {
            plan,
            folder,
            sink,
            files,
            under,
        } = self;
        let sink = Arc::new(Mutex::new(sink));
        let reach = servers.reach();
        let redis = reach.servers().into_iter().next();
        let opened = (under.database).open(plan, folder, redis, reach.prefix());
        let opened = opened.await.map_err(Failure::environment)?;
        let clock = Clock::start();
        let recording = Recording::start(Arc::clone(&sink), files);
        let (recorder, drain) = recorder::start(clock, recording, Recording::take);
        let (stop, stopped) = watch::channel(None);
        let running = run::run(plan, servers, opened.store(), recorder.clone(), stopped);
        let running = while_heeding(running, session, &stop);
        let ran = match plan.soak {
            None => while_showing(running, progress).await,
            Some(_) => {
                let live = Live {
                    plan,
                    server: under.origin.version(),
                    folder,
                    session,
                    sink: Arc::clone(&sink),
                    store: opened.store(),
                    recorder,
                    stop: &stop,
                };
                live.watch(running).await
            }
        };
        drop(sink);
        let (mut sink, [history, intervals]) = drain.close().end();
        if let Some(why) = &history {
            sink.judge.doubt(format!("the history is cut: {why}"));
        }
        let ledger = opened.ledger().await.map_err(|why| why.to_string());
        let mut unkept: Vec<String> = history.into_iter().chain(intervals).collect();
        if let Ok(ledger) = &ledger {
            unkept.extend(opened.keep(folder, ledger).err().map(|why| why.to_string()));
        }
        if let Err(why) = opened.close().await {
            warn(&why.to_string());
        }
        let log = servers.log();
        // A user's servers have told us none.
        let keep_log = || match log.is_empty() {
            true => Ok(()),
            false => write(&folder.join(SERVER_LOG), &log),
        };
        if let Err(why) = ran {
            keep_log()?;
            return Err(Failure::environment(why));
        }
        let (trial, judgement) = judge(plan, folder, sink.judge, ledger, &sink.summary);
        let hgrm = hgrm::render(sink.summary.latencies.of(Part::Acquire));
        let kept = write(&folder.join("latency.hgrm"), &hgrm);
        unkept.extend(kept.err().map(|why| why.message));
        if judgement.lock.and(judgement.business) != Verdict::Pass {
            unkept.extend(keep_log().err().map(|why| why.message));
        }
        Ok(Ran {
            trial,
            judgement,
            unkept,
        })
    }
}

/// A trial that was run.
struct Ran {
    trial: Trial,
    judgement: Judgement,
    /// What could not be written, and why not.
    unkept: Vec<String>,
}

fn warn(what: &str) {
    // Nobody may listen any more, which is no reason to panic.
    let _ = writeln!(anstream::stderr(), "warning: {what}");
}

/// The first line of a trial's history.
fn header<'a>(plan: &'a Plan, origin: &Origin, prefix: &str, kept: Kept) -> Header<&'a Plan> {
    let items = 0..workload::items(&plan.workload);
    Header {
        schema_version: SCHEMA_VERSION,
        kept,
        server: origin.version().to_owned(),
        keys: workload::key_names(&plan.workload, prefix),
        items: items
            .map(|item| workload::item_name(&plan.workload, item))
            .collect(),
        plan,
    }
}

/// The verdict on one trial, from its folded history and its ledger.
pub(super) fn judge(
    plan: &Plan,
    folder: &Path,
    judge: Judge,
    ledger: Result<Ledger, String>,
    summary: &Summary,
) -> (Trial, Judgement) {
    let judgement = match &ledger {
        Ok(ledger) => judge.end(ledger),
        Err(why) => judge.end_without_ledger(why),
    };
    let folder = folder.display().to_string();
    let trial = Trial::new(plan, folder, judgement.clone(), ledger, summary);
    (trial, judgement)
}

/// Passes an interruption on to the run.
async fn while_heeding<T>(
    work: impl Future<Output = T>,
    session: &Session,
    stop: &watch::Sender<Option<Stop>>,
) -> T {
    let mut interrupt = session.interrupt.clone();
    let heeded = async {
        let signal = interrupt
            .wait_for(Option::is_some)
            .await
            .map(|signal| *signal);
        if let Ok(Some(signal)) = signal {
            stop.send_replace(Some(Stop::Signal(signal)));
        }
        // Nobody is left who could interrupt, or somebody has: the work comes to its own end.
        std::future::pending().await
    };
    tokio::select! {
        biased;
        done = work => done,
        never = heeded => never,
    }
}

pub(super) async fn while_showing<T>(work: impl Future<Output = T>, progress: &mut Progress) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(TICK) => progress.tick(),
        }
    }
}

/// A lock's margin must be well above what this machine's timers wander.
pub(super) async fn warn_of_jitter(plan: &Plan) {
    let jitter = run::lag::measure().await;
    let margin = plan.ttl() / 3;
    let least = jitter * 4;
    if margin < least {
        let scale = plan.time_scale * least.as_secs_f64() / margin.as_secs_f64();
        // Nobody may listen any more, which is no reason to panic.
        let _ = writeln!(
            anstream::stderr(),
            "warning: this machine's timers wander by {jitter:.1?}, and at time scale {} a third \
             of the TTL is {margin:.1?}: results may be inconclusive; use `--time-scale {:.3}` or \
             a larger one",
            plan.time_scale,
            (scale * 1000.0).ceil() / 1000.0
        );
    }
}
