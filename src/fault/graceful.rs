//! `graceful`: an operator has the Sentinels hand the primary's part over (`SENTINEL FAILOVER`,
//! <https://redis.io/docs/latest/operate/oss_and_stack/management/sentinel/>). Nobody dies, and a
//! grant that the replicas have heard of stands on the new primary too. But the old one goes on
//! taking writes until it is told, and grants of that moment are lost. Of independent nodes one is
//! taken away.

use std::sync::Arc;
use std::time::Duration;

use super::failover::{LOOK, PROMOTED, epoch};
use super::lost_grant::die;
use super::node::{ANSWER, ask, open};
use super::{Entry, Faults};
use crate::topology::Group;

pub(super) const ENTRY: Entry = Entry {
    name: "graceful",
    about: "an operator has the Sentinels hand the primary's part over to a replica",
};

/// How long the Sentinels may be unwilling: shortly after another failover they are.
const WILLING: Duration = Duration::from_secs(5);

/// Tells a Sentinel to fail over, and waits until the old primary is a replica.
pub(super) fn strike(faults: &Arc<Faults>, fault: u32) {
    let held_up = faults.fails_over();
    let all = Arc::clone(faults);
    faults.beside(async move {
        let proof = match (&all.reach.group, all.reach.nodes.first()) {
            (Some(group), _) => hand_over(&all, fault, group).await,
            (None, Some(node)) => {
                all.began(fault, format!("node {} is taken away", node.address()));
                die(node, all.reach.nodes.len()).await
            }
            (None, None) => None,
        };
        if let Some(proof) = proof {
            all.landed(fault, proof);
        }
        all.ended(fault);
        drop(held_up);
    });
}

async fn hand_over(faults: &Faults, fault: u32, group: &Group) -> Option<String> {
    let old = &group.nodes()[group.primary()];
    faults.began(fault, format!("primary {} is to hand over", old.address()));
    let mut promotions = group.promotions();
    tokio::time::timeout(WILLING, tell(group)).await.ok()?;
    let changed = tokio::time::timeout(PROMOTED, promotions.changed()).await;
    changed.ok()?.ok()?;
    let promotion = promotions.borrow_and_update().clone()?;
    let epoch = epoch(group, &promotion).await?;
    let mut split = group.split();
    let alone = tokio::time::timeout(PROMOTED, split.wait_for(Option::is_none)).await;
    drop(alone.ok()?.ok()?);
    Some(format!(
        "{} was promoted (epoch {epoch}), and {} is a replica",
        promotion.address,
        old.address()
    ))
}

/// Asks one Sentinel after the other until one of them is willing.
async fn tell(group: &Group) {
    loop {
        for sentinel in group.watchers() {
            let Some(conn) = open(sentinel, ANSWER).await else {
                continue;
            };
            let told: Option<String> = ask(&conn, &["SENTINEL", "FAILOVER", group.name()]).await;
            if told.is_some() {
                return;
            }
        }
        tokio::time::sleep(LOOK * 10).await;
    }
}
