//! The open-file limit: each worker needs a socket here, and its server another.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Files that the driver and a server need beside the workers' sockets.
const SPARE: u64 = 128;

/// The limit in force and the most that it may be raised to.
pub fn open_file_limit() -> (u64, u64) {
    getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((0, 0))
}

/// Makes room for that many workers, or says what is missing.
pub fn raise_open_file_limit(workers: u32) -> Result<(), String> {
    let need = u64::from(workers) + SPARE;
    let (soft, hard) = open_file_limit();
    if soft >= need {
        return Ok(());
    }
    if hard < need {
        return Err(format!(
            "{workers} workers need {need} open files, and this process may have {hard}: \
             raise the hard limit (`ulimit -Hn`) or ask for fewer workers (`-c`)"
        ));
    }
    setrlimit(Resource::RLIMIT_NOFILE, need, hard).map_err(|why| {
        format!(
            "{workers} workers need {need} open files; raising the limit from {soft} failed: {why}"
        )
    })
}
