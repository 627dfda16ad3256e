//! What the benchmarks share: a made-up history of correct work, as a soak of 200 workers with a
//! key each would record it.

#![allow(
    dead_code,
    reason = "each benchmark is a crate of its own and uses a part"
)]

use std::path::PathBuf;

use oversold::check::Property;
use oversold::clock::Time;
use oversold::history::event::{Effect, Kind, Release, Stop};
use oversold::history::file::{Header, SCHEMA_VERSION};
use oversold::history::keep::{Kept, Writer};
use oversold::history::{Event, OpId};
use oversold::lock;
use oversold::plan::{Overrides, Plan};
use oversold::scenario::{Scenario, Vocabulary};
use oversold::store::Ledger;
use tempfile::TempDir;

/// How many workers there are, with a key each.
pub const WORKERS: u32 = 200;
/// From one event to the next: 200 cycles of a lock take some 5 ms together.
const STEP_NS: u64 = 2_500;

/// How many events are handed over at a time.
pub const BATCH: usize = 100_000;

/// The plan of the made-up history.
pub fn plan() -> Result<Plan, Box<dyn std::error::Error>> {
    let known = Vocabulary {
        locks: lock::names(),
        properties: Property::words(),
    };
    let text = format!(
        r#"
        name = "bench"
        workload = {{ kind = "counter" }}
        section = {{ constant = "0s" }}
        [load]
        instances = {WORKERS}
        workers = {WORKERS}
        duration = "1h"
        [lock]
        kind = "token-lua"
        ttl = "5s"
        "#
    );
    let scenario = Scenario::parse("bench", &text, &known)?;
    Ok(Plan::resolve(
        &scenario,
        &Overrides::default(),
        "token-lua",
        1,
    ))
}

/// What an operation records, from its arrival to its end.
fn life(op: OpId, worker: u32, value: i64) -> [Kind; 11] {
    let (instance, key, item) = (worker, worker, worker);
    [
        Kind::Arrived {
            op,
            instance,
            worker,
            key,
            planned_ns: None,
        },
        Kind::Asked { op },
        Kind::Granted {
            op,
            ttl_ns: Some(5_000_000_000),
            locked: true,
            fence: None,
        },
        Kind::Entered { op },
        Kind::Read { op, item, value },
        Kind::Working { op, work_ns: 0 },
        Kind::Wrote {
            op,
            item,
            seen: value,
            replaced: value,
            left: value + 1,
            effect: Effect::Written {
                rows: 1,
                rejected: 0,
            },
        },
        Kind::Left { op },
        Kind::ReleaseAsked { op },
        Kind::Released {
            op,
            outcome: Release::Removed,
        },
        Kind::Done { op },
    ]
}

/// So many events, those of all workers mixed as they would be.
pub fn history(events: usize) -> impl Iterator<Item = Event> {
    let mut at = 0;
    let rounds = (0..).flat_map(|round: u64| {
        let lives: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let op = round * u64::from(WORKERS) + u64::from(worker);
                life(op, worker, 1 + round as i64)
            })
            .collect();
        let steps = (0..11).flat_map(move |step| {
            let lives = lives.clone();
            (0..WORKERS as usize).map(move |worker| lives[worker][step].clone())
        });
        steps.collect::<Vec<_>>()
    });
    let end = [
        Kind::Draining {
            why: Stop::OperationsDone,
        },
        Kind::Ended {},
    ];
    rounds.take(events).chain(end).map(move |event| {
        at += STEP_NS;
        let at_ns = Time(at);
        Event { at_ns, event }
    })
}

/// The ledger of so many increments.
pub fn ledger(increments: i64) -> Ledger {
    Ledger {
        increments,
        counted: increments,
        ..Ledger::default()
    }
}

/// A made-up history in a file, as a run leaves one.
#[derive(Debug)]
pub struct Stored {
    /// Where it is.
    pub path: PathBuf,
    _folder: TempDir,
}

impl Stored {
    /// So many events.
    pub fn new(events: usize) -> Result<Stored, Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join(Kept::Full.file());
        let plan = plan()?;
        let header = Header {
            schema_version: SCHEMA_VERSION,
            kept: Kept::Full,
            server: "none".to_owned(),
            keys: (0..WORKERS).map(|n| format!("lock:{n}")).collect(),
            items: vec!["counter".to_owned()],
            plan: &plan,
        };
        let mut writer = Writer::create(&path, &header, plan.ttl())?;
        let mut events = history(events);
        loop {
            let batch: Vec<Event> = events.by_ref().take(BATCH).collect();
            if batch.is_empty() {
                break;
            }
            writer.append(&batch, false);
        }
        writer.finish()?;
        Ok(Stored {
            path,
            _folder: folder,
        })
    }
}
