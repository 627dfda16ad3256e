//! The servers of a run: one, several independent ones for a lock on a majority, or a primary with
//! its replicas and Sentinels.

use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::{select_all, try_join_all};

use super::limits::raise_open_file_limit;
use super::machine::Machine;
use super::process::{Binary, Job, Process, StartError};
use super::sentinel::{self, Group};
use crate::client::Server;
use crate::scenario::Topology;

/// Connections that a server takes beside the workers': the driver's own.
const SPARE_CLIENTS: u32 = 32;

/// Real servers.
#[derive(Debug)]
pub struct Servers {
    running: Vec<Running>,
    reach: Reach,
}

/// A process, until its end was seen.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) process: Process,
    pub(super) machine: Arc<Machine>,
    ended: bool,
}

impl Running {
    pub(super) fn new(process: Process, machine: Arc<Machine>) -> Running {
        Running {
            process,
            machine,
            ended: false,
        }
    }

    /// Waits for its end by itself, and tells how it did. An end on purpose is none, and a process
    /// that was raised again is watched in its place.
    async fn died(&mut self) -> String {
        loop {
            tokio::select! {
                biased;
                how = self.process.died(), if !self.ended => {
                    self.ended = true;
                    if !self.process.is_meant_to_end() {
                        return how;
                    }
                }
                next = self.machine.raised() => {
                    self.process = next;
                    self.ended = false;
                }
            }
        }
    }

    async fn stop(self) {
        if let Some(raised) = self.machine.close() {
            raised.stop().await;
        }
        self.process.stop().await;
    }
}

/// How the servers are reached, and touched by faults.
#[derive(Debug, Clone)]
pub struct Reach {
    /// Those that hold data. The first one is the primary at the start, where there is one.
    pub nodes: Vec<Arc<Machine>>,
    /// What belongs to a primary with replicas.
    pub group: Option<Arc<Group>>,
}

impl Reach {
    /// Where a worker connects to: every node, but of a group its primary.
    pub fn servers(&self) -> Vec<Server> {
        match &self.group {
            Some(group) => vec![Server::Primary(group.sentinels())],
            None => (self.nodes.iter())
                .map(|node| Server::At(node.address()))
                .collect(),
        }
    }

    /// The same, without those that were killed on purpose.
    pub fn servers_left(&self) -> Vec<Server> {
        let servers = self.servers();
        let dead = |place: &usize| self.group.is_none() && self.nodes[*place].is_doomed();
        let left = servers.into_iter().enumerate();
        left.filter(|(place, _)| !dead(place))
            .map(|(_, server)| server)
            .collect()
    }
}

impl Servers {
    /// Starts the servers that a topology asks for, with room for that many workers.
    pub async fn raise(
        binary: &Binary,
        topology: Topology,
        workers: u32,
    ) -> Result<Servers, StartError> {
        match topology {
            Topology::Single => Servers::start(binary, 1, workers).await,
            Topology::Quorum { nodes } => Servers::start(binary, nodes, workers).await,
            Topology::Sentinel {
                replicas,
                min_replicas_to_write,
            } => {
                // Each worker's socket, and the two of the link; more while a worker moves.
                raise_open_file_limit(workers * 6).map_err(StartError::OpenFiles)?;
                let options = options(2 * workers + SPARE_CLIENTS);
                let raising = sentinel::raise(binary, &options, replicas, min_replicas_to_write);
                let (running, group) = raising.await?;
                let nodes = group.nodes().to_vec();
                let group = Some(group);
                Ok(Servers {
                    running,
                    reach: Reach { nodes, group },
                })
            }
        }
    }

    /// Starts so many that know nothing of each other, each with room for that many workers.
    pub async fn start(binary: &Binary, nodes: u32, workers: u32) -> Result<Servers, StartError> {
        raise_open_file_limit(workers * nodes).map_err(StartError::OpenFiles)?;
        let options = options(workers + SPARE_CLIENTS);
        let starting = (0..nodes).map(|_| Process::start(binary, Job::Server(&options)));
        let processes = try_join_all(starting).await?;
        let running: Vec<Running> = processes
            .into_iter()
            .map(|process| {
                let machine = Arc::new(Machine::new(&process, None));
                Running::new(process, machine)
            })
            .collect();
        let nodes = running.iter().map(|one| Arc::clone(&one.machine)).collect();
        let group = None;
        Ok(Servers {
            running,
            reach: Reach { nodes, group },
        })
    }

    /// How they are reached.
    pub fn reach(&self) -> Reach {
        self.reach.clone()
    }

    /// Where those listen that hold data.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let nodes = self.reach.nodes.iter();
        nodes.map(|node| node.address()).collect()
    }

    /// Their process ids.
    pub fn pids(&self) -> Vec<u32> {
        let running = self.running.iter();
        running.filter_map(|one| one.process.pid()).collect()
    }

    /// Ends one of them for good, as a fault does.
    pub async fn kill(&mut self, node: usize) {
        self.reach.nodes.remove(node).kill();
        self.running.remove(node).stop().await;
    }

    /// Waits for any of them to end by itself, and tells how it did. An end on purpose is none.
    pub async fn died(&mut self) -> String {
        let ends: Vec<_> = self
            .running
            .iter_mut()
            .map(|one| Box::pin(one.died()))
            .collect();
        match ends.is_empty() {
            true => std::future::pending().await,
            false => select_all(ends).await.0,
        }
    }

    /// All that they have logged.
    pub fn log(&self) -> String {
        let running = self.running.iter();
        let logs: Vec<String> = running.map(|one| one.process.log()).collect();
        logs.join("\n")
    }

    /// Ends them.
    pub async fn stop(self) {
        for one in self.running {
            one.stop().await;
        }
    }
}

fn options(clients: u32) -> Vec<String> {
    // Key events: generic (del), expired, evicted. The checks hear from the server itself when a
    // lock's key went away.
    let options = [
        "--maxclients",
        &clients.to_string(),
        "--notify-keyspace-events",
        "Egxe",
    ];
    options.map(str::to_owned).to_vec()
}
