//! `quorum-restart` and `quorum-clock`: the two orderings in which a lock on a majority loses its
//! grant. The other nodes are down while it is granted, so that it rests on just a majority; then
//! one of these restarts without its data, or its clock jumps, and the others are back: a second
//! majority without the key. (<https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/>,
//! "Performance, crash recovery and fsync", and
//! <https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html>.)

use std::sync::Arc;

use super::clock_jump::jump;
use super::node::{ANSWER, Blow, held, open};
use super::restart::{come_back, go_down};
use super::{Entry, Faults};
use crate::topology::Machine;

pub(super) const RESTART: Entry = Entry {
    name: "quorum-restart",
    about: "a grant rests on just a majority, and one node of it restarts without its data",
};

pub(super) const CLOCK: Entry = Entry {
    name: "quorum-clock",
    about: "a grant rests on just a majority, and the clock of one node of it jumps (`by = \"40s\"`)",
};

/// The nodes that a grant is not to rest on: the last ones, but not the one that is struck.
fn minority<'a>(nodes: &'a [Arc<Machine>], struck: &Machine) -> Vec<&'a Arc<Machine>> {
    let others = nodes.iter().filter(|node| node.own != struck.own);
    others.rev().take((nodes.len() - 1) / 2).collect()
}

/// Takes a minority down, one grant ahead: they die at once, and come back with the blow.
pub(super) fn cut(faults: &Arc<Faults>, fault: u32, node: u32) {
    let nodes = &faults.reach.nodes;
    let Some(struck) = nodes.get(node as usize).filter(|_| nodes.len() > 2) else {
        return;
    };
    let down = minority(nodes, struck);
    let addresses: Vec<_> = down.iter().map(|node| node.address().to_string()).collect();
    let what = format!(
        "{} are down while the lock is granted",
        addresses.join(" and ")
    );
    faults.began(fault, what);
    for node in down {
        node.end();
    }
}

/// Strikes one node of the majority, and has the minority back. The proof is where the key was and
/// is.
pub(super) async fn strike(blow: &Blow, by_ns: Option<i64>) -> Option<String> {
    let nodes = &blow.faults.reach.nodes;
    let down = minority(nodes, &blow.node);
    let rests = rests_on(blow, &down).await;
    let (lost, how) = match by_ns {
        Some(by_ns) => {
            let jumped = jump(blow, by_ns).await;
            (jumped.map(|jumped| jumped.lost), "its clock jumped")
        }
        None => (restarted(blow).await, "it restarted without its data"),
    };
    let mut back = Vec::new();
    for node in &down {
        let came = come_back(blow, node, true, None).await;
        back.extend(came.map(|_| node.address().to_string()));
    }
    let (rests, lost) = (rests?, lost?);
    let key = rests.iter().copied().find(|key| lost.contains(key))?;
    let name = blow.name(&[key])?;
    (back.len() == down.len()).then(|| {
        format!(
            "{name} was held by just {} of {} nodes, {} lost it when {how}, and {} are back",
            nodes.len() - down.len(),
            nodes.len(),
            blow.node.address(),
            back.join(" and "),
        )
    })
}

async fn restarted(blow: &Blow) -> Option<Vec<u32>> {
    let before = go_down(blow, true).await?;
    let after = come_back(blow, &blow.node, false, Some(&before)).await?;
    Some(after.lost)
}

/// The keys that every node holds that is up, while the others are down.
async fn rests_on(blow: &Blow, down: &[&Arc<Machine>]) -> Option<Vec<u32>> {
    let nodes = &blow.faults.reach.nodes;
    let (down, up): (Vec<_>, Vec<_>) = nodes
        .iter()
        .partition(|node| down.iter().any(|down| Arc::ptr_eq(down, node)));
    if down.is_empty() || !down.iter().all(|node| node.is_doomed()) {
        return None;
    }
    let mut rests: Option<Vec<u32>> = None;
    for node in up {
        let held = held(&open(node, ANSWER).await?, &blow.faults.keys).await?;
        let held = held.into_iter().map(|(key, _)| key);
        rests = Some(match rests {
            None => held.collect(),
            Some(mut rests) => {
                let held: Vec<u32> = held.collect();
                rests.retain(|key| held.contains(key));
                rests
            }
        });
    }
    rests
}
