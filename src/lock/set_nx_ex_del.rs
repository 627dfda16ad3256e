//! `SET key 1 NX PX ttl`, then an unconditional `DEL key`: the lock of the reconciliation incident.
//!
//! The key always has its lease, so a dead holder blocks for one TTL at most. Known failures: a
//! section that outlives the TTL lets the next one in, and `DEL` then removes the next one's lock,
//! which lets in a third.

use std::time::Duration;

use super::wire::{self, Wire};
use super::{Acquire, Boxed, Call, Entry, Lock, del, set_nx_px};
use crate::history::event::Release;

pub(super) const ENTRY: Entry = Entry {
    about: "SET NX PX with a fixed value, then DEL",
    wire: Some(Wire {
        release: wire::DEL,
        ..Wire::TOKEN
    }),
    ..Entry::lock("set-nx-ex-del", |ttl| Box::new(SetNxExDel { ttl }))
};

#[derive(Debug)]
struct SetNxExDel {
    ttl: Duration,
}

impl Lock for SetNxExDel {
    fn acquire<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Acquire> {
        Box::pin(set_nx_px(call, "1", self.ttl))
    }

    fn release<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Release> {
        Box::pin(del(call))
    }
}
