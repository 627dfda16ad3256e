//! `overlap`: one section at a time for each key, and nobody enters without a grant.

use super::cause;
use super::finding::{Cause, Finding, Findings, Property, Role};
use super::scene::{Operation, Scene};
use super::{Check, Entry};
use crate::history::event::{Event, Kind};

pub(super) const ENTRY: Entry = Entry {
    name: "overlap",
    about: "one section at a time for each key; nobody enters without a grant",
    make: |_| Box::new(Overlap),
};

struct Overlap;

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
            let cause = judge(event, scene, holder, &intruder, out);
            scene.note_overlap(holder.op, cause);
            scene.note_overlap(op, cause);
        }
    }
}

fn judge(
    event: &Event,
    scene: &Scene,
    holder: &Operation,
    intruder: &Operation,
    out: &mut Findings,
) -> Cause {
    let (cause, removal) = cause::of_overlap(scene, holder, intruder);
    let why = match (cause, removal) {
        (Cause::ForeignRelease, Some(removal)) => {
            format!("operation {} had removed its lock", removal.op)
        }
        (Cause::LeaseExpired, _) => "its lease had run out while it worked".to_owned(),
        (Cause::FrozenHolder, _) => "its lease had run out while its instance, and with it any \
             watchdog, stood still"
            .to_owned(),
        (Cause::RenewalFailed, _) => "its lease had run out for want of a renewal".to_owned(),
        (Cause::NoLock, _) => "there is no lock".to_owned(),
        (Cause::DriverLag, _) => "the driver itself was late".to_owned(),
        (Cause::Evicted, _) => "the server had evicted its key".to_owned(),
        _ => "the history does not tell why".to_owned(),
    };
    out.add(Finding {
        property: Property::Overlap,
        cause,
        at_ns: event.at_ns,
        summary: format!(
            "{} entered while {} was in its section: {why}",
            intruder.name(),
            holder.name()
        ),
        witnesses: vec![
            holder.witness(Role::Holder, holder.entered.unwrap_or(event.at_ns)),
            intruder.witness(Role::Intruder, event.at_ns),
        ],
    });
    cause
}

fn without_grant(event: &Event, intruder: &Operation) -> Finding {
    Finding {
        property: Property::EntryWithoutGrant,
        cause: Cause::Unexplained,
        at_ns: event.at_ns,
        summary: format!("{} entered without having the lock", intruder.name()),
        witnesses: vec![intruder.witness(Role::Intruder, event.at_ns)],
    }
}
