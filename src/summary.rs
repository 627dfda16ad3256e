//! What a trial did in numbers: operations by outcome, and how long they took. A fold over the
//! history, so a stored history gives the same numbers again.

mod errors;
mod latencies;
mod open;
mod outages;
mod outcomes;
mod starts;
mod vacancy;

pub use errors::{ErrorKind, Errors};
pub use latencies::{Latencies, Part, Quantiles, Sampled, quantiles, supported};
pub use outages::{Outage, Silence};
pub use outcomes::{Counts, Outcomes};
pub use starts::{IN_TIME, Starts};
pub use vacancy::Vacancy;

use std::time::Duration;

use crate::clock::{Time, nanos};
use crate::history::OpId;
use crate::history::event::{Effect, Event, Kind, Release};
use crate::plan::Plan;
use crate::scenario::pace::Schedule;
use open::{Open, Opened};
use outages::Outages;
use outcomes::{Answer, Fate};
use starts::Planned;
use vacancy::Sections;

/// The fold.
#[derive(Debug, Default)]
pub struct Summary {
    /// Operations by outcome.
    pub counts: Counts,
    /// How long things took, the warm-up left out.
    pub latencies: Latencies,
    /// The same since the last interval was taken, where intervals are kept.
    interval: Option<Latencies>,
    /// Errors by kind.
    pub errors: Errors,
    outcomes: Outcomes,
    open: Opened,
    outages: Outages,
    planned: Option<Planned>,
    warm_up: Duration,
    /// Of the operations that began after the warm-up: how many were completed.
    measured: u64,
    /// How long workers were at operations, together.
    busy_ns: u64,
    held_ns: u64,
    waiting: u64,
    /// Of the operations that began after the warm-up: how many ended without a grant.
    never_granted: u64,
    over: bool,
    first: Option<Time>,
    last: Time,
    now: Time,
    last_arrival: Time,
    sections: Sections,
}

impl Summary {
    /// The summary of a plan's run.
    pub fn new(plan: &Plan) -> Summary {
        let schedule = Schedule::new(&plan.load.stages);
        Summary {
            warm_up: plan.warm_up(),
            planned: schedule.map(|schedule| Planned::new(schedule, plan.load.operations)),
            ..Summary::default()
        }
    }

    /// Keeps latencies by interval, too.
    pub fn by_interval(self) -> Summary {
        Summary {
            interval: Some(Latencies::default()),
            ..self
        }
    }

    /// The latencies since the last time this was asked, if they are kept. To be cleared then.
    pub fn interval(&mut self) -> Option<&mut Latencies> {
        self.interval.as_mut()
    }

    /// Takes in an event.
    pub fn event(&mut self, event: &Event) {
        let at = event.at_ns;
        self.now = at;
        match &event.event {
            Kind::Arrived {
                op,
                instance,
                worker,
                planned_ns,
                ..
            } => self.arrived(*op, *instance, *worker, *planned_ns, at),
            Kind::Asked { op } => {
                self.counts.attempts += 1;
                self.outages.asked(at);
                self.open.with(*op, |open| open.asking = true);
            }
            Kind::Granted { op, .. } => self.granted(*op, at),
            Kind::Denied { op } => {
                self.counts.denied += 1;
                self.outages.answered(at);
                self.open.with(*op, |open| open.answered(Answer::Denied));
            }
            Kind::AcquireFailed { op, error } => {
                self.counts.failed += 1;
                self.erred(*op, Answer::Failed, error, at);
            }
            Kind::AcquireUnknown { op, error } => {
                self.counts.unknown += 1;
                self.erred(*op, Answer::Unknown, error, at);
            }
            Kind::GaveUp { op, why } => {
                self.counts.gave_up += 1;
                self.last = at;
                if let Some(open) = self.open.close(*op) {
                    self.left_waiting(&open, at);
                    self.outcomes.gave_up(*why, open.last);
                    self.ended(&open, at);
                }
            }
            Kind::Entered { op } => {
                self.open.with(*op, |open| open.entered = at);
                self.sections.enter(*op, at);
            }
            Kind::Wrote { op, effect, .. } => {
                if let Effect::Written { rows, .. } = effect {
                    self.outcomes.rows += u64::from(*rows);
                }
                self.open.with(*op, |open| open.fate = Fate::of(effect));
            }
            Kind::StoreFailed { op, error } => {
                self.errors.add("store", true, error);
                self.open.with(*op, |open| open.fate = Fate::StoreFailed);
            }
            Kind::Left { op } => {
                if let Some(open) = self.open.get(*op).copied() {
                    let took = at.since(open.entered);
                    self.held_ns += nanos(took);
                    self.record(Part::Section, &open, took);
                }
                self.sections.leave(at, |inside| inside == *op);
            }
            Kind::Crashed { instance } => self.crashed(*instance, at),
            Kind::Renewed { .. } => self.counts.renewed += 1,
            Kind::RenewalFailed { error, .. } => self.errors.add("renewal", true, error),
            Kind::ReleaseAsked { op } => {
                self.open.with(*op, |open| {
                    open.releasing.get_or_insert(at);
                });
            }
            Kind::Released { op, outcome } => self.released(*op, outcome, at),
            Kind::Done { op } => {
                if let Some(open) = self.open.close(*op) {
                    self.done(&open, at);
                }
            }
            Kind::Thawed { .. } => self.outages.excused(at),
            Kind::DriverLag {
                late_ns,
                instance: None,
            } => self.outages.lagged(at, *late_ns),
            Kind::Ended {} | Kind::KeysUnseen { .. } => self.over = true,
            Kind::Draining { .. } => {
                if let Some(planned) = &mut self.planned {
                    planned.stopped(at);
                }
            }
            _ => {}
        }
    }

