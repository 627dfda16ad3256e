//! No lock at all: what the business does when nothing protects it; and the alternatives to
//! locking, where the database itself does.
//!
//! Commands: none. Known failures of `none`: everything that concurrency can do; it is the
//! yardstick for both the damage and the price of the others. The alternatives let sections
//! overlap and keep the ledger right all the same, which is the first honest answer to "do you
//! need a lock at all?". What they do not do is keep work from being done in vain.

use std::time::Duration;

use super::{Acquire, Boxed, Call, Entry, Lease, Lock};
use crate::history::event::Release;
use crate::scenario::Guard;

pub(super) const ENTRY: Entry = Entry {
    about: "no lock: every worker walks in",
    wire: None,
    ..Entry::lock("none", walk_in)
};

pub(super) const CONDITIONAL: Entry = Entry {
    about: "no lock, but a conditional update: decrement only if there is one",
    excludes: false,
    guard: Some(Guard::Conditional),
    wire: None,
    ..Entry::lock("conditional", walk_in)
};

pub(super) const OPTIMISTIC: Entry = Entry {
    about: "no lock, but compare-and-set: write only over what was read, or read again",
    excludes: false,
    guard: Some(Guard::Optimistic),
    wire: None,
    ..Entry::lock("optimistic", walk_in)
};

pub(super) const UNIQUE: Entry = Entry {
    about: "no lock, but a unique idempotency key: the second write of the same is refused",
    excludes: false,
    guard: Some(Guard::Unique),
    wire: None,
    ..Entry::lock("unique", walk_in)
};

fn walk_in(_: Duration) -> Box<dyn Lock> {
    Box::new(WalkIn)
}

#[derive(Debug)]
struct WalkIn;

impl Lock for WalkIn {
    fn acquire<'a>(&'a self, _: &'a Call<'a>) -> Boxed<'a, Acquire> {
        let walked_in = Lease {
            ttl: None,
            locked: false,
            fence: None,
            validity: None,
        };
        Box::pin(async move { Acquire::Granted(walked_in) })
    }

    fn release<'a>(&'a self, _: &'a Call<'a>) -> Boxed<'a, Release> {
        Box::pin(async { Release::Nothing })
    }
}
