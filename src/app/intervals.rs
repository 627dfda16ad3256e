//! The interval log of a soak, written as it goes: one interval a second, by the run's own clock.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
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

/// The log so far.
#[derive(Debug)]
pub(super) struct Intervals {
    out: BufWriter<File>,
    broken: Option<std::io::Error>,
    began: Time,
    completed: u64,
    pub(super) last: Last,
}

/// What is kept of a soak for those who look on while it runs.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) intervals: Intervals,
    /// What is being done on purpose now, by the fault's place in the plan.
    pub(super) faults: BTreeMap<u32, String>,
}

impl Watched {
    pub(super) fn new(folder: &Path) -> Result<Watched, Failure> {
        Ok(Watched {
            intervals: Intervals::create(folder)?,
            faults: BTreeMap::new(),
        })
    }

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
    /// Begins the log in a folder, in the moment in which the clock is started.
    pub(super) fn create(folder: &Path) -> Result<Intervals, Failure> {
        let path = folder.join(FILE);
        let at = |why| Failure::environment(format!("{}: {why}", path.display()));
        let mut out = BufWriter::new(File::create(&path).map_err(at)?);
        out.write_all(&hlog::header(SystemTime::now()))
            .map_err(at)?;
        Ok(Intervals {
            out,
            broken: None,
            began: Time::default(),
            completed: 0,
            last: Last::default(),
        })
    }

    /// Something is about to happen at that time: closes the intervals that are over.
    pub(super) fn reach(&mut self, at: Time, summary: &mut Summary) {
        while at >= self.began.plus(LONG) {
            self.close(self.began.plus(LONG), summary);
        }
    }

    /// The run is over.
    pub(super) fn finish(mut self, summary: &mut Summary) -> Result<(), Failure> {
        let now = summary.now();
        if now > self.began {
            self.close(now, summary);
        }
        let failed = self.broken.or_else(|| self.out.flush().err());
        failed.map_or(Ok(()), |why| {
            Err(Failure::environment(format!("{FILE}: {why}")))
        })
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
        if begun && self.broken.is_none() {
            let since = Duration::from_nanos(self.began.0);
            let lines = hlog::interval(latencies, since, long);
            let written = self.out.write_all(&lines).and_then(|()| self.out.flush());
            self.broken = written.err();
        }
        latencies.clear();
        self.completed = completed;
        self.began = end;
    }
}
