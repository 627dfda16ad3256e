//! A soak while it runs: what is shown, told and served, the report of the moment, and what ends it
//! early. It looks at the recorder's thread ten times a second; no worker waits for it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::{Fuse, FusedFuture};
use tokio::signal::unix::{self, SignalKind};
use tokio::sync::watch;

use super::metrics;
use super::recording::{Shared, Sink, lock};
use super::session::Session;
use super::trial::leave;
use crate::check::{Cause, Expected};
use crate::history::Recorder;
use crate::history::event::Stop;
use crate::plan::Plan;
use crate::progress::board::{Board, Glance};
use crate::report::openmetrics::Snapshot;
use crate::report::threshold::{Measured, crossed};
use crate::report::{Report, Trial};
use crate::store::Store;

/// How often it looks.
const TICK: Duration = Duration::from_millis(100);
/// How many events may wait to be judged and written: some 250 MB of them. To have the load wait for
/// a slow disk would measure the disk.
const MOST_BEHIND: usize = 1 << 21;
/// How many violations are told one by one.
const TOLD: usize = 10;

/// What is looked at, and what may be done.
pub(super) struct Live<'a> {
    pub(super) plan: &'a Plan,
    pub(super) server: &'a str,
    pub(super) folder: &'a Path,
    pub(super) session: &'a Session,
    pub(super) sink: Shared,
    pub(super) store: Arc<dyn Store>,
    pub(super) recorder: Recorder,
    pub(super) stop: &'a watch::Sender<Option<Stop>>,
}

