//! First come, first served: waiters stand in a queue on the server, and only its head is granted
//! the lock. A release wakes the head alone. A waiter that has been silent for a TTL longer than it
//! said it would pause is dead and is dropped from the queue.
//!
//! Commands: a script over the key, a sorted set of waiters by arrival (`key:queue`) and one by the
//! time from which they count as dead (`key:dead`), on the server's clock; released by compare-and-delete,
//! renewed by a watchdog. To wake a waiter a value is pushed to a list of its own (`key:woken:token`),
//! on which it blocks (`BLPOP`); all names lie in the key's hash slot. Who is granted, gives up or
//! releases is out of the queue; what a dead waiter leaves ends by itself, twice as late. Sources: the queue lock of Redisson's `getFairLock`, in shape; blocking for a wake-up:
//! <https://redis.io/docs/latest/commands/blpop/>.
//!
//! Known failures: as [`token-lua-watchdog`](super::token_lua_watchdog); a dead head of the queue
//! keeps everybody waiting until it counts as dead, its wake-up is nobody's; where all pause long
//! between two questions the lock lies free until its head asks (who waits for a wake-up asks twice
//! a TTL); not reentrant.

use std::time::Duration;

use super::wire::{Exchange, Request, Wire};
use super::{
    Acquire, Boxed, COMPARE_AND_EXTEND, Call, Entry, Lease, Lock, Renewal, WakeUp, Wakes, Watchdog,
    compare_and_extend, milliseconds, released,
};
use crate::client::{Outcome, Script};
use crate::history::event::Release;
use crate::link::Answer;
use crate::scenario::Point;

/// A script about the queue. KEYS: the lock, the queue (token by arrival), the waiters (token by
/// the time from which it is dead). ARGV: token, TTL, what the names of the waiters' lists begin
/// with, how long the waiter may pause before it asks again.
macro_rules! about_the_queue {
    ($script:literal) => {
        concat!(
            r"
local time = redis.call('time')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function leaves(waiter)
  redis.call('zrem', KEYS[2], waiter)
  redis.call('zrem', KEYS[3], waiter)
  redis.call('del', ARGV[3] .. waiter)
end
local function drop_the_dead()
  for _, dead in ipairs(redis.call('zrangebyscore', KEYS[3], '-inf', now)) do
    leaves(dead)
  end
end
local function first() return redis.call('zrange', KEYS[2], 0, 0)[1] end
local function wake_the_first_if_free()
  local waiter = first()
  if not waiter or redis.call('exists', KEYS[1]) == 1 then return end
  local list = ARGV[3] .. waiter
  redis.call('del', list)
  redis.call('rpush', list, 1)
  redis.call('pexpire', list, ARGV[2])
end
",
            $script
        )
    };
}

/// -1 granted; else after how many milliseconds to ask again: when the lease of the lock has ended
/// (the head of the queue), when the head counts as dead (the others), and well before the waiter
/// itself would.
const ACQUIRE: &str = about_the_queue!(
    r"
drop_the_dead()
if not redis.call('zscore', KEYS[2], ARGV[1]) then
  local last = redis.call('zrange', KEYS[2], -1, -1, 'WITHSCORES')
  local place = last[2] and last[2] + 1 or 1
  redis.call('zadd', KEYS[2], place, ARGV[1])
end
local silence = ARGV[2] + ARGV[4]
redis.call('zadd', KEYS[3], now + silence, ARGV[1])
for i = 2, 3 do
  redis.call('pexpire', KEYS[i], math.max(silence * 2, redis.call('pttl', KEYS[i])))
end
local head, left = first(), -1
if head == ARGV[1] then
  if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    leaves(ARGV[1])
    return -1
  end
  left = redis.call('pttl', KEYS[1])
else
  wake_the_first_if_free()
  left = redis.call('zscore', KEYS[3], head) - now
end
return math.min(left < 0 and ARGV[2] or left + 1, ARGV[2] / 2)"
);

/// The compare-and-delete, which also leaves the queue: a holder that asked again stands in it, and
/// nobody would come after it until it counted as dead.
const RELEASE: &str = about_the_queue!(
    r"
local held = redis.call('get', KEYS[1])
if held == ARGV[1] then redis.call('del', KEYS[1]) end
leaves(ARGV[1])
drop_the_dead()
wake_the_first_if_free()
if held == ARGV[1] then return 1 end
return held and 0 or -1"
);

/// Leaves the queue. The one behind it may be the first now, with nobody left to wake it.
const ABANDON: &str = about_the_queue!(
    r"
leaves(ARGV[1])
drop_the_dead()
wake_the_first_if_free()
return 0"
);

pub(super) const ENTRY: Entry = Entry {
    about: "first come, first served: a queue on the server, dead waiters dropped; watchdog",
    renews: true,
    queues: true,
    wakes: Some(Wakes::ByPop),
    wire: Some(Wire {
        // EVALSHA sha 3 key key key token milliseconds
        acquire: Exchange::new(Request::Script(ACQUIRE), Answer::Word("-1")).with_lease(7),
        release: Exchange::new(Request::Script(RELEASE), Answer::Positive),
        ..Wire::TOKEN
    }),
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

/// The name of a key that goes with the lock's: it begins with it, and lies in its hash slot
/// (<https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags>).
pub(super) fn beside(key: &str, what: &str) -> String {
    match key.contains('{') {
        true => format!("{key}:{what}"),
        false => format!("{key}:{what}:{{{key}}}"),
    }
}

/// What the names of a key's waiters' lists begin with; their tokens follow.
fn lists(key: &str) -> String {
    format!("{}:", beside(key, "woken"))
}

impl Fair {
    async fn queue(&self, call: &Call<'_>, script: &Script) -> Outcome<i64> {
        let (queue, dead) = (beside(call.key, "queue"), beside(call.key, "dead"));
        let ttl = milliseconds(self.ttl).to_string();
        let pause = milliseconds(call.pause).to_string();
        let keys = [call.key, queue.as_str(), dead.as_str()];
        let args = [call.token, ttl.as_str(), &lists(call.key), &pause];
        call.conn().eval(script, &keys, &args).await
    }

    async fn acquire(&self, call: &Call<'_>) -> Acquire {
        match self.queue(call, &self.acquire).await {
            Outcome::Done(-1) => {
                call.points.reached(Point::BetweenCommands).await;
                Acquire::Granted(Lease::of(self.ttl))
            }
            Outcome::Done(again) => {
                let again = u64::try_from(again).ok();
                Acquire::Denied(again.map(Duration::from_millis))
            }
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

    fn wake_up(&self, call: &Call<'_>) -> Option<WakeUp> {
        Some(WakeUp::Pop(format!("{}{}", lists(call.key), call.token)))
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
