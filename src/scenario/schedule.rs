//! When a fault strikes: the moments that a scenario can name, and how they are read.

use serde::{Deserialize, Serialize};

use super::read::{Field, Table};
use crate::clock::nanos;

/// When a fault strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum At {
    /// When any operation reaches a point for the n-th time; it strikes that one's instance.
    Point {
        /// The point.
        point: Point,
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

// Reading them.

/// Whether it is a time of the run.
pub(super) fn is_time(at: Option<At>) -> bool {
    matches!(at, Some(At::Time { .. }))
}

/// Reads one.
pub(super) fn at_of(table: Table<'_>, instances: Option<u64>) -> Option<At> {
    let (point, nth) = (table.get("point"), table.get("nth"));
    let (time, instance) = (table.get("time"), table.get("instance"));
    let at = match (point, time) {
        (Some(point), None) => {
            if let Some(instance) = instance {
                instance.key_problem("`instance` goes with `time`: a point strikes who reaches it");
            }
            at_point(&point, nth.as_ref())
        }
        (None, Some(time)) => {
            if let Some(nth) = nth {
                nth.key_problem("`nth` goes with `point`: a time comes once");
            }
            at_time(&time, instance.as_ref(), instances)
        }
        (Some(_), Some(time)) => {
            time.key_problem("a fault strikes either at a `point` or at a `time`, not at both");
            None
        }
        (None, None) => {
            if !table.means_one_of(&["point", "time"]) {
                table.problem(
                    "a fault strikes at a point of an operation, `at = { point = \"in-section\", \
                     nth = 20 }`, or at a time, `at = { time = \"3s\", instance = 0 }`",
                );
            }
            None
        }
    };
    table.finish();
    at
}

fn at_point(point: &Field<'_>, nth: Option<&Field<'_>>) -> Option<At> {
    let word = point.word(&Point::ALL.map(Point::word));
    let nth = nth.map_or(Some(1), |nth| nth.integer(1..=1_000_000_000));
    let (word, nth) = (word?, nth?);
    let point = Point::ALL.into_iter().find(|point| point.word() == word)?;
    Some(At::Point { point, nth })
}

/// A fault can only strike an instance that there is.
fn at_time(time: &Field<'_>, instance: Option<&Field<'_>>, instances: Option<u64>) -> Option<At> {
    let time = time.duration();
    let number = instance.map(|field| field.integer(0..=9_999));
    if let (Some(field), Some(Some(number)), Some(instances)) = (instance, number, instances)
        && number >= instances
    {
        field.misfit(format!(
            "instance {number} does not exist: there are {instances}, numbered from 0"
        ));
    }
    let instance = number.map_or(Some(None), |read| read.map(Some));
    Some(At::Time {
        at_ns: nanos(time?),
        instance: instance?.map(|instance| instance as u32),
    })
}
