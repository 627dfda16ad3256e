//! `lost-grant`: a primary dies before it has told its replicas of a grant, and Sentinel promotes
//! one of them: replication is asynchronous
//! (<https://redis.io/docs/latest/operate/oss_and_stack/management/replication/>). Replication is
//! stalled one grant ahead, so that the grant in question comes after the stall. Of independent
//! nodes, which have no replicas, one dies.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;

use super::node::{ANSWER, Held, held, open};
use super::{Entry, Faults};
use crate::link::{Action, Filter, Guard, Rule, Ways, Who};
use crate::lock;
use crate::topology::{Group, Machine, Promotion};

pub(super) const ENTRY: Entry = Entry {
    name: "lost-grant",
    about: "the primary dies with a grant that no replica knows; one is promoted",
};

/// How long a promotion may take.
const PROMOTED: Duration = Duration::from_secs(30);
/// How long a killed node may take to be gone.
const GONE: Duration = Duration::from_secs(5);
/// How often something is looked at that is waited for.
const LOOK: Duration = Duration::from_millis(10);

/// Stalls replication: what the primary is told from now on no replica hears.
pub(super) fn stall(faults: &Arc<Faults>, fault: u32) -> Option<Guard> {
    let group = faults.reach.group.as_ref()?;
    let primary = &group.nodes()[group.primary()];
    let link = primary.link.as_ref()?;
    let what = format!("primary {} dies after a stall", primary.address());
    faults.began(fault, what);
    let nothing = Rule::new(Action::BlackHole(Ways::Both));
    Some(link.add(nothing.about(Filter::who(Who::Replica))))
}

/// Kills the primary, or one of the independent nodes.
pub(super) fn strike(faults: &Arc<Faults>, fault: u32, instance: u32, stalled: Option<Guard>) {
    let faults = Arc::clone(faults);
    let left = faults.sections_left(instance);
    tokio::spawn(async move {
        let proof = match (&faults.reach.group, faults.reach.nodes.first()) {
            (Some(group), _) => lose(&faults, group, stalled)
                .await
                // A grant whose section is over before any client could hear of the promotion
                // was lost to nobody.
                .filter(|_| faults.sections_left(instance) == left),
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
    });
}

/// Kills the primary and waits for the promotion. The proof is what the promoted one lacks.
async fn lose(faults: &Faults, group: &Group, stalled: Option<Guard>) -> Option<String> {
    let primary = &group.nodes()[group.primary()];
    let granted = held(&open(primary, ANSWER).await?, &faults.keys).await?;
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
    let epoch = tokio::time::timeout(PROMOTED, epoch(group, &promotion)).await;
    let lost = lost(faults, &granted, &promotion)?;
    Some(format!(
        "{} was killed, {} was promoted (epoch {}), {lost}",
        primary.address(),
        promotion.address,
        epoch.ok()?
    ))
}

/// Waits until the Sentinels name the promoted one.
async fn epoch(group: &Group, promotion: &Promotion) -> u64 {
    loop {
        if let Some(epoch) = group.epoch(promotion.address).await {
            return epoch;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What the old primary held and the promoted one did not. What keeps no key in Redis has none to
/// lose.
fn lost(faults: &Faults, granted: &[Held], promotion: &Promotion) -> Option<String> {
    let missing = (granted.iter()).find(|(key, _)| !promotion.held.contains(key));
    let name = missing.and_then(|(key, _)| faults.keys.get(*key as usize));
    if let Some(name) = name {
        return Some(format!("and EXISTS {name} was 1 on that and 0 on this"));
    }
    let keeps_none = lock::find(&faults.lock).is_some_and(|entry| !entry.excludes);
    (keeps_none && granted.is_empty()).then(|| "and no lock's key was on either".to_owned())
}

/// Kills an independent node. The proof is that nobody listens there any more.
async fn die(node: &Machine, of: usize) -> Option<String> {
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
