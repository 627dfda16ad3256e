//! Waiting for the lock: asking until it is granted, or the wait policy or the run ends it.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;

use super::operation::{Grant, Operation};
use super::worker::Worker;
use crate::client::{BlockingPop, Subscription};
use crate::clock::Time;
use crate::history::event::GiveUp;
use crate::lock::{Acquire, Lease, WakeUp};
use crate::scenario::{Mistake, Wait};

/// How waiting for the lock went on.
enum Next {
    Ask,
    Stop(GiveUp),
}

impl Worker {
    /// Asks until it is granted, or the wait policy or the run ends it. The grant is absent where a
    /// mistake lets the operation go on without one.
    pub(super) async fn acquire(
        &mut self,
        operation: &Operation,
        arrived: Time,
    ) -> Result<Option<Grant>, GiveUp> {
        let mut waiting = Waiting::default();
        loop {
            let Ok(answer) = operation.attempt().await else {
                return Err(GiveUp::Cancelled);
            };
            waiting.again = match answer {
                Acquire::Denied(again) => again,
                _ => None,
            };
            match (answer, self.mistake()) {
                (Acquire::Granted(lease), _) => return Ok(Some(self.grant(lease))),
                (Acquire::Denied(_), Some(Mistake::IgnoreDenied)) => return Ok(None),
                (Acquire::Failed(_) | Acquire::Unknown(_), Some(Mistake::FailOpen)) => {
                    return Ok(None);
                }
                _ => {}
            }
            if let Next::Stop(why) = self.wait_more(operation, arrived, &mut waiting).await {
                return Err(why);
            }
        }
    }

    /// A validity counts from here: whatever comes before the work takes its time from it.
    fn grant(&self, lease: Lease) -> Grant {
        let clock = self.shared.faults.clock(self.instance);
        Grant {
            lease,
            reliable_until: lease.validity.map(|validity| clock.now().plus(validity)),
        }
    }

    async fn wait_more(
        &mut self,
        operation: &Operation,
        arrived: Time,
        waiting: &mut Waiting,
    ) -> Next {
        let waited = self.shared.recorder.clock().now().since(arrived);
        let shared = Arc::clone(&self.shared);
        match shared.plan.lock.wait {
            Wait::FailFast => Next::Stop(GiveUp::Policy),
            Wait::Retry {
                every_ns,
                jitter,
                backoff,
                give_up_after_ns,
            } => {
                let away = 1.0 + jitter * self.wait.random_range(-1.0..=1.0);
                let grown = backoff.powi(waiting.asked.min(64) as i32);
                let pause = Duration::from_nanos(every_ns).mul_f64(away * grown.min(1e6));
                waiting.asked += 1;
                if waited + pause > Duration::from_nanos(give_up_after_ns) {
                    return Next::Stop(GiveUp::Policy);
                }
                if self.mistake() == Some(Mistake::Spin) {
                    return self.pause_or_stop(Duration::ZERO).await;
                }
                self.pause_or_stop(pause).await
            }
            Wait::WakeUp { bound_ns } => {
                let bound = Duration::from_nanos(bound_ns);
                match bound.checked_sub(waited) {
                    Some(left) => self.wake_up(operation, left, waiting).await,
                    None => Next::Stop(GiveUp::Policy),
                }
            }
        }
    }

    async fn pause_or_stop(&self, pause: Duration) -> Next {
        match self.pause(pause).await {
            true => Next::Ask,
            false => Next::Stop(GiveUp::RunEnded),
        }
    }

    /// Waits for a wake-up, but no longer than until the lock may be free without one: a dead holder
    /// wakes nobody.
    async fn wake_up(
        &mut self,
        operation: &Operation,
        left: Duration,
        waiting: &mut Waiting,
    ) -> Next {
        let Some(wake_up) = self.shared.lock.wake_up(&operation.call()) else {
            return Next::Stop(GiveUp::Policy);
        };
        let again = waiting.again.unwrap_or(self.shared.plan.ttl());
        let at_most = left.min(again);
        let shared = Arc::clone(&self.shared);
        let heard = tokio::select! {
            biased;
            _ = shared.load.stopped() => return Next::Stop(GiveUp::RunEnded),
            heard = waiting.hear(operation, wake_up, at_most) => heard,
        };
        match heard {
            Some(()) => Next::Ask,
            // Deaf: it asks again before the lock may be free by itself.
            None => {
                waiting.ear = None;
                self.pause_or_stop(at_most / 4).await
            }
        }
    }
}

/// How far waiting has gone.
#[derive(Default)]
struct Waiting {
    asked: u32,
    /// After how long to ask again without a wake-up, by the last refusal.
    again: Option<Duration>,
    ear: Option<Ear>,
}

/// How a waiter listens, on a connection of its own.
enum Ear {
    Message(Subscription),
    Pop(BlockingPop),
}

impl Waiting {
    /// Listens for a wake-up, for so long at most; none if it cannot listen. Who has only begun to
    /// listen for messages is to ask at once: the release may have come before. What is to be popped
    /// waits for the waiter.
    async fn hear(
        &mut self,
        operation: &Operation,
        wake_up: WakeUp,
        at_most: Duration,
    ) -> Option<()> {
        let conn = &operation.nodes[0];
        let ear = match (&mut self.ear, wake_up) {
            (Some(ear), _) => ear,
            (None, WakeUp::Message(channel)) => {
                let subscribing = tokio::time::timeout(at_most, conn.subscribe(&channel));
                let subscription = subscribing.await.ok()?.ok()?;
                self.ear = Some(Ear::Message(subscription));
                return Some(());
            }
            (None, WakeUp::Pop(list)) => {
                let answer = Duration::from_nanos(operation.shared.plan.lock.response_timeout_ns);
                let connecting = tokio::time::timeout(answer, conn.blocking_pop(&list, answer));
                let pop = connecting.await.ok()?.ok()?;
                self.ear.insert(Ear::Pop(pop))
            }
        };
        match ear {
            Ear::Message(subscription) => {
                let _ = tokio::time::timeout(at_most, subscription.message()).await;
                Some(())
            }
            Ear::Pop(pop) => pop.pop(at_most).await.ok(),
        }
    }
}
