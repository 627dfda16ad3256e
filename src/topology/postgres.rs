//! A PostgreSQL of the run's own: found, initialised in a temporary folder, reached by a socket in
//! it and by no port, ended with the driver.

use std::fs::File;
use std::io;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::process::die_with_driver;

/// What is needed of an installation.
const NAMES: [&str; 2] = ["initdb", "postgres"];
/// Where distributions put what they leave out of PATH; a folder for each version below.
const VERSIONS: [&str; 2] = ["/usr/lib/postgresql", "/usr/local/opt"];
/// Who runs the server when the driver is root, which PostgreSQL refuses to be.
const SERVANTS: [&str; 2] = ["postgres", "nobody"];
/// How long `initdb` may take.
const INITDB: Duration = Duration::from_secs(60);
/// How long the server may take until it is ready.
const READY: Duration = Duration::from_secs(30);
/// How long it may take to end.
const END: Duration = Duration::from_secs(5);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(10);
/// What it logs when it is ready.
const READY_LINE: &str = "database system is ready to accept connections";

const INSTALL: &str = "install it: `apt-get install postgresql`, `dnf install postgresql-server`, \
    `apk add postgresql`, `brew install postgresql`\n  or name a server: `--store-url \
    postgres://USER@HOST/DATABASE`";

/// Why there is no PostgreSQL.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    /// None is installed.
    #[error("no PostgreSQL found (looked on PATH and in {0} for initdb and postgres)\n  {INSTALL}")]
    NotFound(String),
    /// The driver is root, and there is nobody else who could run it.
    #[error("PostgreSQL does not run as root, and there is no user {0} to run it as")]
    NobodyElse(String),
    /// A file or a process could not be had.
    #[error("{0}: {1}")]
    Io(PathBuf, io::Error),
    /// It could not be initialised or ended before it was ready.
    #[error("{0} failed: {1}")]
    Failed(PathBuf, String),
    /// It took too long.
    #[error("{0} was not ready after {1:?}: {2}")]
    NotReady(PathBuf, Duration, String),
}

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub struct Postgres {
    child: Child,
    folder: TempDir,
}

/// The folder of an installation that has all that is needed.
fn find() -> Result<PathBuf, PostgresError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    for place in VERSIONS {
        let versions = std::fs::read_dir(place).into_iter().flatten().flatten();
        let mut versions: Vec<PathBuf> = versions.map(|entry| entry.path().join("bin")).collect();
        // The newest first: 15 before 9.6.
        versions.sort_by_key(|folder| std::cmp::Reverse(version(folder)));
        folders.extend(versions);
    }
    let complete = |folder: &PathBuf| NAMES.iter().all(|name| folder.join(name).is_file());
    let found = folders.into_iter().find(complete);
    found.ok_or_else(|| PostgresError::NotFound(VERSIONS.join(", ")))
}

/// The version in `/usr/lib/postgresql/15/bin`.
fn version(folder: &Path) -> u32 {
    let name = folder.parent().and_then(Path::file_name);
    let name = name.unwrap_or_default().to_string_lossy();
    let digits = name.chars().skip_while(|c| !c.is_ascii_digit());
    let major: String = digits.take_while(char::is_ascii_digit).collect();
    major.parse().unwrap_or(0)
}

impl Postgres {
    /// The user that owns its databases.
    pub const USER: &str = "oversold";
    /// The database that there is from the start.
    pub const DATABASE: &str = "postgres";

    /// The folder with the programs of the one that would be started.
    pub fn installed() -> Result<PathBuf, PostgresError> {
        find()
    }

    /// Starts a server with room for so many connections, and waits until it is ready.
    ///
    /// To be called on a thread that lives as long as the driver: on Linux the kernel ends the
    /// server when the thread that started it ends.
    pub async fn start(connections: usize) -> Result<Postgres, PostgresError> {
        let bin = find()?;
        let servant = servant()?;
        let base = match servant {
            Some(_) => open_folder(),
            None => std::env::temp_dir(),
        };
        let folder = tempfile::Builder::new()
            .prefix("oversold-pg-")
            .tempdir_in(&base);
        let folder = folder.map_err(|why| PostgresError::Io(base, why))?;
        let io = |why| PostgresError::Io(folder.path().to_owned(), why);
        if let Some(servant) = &servant {
            let (uid, gid) = (servant.uid.as_raw(), servant.gid.as_raw());
            chown(folder.path(), Some(uid), Some(gid)).map_err(io)?;
        }
        let program = |name| command(&bin.join(name), folder.path(), servant.as_ref());
        initialise(program("initdb"), &bin.join("initdb")).await?;
        let log = File::create(folder.path().join("postgres.log")).map_err(io)?;
        let mut command = program("postgres");
        command.args(["-D", "data", "-k"]).arg(folder.path());
        for setting in settings(connections) {
            command.arg("-c").arg(setting);
        }
        command.stdout(log.try_clone().map_err(io)?).stderr(log);
        let binary = bin.join("postgres");
        let spawned = command.spawn();
        let child = spawned.map_err(|why| PostgresError::Io(binary.clone(), why))?;
        let mut server = Postgres { child, folder };
        server.ready(&binary).await?;
        Ok(server)
    }

