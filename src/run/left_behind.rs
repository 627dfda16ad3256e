//! What is left of the locks after everybody has stopped: keys that should have been released, or
//! have run out by now, and leases that somebody still extends.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;

use super::instance::Shared;
use crate::client::{Conn, Outcome, Patience};
use crate::history::event::{KEPT_ALIVE, Kind};
use crate::topology::Reach;

/// How often a key that was left behind is looked up.
const LOOK: Duration = Duration::from_millis(10);
/// How many keys are asked for at a time.
const AT_A_TIME: usize = 256;
/// How much more a key's time to live must be than it was to have risen; it is told in whole
/// milliseconds.
const RISE_MS: i64 = 2;

/// What the server says of a key that never runs out.
const NO_EXPIRY: i64 = -1;

/// A key that is still there.
struct Left {
    key: u32,
    /// Its time to live when it was last looked up, in milliseconds.
    pttl: i64,
    rises: u32,
}

/// Looks up every lock's key after everybody has stopped: a key that is still there after two TTLs,
/// or that has none, was left behind; so was one that somebody has kept alive for a while. The error
/// is the server's silence.
pub(super) async fn look_for_keys(
    shared: &Arc<Shared>,
    reach: &Reach,
    patience: Patience,
) -> Result<(), String> {
    let clock = shared.recorder.clock();
    let ended = clock.now();
    let mut nodes = Vec::new();
    for server in reach.servers_left() {
        // Where the primary has just become another one, the Sentinels may not agree yet.
        let conn = loop {
            match Conn::open(server.clone(), patience).await {
                Err(_) if clock.now().since(ended) < patience.connect => clock.sleep(LOOK).await,
                opened => break opened.map_err(|error| error.to_string())?,
            }
        };
        nodes.push(conn);
    }
    let longest = shared.plan.ttl() * 2;
    let keys = 0..shared.keys.len() as u32;
    let mut left: Vec<Left> = keys
        .map(|key| Left {
            key,
            pttl: i64::MAX,
            rises: 0,
        })
        .collect();
    loop {
        let mut still = Vec::new();
        let waited = clock.now().since(ended);
        let keys = left.iter().map(|one| &*shared.keys[one.key as usize]);
        let keys: Vec<&str> = keys.collect();
        let times = times_to_live(&nodes, &keys).await?;
        for (mut one, pttl) in left.into_iter().zip(times) {
            one.rises += u32::from(pttl.saturating_sub(RISE_MS) > one.pttl);
            one.pttl = pttl;
            match pttl {
                -2 if one.rises < KEPT_ALIVE => continue,
                0.. if waited < longest => still.push(one),
                _ => {
                    shared.recorder.record(Kind::KeyAtEnd {
                        key: one.key,
                        pttl_ns: match pttl {
                            NO_EXPIRY => None,
                            // Of one that has gone nothing is left.
                            left => Some(u64::try_from(left).unwrap_or(0) * 1_000_000),
                        },
                        after_ns: crate::clock::nanos(waited),
                        rises: one.rises,
                    });
                }
            }
        }
        if still.is_empty() {
            return Ok(());
        }
        left = still;
        clock.sleep(LOOK).await;
    }
}

/// Those of some keys, in their order. Questions go out together, some at a time.
async fn times_to_live(nodes: &[Conn], keys: &[&str]) -> Result<Vec<i64>, String> {
    let mut times = Vec::with_capacity(keys.len());
    for some in keys.chunks(AT_A_TIME) {
        let asked: Vec<_> = some.iter().map(|key| time_to_live(nodes, key)).collect();
        times.extend(try_join_all(asked).await?);
    }
    Ok(times)
}

/// A key's longest time to live on any node, in milliseconds: -1 if it has none, -2 if it is
/// nowhere (<https://redis.io/docs/latest/commands/pttl/>).
async fn time_to_live(nodes: &[Conn], key: &str) -> Result<i64, String> {
    let mut longest = -2;
    for node in nodes {
        let mut pttl = redis::cmd("PTTL");
        pttl.arg(key);
        match node.call::<i64>(&pttl).await {
            Outcome::Done(-1) => return Ok(-1),
            Outcome::Done(milliseconds) => longest = longest.max(milliseconds),
            Outcome::Refused(error) | Outcome::Unknown(error) => return Err(error),
        }
    }
    Ok(longest)
}
