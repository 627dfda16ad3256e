//! What `lose-reply` and `cancel` share: they wait for the next answer of a sort that says "done" to a
//! worker. Of an acquire that is the first one from then on that is granted: refusals pass. Of several
//! servers a majority must have answered one and the same attempt so.

use std::sync::{Arc, PoisonError};

use super::Faults;
use super::on_links::{OnLinks, until};
use crate::link::{Action, Filter, Rule, Who};
use crate::lock;
use crate::scenario::Reply;

/// An answer that is waited for.
#[derive(Debug)]
pub(super) struct Awaited {
    pub(super) fault: u32,
    pub(super) worker: u32,
    pub(super) which: Reply,
    rule: Rule,
    rules: OnLinks,
}

/// Does this to the next answer of that sort, and that when it has come: it proves the fault by what
/// it returns, told by how many of how many servers.
pub(super) fn on_next(
    faults: &Arc<Faults>,
    (fault, worker, which): (u32, u32, Reply),
    action: Action,
    then: impl Fn(&Faults, &Awaited, (usize, usize)) -> String + Send + 'static,
) {
    let wire = lock::find(&faults.lock).and_then(|entry| entry.wire);
    // What asks nobody gets no answer.
    let Some(exchange) = wire.map(|wire| wire.of(which)) else {
        return faults.ended(fault);
    };
    let rule = Rule::new(action).about(Filter {
        who: Some(Who::Client),
        worker: Some(worker),
        command: Some(exchange.request.command()),
        answer: Some(exchange.done),
        ..Filter::default()
    });
    let awaited = Awaited {
        fault,
        worker,
        which,
        rules: OnLinks::lay(faults, &rule),
        rule,
    };
    let all = faults.awaited.lock();
    all.unwrap_or_else(PoisonError::into_inner).push(awaited);
    faults.spawn(until(Arc::clone(faults), move |faults| {
        settle(faults, fault, &then)
    }));
}

/// Whether such an answer is waited for already: one is enough, for refusals pass, and whoever is
/// refused asks again and again.
pub(super) fn is_awaited(faults: &Faults, whose: (u32, u32, Reply)) -> bool {
    let all = faults.awaited.lock();
    let all = all.unwrap_or_else(PoisonError::into_inner);
    all.iter()
        .any(|awaited| (awaited.fault, awaited.worker, awaited.which) == whose)
}

/// The worker asks anew: what a minority granted to its last attempt is no grant.
pub(super) fn asks_anew(faults: &Arc<Faults>, worker: u32) {
    let all = faults.awaited.lock();
    let mut all = all.unwrap_or_else(PoisonError::into_inner);
    for awaited in all.iter_mut().filter(|awaited| awaited.worker == worker) {
        if awaited.rules.hits() > 0 && !awaited.has_come() {
            awaited.rules = OnLinks::lay(faults, &awaited.rule);
        }
    }
}

/// Tells whether it has come, and records that the fault landed.
fn settle(
    faults: &Faults,
    fault: u32,
    then: &impl Fn(&Faults, &Awaited, (usize, usize)) -> String,
) -> bool {
    let all = faults.awaited.lock();
    let mut all = all.unwrap_or_else(PoisonError::into_inner);
    let place = all
        .iter()
        .position(|awaited| awaited.fault == fault && awaited.has_come());
    let Some(come) = place.map(|place| all.swap_remove(place)) else {
        return false;
    };
    drop(all);
    let proof = then(faults, &come, come.rules.applied());
    faults.landed(fault, proof);
    drop(come);
    faults.ended(fault);
    true
}

impl Awaited {
    fn has_come(&self) -> bool {
        let (come, of) = self.rules.applied();
        come > of / 2
    }
}
