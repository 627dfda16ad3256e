//! `partition`: for a while nothing passes between the instances and one server, the replicas and
//! their primary, the Sentinels and the primary, or the Sentinels among each other; both ways, or one
//! way only. All connections stay open, and what was sent meanwhile arrives late.

use std::sync::Arc;
use std::time::Duration;

use super::on_links::window;
use super::{Entry, Faults};
use crate::link::{Action, Filter, Guard, Link, Rule, Ways, Who};
use crate::scenario::{Between, Stopped};
use crate::topology::Machine;

pub(super) const ENTRY: Entry = Entry {
    name: "partition",
    about: "nothing passes between two sorts of processes for a while (`between`, `for = \"8s\"`)",
};

/// How often it is looked whether something was stopped.
const LOOK: Duration = Duration::from_millis(2);

/// Stops it now, and lets it pass later.
pub(super) fn strike(
    faults: &Arc<Faults>,
    fault: u32,
    (between, stopped): (Between, Stopped),
    for_ns: u64,
) {
    let long = Duration::from_nanos(for_ns);
    let (one, other) = between.words();
    let ways = match stopped {
        Stopped::Requests => Ways::ToServer,
        Stopped::Replies => Ways::ToClient,
        Stopped::Both => Ways::Both,
    };
    let what = match stopped {
        Stopped::Requests => format!("what {one} ask {other}"),
        Stopped::Replies => format!("what {other} answer {one}"),
        Stopped::Both => format!("what {one} and {other} say to each other"),
    };
    faults.began(fault, format!("{what} is stopped for {long:?}"));
    let holes = holes(faults, between, ways);
    let all = Arc::clone(faults);
    faults.beside(async move {
        let proof = async {
            while holes.is_empty() || holes.iter().any(|link| hits(link) == 0) {
                tokio::time::sleep(LOOK).await;
            }
            let times: u64 = holes.iter().map(|link| hits(link)).sum();
            let links = holes.len();
            format!("{what} was stopped at {links} links, {times} times by now")
        };
        window(&all, fault, long, proof).await;
        // Recorded first: what passes then comes after it.
        all.ended(fault);
        drop(holes);
    });
}

fn hits(guards: &[Guard]) -> u64 {
    guards.iter().map(Guard::hits).sum()
}

/// The black holes, of each link that they are on.
fn holes(faults: &Faults, between: Between, ways: Ways) -> Vec<Vec<Guard>> {
    let hole = |filter: Filter| Rule::new(Action::BlackHole(ways)).about(filter);
    let on = |node: &Arc<Machine>, who: Who| Some(vec![link(node)?.add(hole(Filter::who(who)))]);
    let group = faults.reach.group.as_ref();
    let primary = group.map(|group| &group.nodes()[group.primary()]);
    match between {
        Between::InstancesAndServer { node } => {
            let node = primary.or_else(|| faults.reach.nodes.get(node as usize));
            let link = node.and_then(link);
            let all = 0..faults.instances_planned();
            let laid = link.map(|link| all.map(|one| link.add(hole(Filter::instance(one)))));
            laid.into_iter().map(Iterator::collect).collect()
        }
        Between::ReplicasAndPrimary => {
            let primary = primary.into_iter();
            primary.filter_map(|node| on(node, Who::Replica)).collect()
        }
        Between::SentinelsAndPrimary => {
            let primary = primary.into_iter();
            primary.filter_map(|node| on(node, Who::Sentinel)).collect()
        }
        Between::Sentinels => {
            let watchers = group.into_iter().flat_map(|group| group.watchers());
            watchers.filter_map(|one| on(one, Who::Sentinel)).collect()
        }
    }
}

fn link(node: &Arc<Machine>) -> Option<&Link> {
    node.link.as_ref()
}
