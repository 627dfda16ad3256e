//! A server as faults and clients see it: where it is reached, the link in front of it if it has
//! one, and what is done to its process on purpose.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::sync::Notify;

use super::process::{Process, kill_group, signal_group};
use super::recipe::Recipe;
use super::settings::Settings;
use super::wall_clock;
use crate::client::Server;
use crate::link::Link;

/// How long a port may be taken that a process is to listen on again, and how often it is tried.
const PORT: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);

/// One server, with the link in front of it if it has one.
#[derive(Debug)]
pub struct Machine {
    /// Where it listens itself.
    pub own: SocketAddr,
    /// The link in front of it.
    pub link: Option<Link>,
    /// Those of its settings that a fault has changed.
    pub settings: Arc<Settings>,
    /// The same as where it listens, and how one gets in there.
    itself: Server,
    // Weak, so that its folder goes with its topology.
    recipe: Weak<Recipe>,
    // A std mutex and not tokio's: it is held to look or to change, never across an await.
    life: Mutex<Life>,
    /// Tells that there is a new process to take over.
    raised: Notify,
    /// Its topology has ended.
    over: AtomicBool,
}

/// The process that it is at present.
#[derive(Debug)]
struct Life {
    pid: Option<u32>,
    /// Whether the end of this process is meant.
    meant: Arc<AtomicBool>,
    /// A process that was started again, until its topology takes it over.
    again: Option<Process>,
}

impl Machine {
    pub(super) fn new(process: &Process, link: Option<Link>) -> Machine {
        Machine {
            own: process.address,
            link,
            settings: Arc::new(Settings::of(process.address.into(), None)),
            itself: process.address.into(),
            recipe: Arc::downgrade(&process.recipe),
            life: Mutex::new(Life {
                pid: process.pid(),
                meant: Arc::clone(&process.meant),
                again: None,
            }),
            raised: Notify::new(),
            over: AtomicBool::new(false),
        }
    }

    /// A server that is somebody else's: nothing can be done to its process.
    pub(super) fn of_a_user(
        own: SocketAddr,
        itself: Server,
        link: Option<Link>,
        settings: Arc<Settings>,
    ) -> Machine {
        Machine {
            own,
            link,
            settings,
            itself,
            recipe: Weak::new(),
            life: Mutex::new(Life {
                pid: None,
                meant: Arc::default(),
                again: None,
            }),
            raised: Notify::new(),
            over: AtomicBool::new(true),
        }
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where it is reached, and known to others.
    pub fn address(&self) -> SocketAddr {
        self.link.as_ref().map_or(self.own, Link::address)
    }

    /// How it is asked past its link.
    pub fn itself(&self) -> Server {
        self.itself.clone()
    }

    /// Kills it for good, and with it all that was on its way to or from it, as when its host dies.
    /// False if it was killed before.
    pub fn kill(&self) -> bool {
        let killed = self.end();
        if let Some(link) = self.link.as_ref().filter(|_| killed) {
            link.close();
        }
        killed
    }

    /// Kills its process alone, as a crash does: it can be raised again. False if it was killed
    /// before.
    pub fn end(&self) -> bool {
        let life = self.life();
        let Some(pid) = life.pid else { return false };
        if life.meant.swap(true, Ordering::AcqRel) {
            return false;
        }
        // Nobody has waited for it yet, so its number is still its own.
        kill_group(pid);
        true
    }

    /// The end of a process was seen: its number may be somebody else's by now.
    pub(super) fn has_ended(&self, pid: Option<u32>) {
        let mut life = self.life();
        life.pid.take_if(|own| Some(*own) == pid);
    }

    /// Whether its process was killed on purpose, and no other one raised since.
    pub fn is_doomed(&self) -> bool {
        self.life().meant.load(Ordering::Acquire)
    }

    /// Starts its process again on the same port, after its end, with some more options: with what
    /// it had saved of its data, or without. None if that fails, or its topology has ended.
    ///
    /// To be called on a thread that lives as long as the driver.
    pub async fn raise(&self, with_data: bool, options: &[&str]) -> Option<()> {
        let recipe = self.recipe.upgrade()?;
        if !with_data {
            recipe.forget_data().ok()?;
        }
        let process = again(&recipe, options).await?;
        let mut life = self.life();
        // Nobody is there any more who would end it: dropped, and so ended.
        if self.over.load(Ordering::Acquire) {
            return None;
        }
        life.pid = process.pid();
        life.meant = Arc::clone(&process.meant);
        life.again = Some(process);
        self.raised.notify_one();
        Some(())
    }

    /// Waits for a process that was started again.
    pub(super) async fn raised(&self) -> Process {
        loop {
            if let Some(process) = self.life().again.take() {
                return process;
            }
            self.raised.notified().await;
        }
    }

    /// Raises nothing any more; tells what was raised last and is nobody's yet.
    pub(super) fn close(&self) -> Option<Process> {
        let mut life = self.life();
        self.over.store(true, Ordering::Release);
        life.again.take()
    }

    /// Stops its process where it stands, or lets it go on. False if it has ended.
    pub fn stand_still(&self, still: bool) -> bool {
        let life = self.life();
        let signal = match still {
            true => Signal::SIGSTOP,
            false => Signal::SIGCONT,
        };
        let alive = life.pid.filter(|_| !life.meant.load(Ordering::Acquire));
        alive.is_some_and(|pid| signal_group(pid, signal))
    }

    /// Moves its wall clock by so much, if it was started with one of its own.
    pub fn move_wall_clock(&self, by_ns: i64) -> std::io::Result<()> {
        let recipe = self.recipe.upgrade();
        let recipe = recipe.ok_or_else(|| std::io::Error::other("it has ended"))?;
        wall_clock::jump(recipe.folder.path(), by_ns)
    }
}

/// Starts a process again. Its port may be somebody else's for a moment: that of a connection which
/// went out from there.
async fn again(recipe: &Arc<Recipe>, options: &[&str]) -> Option<Process> {
    let began = Instant::now();
    loop {
        match Process::by(Arc::clone(recipe), options).await {
            Ok(process) => return Some(process),
            Err(why) if why.is_a_taken_port() && began.elapsed() < PORT => {
                tokio::time::sleep(LOOK).await;
            }
            Err(_) => return None,
        }
    }
}
