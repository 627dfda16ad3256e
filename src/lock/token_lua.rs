//! `SET key token NX PX ttl`; released by a script that compares the token and deletes.
//!
//! The single-instance lock of the command reference
//! (<https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>). It never removes
//! another's lock. Known failures: a section that outlives the TTL (slow, paused, cut off) lets
//! the next one in; a failover may lose the grant.

use std::time::Duration;

use super::{Acquire, Boxed, COMPARE_AND_DELETE, Call, Entry, Lock, compare_and_delete, set_nx_px};
use crate::client::Script;
use crate::history::event::Release;

pub(super) const ENTRY: Entry = Entry {
    about: "SET NX PX with a token; released by a compare-and-delete script",
    ..Entry::lock("token-lua", |ttl| {
        Box::new(TokenLua {
            ttl,
            release: Script::new(COMPARE_AND_DELETE),
        })
    })
};

#[derive(Debug)]
struct TokenLua {
    ttl: Duration,
    release: Script,
}

impl Lock for TokenLua {
    fn acquire<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Acquire> {
        Box::pin(set_nx_px(call, call.token, self.ttl))
    }

    fn release<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Release> {
        Box::pin(compare_and_delete(call, &self.release, call.token))
    }
}
