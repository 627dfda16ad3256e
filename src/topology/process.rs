//! One server process: where its binary is, how it is started on a free port, how it ends.

use std::io::{self, Read, Seek};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::Child;

use super::recipe::{Job, Recipe};
use super::wall_clock::WallClock;

/// The names under which a server is looked for.
const NAMES: [&str; 2] = ["redis-server", "valkey-server"];
/// The variable that names a server.
const VARIABLE: &str = "OVERSOLD_REDIS_SERVER";
/// How long a binary may take to tell its version.
const VERSION: Duration = Duration::from_secs(5);
/// How long a server may take until it is ready.
const READY: Duration = Duration::from_secs(10);
/// How often a process is looked at that is waited for.
const LOOK: Duration = Duration::from_millis(5);
/// How often another free port is tried when somebody took the first.
const PORTS: usize = 8;

/// What to do when there is none.
const INSTALL: &str = "install one: `scripts/setup.sh`, or `apt-get install redis-server`, \
    `dnf install redis`, `apk add redis`, `brew install redis`\n  or name one: \
    `--redis-server PATH` or OVERSOLD_REDIS_SERVER=PATH";

/// A server binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binary {
    /// Where it is.
    pub path: PathBuf,
    /// What it says of its version.
    pub version: String,
    /// By what the wall clock of its servers can be moved, where a fault does.
    pub(super) wall_clock: Option<Arc<WallClock>>,
}

impl Binary {
    /// Whether it has to be told who may debug it and set what is protected: Redis since 7.0, and
    /// Valkey (<https://redis.io/docs/latest/operate/oss_and_stack/management/security/>).
    pub(super) fn guards_its_settings(&self) -> bool {
        let number = self.version.rsplit(' ').next().unwrap_or_default();
        let major = number
            .split('.')
            .next()
            .and_then(|major| major.parse().ok());
        major.is_some_and(|major: u32| major >= 7)
    }
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// None was found.
    #[error("no redis-server found ({0})\n  {install}", install = INSTALL)]
    NotFound(String),
    /// One was found and is none.
    #[error("{0}: not a redis-server that runs here: {1}\n  {install}", install = INSTALL)]
    NotAServer(PathBuf, String),
    /// It could not be started.
    #[error("{0}: {1}")]
    Io(PathBuf, io::Error),
    /// It ended before it was ready.
    #[error("{0} ended before it was ready: {1}")]
    Ended(PathBuf, String),
    /// It did not become ready.
    #[error("{0} was not ready after {1:?}: {2}")]
    NotReady(PathBuf, Duration, String),
    /// The workers' sockets do not fit.
    #[error("{0}")]
    OpenFiles(String),
    /// There is no link in front of a user's server.
    #[error("no free port on 127.0.0.1 for a link: {0}")]
    Link(io::Error),
    /// The plan is about a user's own Redis, and none was named.
    #[error("this plan was run at an external Redis: name it again, `--url redis://HOST:PORT`")]
    NoUrl,
    /// Its wall clock cannot be moved here.
    #[error("the fault `clock-jump` cannot be made here: {0}")]
    WallClock(String),
}

impl StartError {
    /// Whether somebody else listens on its port, or has a connection from there.
    pub(super) fn is_a_taken_port(&self) -> bool {
        matches!(self, StartError::Ended(_, log) if log.contains("Address already in use"))
    }
}

