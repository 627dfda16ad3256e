//! The locks: one small file each, one line each in [`ALL`]. A lock touches the outside only
//! through [`Call`] (commands, and the points at which a fault may strike), so that a driver can
//! step it one command at a time.

mod acknowledged;
mod fair;
mod fenced;
mod fixed_token_lua;
mod none;
mod redlock;
mod reentrant_watchdog;
mod set_nx_ex_del;
mod setnx_expire_del;
mod token_get_del;
mod token_lua;
mod token_lua_watchdog;
mod wire;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::client::{Conn, Outcome, Script};
use crate::clock::LocalClock;
use crate::history::event::Release;
use crate::scenario::{Guard, Point};

pub use acknowledged::acknowledged;
pub use wire::{Exchange, Request, Wire};

/// A future on its own, as trait objects need it.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A strategy to acquire, keep and release a lock on one key.
pub trait Lock: Debug + Send + Sync {
    /// Asks once for the lock; never waits for it.
    fn acquire<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Acquire>;

    /// Gives the lock back, as this lock does it. Called once after each grant.
    fn release<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Release>;

    /// The caller gives up waiting: what its attempts left behind (a place in a queue) goes.
    fn abandon<'a>(&'a self, _call: &'a Call<'a>) -> Boxed<'a, ()> {
        Box::pin(async {})
    }

    /// How the lease is kept alive while the section runs; without it, it is not.
    fn watchdog(&self) -> Option<&dyn Watchdog> {
        None
    }

    /// Where this waiter hears that the lock was released; without it, it can only ask again. Some
    /// for the locks whose [`Entry::wakes`] says how.
    fn wake_up(&self, _call: &Call<'_>) -> Option<WakeUp> {
        None
    }
}

/// Where a waiter hears of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WakeUp {
    /// A message on this channel. Only who listens at the time hears it.
    Message(String),
    /// A value in this list, which is the waiter's own and keeps the value until it is popped.
    Pop(String),
}

/// How a lock wakes its waiters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wakes {
    /// All at once, by a message (<https://redis.io/docs/latest/develop/pubsub/>).
    ByMessage,
    /// One after the other, by a value that each pops from a list of its own
    /// (<https://redis.io/docs/latest/commands/blpop/>).
    ByPop,
}

impl Wakes {
    /// How it is called in lists.
    pub fn word(self) -> &'static str {
        match self {
            Wakes::ByMessage => "by message",
            Wakes::ByPop => "by blocking pop",
        }
    }
}

/// A lease that is renewed in the background.
pub trait Watchdog: Debug + Send + Sync {
    /// How long between two renewals.
    fn every(&self) -> Duration;

    /// Extends the lease to a full TTL from now, if it is still the caller's.
    fn renew<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Renewal>;
}

/// How an attempt to acquire was answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Acquire {
    /// It has the lock.
    Granted(Lease),
    /// Another one has it. Where the server told it: what is left of its lease, or less where a waiter
    /// must ask sooner. Who waits for a wake-up asks again after that at the latest.
    Denied(Option<Duration>),
    /// The attempt failed and surely changed nothing.
    Failed(String),
    /// The attempt may have been applied.
    Unknown(String),
}

/// One grant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lease {
    /// How long the lease lives without renewal, if it ends at all.
    pub ttl: Option<Duration>,
    /// Whether a server granted it.
    pub locked: bool,
    /// The fencing token, where the lock draws one: it grows from grant to grant.
    pub fence: Option<i64>,
    /// How long from the grant the holder may rely on it, where that is less than the lease.
    pub validity: Option<Duration>,
}

impl Lease {
    /// A lease on a server's key.
    pub fn of(ttl: Duration) -> Lease {
        Lease {
            ttl: Some(ttl),
            locked: true,
            fence: None,
            validity: None,
        }
    }
}

/// How a renewal was answered.
#[derive(Debug, Clone, PartialEq)]
pub enum Renewal {
    /// The lease lives a full TTL from now.
    Extended,
    /// The lock is not the caller's any more.
    Lost,
    /// No answer, or an error: the lease may still live.
    Failed(String),
}

/// What a lock sees of the world during one operation.
pub struct Call<'a> {
    /// The worker's connections, one to each node.
    pub nodes: &'a [Conn],
    /// The instance's own clock.
    pub clock: LocalClock,
    /// The key to lock.
    pub key: &'a str,
    /// A value unique to this operation.
    pub token: &'a str,
    /// A value unique to this worker: its operations are the same owner's.
    pub owner: &'a str,
    /// How long the caller may pause before it asks again, if it is refused.
    pub pause: Duration,
    /// The points at which a fault may strike.
    pub points: &'a dyn Points,
}

impl Call<'_> {
    /// The connection to the one node, or the first.
    pub fn conn(&self) -> &Conn {
        &self.nodes[0]
    }
}

/// Where an operation says how far it has got, so that a fault can strike there.
pub trait Points: Send + Sync {
    /// The operation is at this point. If its instance is struck the future does not return until
    /// the instance goes on, or never.
    fn reached(&self, point: Point) -> Boxed<'_, ()>;

    /// The release has compared in a command of its own, and now sends the one that deletes.
    fn deletes(&self) {}
}

