//! [`token-lua`](super::token_lua) with a token that is always `1`: the trap of "the value does not
//! matter".
//!
//! The script compares and deletes in one step, and the comparison is always true, so a late
//! release removes the next one's lock just as a bare `DEL` does. Known failures: all of
//! [`set-nx-ex-del`](super::set_nx_ex_del).

use std::time::Duration;

use super::{Acquire, Boxed, COMPARE_AND_DELETE, Call, Entry, Lock, compare_and_delete, set_nx_px};
use crate::client::Script;
use crate::history::event::Release;

/// What everybody writes into the key.
const TOKEN: &str = "1";

pub(super) const ENTRY: Entry = Entry {
    about: "token-lua with a token that is always 1: the comparison is worthless",
    ..Entry::lock("fixed-token-lua", |ttl| {
        Box::new(FixedTokenLua {
            ttl,
            release: Script::new(COMPARE_AND_DELETE),
        })
    })
};

#[derive(Debug)]
struct FixedTokenLua {
    ttl: Duration,
    release: Script,
}

impl Lock for FixedTokenLua {
    fn acquire<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Acquire> {
        Box::pin(set_nx_px(call, TOKEN, self.ttl))
    }

    fn release<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Release> {
        Box::pin(compare_and_delete(call, &self.release, TOKEN))
    }
}
