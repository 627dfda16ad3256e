//! One trial: hundreds of instances driven at real servers, with faults, into a history. Decides
//! nothing about right or wrong.

mod driver;
mod freeze;
mod instance;
pub mod lag;
mod load;
mod operation;
mod pace;
mod section;
mod waiting;
mod worker;

pub use driver::{RunError, run};
