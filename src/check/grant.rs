//! A lock that was granted, and when its lease ends. The server acts at some unknown moment between
//! a question and its answer, so the end has an earliest and a latest moment; between the two
//! nobody can tell.

use std::time::Duration;

use crate::clock::Time;

/// A lock that was granted, and what is known of its lease.
#[derive(Debug, Clone)]
pub struct Grant {
    /// When it was asked for.
    pub asked: Time,
    /// When the driver saw it granted.
    pub answered: Time,
    /// How long the lease lives without renewal, if it ends at all.
    pub ttl: Option<Duration>,
    /// Whether a server granted it.
    pub locked: bool,
    /// A renewal that was asked for and not answered.
    pub renewal_asked: Option<Time>,
    /// The first renewal that has failed since the last one that worked: when it was asked for, and
    /// when it had failed.
    pub renewal_failed: Option<(Time, Time)>,
    /// The server that granted it, where it might have been one or another.
    pub by: Option<String>,
    /// By when it is proven that the lock was not this operation's any more.
    gone: Option<Time>,
    /// The same on servers other than the one that granted it.
    gone_elsewhere: Option<Time>,
    /// Whether it was found gone while its lease should still have lived.
    pub gone_early: bool,
    /// Whether it extended another's lease.
    pub extended_another: bool,
    /// When the extension that surely happened last was asked for (or the grant).
    extended_asked: Time,
    /// When that extension was answered: it happened at the latest then.
    extended_answered: Time,
    /// Renewals since then of which it is not known whether they were applied.
    unanswered: u32,
}

impl Grant {
    /// A grant that was asked for and answered at these times.
    pub fn new(asked: Time, answered: Time, ttl: Option<Duration>, locked: bool) -> Grant {
        Grant {
            asked,
            answered,
            ttl,
            locked,
            renewal_asked: None,
            renewal_failed: None,
            by: None,
            gone: None,
            gone_elsewhere: None,
            gone_early: false,
            extended_another: false,
            extended_asked: asked,
            extended_answered: answered,
            unanswered: 0,
        }
    }

    /// The same, granted by that server where it is known.
    pub fn by(self, by: Option<String>) -> Grant {
        Grant { by, ..self }
    }

    /// Between these the server granted it.
    pub fn window(&self) -> (Time, Time) {
        (self.asked, self.answered)
    }

    /// The watchdog asks for a longer lease.
    pub fn renewal_asked(&mut self, at: Time) {
        self.renewal_asked = Some(at);
        self.unanswered += 1;
    }

    /// Another one was granted the lock after this one, by that server where it is known.
    pub fn superseded(&mut self, by: Option<&str>, at: Time) {
        match self.elsewhere(by) {
            true => self.gone_elsewhere.get_or_insert(at),
            false => self.gone.get_or_insert(at),
        };
    }

    /// Whether a server is surely another one than that which granted it.
    fn elsewhere(&self, server: Option<&str>) -> bool {
        let known = self.by.as_deref().zip(server);
        known.is_some_and(|(by, server)| by != server)
    }

    /// By when it is proven that the lock was not this operation's any more on a server; on some
    /// server, where it is not known on which.
    pub fn gone(&self, server: Option<&str>) -> Option<Time> {
        let at_home = server.is_some() && !self.elsewhere(server);
        let elsewhere = self.gone_elsewhere.filter(|_| !at_home);
        self.gone.into_iter().chain(elsewhere).min()
    }

    /// The lease was extended, by that server where it is known. Where it was gone before that was
    /// asked for, it was another's; where it went while that was on its way nobody can tell whose it
    /// was, and it is gone all the same.
    pub fn renewed(&mut self, by: Option<&str>, at: Time) {
        let asked = self.renewal_asked.take().unwrap_or(at);
        if let Some(gone) = self.gone(by) {
            self.extended_another |= gone < asked;
            return;
        }
        self.extended_asked = asked;
        self.extended_answered = at;
        self.renewal_failed = None;
        self.unanswered = 0;
    }

    /// One hold of several was given back, which made the lease full again.
    pub fn held_on(&mut self, asked: Time, answered: Time) {
        self.extended_asked = self.extended_asked.max(asked);
        self.extended_answered = answered;
        self.renewal_failed = None;
        self.unanswered = u32::from(self.renewal_asked.is_some());
    }

    /// A renewal came to nothing, as far as the driver knows: it may be applied even later.
    pub fn renewal_failed(&mut self, at: Time) {
        let asked = self.renewal_asked.take().unwrap_or(at);
        self.renewal_failed.get_or_insert((asked, at));
    }

    /// The watchdog gives the lease up. While a renewal is open this is the server's answer to it;
    /// otherwise only the watchdog's own reckoning.
    pub fn lease_lost(&mut self, at: Time) {
        if self.renewal_asked.take().is_some() {
            self.gone.get_or_insert(at);
            self.gone_early |= self.earliest_end().is_none_or(|end| at < end);
        }
    }

    /// Before this the lease surely lived, if nobody removed it.
    pub fn earliest_end(&self) -> Option<Time> {
        let ttl = self.ttl?;
        let sure = ttl.saturating_sub(slack(ttl));
        Some(self.extended_asked.plus(sure))
    }

    /// From this on the lease was surely over. A renewal that was not answered can have been
    /// applied only while the lease before it lived, and then gave it one TTL more.
    pub fn latest_end(&self) -> Option<Time> {
        let ttl = self.ttl?;
        let most = ttl * (1 + self.unanswered) + slack(ttl);
        Some(self.extended_answered.plus(most))
    }

    /// When the lease ends as the holder would reckon it.
    pub fn nominal_end(&self) -> Option<Time> {
        Some(self.extended_asked.plus(self.ttl?))
    }

    /// Whether the lease may have been over by then.
    pub fn may_have_ended(&self, by: Time) -> bool {
        self.earliest_end().is_some_and(|end| by >= end)
    }

    /// Whether the lease was surely over by then.
    pub fn surely_ended(&self, by: Time) -> bool {
        self.latest_end().is_some_and(|end| by >= end)
    }

    /// When the lease was last surely extended.
    pub fn extended(&self) -> Time {
        self.extended_asked
    }
}

/// How far a lease's true length may lie from its TTL. Redis counts whole milliseconds and lets a
/// key live through its last one (<https://redis.io/docs/latest/commands/expire/>); two clocks
/// drift apart by less than a thousandth.
fn slack(ttl: Duration) -> Duration {
    Duration::from_millis(1) + ttl / 1000
}
