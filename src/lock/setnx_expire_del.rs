//! The incident's lock: `SETNX key value`, then `EXPIRE key ttl`, then an unconditional `DEL key`.
//!
//! Known failures: a process that dies between the two commands leaves a key that never expires,
//! and so does a lost answer to the first; a section that outlives the TTL lets the next one in;
//! `DEL` then removes the next one's lock. `SETNX` has been deprecated for locks since `SET` took
//! `NX` and `PX` (<https://redis.io/docs/latest/commands/setnx/>).

use std::time::Duration;

use super::wire::{self, Exchange, Request, Wire};
use super::{Acquire, Boxed, Call, Entry, Lease, Lock, del, milliseconds};
use crate::client::Outcome;
use crate::history::event::Release;
use crate::link::Answer;
use crate::scenario::Point;

pub(super) const ENTRY: Entry = Entry {
    about: "SETNX, then PEXPIRE, then DEL: the lock of the 137-of-100 incident",
    wire: Some(Wire {
        // Its lease is another command's.
        acquire: Exchange::new(Request::Command("SETNX"), Answer::Positive),
        release: wire::DEL,
        ..Wire::TOKEN
    }),
    ..Entry::lock("setnx-expire-del", |ttl| Box::new(SetnxExpireDel { ttl }))
};

#[derive(Debug)]
struct SetnxExpireDel {
    ttl: Duration,
}

impl SetnxExpireDel {
    async fn acquire(&self, call: &Call<'_>) -> Acquire {
        let mut setnx = redis::cmd("SETNX");
        setnx.arg(call.key).arg(call.token);
        match call.conn().call::<bool>(&setnx).await {
            Outcome::Done(true) => {}
            Outcome::Done(false) => return Acquire::Denied(None),
            Outcome::Refused(error) => return Acquire::Failed(error),
            Outcome::Unknown(error) => return Acquire::Unknown(error),
        }
        call.points.reached(Point::BetweenCommands).await;
        // PEXPIRE is EXPIRE in milliseconds: a scaled TTL is seldom a whole second.
        let mut expire = redis::cmd("PEXPIRE");
        expire.arg(call.key).arg(milliseconds(self.ttl));
        // As in the incident, nobody looks at this answer; whether the lease ends depends on it.
        let ttl = match call.conn().call::<bool>(&expire).await {
            Outcome::Done(true) => Some(self.ttl),
            _ => None,
        };
        Acquire::Granted(Lease {
            ttl,
            ..Lease::of(self.ttl)
        })
    }
}

impl Lock for SetnxExpireDel {
    fn acquire<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Acquire> {
        Box::pin(self.acquire(call))
    }

    fn release<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Release> {
        Box::pin(del(call))
    }
}