impl Live<'_> {
    /// Looks on until the work is done.
    pub(super) async fn watch<T>(self, work: impl Future<Output = T>) -> T {
        let label = format!("{} / {}", self.plan.scenario, self.plan.lock.kind);
        let mut board = Board::start(label, self.session.progress);
        // Where it cannot be listened to, nobody is answered.
        let mut usr1 = unix::signal(SignalKind::user_defined1()).ok();
        let served = async {
            match &self.session.metrics {
                Some(listener) => metrics::serve(listener, || self.metrics()).await,
                None => std::future::pending().await,
            }
        };
        let (mut work, mut served) = (std::pin::pin!(work), std::pin::pin!(served));
        let mut rolling = std::pin::pin!(Fuse::terminated());
        let mut told = Told::default();
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                biased;
                done = &mut work => {
                    self.tell(&mut told, &board);
                    told.rest(&board);
                    return done;
                }
                () = asked(&mut usr1) => board.status(&self.glance()),
                () = &mut served => {}
                // Beside the work: a store may be long in telling its ledger.
                left = &mut rolling => {
                    if let Err(why) = left {
                        board.say(&format!("warning: no report of this moment: {why}"));
                    }
                }
                _ = ticks.tick() => {
                    self.tell(&mut told, &board);
                    board.show(|| self.glance());
                    self.end_early();
                    if told.rolled.elapsed() >= self.session.rolling && rolling.is_terminated() {
                        told.rolled = Instant::now();
                        rolling.set(self.roll().fuse());
                    }
                }
            }
        }
    }

    fn glance(&self) -> Glance {
        let sink = lock(&self.sink);
        let summary = &sink.summary;
        let last = sink.watched.as_ref().map(|watched| watched.intervals.last);
        let last = last.unwrap_or_default();
        let elapsed = summary
            .now()
            .since(summary.began().unwrap_or(summary.now()));
        let faults = sink
            .watched
            .iter()
            .flat_map(|watched| watched.faults.values());
        Glance {
            issued: summary.counts.operations,
            per_second: last.per_second,
            p99_ns: last.p99_ns,
            max_ns: last.max_ns,
            waiting: summary.waiting(),
            violations: sink.judge.violations(),
            left: self.left(summary.counts.operations, elapsed),
            faults: faults.cloned().collect(),
        }
    }

    /// By the number of operations or by the duration, whichever ends first.
    fn left(&self, issued: u64, elapsed: Duration) -> Option<Duration> {
        let by_time = self.plan.duration().saturating_sub(elapsed);
        let by_number = self.plan.load.operations.filter(|_| issued > 0).map(|all| {
            let each = elapsed.as_secs_f64() / issued as f64;
            Duration::try_from_secs_f64(each * all.saturating_sub(issued) as f64)
                .unwrap_or(Duration::MAX)
        });
        Some(by_number.map_or(by_time, |left| left.min(by_time)))
    }

    fn metrics(&self) -> String {
        let sink = lock(&self.sink);
        let count = |property| sink.judge.count(property);
        let snapshot = Snapshot::new(&sink.summary, count, self.plan.load.workers);
        drop(sink);
        snapshot.render()
    }

    /// Tells what is new: violations, and files that cannot be written any more.
    fn tell(&self, told: &mut Told, board: &Board) {
        let sink = lock(&self.sink);
        told.found = sink.judge.violations();
        let kept = sink.judge.found();
        let new = kept[told.looked.min(kept.len())..].to_vec();
        told.looked = kept.len();
        let broken = sink.broken[told.broken.min(sink.broken.len())..].to_vec();
        told.broken = sink.broken.len();
        drop(sink);
        for why in broken {
            board.say(&format!("warning: nothing more is written there: {why}"));
        }
        for finding in new
            .iter()
            .filter(|finding| finding.cause != Cause::DriverLag)
        {
            if told.told < TOLD {
                board.say(&format!(
                    "violation at {:.3} s: {} ({}): {}",
                    finding.at_ns.seconds(),
                    finding.property.word(),
                    finding.cause.word(),
                    finding.summary
                ));
            }
            told.told += 1;
        }
    }

    /// Ends the run where the plan says that what was found is enough.
    fn end_early(&self) {
        if self.stop.borrow().is_some() {
            return;
        }
        let sink = lock(&self.sink);
        let why = self.enough(&sink);
        drop(sink);
        if let Some(why) = why {
            self.stop.send_replace(Some(why));
        }
    }

    fn enough(&self, sink: &Sink) -> Option<Stop> {
        let soak = self.plan.soak.as_ref()?;
        let violations = sink.judge.violations();
        if soak.max_violations.is_some_and(|most| violations >= most) {
            return Some(Stop::Violations);
        }
        if self.recorder.behind() > MOST_BEHIND {
            return Some(Stop::Behind);
        }
        let at_most = self.plan.longest_outage()?;
        // By what has been taken in: what is still to come may tell of answers.
        if sink.summary.silent_for(sink.seen) >= at_most {
            return Some(Stop::Silence);
        }
        let measured = Measured {
            summary: &sink.summary,
            violations,
            ledger: None,
        };
        let mut ending = self.plan.thresholds.iter().filter(|one| one.abort_on_fail);
        let over = ending.any(|one| crossed(one, measured));
        over.then_some(Stop::Threshold)
    }

    /// Leaves the report of this moment: it survives whatever ends this process. A store or a disk
    /// that fails for a moment must not end the run; the end will tell.
    async fn roll(&self) -> Result<(), String> {
        let ledger = self.store.ledger_meanwhile().await;
        let ledger = ledger.map_err(|why| why.to_string())?;
        let uncounted = || "not counted while the run goes on".to_owned();
        let report = {
            let sink = lock(&self.sink);
            let judged = sink.judge.so_far();
            let folder = self.folder.display().to_string();
            let trial = Trial::new(
                self.plan,
                folder,
                judged,
                ledger.ok_or_else(uncounted),
                &sink.summary,
            );
            let going_on = Expected {
                verdict: trial.lock_verdict.and(trial.business_verdict),
                missed: vec!["the run was still going on".to_owned()],
            };
            Report {
                partial: true,
                ..Report::new(self.plan, self.server, vec![trial], going_on)
            }
        };
        leave(self.folder, &report).map_err(|why| why.to_string())
    }
}

/// Waits for the signal that asks for a status line.
async fn asked(usr1: &mut Option<unix::Signal>) {
    match usr1 {
        Some(usr1) => {
            usr1.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// What was told so far.
struct Told {
    /// Findings looked at.
    looked: usize,
    /// Broken files told.
    broken: usize,
    /// Violations told, or not told any more.
    told: usize,
    /// Violations found.
    found: u64,
    rolled: Instant,
}

impl Default for Told {
    fn default() -> Told {
        Told {
            looked: 0,
            broken: 0,
            told: 0,
            found: 0,
            rolled: Instant::now(),
        }
    }
}

impl Told {
    fn rest(&self, board: &Board) {
        let more = self.found.saturating_sub(self.told.min(TOLD) as u64);
        if more > 0 {
            board.say(&format!("and {more} more violations"));
        }
    }
}
