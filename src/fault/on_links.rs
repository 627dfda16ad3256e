//! What the faults on links share: one rule on every link, how far it was applied, and the wait for
//! that within a window.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::Faults;
use crate::link::{Guard, Rule};

/// How often it is looked whether a rule was applied.
pub(super) const LOOK: Duration = Duration::from_millis(2);

/// A rule on the link of each server that holds data, until this is dropped.
#[derive(Debug)]
pub(super) struct OnLinks {
    guards: Vec<Guard>,
    /// How many servers a client talks to: of a primary and its replicas to one.
    of: usize,
}

impl OnLinks {
    /// Adds the rule.
    pub(super) fn lay(faults: &Faults, rule: &Rule) -> OnLinks {
        let nodes = faults.reach.nodes.iter().filter(|node| !node.is_doomed());
        let links = nodes.filter_map(|node| node.link.as_ref());
        let guards: Vec<_> = links.map(|link| link.add(rule.clone())).collect();
        let of = match faults.reach.group {
            Some(_) => guards.len().min(1),
            None => guards.len(),
        };
        OnLinks { guards, of }
    }

    /// The same rule on the link of each Sentinel, if there are any. It proves nothing: who has no
    /// reason to ask for the primary does not ask.
    pub(super) fn beside_the_sentinels(faults: &Faults, rule: &Rule) -> Vec<Guard> {
        let sentinels = faults.reach.group.iter().flat_map(|group| group.watchers());
        let links = sentinels.filter_map(|one| one.link.as_ref());
        links.map(|link| link.add(rule.clone())).collect()
    }

    /// At how many servers it was applied, and how many a client talks to.
    pub(super) fn applied(&self) -> (usize, usize) {
        let applied = self.guards.iter().filter(|guard| guard.hits() > 0);
        (applied.count(), self.of)
    }

    /// Whether it was applied at each of them.
    pub(super) fn everywhere(&self) -> bool {
        let (applied, of) = self.applied();
        applied >= of && of > 0
    }

    /// How often it was applied.
    pub(super) fn hits(&self) -> u64 {
        self.guards.iter().map(Guard::hits).sum()
    }

    /// Waits until it was applied at each of them.
    pub(super) async fn applied_on_each(&self) {
        while !self.everywhere() {
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
pub(super) async fn until(faults: Arc<Faults>, done: impl Fn(&Arc<Faults>) -> bool) {
    // Not the faults themselves: the run would seem to go on for as long as somebody waits.
    let run: Weak<Faults> = Arc::downgrade(&faults);
    drop(faults);
    while run.upgrade().is_some_and(|faults| !done(&faults)) {
        tokio::time::sleep(LOOK).await;
    }
}
