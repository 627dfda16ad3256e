//! One trial: hundreds of instances driven at real servers, with faults, into a history. Decides
//! nothing about right or wrong.

mod driver;
mod external;
mod freeze;
mod instance;
pub mod lag;
mod left_behind;
mod load;
mod operation;
mod overheard;
mod pace;
mod section;
mod waiting;
mod worker;

pub use driver::{RunError, run};
