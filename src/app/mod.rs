//! What each command does, told as a table of contents: load the scenario, decide the plan, raise
//! the servers, run, keep the history, check it, merge, report.

mod check;
mod compare;
mod doctor;
mod granularity;
mod heal;
mod intervals;
mod list;
mod live;
mod matrix;
mod metrics;
mod rate_sweep;
mod recording;
mod replay;
mod run;
mod scenarios;
mod session;
mod soak;
mod sweep;
mod trial;
mod ttl_sweep;
mod validate;

pub use check::check;
pub use compare::compare;
pub use doctor::doctor;
pub use granularity::granularity;
pub use heal::heal;
pub use list::{Registry, list};
pub use matrix::{Request as MatrixRequest, matrix};
pub use rate_sweep::{Request as RateSweepRequest, rate_sweep};
pub use replay::replay;
pub use run::run;
pub use session::{Failure, Output, Session};
pub use soak::soak;
pub use ttl_sweep::{Request as TtlSweepRequest, ttl_sweep};
pub use validate::validate;
