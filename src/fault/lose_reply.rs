//! `lose-reply`: a worker's request is applied and answered, and the answer is lost with its
//! connection.

use std::sync::Arc;

use super::answers::{is_awaited, on_next};
use super::{Entry, Faults};
use crate::link::Action;
use crate::scenario::Reply;

pub(super) const ENTRY: Entry = Entry {
    name: "lose-reply",
    about: "a request is applied and its answer lost (`which`: acquire, renewal or release)",
};

/// Loses the worker's next answer of that sort.
pub(super) fn strike(faults: &Arc<Faults>, fault: u32, worker: u32, which: Reply) {
    let whose = (fault, worker, which);
    if is_awaited(faults, whose) {
        return;
    }
    faults.began(
        fault,
        format!("worker {worker} loses the answer to its {}", which.word()),
    );
    on_next(
        faults,
        whose,
        Action::ResetAfter,
        |_, lost, (servers, of)| {
            format!(
                "the {} of worker {} was done and answered by {servers} of {of} servers, and the \
             answers were lost",
                lost.which.word(),
                lost.worker
            )
        },
    );
}
