//! The rehearsal at a user's own Redis: before the load, one worker takes, renews and gives back the
//! lock on a key of its own, so that a permission that is missing is told before anything is judged.

use std::time::Duration;

use crate::client::Conn;
use crate::clock::Clock;
use crate::history::event::Release;
use crate::lock::{Acquire, Boxed, Call, Lock, Points, Renewal, WakeUp};
use crate::scenario::Point;
use crate::topology::missing;

/// How long the first answer to a waiter may take.
const SHORT: Duration = Duration::from_millis(10);

/// No fault strikes here.
struct Undisturbed;

impl Points for Undisturbed {
    fn reached(&self, _: Point) -> Boxed<'_, ()> {
        Box::pin(async {})
    }
}

/// Does all that a lock does. The error is the first refusal for want of permission, as the server
/// said it.
pub(super) async fn rehearse(
    lock: &dyn Lock,
    nodes: &[Conn],
    prefix: &str,
    clock: Clock,
) -> Result<(), String> {
    let key = format!("{prefix}rehearsal");
    let call = Call {
        nodes,
        clock,
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
