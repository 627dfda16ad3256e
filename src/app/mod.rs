//! What each command does, told as a table of contents: load the scenario, decide the plan, raise
//! the servers, run, keep the history, check it, merge, report.

mod check;
mod compare;
mod doctor;
mod list;
mod matrix;
mod replay;
mod run;
mod scenarios;
mod session;
mod trial;
mod validate;

pub use check::check;
pub use compare::compare;
pub use doctor::doctor;
pub use list::{Registry, list};
pub use matrix::{Request as MatrixRequest, matrix};
pub use replay::replay;
pub use run::run;
pub use session::{Failure, Output, Session};
pub use validate::validate;
