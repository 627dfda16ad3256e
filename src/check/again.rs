//! `not-again`: after a fault that asks for it, the lock is granted once more: to the instance that was
//! struck, or, where none was or it is dead, to anybody. Within the longest vacancy since the end of
//! the fault it may fail; who asks after that and gets an error, or no answer, has found a lock that
//! did not get over the fault. (Who is refused may have come beside a holder; whether he may be
//! refused is `starved`'s question.) Where nobody was granted it, and nobody can say that, it is not
//! known.

use std::collections::BTreeMap;
use std::time::Duration;

use super::finding::{Cause, Finding, Findings, Property, Role};
use super::operation::Operation;
use super::scene::Scene;
use super::{Check, Entry, Outcome};
use crate::clock::Time;
use crate::history::event::{Event, Kind};
use crate::lock;
use crate::plan::Plan;

pub(super) const ENTRY: Entry = Entry {
    name: "again",
    about: "after a fault with `again = true` the lock is granted once more",
    make: |plan| Box::new(Again::new(plan)),
};

struct Again {
    longest_vacancy: Duration,
    /// Those that ask for it, by their places in the plan.
    wanted: BTreeMap<u32, Wanted>,
    /// How often each fault strikes at present.
    strikes: BTreeMap<u32, u32>,
}

/// A fault after which the lock must be granted again.
#[derive(Default)]
struct Wanted {
    /// The instance that it struck, as long as that lives.
    instance: Option<u32>,
    struck: bool,
    /// When it ended last.
    ended: Option<Time>,
    /// Since then: how often it was asked for, and whether that is settled.
    asked: u64,
    settled: bool,
}

impl Again {
    fn new(plan: &Plan) -> Again {
        let queues = lock::find(&plan.lock.kind).is_some_and(|lock| lock.queues);
        let faults = (0u32..).zip(&plan.faults);
        let wanted = faults.filter(|(_, fault)| fault.again);
        Again {
            longest_vacancy: plan.longest_vacancy(queues),
            wanted: wanted
                .map(|(fault, _)| (fault, Wanted::default()))
                .collect(),
            strikes: BTreeMap::new(),
        }
    }
}

impl Check for Again {
    fn event(&mut self, event: &Event, scene: &mut Scene, out: &mut Findings) {
        if self.wanted.is_empty() {
            return;
        }
        match &event.event {
            Kind::FaultBegan {
                fault, instance, ..
            } => self.began(*fault, *instance),
            Kind::FaultEnded { fault } => self.ended(*fault, event.at_ns),
            Kind::Crashed { instance } => {
                let dead = self.wanted.values_mut();
                for wanted in dead.filter(|wanted| wanted.instance == Some(*instance)) {
                    wanted.instance = None;
                }
            }
            Kind::Granted { op, .. } => {
                self.about(scene.op(*op), |wanted, _| wanted.settled = true);
            }
            Kind::Denied { op } => self.about(scene.op(*op), |wanted, _| wanted.asked += 1),
            Kind::AcquireFailed { op, error } | Kind::AcquireUnknown { op, error } => {
                let op = scene.op(*op);
                self.about(op, |wanted, _| wanted.asked += 1);
                // What another fault does meanwhile is no proof against the lock.
                if self.strikes.values().all(|strikes| *strikes == 0) {
                    self.failed(op, error, event.at_ns, scene, out);
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, _: &Outcome<'_>, _: &Scene, out: &mut Findings) {
        let open = self.wanted.iter().filter(|(_, wanted)| !wanted.settled);
        for (fault, wanted) in open.filter(|(_, wanted)| wanted.struck) {
            let number = fault + 1;
            let whom = match wanted.instance {
                Some(instance) => format!("instance {instance}"),
                None => "anybody".to_owned(),
            };
            out.doubt(match (wanted.ended, wanted.asked) {
                (None, _) => format!("fault {number} had not ended when the run had"),
                (Some(_), 0) => format!(
                    "whether {whom} is granted the lock again after fault {number} is not known: \
                     nobody asked"
                ),
                (Some(_), asked) => format!(
                    "whether {whom} is granted the lock again after fault {number} is not known: \
                     it was asked for {asked} times and not granted"
                ),
            });
        }
    }
}

impl Again {
    fn began(&mut self, fault: u32, instance: Option<u32>) {
        *self.strikes.entry(fault).or_default() += 1;
        if let Some(wanted) = self.wanted.get_mut(&fault) {
            *wanted = Wanted {
                instance,
                struck: true,
                ..Wanted::default()
            };
        }
    }

    fn ended(&mut self, fault: u32, at: Time) {
        let left = self.strikes.entry(fault).or_default();
        *left = left.saturating_sub(1);
        let over = *left == 0;
        if let Some(wanted) = self.wanted.get_mut(&fault).filter(|_| over) {
            wanted.ended = Some(at);
        }
    }

    /// Has those know of an answer that are concerned: the question came after the fault's end, and
    /// from whom it must be.
    fn about(&mut self, op: Option<&Operation>, mut then: impl FnMut(&mut Wanted, Duration)) {
        let Some((op, asked)) = op.and_then(|op| Some((op, op.asked?))) else {
            return;
        };
        for wanted in self.wanted.values_mut().filter(|wanted| !wanted.settled) {
            let whose = wanted
                .instance
                .is_none_or(|instance| instance == op.instance);
            if let Some(ended) = wanted.ended.filter(|ended| whose && asked >= *ended) {
                then(wanted, asked.since(ended));
            }
        }
    }

    fn failed(
        &mut self,
        op: Option<&Operation>,
        error: &str,
        at: Time,
        scene: &Scene,
        out: &mut Findings,
    ) {
        let Some(operation) = op else { return };
        let longest = self.longest_vacancy;
        let mut after = None;
        self.about(op, |wanted, waited| {
            if waited > longest {
                wanted.settled = true;
                after = after.max(Some(waited));
            }
        });
        let Some(after) = after else { return };
        let window = (operation.asked.unwrap_or(at), at);
        let late = scene.lag_within(operation.instance, window) * 2 > at.since(window.0);
        out.add(Finding {
            property: Property::NotAgain,
            cause: match late || scene.unsettled(at) {
                true => Cause::DriverLag,
                false => Cause::AfterFault,
            },
            at_ns: at,
            summary: format!(
                "{} asked for the lock {after:.0?} after the end of a fault, longer than a lease, \
                 and nobody of whom it was asked had been granted it since: {error}",
                operation.name()
            ),
            witnesses: vec![operation.witness(Role::Refused, at)],
        });
    }
}
