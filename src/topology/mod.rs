//! The real servers of a run: found, started, watched and ended here. They listen on 127.0.0.1,
//! keep their files in a temporary folder, and die with the driver however it dies.

mod limits;
mod machine;
mod postgres;
mod primaries;
mod process;
mod recipe;
mod sentinel;
mod servers;
mod wall_clock;

pub use limits::{open_file_limit, raise_open_file_limit};
pub use machine::Machine;
pub use postgres::{Postgres, PostgresError};
pub use primaries::{Promotion, Seen, Split};
pub use process::{Binary, StartError, find, looked_for};
pub use sentinel::Group;
pub use servers::{Reach, Servers};
