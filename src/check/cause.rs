//! Why a section was not protected any more: read off what the history says of its lease.

use super::finding::Cause;
use super::scene::{Operation, Removal, Scene};
use crate::clock::Time;

/// Why `intruder` could be granted the lock while `holder` was in its section; and, if another's
/// release was the reason, that release.
pub fn of_overlap(
    scene: &Scene,
    holder: &Operation,
    intruder: &Operation,
) -> (Cause, Option<Removal>) {
    let (Some(held), Some(got)) = (&holder.grant, &intruder.grant) else {
        return (Cause::NoLock, None);
    };
    if !held.locked || !got.locked {
        return (Cause::NoLock, None);
    }
    let may_have_ended = held.earliest_end().is_some_and(|end| got.answered >= end);
    let surely_ended = held.latest_end().is_some_and(|end| got.asked >= end);
    if surely_ended {
        return (of_expiry(scene, holder, got.answered), None);
    }
    if let Some(removal) = removal_between(scene, holder, held.asked, got.answered) {
        return (Cause::ForeignRelease, Some(removal));
    }
    let evicted = scene.key(holder.key).and_then(|key| key.evicted);
    if evicted.is_some_and(|at| at >= held.asked && at <= got.answered) {
        return (Cause::Evicted, None);
    }
    if may_have_ended {
        return (of_expiry(scene, holder, got.answered), None);
    }
    (Cause::Unexplained, None)
}

/// A release by another operation that may have removed the holder's lock before `until`. One
/// that began after the grant was seen is the better witness: it can have removed nothing older.
fn removal_between(scene: &Scene, holder: &Operation, since: Time, until: Time) -> Option<Removal> {
    let answered = holder.grant.as_ref()?.answered;
    let removals = &scene.key(holder.key)?.removals;
    let fits = |removal: &&Removal| {
        removal.op != holder.op && removal.answered >= since && removal.asked <= until
    };
    let after_grant = removals.iter().filter(fits).find(|r| r.asked >= answered);
    after_grant.or_else(|| removals.iter().rfind(fits)).copied()
}

/// Why the holder's lease could run out while it was in its section.
pub fn of_expiry(scene: &Scene, holder: &Operation, seen: Time) -> Cause {
    let Some(grant) = &holder.grant else {
        return Cause::Unexplained;
    };
    let end = grant.earliest_end().unwrap_or(seen);
    let window = (grant.extended(), seen.max(end));
    if scene.renews() {
        if scene.frozen_within(holder.instance, window) {
            return Cause::FrozenHolder;
        }
        let in_time = grant.renewal_asked.is_some_and(|asked| asked < end);
        // Asked in time and not answered, or answered by an error; unless it was the driver that
        // was too late to ask, or to hear.
        let lag = scene.lag_within(window);
        let margin = grant.ttl.unwrap_or_default() / 3;
        return match in_time || grant.renewal_failed {
            true if lag < margin => Cause::RenewalFailed,
            _ => Cause::DriverLag,
        };
    }
    // Without renewals: had the section kept to its plan, would it have ended in time?
    let planned_end = holder.work.map(|(began, work)| began.plus(work));
    if planned_end.is_some_and(|planned| planned >= end) {
        return Cause::LeaseExpired;
    }
    match scene.frozen_within(holder.instance, window) {
        true => Cause::FrozenHolder,
        // Neither its work nor a planned pause kept it: the driver, or its machine, was late.
        false => Cause::DriverLag,
    }
}
