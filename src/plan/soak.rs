//! What makes a plan a soak's: how long it warms up and when it ends early; and what the flags of
//! `oversold soak` change. Their times are the run's own, whatever the scenario's time scale.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Plan;
use crate::clock::nanos;
use crate::scenario::pace::{Schedule, Stage};
use crate::scenario::{Dist, Load, Threshold, Workload};

/// How long what was due at the end of the last stage may take to begin.
const TO_BEGIN: Duration = Duration::from_secs(1);

/// What a soak has beyond a trial.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Soak {
    /// How long after the first operation latencies are left out; correctness never is.
    pub warm_up_ns: u64,
    /// After how many violations it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_violations: Option<u64>,
    /// After how long it ends in which nobody was answered.
    pub max_outage_ns: u64,
}

/// What the flags of `oversold soak` change.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SoakFlags {
    /// `-z`
    pub duration: Option<Duration>,
    /// `--rate` or `--stages`
    pub pace: Option<Pace>,
    /// `--keys`
    pub keys: Option<Keys>,
    /// `--section`
    pub section: Option<Dist>,
    /// `--instances`
    pub instances: Option<u32>,
    /// `--warmup`
    pub warm_up: Duration,
    /// `--max-violations`
    pub max_violations: Option<u64>,
    /// `--max-outage`
    pub max_outage: Duration,
    /// `--threshold`
    pub thresholds: Vec<Threshold>,
}

/// For which keys workers ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// Each operation for one that it draws of so many.
    Drawn(u32),
    /// Each worker for its own: nobody contends, and a lock is only as fast as it can be.
    Own,
}

/// When operations are to start.
#[derive(Debug, Clone, PartialEq)]
pub enum Pace {
    /// So many a second, for as long as the load lasts.
    Rate(f64),
    /// As they say, for as long as they last: all of them, unless `-n` or `-z` says less.
    Stages(Vec<Stage>),
}

impl Keys {
    /// A workload with these keys, where they can be chosen.
    pub fn of(self, workload: &Workload, workers: u32) -> Option<Workload> {
        match self {
            Keys::Drawn(keys) => workload.with_keys(keys),
            Keys::Own => workload.with_own_keys(workers),
        }
    }
}

impl SoakFlags {
    /// Changes a load whose other flags have been heeded.
    pub(super) fn change(&self, load: &mut Load, operations: Option<u64>) {
        if let Some(duration) = self.duration {
            load.duration_ns = nanos(duration);
            // As in hey: `-n` does not count beside `-z`, unless it was given.
            load.operations = operations;
        }
        match &self.pace {
            Some(Pace::Rate(rate)) => load.stages = vec![Stage::steady(*rate)],
            Some(Pace::Stages(stages)) => {
                let long = Schedule::new(stages).map_or(0, |schedule| nanos(schedule.long()));
                load.stages.clone_from(stages);
                // All of what was planned, and no scenario's own number beside it.
                load.operations = operations;
                load.duration_ns = match self.duration {
                    Some(_) => load.duration_ns.min(long),
                    None => long,
                };
            }
            None => {}
        }
    }

    pub(super) fn soak(&self) -> Soak {
        Soak {
            warm_up_ns: nanos(self.warm_up),
            max_violations: self.max_violations,
            max_outage_ns: nanos(self.max_outage),
        }
    }
}

impl Plan {
    /// How long after the first operation latencies are left out.
    pub fn warm_up(&self) -> Duration {
        let warm_up = self.soak.as_ref().map(|soak| soak.warm_up_ns);
        Duration::from_nanos(warm_up.unwrap_or(0))
    }

    /// How long nobody may be answered in a soak before it ends: what is done on purpose may take as
    /// long as it does.
    pub fn longest_outage(&self) -> Option<Duration> {
        let soak = self.soak.as_ref()?;
        Some(Duration::from_nanos(soak.max_outage_ns) + self.longest_section())
    }

    /// The planned starts, and how many of them there are; none in a closed loop.
    pub fn schedule(&self) -> Option<Schedule> {
        Schedule::new(&self.load.stages)
    }

    /// How long operations are issued. What is due when the last stage ends has a moment to begin.
    pub fn issues_for(&self) -> Duration {
        match self.schedule() {
            Some(schedule) if schedule.long() <= self.duration() => self.duration() + TO_BEGIN,
            _ => self.duration(),
        }
    }

    /// The most operations there may be, by their number or by their planned starts.
    pub fn most_operations(&self) -> Option<u64> {
        let starts = self.schedule().map(|schedule| schedule.len());
        match (self.load.operations, starts) {
            (Some(operations), Some(starts)) => Some(operations.min(starts)),
            (operations, starts) => operations.or(starts),
        }
    }
}
