//! A stored history as the tests of faults read it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Ended, INCONCLUSIVE, files_named};

/// An event of a history: when, what, and what about.
pub struct Told {
    pub at: u64,
    pub what: String,
    pub about: Value,
}

/// The lines of the only trial's history, without its header.
pub fn events(ended: &Ended) -> Vec<Value> {
    let files = files_named("history.jsonl", &ended.reports);
    let text = std::fs::read_to_string(&files[0]).expect("a history");
    let lines = text.lines().skip(1);
    lines
        .map(|line| serde_json::from_str(line).expect("an event"))
        .collect()
}

/// The history of the only trial.
pub fn history(ended: &Ended) -> Vec<Told> {
    let read = |line: &Value| {
        let kind = line["event"].as_object().expect("a kind");
        let (what, about) = kind.iter().next().expect("one kind");
        Told {
            at: line["at_ns"].as_u64().expect("a time"),
            what: what.clone(),
            about: about.clone(),
        }
    };
    events(ended).iter().map(read).collect()
}

/// When something happened first.
#[track_caller]
pub fn when(told: &[Told], what: &str) -> u64 {
    first(told, what).at
}

/// What happened first of a kind.
#[track_caller]
pub fn first<'a>(told: &'a [Told], what: &str) -> &'a Told {
    let found = told.iter().find(|event| event.what == what);
    found.unwrap_or_else(|| panic!("no {what}"))
}

/// How often something happened.
pub fn count(told: &[Told], what: &str) -> usize {
    told.iter().filter(|event| event.what == what).count()
}

/// The operations of an instance.
pub fn operations(told: &[Told], instance: u64) -> BTreeSet<u64> {
    let arrived = told.iter().filter(|event| event.what == "arrived");
    let its = arrived.filter(|event| event.about["instance"] == instance);
    its.map(op).collect()
}

pub fn op(event: &Told) -> u64 {
    event.about["op"].as_u64().expect("a number")
}

/// When those of an instance asked for the lock, and when they were answered so.
pub fn answers(told: &[Told], instance: u64, so: &[&str]) -> Vec<(u64, u64)> {
    let its = operations(told, instance);
    let mut asked = BTreeMap::new();
    let mut answers = Vec::new();
    for event in told {
        if event.what == "asked" {
            asked.insert(op(event), event.at);
        } else if so.contains(&event.what.as_str()) && its.contains(&op(event)) {
            answers.push((asked[&op(event)], event.at));
        }
    }
    answers
}

/// The grants of an instance that were asked for and answered in a window.
pub fn grants(told: &[Told], instance: u64, from: u64, to: u64) -> usize {
    let all = answers(told, instance, &["granted"]).into_iter();
    all.filter(|(asked, answered)| from < *asked && *answered < to)
        .count()
}

/// From its proof to its end.
#[track_caller]
pub fn window(told: &[Told]) -> (u64, u64) {
    (when(told, "fault_landed"), when(told, "fault_ended"))
}

/// The fault landed, with a proof in which this is said.
#[track_caller]
pub fn landed(ended: &Ended, proof: &str) -> Vec<Told> {
    let told = history(ended);
    let said = first(&told, "fault_landed").about["proof"].to_string();
    assert!(said.contains(proof), "{said}");
    told
}

/// The same; it is over, and after it the lock was taken again, by each of two instances.
#[track_caller]
pub fn landed_and_undone(ended: &Ended, proof: &str) -> Vec<Told> {
    let told = landed(ended, proof);
    let over = when(&told, "fault_ended");
    for instance in [0, 1] {
        let again = grants(&told, instance, over, u64::MAX);
        assert!(again > 0, "instance {instance} gets in again");
    }
    told
}

/// It struck and did not land, and that is all that is known.
#[track_caller]
pub fn missed(ended: &Ended) {
    ended.exits(INCONCLUSIVE);
    let doubts = ended.report().doubts().join("; ");
    assert!(doubts.contains("nothing proves that it landed"), "{doubts}");
}
