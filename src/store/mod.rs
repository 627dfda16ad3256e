//! The database of the business: what an operation reads and writes there, and the ledger that is
//! left at the end. Guards are the database's own constraints, never code above it.

pub mod sqlite;

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
    /// Units left of an item: in stock, or not yet processed.
    fn read(&self, item: u32) -> Boxed<'_, Result<i64, StoreError>>;

    /// Takes what was seen, whatever the store holds by now.
    fn write(&self, write: Write) -> Boxed<'_, Result<Written, StoreError>>;
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
    pub seen: i64,
}

/// What a business write did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// What the store held just before.
    pub replaced: i64,
    /// Orders or postings added.
    pub rows: u32,
    /// Orders or postings that the guard refused.
    pub rejected: u32,
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
}
