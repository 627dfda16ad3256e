//! Waiting for the lock: asking until it is granted, or the wait policy or the run ends it.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;

use super::operation::{Grant, Operation};
use super::worker::Worker;
use crate::client::Subscription;
use crate::clock::Time;
use crate::history::event::GiveUp;
use crate::lock::{Acquire, Lease};
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
            let answer = operation.attempt().await;
            match (answer, self.mistake()) {
                (Acquire::Granted(lease), _) => return Ok(Some(self.grant(lease))),
                (Acquire::Denied, Some(Mistake::IgnoreDenied)) => return Ok(None),
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
        let now = self.shared.recorder.clock().now();
        Grant {
            lease,
            reliable_until: lease.validity.map(|validity| now.plus(validity)),
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

    /// Waits for the message of a release. The first call only subscribes, and asks again at once:
    /// the release may have come before. No message is waited for longer than a lease, for a dead
    /// holder sends none.
    async fn wake_up(
        &mut self,
        operation: &Operation,
        left: Duration,
        waiting: &mut Waiting,
    ) -> Next {
        let Some(wake_up) = self.shared.lock.wake_up() else {
            return Next::Stop(GiveUp::Policy);
        };
        let channel = wake_up.channel(operation.call().key);
        let at_most = left.min(self.shared.plan.ttl());
        let Some(subscription) = &mut waiting.subscription else {
            return match operation.nodes[0].subscribe(&channel).await {
                Ok(subscription) => {
                    waiting.subscription = Some(subscription);
                    Next::Ask
                }
                // Without a subscription: ask again when a lease may have ended.
                Err(_) => self.pause_or_stop(at_most / 4).await,
            };
        };
        let shared = Arc::clone(&self.shared);
        tokio::select! {
            biased;
            _ = shared.load.stopped() => Next::Stop(GiveUp::RunEnded),
            _ = tokio::time::timeout(at_most, subscription.message()) => Next::Ask,
        }
    }
}

/// How far waiting has gone.
#[derive(Default)]
struct Waiting {
    asked: u32,
    subscription: Option<Subscription>,
}
