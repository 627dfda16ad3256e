//! What the faults share in which a replica is promoted: what is cut one grant ahead, the wait for the
//! promotion, and the struck section, which goes on with its work when the others can have lost sight
//! of its lock. (A section that is over before is lost to nobody, and how long a failover takes
//! depends on the machine.)

use std::sync::Arc;
use std::time::Duration;

use super::Faults;
use crate::link::{Action, Filter, Guard, Rule, Ways, Who};
use crate::lock;
use crate::scenario::How;
use crate::topology::{Group, Promotion};

/// How long a promotion, or what follows it, may take.
pub(super) const PROMOTED: Duration = Duration::from_nanos(How::FAILOVER_NS);
/// How often something is looked at that is waited for.
pub(super) const LOOK: Duration = Duration::from_millis(10);

/// Stops what the primary and these say to each other.
pub(super) fn cut_off(faults: &Arc<Faults>, fault: u32, from: &[Who]) -> Vec<Guard> {
    let Some(group) = &faults.reach.group else {
        return vec![];
    };
    let primary = &group.nodes()[group.primary()];
    let whom = from.iter().map(|who| format!("{who:?}s").to_lowercase());
    let whom: Vec<_> = whom.collect();
    let what = format!(
        "primary {} is cut off from its {}",
        primary.address(),
        whom.join(" and ")
    );
    faults.began(fault, what);
    let hole = |who| Rule::new(Action::BlackHole(Ways::Both)).about(Filter::who(who));
    let link = primary.link.as_ref();
    let holes = from.iter().map(|who| Some(link?.add(hole(*who))));
    holes.flatten().collect()
}

/// Waits until the Sentinels name the promoted one; tells in which epoch.
pub(super) async fn epoch(group: &Group, promotion: &Promotion) -> Option<u64> {
    let named = async {
        loop {
            if let Some(epoch) = group.epoch(promotion.address).await {
                return epoch;
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(PROMOTED, named).await.ok()
}

/// Whether there is no key that the lock could lose, for it keeps none in Redis.
pub(super) fn lock_keeps_none(faults: &Faults) -> bool {
    lock::find(&faults.lock).is_some_and(|entry| entry.wire.is_none())
}
