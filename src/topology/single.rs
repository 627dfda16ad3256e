//! One server.

use std::net::SocketAddr;

use super::limits::raise_open_file_limit;
use super::process::{Binary, Process, StartError};

/// Connections that a server takes beside the workers': the driver's own.
const SPARE_CLIENTS: u32 = 32;

/// A single real server.
#[derive(Debug)]
pub struct Single {
    process: Process,
}

impl Single {
    /// Starts it, with room for that many workers.
    pub async fn start(binary: &Binary, workers: u32) -> Result<Single, StartError> {
        raise_open_file_limit(workers).map_err(StartError::OpenFiles)?;
        let clients = workers + SPARE_CLIENTS;
        // Key events: generic (del), expired, evicted. The checks hear from the server itself
        // when a lock's key went away.
        let options = [
            "--maxclients",
            &clients.to_string(),
            "--notify-keyspace-events",
            "Egxe",
        ];
        let options = options.map(str::to_owned);
        let process = Process::start(binary, &options).await?;
        Ok(Single { process })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.process.address
    }

    /// Its process id.
    pub fn pid(&self) -> Option<u32> {
        self.process.pid()
    }

    /// Waits for the server to end by itself, and tells how it did.
    pub async fn died(&mut self) -> String {
        self.process.died().await
    }

    /// All that it has logged.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Ends it.
    pub async fn stop(self) {
        self.process.stop().await;
    }
}
