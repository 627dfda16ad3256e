//! Faults that strike an instance, as a scenario asks for them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::fault::Reply;
use super::read::{Field, Table};
use super::times::{positive, signed};
use crate::clock::nanos;

/// What is done to an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InstanceFault {
    /// It stands still, its watchdogs too, as in a stop-the-world pause.
    Freeze {
        /// For how long.
        for_ns: u64,
    },
    /// One of its tasks computes and lets nobody else of it go on.
    BlockExecutor {
        /// For how long.
        for_ns: u64,
    },
    /// Its process dies.
    Crash,
    /// Its watchdogs stand still, and only they.
    StallWatchdog {
        /// For how long.
        for_ns: u64,
    },
    /// A worker's request is dropped while it is in flight.
    Cancel {
        /// Which request.
        which: Reply,
    },
    /// Its clock jumps.
    ClientClock {
        /// By how much; back if it is negative.
        by_ns: i64,
        /// After how long it is set right again; without it, it stays.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        for_ns: Option<u64>,
    },
}

impl InstanceFault {
    /// The words for them.
    pub(super) const WORDS: [&str; 6] = [
        "freeze",
        "block-executor",
        "crash",
        "stall-watchdog",
        "cancel",
        "client-clock",
    ];

    /// The same on another time scale.
    pub fn scaled(self, scale: f64) -> InstanceFault {
        let long = |ns: u64| (ns as f64 * scale).round() as u64;
        match self {
            InstanceFault::Freeze { for_ns } => InstanceFault::Freeze {
                for_ns: long(for_ns),
            },
            InstanceFault::BlockExecutor { for_ns } => InstanceFault::BlockExecutor {
                for_ns: long(for_ns),
            },
            InstanceFault::StallWatchdog { for_ns } => InstanceFault::StallWatchdog {
                for_ns: long(for_ns),
            },
            InstanceFault::ClientClock { by_ns, for_ns } => InstanceFault::ClientClock {
                by_ns: (by_ns as f64 * scale).round() as i64,
                for_ns: for_ns.map(long),
            },
            InstanceFault::Crash | InstanceFault::Cancel { .. } => self,
        }
    }

    /// How long an operation of the instance may stand still by its doing.
    pub fn standstill(self) -> Duration {
        match self {
            InstanceFault::Freeze { for_ns } | InstanceFault::BlockExecutor { for_ns } => {
                Duration::from_nanos(for_ns)
            }
            _ => Duration::ZERO,
        }
    }

    /// Whether it is about one worker, who is known at a point.
    pub fn is_about_a_worker(self) -> bool {
        matches!(self, InstanceFault::Cancel { .. })
    }
}

/// Reads one of that word.
pub(super) fn instance_fault(word: &str, table: &Table<'_>) -> Option<InstanceFault> {
    let long = || {
        let long = table.need("for", "\"8s\"").and_then(|f| positive(&f));
        long.map(nanos)
    };
    match word {
        "freeze" => long().map(|for_ns| InstanceFault::Freeze { for_ns }),
        "block-executor" => long().map(|for_ns| InstanceFault::BlockExecutor { for_ns }),
        "crash" => Some(InstanceFault::Crash),
        "stall-watchdog" => long().map(|for_ns| InstanceFault::StallWatchdog { for_ns }),
        "cancel" => which(table).map(|which| InstanceFault::Cancel { which }),
        "client-clock" => {
            let by = table.need("by", "\"-40s\"").and_then(|f| signed(&f));
            let long = table.get("for").map(|field| positive(&field));
            let for_ns = match long {
                None => None,
                Some(long) => Some(nanos(long?)),
            };
            Some(InstanceFault::ClientClock { by_ns: by?, for_ns })
        }
        _ => None,
    }
}

/// Which request is dropped: the acquire, unless it is said.
fn which(table: &Table<'_>) -> Option<Reply> {
    let word = |field: &Field<'_>| field.word(&["acquire", "renewal"]);
    match table.get("which") {
        None => Some(Reply::Acquire),
        Some(field) => match word(&field)? {
            "renewal" => Some(Reply::Renewal),
            _ => Some(Reply::Acquire),
        },
    }
}
