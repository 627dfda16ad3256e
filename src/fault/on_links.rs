//! What the faults on links share: one rule on every link, how far it was applied, and the wait for
//! that within a window.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Faults;
use crate::link::{Guard, Rule};

/// How often it is looked whether a rule was applied.
const LOOK: Duration = Duration::from_millis(2);

/// A rule on the link of each server that holds data, until this is dropped.
#[derive(Debug)]
pub(super) struct OnLinks(Vec<Guard>);

impl OnLinks {
    /// Adds the rule.
    pub(super) fn lay(faults: &Faults, rule: &Rule) -> OnLinks {
        let links = faults.reach.nodes.iter();
        let links = links.filter_map(|node| node.link.as_ref());
        OnLinks(links.map(|link| link.add(rule.clone())).collect())
    }

    /// On how many links it was applied, and on how many it is.
    pub(super) fn applied(&self) -> (usize, usize) {
        let applied = self.0.iter().filter(|guard| guard.hits() > 0);
        (applied.count(), self.0.len())
    }

    /// How often it was applied.
    pub(super) fn hits(&self) -> u64 {
        self.0.iter().map(Guard::hits).sum()
    }

    /// Waits until it was applied on each link.
    pub(super) async fn applied_on_each(&self) {
        while !matches!(self.applied(), (applied, of) if applied == of && of > 0) {
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Waits until a window is over. Records the proof as soon as there is one.
pub(super) async fn window(
    faults: &Faults,
    fault: u32,
    long: Duration,
    proof: impl Future<Output = String>,
) {
    let mut over = std::pin::pin!(tokio::time::sleep(long));
    tokio::select! {
        () = &mut over => return,
        proof = proof => faults.landed(fault, proof),
    }
    over.await;
}

/// Asks again and again whether something has been done, until the run has ended.
pub(super) async fn until(faults: &Arc<Faults>, done: impl Fn(&Arc<Faults>) -> bool) {
    // Not the faults themselves: the run would seem to go on for as long as somebody waits.
    let run: Weak<Faults> = Arc::downgrade(faults);
    while run.upgrade().is_some_and(|faults| !done(&faults)) {
        tokio::time::sleep(LOOK).await;
    }
}
