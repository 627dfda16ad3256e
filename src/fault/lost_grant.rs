//! `lost-grant`: a primary dies before it has told its replicas of a grant, and Sentinel promotes
//! one of them: replication is asynchronous
//! (<https://redis.io/docs/latest/operate/oss_and_stack/management/replication/>). Replication is
//! stalled one grant ahead, so that the grant in question comes after the stall. Of independent
//! nodes, which have no replicas, one dies.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use super::failover::{LOOK, PROMOTED, cut_off, epoch, lock_keeps_none};
use super::node::{self, ANSWER, Held, held, open};
use super::{Entry, Faults};
use crate::link::{Action, Filter, Guard, Rule, Who};
use crate::topology::{Group, Machine, Promotion};

pub(super) const ENTRY: Entry = Entry {
    name: "lost-grant",
    about: "the primary dies with a grant that no replica knows; one is promoted",
};

/// How long a killed node may take to be gone.
const GONE: Duration = Duration::from_secs(5);

/// Stalls replication: what the primary is told from now on no replica hears.
pub(super) fn stall(faults: &Arc<Faults>, fault: u32) -> Vec<Guard> {
    cut_off(faults, fault, &[Who::Replica])
}

/// Kills the primary, or one of the independent nodes.
pub(super) fn strike(faults: &Arc<Faults>, fault: u32, instance: u32, stalled: Vec<Guard>) {
    let faults = Arc::clone(faults);
    let left = faults.sections_left(instance);
    let held_up = faults.fails_over();
    let all = Arc::clone(&faults);
    all.beside(async move {
        let proof = match (&faults.reach.group, faults.reach.nodes.first()) {
            (Some(group), _) => lose(&faults, group, stalled)
                .await
                // A grant whose section is over before any client could hear of the promotion
                // was lost to nobody.
                .filter(|_| lock_keeps_none(&faults) || faults.sections_left(instance) == left),
            (None, Some(node)) => {
                faults.began(fault, format!("node {} dies", node.address()));
                die(node, faults.reach.nodes.len()).await
            }
            (None, None) => None,
        };
        if let Some(proof) = proof {
            faults.landed(fault, proof);
        }
        faults.ended(fault);
        drop(held_up);
    });
}

/// Kills the primary and waits for the promotion. The proof is what the promoted one lacks.
async fn lose(faults: &Faults, group: &Group, stalled: Vec<Guard>) -> Option<String> {
    let primary = &group.nodes()[group.primary()];
    let granted = held(&open(primary, ANSWER).await?, &faults.keys).await?;
    let looked = Instant::now();
    let mut promotions = group.promotions();
    // No client gets to a replica before it was looked what that one holds.
    let others = group
        .nodes()
        .iter()
        .filter(|node| !Arc::ptr_eq(node, primary));
    let gates: Vec<Guard> = others
        .filter_map(|node| node.link.as_ref())
        .map(|link| link.add(Rule::new(Action::Hold).about(Filter::who(Who::Client))))
        .collect();
    primary.kill();
    let changed = tokio::time::timeout(PROMOTED, promotions.changed()).await;
    let promotion = promotions.borrow_and_update().clone();
    drop((gates, stalled));
    changed.ok()?.ok()?;
    let promotion = promotion?;
    let lost = lost(faults, &granted, &promotion, looked.elapsed())?;
    let epoch = epoch(group, &promotion).await?;
    Some(format!(
        "{} was killed, {} was promoted (epoch {}), {lost}",
        primary.address(),
        promotion.address,
        epoch
    ))
}

/// What the old primary held so long before, would hold still, and the promoted one did not. What
/// keeps no key in Redis has none to lose.
fn lost(
    faults: &Faults,
    granted: &[Held],
    promotion: &Promotion,
    passed: Duration,
) -> Option<String> {
    let held: Vec<Held> = promotion.held.iter().map(|key| (*key, -1)).collect();
    let missing = node::lost(granted, &held, passed);
    let name = missing
        .first()
        .and_then(|key| faults.keys.get(*key as usize));
    if let Some(name) = name {
        return Some(format!("and EXISTS {name} was 1 on that and 0 on this"));
    }
    let none = lock_keeps_none(faults) && granted.is_empty();
    none.then(|| "and no lock's key was on either".to_owned())
}

/// Kills an independent node. The proof is that nobody listens there any more.
pub(super) async fn die(node: &Machine, of: usize) -> Option<String> {
    node.kill();
    let gone = async {
        while TcpStream::connect(node.own).await.is_ok() {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(GONE, gone).await.ok()?;
    let address = node.address();
    Some(format!("{address}, one of {of}, refuses connections"))
}
