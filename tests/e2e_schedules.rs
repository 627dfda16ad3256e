//! When faults strike, and how often, against real servers: each strike is counted, and after the
//! last one the lock is taken again.

mod support;

use serde_json::Value;
use support::told::events;
use support::{Ended, INCONCLUSIVE, PASS, oversold};

/// Short sales for two seconds, with some faults.
fn sales(faults: &str) -> String {
    format!(
        r#"
name = "scheduled"
load = {{ instances = 4, workers = 8, duration = "2s" }}
workload = {{ kind = "flash-sale", stock = 100000 }}
section = {{ constant = "20ms" }}
lock = {{ kind = "token-lua-watchdog", ttl = "3s", wait = {{ retry_every = "10ms", give_up_after = "60s" }} }}
{faults}"#
    )
}

/// A short freeze, at that time.
fn freeze(at: &str, rest: &str) -> String {
    format!("[[fault]]\nkind = \"freeze\"\nfor = \"30ms\"\nat = {at}\n{rest}\n")
}

fn run(faults: &str) -> Ended {
    oversold("run - --expect pass")
        .reading(&sales(faults))
        .run()
}

fn covered(ended: &Ended, fault: usize) -> Value {
    ended.report().trials()[0]["coverage"]["faults"][fault].clone()
}

/// The places of the events of a kind.
fn places(history: &[Value], kind: &str) -> Vec<usize> {
    let events = history.iter().enumerate();
    let events = events.filter(|(_, line)| line["event"][kind].is_object());
    events.map(|(place, _)| place).collect()
}

#[test]
fn a_fault_strikes_every_so_many_times_at_a_point() {
    let at = "{ point = \"in-section\", nth = 3, every = 10, times = 3 }";
    let ended = run(&freeze(at, "again = true"));
    ended.exits(PASS);
    let covered = covered(&ended, 0);
    assert_eq!(
        (&covered["planned"], &covered["struck"]),
        (&3.into(), &3.into())
    );
    let landed = covered["landed"].as_u64().expect("a number");
    assert!((1..=3).contains(&landed), "{covered}");
    let line = format!("landed {landed} of 3 times: ");
    assert!(ended.stdout.contains(&line), "{}", ended.stdout);
    // Before the first strike two sections, between two of them ten.
    let history = events(&ended);
    let (worked, began) = (places(&history, "working"), places(&history, "fault_began"));
    let before = began
        .iter()
        .map(|began| worked.iter().filter(|place| *place < began).count());
    let before: Vec<usize> = before.collect();
    assert_eq!(
        (before[0], before[1] - before[0], before[2] - before[1]),
        (3, 10, 10)
    );
}

#[test]
fn a_fault_strikes_when_a_grant_is_seen_and_before_its_section() {
    let ended = run(&freeze(
        "{ when = \"granted\", key = 0, nth = 4 }",
        "again = true",
    ));
    ended.exits(PASS);
    let history = events(&ended);
    let began = places(&history, "fault_began")[0];
    let seen = |kind: &str| places(&history[..began], kind).len();
    assert_eq!((seen("granted"), seen("entered")), (4, 3));
}

#[test]
fn a_key_that_is_not_there_is_never_granted() {
    let ended = run(&freeze("{ when = \"granted\", key = 7 }", ""));
    ended.exits(INCONCLUSIVE);
    assert_eq!(ended.report().doubts(), ["planned fault 1 never struck"]);
}

#[test]
fn faults_strike_when_a_lock_is_denied_renewed_or_released() {
    let denied = freeze("{ when = \"denied\", nth = 2 }", "");
    let released = freeze("{ when = \"released\", nth = 2 }", "");
    let renewed = freeze("{ when = \"renewed\", nth = 1 }", "");
    // Long enough for a renewal.
    let text =
        sales(&(denied + &released + &renewed)).replace("\"20ms\" }\nlock", "\"400ms\" }\nlock");
    let text = text.replace("ttl = \"3s\"", "ttl = \"1s\"");
    let ended = oversold("run - --expect pass").reading(&text).run();
    ended.exits(PASS);
    for fault in 0..3 {
        assert_eq!(covered(&ended, fault)["landed"], 1);
    }
}

#[test]
fn two_faults_strike_at_one_point() {
    let at = "{ point = \"in-section\", nth = 5 }";
    let flush = format!("[[fault]]\nkind = \"script-flush\"\nat = {at}\n");
    let ended = run(&(freeze(at, "") + &flush));
    ended.exits(PASS);
    for fault in 0..2 {
        assert_eq!(covered(&ended, fault)["landed"], 1);
    }
}

#[test]
fn two_freezes_of_one_instance_last_as_long_as_the_longer_one() {
    let at = "{ point = \"in-section\", nth = 5 }";
    let longer = freeze(at, "").replace("30ms", "400ms");
    let ended = run(&(freeze(at, "") + &longer));
    ended.exits(PASS);
    let history = events(&ended);
    let at = |kind: &str| {
        let places = places(&history, kind);
        assert_eq!(places.len(), 1, "{kind}");
        history[places[0]]["at_ns"].as_u64().expect("a time")
    };
    assert!(at("thawed") - at("frozen") >= 400_000_000);
}

#[test]
fn faults_strike_by_chance_and_at_random_times() {
    let by_chance = freeze("{ point = \"in-section\", chance = 0.2, times = 2 }", "");
    let timed = freeze("{ time = \"100ms\", every = \"200ms\", times = 4 }", "");
    let random = freeze("{ random = [\"100ms\", \"1s\"], times = 3 }", "");
    let ended = run(&(by_chance + &timed + &random));
    ended.exits(PASS);
    let struck = |fault| covered(&ended, fault)["struck"].as_u64().expect("a number");
    assert_eq!((struck(0), struck(1), struck(2)), (2, 4, 3));
    assert!(covered(&ended, 0)["planned"].is_null());
}

#[test]
fn after_a_server_is_well_again_the_lock_is_taken_a_second_time() {
    let at = "at = { point = \"in-section\", nth = 5 }\nfor = \"200ms\"\nagain = true\n";
    for kind in ["read-only", "no-memory"] {
        // What could not be released meanwhile stays for a lease, and the run is longer than that.
        let text = sales(&format!("[[fault]]\nkind = \"{kind}\"\n{at}"));
        let text = text.replace("ttl = \"3s\"", "ttl = \"1s\"");
        let ended = oversold("run - --expect pass").reading(&text).run();
        ended.exits(PASS);
    }
}

#[test]
fn where_nobody_asks_again_nothing_is_known() {
    // The last section ends under the fault.
    let text = sales(&freeze(
        "{ point = \"in-section\", nth = 5 }",
        "again = true",
    ));
    let ended = oversold("run - -n 5 --expect pass").reading(&text).run();
    ended.exits(INCONCLUSIVE);
    let doubts = ended.report().doubts().join("; ");
    assert!(
        doubts.contains("is granted the lock again after fault 1 is not known"),
        "{doubts}"
    );
}
