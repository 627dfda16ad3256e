//! What a link tells of what passes through it: the server's own answers to some requests, as they
//! come from the server. What a rule does to them afterwards is another matter.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::frame::Words;
use super::rule::{Action, Answer, Command, Peer, key};
use super::rules::{Active, Rules};
use super::talk::Fate;
use crate::clock::{Clock, Time};

/// Requests of workers about some keys, whose answers are told.
pub struct Watch {
    /// The requests.
    pub requests: Vec<Request>,
    /// The keys, each with its number.
    pub keys: HashMap<String, u32>,
    /// By which it is told when a request was sent.
    pub clock: Clock,
    /// Is told each answer.
    pub tell: Box<dyn Fn(Heard) + Send + Sync>,
}

/// A request whose answers are told.
#[derive(Debug)]
pub struct Request {
    /// Which one.
    pub command: Command,
    /// The answer that says: done.
    pub done: Answer,
    /// Which of its words says for how long, in milliseconds.
    pub lease: Option<usize>,
}

/// What a server answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    /// The worker that had asked.
    pub worker: u32,
    /// Which of the watched requests it was.
    pub request: usize,
    /// About which key.
    pub key: u32,
    /// When the request came to the link.
    pub asked: Time,
    /// Whether the answer says: done.
    pub done: bool,
    /// The number that it is, if it is one.
    pub number: Option<i64>,
    /// For how long it was asked for.
    pub lease: Option<Duration>,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let requests = &self.requests;
        f.debug_struct("Watch")
            .field("requests", requests)
            .finish_non_exhaustive()
    }
}

/// A request that is watched, on its way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watched {
    worker: u32,
    request: usize,
    key: u32,
    asked: Time,
    lease: Option<Duration>,
}

impl Watch {
    /// The request, if it is one that is watched.
    pub(super) fn sees(&self, peer: &Peer, words: &Words<'_>) -> Option<Watched> {
        let worker = peer.worker?;
        let mut requests = self.requests.iter();
        let request = requests.position(|one| one.command.fits(words))?;
        let lease = || str::from_utf8(words.get(self.requests[request].lease?)?).ok();
        let name = str::from_utf8(key(words)?).ok()?;
        Some(Watched {
            worker,
            request,
            key: *self.keys.get(name)?,
            asked: self.clock.now(),
            lease: lease().and_then(|word| Some(Duration::from_millis(word.parse().ok()?))),
        })
    }

    fn hears(&self, watched: Watched, kind: u8, words: &Words<'_>) {
        let answer = self.requests[watched.request].done;
        let number = || str::from_utf8(words.get(0)?).ok()?.parse().ok();
        (self.tell)(Heard {
            worker: watched.worker,
            request: watched.request,
            key: watched.key,
            asked: watched.asked,
            done: answer.fits(kind, words),
            number: (kind == b':').then(number).flatten(),
            lease: watched.lease,
        });
    }
}

/// An answer that something waits for: a rule that it decides on, who watches it, or both.
pub(super) struct Undecided {
    pub(super) rule: Option<Arc<Active>>,
    /// What becomes of it if no rule waits for it.
    pub(super) fate: Fate,
    pub(super) watched: Option<Watched>,
}

impl Undecided {
    /// Whether there is anything to wait for.
    pub(super) fn is_any(&self) -> bool {
        self.rule.is_some() || self.watched.is_some()
    }

    /// The answer has come: what becomes of it.
    pub(super) fn settle(self, rules: &Rules, kind: u8, words: &Words<'_>) -> Fate {
        if let (Some(watch), Some(watched)) = (rules.watch(), self.watched) {
            watch.hears(watched, kind, words);
        }
        let Some(rule) = self.rule else {
            return self.fate;
        };
        if !rule.fits_answer(kind, words) || !rules.in_force(&rule) {
            return Fate::Pass;
        }
        rule.hit();
        match rule.action() {
            Action::ResetAfter => Fate::Reset,
            Action::HoldAnswer => Fate::Hold,
            _ => Fate::Swallow,
        }
    }
}
