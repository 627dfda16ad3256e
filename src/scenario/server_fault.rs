//! Faults that strike a server, as a scenario asks for them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::read::Table;
use super::times::{positive, signed};
use crate::clock::nanos;

/// What is done to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerFault {
    /// Its process is killed, and started again on the same port.
    Restart {
        /// Whether it comes back without its data.
        empty: bool,
        /// How long it is down.
        for_ns: u64,
    },
    /// Its process is killed.
    Kill,
    /// Its process stands still.
    Stop {
        /// For how long.
        for_ns: u64,
    },
    /// Its wall clock jumps.
    ClockJump {
        /// By how much; back if it is negative.
        by_ns: i64,
    },
    /// It forgets its scripts.
    ScriptFlush,
    /// It answers nobody.
    ClientPause {
        /// For how long.
        for_ns: u64,
    },
    /// It closes its clients' connections.
    ClientKill,
    /// It evicts all keys.
    Evict,
    /// It takes itself for a replica, and refuses writes.
    ReadOnly {
        /// For how long.
        for_ns: u64,
    },
    /// It cannot save its data, and refuses writes.
    DiskFull {
        /// For how long.
        for_ns: u64,
    },
    /// It has no memory left and evicts nothing: it refuses what needs some.
    NoMemory {
        /// For how long.
        for_ns: u64,
    },
    /// It is busy with one command.
    DebugSleep {
        /// For how long.
        for_ns: u64,
    },
    /// A grant rests on just a majority of the nodes, and of these the one restarts without its
    /// data while the others are reachable again.
    QuorumRestart,
    /// The same, and its wall clock jumps.
    QuorumClock {
        /// By how much.
        by_ns: i64,
    },
}

impl ServerFault {
    /// The words for them.
    pub(super) const WORDS: [&str; 14] = [
        "restart",
        "kill-server",
        "stop-server",
        "clock-jump",
        "script-flush",
        "client-pause",
        "client-kill",
        "evict",
        "read-only",
        "disk-full",
        "no-memory",
        "debug-sleep",
        "quorum-restart",
        "quorum-clock",
    ];

    /// The same on another time scale.
    pub fn scaled(self, scale: f64) -> ServerFault {
        let long = |ns: u64| (ns as f64 * scale).round() as u64;
        let far = |ns: i64| (ns as f64 * scale).round() as i64;
        match self {
            ServerFault::Restart { empty, for_ns } => ServerFault::Restart {
                empty,
                for_ns: long(for_ns),
            },
            ServerFault::Stop { for_ns } => ServerFault::Stop {
                for_ns: long(for_ns),
            },
            ServerFault::ClientPause { for_ns } => ServerFault::ClientPause {
                for_ns: long(for_ns),
            },
            ServerFault::ReadOnly { for_ns } => ServerFault::ReadOnly {
                for_ns: long(for_ns),
            },
            ServerFault::DiskFull { for_ns } => ServerFault::DiskFull {
                for_ns: long(for_ns),
            },
            ServerFault::NoMemory { for_ns } => ServerFault::NoMemory {
                for_ns: long(for_ns),
            },
            ServerFault::DebugSleep { for_ns } => ServerFault::DebugSleep {
                for_ns: long(for_ns),
            },
            ServerFault::ClockJump { by_ns } => ServerFault::ClockJump { by_ns: far(by_ns) },
            ServerFault::QuorumClock { by_ns } => ServerFault::QuorumClock { by_ns: far(by_ns) },
            same => same,
        }
    }

    /// How long a server does not answer by its doing.
    pub fn silence(self) -> Duration {
        match self {
            ServerFault::Restart { for_ns, .. }
            | ServerFault::Stop { for_ns }
            | ServerFault::ClientPause { for_ns }
            | ServerFault::DebugSleep { for_ns } => Duration::from_nanos(for_ns),
            _ => Duration::ZERO,
        }
    }

    /// Whether it moves a server's wall clock.
    pub fn moves_clocks(self) -> bool {
        matches!(
            self,
            ServerFault::ClockJump { .. } | ServerFault::QuorumClock { .. }
        )
    }

    /// Whether it is about a grant that rests on just a majority.
    pub fn needs_majority(self) -> bool {
        matches!(
            self,
            ServerFault::QuorumRestart | ServerFault::QuorumClock { .. }
        )
    }
}

/// Reads one of that word.
pub(super) fn server_fault(word: &str, table: &Table<'_>) -> Option<ServerFault> {
    let long = || table.need("for", "\"8s\"").and_then(|f| positive(&f));
    let jump = || table.need("by", "\"40s\"").and_then(|f| signed(&f));
    match word {
        "restart" => {
            let data = table.need("data", "\"kept\" or \"lost\"");
            let data = data.and_then(|field| field.word(&["kept", "lost"]));
            let down = table
                .get("for")
                .map_or(Some(Duration::ZERO), |field| field.duration());
            Some(ServerFault::Restart {
                empty: data? == "lost",
                for_ns: nanos(down?),
            })
        }
        "kill-server" => Some(ServerFault::Kill),
        "stop-server" => long().map(|long| ServerFault::Stop {
            for_ns: nanos(long),
        }),
        "clock-jump" => jump().map(|by_ns| ServerFault::ClockJump { by_ns }),
        "script-flush" => Some(ServerFault::ScriptFlush),
        "client-pause" => long().map(|long| ServerFault::ClientPause {
            for_ns: nanos(long),
        }),
        "read-only" => long().map(|long| ServerFault::ReadOnly {
            for_ns: nanos(long),
        }),
        "disk-full" => long().map(|long| ServerFault::DiskFull {
            for_ns: nanos(long),
        }),
        "no-memory" => long().map(|long| ServerFault::NoMemory {
            for_ns: nanos(long),
        }),
        "debug-sleep" => long().map(|long| ServerFault::DebugSleep {
            for_ns: nanos(long),
        }),
        "client-kill" => Some(ServerFault::ClientKill),
        "evict" => Some(ServerFault::Evict),
        "quorum-restart" => Some(ServerFault::QuorumRestart),
        "quorum-clock" => {
            let by = table.need("by", "\"40s\"").and_then(|f| positive(&f));
            by.map(|by| ServerFault::QuorumClock {
                by_ns: nanos(by) as i64,
            })
        }
        _ => None,
    }
}
