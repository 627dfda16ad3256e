//! When a fault strikes: at a point of an operation, when something was seen to happen, at a time,
//! or at random times; and how often.

use serde::{Deserialize, Serialize};

/// When a fault strikes first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum At {
    /// When any operation reaches a point for the n-th time; it strikes that one's instance.
    Point {
        /// The point.
        point: Point,
        /// The how manieth time, from 1.
        nth: u64,
    },
    /// When something of the kind is seen for the n-th time; it strikes the instance that sees it.
    Seen {
        /// What.
        what: Seen,
        /// The key that it must be about, by its number, if not any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<u32>,
        /// The how manieth time, from 1.
        nth: u64,
    },
    /// At a time of the run.
    Time {
        /// Since the start.
        at_ns: u64,
        /// The instance that is struck; when absent the plan draws one.
        instance: Option<u32>,
    },
    /// At random times of a window.
    Random {
        /// Not before that.
        from_ns: u64,
        /// Not after that.
        to_ns: u64,
        /// The instance that is struck; when absent the plan draws one each time.
        instance: Option<u32>,
        /// The strikes that the plan has drawn, in order.
        #[serde(default)]
        drawn: Vec<Moment>,
    },
}

/// A strike at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Moment {
    /// When, since the start.
    pub at_ns: u64,
    /// Which instance.
    pub instance: u32,
}

/// How often a fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Repeat {
    /// How many times, if not to the end of the run.
    pub times: Option<u64>,
    /// How far apart: in nanoseconds after a time, in passings after a point or what is seen.
    pub every: u64,
    /// With what probability, from the first passing on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chance: Option<f64>,
}

impl Default for Repeat {
    fn default() -> Repeat {
        Repeat {
            times: Some(1),
            every: 1,
            chance: None,
        }
    }
}

impl Repeat {
    /// Whether it strikes at a passing, if the first one is the n-th; before chance.
    pub fn strikes_at(self, passing: u64, nth: u64) -> bool {
        let Some(since) = passing.checked_sub(nth) else {
            return false;
        };
        if self.chance.is_some() {
            return true;
        }
        let every = self.every.max(1);
        since % every == 0 && self.times.is_none_or(|times| since / every < times)
    }

    /// The times of its strikes, if the first one is then.
    pub fn times_from(self, first_ns: u64) -> impl Iterator<Item = u64> {
        let all = std::iter::successors(Some(first_ns), move |at| at.checked_add(self.every));
        all.take(usize::try_from(self.times.unwrap_or(u64::MAX)).unwrap_or(usize::MAX))
    }
}

/// The points of an operation at which a fault can strike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Point {
    /// The first command of the acquire took the lock; a second one, if the lock has one, has not
    /// been sent yet.
    BetweenCommands,
    /// In the section, between the business read and its write.
    InSection,
    /// The section is over, the release not yet begun.
    BeforeRelease,
    /// The release has compared what it compares in a command of its own; the one that deletes the
    /// key has not been sent yet.
    BeforeDelete,
    /// The worker is about to ask for the lock, once more if it was refused.
    BeforeAcquire,
}

impl Point {
    /// All points.
    pub const ALL: [Point; 5] = [
        Point::BetweenCommands,
        Point::InSection,
        Point::BeforeRelease,
        Point::BeforeDelete,
        Point::BeforeAcquire,
    ];

    /// The word for it in a scenario.
    pub fn word(self) -> &'static str {
        match self {
            Point::BetweenCommands => "between-commands",
            Point::InSection => "in-section",
            Point::BeforeRelease => "before-release",
            Point::BeforeDelete => "before-delete",
            Point::BeforeAcquire => "before-acquire",
        }
    }
}

/// What can be seen to happen, in the history's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Seen {
    /// The lock was granted, and is held; its section has not begun.
    Granted,
    /// It was refused.
    Denied,
    /// A lease was renewed.
    Renewed,
    /// A release was answered.
    Released,
}

impl Seen {
    /// All of them.
    pub const ALL: [Seen; 4] = [Seen::Granted, Seen::Denied, Seen::Renewed, Seen::Released];

    /// The word for it in a scenario.
    pub fn word(self) -> &'static str {
        match self {
            Seen::Granted => "granted",
            Seen::Denied => "denied",
            Seen::Renewed => "renewed",
            Seen::Released => "released",
        }
    }
}