    async fn ready(&mut self, binary: &Path) -> Result<(), PostgresError> {
        let began = Instant::now();
        while !self.log().contains(READY_LINE) {
            let ended = self.child.try_wait();
            let ended = ended.map_err(|why| PostgresError::Io(binary.to_owned(), why))?;
            if ended.is_some() {
                return Err(PostgresError::Failed(binary.to_owned(), tail(&self.log())));
            }
            if began.elapsed() > READY {
                let log = tail(&self.log());
                return Err(PostgresError::NotReady(binary.to_owned(), READY, log));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// The folder in which its socket is.
    pub fn socket(&self) -> &Path {
        self.folder.path()
    }

    /// Its process id, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// All that it has logged.
    pub fn log(&self) -> String {
        let bytes = std::fs::read(self.folder.path().join("postgres.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Ends it.
    pub async fn stop(mut self) {
        self.quit();
        if tokio::time::timeout(END, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }

    /// Its immediate shutdown: it ends its own children, which a kill would leave to themselves.
    fn quit(&self) {
        if let Some(pid) = self.child.id() {
            let _ = kill(Pid::from_raw(pid as i32), Signal::SIGQUIT);
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.quit();
        // Its folder is removed next, and it must not write there any more.
        let began = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && began.elapsed() < END {
            std::thread::sleep(LOOK);
        }
    }
}

/// Nobody waits for the disk, for the data dies with the run; nobody comes in by a port.
fn settings(connections: usize) -> [String; 9] {
    [
        "listen_addresses=".to_owned(),
        format!("max_connections={connections}"),
        "fsync=off".to_owned(),
        "synchronous_commit=off".to_owned(),
        "full_page_writes=off".to_owned(),
        "autovacuum=off".to_owned(),
        "jit=off".to_owned(),
        "shared_buffers=16MB".to_owned(),
        "unix_socket_permissions=0700".to_owned(),
    ]
}

/// A folder for temporary ones that another user can get to: root's own may be closed to others.
fn open_folder() -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let passable = |folder: &Path| {
        let mode = std::fs::metadata(folder).map(|found| found.permissions().mode());
        mode.is_ok_and(|mode| mode & 0o001 != 0)
    };
    let candidates = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()];
    let open = candidates
        .iter()
        .find(|folder| folder.ancestors().all(passable));
    open.unwrap_or(&candidates[0]).clone()
}

/// Who is to run the server: nobody else, unless the driver is root.
fn servant() -> Result<Option<User>, PostgresError> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let known = SERVANTS.iter().find_map(|name| User::from_name(name).ok()?);
    match known {
        Some(user) => Ok(Some(user)),
        None => Err(PostgresError::NobodyElse(SERVANTS.join(" or "))),
    }
}

/// A program of the installation that works in the folder and ends with the driver.
fn command(binary: &Path, folder: &Path, servant: Option<&User>) -> Command {
    let mut command = Command::new(binary);
    command
        .current_dir(folder)
        // Its messages are read here.
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    if let Some(servant) = servant {
        command.uid(servant.uid.as_raw()).gid(servant.gid.as_raw());
    }
    // SIGQUIT and not SIGKILL: PostgreSQL then ends its children and gives its shared memory back.
    die_with_driver(command.as_std_mut(), Signal::SIGQUIT);
    command
}

async fn initialise(mut initdb: Command, binary: &Path) -> Result<(), PostgresError> {
    initdb
        .args(["-D", "data", "-U", Postgres::USER])
        // Who may open the socket's folder is let in.
        .args(["-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]);
    let io = |why| PostgresError::Io(binary.to_owned(), why);
    let Ok(output) = tokio::time::timeout(INITDB, initdb.output()).await else {
        let path = binary.to_owned();
        return Err(PostgresError::NotReady(path, INITDB, String::new()));
    };
    let output = output.map_err(io)?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(PostgresError::Failed(binary.to_owned(), tail(&said)))
        }
    }
}

/// The last lines that say something.
fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join(" | ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_installation_is_told_by_its_folder() {
        assert_eq!(version(Path::new("/usr/lib/postgresql/15/bin")), 15);
        assert_eq!(version(Path::new("/usr/lib/postgresql/9.6/bin")), 9);
        assert_eq!(version(Path::new("/usr/local/opt/postgresql@16/bin")), 16);
        assert_eq!(version(Path::new("/usr/local/opt/other/bin")), 0);
    }
}