/// Where a server is looked for, in order.
pub fn looked_for(flag: Option<&Path>) -> Vec<PathBuf> {
    let named = flag.map(Path::to_owned);
    let named = named.or_else(|| std::env::var_os(VARIABLE).map(PathBuf::from));
    if let Some(named) = named {
        return vec![named];
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .filter(|candidate| candidate.is_file())
        .collect()
}

/// The server to use: the one that was named, or the first on PATH.
pub fn find(flag: Option<&Path>) -> Result<Binary, StartError> {
    let Some(path) = looked_for(flag).into_iter().next() else {
        return Err(StartError::NotFound(format!(
            "looked on PATH for {}",
            NAMES.join(", ")
        )));
    };
    let said = ask_version(&path);
    let said = said.map_err(|why| StartError::NotAServer(path.clone(), why.to_string()))?;
    match version(&said) {
        Some(version) => Ok(Binary {
            // Each server is started in a folder of its own.
            path: std::path::absolute(&path).unwrap_or(path),
            version,
            wall_clock: None,
        }),
        None => Err(StartError::NotAServer(
            path,
            format!("`--version` said \"{said}\""),
        )),
    }
}

/// What a binary answers to `--version`, if it answers in time: it may be anything.
fn ask_version(path: &Path) -> io::Result<String> {
    // A file and not a pipe: a process that the binary leaves behind could keep a pipe open.
    let mut answer = tempfile::tempfile()?;
    let mut command = std::process::Command::new(path);
    command
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(answer.try_clone()?)
        .stderr(Stdio::null())
        .process_group(0);
    die_with_driver(&mut command, Signal::SIGKILL);
    let mut child = command.spawn()?;
    let began = Instant::now();
    while child.try_wait()?.is_none() {
        if began.elapsed() > VERSION {
            kill_group(child.id());
            child.wait()?;
            let why = format!("`--version` was not answered within {VERSION:?}");
            return Err(io::Error::new(io::ErrorKind::TimedOut, why));
        }
        std::thread::sleep(LOOK);
    }
    let mut said = Vec::new();
    answer.rewind()?;
    answer.read_to_end(&mut said)?;
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
}

/// The version in `Redis server v=7.0.15 sha=...` or `Valkey server v=9.1.2 ...`.
fn version(said: &str) -> Option<String> {
    let (name, rest) = said.split_once(" server v=")?;
    let number = rest.split_whitespace().next()?;
    Some(format!("{name} {number}"))
}

/// A running server. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    pub(super) address: SocketAddr,
    pub(super) recipe: Arc<Recipe>,
    /// Whether its end is meant: by a fault.
    pub(super) meant: Arc<AtomicBool>,
}

impl Process {
    /// Starts a server on a free port and waits until it is ready.
    ///
    /// To be called on a thread that lives as long as the driver: on Linux the kernel ends the
    /// server when the thread that started it ends.
    pub(super) async fn start(binary: &Binary, job: Job<'_>) -> Result<Process, StartError> {
        let mut last = None;
        for _ in 0..PORTS {
            match Process::try_start(binary, job).await {
                // Somebody else took the port between the look and the start.
                Err(why) if why.is_a_taken_port() => last = Some(why),
                other => return other,
            }
        }
        Err(last.unwrap_or_else(|| StartError::NotFound(String::new())))
    }

    async fn try_start(binary: &Binary, job: Job<'_>) -> Result<Process, StartError> {
        let io = |why| StartError::Io(binary.path.clone(), why);
        let folder = tempfile::Builder::new()
            .prefix("oversold-")
            .tempdir()
            .map_err(io)?;
        let address = free_address().map_err(io)?;
        let arguments = job.arguments(folder.path(), address.port());
        let recipe = Recipe {
            binary: binary.clone(),
            arguments: arguments.map_err(io)?,
            ready_line: job.ready_line(),
            address,
            folder,
        };
        Process::by(Arc::new(recipe), &[]).await
    }

    /// Starts one by a recipe, with some more options, and waits until it is ready. On which thread:
    /// see [`Process::start`].
    pub(super) async fn by(recipe: Arc<Recipe>, options: &[&str]) -> Result<Process, StartError> {
        let path = recipe.binary.path.clone();
        let io = |why| StartError::Io(path.clone(), why);
        let logged = recipe.log().len();
        let child = recipe.command(options).map_err(io)?.spawn().map_err(io)?;
        let mut process = Process {
            child,
            address: recipe.address,
            recipe,
            meant: Arc::default(),
        };
        process.ready(&path, logged).await?;
        Ok(process)
    }

