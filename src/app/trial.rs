//! The trials of one lock in one scenario: each with servers, a store and a folder of its own.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use super::intervals::Watched;
use super::live::{self, Live};
use super::session::{Failure, Session, replace, write};
use crate::check::{Judge, Judgement, meet};
use crate::clock::Clock;
use crate::history::Event;
use crate::history::event::Stop;
use crate::history::file::{Header, SCHEMA_VERSION};
use crate::history::keep::{Kept, Writer};
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

/// How much is kept around a finding where not all is, in leases: its cause is seldom older.
const AROUND: u32 = 2;
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
/// ends the trial that is running and leaves out the rest.
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
    for plan in plans {
        let folder = match plans.len() {
            1 => folder.to_owned(),
            _ => folder.join(format!("seed-{}", plan.seed)),
        };
        let under = Under {
            origin: &origin,
            database: &database,
        };
        let (trial, judgement) = one(plan, &under, &folder, session, &mut progress).await?;
        progress.step();
        judged.push((plan.seed, judgement));
        trials.push(trial);
        if session.interrupted().is_some() {
            break;
        }
    }
    drop(progress);
    database.stop().await;
    let mut report = merge(first, origin.version(), &judged, trials);
    // Also when the signal came too late to cut a trial short: it is why the rest was left out.
    report.interrupted = report.interrupted.or(session.interrupted());
    leave(folder, &report)?;
    Ok(report)
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

/// What a recorder's thread does with events.
pub(super) struct Sink {
    writer: Writer,
    pub(super) judge: Judge,
    pub(super) summary: Summary,
    violations: Arc<AtomicU64>,
    /// What is kept for those who look on while it runs, in a soak.
    pub(super) watched: Option<Watched>,
}

impl Sink {
    fn take(&mut self, events: &[Event]) {
        let (before, found) = (self.judge.violations(), self.judge.finds());
        for event in events {
            if let Some(watched) = &mut self.watched {
                watched.event(event, &mut self.summary);
            }
            self.judge.event(event);
            self.summary.event(event);
        }
        self.writer.append(events, self.judge.finds() > found);
        let new = self.judge.violations() - before;
        self.violations.fetch_add(new, Ordering::Relaxed);
    }
}

/// The sink again, when nobody looks at it any more.
fn taken_back(sink: live::Shared) -> Sink {
    match Arc::into_inner(sink) {
        Some(sink) => sink.into_inner().unwrap_or_else(PoisonError::into_inner),
        None => unreachable!("the recorder's thread has ended, and who looked on has"),
    }
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
) -> Result<(Trial, Judgement), Failure> {
    std::fs::create_dir_all(folder)
        .map_err(|why| Failure::environment(format!("{}: {why}", folder.display())))?;
    let text = serde_json::to_string_pretty(plan).map_err(Failure::environment)?;
    write(&folder.join(PLAN), &(text + "\n"))?;
    let prefix = under.origin.prefix(plan);
    let header = header(plan, under.origin, &prefix, session.history);
    let sink = Sink {
        writer: Writer::create(
            &folder.join(session.history.file()),
            &header,
            plan.ttl() * AROUND,
        )
        .map_err(Failure::environment)?,
        judge: Judge::new(plan, header.keys.len()),
        summary: match plan.soak {
            Some(_) => Summary::new(plan).by_interval(),
            None => Summary::new(plan),
        },
        violations: progress.violations(),
        watched: match plan.soak {
            Some(_) => Some(Watched::new(folder)?),
            None => None,
        },
    };
    let raised = under.origin.raise(plan, &prefix).await;
    let mut servers = raised.map_err(Failure::environment)?;
    let at = At {
        plan,
        folder,
        sink,
        under,
    };
    let ran = at.run(&mut servers, session, progress).await;
    for left in servers.stop().await {
        // Nobody may listen any more, which is no reason to panic.
        let _ = writeln!(anstream::stderr(), "warning: {left}");
    }
    ran
}

/// One trial, when its servers are there.
struct At<'a> {
    plan: &'a Plan,
    folder: &'a Path,
    sink: Sink,
    under: &'a Under<'a>,
}

impl At<'_> {
    async fn run(
        self,
        servers: &mut Servers,
        session: &Session,
        progress: &mut Progress,
    ) -> Result<(Trial, Judgement), Failure> {
        let At {
            plan,
            folder,
            sink,
            under,
        } = self;
        let sink = Arc::new(Mutex::new(sink));
        let reach = servers.reach();
        let redis = reach.servers().into_iter().next();
        let opened = (under.database).open(plan, folder, redis, reach.prefix());
        let opened = opened.await.map_err(Failure::environment)?;
        let clock = Clock::start();
        let (recorder, drain) = recorder::start(clock, Arc::clone(&sink), |sink, events| {
            live::lock(sink).take(events);
        });
        let (stop, stopped) = watch::channel(None);
        let running = run::run(plan, servers, opened.store(), recorder, stopped);
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
                    clock,
                    stop: &stop,
                };
                live.watch(running).await
            }
        };
        drop(drain.close());
        let mut sink = taken_back(sink);
        let ledger = opened.keep(folder).await;
        let closed = opened.close().await;
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
        sink.writer.finish().map_err(Failure::environment)?;
        if let Some(watched) = sink.watched {
            watched.intervals.finish(&mut sink.summary)?;
        }
        let ledger = match (ledger, closed) {
            (Ok(ledger), Ok(())) => ledger,
            (Err(why), _) | (_, Err(why)) => {
                keep_log()?;
                return Err(Failure::environment(why));
            }
        };
        let (trial, judgement) = judge(plan, folder, sink.judge, ledger, &sink.summary);
        let hgrm = hgrm::render(sink.summary.latencies.of(Part::Acquire));
        write(&folder.join("latency.hgrm"), &hgrm)?;
        if judgement.lock.and(judgement.business) != Verdict::Pass {
            keep_log()?;
        }
        Ok((trial, judgement))
    }
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
    ledger: Ledger,
    summary: &Summary,
) -> (Trial, Judgement) {
    let judgement = judge.end(&ledger);
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
