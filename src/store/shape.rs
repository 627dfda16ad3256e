//! What an item of a workload is in a database.

use crate::scenario::Workload;
use crate::workload;

/// The three shapes of a business.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A number that goes down, with an order each time.
    Stock,
    /// An account with entries, each to be posted once.
    Entries,
    /// A number that goes up, with an increment each time.
    Counter,
}

impl Shape {
    pub(super) fn of(workload: &Workload) -> Shape {
        match workload {
            Workload::FlashSale { .. } => Shape::Stock,
            Workload::Reconcile { .. } | Workload::Cron { .. } => Shape::Entries,
            Workload::Counter | Workload::Tally { .. } | Workload::Leader => Shape::Counter,
        }
    }

    /// The table of its items, and what identifies a row there.
    pub(super) fn table(self) -> (&'static str, &'static str) {
        match self {
            Shape::Stock => ("stock", "sku"),
            Shape::Entries => ("accounts", "id"),
            Shape::Counter => ("counters", "id"),
        }
    }
}

/// The business before the run: how many items there are, and what each one holds (units, entries
/// or the counter's value).
pub(super) fn beginning(workload: &Workload) -> (u32, u32) {
    (workload::items(workload), workload::each(workload))
}
