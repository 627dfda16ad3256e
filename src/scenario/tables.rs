//! Reads a scenario table by table: one function a table of the file.
//!
//! Each reader gathers its mistakes and gives None when a part that it needs is unusable, so every
//! `?` stands after all parts of its table were read.

use std::collections::BTreeMap;
use std::time::Duration;

use super::acknowledged::{Acknowledged, acknowledged};
use super::dist::Dist;
use super::expect::expectations;
use super::fault::{Place, faults_of};
use super::mistake::{Mistake, mistake};
use super::pace::{Schedule, Stage, rate_of, stages_of};
use super::read::{Field, Table};
use super::shape::{
    Granularity, Guard, Load, Scenario, Store, Topology, Vocabulary, Wait, Workload,
};
use super::threshold::thresholds_of;
use super::times::{dist, positive, section_of};
use super::trap::Trap;
use crate::clock::nanos;

/// The file as a whole.
pub(super) fn scenario(root: Table<'_>, known: &Vocabulary) -> Option<Scenario> {
    let name = root.need("name", "\"my-incident\"").and_then(file_name);
    let title = root.get("title").map(|field| field.string());
    let shows = root
        .get("shows")
        .map(|f| f.words(&Trap::ALL.map(Trap::word)));
    let locks = root.get("locks").map(|f| f.words(&known.locks));
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
        quorum: !matches!(
            topology,
            None | Some(Some(Topology::Single | Topology::Sentinel { .. }))
        ),
    };
    let faults = root
        .get("fault")
        .map(|field| faults_of(&field, known_place));
    let of = trials.flatten().unwrap_or(1) as u32;
    let expect = root
        .get("expect")
        .map(|field| expectations(&field, of, known));
    let thresholds = root.get("thresholds").map(|field| thresholds_of(&field));
    root.finish();
    let (section, heeds_lost_lease) = section?;
    let lock = lock?;
    let locks = locks.unwrap_or(Some(vec![]))?;
    let shows = shows.unwrap_or(Some(vec![]))?;
    let (store, guard) = store.unwrap_or(Some((Store::Sqlite, Guard::None)))?;
    Some(Scenario {
        file: String::new(),
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
        acknowledged: lock.acknowledged,
        mistake: lock.mistake,
        response_timeout: lock.response_timeout,
        store,
        guard,
        faults: faults.unwrap_or(Some(vec![]))?,
        thresholds: thresholds.unwrap_or(Some(vec![]))?,
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
            let down_after = table.get("down_after").map(|field| down_after(&field));
            let down_after = down_after.unwrap_or(Some(Topology::down_after()));
            if let (Some(field), Some((replicas, least))) = (field, read)
                && least > replicas
            {
                field.misfit(format!(
                    "there are only {replicas} replicas: no write is ever taken"
                ));
            }
            let read = read.zip(down_after);
            read.map(|((replicas, least), down_after_ms)| Topology::Sentinel {
                replicas: replicas as u32,
                min_replicas_to_write: least as u32,
                down_after_ms,
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

/// A shorter time would take a busy machine's primary for down.
fn down_after(field: &Field<'_>) -> Option<u32> {
    let duration = field.duration()?;
    let (least, most) = (Duration::from_millis(500), Duration::from_secs(60));
    if !(least..=most).contains(&duration) {
        field.problem(format!("`{}` must lie between 500ms and 60s", field.path));
        return None;
    }
    Some(duration.as_millis() as u32)
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
    let rate = table.get("rate").map(|field| rate_of(&field));
    let stages_field = table.get("stages");
    if let (Some(field), Some(_)) = (&stages_field, &rate) {
        field.problem("`rate` and `stages` exclude each other");
    }
    let stages = stages_field.as_ref().map(stages_of);
    let duration = match stages_field {
        Some(_) => table.get("duration"),
        None => table.need("duration", "\"90s\""),
    };
    let duration = duration.map(|field| positive(&field));
    let think = table.get("think").map(|field| dist(&field));
    table.finish();
    let stages = stages.unwrap_or(Some(vec![]))?;
    let long = Schedule::new(&stages).map(|schedule| schedule.long());
    Some(Load {
        stages: match rate {
            Some(rate) => vec![Stage::steady(rate?)],
            None => stages,
        },
        instances: instances? as u32,
        workers: workers? as u32,
        operations: operations.map_or(Some(None), |read| read.map(Some))?,
        duration_ns: nanos(duration.unwrap_or(long)?),
        think: think.unwrap_or(Some(Dist::Constant { ns: 0 }))?,
    })
}

fn workload_of(table: Table<'_>) -> Option<Workload> {
    let kind = table.need("kind", "\"flash-sale\"");
    let kind = kind.and_then(|field| {
        field.word(&[
            "flash-sale",
            "reconcile",
            "counter",
            "tally",
            "cron",
            "leader",
        ])
    });
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
        Some("tally") => {
            number(&table, "keys", "100").map(|keys| Workload::Tally { keys, own: false })
        }
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
    acknowledged: Option<Acknowledged>,
    mistake: Option<Mistake>,
    response_timeout: Option<Duration>,
}

fn lock_of(table: Table<'_>, known: &Vocabulary) -> Option<LockWords> {
    let kind = table.need("kind", "\"token-lua\"");
    let kind = kind.and_then(|field| field.word(&known.locks));
    let ttl = table.need("ttl", "\"5s\"").and_then(|f| positive(&f));
    let wait = table.get("wait").map(|field| wait(&field));
    let acknowledged = acknowledged(&table);
    let mistake = table.get("mistake").map(|field| mistake(&field));
    let timeout = table.get("response_timeout").map(|f| positive(&f));
    table.finish();
    Some(LockWords {
        kind: kind?.to_owned(),
        ttl: ttl?,
        wait: wait.unwrap_or(Some(Wait::FailFast))?,
        acknowledged: acknowledged?,
        mistake: mistake.map_or(Some(None), |read| read.map(Some))?,
        response_timeout: timeout.map_or(Some(None), |read| read.map(Some))?,
    })
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
