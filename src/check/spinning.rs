//! `busy-spinning`: who waits for the lock asks no more often than its wait policy says. Who asks
//! again at once, whatever the answer was (a refusal, `READONLY`, `NOSCRIPT`), takes from the server
//! what the holder needs to renew and to release.

use std::time::Duration;

use super::finding::{Cause, Finding, Findings, Property, Role};
use super::scene::Scene;
use super::{Check, Entry};
use crate::history::OpId;
use crate::history::event::{Event, Kind};
use crate::plan::Plan;
use crate::scenario::Wait;

pub(super) const ENTRY: Entry = Entry {
    name: "spinning",
    about: "who waits asks no more often than its wait policy says: no busy spinning",
    make: |plan| {
        Box::new(Spinning {
            pace: pace(plan),
            releases: Vec::new(),
        })
    },
};

/// So many questions of a waiter in a row are looked at together.
const ROW: u32 = 32;
/// For at least so many of them there must have been a reason. A jitter makes some pauses short, but
/// not that many in a row.
const PLANNED: f64 = 4.0;
/// Into how many questions a TTL is divided at most by who waits for a wake-up: he asks by himself
/// when the lease before him may have ended, and at a quarter of that if he cannot hear.
const IN_A_TTL: u32 = 20;

struct Spinning {
    /// How long between two questions; none where nobody asks twice.
    pace: Option<Duration>,
    /// How often each key was released: each time its waiters may be woken.
    releases: Vec<u64>,
}

fn pace(plan: &Plan) -> Option<Duration> {
    match plan.lock.wait {
        Wait::FailFast => None,
        Wait::Retry { every_ns, .. } => Some(Duration::from_nanos(every_ns)),
        Wait::WakeUp { .. } => Some(plan.ttl() / IN_A_TTL),
    }
}

impl Check for Spinning {
    fn event(&mut self, event: &Event, scene: &mut Scene, out: &mut Findings) {
        let Some(pace) = self.pace else {
            return;
        };
        match event.event {
            Kind::Asked { op } => {
                if let Some(finding) = self.asked(event, op, pace, scene) {
                    out.add(finding);
                }
            }
            Kind::Released { op, .. } => {
                if let Some(key) = scene.op(op).map(|op| op.key as usize) {
                    self.releases_of(key);
                    self.releases[key] += 1;
                }
            }
            _ => {}
        }
    }
}

impl Spinning {
    fn releases_of(&mut self, key: usize) -> u64 {
        if self.releases.len() <= key {
            self.releases.resize(key + 1, 0);
        }
        self.releases[key]
    }

    fn asked(
        &mut self,
        event: &Event,
        op: OpId,
        pace: Duration,
        scene: &mut Scene,
    ) -> Option<Finding> {
        let key = scene.op(op)?.key as usize;
        let releases = self.releases_of(key);
        let row = scene.questions(op)?;
        if row.asked == 0 {
            (row.since, row.releases) = (event.at_ns, releases);
        }
        row.asked += 1;
        if row.asked < ROW {
            return None;
        }
        let took = event.at_ns.since(row.since);
        let woken = releases - row.releases;
        let planned = woken as f64 + took.as_secs_f64() / pace.as_secs_f64();
        row.asked = 0;
        if planned >= PLANNED || std::mem::replace(&mut row.told, true) {
            return None;
        }
        let operation = scene.op(op)?;
        Some(Finding {
            property: Property::BusySpinning,
            cause: Cause::Mistake,
            at_ns: event.at_ns,
            summary: format!(
                "{} asked for the lock {ROW} times within {took:.0?}, for which its wait policy \
                 plans {planned:.1}",
                operation.name()
            ),
            witnesses: vec![operation.witness(Role::Waiter, event.at_ns)],
        })
    }
}
