//! Which plans can be run at a user's own Redis, and why the others cannot.

use super::Plan;
use crate::scenario::{Means, Topology};

/// What is known of a user's own Redis before it is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExternalShape {
    /// How many servers were named.
    pub nodes: u32,
    /// Whether Sentinels say where they are.
    pub sentinels: bool,
    /// Whether their traffic is encrypted.
    pub tls: bool,
    /// Whether they are reached by a Unix socket.
    pub socket: bool,
    /// Whether faults may change them for everybody.
    pub allows_server_faults: bool,
}

/// The least servers that have a majority without one of them.
const LEAST_QUORUM: u32 = 3;

impl ExternalShape {
    /// Whether a lock on a majority can be run there.
    pub fn has_quorum(&self) -> bool {
        self.nodes >= LEAST_QUORUM
    }

    /// The servers of a plan there, for a lock on a majority or on one server.
    pub fn topology(&self, quorum: bool) -> Topology {
        let nodes = if quorum { self.nodes } else { 1 };
        Topology::External { nodes }
    }

    /// Why a plan cannot be run there, fault by fault.
    pub fn misfits(&self, plan: &Plan) -> Vec<String> {
        let mut misfits: Vec<String> = Vec::new();
        for fault in &plan.faults {
            let word = fault.how.word();
            let why = match fault.how.means() {
                Means::Instance => continue,
                Means::Link if self.tls => {
                    "is done by a link that reads the traffic, and nobody can read TLS: name the \
                     server by `redis://`, or run this without `--url`"
                }
                Means::Link if self.socket => {
                    "is done by a link in front of a port: name the server by `redis://HOST:PORT`"
                }
                Means::Link if self.sentinels => {
                    "is done by a link in front of the server, and clients go where the Sentinels \
                     send them: name the server itself by `redis://HOST:PORT`"
                }
                Means::Link => continue,
                Means::Command if self.allows_server_faults => continue,
                Means::Command => {
                    "is done to the server and everybody who uses it: add `--allow-server-faults` \
                     if nobody else needs that Redis (settings are restored at the end; `evict` \
                     removes the others' keys for good)"
                }
                Means::Process => {
                    "is done to a server's own process, and that of an external Redis is out of \
                     reach: run this without `--url`"
                }
            };
            let misfit = format!("`{word}` {why}");
            if !misfits.contains(&misfit) {
                misfits.push(misfit);
            }
        }
        misfits
    }
}
