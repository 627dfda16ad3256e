//! The recorded events of a run, on one monotonic clock: what they are, how they are gathered, and
//! the file that they are kept in. Knows nothing of Redis, locks or verdicts.

pub mod event;
pub mod file;
pub mod keep;
pub mod recorder;

pub use event::{Event, Kind, OpId};
pub use recorder::Recorder;
