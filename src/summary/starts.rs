//! Whether operations began when they were planned to (open loop only), and why not.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::{Time, nanos};
use crate::history::OpId;
use crate::scenario::pace::Schedule;

/// How much later than planned an operation may begin: what a busy machine needs to wake somebody
/// up. Its corrected latency counts all of it in any case.
pub const IN_TIME: Duration = Duration::from_millis(10);

/// Planned starts, and what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Starts {
    /// Due before the run stopped to issue operations.
    pub due: u64,
    /// Begun more than 10 ms late.
    pub late: u64,
    /// Of these, begun late by a worker that had been free in time: the driver's own doing.
    pub late_though_free: u64,
    /// Due, and never begun.
    pub never: u64,
    /// The latest.
    pub latest_ns: u64,
}

impl Starts {
    /// The share that could not begin in time.
    pub fn missed_share(&self) -> f64 {
        match self.due {
            0 => 0.0,
            due => (self.late + self.never) as f64 / due as f64,
        }
    }
}

/// The fold.
#[derive(Debug, Clone)]
pub(super) struct Planned {
    schedule: Schedule,
    most: u64,
    /// When the schedule began.
    origin: Option<Time>,
    begun: u64,
    starts: Starts,
    /// Since when each worker is free.
    free: Vec<Time>,
}

impl Planned {
    pub(super) fn new(schedule: Schedule, operations: Option<u64>) -> Planned {
        Planned {
            most: operations.unwrap_or(u64::MAX).min(schedule.len()),
            schedule,
            origin: None,
            begun: 0,
            starts: Starts::default(),
            free: Vec::new(),
        }
    }

    pub(super) fn began(&mut self, op: OpId, worker: u32, planned: Time, at: Time) {
        let since = nanos(self.schedule.due(op));
        self.origin
            .get_or_insert(Time(planned.0.saturating_sub(since)));
        self.begun += 1;
        let late = at.since(planned);
        self.starts.latest_ns = self.starts.latest_ns.max(nanos(late));
        if late > IN_TIME {
            self.starts.late += 1;
            let free = self.free.get(worker as usize).copied().unwrap_or_default();
            self.starts.late_though_free += u64::from(free <= planned);
        }
    }

    pub(super) fn ended(&mut self, worker: u32, at: Time) {
        let place = worker as usize;
        if self.free.len() <= place {
            self.free.resize(place + 1, Time::default());
        }
        self.free[place] = at;
    }

    /// No more operations are issued from now on.
    pub(super) fn stopped(&mut self, at: Time) {
        if let Some(origin) = self.origin {
            let since = at.since(origin).saturating_sub(IN_TIME);
            let due = self.schedule.due_by(since).min(self.most);
            self.starts.due = due.max(self.begun);
            self.starts.never = due.saturating_sub(self.begun);
        }
    }

    /// What became of them.
    pub(super) fn starts(&self) -> Starts {
        Starts {
            due: self.starts.due.max(self.begun),
            ..self.starts
        }
    }
}
