//! How a server process is started, and started again: its command line, its folder, its port.

use std::fs::OpenOptions;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::Signal;
use tempfile::TempDir;
use tokio::process::Command;

use super::process::{Binary, die_with_driver};
use super::wall_clock;

/// What every server logs when it is ready.
const READY_LINE: &str = "Ready to accept connections";
/// What a Sentinel logs when it listens.
const SENTINEL_LINE: &str = "Sentinel ID is";
/// What every process of ours logs to, in its folder.
const LOG: &str = "server.log";
/// The file that a Sentinel is configured by, and rewrites.
const SENTINEL_FILE: &str = "sentinel.conf";

/// What a process is to be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Job<'a> {
    /// A server with these options.
    Server(&'a [String]),
    /// A Sentinel with this configuration.
    Sentinel(&'a str),
}

impl Job<'_> {
    /// What its log says when it is ready.
    pub(super) fn ready_line(self) -> &'static str {
        match self {
            Job::Server(_) => READY_LINE,
            Job::Sentinel(_) => SENTINEL_LINE,
        }
    }

    /// Its command line. What it is configured by is left in its folder.
    pub(super) fn arguments(self, folder: &Path, port: u16) -> io::Result<Vec<String>> {
        let port = port.to_string();
        let fixed = match self {
            Job::Server(_) => vec![
                "--port",
                &port,
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
                "--daemonize",
                "no",
                "--dir",
                ".",
            ],
            Job::Sentinel(configuration) => {
                let text = format!("port {port}\nbind 127.0.0.1\ndir .\n{configuration}");
                std::fs::write(folder.join(SENTINEL_FILE), text)?;
                vec![SENTINEL_FILE, "--sentinel"]
            }
        };
        let mut arguments: Vec<String> = fixed.into_iter().map(str::to_owned).collect();
        if let Job::Server(options) = self {
            arguments.extend_from_slice(options);
        }
        Ok(arguments)
    }
}

/// How a process was started, and can be started again.
#[derive(Debug)]
pub(super) struct Recipe {
    pub(super) binary: Binary,
    pub(super) arguments: Vec<String>,
    pub(super) ready_line: &'static str,
    pub(super) address: SocketAddr,
    pub(super) folder: TempDir,
}

impl Recipe {
    /// Removes what a server has saved of its data.
    pub(super) fn forget_data(&self) -> io::Result<()> {
        for entry in std::fs::read_dir(self.folder.path())? {
            let path = entry?.path();
            let kept = [LOG, wall_clock::FILE, SENTINEL_FILE];
            if kept.iter().any(|name| path.ends_with(name)) {
                continue;
            }
            match path.is_dir() {
                true => std::fs::remove_dir_all(path)?,
                false => std::fs::remove_file(path)?,
            }
        }
        Ok(())
    }

    /// The command that starts it, with some more options.
    pub(super) fn command(&self, options: &[&str]) -> io::Result<Command> {
        let folder = self.folder.path();
        let mut log = OpenOptions::new();
        let log = log.create(true).append(true).open(folder.join(LOG))?;
        let mut command = Command::new(&self.binary.path);
        command
            .args(&self.arguments)
            .args(options)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stderr(log.try_clone()?)
            .stdout(log)
            // Ctrl-C in a terminal is the driver's alone: it still needs its server to drain.
            .process_group(0)
            .kill_on_drop(true);
        if let Some(wall_clock) = &self.binary.wall_clock {
            wall_clock.lead(&mut command, folder)?;
        }
        die_with_driver(command.as_std_mut(), Signal::SIGKILL);
        Ok(command)
    }

    /// All that was logged by it, and by those before it.
    pub(super) fn log(&self) -> String {
        let bytes = std::fs::read(self.folder.path().join(LOG)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
