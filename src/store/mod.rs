//! The database of the business: what an operation reads and writes there, and the ledger that is
//! left at the end.
//!
//! Every store knows the same guards, and each is the database's own doing, never code above it:
//!
//! | guard | SQL | Redis |
//! |---|---|---|
//! | `none` | what was seen, changed, is written over whatever is there | the same, in one script |
//! | `unique` | a unique index: a unit has one order, an entry one posting, a value one increment | `HSETNX` of that name |
//! | `fence` | `UPDATE ... WHERE fence <= :token`: an older grant's write is refused | the script compares |
//! | `conditional` | `units - 1 WHERE units > 0`, `value + 1`, entries `WHERE processed = 0` | the script's condition |
//! | `optimistic` | `UPDATE ... WHERE version = :seen` | `WATCH`, `MULTI`, `EXEC` |
//!
//! A write changes the item and adds its row, both or neither. It runs to its end even when its
//! instance stands still or has died: so does a statement that a real process has sent.

mod database;
mod jobs;
pub mod memory;
pub mod postgres;
pub mod redis;
mod shape;
pub mod sqlite;

pub use database::{Database, Opened, StoreUrl, ledger_file, stored_ledger};

use std::future::Future;
use std::pin::Pin;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::Time;
use crate::history::OpId;

/// A future on its own, as trait objects need it.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A database that the section reads and writes in two statements of its own: a transaction
/// around both would hide the race that a lock has to prevent.
pub trait Store: Send + Sync {
    /// What there is of an item: units in stock, entries not yet processed, a counter's value.
    fn read(&self, item: u32) -> Boxed<'_, Result<Seen, StoreError>>;

    /// Acts on what was seen, whatever the store holds by now; its guard may refuse.
    fn write(&self, write: Write) -> Boxed<'_, Result<Written, StoreError>>;

    /// Waits until all that was asked of it has ended, within bounds.
    fn settled(&self) -> Boxed<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// What the business has, when nobody is at work any more.
    fn ledger(&self) -> Boxed<'_, Result<Ledger, StoreError>>;

    /// What the business has while others are at work, who must not be held up by the question;
    /// none where it cannot be asked without that.
    fn ledger_meanwhile(&self) -> Boxed<'_, Result<Option<Ledger>, StoreError>> {
        Box::pin(async { Ok(None) })
    }
}

/// What was read of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Units in stock, entries not yet processed, or the counter's value.
    pub value: i64,
    /// How often the item was written before; the guard `optimistic` compares it.
    pub version: i64,
}

/// One business write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Write {
    /// The operation, for the ledger.
    pub op: OpId,
    /// Its instance, for the ledger.
    pub instance: u32,
    /// Its worker, for the ledger.
    pub worker: u32,
    /// When, for the ledger.
    pub at: Time,
    /// The item.
    pub item: u32,
    /// What the operation had read of it.
    pub seen: Seen,
    /// The fencing token of its grant, if it has one.
    pub fence: Option<i64>,
}

/// What a business write did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// What the store held just before.
    pub replaced: i64,
    /// What it holds now.
    pub left: i64,
    /// Orders, postings or increments added.
    pub rows: u32,
    /// Orders, postings or increments that the guard refused.
    pub rejected: u32,
}

impl Written {
    /// A write that the guard refused.
    pub fn refused(replaced: i64) -> Written {
        Written {
            replaced,
            left: replaced,
            rows: 0,
            rejected: 1,
        }
    }
}

/// Why a store did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);

/// What the business has at the end: the last word on what was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Ledger {
    /// Units in stock at the start.
    pub stock: i64,
    /// Units that the stock still shows.
    pub remaining: i64,
    /// Orders that landed.
    pub orders: i64,
    /// Orders beyond the stock.
    pub oversold: i64,
    /// Units for which there is no order.
    pub unsold: i64,
    /// Entries to process.
    pub entries: i64,
    /// Postings that landed.
    pub postings: i64,
    /// Entries with more than one posting.
    pub double_processed: i64,
    /// Entries with none.
    pub never_processed: i64,
    /// Increments that landed.
    pub increments: i64,
    /// What the counters show.
    pub counted: i64,
}
