//! What a scenario may say. The reading functions mirror the types: one a table of the file.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use toml::de::DeTable;

use super::dist::{Dist, Part};
use super::problem::Invalid;
use super::read::{Field, Problems, Table, suggest};
use crate::clock::nanos;

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
        for error in errors {
            problems.add(error.span().unwrap_or(0..0), error.message().to_owned());
        }
        let root = Table::new("", table.span(), table.get_ref(), &problems);
        let scenario = scenario(root, known);
        let problems = problems.sorted();
        match scenario {
            Some(scenario) if problems.is_empty() => Ok(scenario),
            _ => Err(Invalid {
                name: name.to_owned(),
                text: text.to_owned(),
                problems,
            }),
        }
    }
}

// Each reader below gathers its mistakes and gives None when a part that it needs is unusable, so
// every `?` stands after all parts of its table were read.

fn scenario(root: Table<'_>, known: &Vocabulary) -> Option<Scenario> {
    let name = root.need("name", "\"my-incident\"").and_then(file_name);
    let title = root.get("title").map(|field| field.string());
    let time_scale = root.get("time_scale").map(|f| f.number(0.001..=10.0));
    let trials = root.get("trials").map(|field| field.integer(1..=10_000));
    let seed = root.get("seed").map(|field| field.integer(0..=u64::MAX));
    let topology = root.get("topology").map(|field| topology(&field));
    let loaded = root.need("load", "{ workers = 200, duration = \"90s\" }");
    let load = loaded.and_then(|field| load(field.table()?));
    let workload = root.need("workload", "{ kind = \"flash-sale\", stock = 100 }");
    let workload = workload.and_then(|field| workload_of(field.table()?));
    let section = root.need("section", "{ constant = \"50ms\" }");
    let section = section.and_then(|field| section_of(field.table()?));
    let lock = root.need("lock", "{ kind = \"token-lua\", ttl = \"5s\" }");
    let lock = lock.and_then(|field| lock_of(field.table()?, known));
    let store = root.get("store").map(|field| store_of(field.table()?));
    let faults = root.get("fault").map(|field| faults_of(&field));
    let expect = root.get("expect").map(|field| expectations(&field, known));
    if let (Some(Some(faults)), Some(load)) = (&faults, &load) {
        for (fault, field) in faults {
            check_instance(fault, load, field);
        }
    }
    root.finish();
    let (section, heeds_lost_lease) = section?;
    let (lock, ttl, wait, response_timeout) = lock?;
    let (store, guard) = store.unwrap_or(Some((Store::Sqlite, Guard::None)))?;
    Some(Scenario {
        name: name?,
        title: title.flatten().unwrap_or_default(),
        time_scale: time_scale.unwrap_or(Some(1.0))?,
        trials: trials.unwrap_or(Some(1))? as u32,
        seed: seed.unwrap_or(Some(1))?,
        topology: topology.unwrap_or(Some(Topology::Single))?,
        load: load?,
        workload: workload?,
        section,
        heeds_lost_lease,
        lock,
        ttl,
        wait,
        response_timeout,
        store,
        guard,
        faults: faults
            .unwrap_or(Some(vec![]))?
            .into_iter()
            .map(|(fault, _)| fault)
            .collect(),
        expect: expect.unwrap_or(Some(BTreeMap::new()))?,
    })
}

/// A name that can be a folder's.
fn file_name(field: Field<'_>) -> Option<String> {
    let name = field.string()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let good = !name.is_empty() && name.len() <= 80 && name.chars().all(plain);
    if !good {
        field.problem("`name` names a folder: letters, digits, `-` and `_`, at most 80 of them");
    }
    good.then_some(name)
}

fn topology(field: &Field<'_>) -> Option<Topology> {
    let table = field.table()?;
    let kind = table.need("kind", "\"single\"");
    let kind = kind.and_then(|field| field.word(&["single"]));
    table.finish();
    kind.map(|_| Topology::Single)
}