    fn arrived(&mut self, op: OpId, instance: u32, worker: u32, planned: Option<Time>, at: Time) {
        self.counts.operations += 1;
        self.outcomes.issued += 1;
        self.waiting += 1;
        self.outages.came(at);
        let began = planned.unwrap_or(at);
        self.first.get_or_insert(began.min(at));
        self.last_arrival = at;
        if let (Some(fold), Some(planned)) = (&mut self.planned, planned) {
            fold.began(op, worker, planned, at);
        }
        let open = Open {
            measured: began >= self.measured_from(),
            ..Open::new(instance, worker, began, at)
        };
        self.open.begin(op, open);
    }

    fn granted(&mut self, op: OpId, at: Time) {
        self.counts.granted += 1;
        self.outages.answered(at);
        let mut first = None;
        self.open.with(op, |open| {
            open.asking = false;
            first = (!open.granted).then_some(*open);
            open.granted = true;
        });
        // A nested acquire is granted once more; its operation has waited once.
        if let Some(open) = first {
            self.waiting -= 1;
            self.outages.went(at);
            self.record(Part::Acquire, &open, at.since(open.planned));
            self.record(Part::AcquireService, &open, at.since(open.arrived));
        }
    }

    fn erred(&mut self, op: OpId, answer: Answer, error: &str, at: Time) {
        self.outages.erred(at);
        self.errors.add("acquire", answer == Answer::Unknown, error);
        self.open.with(op, |open| open.answered(answer));
    }

    fn released(&mut self, op: OpId, outcome: &Release, at: Time) {
        self.counts.released += 1;
        self.last = at;
        let failed = match outcome {
            Release::Failed(error) => Some((false, error)),
            Release::Unknown(error) => Some((true, error)),
            _ => None,
        };
        if let Some((unknown, error)) = failed {
            self.errors.add("release", unknown, error);
            self.open.with(op, |open| open.release_failed = true);
        }
        let Some(open) = self.open.get(op).copied().filter(|open| !open.released) else {
            return;
        };
        self.open.with(op, |open| open.released = true);
        let asked = open.releasing.unwrap_or(at);
        self.record(Part::Release, &open, at.since(asked));
    }

    fn done(&mut self, open: &Open, at: Time) {
        self.left_waiting(open, at);
        self.outcomes.held(open.fate);
        let alone = open.release_failed && open.fate != Fate::StoreFailed;
        self.counts.release_errors += u64::from(alone);
        self.measured += u64::from(open.measured && open.fate == Fate::Landed);
        self.ended(open, at);
    }

    /// It has come to its end, and without the lock it waits no more.
    fn left_waiting(&mut self, open: &Open, at: Time) {
        if !open.granted {
            self.waiting -= 1;
            self.never_granted += u64::from(open.measured);
            self.outages.went(at);
        }
    }

    /// Its worker is free again.
    fn ended(&mut self, open: &Open, at: Time) {
        self.busy_ns += nanos(at.since(open.arrived));
        if let Some(planned) = &mut self.planned {
            planned.ended(open.worker, at);
        }
    }

