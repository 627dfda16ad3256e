//! Faults on the way between processes that are not about one request, as a scenario asks for them.

use serde::{Deserialize, Serialize};

use super::fault::Place;
use super::read::{Field, Table};
use super::times::positive;
use crate::clock::nanos;

/// What is done on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkFault {
    /// Nothing passes; all connections stay open.
    Partition {
        /// Between whom.
        between: Between,
        /// What of it does not pass.
        stops: Stopped,
        /// For how long.
        for_ns: u64,
    },
    /// So much passes to and from an instance.
    Bandwidth {
        /// Bytes a second, each way.
        rate: u64,
        /// For how long.
        for_ns: u64,
    },
    /// An instance's requests do not arrive, and are answered with an error.
    AnswerError {
        /// Which error.
        error: ErrorWord,
        /// For how long.
        for_ns: u64,
    },
}

/// Between whom nothing passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Between {
    /// All instances, and one server: of a group its primary.
    InstancesAndServer {
        /// Which one of those that hold data, from 0.
        node: u32,
    },
    /// The replicas, and their primary.
    ReplicasAndPrimary,
    /// The Sentinels, and the primary.
    SentinelsAndPrimary,
    /// Each Sentinel, and the others.
    Sentinels,
}

impl Between {
    const WORDS: [&str; 4] = [
        "instances-and-server",
        "replicas-and-primary",
        "sentinels-and-primary",
        "sentinels",
    ];

    /// Those who ask, and those who answer.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            Between::InstancesAndServer { .. } => ("the instances", "the server"),
            Between::ReplicasAndPrimary => ("the replicas", "the primary"),
            Between::SentinelsAndPrimary => ("the Sentinels", "the primary"),
            Between::Sentinels => ("the Sentinels", "each other"),
        }
    }
}

/// What does not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stopped {
    /// What the first ones ask the other ones.
    Requests,
    /// What these answer.
    Replies,
    /// Neither.
    Both,
}

/// An error that a server may answer with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorWord {
    /// It is a replica.
    ReadOnly,
    /// It is loading its data.
    Loading,
    /// It has no memory left.
    OutOfMemory,
    /// It does not know the script.
    NoScript,
    /// Its cluster is down.
    ClusterDown,
    /// It cannot save its data.
    Misconf,
}

impl ErrorWord {
    const ALL: [ErrorWord; 6] = [
        ErrorWord::ReadOnly,
        ErrorWord::Loading,
        ErrorWord::OutOfMemory,
        ErrorWord::NoScript,
        ErrorWord::ClusterDown,
        ErrorWord::Misconf,
    ];

    /// How the error begins.
    pub fn word(self) -> &'static str {
        match self {
            ErrorWord::ReadOnly => "READONLY",
            ErrorWord::Loading => "LOADING",
            ErrorWord::OutOfMemory => "OOM",
            ErrorWord::NoScript => "NOSCRIPT",
            ErrorWord::ClusterDown => "CLUSTERDOWN",
            ErrorWord::Misconf => "MISCONF",
        }
    }
}

impl LinkFault {
    /// The words for them.
    pub(super) const WORDS: [&str; 3] = ["partition", "bandwidth", "answer-error"];

    /// The same on another time scale.
    pub fn scaled(self, scale: f64) -> LinkFault {
        let scaled = |ns: u64| (ns as f64 * scale).round() as u64;
        match self {
            LinkFault::Partition {
                between,
                stops,
                for_ns,
            } => LinkFault::Partition {
                between,
                stops,
                for_ns: scaled(for_ns),
            },
            LinkFault::Bandwidth { rate, for_ns } => LinkFault::Bandwidth {
                rate,
                for_ns: scaled(for_ns),
            },
            LinkFault::AnswerError { error, for_ns } => LinkFault::AnswerError {
                error,
                for_ns: scaled(for_ns),
            },
        }
    }

    /// How long it lasts.
    pub fn for_ns(self) -> u64 {
        match self {
            LinkFault::Partition { for_ns, .. }
            | LinkFault::Bandwidth { for_ns, .. }
            | LinkFault::AnswerError { for_ns, .. } => for_ns,
        }
    }
}

/// Reads one of that word.
pub(super) fn link_fault(word: &str, table: &Table<'_>, place: Place) -> Option<LinkFault> {
    let long = || {
        let long = table.need("for", "\"8s\"").and_then(|f| positive(&f));
        long.map(nanos)
    };
    match word {
        "bandwidth" => {
            let rate = table.need("bytes_per_second", "200");
            let rate = rate.and_then(|field| field.integer(1..=1_000_000_000));
            let (rate, for_ns) = rate.zip(long())?;
            Some(LinkFault::Bandwidth { rate, for_ns })
        }
        "answer-error" => {
            let error = table.need("error", "\"LOADING\"");
            let error = error.and_then(|field| error_of(&field));
            let (error, for_ns) = error.zip(long())?;
            Some(LinkFault::AnswerError { error, for_ns })
        }
        _ => {
            let between = table.need("between", "\"instances-and-server\"");
            let between = between.and_then(|field| between_of(&field, table, place));
            let stops = table.get("stops").map(|field| stops_of(&field));
            let for_ns = long();
            Some(LinkFault::Partition {
                between: between?,
                stops: stops.unwrap_or(Some(Stopped::Both))?,
                for_ns: for_ns?,
            })
        }
    }
}

fn error_of(field: &Field<'_>) -> Option<ErrorWord> {
    let word = field.word(&ErrorWord::ALL.map(ErrorWord::word))?;
    (ErrorWord::ALL.into_iter()).find(|error| error.word() == word)
}

fn between_of(field: &Field<'_>, table: &Table<'_>, place: Place) -> Option<Between> {
    let word = field.word(&Between::WORDS)?;
    if word == "instances-and-server" {
        let node = table.get("node");
        let node = node.map_or(Some(0), |field| field.integer(0..=8));
        return node.map(|node| Between::InstancesAndServer { node: node as u32 });
    }
    if !place.sentinel {
        field.misfit(format!(
            "`{word}` needs `topology = {{ kind = \"sentinel\" }}`"
        ));
    }
    Some(match word {
        "replicas-and-primary" => Between::ReplicasAndPrimary,
        "sentinels-and-primary" => Between::SentinelsAndPrimary,
        _ => Between::Sentinels,
    })
}

fn stops_of(field: &Field<'_>) -> Option<Stopped> {
    Some(match field.word(&["requests", "replies", "both"])? {
        "requests" => Stopped::Requests,
        "replies" => Stopped::Replies,
        _ => Stopped::Both,
    })
}