fn load(table: Table<'_>) -> Option<Load> {
    let instances = table
        .get("instances")
        .map(|field| field.integer(1..=10_000));
    let workers = table.need("workers", "200");
    let workers_field = workers.clone();
    let workers = workers.and_then(|field| field.integer(1..=10_000));
    let operations = table
        .get("operations")
        .map(|field| field.integer(1..=1_000_000_000));
    let duration = table.need("duration", "\"90s\"");
    let duration = duration.and_then(|field| positive(&field));
    let think = table.get("think").map(|field| dist(&field));
    table.finish();
    let (instances, workers) = (instances.unwrap_or(Some(1))?, workers?);
    if let Some(field) = workers_field.filter(|_| workers < instances) {
        field.problem(format!(
            "`load.workers` counts all workers: at least one for each of the {instances} instances"
        ));
    }
    Some(Load {
        instances: instances as u32,
        workers: workers as u32,
        operations: operations.map_or(Some(None), |read| read.map(Some))?,
        duration_ns: nanos(duration?),
        think: think.unwrap_or(Some(Dist::Constant { ns: 0 }))?,
    })
}

/// A duration that is not zero.
fn positive(field: &Field<'_>) -> Option<Duration> {
    let duration = field.duration()?;
    if duration.is_zero() {
        field.problem(format!("`{}` must be longer than 0", field.path));
    }
    (!duration.is_zero()).then_some(duration)
}

fn workload_of(table: Table<'_>) -> Option<Workload> {
    let kind = table.need("kind", "\"flash-sale\"");
    let kind = kind.and_then(|field| field.word(&["flash-sale", "reconcile"]));
    let number = |key, example| {
        let field = table.need(key, example);
        field
            .and_then(|field| field.integer(1..=1_000_000))
            .map(|n| n as u32)
    };
    let workload = match kind {
        Some("flash-sale") => number("stock", "100").map(|stock| Workload::FlashSale { stock }),
        Some(_) => {
            let (accounts, entries) = (number("accounts", "1"), number("entries", "20"));
            accounts
                .zip(entries)
                .map(|(accounts, entries)| Workload::Reconcile { accounts, entries })
        }
        // Without its kind nothing is known about the other keys: no follow-on mistakes.
        None => return None,
    };
    table.finish();
    workload
}

fn section_of(table: Table<'_>) -> Option<(Dist, bool)> {
    let heeds = table.get("heeds_lost_lease").map(|field| field.boolean());
    let dist = dist_of(table);
    Some((dist?, heeds.unwrap_or(Some(false))?))
}

/// A duration (`"5ms"`) or a table that names a distribution.
fn dist(field: &Field<'_>) -> Option<Dist> {
    if field.is_str() {
        return field.duration().map(Dist::constant);
    }
    dist_of(field.table()?)
}

fn dist_of(table: Table<'_>) -> Option<Dist> {
    let kinds = [
        table.get("constant").map(|field| constant(&field)),
        table.get("uniform").map(|field| uniform(&field)),
        table.get("lognormal").map(|field| lognormal(&field)),
        table.get("mix").map(|field| mix(&field)),
        table.get("cache").map(|field| cache(&field)),
    ];
    let mut named = kinds.into_iter().flatten();
    let (first, second) = (named.next(), named.next());
    if first.is_none() || second.is_some() {
        table.problem(
            "one distribution is needed: `constant = \"50ms\"`, `uniform = [\"6s\", \"8s\"]`, \
             `lognormal = { p50 = \"40ms\", p99 = \"200ms\" }`, `mix = [...]` or `cache = {...}`",
        );
    }
    table.finish();
    first.filter(|_| second.is_none())?
}

fn constant(field: &Field<'_>) -> Option<Dist> {
    field.duration().map(Dist::constant)
}

fn uniform(field: &Field<'_>) -> Option<Dist> {
    let list = field.list()?;
    let [low, high] = list.as_slice() else {
        field.problem(format!("`{}` has two ends: [\"6s\", \"8s\"]", field.path));
        return None;
    };
    let (low, high) = (low.duration(), high.duration());
    let (low, high) = (low?, high?);
    if low > high {
        field.problem(format!(
            "`{}`: the first end is the shorter one",
            field.path
        ));
    }
    Some(Dist::Uniform {
        low_ns: nanos(low),
        high_ns: nanos(high),
    })
}

