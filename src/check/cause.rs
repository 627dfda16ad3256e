//! Why a section was not protected any more: read off what the history says of its lease, of the
//! releases by others, and of the pauses in between.

use std::time::Duration;

use super::finding::Cause;
use super::grant::Grant;
use super::key::Removal;
use super::operation::Operation;
use super::scene::{Scene, Window};
use crate::clock::Time;
use crate::history::OpId;

/// Why an operation's lock was not its own any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// Whose lock it was.
    pub loser: OpId,
    /// Why it was gone.
    pub cause: Cause,
    /// The operation whose release removed it, if that was the reason.
    pub remover: Option<OpId>,
}

/// Why two sections could be in progress at once. Mostly the holder had lost its lock before the
/// intruder was granted it; but who enters last may have been granted first, if it stood still
/// between its grant and its entry.
pub fn of_overlap(scene: &Scene, holder: &Operation, intruder: &Operation) -> Loss {
    let because = |cause| Loss {
        loser: holder.op,
        cause,
        remover: None,
    };
    let (Some(held), Some(got)) = (&holder.grant, &intruder.grant) else {
        let outsider = match intruder.grant {
            None => intruder,
            Some(_) => holder,
        };
        return Loss {
            loser: outsider.op,
            ..because(of_entry(outsider))
        };
    };
    if !held.locked || !got.locked {
        return because(Cause::NoLock);
    }
    let may_be_first = got.asked < held.answered;
    of_loss(scene, holder, got.window(), got.by.as_deref())
        .or_else(|| {
            let loss = of_loss(scene, intruder, held.window(), held.by.as_deref());
            loss.filter(|_| may_be_first)
        })
        .unwrap_or_else(|| match scene.unsettled(got.answered) {
            true => because(Cause::DriverLag),
            false => because(Cause::Unexplained),
        })
}

/// Why an operation was in a section that it had not been granted.
pub fn of_entry(outsider: &Operation) -> Cause {
    match outsider.denied {
        Some(true) => Cause::DenialIgnored,
        Some(false) => Cause::FailOpen,
        None => Cause::Unexplained,
    }
}

/// Why an operation's lock was gone when another one was granted it, at some moment of a window, and
/// by that server where it is known.
pub fn of_loss(
    scene: &Scene,
    loser: &Operation,
    granted: Window,
    by: Option<&str>,
) -> Option<Loss> {
    let grant = loser.grant.as_ref()?;
    let because = |cause, remover| {
        Some(Loss {
            loser: loser.op,
            cause,
            remover,
        })
    };
    let expired = || because(of_expiry(scene, loser, grant), None);
    // A lease that was found gone before its time did not run out.
    let ran_out = !grant.gone_early;
    if ran_out && grant.surely_ended(granted.0) {
        return expired();
    }
    // Two grants by two primaries, and the new one seen without the lock, are surer than what a
    // release may have removed.
    if let Some(servers) = grant.by.as_deref().zip(by)
        && scene
            .split_between(servers, (grant.asked, granted.1))
            .is_some()
    {
        return because(Cause::SplitBrain, None);
    }
    let since = (grant.answered, granted.1);
    if scene.lost_in_promotion(loser.key, since).is_some() {
        return because(Cause::PromotionLostGrant, None);
    }
    if let Some((_, cause)) = scene.lost_by_server(loser.key, since) {
        return because(cause, None);
    }
    let suspects: Vec<_> = scene.removals(loser, granted.1).collect();
    // One that was sent after the grant was seen can have removed nothing older.
    let upset = scene.key(loser.key).and_then(|key| key.upset);
    let upset = upset.is_some_and(|upset| upset.concerns(grant.asked));
    let upset = upset || scene.unsettled(granted.1);
    let removed = |removal: &Removal| match upset {
        true => because(Cause::DriverLag, Some(removal.op)),
        false => because(removal.cause(), Some(removal.op)),
    };
    if let Some(sure) = suspects.iter().find(|r| r.asked >= grant.answered) {
        return removed(sure);
    }
    if scene.evicted_within(loser.key, (grant.asked, granted.1)) {
        return because(Cause::Evicted, None);
    }
    if ran_out && grant.may_have_ended(granted.1) {
        return expired();
    }
    if let Some(last) = suspects.last() {
        return removed(last);
    }
    // Gone once, and never its own again: for the reason that was told then.
    let known = loser
        .lost
        .filter(|_| grant.gone(by).is_some_and(|gone| gone <= granted.1));
    let undone = loser.undone_inside.then_some(Cause::Mistake);
    because(known.or(undone)?, None)
}

/// Why the holder's lease could run out. The driver's own lag is the cause only where enough of it
/// was measured; for want of any other evidence the section has simply outlived its lease.
pub fn of_expiry(scene: &Scene, holder: &Operation, grant: &Grant) -> Cause {
    let end = grant.earliest_end().unwrap_or(grant.answered);
    // How late what had to happen before the end must have been.
    let needed = end.since(due(scene, holder, grant));
    if needed.is_zero() {
        return Cause::LeaseExpired;
    }
    let window = (grant.extended(), end);
    let frozen = scene.frozen_within(holder.instance, window);
    let lag = scene.lag_within(holder.instance, window);
    // Half of it measured is evidence enough: what comes between two measurements adds to it.
    let explains = |late: Duration| late * 2 >= needed;
    if frozen >= needed || frozen >= lag && explains(frozen) {
        return Cause::FrozenHolder;
    }
    if renewal_failed_by_itself(scene, holder, grant, end) {
        return Cause::RenewalFailed;
    }
    if explains(lag) {
        return Cause::DriverLag;
    }
    let asked_in_time = grant.renewal_asked.is_some_and(|asked| asked < end);
    match asked_in_time || grant.renewal_failed.is_some() {
        true => Cause::RenewalFailed,
        false => Cause::LeaseExpired,
    }
}

/// Whether a renewal was asked for in time and failed, and not because the driver did not hear its
/// answer.
fn renewal_failed_by_itself(scene: &Scene, holder: &Operation, grant: &Grant, end: Time) -> bool {
    let Some((asked, failed)) = grant.renewal_failed.filter(|(asked, _)| *asked < end) else {
        return false;
    };
    let late = scene.lag_within(holder.instance, (asked, failed));
    late * 2 <= failed.since(asked)
}

/// When, by its plan, the holder would have renewed its lease, or would have been through with its
/// work, had nothing held it up before that work began.
fn due(scene: &Scene, holder: &Operation, grant: &Grant) -> Time {
    if let Some(every) = scene.renews_every() {
        return grant.extended().plus(every);
    }
    let Some((began, work)) = holder.work else {
        return grant.extended();
    };
    let before = (grant.extended(), began);
    let held_up =
        scene.frozen_within(holder.instance, before) + scene.lag_within(holder.instance, before);
    let planned = began.plus(work);
    Time(planned.0.saturating_sub(crate::clock::nanos(held_up)))
}
