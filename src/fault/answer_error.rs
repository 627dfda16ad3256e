//! `answer-error`: for a while an instance's requests never arrive, and are answered with an error
//! that a server gives when it is a replica, is loading, is out of memory, and so on.

use std::sync::Arc;
use std::time::Duration;

use super::on_links::{OnLinks, window};
use super::{Entry, Faults};
use crate::link::{Action, Filter, Refusal, Rule};
use crate::scenario::ErrorWord;

pub(super) const ENTRY: Entry = Entry {
    name: "answer-error",
    about: "an instance's requests are answered with an error for a while (`error = \"LOADING\"`)",
};

/// Answers so now, and lets the requests pass later.
pub(super) fn strike(
    faults: &Arc<Faults>,
    fault: u32,
    instance: u32,
    error: ErrorWord,
    for_ns: u64,
) {
    let (word, long) = (error.word(), Duration::from_nanos(for_ns));
    faults.began(
        fault,
        format!("requests of instance {instance} are answered with {word} for {long:?}"),
    );
    let answer = Rule::new(Action::Answer(refusal(error))).about(Filter::instance(instance));
    let answers = OnLinks::lay(faults, &answer);
    let all = Arc::clone(faults);
    faults.spawn(async move {
        let proof = async {
            answers.applied_on_each().await;
            let (links, times) = (answers.applied().0, answers.hits());
            format!(
                "{times} requests of instance {instance} to {links} servers were answered with \
                 {word} by now, and did not arrive"
            )
        };
        window(&all, fault, long, proof).await;
        // Recorded first: what passes then comes after it.
        all.ended(fault);
        drop(answers);
    });
}

fn refusal(error: ErrorWord) -> Refusal {
    match error {
        ErrorWord::ReadOnly => Refusal::ReadOnly,
        ErrorWord::Loading => Refusal::Loading,
        ErrorWord::OutOfMemory => Refusal::OutOfMemory,
        ErrorWord::NoScript => Refusal::NoScript,
        ErrorWord::ClusterDown => Refusal::ClusterDown,
        ErrorWord::Misconf => Refusal::Misconf,
    }
}