fn lognormal(field: &Field<'_>) -> Option<Dist> {
    let table = field.table()?;
    let p50 = table.need("p50", "\"40ms\"").and_then(|f| positive(&f));
    let p99 = table.need("p99", "\"200ms\"").and_then(|f| positive(&f));
    table.finish();
    let (p50, p99) = (p50?, p99?);
    if p50 > p99 {
        field.problem(format!("`{}`: p50 is not above p99", field.path));
    }
    Some(Dist::Lognormal {
        p50_ns: nanos(p50),
        p99_ns: nanos(p99),
    })
}

fn mix(field: &Field<'_>) -> Option<Dist> {
    let parts: Vec<Option<Part>> = field.list()?.iter().map(part).collect();
    let parts = parts.into_iter().collect::<Option<Vec<Part>>>()?;
    let sum: f64 = parts.iter().map(|part| part.share).sum();
    if (sum - 1.0).abs() > 1e-6 {
        field.problem(format!(
            "the shares of `{}` add up to {sum}, not to 1",
            field.path
        ));
    }
    Some(Dist::Mix(parts))
}

fn cache(field: &Field<'_>) -> Option<Dist> {
    let table = field.table()?;
    let one_in = table.need("miss_one_in", "20");
    let one_in = one_in.and_then(|field| field.integer(1..=1_000_000));
    let miss = table.need("miss", "{ uniform = [\"6s\", \"8s\"] }");
    let miss = miss.and_then(|field| dist(&field));
    let hit = table.need("hit", "\"50ms\"").and_then(|field| dist(&field));
    table.finish();
    Some(Dist::Cache {
        miss_one_in: one_in? as u32,
        miss: Box::new(miss?),
        hit: Box::new(hit?),
    })
}

fn part(field: &Field<'_>) -> Option<Part> {
    let table = field.table()?;
    let share = table
        .need("share", "0.02")
        .and_then(|f| f.number(0.0..=1.0));
    let of = dist_of(table);
    Some(Part {
        share: share?,
        of: of?,
    })
}

type LockWords = (String, Duration, Wait, Option<Duration>);

fn lock_of(table: Table<'_>, known: &Vocabulary) -> Option<LockWords> {
    let kind = table.need("kind", "\"token-lua\"");
    let kind = kind.and_then(|field| field.word(&known.locks));
    let ttl = table.need("ttl", "\"5s\"").and_then(|f| positive(&f));
    let wait = table.get("wait").map(|field| wait(&field));
    let timeout = table.get("response_timeout").map(|f| positive(&f));
    table.finish();
    Some((
        kind?.to_owned(),
        ttl?,
        wait.unwrap_or(Some(Wait::FailFast))?,
        timeout.map_or(Some(None), |read| read.map(Some))?,
    ))
}

fn wait(field: &Field<'_>) -> Option<Wait> {
    if field.is_str() {
        return field.word(&["fail-fast"]).map(|_| Wait::FailFast);
    }
    let table = field.table()?;
    let every = table.need("retry_every", "\"50ms\"");
    let every = every.and_then(|field| positive(&field));
    let jitter = table.get("jitter").map(|field| field.number(0.0..=1.0));
    let give_up = table.need("give_up_after", "\"10s\"");
    let give_up = give_up.and_then(|field| positive(&field));
    table.finish();
    Some(Wait::Retry {
        every_ns: nanos(every?),
        jitter: jitter.unwrap_or(Some(0.5))?,
        give_up_after_ns: nanos(give_up?),
    })
}

fn store_of(table: Table<'_>) -> Option<(Store, Guard)> {
    let kind = table.get("kind").map(|field| field.word(&["sqlite"]));
    let guard = table.get("guard").map(|f| f.word(&["none", "unique"]));
    table.finish();
    kind.unwrap_or(Some("sqlite"))?;
    let guard = match guard.unwrap_or(Some("none"))? {
        "unique" => Guard::Unique,
        _ => Guard::None,
    };
    Some((Store::Sqlite, guard))
}

fn faults_of<'a>(field: &Field<'a>) -> Option<Vec<(Fault, Field<'a>)>> {
    let list = field.list()?;
    let read: Vec<_> = list
        .iter()
        .map(|field| Some((fault(field)?, field.clone())))
        .collect();
    read.into_iter().collect()
}

