//! `lose-reply`: a worker's request is applied and answered, and the answer is lost with its
//! connection. Of an acquire that is the first one from then on that is granted: refusals pass. Of
//! several servers a majority must have granted one and the same attempt.

use std::sync::{Arc, PoisonError};

use super::on_links::{OnLinks, until};
use super::{Entry, Faults};
use crate::link::{Action, Filter, Rule, Who};
use crate::lock;
use crate::scenario::Reply;

pub(super) const ENTRY: Entry = Entry {
    name: "lose-reply",
    about: "a request is applied and its answer lost (`which`: acquire, renewal or release)",
};

/// An answer that is to be lost.
#[derive(Debug)]
pub(super) struct Losing {
    fault: u32,
    worker: u32,
    which: Reply,
    rule: Rule,
    rules: OnLinks,
}

/// Loses the worker's next answer of that sort.
pub(super) fn strike(faults: &Arc<Faults>, fault: u32, worker: u32, which: Reply) {
    faults.began(
        fault,
        format!("worker {worker} loses the answer to its {}", which.word()),
    );
    let wire = lock::find(&faults.lock).and_then(|entry| entry.wire);
    // What asks nobody gets no answer that could be lost.
    let Some((request, answer)) = wire.map(|wire| wire.of(which)) else {
        return faults.ended(fault);
    };
    let rule = Rule::new(Action::ResetAfter).about(Filter {
        who: Some(Who::Client),
        worker: Some(worker),
        command: Some(request.command()),
        answer: Some(answer),
        ..Filter::default()
    });
    let losing = Losing {
        fault,
        worker,
        which,
        rules: OnLinks::lay(faults, &rule),
        rule,
    };
    let all = faults.losing.lock();
    all.unwrap_or_else(PoisonError::into_inner).push(losing);
    let faults = Arc::clone(faults);
    tokio::spawn(async move { until(&faults, |faults| settle(faults, fault)).await });
}

/// The worker asks anew: what a minority granted to its last attempt is no grant.
pub(super) fn asks_anew(faults: &Arc<Faults>, worker: u32) {
    let all = faults.losing.lock();
    let mut all = all.unwrap_or_else(PoisonError::into_inner);
    for losing in all.iter_mut().filter(|losing| losing.worker == worker) {
        if losing.rules.hits() > 0 && !losing.is_lost() {
            losing.rules = OnLinks::lay(faults, &losing.rule);
        }
    }
}

/// Tells whether it is over, and records that it landed.
fn settle(faults: &Faults, fault: u32) -> bool {
    let all = faults.losing.lock();
    let mut all = all.unwrap_or_else(PoisonError::into_inner);
    let place = all
        .iter()
        .position(|losing| losing.fault == fault && losing.is_lost());
    let Some(lost) = place.map(|place| all.swap_remove(place)) else {
        return false;
    };
    drop(all);
    let (servers, of) = lost.rules.applied();
    faults.landed(
        fault,
        format!(
            "the {} of worker {} was done and answered by {servers} of {of} servers, and the \
             answers were lost",
            lost.which.word(),
            lost.worker
        ),
    );
    drop(lost);
    faults.ended(fault);
    true
}

impl Losing {
    fn is_lost(&self) -> bool {
        let (lost, of) = self.rules.applied();
        lost > of / 2
    }
}
