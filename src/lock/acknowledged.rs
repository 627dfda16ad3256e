//! Any lock on one primary, whose grant counts only when so many replicas have acknowledged it
//! (`WAIT`, <https://redis.io/docs/latest/commands/wait/>). With fewer acknowledgements in time the
//! grant is given back, and the attempt has failed.
//!
//! It narrows what a failover can lose, and does not make Redis consistent: an acknowledgement says
//! that a replica has the grant, not that this replica is the one that is promoted. Where there is one
//! replica, or all of them must acknowledge, it is. Renewals are not waited for.

use std::time::Duration;

use super::{Acquire, Boxed, Call, Lock, WakeUp, Watchdog, milliseconds};
use crate::client::Outcome;
use crate::history::event::Release;
use crate::scenario::Acknowledged;

#[derive(Debug)]
pub(super) struct Waiting {
    inner: Box<dyn Lock>,
    replicas: u32,
    bound: Duration,
}

/// A lock whose grants are acknowledged.
pub fn acknowledged(inner: Box<dyn Lock>, how: Acknowledged) -> Box<dyn Lock> {
    Box::new(Waiting {
        inner,
        replicas: how.replicas,
        bound: Duration::from_nanos(how.bound_ns),
    })
}

impl Waiting {
    async fn acquire(&self, call: &Call<'_>) -> Acquire {
        let answer = self.inner.acquire(call).await;
        let Acquire::Granted(lease) = answer else {
            return answer;
        };
        let mut wait = redis::cmd("WAIT");
        wait.arg(self.replicas);
        // 0 would wait for ever.
        wait.arg(milliseconds(self.bound).max(1));
        let missing = match call.conn().call::<u32>(&wait).await {
            Outcome::Done(acks) if acks >= self.replicas => return Acquire::Granted(lease),
            Outcome::Done(acks) => format!("{acks} of {} replicas acknowledged it", self.replicas),
            Outcome::Refused(error) | Outcome::Unknown(error) => error,
        };
        match self.inner.release(call).await {
            Release::Unknown(error) | Release::Failed(error) => {
                Acquire::Unknown(format!("{missing}, and it may be kept: {error}"))
            }
            _ => Acquire::Failed(missing),
        }
    }
}

impl Lock for Waiting {
    fn acquire<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Acquire> {
        Box::pin(self.acquire(call))
    }

    fn release<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, Release> {
        self.inner.release(call)
    }

    fn abandon<'a>(&'a self, call: &'a Call<'a>) -> Boxed<'a, ()> {
        self.inner.abandon(call)
    }

    fn watchdog(&self) -> Option<&dyn Watchdog> {
        self.inner.watchdog()
    }

    fn wake_up(&self, call: &Call<'_>) -> Option<WakeUp> {
        self.inner.wake_up(call)
    }
}
