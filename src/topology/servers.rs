//! The servers of a run: one, several independent ones for a lock on a majority, or a primary with
//! its replicas and Sentinels.

use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::{select_all, try_join_all};

use super::limits::raise_open_file_limit;
use super::machine::Machine;
use super::process::{Binary, Process, StartError};
use super::recipe::Job;
use super::sentinel::{self, Group};
use super::stay::{Stay, Visit};
use crate::client::Server;
use crate::link::Link;
use crate::scenario::{Topology, Workload};
use crate::workload;

/// Connections that a server takes beside the workers': the driver's own.
const SPARE_CLIENTS: u32 = 32;

/// Real servers.
#[derive(Debug)]
pub struct Servers {
    running: Vec<Running>,
    reach: Reach,
    /// Where they are a user's.
    visit: Option<Visit>,
}

/// A process, until its end was seen.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) process: Process,
    pub(super) machine: Arc<Machine>,
    /// Its number, which the process itself does not know any more when it has ended.
    pid: Option<u32>,
    ended: bool,
}

impl Running {
    pub(super) fn new(process: Process, machine: Arc<Machine>) -> Running {
        Running {
            pid: process.pid(),
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
                    self.machine.has_ended(self.pid);
                    if !self.process.is_meant_to_end() {
                        return how;
                    }
                }
                next = self.machine.raised() => {
                    self.pid = next.pid();
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
    /// What is to be heeded where they are a user's.
    pub stay: Option<Arc<Stay>>,
}

impl Reach {
    /// Where a worker connects to: every node, but of a group its primary.
    pub fn servers(&self) -> Vec<Server> {
        let nodes = self.nodes.iter();
        match (&self.group, &self.stay) {
            (Some(group), _) => vec![Server::Primary(group.sentinels())],
            (None, None) => nodes.map(|node| node.address().into()).collect(),
            (None, Some(stay)) => nodes
                .zip(&stay.servers)
                .map(|(node, server)| match &node.link {
                    Some(link) => server.behind(link.address()),
                    None => server.clone(),
                })
                .collect(),
        }
    }

    /// The same past all links, for who only looks: every node itself, but of a group its primary.
    pub fn servers_themselves(&self) -> Vec<Server> {
        match (&self.group, &self.stay) {
            (Some(_), _) => self.servers(),
            (None, Some(stay)) => stay.servers.clone(),
            (None, None) => (self.nodes.iter()).map(|node| node.itself()).collect(),
        }
    }

    /// What the names of all keys begin with: nothing on servers that are the run's own.
    pub fn prefix(&self) -> &str {
        self.stay.as_ref().map_or("", |stay| &stay.prefix)
    }

    /// The names of the locks' keys.
    pub fn key_names(&self, workload: &Workload) -> Vec<String> {
        workload::key_names(workload, self.prefix())
    }

    /// The name of a key that is nobody's, to try a write on.
    pub fn probe(&self) -> String {
        format!("{}oversold:probe", self.prefix())
    }

    /// Those of them that were not killed on purpose.
    pub fn servers_left(&self) -> Vec<Server> {
        let servers = self.servers_themselves();
        let dead = |place: &usize| self.group.is_none() && self.nodes[*place].is_doomed();
        let left = servers.into_iter().enumerate();
        left.filter(|(place, _)| !dead(place))
            .map(|(_, server)| server)
            .collect()
    }
}

impl Servers {
    /// Starts the servers that a topology asks for, with room for that many workers; with links in
    /// front of them, or only where the topology has some anyway.
    pub async fn raise(
        binary: &Binary,
        topology: Topology,
        workers: u32,
        links: bool,
    ) -> Result<Servers, StartError> {
        match topology {
            Topology::External { .. } => Err(StartError::NoUrl),
            Topology::Single => Servers::independent(binary, 1, workers, links).await,
            Topology::Quorum { nodes } => Servers::independent(binary, nodes, workers, links).await,
            Topology::Sentinel {
                replicas,
                min_replicas_to_write,
                down_after_ms,
            } => {
                // Each worker's socket, the two of the link, and one to ask a Sentinel by.
                raise_open_file_limit(workers * 4).map_err(StartError::OpenFiles)?;
                let options = options(binary, 2 * workers + SPARE_CLIENTS);
                let wanted = (replicas, min_replicas_to_write, down_after_ms);
                let raising = sentinel::raise(binary, &options, wanted);
                let (running, group) = raising.await?;
                let nodes = group.nodes().to_vec();
                let group = Some(group);
                Ok(Servers {
                    running,
                    reach: Reach {
                        nodes,
                        group,
                        stay: None,
                    },
                    visit: None,
                })
            }
        }
    }

    /// Starts so many that know nothing of each other, each with room for that many workers.
    pub async fn start(binary: &Binary, nodes: u32, workers: u32) -> Result<Servers, StartError> {
        Servers::independent(binary, nodes, workers, false).await
    }

    async fn independent(
        binary: &Binary,
        nodes: u32,
        workers: u32,
        links: bool,
    ) -> Result<Servers, StartError> {
        // Each worker's socket, and the two of a link.
        let files = workers * nodes * if links { 3 } else { 1 };
        raise_open_file_limit(files).map_err(StartError::OpenFiles)?;
        let options = options(binary, workers + SPARE_CLIENTS);
        let starting = (0..nodes).map(|_| Process::start(binary, Job::Server(&options)));
        let mut running = Vec::new();
        for process in try_join_all(starting).await? {
            let io = |why| StartError::Io(binary.path.clone(), why);
            let link = match links {
                true => Some(Link::start(process.address).await.map_err(io)?),
                false => None,
            };
            let machine = Arc::new(Machine::new(&process, link));
            running.push(Running::new(process, machine));
        }
        let nodes = running.iter().map(|one| Arc::clone(&one.machine)).collect();
        let group = None;
        Ok(Servers {
            running,
            reach: Reach {
                nodes,
                group,
                stay: None,
            },
            visit: None,
        })
    }

    /// Those of a user.
    pub(super) fn visiting(reach: Reach, visit: Visit) -> Servers {
        Servers {
            running: Vec::new(),
            reach,
            visit: Some(visit),
        }
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

    /// Waits for any of them to end by itself, and tells how it did. An end on purpose is none, and
    /// of a user's a long silence is one.
    pub async fn died(&mut self) -> String {
        let ends: Vec<_> = self
            .running
            .iter_mut()
            .map(|one| Box::pin(one.died()))
            .collect();
        match (ends.is_empty(), &self.visit) {
            (true, None) => std::future::pending().await,
            (true, Some(visit)) => visit.stay.gone(visit.silence).await,
            (false, _) => select_all(ends).await.0,
        }
    }

    /// All that they have logged.
    pub fn log(&self) -> String {
        let running = self.running.iter();
        let logs: Vec<String> = running.map(|one| one.process.log()).collect();
        logs.join("\n")
    }

    /// Ends them; a user's are left as they were found. Tells what could not be.
    pub async fn stop(self) -> Vec<String> {
        for one in self.running {
            one.stop().await;
        }
        let Some(visit) = self.visit else {
            return Vec::new();
        };
        // First of all what concerns everybody there: to remove keys may take long.
        let mut left = Vec::new();
        for node in &self.reach.nodes {
            if let Err(why) = node.settings.restore_all().await {
                left.push(format!(
                    "{}: {why}: `oversold doctor --heal URL` restores it",
                    node.itself()
                ));
            }
            let theirs = node.settings.theirs().into_iter();
            left.extend(theirs.map(|what| format!("{}: {what}", node.itself())));
        }
        left.extend(visit.stay.clear().await);
        drop(visit.turn);
        left
    }
}

fn options(binary: &Binary, clients: u32) -> Vec<String> {
    // Key events: expired, evicted. The checks hear from the server itself when a lock's key went
    // away by itself.
    let options = [
        "--maxclients",
        &clients.to_string(),
        "--notify-keyspace-events",
        "Exe",
    ];
    // What faults do by DEBUG, and to the folder of the server. Older ones let everybody.
    let guarded = [
        "--enable-debug-command",
        "local",
        "--enable-protected-configs",
        "local",
    ];
    let guarded = guarded.iter().filter(|_| binary.guards_its_settings());
    let all = options.iter().chain(guarded);
    all.map(|word| (*word).to_owned()).collect()
}
