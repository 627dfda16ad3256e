//! The interval log of a soak, written as it goes: one interval a second, by the run's own clock.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::session::Failure;
use crate::clock::Time;
use crate::history::event::{Event, Kind};
use crate::report::hlog;
use crate::summary::{Part, Summary, supported};

/// The file in a soak's folder.
const FILE: &str = "latency.hlog";
/// How long an interval is.
const LONG: Duration = Duration::from_secs(1);

/// What the last full interval shows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Last {
    /// Operations completed a second.
    pub(super) per_second: f64,
    /// The 99th percentile of the acquire, if it had samples enough.
    pub(super) p99_ns: Option<u64>,
    /// The longest.
    pub(super) max_ns: u64,
}

/// The file of the log.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    out: BufWriter<File>,
    broken: Option<std::io::Error>,
}

impl Log {
    pub(super) fn create(folder: &Path) -> Result<Log, Failure> {
        let path = folder.join(FILE);
        let at = |why| Failure::environment(format!("{}: {why}", path.display()));
        let out = BufWriter::new(File::create(&path).map_err(at)?);
        Ok(Log {
            path,
            out,
            broken: None,
        })
    }

    /// Begins the log, in the moment in which the clock is started.
    pub(super) fn start(&mut self) {
        self.write(&hlog::header(SystemTime::now()));
    }

    /// Writes lines. The first failure is kept; after it nothing more is written.
    pub(super) fn write(&mut self, lines: &[u8]) {
        if !lines.is_empty() && self.broken.is_none() {
            let written = self.out.write_all(lines).and_then(|()| self.out.flush());
            self.broken = written.err();
        }
    }

    /// Why it cannot be written any more.
    pub(super) fn broken(&self) -> Option<String> {
        let why = self.broken.as_ref()?;
        Some(format!("{}: {why}", self.path.display()))
    }

    /// Tells why it is not whole, if it is not.
    pub(super) fn finish(mut self) -> Option<String> {
        if self.broken.is_none() {
            self.broken = self.out.flush().err();
        }
        self.broken()
    }
}

/// The intervals so far.
#[derive(Debug, Default)]
pub(super) struct Intervals {
    /// Lines that are not written yet.
    lines: Vec<u8>,
    began: Time,
    completed: u64,
    pub(super) last: Last,
}

/// What is kept of a soak for those who look on while it runs.
#[derive(Debug, Default)]
pub(super) struct Watched {
    pub(super) intervals: Intervals,
    /// What is being done on purpose now, by the fault's place in the plan.
    pub(super) faults: BTreeMap<u32, String>,
}

impl Watched {
    /// An event that the summary has not taken in yet.
    pub(super) fn event(&mut self, event: &Event, summary: &mut Summary) {
        self.intervals.reach(event.at_ns, summary);
        match &event.event {
            Kind::FaultBegan { fault, what, .. } => {
                self.faults.insert(*fault, what.clone());
            }
            Kind::FaultEnded { fault } => {
                self.faults.remove(fault);
            }
            _ => {}
        }
    }
}

impl Intervals {
    /// The lines that are not written yet.
    pub(super) fn lines(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.lines)
    }

    /// Something is about to happen at that time: closes the intervals that are over.
    pub(super) fn reach(&mut self, at: Time, summary: &mut Summary) {
        while at >= self.began.plus(LONG) {
            self.close(self.began.plus(LONG), summary);
        }
    }

    /// The run is over.
    pub(super) fn end(&mut self, now: Time, summary: &mut Summary) {
        if now > self.began {
            self.close(now, summary);
        }
    }

    fn close(&mut self, end: Time, summary: &mut Summary) {
        let long = end.since(self.began);
        let completed = summary.ended_so_far().completed;
        let begun = summary.began().is_some();
        let Some(latencies) = summary.interval() else {
            return;
        };
        let acquire = latencies.of(Part::Acquire);
        self.last = Last {
            per_second: (completed - self.completed) as f64 / long.as_secs_f64(),
            p99_ns: supported(acquire, 0.99),
            max_ns: acquire.max(),
        };
        // What lies before the first operation is the set-up.
        if begun {
            let since = Duration::from_nanos(self.began.0);
            self.lines.extend(hlog::interval(latencies, since, long));
        }
        latencies.clear();
        self.completed = completed;
        self.began = end;
    }
}
