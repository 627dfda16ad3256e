//! `misuse`: what people do wrong around a lock that is right, each told by its name: releases of
//! what was not acquired, nested acquires, leases of a wrong length, renewals of another's lease or
//! after the release, writes after the release or in spite of a lost lease.

use std::time::Duration;

use super::cause;
use super::finding::{Cause, Finding, Findings, Property, Role};
use super::ledger::EffectOf;
use super::operation::Operation;
use super::scene::Scene;
use super::{Check, Entry};
use crate::history::OpId;
use crate::history::event::{Effect, Event, Kind, Release};

pub(super) const ENTRY: Entry = Entry {
    name: "misuse",
    about: "mistakes around the lock: releases, renewals, writes and acquires out of place",
    make: |plan| {
        Box::new(Misuse {
            ttl: plan.ttl(),
            told_ttl: false,
            effect: EffectOf::new(plan),
        })
    },
};

struct Misuse {
    ttl: Duration,
    told_ttl: bool,
    effect: EffectOf,
}

impl Check for Misuse {
    fn event(&mut self, event: &Event, scene: &mut Scene, out: &mut Findings) {
        let found = match &event.event {
            Kind::Granted {
                op,
                ttl_ns: Some(ttl_ns),
                locked: true,
                ..
            } => self.lease(event, scene.op(*op), Duration::from_nanos(*ttl_ns)),
            Kind::Denied { op } => nested(event, scene.op(*op)),
            Kind::Released { op, outcome } => unacquired(event, scene.op(*op), outcome),
            Kind::RenewalAsked { op } => stray(event, scene.op(*op)),
            Kind::Renewed { op } => renewed(event, scene.op(*op)),
            Kind::Wrote {
                op,
                replaced,
                left,
                effect: Effect::Written {
                    rows: rows @ 1.., ..
                },
                ..
            } => {
                let harm = self.effect.shift(*rows, *replaced, *left) != 0;
                wrote(event, scene, *op, harm)
            }
            _ => None,
        };
        if let Some(finding) = found {
            out.add(finding);
        }
    }
}

fn finding(event: &Event, op: &Operation, property: Property, what: &str) -> Finding {
    Finding {
        property,
        cause: Cause::Mistake,
        at_ns: event.at_ns,
        summary: format!("{} {what}", op.name()),
        witnesses: vec![op.witness(Role::Holder, event.at_ns)],
    }
}

impl Misuse {
    /// A lease that is not as long as planned; told once, for it is in the code.
    fn lease(&mut self, event: &Event, op: Option<&Operation>, ttl: Duration) -> Option<Finding> {
        let off = ttl.as_secs_f64() / self.ttl.as_secs_f64();
        if self.told_ttl || (0.5..=2.0).contains(&off) {
            return None;
        }
        self.told_ttl = true;
        let what = format!(
            "was granted a lease of {ttl:?}, and the plan says {:?}",
            self.ttl
        );
        Some(finding(event, op?, Property::WrongTtl, &what))
    }
}

fn nested(event: &Event, op: Option<&Operation>) -> Option<Finding> {
    let op = op.filter(|op| op.in_section && op.grant.is_some())?;
    let what = "asked for the lock that it holds, and was refused it: it waits for itself";
    Some(finding(event, op, Property::NestedAcquire, what))
}

fn unacquired(event: &Event, op: Option<&Operation>, outcome: &Release) -> Option<Finding> {
    let op = op.filter(|op| op.grant.is_none())?;
    let what = match outcome {
        Release::Removed => "released what it had not acquired, and removed another's lock",
        _ => "released what it had not acquired",
    };
    Some(finding(event, op, Property::ReleaseUnacquired, what))
}

fn stray(event: &Event, op: Option<&Operation>) -> Option<Finding> {
    let op = op.filter(|op| op.released.is_some())?;
    let what = "renews the lease after its release";
    Some(finding(event, op, Property::RenewalAfterRelease, what))
}

/// Its lock was gone before it asked, and still there was something to extend.
fn renewed(event: &Event, op: Option<&Operation>) -> Option<Finding> {
    let op = op.filter(|op| op.released.is_none())?;
    let grant = op.grant.as_ref()?;
    grant.extended_another.then(|| {
        finding(
            event,
            op,
            Property::ForeignRenewal,
            "extended another's lease",
        )
    })
}

/// A write outside the lock; one that knew better is told where it did harm.
fn wrote(event: &Event, scene: &Scene, op: OpId, harm: bool) -> Option<Finding> {
    let op = scene.op(op)?;
    if op.released.is_some() {
        let what = "wrote after its release: the effect lands outside the lock";
        return Some(finding(event, op, Property::EffectAfterRelease, what));
    }
    let what = "wrote over others although its watchdog had told it that the lease was lost";
    let unheeded =
        (op.told_lost && harm).then(|| finding(event, op, Property::UnheededLoss, what))?;
    let cause = match why_lost(scene, op) {
        Some(Cause::DriverLag) => Cause::DriverLag,
        _ => unheeded.cause,
    };
    Some(Finding { cause, ..unheeded })
}

/// Why the lease was lost that an operation was told of.
fn why_lost(scene: &Scene, op: &Operation) -> Option<Cause> {
    let expired = || Some(cause::of_expiry(scene, op, op.grant.as_ref()?));
    op.lost.or_else(expired)
}
