//! `SET key token NX PX ttl`; to release, `GET key`, and `DEL key` if the answer was the token.
//!
//! Known failures: the check and the delete are two commands. If the lease runs out between them,
//! the `DEL` removes the next one's lock after all. A section that outlives the TTL lets the next
//! one in.

use std::time::Duration;

use super::wire::{self, Wire};
use super::{Acquire, Boxed, Call, Entry, Lock, delete, set_nx_px};
use crate::client::Outcome;
use crate::history::event::Release;
use crate::scenario::Point;

pub(super) const ENTRY: Entry = Entry {
    about: "SET NX PX with a token; GET, compare, DEL: not atomic",
    wire: Some(Wire {
        release: wire::DEL,
        ..Wire::TOKEN
    }),
    ..Entry::lock("token-get-del", |ttl| Box::new(TokenGetDel { ttl }))
};

#[derive(Debug)]
struct TokenGetDel {
    ttl: Duration,
}

impl TokenGetDel {
    async fn release(&self, call: &Call<'_>) -> Release {
        let mut get = redis::cmd("GET");
        get.arg(call.key);
        match call.conn().call::<Option<String>>(&get).await {
            Outcome::Done(Some(held)) if held == call.token => {
                call.points.reached(Point::BeforeDelete).await;
                call.points.deletes();
                delete(call).await
            }
            Outcome::Done(Some(_)) => Release::NotMine,
            Outcome::Done(None) => Release::Gone,
            // The GET changed nothing, whatever became of it.
            Outcome::Refused(error) | Outcome::Unknown(error) => Release::Failed(error),
        }
    }
}

impl Lock for TokenGetDel {
    fn acquire<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Acquire> {
        Box::pin(set_nx_px(call, call.token, self.ttl))
    }

    fn release<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Release> {
        Box::pin(self.release(call))
    }
}
