//! [`token-lua-watchdog`](super::token_lua_watchdog) whose grant carries a fencing token: a number
//! from a counter that the acquiring script increments with the grant. The store's guard `fence`
//! rejects a write with an older number than it has seen.
//!
//! The lock itself breaks wherever token-lua-watchdog breaks; the ledger stays right, because the
//! late write comes with the older number
//! (<https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html>). The counter
//! (`key:fence`, in the lock's hash slot) has no TTL and outlives all grants: if it ended, the
//! numbers would begin again.
//! Known failures: a failover may lose the counter with the grant, and then two grants carry one
//! number.

use std::time::Duration;

use super::fair::beside;
use super::wire::{Exchange, Request, Wire};
use super::{
    Acquire, Boxed, COMPARE_AND_DELETE, COMPARE_AND_EXTEND, Call, Entry, Lease, Lock, Renewal,
    Watchdog, compare_and_delete, compare_and_extend, milliseconds,
};
use crate::client::{Outcome, Script};
use crate::history::event::Release;
use crate::link::Answer;
use crate::scenario::Point;

/// Draws the next number and takes the key with its lease, in one step; 0 if another has it. The
/// number comes first: where it cannot be drawn, nothing is taken.
const ACQUIRE: &str = r"
if redis.call('exists', KEYS[1]) == 1 then return 0 end
local fence = redis.call('incr', KEYS[2])
redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
return fence";

pub(super) const ENTRY: Entry = Entry {
    about: "token-lua-watchdog with a fencing token, for the store's guard `fence`",
    renews: true,
    wire: Some(Wire {
        // EVALSHA sha 2 key key token milliseconds
        acquire: Exchange::new(Request::Script(ACQUIRE), Answer::Positive).with_lease(6),
        ..Wire::TOKEN
    }),
    ..Entry::lock("fenced", |ttl| {
        Box::new(Fenced {
            ttl,
            acquire: Script::new(ACQUIRE),
            release: Script::new(COMPARE_AND_DELETE),
            extend: Script::new(COMPARE_AND_EXTEND),
        })
    })
};

#[derive(Debug)]
struct Fenced {
    ttl: Duration,
    acquire: Script,
    release: Script,
    extend: Script,
}

impl Fenced {
    async fn acquire(&self, call: &Call<'_>) -> Acquire {
        let counter = beside(call.key, "fence");
        let ttl = milliseconds(self.ttl).to_string();
        let (keys, args) = ([call.key, &counter], [call.token, &ttl]);
        match call.conn().eval::<i64>(&self.acquire, &keys, &args).await {
            Outcome::Done(0) => Acquire::Denied(None),
            Outcome::Done(fence) => {
                call.points.reached(Point::BetweenCommands).await;
                Acquire::Granted(Lease {
                    fence: Some(fence),
                    ..Lease::of(self.ttl)
                })
            }
            Outcome::Refused(error) => Acquire::Failed(error),
            Outcome::Unknown(error) => Acquire::Unknown(error),
        }
    }
}

impl Lock for Fenced {
    fn acquire<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Acquire> {
        Box::pin(self.acquire(call))
    }

    fn release<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Release> {
        Box::pin(compare_and_delete(call, &self.release, call.token))
    }

    fn watchdog(&self) -> Option<&dyn Watchdog> {
        Some(self)
    }
}

impl Watchdog for Fenced {
    fn every(&self) -> Duration {
        self.ttl / 3
    }

    fn renew<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Renewal> {
        Box::pin(compare_and_extend(call, &self.extend, self.ttl))
    }
}
