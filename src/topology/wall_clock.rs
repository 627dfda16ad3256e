//! A server's own wall clock, which a fault can move: a small library that is built here with the
//! machine's C compiler and loaded before the server's own (`LD_PRELOAD`,
//! <https://man7.org/linux/man-pages/man8/ld.so.8.html>). It adds what stands in a file of the
//! server's folder. Redis lets a key expire by the wall clock
//! (<https://redis.io/docs/latest/commands/expire/>).

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Command;

use super::process::{Binary, StartError};

/// The file in a server's folder by which its clock is moved: nanoseconds, as the machine writes a
/// number.
pub(super) const FILE: &str = "wall-clock";
/// The variable that names it to the library.
const VARIABLE: &str = "OVERSOLD_WALL_CLOCK";
const SOURCE: &str = include_str!("wall_clock.c");
const LIBRARY: &str = "wall_clock.so";
/// How long a compiler may take.
const COMPILED: Duration = Duration::from_secs(30);

/// The library, in a folder of its own.
#[derive(Debug)]
pub(super) struct WallClock {
    folder: TempDir,
}

// Two are the same if they do the same, wherever they lie.
impl PartialEq for WallClock {
    fn eq(&self, _: &WallClock) -> bool {
        true
    }
}

impl Eq for WallClock {}

impl Binary {
    /// The same server, which goes by the machine's own clock.
    pub fn with_the_true_clock(&self) -> Binary {
        Binary {
            wall_clock: None,
            ..self.clone()
        }
    }

    /// The same server, whose wall clock faults can move. The error says what is missing for it.
    pub async fn with_own_wall_clock(mut self) -> Result<Binary, StartError> {
        let built = build().await.map_err(StartError::WallClock)?;
        self.wall_clock = Some(Arc::new(built));
        Ok(self)
    }
}

async fn build() -> Result<WallClock, String> {
    if !cfg!(target_os = "linux") {
        return Err("only on Linux can a server's clock be moved alone".to_owned());
    }
    let folder = tempfile::Builder::new().prefix("oversold-").tempdir();
    let folder = folder.map_err(|why| why.to_string())?;
    let source = folder.path().join("wall_clock.c");
    std::fs::write(&source, SOURCE).map_err(|why| why.to_string())?;
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let missing = |why: String| {
        format!(
            "`{compiler}` is needed to build a small library ({why}): install a C compiler, or name one: CC=PATH"
        )
    };
    let mut command = Command::new(&compiler);
    command
        .args(["-shared", "-fPIC", "-O2", "-o", LIBRARY, "wall_clock.c"])
        .current_dir(folder.path())
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true);
    let built = tokio::time::timeout(COMPILED, command.output()).await;
    let built = built.map_err(|_| missing(format!("it took longer than {COMPILED:?}")))?;
    let built = built.map_err(|why| missing(why.to_string()))?;
    if !built.status.success() {
        let said = String::from_utf8_lossy(&built.stderr).trim().to_owned();
        return Err(missing(said));
    }
    Ok(WallClock { folder })
}

impl WallClock {
    /// Has a server that is to start go by a clock of its own, which is right at first, or as far off
    /// as that of the last server in this folder.
    pub(super) fn lead(&self, command: &mut Command, folder: &Path) -> io::Result<()> {
        let file = folder.join(FILE);
        if !file.exists() {
            std::fs::write(&file, 0i64.to_ne_bytes())?;
        }
        command
            .env("LD_PRELOAD", self.folder.path().join(LIBRARY))
            .env(VARIABLE, file);
        Ok(())
    }
}

/// Moves the clock of the server in that folder by so many nanoseconds.
pub(super) fn jump(folder: &Path, by_ns: i64) -> io::Result<()> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(folder.join(FILE))?;
    let mut offset = [0; size_of::<i64>()];
    file.read_exact_at(&mut offset, 0)?;
    let offset = i64::from_ne_bytes(offset).saturating_add(by_ns);
    file.write_all_at(&offset.to_ne_bytes(), 0)
}
