//! `overlap`: one section at a time for each key, and nobody enters without a grant.

use super::cause::{self, Loss};
use super::finding::{Cause, Finding, Findings, Property, Role};
use super::operation::Operation;
use super::scene::Scene;
use super::{Check, Entry};
use crate::history::event::{Event, Kind};
use crate::lock;
use crate::scenario::Workload;

pub(super) const ENTRY: Entry = Entry {
    name: "overlap",
    about: "one section at a time for each key; nobody enters without a grant",
    make: |plan| {
        let lock = lock::find(&plan.lock.kind);
        Box::new(Overlap {
            promised: lock.is_none_or(|lock| lock.excludes) || plan.workload == Workload::Leader,
        })
    },
};

struct Overlap {
    /// Whether exclusion was promised at all: the alternatives to locking do not, and are no
    /// leader election.
    promised: bool,
}

impl Check for Overlap {
    fn event(&mut self, event: &Event, scene: &mut Scene, out: &mut Findings) {
        let Kind::Entered { op } = event.event else {
            return;
        };
        let Some(intruder) = scene.op(op).cloned() else {
            return;
        };
        if intruder.grant.is_none() {
            out.add(without_grant(event, &intruder));
        }
        let beside: Vec<Operation> = scene
            .holders(intruder.key)
            .filter(|holder| holder.in_section && holder.op != op)
            .cloned()
            .collect();
        for holder in &beside {
            let loss = cause::of_overlap(scene, holder, &intruder);
            if self.promised {
                out.add(finding(event, holder, &intruder, &loss));
            }
            scene.note_overlap(holder.op, loss.cause);
            scene.note_overlap(op, loss.cause);
            scene.note_loss(loss.loser, loss.cause);
        }
    }
}

fn finding(event: &Event, holder: &Operation, intruder: &Operation, loss: &Loss) -> Finding {
    let (holder_is, intruder_is) = (holder.name(), intruder.name());
    let why = match loss.loser == intruder.op && intruder.grant.is_some() {
        true => format!("it had been granted the lock first, and {}", why(loss)),
        false => why(loss),
    };
    Finding {
        property: Property::Overlap,
        cause: loss.cause,
        at_ns: event.at_ns,
        summary: format!("{intruder_is} entered while {holder_is} was in its section: {why}"),
        witnesses: vec![
            holder.witness(Role::Holder, holder.entered.unwrap_or(event.at_ns)),
            intruder.witness(Role::Intruder, event.at_ns),
        ],
    }
}

/// Why the loser's lock was gone.
fn why(loss: &Loss) -> String {
    let why = match loss.cause {
        Cause::ForeignRelease => match loss.remover {
            Some(op) => return format!("operation {op} had removed its lock"),
            None => "another one had removed its lock",
        },
        Cause::LeaseExpired => "its lease had run out while it worked",
        Cause::FrozenHolder => {
            "its lease had run out while its instance, and with it any watchdog, stood still"
        }
        Cause::RenewalFailed => "its lease had run out for want of a renewal",
        Cause::NoLock => "there is no lock",
        Cause::DriverLag => "the driver itself was late",
        Cause::DenialIgnored => {
            return format!("operation {} had been refused the lock", loss.loser);
        }
        Cause::FailOpen => {
            return format!(
                "operation {} went in although its acquire had failed",
                loss.loser
            );
        }
        Cause::Evicted => "the server had evicted its key",
        Cause::PromotionLostGrant => "a replica was promoted that did not know of its lock",
        Cause::SplitBrain => "two servers were the primary at once, and each had granted it",
        Cause::ServerLostData => "a server had restarted without it",
        Cause::ServerClock => "a server's clock had jumped, and ended its lease",
        Cause::Mistake => "it had asked for its own lock once more, and given it back with that",
        _ => "the history does not tell why",
    };
    why.to_owned()
}

fn without_grant(event: &Event, intruder: &Operation) -> Finding {
    Finding {
        property: Property::EntryWithoutGrant,
        cause: cause::of_entry(intruder),
        at_ns: event.at_ns,
        summary: format!("{} entered without having the lock", intruder.name()),
        witnesses: vec![intruder.witness(Role::Intruder, event.at_ns)],
    }
}
