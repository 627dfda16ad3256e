//! The user's words: what a scenario file may say, and every problem with it at once, each with
//! its line and column. Durations stay in the incident's own units here; the plan scales them.
//! Knows no lock, server or run: the names that exist elsewhere come in as a [`Vocabulary`].

mod acknowledged;
pub mod built_in;
pub mod dist;
mod expect;
mod failover_fault;
mod fault;
mod instance_fault;
mod link_fault;
mod means;
mod mistake;
pub mod pace;
mod problem;
mod read;
mod schedule;
mod server_fault;
mod shape;
mod syntax;
mod tables;
pub mod threshold;
mod times;
mod trap;
mod when;

pub use acknowledged::Acknowledged;
pub use dist::Dist;
pub use expect::{Expect, Often};
pub use fault::{Fault, How, Reply};
pub use instance_fault::InstanceFault;
pub use link_fault::{Between, ErrorWord, LinkFault, Stopped};
pub use means::Means;
pub use mistake::Mistake;
pub use pace::Stage;
pub use problem::{Invalid, Problem};
pub use schedule::{At, Moment, Point, Repeat, Seen};
pub use server_fault::ServerFault;
pub use shape::{Granularity, Guard, Load, Scenario, Store, Topology, Vocabulary, Wait, Workload};
pub use threshold::Threshold;
pub use trap::Trap;
