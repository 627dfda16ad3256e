//! The rules that a link has at the moment, each with its count of what it was applied to.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rand::rngs::ChaCha8Rng;
use tokio::sync::watch;
use tokio::time::Instant;

use super::frame::Words;
use super::rule::{Action, Peer, Rule, Ways};
use super::watch::Watch;

/// A rule in force.
#[derive(Debug)]
pub(super) struct Active {
    rule: Rule,
    added: Instant,
    /// Requests that fitted, before chance.
    fitted: AtomicU64,
    hits: AtomicU64,
    stream: Mutex<Option<ChaCha8Rng>>,
}

impl Active {
    pub(super) fn action(&self) -> &Action {
        &self.rule.action
    }

    /// It was applied once more.
    pub(super) fn hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    fn holds(&self) -> bool {
        self.rule.window.holds(self.added.elapsed())
    }

    fn fits_request(&self, peer: &Peer, words: &Words<'_>) -> bool {
        let filter = &self.rule.filter;
        if !self.rule.action.is_about_requests() || !self.holds() {
            return false;
        }
        filter.fits_request(peer, words) && (filter.answer.is_some() || self.counts())
    }

    /// Whether the answer of a request that fitted is the one that is meant, and comes in time.
    pub(super) fn fits_answer(&self, kind: u8, words: &Words<'_>) -> bool {
        match self.rule.filter.answer {
            Some(answer) => answer.fits(kind, words) && self.holds() && self.counts(),
            // It was counted when it was asked.
            None => self.holds(),
        }
    }

    /// Whether the answer decides if it is applied.
    pub(super) fn waits_for_the_answer(&self) -> bool {
        match self.action() {
            Action::HoldAnswer => true,
            Action::Swallow | Action::ResetAfter => self.rule.filter.answer.is_some(),
            _ => false,
        }
    }

    /// Whether one more that fits is the one that is meant.
    fn counts(&self) -> bool {
        let filter = &self.rule.filter;
        let fitted = self.fitted.fetch_add(1, Ordering::Relaxed) + 1;
        let counted = filter.nth.is_none_or(|nth| nth == fitted);
        counted && self.drawn()
    }

    fn drawn(&self) -> bool {
        let Some(chance) = &self.rule.filter.chance else {
            return true;
        };
        let mut stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        chance.draw(stream.get_or_insert_with(|| chance.stream()))
    }
}

/// The rules of a link.
#[derive(Debug, Default)]
pub(super) struct Rules {
    // A std mutex and not tokio's: it is held for a look at a few rules, never across an await.
    list: Mutex<Vec<Arc<Active>>>,
    /// How many there are. Without one, the list need not be looked at.
    count: AtomicUsize,
    /// The link is closed: nothing passes any more.
    closed: AtomicBool,
    /// Who is told of answers, once somebody is.
    watch: OnceLock<Watch>,
    changed: watch::Sender<()>,
}

/// A rule's guard: dropping it takes the rule away.
#[derive(Debug)]
pub struct Guard {
    rules: Arc<Rules>,
    active: Arc<Active>,
}

impl Guard {
    /// How often the rule was applied: to requests, to stretches of bytes, or to connections.
    pub fn hits(&self) -> u64 {
        self.active.hits.load(Ordering::Relaxed)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut list = self.rules.list();
        list.retain(|active| !Arc::ptr_eq(active, &self.active));
        self.rules.count.store(list.len(), Ordering::Release);
        drop(list);
        self.rules.changed.send_replace(());
    }
}

impl Rules {
    fn list(&self) -> MutexGuard<'_, Vec<Arc<Active>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(rules: &Arc<Rules>, rule: Rule) -> Guard {
        let window = rule.window;
        let active = Arc::new(Active {
            rule,
            added: Instant::now(),
            fitted: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            stream: Mutex::default(),
        });
        let mut list = rules.list();
        list.push(Arc::clone(&active));
        rules.count.store(list.len(), Ordering::Release);
        drop(list);
        rules.changed.send_replace(());
        let later = (window.after > Duration::ZERO).then_some(window.after);
        let end = window.long.map(|long| window.after + long);
        for edge in later.into_iter().chain(end) {
            // Who waits looks at the rules again when a window opens or closes.
            let rules = Arc::clone(rules);
            tokio::spawn(async move {
                tokio::time::sleep(edge).await;
                rules.changed.send_replace(());
            });
        }
        let rules = Arc::clone(rules);
        Guard { rules, active }
    }

    /// Has answers told, from now on. Only the first who asks for it is told.
    pub(super) fn set_watch(&self, watch: Watch) {
        let _ = self.watch.set(watch);
    }

    /// Who is told of answers.
    pub(super) fn watch(&self) -> Option<&Watch> {
        self.watch.get()
    }

    /// From now on nothing passes.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Whether nothing passes any more.
    pub(super) fn closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Whether there is any rule at all.
    pub(super) fn any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }

    /// The rule that a request falls under. It is counted as applied, unless the answer decides.
    pub(super) fn of_request(&self, peer: &Peer, words: &Words<'_>) -> Option<Arc<Active>> {
        let list = self.list();
        let mut list = list.iter();
        let found = list.find(|active| active.fits_request(peer, words))?;
        if !found.waits_for_the_answer() {
            found.hit();
        }
        Some(Arc::clone(found))
    }

    /// The rule with such an action that a connection falls under.
    fn of_peer(&self, peer: &Peer, wanted: impl Fn(&Action) -> bool) -> Option<Arc<Active>> {
        if !self.any() {
            return None;
        }
        let list = self.list();
        let fits = |active: &&Arc<Active>| {
            let filter = &active.rule.filter;
            wanted(active.action()) && active.holds() && filter.fits_peer(peer)
        };
        list.iter().find(fits).cloned()
    }

    /// The black hole that swallows what goes this way.
    pub(super) fn black_hole(&self, peer: &Peer, way: Ways) -> Option<Arc<Active>> {
        self.of_peer(
            peer,
            |action| matches!(action, Action::BlackHole(ways) if ways.include(way)),
        )
    }

    /// Whether a connection is to be cut.
    pub(super) fn cut(&self, peer: &Peer) -> bool {
        let rule = self.of_peer(peer, |action| *action == Action::Cut);
        rule.inspect(|rule| rule.hit()).is_some()
    }

    /// How many bytes a second pass on a connection, if that is limited.
    pub(super) fn bandwidth(&self, peer: &Peer) -> Option<u64> {
        let rule = self.of_peer(peer, |action| matches!(action, Action::Bandwidth(_)))?;
        rule.hit();
        match rule.action() {
            Action::Bandwidth(rate) => Some(*rate),
            _ => None,
        }
    }

    /// Whether a new connection is to be refused.
    pub(super) fn refuse(&self) -> bool {
        let rule = self.of_peer(&Peer::default(), |action| *action == Action::Refuse);
        rule.inspect(|rule| rule.hit()).is_some()
    }

    /// Tells of changes from now on.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Whether a rule is still there and in its window.
    pub(super) fn in_force(&self, active: &Arc<Active>) -> bool {
        active.holds() && self.list().iter().any(|known| Arc::ptr_eq(known, active))
    }
}