    /// Who died in his section acts no more, though he never left it.
    fn crashed(&mut self, instance: u32, at: Time) {
        let dead = self.open.close_all_of(instance);
        for (_, open) in &dead {
            self.left_waiting(open, at);
            self.outcomes.unfinished += 1;
            if open.asking {
                self.outages.forgotten(at);
            }
        }
        let of_dead = |op| dead.iter().any(|(dead, _)| *dead == op);
        self.sections.leave(at, of_dead);
    }

    fn record(&mut self, part: Part, open: &Open, took: Duration) {
        if open.measured {
            self.latencies.record(part, took);
            if let Some(interval) = &mut self.interval {
                interval.record(part, took);
            }
        }
    }

    /// How long nobody was in a section.
    pub fn vacancy(&self) -> Vacancy {
        self.sections.vacancy()
    }

    /// How operations came to their ends. Those that have come to none are unfinished.
    pub fn outcomes(&self) -> Outcomes {
        let mut outcomes = self.outcomes;
        for open in self.open.all() {
            match open.released {
                // What a mistake leaves behind of it is not the operation.
                true => outcomes.held(open.fate),
                false => outcomes.unfinished += 1,
            }
        }
        outcomes
    }

    /// The same of those that have come to their ends: the numbers only grow.
    pub fn ended_so_far(&self) -> Outcomes {
        self.outcomes
    }

    /// What became of planned starts, where there are some.
    pub fn starts(&self) -> Option<Starts> {
        self.planned.as_ref().map(Planned::starts)
    }

    /// When nobody was answered.
    pub fn silence(&self) -> Silence {
        self.outages.by(self.last)
    }

    /// For how long somebody has asked by now, and nobody was answered.
    pub fn silent_for(&self, now: Time) -> Duration {
        self.outages.lasting(now)
    }

    /// How many operations are in no latency of a part, for they never got that far: those that
    /// ended without the lock, those that still wait for it, and, where latency counts from the
    /// planned start, those that never started.
    pub fn never(&self, part: Part) -> u64 {
        let ungranted = self.never_granted + self.waiting;
        match part {
            Part::Acquire => ungranted + self.starts().map_or(0, |starts| starts.never),
            Part::AcquireService => ungranted,
            Part::Section | Part::Release => 0,
        }
    }

    /// Operations that ended in an error: the lock's servers or the store did not answer as they
    /// should.
    pub fn failures(&self) -> u64 {
        self.outcomes.errors() + self.counts.release_errors
    }

    /// Whether the run is over.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// How many operations wait for the lock now.
    pub fn waiting(&self) -> u64 {
        self.waiting
    }

    /// The time of the last event.
    pub fn now(&self) -> Time {
        self.now
    }

    /// When the first operation began, if one has.
    pub fn began(&self) -> Option<Time> {
        self.first
    }

    /// The share of the time in which the workers were at operations.
    pub fn busy_share(&self, workers: u32) -> f64 {
        share(self.busy_ns, self.elapsed(), workers)
    }

    /// The share of the time in which the keys were in somebody's section.
    pub fn held_share(&self, keys: u32) -> f64 {
        share(self.held_ns, self.elapsed(), keys)
    }

    fn measured_from(&self) -> Time {
        self.first.unwrap_or_default().plus(self.warm_up)
    }

    /// How long the warm-up has been over.
    pub fn measured_for(&self) -> Duration {
        self.last.since(self.measured_from())
    }

    /// Operations completed a second, of those that began after the warm-up.
    pub fn completed_per_second(&self) -> f64 {
        a_second(self.measured, self.measured_for())
    }

    /// Operations begun a second, while operations were issued.
    pub fn arrivals_per_second(&self) -> f64 {
        let first = self.first.unwrap_or(self.last_arrival);
        a_second(self.counts.operations, self.last_arrival.since(first))
    }

    /// From the first operation's beginning to the last one's end.
    pub fn elapsed(&self) -> Duration {
        self.last.since(self.first.unwrap_or(self.last))
    }

    /// Sections a second: what the business got done.
    pub fn operations_per_second(&self) -> f64 {
        a_second(self.counts.released, self.elapsed())
    }
}

fn a_second(n: u64, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    match seconds > 0.0 {
        true => n as f64 / seconds,
        false => 0.0,
    }
}

fn share(ns: u64, of: Duration, places: u32) -> f64 {
    let all = of.as_nanos() as f64 * f64::from(places);
    match all > 0.0 {
        true => ns as f64 / all,
        false => 0.0,
    }
}
