//! What a scenario may say.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::de::DeTable;

use super::dist::Dist;
use super::problem::Invalid;
use super::read::{Problems, Table};
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
    /// Its name; report folders are named after it.
    pub name: String,
    /// One line on what it shows.
    pub title: String,
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
    /// How long a client waits for an answer of Redis; when absent, as long as the TTL.
    pub response_timeout: Option<Duration>,
    /// The database.
    pub store: Store,
    /// The database's own backstop.
    pub guard: Guard,
    /// What is done on purpose.
    pub faults: Vec<Fault>,
    /// What is expected of each lock; one that is not named must pass.
    pub expect: BTreeMap<String, Expect>,
}

/// The servers of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// One server.
    Single,
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
}

/// The business in the section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Each operation sells one unit of one SKU.
    FlashSale {
        /// Units in stock at the start.
        stock: u32,
    },
    /// Each operation processes an account's entries that were not yet processed.
    Reconcile {
        /// Accounts, each with a lock of its own.
        accounts: u32,
        /// Entries of each account.
        entries: u32,
    },
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
        /// When the operation ends without the lock.
        give_up_after_ns: u64,
    },
}

/// The database of the business.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Store {
    /// Embedded SQLite, in the report folder.
    Sqlite,
}

/// The database's own backstop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guard {
    /// None: the lock alone protects the business.
    None,
    /// A unique constraint: a unit is sold, an entry posted, at most once.
    Unique,
}

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
    /// The section is over, the release not yet sent.
    BeforeRelease,
}

impl Point {
    /// All points.
    pub const ALL: [Point; 3] = [
        Point::BetweenCommands,
        Point::InSection,
        Point::BeforeRelease,
    ];

    /// The word for it in a scenario.
    pub fn word(self) -> &'static str {
        match self {
            Point::BetweenCommands => "between-commands",
            Point::InSection => "in-section",
            Point::BeforeRelease => "before-release",
        }
    }
}

/// What is expected of a lock in this scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Expect {
    /// No violation.
    Pass,
    /// These properties are violated.
    Violation {
        /// Each of these must be found; when empty, any violation will do.
        properties: Vec<String>,
        /// None of these may be found.
        never: Vec<String>,
        /// In how many of the trials.
        often: Often,
    },
}

/// In how many trials a violation is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Often {
    /// In every one.
    Each,
    /// In at least one.
    Some,
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
            Some(scenario) if problems.is_empty() => Ok(scenario),
            _ => Err(Invalid {
                name: name.to_owned(),
                text: text.to_owned(),
                problems,
                unread: unread.is_some(),
            }),
        }
    }
}

impl Expect {
    /// Some violation or other, in each trial.
    pub fn any_violation() -> Expect {
        Expect::Violation {
            properties: vec![],
            never: vec![],
            often: Often::Each,
        }
    }
}
