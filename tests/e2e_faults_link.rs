//! The faults on links against real servers: each one lands and proves it, is undone when it is over,
//! and makes the verdict inconclusive where it misses.

mod support;

use support::told::{Told, answers, grants, history, landed_and_undone, missed, when, window};
use support::{Ended, PASS, VIOLATED, oversold, package};

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

// ---- bandwidth

const BANDWIDTH: &str = "kind = \"bandwidth\"\nat = { time = \"500ms\", instance = 0 }\n\
                         bytes_per_second = 400\nfor = \"800ms\"\n";

#[test]
fn what_is_limited_is_answered_late_until_that_is_over() {
    let ended = under("token-lua", BANDWIDTH);
    ended.exits_with_one_of(&[PASS, VIOLATED]);
    let told = landed_and_undone(&ended, "400 bytes a second");
    let (landed, over) = window(&told);
    let all = answers(&told, 0, &["granted", "denied", "acquire_unknown"]).into_iter();
    let late = all.filter(|(asked, answered)| landed < *asked && *answered < over);
    let took: Vec<_> = late.map(|(asked, answered)| answered - asked).collect();
    // A request of some 70 bytes.
    assert!(took.iter().min() >= Some(&100_000_000), "{took:?}");
}

#[test]
fn who_sends_nothing_cannot_be_limited() {
    missed(&under("conditional", BANDWIDTH));
}

// ---- answer-error

fn answer(error: &str) -> String {
    let at = "{ time = \"500ms\", instance = 0 }";
    format!("kind = \"answer-error\"\nat = {at}\nerror = \"{error}\"\nfor = \"500ms\"\n")
}

#[test]
fn who_is_answered_with_errors_is_granted_nothing_until_that_is_over() {
    for error in ["LOADING", "OOM", "NOSCRIPT"] {
        let ended = under("fenced", &answer(error));
        // A release that is answered so leaves its key behind.
        ended.exits_with_one_of(&[PASS, VIOLATED]);
        let told = landed_and_undone(&ended, error);
        let (landed, over) = window(&told);
        assert_eq!(grants(&told, 0, landed, over), 0);
        // The other one is still answered by the server itself.
        let (good, bad) = (["granted", "denied"], ["acquire_failed"]);
        let good = answers(&told, 1, &good).into_iter();
        assert!(
            good.filter(|(asked, _)| (landed..over).contains(asked))
                .count()
                > 0
        );
        assert_eq!(answers(&told, 1, &bad), []);
        let its = answers(&told, 0, &["acquire_failed"]);
        assert!(!its.is_empty(), "{error} is a refusal");
        if error != "LOADING" {
            continue;
        }
        let failed = told.iter().filter(|event| event.what == "acquire_failed");
        let mut said = failed.map(|event| event.about["error"].to_string());
        assert!(said.any(|said| said.contains("loading")));
    }
}

#[test]
fn who_asks_nothing_is_answered_with_no_error() {
    missed(&under("conditional", &answer("OOM")));
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
