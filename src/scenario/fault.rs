//! Faults as a scenario asks for them: what is done on purpose, when, and to whom.

use serde::{Deserialize, Serialize};

use super::failover_fault::{self, failover_fault};
use super::link_fault::{LinkFault, link_fault};
use super::read::{Field, Table};
use super::server_fault::{ServerFault, server_fault};
use super::times::positive;
use crate::clock::nanos;

/// Something done on purpose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// When it strikes, and whom.
    pub at: At,
    /// What it does.
    pub how: How,
}

/// What a fault does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// The instance stands still, its watchdogs too, as in a stop-the-world pause.
    Freeze {
        /// For how long.
        for_ns: u64,
    },
    /// The instance's process dies.
    Crash,
    /// Every server refuses writes, with an error.
    RefuseWrites {
        /// For how long.
        for_ns: u64,
    },
    /// The primary dies before it has told its replicas of a grant, and one of them is promoted.
    /// Of independent nodes one dies.
    LostGrant,
    /// The primary is cut off from its replicas and Sentinels, one is promoted elsewhere, and both
    /// grant. Of independent nodes one is out of reach for all instances but one.
    SplitBrain {
        /// For how long there are two.
        for_ns: u64,
    },
    /// The Sentinels are told to hand the primary's part over. Of independent nodes one dies.
    Graceful,
    /// Something on the way between processes.
    OnLink(LinkFault),
    /// A worker's request is applied, and its answer never arrives.
    LoseReply {
        /// Which answer.
        which: Reply,
    },
    /// Nothing passes between the instance and any server; the connections stay open.
    CutOff {
        /// For how long.
        for_ns: u64,
    },
    /// What the instance sends arrives later.
    Delay {
        /// By how much.
        by_ns: u64,
        /// For how long.
        for_ns: u64,
    },
    /// A connection of the instance to each server is reset with its next request.
    Reset {
        /// Whether the request is applied before.
        applied: bool,
    },
    /// Every server resets its clients' connections and takes no new ones.
    Refuse {
        /// For how long.
        for_ns: u64,
    },
    /// A server is struck.
    Server {
        /// Which one of those that hold data, from 0.
        node: u32,
        /// What is done to it.
        fault: ServerFault,
    },
}

impl How {
    /// How long a promotion may take, and how long what follows it may.
    pub const FAILOVER_NS: u64 = 30_000_000_000;

    /// Whether it is done by a link in front of each server.
    pub fn needs_link(self) -> bool {
        match self {
            How::LoseReply { .. }
            | How::CutOff { .. }
            | How::Delay { .. }
            | How::Reset { .. }
            | How::Refuse { .. }
            | How::SplitBrain { .. }
            | How::OnLink(_) => true,
            How::Freeze { .. }
            | How::Crash
            | How::RefuseWrites { .. }
            | How::LostGrant
            | How::Graceful
            | How::Server { .. } => false,
        }
    }

    /// The same on another scale of time.
    pub fn scaled(self, scale: f64) -> How {
        let scaled = |ns: u64| (ns as f64 * scale).round() as u64;
        match self {
            How::Freeze { for_ns } => How::Freeze {
                for_ns: scaled(for_ns),
            },
            How::RefuseWrites { for_ns } => How::RefuseWrites {
                for_ns: scaled(for_ns),
            },
            How::CutOff { for_ns } => How::CutOff {
                for_ns: scaled(for_ns),
            },
            How::Delay { by_ns, for_ns } => How::Delay {
                by_ns: scaled(by_ns),
                for_ns: scaled(for_ns),
            },
            How::Refuse { for_ns } => How::Refuse {
                for_ns: scaled(for_ns),
            },
            How::Server { node, fault } => How::Server {
                node,
                fault: fault.scaled(scale),
            },
            How::SplitBrain { for_ns } => How::SplitBrain {
                for_ns: scaled(for_ns),
            },
            How::OnLink(fault) => How::OnLink(fault.scaled(scale)),
            How::Crash
            | How::LostGrant
            | How::Graceful
            | How::LoseReply { .. }
            | How::Reset { .. } => self,
        }
    }

    /// How long it may keep an operation from its end.
    pub fn holds_up_ns(self) -> u64 {
        match self {
            How::Freeze { for_ns } | How::CutOff { for_ns } => for_ns,
            How::LostGrant | How::Graceful => 2 * How::FAILOVER_NS,
            How::SplitBrain { for_ns } => 2 * How::FAILOVER_NS + for_ns,
            How::OnLink(fault) => fault.for_ns(),
            How::Server { fault, .. } => nanos(fault.silence()),
            _ => 0,
        }
    }
}

/// The answers that a worker waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// "It is yours."
    Acquire,
    /// "It is yours for longer."
    Renewal,
    /// "It is yours no more."
    Release,
}

impl Reply {
    /// All of them.
    pub const ALL: [Reply; 3] = [Reply::Acquire, Reply::Renewal, Reply::Release];

