//! The real servers of a run: found, started, watched and ended here. They listen on 127.0.0.1,
//! keep their files in a temporary folder, and die with the driver however it dies. Or a user has
//! them: then nothing is started, and everything is left as it was found.

mod external;
mod journal;
mod limits;
mod look;
mod machine;
mod origin;
mod postgres;
mod primaries;
mod process;
mod recipe;
mod rights;
mod sentinel;
mod servers;
mod settings;
mod stay;
mod wall_clock;

pub use external::{External, Outside, Unhealed, heal_at, unhealed};
pub use journal::Was;
pub use limits::{open_file_limit, raise_open_file_limit};
pub use look::ExternalError;
pub use machine::Machine;
pub use origin::Origin;
pub use postgres::{Postgres, PostgresError};
pub use primaries::{Promotion, Seen, Split};
pub use process::{Binary, StartError, find, looked_for};
pub use rights::missing;
pub use sentinel::Group;
pub use servers::{Reach, Servers};
pub use settings::{REPLICA_OF, Settings};
pub use stay::{Stay, own_name};
