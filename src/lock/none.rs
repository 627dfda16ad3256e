//! No lock at all: what the business does when nothing protects it.
//!
//! Commands: none. Known failures: everything that concurrency can do. It is the yardstick for
//! both the damage and the price of the others.

use std::time::Duration;

use super::{Acquire, Boxed, Call, Entry, Lock};
use crate::history::event::Release;

pub(super) const ENTRY: Entry = Entry {
    name: "none",
    about: "no lock: every worker walks in",
    renews: false,
    make: |_: Duration| Box::new(None_),
};

#[derive(Debug)]
struct None_;

impl Lock for None_ {
    fn acquire<'a>(&'a self, _: &'a Call<'a>) -> Boxed<'a, Acquire> {
        let walked_in = Acquire::Granted {
            ttl: None,
            locked: false,
        };
        Box::pin(async { walked_in })
    }

    fn release<'a>(&'a self, _: &'a Call<'a>) -> Boxed<'a, Release> {
        Box::pin(async { Release::Nothing })
    }
}