    /// Waits until the server's own log says that it is ready: a connection to the port could
    /// reach a stranger's server.
    async fn ready(&mut self, path: &Path, logged: usize) -> Result<(), StartError> {
        let began = Instant::now();
        let line = self.recipe.ready_line;
        let is_ready = |log: &str| log.get(logged..).is_some_and(|new| new.contains(line));
        while !is_ready(&self.log()) {
            let ended = self.child.try_wait();
            if ended
                .map_err(|why| StartError::Io(path.to_owned(), why))?
                .is_some()
            {
                return Err(StartError::Ended(path.to_owned(), self.log_tail()));
            }
            if began.elapsed() > READY {
                return Err(StartError::NotReady(
                    path.to_owned(),
                    READY,
                    self.log_tail(),
                ));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Waits for the end of the process and tells of it.
    pub(super) async fn died(&mut self) -> String {
        let leader = self.child.id();
        let ended = self.child.wait().await;
        leader.into_iter().for_each(kill_group);
        match ended {
            Ok(status) => format!("{status}; its log ends: {}", self.log_tail()),
            Err(why) => why.to_string(),
        }
    }

    pub(super) async fn stop(mut self) {
        // Its data is nobody's; a kill is the quickest clean end.
        self.child.id().into_iter().for_each(kill_group);
        let _ = self.child.wait().await;
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// Whether a fault has ended it.
    pub(super) fn is_meant_to_end(&self) -> bool {
        self.meant.load(Ordering::Acquire)
    }

    /// All that the server has logged.
    pub(super) fn log(&self) -> String {
        self.recipe.log()
    }

    fn log_tail(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(3)..].join(" | ")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Without an id it has ended, and its number may be somebody else's by now.
        self.child.id().into_iter().for_each(kill_group);
    }
}

/// Kills a process that leads a group, and all of the group: what was named as a server may be a
/// script that has started the server as a process of its own.
pub(super) fn kill_group(leader: u32) {
    signal_group(leader, Signal::SIGKILL);
}

/// Sends a signal to a process that leads a group, and to all of the group.
pub(super) fn signal_group(leader: u32, signal: Signal) -> bool {
    killpg(Pid::from_raw(leader as i32), signal).is_ok()
}

/// A port that was free a moment ago.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Has the kernel send the child a signal when the driver dies, however it dies. (What a script has
/// started beside itself outlives that; a script that ends in `exec redis-server "$@"` leaves
/// nothing.)
#[cfg(target_os = "linux")]
pub(super) fn die_with_driver(command: &mut std::process::Command, signal: Signal) {
    let driver = nix::unistd::getpid();
    let before_exec = move || {
        nix::sys::prctl::set_pdeathsig(signal)?;
        // The driver may have died before the line above.
        if nix::unistd::getppid() == driver {
            Ok(())
        } else {
            Err(io::Error::other("the driver has ended"))
        }
    };
    // SAFETY: between fork and exec only prctl and getppid are called, both async-signal-safe,
    // and nothing is allocated on the way to exec. It runs after a change of user, which would
    // clear the signal.
    unsafe {
        command.pre_exec(before_exec);
    }
}

/// Elsewhere only an orderly end of the driver ends its servers.
#[cfg(not(target_os = "linux"))]
pub(super) fn die_with_driver(_: &mut std::process::Command, _: Signal) {}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn both_families_of_servers_are_told_by_their_version_line() {
        let redis = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.2.1 bits=64";
        assert_eq!(version(redis).as_deref(), Some("Redis 7.0.15"));
        let valkey = "Valkey server v=9.1.2 sha=00000000:0 malloc=libc bits=64";
        assert_eq!(version(valkey).as_deref(), Some("Valkey 9.1.2"));
        assert_eq!(version("bash, version 5.2"), None);
    }
}
