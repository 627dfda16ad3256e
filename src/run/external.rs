//! What a run does at a user's own Redis and nowhere else. Before the load one worker takes, renews and
//! gives back the lock on a key of its own, so that a permission that is missing is told before anything
//! is judged; and where Sentinels name another primary that is recorded.

use std::sync::Arc;
use std::time::Duration;

use super::driver::RunError;
use crate::client::{Conn, Sentinels};
use crate::clock::Clock;
use crate::history::Recorder;
use crate::history::event::{Kind, Release};
use crate::lock::{Acquire, Boxed, Call, Lock, Points, Renewal, WakeUp};
use crate::plan::Plan;
use crate::scenario::Point;
use crate::topology::{Reach, missing};

/// How long the first answer to a waiter may take.
const SHORT: Duration = Duration::from_millis(10);

/// How often the Sentinels are asked.
const ASK: Duration = Duration::from_millis(50);

/// No fault strikes here.
struct Undisturbed;

impl Points for Undisturbed {
    fn reached(&self, _: Point) -> Boxed<'_, ()> {
        Box::pin(async {})
    }
}

/// Has the lock do once what it does, at a user's own Redis.
pub(super) async fn rehearse(
    plan: &Plan,
    lock: &dyn Lock,
    nodes: &[Arc<[Conn]>],
    reach: &Reach,
    clock: Clock,
) -> Result<(), RunError> {
    let place = reach.servers_themselves().into_iter().next();
    let (Some(nodes), Some(place)) = (nodes.first(), place) else {
        return Ok(());
    };
    let rehearsed = all_that(lock, nodes, reach.prefix(), clock).await;
    rehearsed.map_err(|why| RunError::Forbidden {
        lock: plan.lock.kind.clone(),
        user: (place.access().user.clone()).unwrap_or_else(|| "default".to_owned()),
        place,
        missing: missing(&why, reach.prefix()).unwrap_or_default(),
        why,
    })
}

/// Does all that a lock does. The error is the first refusal for want of permission, as the server
/// said it.
async fn all_that(
    lock: &dyn Lock,
    nodes: &[Conn],
    prefix: &str,
    clock: Clock,
) -> Result<(), String> {
    let key = format!("{prefix}rehearsal");
    let call = Call {
        nodes,
        clock: clock.into(),
        key: &key,
        token: "rehearsal",
        owner: "rehearsal",
        pause: Duration::ZERO,
        points: &Undisturbed,
    };
    let acquired = match lock.acquire(&call).await {
        Acquire::Failed(why) => Some(why),
        _ => None,
    };
    permitted(acquired)?;
    if let Some(watchdog) = lock.watchdog() {
        permitted(match watchdog.renew(&call).await {
            Renewal::Failed(why) => Some(why),
            _ => None,
        })?;
    }
    permitted(hear(lock, &call).await)?;
    permitted(match lock.release(&call).await {
        Release::Failed(why) => Some(why),
        _ => None,
    })
}

/// Listens as a waiter does.
async fn hear(lock: &dyn Lock, call: &Call<'_>) -> Option<String> {
    let heard = match lock.wake_up(call)? {
        WakeUp::Message(channel) => call.conn().subscribe(&channel).await.map(drop),
        WakeUp::Pop(list) => match call.conn().blocking_pop(&list, SHORT * 100).await {
            Ok(mut pop) => pop.pop(SHORT).await,
            Err(why) => Err(why),
        },
    };
    heard.err().map(|why| why.to_string())
}

fn permitted(refusal: Option<String>) -> Result<(), String> {
    match refusal {
        Some(why) if missing(&why, "").is_some() => Err(why),
        _ => Ok(()),
    }
}

/// Records when Sentinels of a user's own name another primary, with the keys that it holds then. It
/// may have been one for a moment by then: what it was granted meanwhile is among them.
pub(super) async fn watch_sentinels(
    sentinels: Arc<Sentinels>,
    keys: Vec<String>,
    recorder: Recorder,
) {
    let mut last = None;
    loop {
        let now = sentinels.primary(None).await;
        if let Some(place) = now.filter(|now| last.as_ref() != Some(now)) {
            if last.is_some() {
                let held = sentinels.held(&place, &keys).await;
                recorder.record(Kind::Promoted {
                    server: place.to_string(),
                    held,
                });
            }
            last = Some(place);
        }
        tokio::time::sleep(ASK).await;
    }
}
