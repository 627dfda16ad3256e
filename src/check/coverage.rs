//! `coverage`: no pass without proof. Did each planned fault land, did anybody contend, did the
//! run come to its own end, and did the driver keep up?

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::finding::Findings;
use super::scene::Scene;
use super::{Check, Entry, Outcome};
use crate::clock::nanos;
use crate::history::event::{Event, Kind, Stop};
use crate::lock;
use crate::plan::Plan;

pub(super) const ENTRY: Entry = Entry {
    name: "coverage",
    about: "each fault landed, somebody contended, the run ended by itself, the driver kept up",
    make: |plan| {
        Box::new(Watch {
            covered: Coverage::new(plan),
            ttl: plan.ttl(),
            more: more_contention(plan),
            ended: false,
            unseen: None,
            cut: 0,
            beside: 0,
        })
    },
};

/// What a trial has really put to the test.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Coverage {
    /// The planned faults, in the plan's order.
    pub faults: Vec<FaultCoverage>,
    /// Attempts that were refused because another held the lock.
    pub denied: u64,
    /// Sections entered.
    pub sections: u64,
    /// Sections whose planned work was longer than the TTL.
    pub sections_longer_than_ttl: u64,
    /// The most that the driver was late at a time.
    pub driver_lag_max_ns: u64,
    /// How late it may be before the lock's promise depends on it.
    pub driver_lag_margin_ns: u64,
    /// Why the run stopped.
    pub stop: Option<Stop>,
}

/// What became of a planned fault.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultCoverage {
    /// What it did; absent if it never struck.
    pub what: Option<String>,
    /// How often it was to strike; absent where that was left to chance or to the length of the run.
    pub planned: Option<u64>,
    /// How often it struck.
    pub struck: u64,
    /// How often it was proven to have had its effect.
    pub landed: u64,
    /// The first proof of that; absent if there is none.
    pub proof: Option<String>,
}

impl FaultCoverage {
    /// How often it landed of how many times, where that was to be more than once.
    pub fn times(&self) -> Option<String> {
        let of = self.planned.unwrap_or(0).max(self.struck);
        let once = self.planned == Some(1) && self.struck <= 1;
        (!once).then(|| format!("landed {} of {of} times", self.landed))
    }
}

impl Coverage {
    fn new(plan: &Plan) -> Coverage {
        let renews = lock::find(&plan.lock.kind).is_some_and(|entry| entry.renews);
        let margin = if renews {
            plan.ttl() * 2 / 3
        } else {
            plan.ttl()
        };
        let planned = plan.faults.iter().map(|fault| FaultCoverage {
            what: None,
            planned: fault.planned_strikes(),
            struck: 0,
            landed: 0,
            proof: None,
        });
        Coverage {
            faults: planned.collect(),
            denied: 0,
            sections: 0,
            sections_longer_than_ttl: 0,
            driver_lag_max_ns: 0,
            driver_lag_margin_ns: nanos(margin),
            stop: None,
        }
    }

    fn event(&mut self, event: &Event, ttl: Duration) {
        match &event.event {
            Kind::Denied { .. } => self.denied += 1,
            Kind::Entered { .. } => self.sections += 1,
            Kind::Working { work_ns, .. } if *work_ns > nanos(ttl) => {
                self.sections_longer_than_ttl += 1;
            }
            Kind::DriverLag { late_ns, .. } => {
                self.driver_lag_max_ns = self.driver_lag_max_ns.max(*late_ns);
            }
            Kind::FaultBegan { fault, what, .. } => {
                if let Some(covered) = self.faults.get_mut(*fault as usize) {
                    covered.what.get_or_insert_with(|| what.clone());
                    covered.struck += 1;
                }
            }
            Kind::FaultLanded { fault, proof } => {
                if let Some(covered) = self.faults.get_mut(*fault as usize) {
                    covered.landed += 1;
                    covered.proof.get_or_insert_with(|| proof.clone());
                }
            }
            Kind::Draining { why } => self.stop = Some(why.clone()),
            _ => {}
        }
    }
}

struct Watch {
    covered: Coverage,
    ttl: Duration,
    /// What makes more workers ask for one lock at a time.
    more: String,
    ended: bool,
    /// Why nobody knows whether a key was left behind.
    unseen: Option<String>,
    cut: u32,
    /// Sections that began beside another: with no lock nobody is ever refused.
    beside: u64,
}

impl Check for Watch {
    fn event(&mut self, event: &Event, scene: &mut Scene, _: &mut Findings) {
        self.covered.event(event, self.ttl);
        match &event.event {
            Kind::Entered { op } => {
                let key = scene.op(*op).map(|op| op.key);
                let others = key.map(|key| scene.holders(key).filter(|o| o.in_section).count());
                self.beside += u64::from(others.is_some_and(|others| others > 1));
            }
            Kind::DrainCut { instances } => self.cut = *instances,
            Kind::KeysUnseen { error } => self.unseen = Some(error.clone()),
            Kind::Ended {} => self.ended = true,
            _ => {}
        }
    }

    fn end(&mut self, _: &Outcome<'_>, _: &Scene, out: &mut Findings) {
        let covered = &self.covered;
        for (number, fault) in covered.faults.iter().enumerate() {
            match (&fault.what, &fault.proof) {
                (None, _) => out.doubt(format!("planned fault {} never struck", number + 1)),
                (Some(what), None) => {
                    let times = fault.times().map(|times| format!(" ({times})"));
                    let times = times.unwrap_or_default();
                    out.doubt(format!("nothing proves that it landed: {what}{times}"));
                }
                _ => {}
            }
        }
        if covered.sections == 0 {
            out.doubt("nobody entered a section".to_owned());
        } else if covered.denied == 0 && self.beside == 0 {
            out.doubt(format!("nobody contended for the lock: {}", self.more));
        }
        if let Some(error) = &self.unseen {
            out.doubt(format!(
                "nobody knows whether a key was left behind: {error}"
            ));
        } else if !self.ended {
            out.doubt("the history was cut off: it has no end".to_owned());
        }
        if self.cut > 0 {
            out.doubt(format!("{} instances did not end in time", self.cut));
        }
        match covered.stop {
            Some(Stop::ServerDied) => out.doubt("the server died in the middle".to_owned()),
            Some(Stop::Signal(_)) => out.doubt("the run was interrupted".to_owned()),
            Some(Stop::Silence) => {
                out.doubt("the run was ended early: nobody was answered any more".to_owned());
            }
            Some(Stop::Behind) => {
                let what = "the run was ended early: events came faster than they were written";
                out.doubt(what.to_owned());
            }
            Some(Stop::Threshold) => {
                out.doubt("the run was ended early by a threshold that was crossed".to_owned());
            }
            _ => {}
        }
        if covered.driver_lag_max_ns > covered.driver_lag_margin_ns {
            out.doubt(format!(
                "the driver was late by {:.0?}, and the lock's margin is {:.0?}: a larger \
                 --time-scale, or a less busy machine",
                Duration::from_nanos(covered.driver_lag_max_ns),
                Duration::from_nanos(covered.driver_lag_margin_ns)
            ));
        }
    }

    fn coverage(&self) -> Option<&Coverage> {
        Some(&self.covered)
    }
}

/// What the user may change so that somebody contends.
fn more_contention(plan: &Plan) -> String {
    let mut more = vec!["more workers (`-c`)"];
    if plan.soak.is_some() && plan.workload.with_keys(1).is_some() {
        more.push("fewer keys (`--keys`)");
    }
    more.push(match plan.load.stages.is_empty() {
        true => "less think time",
        false => "a higher rate",
    });
    more.join(", ")
}
