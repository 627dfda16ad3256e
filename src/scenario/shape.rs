//! What a scenario may say.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use toml::de::DeTable;

use super::acknowledged::Acknowledged;
use super::dist::Dist;
use super::expect::Expect;
use super::fault::Fault;
use super::mistake::Mistake;
use super::pace::Stage;
use super::problem::Invalid;
use super::read::{Problems, Table};
use super::threshold::Threshold;
use super::trap::Trap;
use super::{syntax, tables};

/// The names that a scenario may use and that are decided elsewhere.
#[derive(Debug, Clone)]
pub struct Vocabulary {
    /// The locks there are.
    pub locks: Vec<&'static str>,
    /// The properties that can be violated.
    pub properties: Vec<&'static str>,
}

/// A scenario as written, in the incident's own units.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The file that it was read from, or whatever else names it.
    pub file: String,
    /// Its name; report folders are named after it.
    pub name: String,
    /// One line on what it shows.
    pub title: String,
    /// The traps and rules of the incidents that it shows.
    pub shows: Vec<Trap>,
    /// The locks that it is about; all of them if none is named. Who runs it under all locks leaves
    /// out the others.
    pub locks: Vec<String>,
    /// The factor from the incident's seconds to the run's.
    pub time_scale: f64,
    /// How many trials, each under a seed of its own.
    pub trials: u32,
    /// The first trial's seed.
    pub seed: u64,
    /// The servers.
    pub topology: Topology,
    /// Who issues how much.
    pub load: Load,
    /// The business.
    pub workload: Workload,
    /// How long the section's work takes.
    pub section: Dist,
    /// Whether a section that is told of its lost lease withholds its write.
    pub heeds_lost_lease: bool,
    /// The scenario's own lock.
    pub lock: String,
    /// How long a lease lives.
    pub ttl: Duration,
    /// What a denied worker does.
    pub wait: Wait,
    /// How many replicas must have a grant before it counts, if any must.
    pub acknowledged: Option<Acknowledged>,
    /// A mistake that is made around the lock, if one is.
    pub mistake: Option<Mistake>,
    /// How long a client waits for an answer of Redis; when absent, as long as the TTL.
    pub response_timeout: Option<Duration>,
    /// The database.
    pub store: Store,
    /// The database's own backstop.
    pub guard: Guard,
    /// What is done on purpose.
    pub faults: Vec<Fault>,
    /// What is demanded of what is measured.
    pub thresholds: Vec<Threshold>,
    /// What is expected of each lock; one that is not named must pass.
    pub expect: BTreeMap<String, Expect>,
}

/// The servers of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// One server.
    Single,
    /// Several independent servers, for a lock on a majority of them.
    Quorum {
        /// How many.
        nodes: u32,
    },
    /// A primary with replicas, and three Sentinels that promote one of them when it is down.
    Sentinel {
        /// How many replicas.
        replicas: u32,
        /// How many of them must follow closely for a write to be taken.
        min_replicas_to_write: u32,
        /// How long the Sentinels hear nothing of the primary until they take it for down.
        #[serde(default = "Topology::down_after")]
        down_after_ms: u32,
    },
    /// A user's own Redis, which is named when it is run.
    External {
        /// How many independent servers.
        nodes: u32,
    },
}

impl Topology {
    /// The time after which a primary is down, where nothing is said of it.
    pub fn down_after() -> u32 {
        500
    }

    /// How many servers a worker talks to.
    pub fn nodes(self) -> u32 {
        match self {
            Topology::Single | Topology::Sentinel { .. } => 1,
            Topology::Quorum { nodes } | Topology::External { nodes } => nodes,
        }
    }
}

/// Who issues how much.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Simulated application processes.
    pub instances: u32,
    /// Workers over all instances.
    pub workers: u32,
    /// Operations over all workers, if bounded.
    pub operations: Option<u64>,
    /// How long operations are issued.
    pub duration_ns: u64,
    /// What a worker does between two operations.
    pub think: Dist,
    /// When operations are to start, in the run's own time; empty where each worker's next one
    /// waits for the one before (closed loop).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Stage>,
}

/// The business in the section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Each operation sells one unit of one SKU.
    FlashSale {
        /// Units of each SKU in stock at the start.
        stock: u32,
        /// Different SKUs.
        skus: u32,
        /// What one lock protects.
        granularity: Granularity,
    },
    /// Each operation processes an account's entries that were not yet processed.
    Reconcile {
        /// Accounts, each with a lock of its own.
        accounts: u32,
        /// Entries of each account.
        entries: u32,
    },
    /// Each operation adds one to a counter.
    Counter,
    /// Each operation adds one to the counter of the key that it draws.
    Tally {
        /// How many keys, each with a counter and a lock of its own.
        keys: u32,
        /// Whether each worker has a key of its own instead, for which nobody else asks.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        own: bool,
    },
    /// Each tick of a schedule must run exactly once, and every instance tries.
    Cron {
        /// Ticks in all.
        ticks: u32,
        /// The time between two ticks.
        every_ns: u64,
    },
    /// Each operation leads for the length of its section, and adds one to the count of terms.
    Leader,
}

