//! `oversold` answers one question with evidence: does this Redis lock hold, and if it does not,
//! what does it cost the business?
//!
//! It drives simulated application instances at a real Redis, breaks things on purpose, records
//! all that happened and judges the ledger afterwards:
//!
//! scenario → plan → topology + store → run → history → check → verdict → report
//!
//! Nothing flows back. A module uses only the floors below its own, which `tests/architecture.rs`
//! enforces.

pub mod app;
pub mod check;
pub mod cli;
pub mod client;
pub mod clock;
pub mod fault;
pub mod history;
pub mod link;
pub mod lock;
pub mod plan;
pub mod progress;
pub mod report;
pub mod run;
pub mod scenario;
pub mod seed;
pub mod store;
pub mod summary;
pub mod topology;
pub mod verdict;
pub mod workload;
