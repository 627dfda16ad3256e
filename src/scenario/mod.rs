//! The user's words: what a scenario file may say, and every problem with it at once, each with
//! its line and column. Durations stay in the incident's own units here; the plan scales them.
//! Knows no lock, server or run: the names that exist elsewhere come in as a [`Vocabulary`].

pub mod built_in;
pub mod dist;
mod expect;
mod fault;
mod mistake;
pub mod pace;
mod problem;
mod read;
mod server_fault;
mod shape;
mod syntax;
mod tables;
pub mod threshold;
mod times;
mod trap;

pub use dist::Dist;
pub use expect::{Expect, Often};
pub use fault::{At, Fault, How, Point, Reply};
pub use mistake::Mistake;
pub use pace::Stage;
pub use problem::{Invalid, Problem};
pub use server_fault::ServerFault;
pub use shape::{Granularity, Guard, Load, Scenario, Store, Topology, Vocabulary, Wait, Workload};
pub use threshold::Threshold;
pub use trap::Trap;
