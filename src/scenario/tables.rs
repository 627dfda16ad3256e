//! Reads a scenario table by table: one function a table of the file.
//!
//! Each reader gathers its mistakes and gives None when a part that it needs is unusable, so every
//! `?` stands after all parts of its table were read.

use std::collections::BTreeMap;
use std::time::Duration;

use super::dist::Dist;
use super::read::{Field, Table, suggest};
use super::shape::{
    At, Expect, Fault, Granularity, Guard, How, Load, Mistake, Often, Point, Scenario, Store,
    Topology, Vocabulary, Wait, Workload,
};
use super::times::{dist, positive, section_of};
use super::trap::Trap;
use crate::clock::nanos;

/// The file as a whole.
pub(super) fn scenario(root: Table<'_>, known: &Vocabulary) -> Option<Scenario> {
    let name = root.need("name", "\"my-incident\"").and_then(file_name);
    let title = root.get("title").map(|field| field.string());
    let shows = root
        .get("shows")
        .map(|f| words_of(&f, &Trap::ALL.map(Trap::word)));
    let locks = root.get("locks").map(|f| words_of(&f, &known.locks));
    let time_scale = root.get("time_scale").map(|f| f.number(0.001..=10.0));
    let trials = root.get("trials").map(|field| field.integer(1..=10_000));
    let seed = root.get("seed").map(|field| field.integer(0..=u64::MAX));
    let topology = root.get("topology").map(|field| topology(&field));
    let loaded = root.need("load", "{ workers = 200, duration = \"90s\" }");
    let (instances, load) = loaded
        .and_then(|field| field.table())
        .map_or((None, None), load);
    let workload = root.need("workload", "{ kind = \"flash-sale\", stock = 100 }");
    let workload = workload.and_then(|field| workload_of(field.table()?));
    let section = root.need("section", "{ constant = \"50ms\" }");
    let section = section.and_then(|field| section_of(field.table()?));
    let lock = root.need("lock", "{ kind = \"token-lua\", ttl = \"5s\" }");
    let lock = lock.and_then(|field| lock_of(field.table()?, known));
    let store = root.get("store").map(|field| store_of(field.table()?));
    // Where nothing is known of the servers, nothing is said of what needs some.
    let sentinel = !matches!(
        topology,
        None | Some(Some(Topology::Single | Topology::Quorum { .. }))
    );
    let known_place = Place {
        instances,
        sentinel,
    };
    let faults = root
        .get("fault")
        .map(|field| faults_of(&field, known_place));
    let of = trials.flatten().unwrap_or(1) as u32;
    let expect = root
        .get("expect")
        .map(|field| expectations(&field, of, known));
    root.finish();
    let (section, heeds_lost_lease) = section?;
    let lock = lock?;
    let locks = locks.unwrap_or(Some(vec![]))?;
    let shows = shows.unwrap_or(Some(vec![]))?;
    let (store, guard) = store.unwrap_or(Some((Store::Sqlite, Guard::None)))?;
    Some(Scenario {
        name: name?,
        title: title.flatten().unwrap_or_default(),
        shows: Trap::ALL
            .into_iter()
            .filter(|trap| shows.iter().any(|word| word == trap.word()))
            .collect(),
        locks,
        time_scale: time_scale.unwrap_or(Some(1.0))?,
        trials: trials.unwrap_or(Some(1))? as u32,
        seed: seed.unwrap_or(Some(1))?,
        topology: topology.unwrap_or(Some(Topology::Single))?,
        load: load?,
        workload: workload?,
        section,
        heeds_lost_lease,
        lock: lock.kind,
        ttl: lock.ttl,
        wait: lock.wait,
        mistake: lock.mistake,
        response_timeout: lock.response_timeout,
        store,
        guard,
        faults: faults.unwrap_or(Some(vec![]))?,
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
    let kind = kind.and_then(|field| field.word(&["single", "quorum", "sentinel"]));
    let topology = match kind {
        Some("sentinel") => {
            let replicas = table.get("replicas").map(|field| field.integer(1..=3));
            let field = table.get("min_replicas_to_write");
            let least = field.as_ref().map(|field| field.integer(0..=3));
            let read = replicas.unwrap_or(Some(2)).zip(least.unwrap_or(Some(0)));
            if let (Some(field), Some((replicas, least))) = (field, read)
                && least > replicas
            {
                field.misfit(format!(
                    "there are only {replicas} replicas: no write is ever taken"
                ));
            }
            read.map(|(replicas, least)| Topology::Sentinel {
                replicas: replicas as u32,
                min_replicas_to_write: least as u32,
            })
        }
        Some("quorum") => {
            let nodes = table.get("nodes").map(|field| field.integer(1..=9));
            nodes.unwrap_or(Some(5)).map(|nodes| Topology::Quorum {
                nodes: nodes as u32,
            })
        }
        kind => kind.map(|_| Topology::Single),
    };
    table.finish();
    topology
}

/// How many instances there are, for those who name one; and the load.
fn load(table: Table<'_>) -> (Option<u64>, Option<Load>) {
    let instances = table
        .get("instances")
        .map_or(Some(1), |field| field.integer(1..=10_000));
    let workers_field = table.need("workers", "200");
    let workers = workers_field.as_ref().and_then(|f| f.integer(1..=10_000));
    if let (Some(field), Some(instances), Some(workers)) = (workers_field, instances, workers)
        && workers < instances
    {
        field.misfit(format!(
            "`load.workers` counts all workers: at least one for each of the {instances} instances"
        ));
    }
    (instances, load_of(table, instances, workers))
}

fn load_of(table: Table<'_>, instances: Option<u64>, workers: Option<u64>) -> Option<Load> {
    let operations = table
        .get("operations")
        .map(|field| field.integer(1..=1_000_000_000));
    let duration = table.need("duration", "\"90s\"");
    let duration = duration.and_then(|field| positive(&field));
    let think = table.get("think").map(|field| dist(&field));
    table.finish();
    Some(Load {
        instances: instances? as u32,
        workers: workers? as u32,
        operations: operations.map_or(Some(None), |read| read.map(Some))?,
        duration_ns: nanos(duration?),
        think: think.unwrap_or(Some(Dist::Constant { ns: 0 }))?,
    })
}

fn workload_of(table: Table<'_>) -> Option<Workload> {
    let kind = table.need("kind", "\"flash-sale\"");
    let kind = kind
        .and_then(|field| field.word(&["flash-sale", "reconcile", "counter", "cron", "leader"]));
    let workload = match kind {
        Some("flash-sale") => flash_sale(&table),
        Some("reconcile") => {
            let accounts = number(&table, "accounts", "1");
            let entries = number(&table, "entries", "20");
            accounts
                .zip(entries)
                .map(|(accounts, entries)| Workload::Reconcile { accounts, entries })
        }
        Some("cron") => {
            let ticks = number(&table, "ticks", "10");
            let every = table.need("every", "\"60s\"").and_then(|f| positive(&f));
            ticks.zip(every).map(|(ticks, every)| Workload::Cron {
                ticks,
                every_ns: nanos(every),
            })
        }
        Some("counter") => Some(Workload::Counter),
        Some(_) => Some(Workload::Leader),
        // Without its kind nothing is known about the other keys: no follow-on mistakes.
        None => {
            table.finish_unsure();
            return None;
        }
    };
    table.finish();
    workload
}

fn number(table: &Table<'_>, key: &'static str, example: &str) -> Option<u32> {
    let field = table.need(key, example);
    let number = field.and_then(|field| field.integer(1..=1_000_000));
    number.map(|number| number as u32)
}

fn flash_sale(table: &Table<'_>) -> Option<Workload> {
    let stock = number(table, "stock", "100");
    let skus = table.get("skus").map(|field| field.integer(1..=10_000));
    let field = table.get("granularity");
    let word = (field.as_ref()).map(|f| f.word(&Granularity::ALL.map(Granularity::word)));
    let (stock, skus, word) = (
        stock?,
        skus.unwrap_or(Some(1))? as u32,
        word.unwrap_or(Some("sku"))?,
    );
    let granularity = (Granularity::ALL.into_iter()).find(|known| known.word() == word)?;
    let units = u64::from(stock) * u64::from(skus);
    let most = Granularity::MOST_UNITS;
    if let (Granularity::Unit, true, Some(field)) = (granularity, units > most, field) {
        field.problem(format!(
            "{skus} SKUs with {stock} units each make {units} locks, one for each unit: at most \
             {most}; less `stock`, or `granularity = \"sku\"`"
        ));
    }
    Some(Workload::FlashSale {
        stock,
        skus,
        granularity,
    })
}

struct LockWords {
    kind: String,
    ttl: Duration,
    wait: Wait,
    mistake: Option<Mistake>,
    response_timeout: Option<Duration>,
}

fn lock_of(table: Table<'_>, known: &Vocabulary) -> Option<LockWords> {
    let kind = table.need("kind", "\"token-lua\"");
    let kind = kind.and_then(|field| field.word(&known.locks));
    let ttl = table.need("ttl", "\"5s\"").and_then(|f| positive(&f));
    let wait = table.get("wait").map(|field| wait(&field));
    let mistake = table.get("mistake").map(|field| mistake(&field));
    let timeout = table.get("response_timeout").map(|f| positive(&f));
    table.finish();
    Some(LockWords {
        kind: kind?.to_owned(),
        ttl: ttl?,
        wait: wait.unwrap_or(Some(Wait::FailFast))?,
        mistake: mistake.map_or(Some(None), |read| read.map(Some))?,
        response_timeout: timeout.map_or(Some(None), |read| read.map(Some))?,
    })
}

fn mistake(field: &Field<'_>) -> Option<Mistake> {
    let word = field.word(&Mistake::ALL.map(Mistake::word))?;
    Mistake::ALL.into_iter().find(|known| known.word() == word)
}

fn wait(field: &Field<'_>) -> Option<Wait> {
    if field.is_str() {
        return field.word(&["fail-fast"]).map(|_| Wait::FailFast);
    }
    if !field.is_table() {
        return field.wrong("\"fail-fast\" or a table with `retry_every` and `give_up_after`");
    }
    let table = field.table()?;
    if let Some(bound) = table.get("wake_up_within") {
        let bound = positive(&bound);
        table.finish();
        return bound.map(|bound| Wait::WakeUp {
            bound_ns: nanos(bound),
        });
    }
    let every = table.need("retry_every", "\"50ms\"");
    let every = every.and_then(|field| positive(&field));
    let jitter = table.get("jitter").map(|field| field.number(0.0..=1.0));
    let backoff = table.get("backoff").map(|field| field.number(1.0..=10.0));
    let give_up = table.need("give_up_after", "\"10s\"");
    let give_up = give_up.and_then(|field| positive(&field));
    table.finish();
    Some(Wait::Retry {
        every_ns: nanos(every?),
        jitter: jitter.unwrap_or(Some(0.5))?,
        backoff: backoff.unwrap_or(Some(1.0))?,
        give_up_after_ns: nanos(give_up?),
    })
}

fn store_of(table: Table<'_>) -> Option<(Store, Guard)> {
    let kind = table
        .get("kind")
        .map(|f| f.word(&Store::ALL.map(Store::word)));
    let guard = table
        .get("guard")
        .map(|f| f.word(&Guard::ALL.map(Guard::word)));
    table.finish();
    let kind = kind.unwrap_or(Some("sqlite"))?;
    let store = Store::ALL.into_iter().find(|store| store.word() == kind)?;
    let word = guard.unwrap_or(Some("none"))?;
    let guard = Guard::ALL.into_iter().find(|guard| guard.word() == word)?;
    Some((store, guard))
}

/// What faults may strike.
#[derive(Clone, Copy)]
struct Place {
    /// How many instances, if that is known.
    instances: Option<u64>,
    /// Whether there are, or may be, Sentinels.
    sentinel: bool,
}

fn faults_of(field: &Field<'_>, place: Place) -> Option<Vec<Fault>> {
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
    let kinds = ["freeze", "crash", "refuse-writes", "lost-grant"];
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
        Some("lost-grant") => {
            if let Some(field) = kind_field.filter(|_| !place.sentinel) {
                field.misfit("`lost-grant` needs `topology = { kind = \"sentinel\" }`");
            }
            if let Some(field) = at_field.filter(|_| matches!(at, Some(At::Time { .. }))) {
                field.misfit("`lost-grant` strikes at a `point`: it is about one grant");
            }
            Some(How::LostGrant)
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

/// What is expected of each lock, in a scenario of so many trials.
fn expectations(
    field: &Field<'_>,
    of: u32,
    known: &Vocabulary,
) -> Option<BTreeMap<String, Expect>> {
    let table = field.table()?;
    let mut expect = Some(BTreeMap::new());
    for entry in table.entries() {
        if !known.locks.contains(&entry.key()) {
            let help = suggest(entry.key(), &known.locks);
            entry.key_problem(format!("unknown lock `{}`; {help}", entry.key()));
        }
        match expectation(entry, of, known) {
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

fn expectation(field: &Field<'_>, of: u32, known: &Vocabulary) -> Option<Expect> {
    if field.is_str() {
        return match field.word(&["pass", "violation"])? {
            "pass" => Some(Expect::Pass),
            _ => Some(Expect::any_violation()),
        };
    }
    if !field.is_table() {
        return field.wrong("\"pass\", \"violation\" or a table that names the violations");
    }
    let table = field.table()?;
    let properties = table.need("violation", "[\"oversell\"]");
    let properties = properties.and_then(|field| words_of(&field, &known.properties));
    let never_field = table.get("never");
    let never = never_field
        .as_ref()
        .map(|field| words_of(field, &known.properties));
    if let (Some(field), Some(must), Some(Some(never))) = (&never_field, &properties, &never) {
        for word in never.iter().filter(|word| must.contains(word)) {
            field.problem(format!("\"{word}\" is expected above, and never here"));
        }
    }
    let often = table.get("trials").map(|f| f.word(&["each", "some"]));
    table.finish();
    Some(Expect::Violation {
        properties: properties?,
        never: never.unwrap_or(Some(vec![]))?,
        often: match often.unwrap_or(Some("each"))? {
            "some" => Often::Some { of },
            _ => Often::Each,
        },
    })
}

/// A list of words, each a known one.
fn words_of(field: &Field<'_>, known: &[&'static str]) -> Option<Vec<String>> {
    let words: Vec<_> = field
        .list()?
        .iter()
        .map(|field| field.word(known).map(str::to_owned))
        .collect();
    words.into_iter().collect()
}
