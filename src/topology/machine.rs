//! A server as faults and clients see it: where it is reached, the link in front of it if it has
//! one, and how it is killed on purpose.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::process::{Process, kill_group};
use crate::link::Link;

/// One server, with the link in front of it if it has one.
#[derive(Debug)]
pub struct Machine {
    /// Where it listens itself.
    pub own: SocketAddr,
    /// The link in front of it.
    pub link: Option<Link>,
    pid: Option<u32>,
    doomed: AtomicBool,
}

impl Machine {
    pub(super) fn new(process: &Process, link: Option<Link>) -> Machine {
        Machine {
            own: process.address,
            link,
            pid: process.pid(),
            doomed: AtomicBool::new(false),
        }
    }

    /// Where it is reached, and known to others.
    pub fn address(&self) -> SocketAddr {
        self.link.as_ref().map_or(self.own, Link::address)
    }

    /// Kills it for good, and with it all that was on its way to or from it, as when its host dies.
    /// False if it was killed before.
    pub fn kill(&self) -> bool {
        if self.doomed.swap(true, Ordering::AcqRel) {
            return false;
        }
        if let Some(link) = &self.link {
            link.close();
        }
        // Nobody has waited for it yet, so its number is still its own.
        self.pid.into_iter().for_each(kill_group);
        true
    }

    /// Whether it was killed on purpose.
    pub fn is_doomed(&self) -> bool {
        self.doomed.load(Ordering::Acquire)
    }
}
