//! Two primaries at once, and a primary that hands over in order: that it landed, that it is undone,
//! and what becomes of it where it misses.

mod support;

use std::time::Duration;

use nix::sys::signal::Signal;
use support::told::{Told, first, history, landed, missed, op, when};
use support::{PASS, oversold, package};

/// How long a server may outlive its driver.
const SOON: Duration = Duration::from_secs(2);

/// A scenario with some things replaced.
fn with(scenario: &str, changes: &[(&str, &str)]) -> String {
    let file = package(&format!("scenarios/{scenario}.toml"));
    let mut text = std::fs::read_to_string(file).expect("the scenario");
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    text
}

/// Which server gave the answer that stands at this place.
fn by(told: &[Told], place: usize) -> String {
    let mut before = told[..place].iter().rev();
    let answered =
        before.find(|event| event.what == "answered_by" && op(event) == op(&told[place]));
    answered.expect("its server").about["server"].to_string()
}

#[test]
fn two_primaries_grant_one_lock_and_the_old_one_loses_what_it_had_granted() {
    let ended = oversold("run scenarios/split-brain.toml --lock token-lua").run();
    ended.exits(PASS);
    let report = ended.report();
    let causes: Vec<_> = report.causes_of("overlap").into_iter().collect();
    assert_eq!(causes, ["split-brain"], "{report:?}");
    let told = landed(&ended, "answered ROLE with master at one moment");
    // There are two, each has granted, and in the end one is left.
    let two = first(&told, "two_primaries");
    let both = told
        .iter()
        .find(|event| event.what == "two_primaries" && event.about["both"][0] == 0);
    let both = both.expect("the lock was on both").at;
    let one = first(&told, "one_primary");
    assert!(two.at <= both && both <= when(&told, "fault_landed"));
    assert!(when(&told, "fault_landed") < one.at && one.at <= when(&told, "fault_ended"));
    let (old, new) = (
        two.about["servers"][0].to_string(),
        two.about["servers"][1].to_string(),
    );
    assert_eq!(one.about["server"].to_string(), new);
    let granted: Vec<_> = (0..told.len())
        .filter(|place| told[*place].what == "granted" && told[*place].at < one.at)
        .collect();
    assert_eq!(by(&told, granted[0]), old);
    let second = granted.iter().find(|place| by(&told, **place) == new);
    let second = second.expect("a grant of the new one");
    assert!(told[*second].at > two.at);
    // The first one's lock was on the old primary alone: it is not there any more.
    let holder = op(&told[granted[0]]);
    let released = told
        .iter()
        .find(|event| event.what == "released" && op(event) == holder);
    let outcome = released.expect("its release").about["outcome"].to_string();
    assert_ne!(outcome, "\"removed\"");
}

/// The scenario in which the old primary refuses writes, under `token-lua`.
fn refusing(min_replicas: &str, expect: &str) -> support::Ended {
    let (from, to) = ("min_replicas_to_write = 1", min_replicas);
    let text = with("split-brain-min-replicas", &[(from, to)]);
    let words = format!("run - --lock token-lua --expect {expect}");
    oversold(&words).reading(&text).run()
}

#[test]
fn an_old_primary_that_refuses_writes_in_time_grants_nothing_beside_the_new_one() {
    let ended = refusing("min_replicas_to_write = 1", "pass");
    ended.exits(PASS);
    let told = landed(&ended, "the first answered a write");
    let old = first(&told, "two_primaries").about["servers"][0].to_string();
    let since = when(&told, "two_primaries");
    let granted = (0..told.len()).filter(|place| told[*place].what == "granted");
    let after: Vec<_> = granted.filter(|place| told[*place].at > since).collect();
    assert!(!after.is_empty());
    assert!(after.iter().all(|place| by(&told, *place) != old));
}

#[test]
fn the_same_without_that_is_a_split_brain() {
    let ended = refusing("min_replicas_to_write = 0", "violation");
    ended.exits(PASS);
    let report = ended.report();
    let causes: Vec<_> = report.causes_of("overlap").into_iter().collect();
    assert_eq!(causes, ["split-brain"], "{report:?}");
}

#[test]
fn a_majority_is_not_split_by_one_node_that_is_out_of_reach() {
    let ended = oversold("run scenarios/split-brain.toml --lock redlock").run();
    ended.exits(PASS);
    assert_eq!(ended.report().violated().len(), 0);
    landed(&ended, "one of 5");
}

#[test]
fn two_primaries_of_which_only_one_is_asked_split_nothing() {
    let alone = with(
        "split-brain",
        &[("instances = 4", "instances = 1"), ("\"16s\"", "\"1s\"")],
    );
    let ended = oversold("run - --lock token-lua --expect pass")
        .reading(&alone)
        .run();
    missed(&ended);
    // It is undone all the same.
    let told = history(&ended);
    assert!(when(&told, "two_primaries") < when(&told, "one_primary"));
    assert!(when(&told, "one_primary") <= when(&told, "fault_ended"));
}

#[test]
fn a_lock_that_is_held_survives_a_primary_that_hands_over_in_order() {
    let ended = oversold("run scenarios/graceful.toml --lock token-lua-watchdog").run();
    ended.exits(PASS);
    assert_eq!(ended.report().violated().len(), 0);
    let told = landed(&ended, "was promoted");
    assert_eq!(
        first(&told, "promoted").about["held"][0],
        0,
        "it knows of the lock"
    );
    assert!(when(&told, "promoted") < when(&told, "fault_landed"));
    assert!(when(&told, "one_primary") <= when(&told, "fault_ended"));
}

#[test]
fn a_primary_without_a_replica_that_lives_hands_nothing_over() {
    let kill = "[[fault]]\nkind = \"kill-server\"\nnode = 1\nat = { time = \"0s\" }\n\n[[fault]]";
    let dead = with(
        "graceful",
        &[
            ("replicas = 2", "replicas = 1"),
            ("[[fault]]", kill),
            ("{ point = \"in-section\", nth = 1 }", "{ time = \"1s\" }"),
        ],
    );
    missed(&oversold("run - --expect pass").reading(&dead).run());
}

#[test]
fn all_servers_end_with_a_driver_that_is_killed_while_there_are_two_primaries() {
    let mut running = oversold("run scenarios/split-brain.toml").start();
    running.until_history_tells("two_primaries");
    let servers = running.servers();
    assert!(servers.len() >= 6, "{servers:?}");
    running.signal(Signal::SIGKILL);
    for server in servers {
        server.is_gone_within(SOON);
    }
}
