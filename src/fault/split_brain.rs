//! `split-brain`: the primary is cut off from its replicas and Sentinels, but not from its clients. A
//! replica is promoted elsewhere, and whoever connects anew finds that one, while the struck instance
//! stays with the old one: two servers grant the lock. Then the two sides meet again, the old primary
//! becomes a replica, and what it had granted is gone. The cut comes one grant ahead, so that no
//! replica knows of the grant in question. (Sentinel's own
//! example of it: <https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/>, "Example
//! 2: basic setup with three boxes".) Of independent nodes, one is on the struck instance's side alone.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::failover::{LOOK, PROMOTED, cut_off, epoch, lock_keeps_none};
use super::node::{ANSWER, ask, held, open};
use super::{Entry, Faults, Over, on_links};
use crate::client::Outcome;
use crate::link::{Action, Filter, Guard, Rule, Ways, Who};
use crate::topology::{Group, Machine, Promotion, Split};

/// How long it may take until somebody has found the new primary and was granted the lock.
const GRANTED: Duration = Duration::from_secs(5);

pub(super) const ENTRY: Entry = Entry {
    name: "split-brain",
    about: "the primary is cut off from all but clients, one is promoted, both grant (`for = \"5s\"`)",
};

/// Cuts the primary off, one grant ahead.
pub(super) fn cut(faults: &Arc<Faults>, fault: u32) -> Vec<Guard> {
    cut_off(faults, fault, &[Who::Replica, Who::Sentinel])
}

/// Waits for the two primaries, has the other instances find the new one, and heals a while after
/// both have granted.
pub(super) fn strike(
    faults: &Arc<Faults>,
    fault: u32,
    instance: u32,
    for_ns: u64,
    cut: Vec<Guard>,
) {
    let long = Duration::from_nanos(for_ns);
    let held_up = faults.fails_over();
    let all = Arc::clone(faults);
    faults.beside(async move {
        match (&all.reach.group, all.reach.nodes.first()) {
            (Some(group), _) => {
                let proof = both_grant(&all, group, instance).await;
                drop(held_up);
                if let Some((proof, _apart)) = proof {
                    all.landed(fault, proof);
                    tokio::time::sleep(long).await;
                }
                drop(cut);
                // The old primary hears of the new one, and becomes its replica.
                let mut split = group.split();
                let one = split.wait_for(Option::is_none);
                if tokio::time::timeout(PROMOTED, one).await.is_err() {
                    // There are two still: it has not ended.
                    return;
                }
            }
            (None, Some(node)) => alone(&all, fault, node, instance, long, held_up).await,
            (None, None) => {}
        }
        all.ended(fault);
    });
}

/// Waits until both primaries have granted. The proof, and what keeps the other instances from the
/// old one.
async fn both_grant(faults: &Faults, group: &Group, instance: u32) -> Option<(String, Vec<Guard>)> {
    let mut split = group.split();
    let two = tokio::time::timeout(PROMOTED, split.wait_for(Option::is_some)).await;
    let [old, new] = two.ok()?.ok()?.as_ref()?.servers;
    let promotion = group.promotions().borrow().clone()?;
    let epoch = epoch(group, &promotion).await?;
    let at_old = group.nodes().iter().find(|node| node.address() == old)?;
    let apart = others(faults, at_old, instance, &Action::Cut);
    let granted = async {
        tokio::select! {
            Some(granted) = granted_by_both(faults, split, &promotion) => Some(granted),
            Some(granted) = refused_by_old(faults, group, at_old, &promotion) => Some(granted),
            else => None,
        }
    };
    let granted = tokio::time::timeout(GRANTED, granted).await.ok()??;
    let proof = format!(
        "{old} and {new} answered ROLE with master at one moment, {granted}; the Sentinels name \
         the latter (epoch {epoch})"
    );
    Some((proof, apart))
}

/// Waits until both of them hold a key of which the promoted one did not know. What keeps no key in
/// Redis is granted by nobody.
async fn granted_by_both(
    faults: &Faults,
    mut split: watch::Receiver<Option<Split>>,
    promotion: &Promotion,
) -> Option<String> {
    if lock_keeps_none(faults) {
        return Some("and no lock's key was on either".to_owned());
    }
    let new = |split: &Split| {
        let mut both = split.both.iter();
        both.find(|key| !promotion.held.contains(key)).copied()
    };
    let found = split.wait_for(|split| split.as_ref().is_some_and(|split| new(split).is_some()));
    let key = found.await.ok()?.as_ref().and_then(new)?;
    let name = faults.keys.get(key as usize)?;
    Some(format!(
        "and {name} was on both: the second had been promoted without it"
    ))
}

/// Waits until the new one holds a key, while the old one refuses writes for want of replicas
/// (`min-replicas-to-write`): this one can have granted only what was asked before.
async fn refused_by_old(
    faults: &Faults,
    group: &Group,
    old: &Machine,
    promotion: &Promotion,
) -> Option<String> {
    let at_old = open(old, ANSWER).await?;
    let asked = ["CONFIG", "GET", "min-replicas-to-write"];
    let (_, least): (String, u32) = ask(&at_old, &asked).await?;
    let at_new = open(&group.nodes()[promotion.node], ANSWER).await?;
    let mut probe = redis::cmd("SET");
    probe.arg("oversold:probe").arg(1).arg("PX").arg(1);
    if least == 0 {
        return None;
    }
    loop {
        let key = held(&at_new, &faults.keys)
            .await?
            .first()
            .map(|(key, _)| *key);
        let name = key.and_then(|key| faults.keys.get(key as usize));
        if let (Some(name), Outcome::Refused(error)) = (name, at_old.call::<()>(&probe).await) {
            return Some(format!(
                "{name} was on the second, and the first answered a write: {error}"
            ));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Has one thing done to all other instances at a server's link.
fn others(faults: &Faults, node: &Machine, but: u32, action: &Action) -> Vec<Guard> {
    let instances = (0..faults.instances_planned()).filter(|instance| *instance != but);
    let rule = |instance| Rule::new(action.clone()).about(Filter::instance(instance));
    let laid = instances.map(|instance| Some(node.link.as_ref()?.add(rule(instance))));
    laid.flatten().collect()
}

/// One of several independent nodes is out of reach for the other instances.
async fn alone(
    faults: &Faults,
    fault: u32,
    node: &Machine,
    instance: u32,
    long: Duration,
    held_up: Over,
) {
    let what = format!("node {} answers instance {instance} alone", node.address());
    faults.began(fault, what);
    let holes = others(faults, node, instance, &Action::BlackHole(Ways::Both));
    let proof = async {
        while holes.iter().map(Guard::hits).sum::<u64>() == 0 {
            tokio::time::sleep(LOOK).await;
        }
        drop(held_up);
        format!(
            "what {}, one of {}, and the other instances said to each other was stopped",
            node.address(),
            faults.reach.nodes.len()
        )
    };
    on_links::window(faults, fault, long, proof).await;
}
