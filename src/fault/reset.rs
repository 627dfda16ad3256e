//! `reset`: an instance's next request to each server finds its connection reset, before the request
//! arrives or when it has been applied and answered.

use std::sync::Arc;

use super::on_links::{OnLinks, until};
use super::{Entry, Faults};
use crate::link::{Action, Filter, Rule};

pub(super) const ENTRY: Entry = Entry {
    name: "reset",
    about: "a connection of an instance is reset with its next request (`applied = true`)",
};

/// Resets the connections that the instance uses next.
pub(super) fn strike(faults: &Arc<Faults>, fault: u32, instance: u32, applied: bool) {
    let (action, when) = match applied {
        true => (Action::ResetAfter, "with its answer"),
        false => (Action::ResetBefore, "before it arrived"),
    };
    faults.began(
        fault,
        format!("instance {instance} loses the connection of its next request"),
    );
    let reset = Rule::new(action).about(Filter {
        nth: Some(1),
        ..Filter::instance(instance)
    });
    let resets = OnLinks::lay(faults, &reset);
    let all = Arc::clone(faults);
    faults.spawn(async move {
        until(all, |faults| {
            let landed = resets.everywhere();
            if landed {
                let of = resets.applied().0;
                faults.landed(
                    fault,
                    format!(
                        "a request of instance {instance} to each of {of} servers lost its \
                         connection {when}"
                    ),
                );
                faults.ended(fault);
            }
            landed
        })
        .await;
    });
}
