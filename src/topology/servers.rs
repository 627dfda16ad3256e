//! The servers of a run: one, or several independent ones for a lock on a majority.

use std::net::SocketAddr;

use futures_util::future::{select_all, try_join_all};

use super::limits::raise_open_file_limit;
use super::process::{Binary, Process, StartError};

/// Connections that a server takes beside the workers': the driver's own.
const SPARE_CLIENTS: u32 = 32;

/// Real servers that know nothing of each other.
#[derive(Debug)]
pub struct Servers {
    nodes: Vec<Process>,
}

impl Servers {
    /// Starts so many of them, each with room for that many workers.
    pub async fn start(binary: &Binary, nodes: u32, workers: u32) -> Result<Servers, StartError> {
        raise_open_file_limit(workers * nodes).map_err(StartError::OpenFiles)?;
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
        let starting = (0..nodes).map(|_| Process::start(binary, &options));
        let nodes = try_join_all(starting).await?;
        Ok(Servers { nodes })
    }

    /// Where they listen.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| node.address).collect()
    }

    /// Their process ids.
    pub fn pids(&self) -> Vec<u32> {
        self.nodes.iter().filter_map(Process::pid).collect()
    }

    /// Ends one of them for good, as a fault does.
    pub async fn kill(&mut self, node: usize) {
        self.nodes.remove(node).stop().await;
    }

    /// Waits for any of them to end by itself, and tells how it did.
    pub async fn died(&mut self) -> String {
        let ends = self.nodes.iter_mut().map(|node| Box::pin(node.died()));
        select_all(ends).await.0
    }

    /// All that they have logged.
    pub fn log(&self) -> String {
        let logs: Vec<String> = self.nodes.iter().map(Process::log).collect();
        logs.join("\n")
    }

    /// Ends them.
    pub async fn stop(self) {
        for node in self.nodes {
            node.stop().await;
        }
    }
}