    /// The word for it in a scenario.
    pub fn word(self) -> &'static str {
        match self {
            Reply::Acquire => "acquire",
            Reply::Renewal => "renewal",
            Reply::Release => "release",
        }
    }
}

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

/// What faults may strike.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// How many instances, if that is known.
    pub(super) instances: Option<u64>,
    /// Whether there are, or may be, Sentinels.
    pub(super) sentinel: bool,
    /// Whether there are, or may be, several independent servers.
    pub(super) quorum: bool,
}

/// The list of faults.
pub(super) fn faults_of(field: &Field<'_>, place: Place) -> Option<Vec<Fault>> {
    if field.is_table() {
        return field.wrong("a list, each fault under a `[[fault]]` of its own");
    }
    let list = field.list()?;
    let read: Vec<_> = list.iter().map(|field| fault(field, place)).collect();
    read.into_iter().collect()
}

fn fault(field: &Field<'_>, place: Place) -> Option<Fault> {
    let table = field.table()?;
    let kind_field = table.need("kind", "\"freeze\"");
    let mut kinds = vec![
        "freeze",
        "crash",
        "refuse-writes",
        "lose-reply",
        "cut-off",
        "delay",
        "reset",
        "refuse",
    ];
    kinds.extend(failover_fault::WORDS);
    kinds.extend(LinkFault::WORDS);
    kinds.extend(ServerFault::WORDS);
    let kind = kind_field.as_ref().and_then(|field| field.word(&kinds));
    let at_field = table.need("at", "{ point = \"in-section\", nth = 20 }");
    let at = at_field.as_ref();
    let at = at.and_then(|field| at_of(field.table()?, place.instances));
    let long = || table.need("for", "\"8s\"").and_then(|f| positive(&f));
    let how = match kind {
        Some("freeze") => long().map(|long| How::Freeze {
            for_ns: nanos(long),
        }),
        Some("refuse-writes") => long().map(|long| How::RefuseWrites {
            for_ns: nanos(long),
        }),
        Some(word) if failover_fault::WORDS.contains(&word) => {
            let at_time = at_field.filter(|_| is_time(at));
            failover_fault(word, &table, kind_field, at_time, place)
        }
        Some(word) if LinkFault::WORDS.contains(&word) => {
            link_fault(word, &table, place).map(How::OnLink)
        }
        Some("lose-reply") => {
            if let Some(field) = at_field.filter(|_| matches!(at, Some(At::Time { .. }))) {
                field.misfit("`lose-reply` strikes at a `point`: it is about one worker");
            }
            reply_of(&table).map(|which| How::LoseReply { which })
        }
        Some("cut-off") => long().map(|long| How::CutOff {
            for_ns: nanos(long),
        }),
        Some("delay") => {
            let by = table.need("by", "\"200ms\"").and_then(|f| positive(&f));
            by.zip(long()).map(|(by, long)| How::Delay {
                by_ns: nanos(by),
                for_ns: nanos(long),
            })
        }
        Some("reset") => {
            let applied = table.need("applied", "true");
            let applied = applied.and_then(|field| field.boolean());
            applied.map(|applied| How::Reset { applied })
        }
        Some("refuse") => long().map(|long| How::Refuse {
            for_ns: nanos(long),
        }),
        Some(word) if ServerFault::WORDS.contains(&word) => {
            let node = table
                .get("node")
                .map_or(Some(0), |field| field.integer(0..=8));
            let fault = server_fault(word, &table);
            if fault.is_some_and(ServerFault::needs_majority) {
                about_a_majority(word, kind_field, at_field.filter(|_| is_time(at)), place);
            }
            node.zip(fault).map(|(node, fault)| How::Server {
                node: node as u32,
                fault,
            })
        }
        Some(_) => Some(How::Crash),
        None => {
            table.finish_unsure();
            return None;
        }
    };
    table.finish();
    Some(Fault { at: at?, how: how? })
}

/// Which answer is lost: the acquire's, unless it is said.
fn reply_of(table: &Table<'_>) -> Option<Reply> {
    let Some(field) = table.get("which") else {
        return Some(Reply::Acquire);
    };
    let word = field.word(&Reply::ALL.map(Reply::word))?;
    Reply::ALL.into_iter().find(|reply| reply.word() == word)
}

fn is_time(at: Option<At>) -> bool {
    matches!(at, Some(At::Time { .. }))
}

/// What is about a grant on just a majority needs one, and strikes when there is a grant.
fn about_a_majority(word: &str, kind: Option<Field<'_>>, at_time: Option<Field<'_>>, place: Place) {
    if let Some(field) = kind.filter(|_| !place.quorum) {
        field.misfit(format!(
            "`{word}` needs `topology = {{ kind = \"quorum\" }}`"
        ));
    }
    if let Some(field) = at_time {
        field.misfit(format!(
            "`{word}` strikes at a `point`: it is about one grant"
        ));
    }
}

fn at_of(table: Table<'_>, instances: Option<u64>) -> Option<At> {
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
