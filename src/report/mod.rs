//! Results to bytes: the terminal's summary, `report.json`, `junit.xml`, `latency.hgrm`. Where the
//! bytes go is decided elsewhere, and what they say was decided by the checks.

mod comparison;
pub mod experiment;
pub mod granularity;
pub mod hgrm;
pub mod hlog;
pub mod json;
pub mod junit;
pub mod matrix;
pub mod openmetrics;
pub mod soak;
mod statistics;
pub mod sweep;
pub mod terminal;
pub mod threshold;

pub use experiment::Experiment;
pub use json::{Report, Trial};
pub use statistics::Share;
