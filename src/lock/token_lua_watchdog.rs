//! [`token-lua`](super::token_lua) with a watchdog that, every third of the TTL, extends the lease
//! by a script that compares the token first: the incident's repair (30 s, renewed every 10 s, as
//! in Redisson).
//!
//! A slow section keeps its lock; a dead holder's lock still ends within a TTL. Known failures: a
//! pause of the whole process stops the watchdog with it, so a pause longer than the TTL lets the
//! next one in (<https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html>); a
//! failover may lose the grant.

use std::time::Duration;

use super::{
    Acquire, Boxed, COMPARE_AND_DELETE, COMPARE_AND_EXTEND, Call, Entry, Lock, Renewal, Watchdog,
    compare_and_delete, compare_and_extend, set_nx_px,
};
use crate::client::Script;
use crate::history::event::Release;

pub(super) const ENTRY: Entry = Entry {
    about: "token-lua, and a watchdog that renews the lease every TTL/3",
    renews: true,
    ..Entry::lock("token-lua-watchdog", |ttl| {
        Box::new(TokenLuaWatchdog {
            ttl,
            release: Script::new(COMPARE_AND_DELETE),
            extend: Script::new(COMPARE_AND_EXTEND),
        })
    })
};

#[derive(Debug)]
struct TokenLuaWatchdog {
    ttl: Duration,
    release: Script,
    extend: Script,
}

impl Lock for TokenLuaWatchdog {
    fn acquire<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Acquire> {
        Box::pin(set_nx_px(call, call.token, self.ttl))
    }

    fn release<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Release> {
        Box::pin(compare_and_delete(call, &self.release, call.token))
    }

    fn watchdog(&self) -> Option<&dyn Watchdog> {
        Some(self)
    }
}

impl Watchdog for TokenLuaWatchdog {
    fn every(&self) -> Duration {
        self.ttl / 3
    }

    fn renew<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Renewal> {
        Box::pin(compare_and_extend(call, &self.extend, self.ttl))
    }
}
