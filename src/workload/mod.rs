//! The business in the section: which key an operation locks, which item it reads and writes, and
//! what these are called. Knows the user's words, not the database.

use crate::scenario::Workload;

/// A workload as the registry knows it.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Its name in scenarios.
    pub name: &'static str,
    /// One line for a list.
    pub about: &'static str,
}

/// Every workload there is.
pub static ALL: [Entry; 2] = [
    Entry {
        name: "flash-sale",
        about: "sell the units of one SKU; counts oversell (stock = units)",
    },
    Entry {
        name: "reconcile",
        about: "process each entry of an account once; counts double-processing (accounts, entries)",
    },
];

/// How many different keys, and as many items, the workload has. Item n is protected by key n.
pub fn items(workload: &Workload) -> u32 {
    match workload {
        Workload::FlashSale { .. } => 1,
        Workload::Reconcile { accounts, .. } => *accounts,
    }
}

/// The name of an item.
pub fn item_name(workload: &Workload, item: u32) -> String {
    match workload {
        Workload::FlashSale { .. } => format!("sku_{}", 10_086 + item),
        Workload::Reconcile { .. } => format!("account_{}", item + 1),
    }
}

/// The key of an item's lock.
pub fn key_name(workload: &Workload, item: u32) -> String {
    let purpose = match workload {
        Workload::FlashSale { .. } => "stock:lock",
        Workload::Reconcile { .. } => "lock:reconcile",
    };
    format!("{purpose}:{}", item_name(workload, item))
}
