//! `foreign-release`: only the owner releases. The server says that a release removed the key; that
//! it was another's follows when the releaser's own lock was surely gone by the time it asked.

use super::cause::{self, Loss};
use super::finding::{Cause, Finding, Findings, Property, Role};
use super::operation::Operation;
use super::scene::Scene;
use super::{Check, Entry};
use crate::clock::Time;
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
        let Some(asked) = releaser
            .release_asked
            .filter(|at| surely_gone(releaser, *at))
        else {
            return;
        };
        let victim = victim(scene, releaser, asked);
        let cause = (releaser.lost).unwrap_or_else(|| why_gone(scene, releaser, victim, asked));
        out.add(finding(event, releaser, victim, cause));
        scene.note_loss(*op, cause);
    }
}

/// Whether the releaser's own lock was gone when it asked: another one had been granted it, the
/// server had said so, or its lease was over.
fn surely_gone(releaser: &Operation, asked: Time) -> bool {
    releaser.grant.as_ref().is_some_and(|grant| {
        let gone = grant.gone(releaser.answered_by.as_deref());
        grant.surely_ended(asked) || gone.is_some_and(|gone| gone <= asked)
    })
}

/// Whose lock it was: that of the last one who was surely granted it after the releaser, and before
/// the release was sent; or that of a still later one.
fn victim<'a>(scene: &'a Scene, releaser: &Operation, asked: Time) -> Option<&'a Operation> {
    let holders = scene.holders(releaser.key);
    // One server's release removes nothing on another.
    let on_its_server = |holder: &&Operation| {
        let by = holder.grant.as_ref().and_then(|grant| grant.by.as_ref());
        let known = by.zip(releaser.answered_by.as_ref());
        known.is_none_or(|(by, released)| by == released)
    };
    let mut others = holders
        .filter(|holder| holder.op != releaser.op)
        .filter(on_its_server);
    others.rfind(|holder| {
        let grant = holder.grant.as_ref();
        grant.is_some_and(|grant| grant.answered <= asked) && scene.surely_before(releaser, holder)
    })
}

fn why_gone(scene: &Scene, releaser: &Operation, victim: Option<&Operation>, asked: Time) -> Cause {
    let grant = victim.and_then(|victim| victim.grant.as_ref());
    let granted = grant.map_or((asked, asked), |grant| (grant.asked, grant.answered));
    let loss = cause::of_loss(
        scene,
        releaser,
        granted,
        grant.and_then(|grant| grant.by.as_deref()),
    );
    loss.map_or(Cause::Unexplained, |Loss { cause, .. }| cause)
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
