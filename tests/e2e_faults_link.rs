//! The faults on links against real servers: each one lands and proves it, is undone when it is over,
//! and makes the verdict inconclusive where it misses.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use support::{Ended, INCONCLUSIVE, PASS, VIOLATED, files_named, oversold, package};

/// Short sections, and customers who do not wait for long.
const SCENARIO: &str = r#"
name = "linked"
title = "short sections, and something wrong on the way to the server"

[load]
instances = 2
workers = 4
duration = "2500ms"
think = "10ms"

[workload]
kind = "flash-sale"
stock = 1000000

[section]
uniform = ["5ms", "15ms"]

[lock]
kind = "token-lua"
ttl = "700ms"
response_timeout = "300ms"

[lock.wait]
retry_every = "20ms"
give_up_after = "200ms"

[[fault]]
"#;

/// Runs it under a lock, with a fault.
fn under(lock: &str, fault: &str) -> Ended {
    let words = format!("run - --expect pass --lock {lock}");
    oversold(&words)
        .reading(&(SCENARIO.to_owned() + fault))
        .run()
}

/// An event of a history: when, what, and what about.
struct Told {
    at: u64,
    what: String,
    about: Value,
}

fn history(ended: &Ended) -> Vec<Told> {
    let files = files_named("history.jsonl", &ended.reports);
    let text = std::fs::read_to_string(&files[0]).expect("a history");
    let lines = text.lines().skip(1);
    let read = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let kind = line["event"].as_object().expect("a kind");
        let (what, about) = kind.iter().next().expect("one kind");
        Told {
            at: line["at_ns"].as_u64().expect("a time"),
            what: what.clone(),
            about: about.clone(),
        }
    };
    lines.map(read).collect()
}

fn when(told: &[Told], what: &str) -> u64 {
    let found = told.iter().find(|event| event.what == what);
    found.unwrap_or_else(|| panic!("no {what}")).at
}

/// The operations of an instance.
fn operations(told: &[Told], instance: u64) -> BTreeSet<u64> {
    let arrived = told.iter().filter(|event| event.what == "arrived");
    let its = arrived.filter(|event| event.about["instance"] == instance);
    its.map(op).collect()
}

fn op(event: &Told) -> u64 {
    event.about["op"].as_u64().expect("a number")
}

