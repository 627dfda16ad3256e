//! `refuse`: for a while, every server resets its clients' connections and takes no new ones, as
//! behind a proxy that restarts.

use std::sync::Arc;
use std::time::Duration;

use super::on_links::{OnLinks, window};
use super::{Entry, Faults};
use crate::link::{Action, Filter, Rule, Who};

pub(super) const ENTRY: Entry = Entry {
    name: "refuse",
    about: "clients' connections are reset, and none is taken for a while (`for = \"8s\"`)",
};

/// Cuts all clients now, and takes them again later.
pub(super) fn strike(faults: &Arc<Faults>, fault: u32, for_ns: u64) {
    let long = Duration::from_nanos(for_ns);
    faults.began(fault, format!("no connections for {long:?}"));
    let refused = OnLinks::lay(faults, &Rule::new(Action::Refuse));
    let cut = Rule::new(Action::Cut).about(Filter::who(Who::Client));
    let cut = OnLinks::lay(faults, &cut);
    let all = Arc::clone(faults);
    faults.spawn(async move {
        let proof = async {
            cut.applied_on_each().await;
            refused.applied_on_each().await;
            let (cut, refused, links) = (cut.hits(), refused.hits(), refused.applied().0);
            format!("{cut} connections to {links} servers were reset, {refused} new ones by now")
        };
        window(&all, fault, long, proof).await;
        // Recorded first: what passes then comes after it.
        all.ended(fault);
        drop((cut, refused));
    });
}