fn fault(field: &Field<'_>) -> Option<Fault> {
    let table = field.table()?;
    let kind = table.need("kind", "\"freeze\"");
    let kind = kind.and_then(|field| field.word(&["freeze", "crash"]));
    let at = table.need("at", "{ point = \"in-section\", nth = 20 }");
    let at = at.and_then(|field| at_of(field.table()?));
    let how = match kind {
        Some("freeze") => table
            .need("for", "\"8s\"")
            .and_then(|field| positive(&field))
            .map(|long| How::Freeze {
                for_ns: nanos(long),
            }),
        Some(_) => Some(How::Crash),
        None => return None,
    };
    table.finish();
    Some(Fault { at: at?, how: how? })
}

fn at_of(table: Table<'_>) -> Option<At> {
    let point = table.get("point");
    let at = if let Some(field) = point {
        let words = Point::ALL.map(Point::word);
        let word = field.word(&words);
        let nth = table.get("nth").map(|field| field.integer(1..=u64::MAX));
        word.zip(nth.unwrap_or(Some(1))).and_then(|(word, nth)| {
            let point = Point::ALL.into_iter().find(|point| point.word() == word)?;
            Some(At::Point { point, nth })
        })
    } else {
        let time = table.get("time").map(|field| field.duration());
        let instance = table.get("instance").map(|f| f.integer(0..=9_999));
        if time.is_none() {
            table.problem(
                "a fault strikes at a point of an operation, `at = { point = \"in-section\", \
                 nth = 20 }`, or at a time, `at = { time = \"3s\", instance = 0 }`",
            );
        }
        let instance = instance.map_or(Some(None), |read| read.map(Some));
        let at_ns = time.flatten().map(nanos);
        at_ns.zip(instance).map(|(at_ns, instance)| At::Time {
            at_ns,
            instance: instance.map(|instance| instance as u32),
        })
    };
    table.finish();
    at
}

/// A fault can only strike an instance that there is.
fn check_instance(fault: &Fault, load: &Load, field: &Field<'_>) {
    if let At::Time {
        instance: Some(instance),
        ..
    } = fault.at
        && instance >= load.instances
    {
        field.problem(format!(
            "instance {instance} does not exist: there are {}, numbered from 0",
            load.instances
        ));
    }
}

fn expectations(field: &Field<'_>, known: &Vocabulary) -> Option<BTreeMap<String, Expect>> {
    let table = field.table()?;
    let mut expect = Some(BTreeMap::new());
    for entry in table.entries() {
        if !known.locks.contains(&entry.key()) {
            let help = suggest(entry.key(), &known.locks);
            entry.key_problem(format!("unknown lock `{}`; {help}", entry.key()));
        }
        match expectation(entry, known) {
            Some(one) => {
                if let Some(map) = expect.as_mut() {
                    map.insert(entry.key().to_owned(), one);
                }
            }
            None => expect = None,
        }
    }
    expect
}

fn expectation(field: &Field<'_>, known: &Vocabulary) -> Option<Expect> {
    if field.is_str() {
        return match field.word(&["pass", "violation"])? {
            "pass" => Some(Expect::Pass),
            _ => Some(Expect::any_violation()),
        };
    }
    let table = field.table()?;
    let properties = table.need("violation", "[\"oversell\"]");
    let properties = properties.and_then(|field| properties_of(&field, known));
    let never = table.get("never").map(|field| properties_of(&field, known));
    let often = table.get("trials").map(|f| f.word(&["each", "some"]));
    table.finish();
    Some(Expect::Violation {
        properties: properties?,
        never: never.unwrap_or(Some(vec![]))?,
        often: match often.unwrap_or(Some("each"))? {
            "some" => Often::Some,
            _ => Often::Each,
        },
    })
}

fn properties_of(field: &Field<'_>, known: &Vocabulary) -> Option<Vec<String>> {
    let words: Vec<_> = field
        .list()?
        .iter()
        .map(|field| field.word(&known.properties).map(str::to_owned))
        .collect();
    words.into_iter().collect()
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
