//! The business in the section: what an operation is about and when it is due, which key protects
//! it, and what these are called. Knows the user's words, not the database.

use std::time::Duration;

use crate::history::OpId;
use crate::scenario::{Granularity, Workload};

/// A workload as the registry knows it.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Its name in scenarios.
    pub name: &'static str,
    /// One line for a list.
    pub about: &'static str,
}

/// Every workload there is.
pub static ALL: [Entry; 6] = [
    Entry {
        name: "flash-sale",
        about: "sell the units of some SKUs; counts oversell (stock, skus, granularity)",
    },
    Entry {
        name: "reconcile",
        about: "process each entry of an account once; counts doubles (accounts, entries)",
    },
    Entry {
        name: "counter",
        about: "add one to a counter; counts lost updates",
    },
    Entry {
        name: "tally",
        about: "add one to the counter of a drawn key, each under a lock of its own (keys)",
    },
    Entry {
        name: "cron",
        about: "run each tick exactly once, whoever does; twice and never are wrong (ticks, every)",
    },
    Entry {
        name: "leader",
        about: "lead for the length of a section; at most one at a time (tells how long nobody led)",
    },
];

/// What one operation is about, and from when on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The item.
    pub item: u32,
    /// Since the start of the run.
    pub due: Duration,
}

/// What an operation of a worker is about: `drawn`, except where the schedule says it, or where the
/// worker has its own.
pub fn place(workload: &Workload, op: OpId, worker: u32, instances: u32, drawn: u32) -> Place {
    match *workload {
        Workload::Tally { keys, own: true } => Place {
            item: worker % keys.max(1),
            due: Duration::ZERO,
        },
        // Every instance tries every tick.
        Workload::Cron { ticks, every_ns } => {
            let tick = (op / u64::from(instances.max(1))).min(u64::from(ticks) - 1) as u32;
            Place {
                item: tick,
                due: Duration::from_nanos(every_ns) * tick,
            }
        }
        _ => Place {
            item: drawn,
            due: Duration::ZERO,
        },
    }
}

/// How many items there are.
pub fn items(workload: &Workload) -> u32 {
    match workload {
        Workload::FlashSale {
            stock,
            skus,
            granularity: Granularity::Unit,
        } => stock.saturating_mul(*skus),
        Workload::FlashSale { skus, .. } => *skus,
        Workload::Reconcile { accounts, .. } => *accounts,
        Workload::Cron { ticks, .. } => *ticks,
        Workload::Tally { keys, .. } => *keys,
        Workload::Counter | Workload::Leader => 1,
    }
}

/// What each item holds at the start: units in stock, entries, or the counter's value.
pub fn each(workload: &Workload) -> u32 {
    match workload {
        Workload::FlashSale {
            granularity: Granularity::Unit,
            ..
        }
        | Workload::Cron { .. } => 1,
        Workload::FlashSale { stock, .. } => *stock,
        Workload::Reconcile { entries, .. } => *entries,
        Workload::Counter | Workload::Tally { .. } | Workload::Leader => 0,
    }
}

/// How many keys protect them.
pub fn keys(workload: &Workload) -> u32 {
    match workload {
        Workload::FlashSale {
            granularity: Granularity::All,
            ..
        } => 1,
        _ => items(workload),
    }
}

/// The key that protects an item.
pub fn key_of(workload: &Workload, item: u32) -> u32 {
    item.min(keys(workload) - 1)
}

/// How much is left to do of an item that shows this value. A counter is never done.
pub fn left(workload: &Workload, value: i64) -> i64 {
    match workload.counts_up() {
        true => 1,
        false => value,
    }
}

/// The name of an item.
pub fn item_name(workload: &Workload, item: u32) -> String {
    match workload {
        Workload::FlashSale {
            stock,
            granularity: Granularity::Unit,
            ..
        } => format!("sku_{}_unit_{}", 10_086 + item / stock, item % stock + 1),
        Workload::FlashSale { .. } => format!("sku_{}", 10_086 + item),
        Workload::Reconcile { .. } => format!("account_{}", item + 1),
        Workload::Cron { .. } => format!("tick_{}", item + 1),
        Workload::Counter => "counter".to_owned(),
        Workload::Tally { .. } => format!("tally_{}", item + 1),
        Workload::Leader => "term".to_owned(),
    }
}

/// The name of a lock's key.
pub fn key_name(workload: &Workload, key: u32) -> String {
    let purpose = match workload {
        Workload::FlashSale {
            granularity: Granularity::All,
            ..
        } => return "stock:lock:all".to_owned(),
        Workload::FlashSale { .. } => "stock:lock",
        Workload::Reconcile { .. } => "lock:reconcile",
        Workload::Cron { .. } => "lock:cron",
        Workload::Counter | Workload::Tally { .. } | Workload::Leader => "lock",
    };
    format!("{purpose}:{}", item_name(workload, key))
}

/// The names of all locks' keys, which begin with a prefix.
pub fn key_names(workload: &Workload, prefix: &str) -> Vec<String> {
    let keys = 0..keys(workload);
    keys.map(|key| format!("{prefix}{}", key_name(workload, key)))
        .collect()
}
