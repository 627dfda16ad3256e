//! Redisson's `RLock` on the wire: a hash from owner to hold count, scripts to acquire, renew and
//! release, and a message that wakes the waiters. A Java service's lock and this one can contend
//! for the same key (<https://redisson.pro/docs/data-and-services/locks-and-synchronizers/>).
//!
//! Commands: if the key is free or the owner's, `HINCRBY key owner 1` and `PEXPIRE`, else the
//! answer is the `PTTL`; a release takes one off the count and makes the lease full again, and the
//! last one deletes the key and publishes `0` on `redisson_lock__channel:{key}` (without braces
//! around a key that has its own); the watchdog renews the lease (30 s by default there) every
//! third of it while the owner holds. An owner may acquire again what it holds.
//!
//! Known failures: as [`token-lua-watchdog`](super::token_lua_watchdog). A lost answer leaves a
//! hold behind until the lease ends, and it does not end while the same owner, who is let in again,
//! goes on acquiring.

use std::time::Duration;

use super::wire::{Exchange, Request, Wire};
use super::{
    Acquire, Boxed, Call, Entry, Lease, Lock, Renewal, WakeUp, Wakes, Watchdog, milliseconds,
};
use crate::client::{Outcome, Script};
use crate::history::event::Release;
use crate::link::Answer;
use crate::scenario::Point;

/// -1 when acquired (once more), else the milliseconds that the other one's lease still has; -2 if it
/// has no end.
const ACQUIRE: &str = r"
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[2], 1)
  redis.call('pexpire', KEYS[1], ARGV[1])
  return -1
end
local left = redis.call('pttl', KEYS[1])
return left < 0 and -2 or left";

/// The holds that are left; -1 if the lock is another's, -2 if there is none.
const RELEASE: &str = r"
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
  return redis.call('exists', KEYS[1]) == 1 and -1 or -2
end
local holds = redis.call('hincrby', KEYS[1], ARGV[2], -1)
if holds > 0 then
  redis.call('pexpire', KEYS[1], ARGV[1])
  return holds
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], '0')
return 0";

/// 1 if the owner still holds it and the lease is full again.
const EXTEND: &str = r"
if redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
  return redis.call('pexpire', KEYS[1], ARGV[1])
end
return 0";

pub(super) const ENTRY: Entry = Entry {
    about: "Redisson's protocol: hash of owner to hold count, watchdog",
    renews: true,
    wakes: Some(Wakes::ByMessage),
    wire: Some(Wire {
        // EVALSHA sha 2 key channel milliseconds owner
        acquire: Exchange::new(Request::Script(ACQUIRE), Answer::Word("-1")).with_lease(5),
        renewal: Exchange::new(Request::Script(EXTEND), Answer::Positive).with_lease(5),
        release: Exchange::new(Request::Script(RELEASE), Answer::Word("0")),
    }),
    ..Entry::lock("reentrant-watchdog", |ttl| {
        Box::new(ReentrantWatchdog {
            ttl,
            acquire: Script::new(ACQUIRE),
            release: Script::new(RELEASE),
            extend: Script::new(EXTEND),
        })
    })
};

#[derive(Debug)]
struct ReentrantWatchdog {
    ttl: Duration,
    acquire: Script,
    release: Script,
    extend: Script,
}

/// Where the waiters of a key hear of its release. A key with a hash tag of its own stays as it is.
fn channel(key: &str) -> String {
    match key.contains('{') {
        true => format!("redisson_lock__channel:{key}"),
        false => format!("redisson_lock__channel:{{{key}}}"),
    }
}

/// A lease of so many milliseconds, and the one that PTTL has begun to count down, if it ends at all.
fn lease_left(milliseconds: i64) -> Option<Duration> {
    let left = u64::try_from(milliseconds).ok()?;
    Some(Duration::from_millis(left + 1))
}

impl ReentrantWatchdog {
    async fn run(&self, call: &Call<'_>, script: &Script) -> Outcome<i64> {
        let ttl = milliseconds(self.ttl).to_string();
        let channel = channel(call.key);
        let keys = [call.key, channel.as_str()];
        call.conn().eval(script, &keys, &[&ttl, call.owner]).await
    }

    async fn acquire(&self, call: &Call<'_>) -> Acquire {
        match self.run(call, &self.acquire).await {
            Outcome::Done(-1) => {
                call.points.reached(Point::BetweenCommands).await;
                Acquire::Granted(Lease::of(self.ttl))
            }
            Outcome::Done(left) => Acquire::Denied(lease_left(left)),
            Outcome::Refused(error) => Acquire::Failed(error),
            Outcome::Unknown(error) => Acquire::Unknown(error),
        }
    }

    async fn release(&self, call: &Call<'_>) -> Release {
        call.points.reached(Point::BeforeDelete).await;
        match self.run(call, &self.release).await {
            Outcome::Done(-2) => Release::Gone,
            Outcome::Done(-1) => Release::NotMine,
            Outcome::Done(0) => Release::Removed,
            Outcome::Done(holds) => Release::StillHeld(holds as u32),
            Outcome::Refused(error) => Release::Failed(error),
            Outcome::Unknown(error) => Release::Unknown(error),
        }
    }

    async fn extend(&self, call: &Call<'_>) -> Renewal {
        match self.run(call, &self.extend).await {
            Outcome::Done(1) => Renewal::Extended,
            Outcome::Done(_) => Renewal::Lost,
            Outcome::Refused(error) | Outcome::Unknown(error) => Renewal::Failed(error),
        }
    }
}

impl Lock for ReentrantWatchdog {
    fn acquire<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Acquire> {
        Box::pin(self.acquire(call))
    }

    fn release<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Release> {
        Box::pin(self.release(call))
    }

    fn watchdog(&self) -> Option<&dyn Watchdog> {
        Some(self)
    }

    fn wake_up(&self, call: &Call<'_>) -> Option<WakeUp> {
        Some(WakeUp::Message(channel(call.key)))
    }
}

impl Watchdog for ReentrantWatchdog {
    fn every(&self) -> Duration {
        self.ttl / 3
    }

    fn renew<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Renewal> {
        Box::pin(self.extend(call))
    }
}
