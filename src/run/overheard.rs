//! What the servers answer the workers, heard at the links in front of them and recorded: the truth
//! that a lock's own answers are held against. Nothing is asked for it, so nothing of it comes too
//! late.

use std::sync::Arc;

use super::instance::Shared;
use crate::clock::nanos;
use crate::history::event::Kind;
use crate::link::{Request, Watch};
use crate::lock;
use crate::scenario::Reply;
use crate::topology::Reach;

/// Has each link record the answers to what the lock asks, from now on.
pub(super) fn overhear(shared: &Arc<Shared>, reach: &Reach) {
    let Some(wire) = lock::find(&shared.plan.lock.kind).and_then(|lock| lock.wire) else {
        return;
    };
    for link in reach.nodes.iter().filter_map(|node| node.link.as_ref()) {
        let requests = Reply::ALL.map(|reply| {
            let exchange = wire.of(reply);
            Request {
                command: exchange.request.command(),
                done: exchange.done,
                lease: exchange.lease,
            }
        });
        let keys = shared.keys.iter().cloned().zip(0u32..).collect();
        let recorder = shared.recorder.clone();
        link.watch(Watch {
            requests: requests.into(),
            keys,
            clock: recorder.clock(),
            tell: Box::new(move |heard| {
                recorder.record(Kind::Answered {
                    worker: heard.worker,
                    key: heard.key,
                    to: Reply::ALL[heard.request],
                    asked_ns: heard.asked,
                    done: heard.done,
                    number: heard.number,
                    lease_ns: heard.lease.map(nanos),
                });
            }),
        });
    }
}
