//! `cancel`: a worker's request is dropped while it is in flight, as when the task that asked is
//! cancelled: its user has hung up, or a time-out around it has run out. To drop the question takes
//! nothing back: the server has done what it was asked, its answer is still on its way, and nobody
//! waits for it. The operation of a cancelled acquire ends there, and tidies up nothing; a watchdog
//! whose renewal is cancelled goes on with its next one.
//! (<https://docs.rs/tokio/latest/tokio/macro.select.html#cancellation-safety>)

use std::sync::Arc;

use super::answers::{is_awaited, on_next};
use super::{Entry, Faults};
use crate::link::Action;
use crate::scenario::Reply;

pub(super) const ENTRY: Entry = Entry {
    name: "cancel",
    about: "a worker's request is dropped in flight (`which`: acquire or renewal)",
};

/// Cancels the worker's next request of that sort that the server does.
pub(super) fn strike(faults: &Arc<Faults>, fault: u32, worker: u32, which: Reply) {
    let whose = (fault, worker, which);
    if is_awaited(faults, whose) {
        return;
    }
    let what = which.word();
    faults.began(fault, format!("worker {worker}'s next {what} is cancelled"));
    // The answers are held until the worker has been told, and so nobody waits for them any more.
    on_next(
        faults,
        whose,
        Action::HoldAnswer,
        |faults, held, (servers, of)| {
            let (worker, which) = (held.worker, held.which);
            faults
                .cancelled
                .send_modify(|all| all.push((worker, which)));
            format!(
                "the {} of worker {worker} was done by {servers} of {of} servers and dropped before \
             their answers came",
                which.word()
            )
        },
    );
}

/// Waits until a worker's request of that sort is to be dropped.
pub(super) async fn of(faults: &Faults, worker: u32, which: Reply) {
    let mine = (worker, which);
    // The request is not on its way yet: what is there is about an earlier one, whose operation had
    // not waited for that.
    let mut cancelled = faults.cancelled.subscribe();
    if cancelled.borrow().contains(&mine) {
        let cancelled = &faults.cancelled;
        cancelled.send_modify(|all| all.retain(|one| *one != mine));
    }
    // It cannot fail: the sender lives as long as this.
    let _ = cancelled.wait_for(|all| all.contains(&mine)).await;
    faults.cancelled.send_modify(|all| {
        let place = all.iter().position(|one| *one == mine);
        place.map(|place| all.swap_remove(place));
    });
}
