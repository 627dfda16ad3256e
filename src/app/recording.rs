//! What a recorder's thread does with a trial's events. It judges them and sums them up under a mutex,
//! for those who look on while the trial runs; and it writes files outside of it: a slow disk holds up
//! nobody who looks.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::intervals::{Log, Watched};
use super::session::Failure;
use crate::check::Judge;
use crate::clock::Time;
use crate::history::Event;
use crate::history::file::Header;
use crate::history::keep::Writer;
use crate::plan::Plan;
use crate::summary::Summary;

/// How much is kept around a finding where not all is, in leases: its cause is seldom older.
const AROUND: u32 = 2;

/// A sink that the recorder's thread and those who look at it share.
pub(super) type Shared = Arc<Mutex<Sink>>;

/// The sink, for as long as it takes to look.
pub(super) fn lock(sink: &Shared) -> MutexGuard<'_, Sink> {
    sink.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is known of a trial so far.
pub(super) struct Sink {
    pub(super) judge: Judge,
    pub(super) summary: Summary,
    violations: Arc<AtomicU64>,
    /// What is kept for those who look on while it runs, in a soak.
    pub(super) watched: Option<Watched>,
    /// Up to when all that was recorded is known here.
    pub(super) seen: Time,
    /// Which files cannot be written any more, and why.
    pub(super) broken: Vec<String>,
}

impl Sink {
    pub(super) fn new(plan: &Plan, keys: usize, violations: Arc<AtomicU64>) -> Sink {
        let soak = plan.soak.is_some();
        let summary = Summary::new(plan);
        Sink {
            judge: Judge::new(plan, keys),
            summary: match soak {
                true => summary.by_interval(),
                false => summary,
            },
            violations,
            watched: soak.then(Watched::default),
            seen: Time::default(),
            broken: Vec::new(),
        }
    }

    /// Takes in events, and tells whether something was found in them.
    fn take(&mut self, events: &[Event], seen: Time) -> bool {
        let (before, found) = (self.judge.violations(), self.judge.finds());
        for event in events {
            if let Some(watched) = &mut self.watched {
                watched.event(event, &mut self.summary);
            }
            self.judge.event(event);
            self.summary.event(event);
        }
        self.seen = seen;
        let new = self.judge.violations() - before;
        self.violations.fetch_add(new, Ordering::Relaxed);
        self.judge.finds() > found
    }

    /// The lines of the interval log that are to be written.
    fn lines(&mut self) -> Vec<u8> {
        let watched = self.watched.as_mut();
        watched.map_or_else(Vec::new, |watched| watched.intervals.lines())
    }
}

/// The files that are written while a trial runs.
pub(super) struct Files {
    history: Writer,
    intervals: Option<Log>,
}

impl Files {
    pub(super) fn create(
        plan: &Plan,
        history: &Path,
        header: &Header<&Plan>,
    ) -> Result<Files, Failure> {
        let writer = Writer::create(history, header, plan.ttl() * AROUND);
        let folder = history.parent().unwrap_or(Path::new("."));
        Ok(Files {
            history: writer.map_err(Failure::environment)?,
            intervals: match plan.soak {
                Some(_) => Some(Log::create(folder)?),
                None => None,
            },
        })
    }

    fn broken(&self) -> Vec<String> {
        let intervals = self.intervals.as_ref().and_then(Log::broken);
        self.history.broken().into_iter().chain(intervals).collect()
    }

    /// Writes what is left. Tells what of the history is missing, and of anything else.
    fn finish(self, lines: &[u8]) -> [Option<String>; 2] {
        let history = self.history.finish().err().map(|why| why.to_string());
        let intervals = self.intervals.and_then(|mut log| {
            log.write(lines);
            log.finish()
        });
        [history, intervals]
    }
}

/// What the recorder's thread works with.
pub(super) struct Recording {
    sink: Shared,
    files: Files,
    /// How many files are known to be broken.
    broken: usize,
}

impl Recording {
    /// Begins with the clock that the trial's times come from.
    pub(super) fn start(sink: Shared, mut files: Files) -> Recording {
        if let Some(intervals) = &mut files.intervals {
            intervals.start();
        }
        Recording {
            sink,
            files,
            broken: 0,
        }
    }

    /// Takes in events; all that was recorded up to that time has been handed over with them.
    pub(super) fn take(&mut self, events: &[Event], seen: Time) {
        let (found, lines) = {
            let mut sink = lock(&self.sink);
            (sink.take(events, seen), sink.lines())
        };
        self.files.history.append(events, found);
        if let Some(intervals) = &mut self.files.intervals {
            intervals.write(&lines);
        }
        let broken = self.files.broken();
        if broken.len() > self.broken {
            self.broken = broken.len();
            lock(&self.sink).broken = broken;
        }
    }

    /// Ends the files, when nobody looks at the sink any more. With the sink come what is missing of
    /// the history, and of anything else.
    pub(super) fn end(self) -> (Sink, [Option<String>; 2]) {
        let Recording { sink, files, .. } = self;
        let mut sink = match Arc::into_inner(sink) {
            Some(sink) => sink.into_inner().unwrap_or_else(PoisonError::into_inner),
            None => unreachable!("the recorder's thread has ended, and who looked on has"),
        };
        let now = sink.summary.now();
        if let Some(watched) = &mut sink.watched {
            watched.intervals.end(now, &mut sink.summary);
        }
        let missing = files.finish(&sink.lines());
        (sink, missing)
    }
}