/// When those of an instance asked for the lock, and when they were answered so.
fn answers(told: &[Told], instance: u64, so: &[&str]) -> Vec<(u64, u64)> {
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
fn grants(told: &[Told], instance: u64, from: u64, to: u64) -> usize {
    let all = answers(told, instance, &["granted"]).into_iter();
    all.filter(|(asked, answered)| from < *asked && *answered < to)
        .count()
}

/// From its proof to its end.
fn window(told: &[Told]) -> (u64, u64) {
    (when(told, "fault_landed"), when(told, "fault_ended"))
}

/// The fault landed, with a proof in which this is said; it is over, and after it the lock was taken
/// again, by each of the instances.
#[track_caller]
fn landed_and_undone(ended: &Ended, proof: &str) -> Vec<Told> {
    let told = history(ended);
    let landed = told.iter().find(|event| event.what == "fault_landed");
    let said = landed.expect("it landed").about["proof"].to_string();
    assert!(said.contains(proof), "{said}");
    let over = when(&told, "fault_ended");
    for instance in [0, 1] {
        let again = grants(&told, instance, over, u64::MAX);
        assert!(again > 0, "instance {instance} gets in again");
    }
    told
}

/// It struck and did not land, and that is all that is known.
#[track_caller]
fn missed(ended: &Ended) {
    ended.exits(INCONCLUSIVE);
    let doubts = ended.report().doubts().join("; ");
    assert!(doubts.contains("nothing proves that it landed"), "{doubts}");
}

// ---- lose-reply

const REPLY: &str = "kind = \"lose-reply\"\nat = { point = \"before-acquire\", nth = 20 }\n";

#[test]
fn a_lost_grant_leaves_a_key_that_nobody_knows_to_hold() {
    let ended = under("token-lua", REPLY);
    ended.exits(VIOLATED);
    let report = ended.report();
    let found: Vec<_> = report.causes_of("orphan-key").into_iter().collect();
    assert_eq!(found, ["reply-lost"], "{report:?}");
    assert_eq!(report.violated().len(), 1, "{report:?}");
    let told = landed_and_undone(&ended, "1 of 1 servers");
    let unknown = when(&told, "acquire_unknown");
    assert!(unknown >= when(&told, "fault_began"));
}

#[test]
fn a_grant_of_a_primary_is_lost_as_well() {
    let text = SCENARIO.replace("[load]", "[topology]\nkind = \"sentinel\"\n\n[load]") + REPLY;
    let ended = oversold("run - --expect pass").reading(&text).run();
    ended.exits(VIOLATED);
    landed_and_undone(&ended, "1 of 1 servers");
}

#[test]
fn a_lost_grant_of_a_majority_is_cleaned_up_by_redlock() {
    let ended = under("redlock", REPLY);
    ended.exits(PASS);
    landed_and_undone(&ended, "of 5 servers");
}

#[test]
fn a_lease_whose_renewal_was_not_answered_is_renewed_again() {
    let fault =
        "kind = \"lose-reply\"\nwhich = \"renewal\"\nat = { point = \"in-section\", nth = 2 }\n";
    let text = SCENARIO.replace("[\"5ms\", \"15ms\"]", "[\"300ms\", \"400ms\"]") + fault;
    let words = "run - --expect pass --lock token-lua-watchdog";
    let ended = oversold(words).reading(&text).run();
    ended.exits(PASS);
    let told = landed_and_undone(&ended, "renewal");
    let failed = when(&told, "renewal_failed");
    let again = |event: &Told| event.what == "renewed" && event.at > failed;
    assert!(told.iter().any(again));
}

#[test]
fn a_release_whose_answer_is_lost_has_released() {
    let fault =
        "kind = \"lose-reply\"\nwhich = \"release\"\nat = { point = \"in-section\", nth = 5 }\n";
    let ended = under("token-lua", fault);
    ended.exits(PASS);
    let told = landed_and_undone(&ended, "release");
    let unknown = |event: &&Told| event.what == "released" && event.about["outcome"].is_object();
    assert_eq!(told.iter().filter(unknown).count(), 1);
}

#[test]
fn an_answer_that_nobody_waits_for_cannot_be_lost() {
    let fault = REPLY.to_owned() + "which = \"renewal\"\n";
    missed(&under("token-lua", &fault));
}

// ---- cut-off

#[test]
fn an_instance_that_is_cut_off_hears_nothing_until_that_is_over() {
    let fault = "kind = \"cut-off\"\nat = { time = \"500ms\", instance = 0 }\nfor = \"800ms\"\n";
    let ended = under("token-lua", fault);
    // What was sent meanwhile is applied late, to whom it may concern.
    ended.exits_with_one_of(&[PASS, VIOLATED]);
    let told = landed_and_undone(&ended, "stopped");
    let (landed, over) = window(&told);
    assert_eq!(grants(&told, 0, landed, over), 0);
    assert!(grants(&told, 1, landed, over) > 0, "the other one goes on");
}

#[test]
fn who_says_nothing_cannot_be_cut_off() {
    let fault = "kind = \"cut-off\"\nat = { time = \"500ms\", instance = 0 }\nfor = \"500ms\"\n";
    missed(&under("conditional", fault));
}

// ---- delay

const DELAY: &str = "kind = \"delay\"\nat = { time = \"500ms\", instance = 0 }\nby = \"100ms\"\n\
                     for = \"800ms\"\n";

#[test]
fn what_is_delayed_is_answered_late_until_that_is_over() {
    let ended = under("token-lua", DELAY);
    ended.exits_with_one_of(&[PASS, VIOLATED]);
    let told = landed_and_undone(&ended, "held back");
    let (landed, over) = window(&told);
    let all = answers(&told, 0, &["granted", "denied"]).into_iter();
    let late: Vec<_> = all
        .filter(|(asked, answered)| landed < *asked && *answered < over)
        .collect();
    assert!(!late.is_empty());
    let by = late.iter().map(|(asked, answered)| answered - asked);
    assert!(by.min() >= Some(100_000_000), "{late:?}");
}

#[test]
fn who_asks_nothing_cannot_be_delayed() {
    missed(&under("conditional", DELAY));
}

// ---- reset

fn reset(applied: bool) -> String {
    let at = "{ point = \"before-acquire\", nth = 20 }";
    format!("kind = \"reset\"\nat = {at}\napplied = {applied}\n")
}

#[test]
fn a_request_that_finds_its_connection_reset_is_not_applied() {
    let ended = under("token-lua", &reset(false));
    ended.exits(PASS);
    let told = landed_and_undone(&ended, "before it arrived");
    when(&told, "acquire_unknown");
}

#[test]
fn a_request_that_was_applied_before_the_reset_is_as_unknown() {
    let ended = under("token-lua", &reset(true));
    // If it was granted, its key stays.
    ended.exits_with_one_of(&[PASS, VIOLATED]);
    let told = landed_and_undone(&ended, "with its answer");
    when(&told, "acquire_unknown");
}

#[test]
fn who_has_no_next_request_loses_no_connection() {
    missed(&under("conditional", &reset(true)));
}

// ---- refuse

const REFUSE: &str = "kind = \"refuse\"\nat = { time = \"500ms\" }\nfor = \"500ms\"\n";

#[test]
fn nobody_gets_a_connection_until_that_is_over() {
    let ended = under("token-lua", REFUSE);
    // Who was about to be granted the lock does not hear of it.
    ended.exits_with_one_of(&[PASS, VIOLATED]);
    let told = landed_and_undone(&ended, "were reset");
    let (landed, over) = window(&told);
    assert_eq!(grants(&told, 0, landed, over), 0);
    assert_eq!(grants(&told, 1, landed, over), 0);
    let failed = |event: &Told| event.what == "acquire_failed" && event.at < over;
    assert!(told.iter().any(failed));
}

#[test]
fn who_wants_no_new_connection_is_refused_none() {
    missed(&under("conditional", REFUSE));
}

// ---- the scenarios

#[test]
fn a_lock_whose_lease_comes_second_is_kept_for_ever() {
    let ended = oversold("run scenarios/reply-lost.toml --lock setnx-expire-del").run();
    ended.exits(PASS);
    let report = ended.report();
    let summaries: Vec<_> = report
        .findings()
        .map(|found| found["summary"].to_string())
        .collect();
    let for_ever = summaries
        .iter()
        .any(|summary| summary.contains("it stays for ever"));
    assert!(for_ever, "{summaries:?}");
}

#[test]
fn a_watchdog_tells_that_it_was_cut_off_and_who_heeds_it_does_not_write() {
    let file = package("scenarios/cut-off.toml");
    let text = std::fs::read_to_string(file).expect("the scenario");
    let heeding = text.replace("\n[section]\n", "\n[section]\nheeds_lost_lease = true\n");
    let lock = "--lock token-lua-watchdog --expect violation";
    let ended = oversold(&format!("run - {lock}")).reading(&heeding).run();
    ended.exits(PASS);
    let report = ended.report();
    let violated: Vec<_> = report.violated().into_iter().collect();
    assert_eq!(violated, ["overlap"], "{report:?}");
    let causes: Vec<_> = report.causes_of("overlap").into_iter().collect();
    assert_eq!(causes, ["renewal-failed"], "{report:?}");
    let told = history(&ended);
    assert!(when(&told, "lease_lost") < when(&told, "left"));
}
