//! First come, first served: waiters stand in a queue on the server, and only its head is granted
//! the lock. A waiter that has not asked for a while is dead and is dropped from the queue.
//!
//! Commands: a script over the key, a sorted set of waiters by arrival (`key:queue`) and one by the
//! time of their last question (`key:asked`), on the server's clock; released by compare-and-delete,
//! renewed by a watchdog. Who is granted, gives up or releases is out of the queue; what a dead
//! waiter leaves ends by itself, two TTLs after the last question. Sources: the queue lock of
//! Redisson's `getFairLock`, in shape.
//!
//! Known failures: as [`token-lua-watchdog`](super::token_lua_watchdog); a dead head of the queue
//! keeps everybody waiting until it counts as dead (one TTL); a waiter that asks less often than
//! once a TTL counts as dead and goes back to the end; not reentrant.

use std::time::Duration;

use super::{
    Acquire, Boxed, COMPARE_AND_EXTEND, Call, Entry, Lease, Lock, Renewal, Watchdog,
    compare_and_extend, milliseconds, released,
};
use crate::client::{Outcome, Script};
use crate::history::event::Release;
use crate::scenario::Point;

/// KEYS: the lock, the queue (token by arrival), the questions (token by time). ARGV: token, TTL,
/// milliseconds after which a silent waiter is dead. 1 granted, 0 not (yet).
const ACQUIRE: &str = r"
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, dead in ipairs(redis.call('zrangebyscore', KEYS[3], '-inf', now - ARGV[3])) do
  redis.call('zrem', KEYS[2], dead)
  redis.call('zrem', KEYS[3], dead)
end
if not redis.call('zscore', KEYS[2], ARGV[1]) then
  local last = redis.call('zrange', KEYS[2], -1, -1, 'WITHSCORES')
  local place = last[2] and last[2] + 1 or 1
  redis.call('zadd', KEYS[2], place, ARGV[1])
end
redis.call('zadd', KEYS[3], now, ARGV[1])
redis.call('pexpire', KEYS[2], ARGV[3] * 2)
redis.call('pexpire', KEYS[3], ARGV[3] * 2)
if redis.call('zrange', KEYS[2], 0, 0)[1] ~= ARGV[1] then return 0 end
if not redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
redis.call('zrem', KEYS[2], ARGV[1])
redis.call('zrem', KEYS[3], ARGV[1])
return 1";

/// The compare-and-delete, which also leaves the queue: a holder that asked again stands in it, and
/// nobody would come after it until it counted as dead.
const RELEASE: &str = r"
local held = redis.call('get', KEYS[1])
redis.call('zrem', KEYS[2], ARGV[1])
redis.call('zrem', KEYS[3], ARGV[1])
if held == ARGV[1] then return redis.call('del', KEYS[1]) end
if held then return 0 end
return -1";

/// Leaves the queue.
const ABANDON: &str = r"
redis.call('zrem', KEYS[2], ARGV[1])
redis.call('zrem', KEYS[3], ARGV[1])
return 0";

pub(super) const ENTRY: Entry = Entry {
    about: "first come, first served: a queue on the server, dead waiters dropped; watchdog",
    renews: true,
    ..Entry::lock("fair", |ttl| {
        Box::new(Fair {
            ttl,
            acquire: Script::new(ACQUIRE),
            abandon: Script::new(ABANDON),
            release: Script::new(RELEASE),
            extend: Script::new(COMPARE_AND_EXTEND),
        })
    })
};

#[derive(Debug)]
struct Fair {
    ttl: Duration,
    acquire: Script,
    abandon: Script,
    release: Script,
    extend: Script,
}

impl Fair {
    async fn queue(&self, call: &Call<'_>, script: &Script) -> Outcome<i64> {
        let (queue, questions) = (format!("{}:queue", call.key), format!("{}:asked", call.key));
        let ttl = milliseconds(self.ttl).to_string();
        let keys = [call.key, queue.as_str(), questions.as_str()];
        call.conn()
            .eval(script, &keys, &[call.token, &ttl, &ttl])
            .await
    }

    async fn acquire(&self, call: &Call<'_>) -> Acquire {
        match self.queue(call, &self.acquire).await {
            Outcome::Done(1) => {
                call.points.reached(Point::BetweenCommands).await;
                Acquire::Granted(Lease::of(self.ttl))
            }
            Outcome::Done(_) => Acquire::Denied,
            Outcome::Refused(error) => Acquire::Failed(error),
            Outcome::Unknown(error) => Acquire::Unknown(error),
        }
    }
}

impl Lock for Fair {
    fn acquire<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Acquire> {
        Box::pin(self.acquire(call))
    }

    fn release<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Release> {
        Box::pin(async {
            call.points.reached(Point::BeforeDelete).await;
            released(self.queue(call, &self.release).await)
        })
    }

    fn abandon<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, ()> {
        Box::pin(async {
            // If this does not arrive, the waiter is dropped as a dead one.
            let _ = self.queue(call, &self.abandon).await;
        })
    }

    fn watchdog(&self) -> Option<&dyn Watchdog> {
        Some(self)
    }
}

impl Watchdog for Fair {
    fn every(&self) -> Duration {
        self.ttl / 3
    }

    fn renew<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Renewal> {
        Box::pin(compare_and_extend(call, &self.extend, self.ttl))
    }
}