/// A lock as the registry knows it.
#[derive(Debug)]
pub struct Entry {
    /// Its name on the command line and in scenarios.
    pub name: &'static str,
    /// One line for a list.
    pub about: &'static str,
    /// Whether it renews its leases.
    pub renews: bool,
    /// Whether it runs on several independent nodes.
    pub quorum: bool,
    /// Whether its waiters stand in a queue, and may stand behind a dead one.
    pub queues: bool,
    /// Whether it promises one section at a time. The alternatives to locking do not.
    pub excludes: bool,
    /// How a waiter is woken instead of asking again, if it is. Failing fast and asking at an
    /// interval are possible under every lock.
    pub wakes: Option<Wakes>,
    /// The store's guard that is its own way to protect the business.
    pub guard: Option<Guard>,
    /// What it says on its connections; nothing where there is no lock.
    pub wire: Option<Wire>,
    /// Makes one, with a TTL.
    pub make: fn(Duration) -> Box<dyn Lock>,
}

impl Entry {
    /// A lock on one node that promises exclusion, and nothing else special.
    const fn lock(name: &'static str, make: fn(Duration) -> Box<dyn Lock>) -> Entry {
        Entry {
            name,
            about: "",
            renews: false,
            quorum: false,
            queues: false,
            excludes: true,
            wakes: None,
            guard: None,
            wire: Some(Wire::TOKEN),
            make,
        }
    }
}

/// Every lock there is, from none over the broken ones to the best, and the alternatives to
/// locking after them.
pub static ALL: [Entry; 15] = [
    none::ENTRY,
    setnx_expire_del::ENTRY,
    set_nx_ex_del::ENTRY,
    token_get_del::ENTRY,
    fixed_token_lua::ENTRY,
    token_lua::ENTRY,
    token_lua_watchdog::ENTRY,
    reentrant_watchdog::ENTRY,
    fair::ENTRY,
    fenced::ENTRY,
    redlock::ENTRY,
    redlock::WATCHDOG,
    none::CONDITIONAL,
    none::OPTIMISTIC,
    none::UNIQUE,
];

/// The lock of that name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name)
}

/// The names of the locks that wake their waiters.
pub fn waking() -> Vec<&'static str> {
    let waking = ALL.iter().filter(|entry| entry.wakes.is_some());
    waking.map(|entry| entry.name).collect()
}

/// The names of all locks.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|entry| entry.name).collect()
}

/// `SET key value NX PX ttl`: take the key with its lease in one command
/// (<https://redis.io/docs/latest/commands/set/>).
async fn set_nx_px(call: &Call<'_>, value: &str, ttl: Duration) -> Acquire {
    let mut set = redis::cmd("SET");
    set.arg(call.key).arg(value).arg("NX");
    set.arg("PX").arg(milliseconds(ttl));
    match call.conn().call::<Option<String>>(&set).await {
        Outcome::Done(Some(_)) => {
            call.points.reached(Point::BetweenCommands).await;
            Acquire::Granted(Lease::of(ttl))
        }
        Outcome::Done(None) => Acquire::Denied(None),
        Outcome::Refused(error) => Acquire::Failed(error),
        Outcome::Unknown(error) => Acquire::Unknown(error),
    }
}

/// `DEL key`, whoever holds it (<https://redis.io/docs/latest/commands/del/>).
async fn del(call: &Call<'_>) -> Release {
    call.points.reached(Point::BeforeDelete).await;
    delete(call).await
}

async fn delete(call: &Call<'_>) -> Release {
    let mut del = redis::cmd("DEL");
    del.arg(call.key);
    match call.conn().call::<i64>(&del).await {
        Outcome::Done(0) => Release::Gone,
        Outcome::Done(_) => Release::Removed,
        Outcome::Refused(error) => Release::Failed(error),
        Outcome::Unknown(error) => Release::Unknown(error),
    }
}

/// Removes the key if it holds the token, in one step on the server: 1 removed, 0 another's, -1
/// gone. The compare-and-delete of <https://redis.io/docs/latest/commands/set/>, which tells the
/// last two apart so that a history can.
const COMPARE_AND_DELETE: &str = r"
local held = redis.call('get', KEYS[1])
if held == ARGV[1] then return redis.call('del', KEYS[1]) end
if held then return 0 end
return -1";

/// Gives the key a full TTL from now if it holds the token, in one step on the server.
const COMPARE_AND_EXTEND: &str = r"
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0";

async fn compare_and_delete(call: &Call<'_>, script: &Script, token: &str) -> Release {
    call.points.reached(Point::BeforeDelete).await;
    released(call.conn().eval(script, &[call.key], &[token]).await)
}

/// What the answer of a compare-and-delete says.
fn released(answer: Outcome<i64>) -> Release {
    match answer {
        Outcome::Done(1) => Release::Removed,
        Outcome::Done(0) => Release::NotMine,
        Outcome::Done(_) => Release::Gone,
        Outcome::Refused(error) => Release::Failed(error),
        Outcome::Unknown(error) => Release::Unknown(error),
    }
}

async fn compare_and_extend(call: &Call<'_>, script: &Script, ttl: Duration) -> Renewal {
    let ttl = milliseconds(ttl).to_string();
    let arguments = [call.token, ttl.as_str()];
    match call.conn().eval(script, &[call.key], &arguments).await {
        Outcome::Done(1) => Renewal::Extended,
        Outcome::Done(_) => Renewal::Lost,
        Outcome::Refused(error) | Outcome::Unknown(error) => Renewal::Failed(error),
    }
}

/// Whole milliseconds, as Redis counts leases.
fn milliseconds(ttl: Duration) -> u64 {
    ttl.as_millis() as u64
}