impl Workload {
    /// Whether each item is a number that grows with each write, and there is always more to do.
    pub fn counts_up(&self) -> bool {
        match self {
            Workload::Counter | Workload::Tally { .. } | Workload::Leader => true,
            Workload::FlashSale { .. } | Workload::Reconcile { .. } | Workload::Cron { .. } => {
                false
            }
        }
    }

    /// The same with so many keys, where their number can be chosen.
    pub fn with_keys(&self, keys: u32) -> Option<Workload> {
        let mut changed = self.clone();
        match &mut changed {
            Workload::FlashSale { skus: n, .. }
            | Workload::Reconcile { accounts: n, .. }
            | Workload::Tally { keys: n, .. } => *n = keys,
            Workload::Counter | Workload::Cron { .. } | Workload::Leader => return None,
        }
        Some(changed)
    }

    /// The same with a key of its own for each worker, where operations draw theirs.
    pub fn with_own_keys(&self, workers: u32) -> Option<Workload> {
        let Workload::Tally { .. } = self else {
            return None;
        };
        Some(Workload::Tally {
            keys: workers,
            own: true,
        })
    }
}

/// What one lock protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Granularity {
    /// One lock for all SKUs.
    All,
    /// A lock for each SKU.
    Sku,
    /// A lock for each unit, which is then an item of its own.
    Unit,
}

impl Granularity {
    /// The most units that may have a lock each: every key is looked up when a run has ended.
    pub const MOST_UNITS: u64 = 100_000;

    /// All of them, from the coarsest on.
    pub const ALL: [Granularity; 3] = [Granularity::All, Granularity::Sku, Granularity::Unit];

    /// The word for it in a scenario.
    pub fn word(self) -> &'static str {
        match self {
            Granularity::All => "all",
            Granularity::Sku => "sku",
            Granularity::Unit => "unit",
        }
    }
}

/// What a denied worker does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// Ends the operation.
    FailFast,
    /// Tries again.
    Retry {
        /// After how long.
        every_ns: u64,
        /// How far each wait may lie from `every`, as a fraction of it.
        jitter: f64,
        /// By how much each wait is longer than the one before, as a factor.
        backoff: f64,
        /// When the operation ends without the lock.
        give_up_after_ns: u64,
    },
    /// Waits for the lock's own message of a release, and asks then.
    WakeUp {
        /// When the operation ends without the lock.
        bound_ns: u64,
    },
}

/// The database of the business.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Store {
    /// Embedded SQLite, in the report folder.
    Sqlite,
    /// PostgreSQL: a server of the run's own, or the one that `--store-url` names.
    Postgres,
    /// The same Redis that holds the locks.
    Redis,
    /// The memory of this process: a simulation, for loads that no database keeps up with.
    Memory,
}

impl Store {
    /// All of them.
    pub const ALL: [Store; 4] = [Store::Sqlite, Store::Postgres, Store::Redis, Store::Memory];

    /// The word for it in a scenario.
    pub fn word(self) -> &'static str {
        match self {
            Store::Sqlite => "sqlite",
            Store::Postgres => "postgres",
            Store::Redis => "redis",
            Store::Memory => "memory",
        }
    }

    /// What a reader of a report is to know of it.
    pub fn described(self) -> &'static str {
        match self {
            Store::Memory => "memory (in this process)",
            other => other.word(),
        }
    }
}

/// The database's own backstop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guard {
    /// None: the lock alone protects the business.
    None,
    /// A unique constraint: a unit is sold, an entry posted, at most once.
    Unique,
    /// A write with an older fencing token than the last one is refused.
    Fence,
    /// A conditional statement: decrement if there is one, post if it is not posted.
    Conditional,
    /// Compare-and-set: a write over anything but what was read is refused, and reads again.
    Optimistic,
}

impl Guard {
    /// All of them.
    pub const ALL: [Guard; 5] = [
        Guard::None,
        Guard::Unique,
        Guard::Fence,
        Guard::Conditional,
        Guard::Optimistic,
    ];

    /// The word for it in a scenario.
    pub fn word(self) -> &'static str {
        match self {
            Guard::None => "none",
            Guard::Unique => "unique",
            Guard::Fence => "fence",
            Guard::Conditional => "conditional",
            Guard::Optimistic => "optimistic",
        }
    }
}

impl Scenario {
    /// Reads a scenario, or tells everything that is wrong with it.
    pub fn parse(name: &str, text: &str, known: &Vocabulary) -> Result<Scenario, Invalid> {
        let problems = Problems::default();
        let (table, errors) = DeTable::parse_recoverable(text);
        let unread = syntax::tell(text, &table, errors, &problems);
        let root = Table::new("", 0..0, table.get_ref(), &problems);
        let scenario = tables::scenario(root, known);
        let problems = problems.sorted(unread);
        match scenario {
            Some(scenario) if problems.is_empty() => Ok(Scenario {
                file: name.to_owned(),
                ..scenario
            }),
            _ => Err(Invalid {
                name: name.to_owned(),
                text: text.to_owned(),
                problems,
                unread: unread.is_some(),
            }),
        }
    }
}
