//! `foreign-release`: only the owner releases. The server says that a release removed the key;
//! whose it was follows from who had been granted it last.

use super::finding::{Cause, Finding, Findings, Property, Role};
use super::scene::{Operation, Scene};
use super::{Check, Entry, cause};
use crate::history::event::{Event, Kind, Release};

pub(super) const ENTRY: Entry = Entry {
    name: "foreign-release",
    about: "only the owner releases",
    make: |_| Box::new(ForeignRelease),
};

struct ForeignRelease;

impl Check for ForeignRelease {
    fn event(&mut self, event: &Event, scene: &mut Scene, out: &mut Findings) {
        let Kind::Released {
            op,
            outcome: Release::Removed,
        } = &event.event
        else {
            return;
        };
        let Some(releaser) = scene.op(*op) else {
            return;
        };
        let (Some(grant), Some(asked)) = (&releaser.grant, releaser.release_asked) else {
            return;
        };
        // One key, one holder: who was granted it after the releaser proves that the releaser's
        // own lock was gone by then. If that grant was seen before the release was sent, what the
        // release removed was the later one's, or a still later one's.
        let victim = scene
            .holders(releaser.key)
            .rfind(|holder| later(holder, grant.answered) && seen_before(holder, asked));
        let over = grant.latest_end().is_some_and(|end| asked >= end);
        if victim.is_none() && !over {
            return;
        }
        let cause = match releaser.overlap {
            Some(Cause::ForeignRelease) => Cause::ForeignRelease,
            Some(cause) => cause,
            None => cause::of_expiry(scene, releaser, asked),
        };
        out.add(finding(event, releaser, victim, cause));
    }
}

fn later(holder: &Operation, than: crate::clock::Time) -> bool {
    holder
        .grant
        .as_ref()
        .is_some_and(|grant| grant.answered > than)
}

fn seen_before(holder: &Operation, asked: crate::clock::Time) -> bool {
    let grant = holder.grant.as_ref();
    grant.is_some_and(|grant| grant.answered <= asked)
}

fn finding(
    event: &Event,
    releaser: &Operation,
    victim: Option<&Operation>,
    cause: Cause,
) -> Finding {
    let whose = match victim {
        Some(victim) => format!("the lock of {}", victim.name()),
        None => "a lock that was no longer its own".to_owned(),
    };
    let mut witnesses = vec![releaser.witness(Role::Releaser, event.at_ns)];
    witnesses.extend(victim.map(|victim| victim.witness(Role::Victim, event.at_ns)));
    Finding {
        property: Property::ForeignRelease,
        cause,
        at_ns: event.at_ns,
        summary: format!("the release of {} removed {whose}", releaser.name()),
        witnesses,
    }
}
