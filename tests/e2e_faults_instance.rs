//! The faults that strike an instance: each lands and proves it, is over when it is over, proves
//! nothing where it misses, and leaves nothing behind when the driver dies.

mod support;

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use support::told::events;
use support::{Ended, INCONCLUSIVE, PASS, VIOLATED, oversold};

/// How long a server may outlive its driver.
const SOON: Duration = Duration::from_secs(2);

/// Customers of two instances, who do not wait for long, with sections of this length and a fault
/// after which the one that was struck must be granted the lock again.
fn sales(section: &str, fault: &str) -> String {
    format!(
        r#"
name = "struck"
load = {{ instances = 2, workers = 4, duration = "3s", think = "10ms" }}
workload = {{ kind = "flash-sale", stock = 1000000 }}
section = {{ {section} }}

[lock]
kind = "token-lua"
ttl = "700ms"
response_timeout = "300ms"
wait = {{ retry_every = "20ms", give_up_after = "300ms" }}

[[fault]]
{fault}
"#
    )
}

const SHORT: &str = "uniform = [\"5ms\", \"15ms\"]";
/// It lives by its renewals.
const LONG: &str = "constant = \"1s\"";

fn under(lock: &str, text: &str) -> Ended {
    let words = format!("run - --expect pass --lock {lock}");
    oversold(&words).reading(text).run()
}

fn covered(ended: &Ended) -> &Value {
    &ended.report().trials()[0]["coverage"]["faults"][0]
}

#[track_caller]
fn landed(ended: &Ended, proof: &str) {
    let covered = covered(ended);
    let said = covered["proof"].as_str();
    let said = said.unwrap_or_else(|| panic!("no proof: {covered}\n{}", ended.stdout));
    assert!(said.contains(proof), "{said}");
}

/// No doubt is left: it landed, is over, and the lock was granted again.
#[track_caller]
fn held(ended: &Ended, proof: &str) {
    ended.exits(PASS);
    landed(ended, proof);
}

#[track_caller]
fn missed(ended: &Ended) {
    ended.exits_with_one_of(&[INCONCLUSIVE, VIOLATED]);
    let doubts = ended.report().doubts().join("; ");
    assert!(doubts.contains("nothing proves that it landed"), "{doubts}");
}

/// When things of a kind happened.
fn when(history: &[Value], kind: &str) -> Vec<u64> {
    let events = history
        .iter()
        .filter(|line| line["event"][kind].is_object());
    events
        .map(|line| line["at_ns"].as_u64().expect("a time"))
        .collect()
}

// ---- block-executor

const BLOCK: &str = "kind = \"block-executor\"\nfor = \"400ms\"\nagain = true\n";

#[test]
fn an_executor_that_is_blocked_is_a_freeze_and_goes_on() {
    let fault = BLOCK.to_owned() + "at = { point = \"in-section\", nth = 5 }";
    let text = sales(SHORT, &fault).replace("700ms", "3s");
    let ended = under("token-lua", &text);
    held(&ended, "wanted to move");
    let history = events(&ended);
    let still = (when(&history, "frozen"), when(&history, "thawed"));
    assert!(still.1[0] - still.0[0] >= 400_000_000);
}

#[test]
fn an_executor_with_nothing_to_do_is_not_blocked() {
    let fault = BLOCK.to_owned() + "at = { time = \"1s\", instance = 0 }";
    let idle = sales(SHORT, &fault).replace("think = \"10ms\"", "think = \"9s\"");
    missed(&under("token-lua", &idle));
}

// ---- stall-watchdog

const STALL: &str = "kind = \"stall-watchdog\"\nat = { point = \"in-section\", nth = 1 }\n";

#[test]
fn a_watchdog_that_stands_still_loses_the_lease_of_a_section_that_goes_on() {
    let fault = STALL.to_owned() + "for = \"1s\"\n";
    let ended = under("token-lua-watchdog", &sales(LONG, &fault));
    ended.exits(VIOLATED);
    landed(&ended, "was due within 1s and did nothing");
    let report = ended.report();
    let causes: Vec<_> = report.causes_of("overlap").into_iter().collect();
    assert_eq!(causes, ["lease-expired"], "{report:?}");
    assert_eq!(when(&events(&ended), "frozen"), [0; 0]);
}

#[test]
fn a_watchdog_that_stands_still_for_less_than_a_lease_goes_on() {
    // 233 ms after the grant it is due, and again when it goes on.
    let fault = STALL.to_owned() + "for = \"300ms\"\n";
    let ended = under("token-lua-watchdog", &sales(LONG, &fault));
    held(&ended, "was due within 300ms and did nothing");
    let history = events(&ended);
    let over = when(&history, "fault_ended")[0];
    assert!(
        when(&history, "renewed")
            .iter()
            .any(|renewed| *renewed > over)
    );
}

#[test]
fn where_there_is_no_watchdog_none_stands_still() {
    let fault = STALL.to_owned() + "for = \"300ms\"\n";
    missed(&under("token-lua", &sales(SHORT, &fault)));
}

// ---- cancel

const CANCEL: &str = "kind = \"cancel\"\n";

#[test]
fn an_acquire_that_is_cancelled_in_flight_is_granted_to_nobody() {
    let fault = CANCEL.to_owned() + "at = { point = \"before-acquire\", nth = 20 }\nagain = true";
    let ended = under("token-lua", &sales(SHORT, &fault));
    ended.exits(VIOLATED);
    landed(&ended, "done by 1 of 1 servers and dropped");
    let report = ended.report();
    let found: Vec<_> = report.violated().into_iter().collect();
    assert_eq!(found, ["orphan-key"], "{report:?}");
    // The record claims no more than the caller knows.
    let history = events(&ended);
    let unknown = history
        .iter()
        .find_map(|line| line["event"]["acquire_unknown"]["op"].as_u64());
    let unknown = unknown.expect("it is unknown");
    let gave_up = history.iter().map(|line| &line["event"]["gave_up"]);
    let mut cancelled = gave_up.filter(|gave_up| gave_up["why"] == "cancelled");
    assert_eq!(cancelled.next().expect("it gave up")["op"], unknown);
    assert_eq!(cancelled.next(), None);
    // Its connection goes on, and so does its worker.
    assert_eq!(report.doubts(), [""; 0], "{report:?}");
}

#[test]
fn what_is_cancelled_between_two_commands_stays_for_ever() {
    let fault = CANCEL.to_owned() + "at = { point = \"before-acquire\", nth = 20 }";
    let ended = under("setnx-expire-del", &sales(SHORT, &fault));
    ended.exits(VIOLATED);
    landed(&ended, "done by 1 of 1 servers and dropped");
    let left = events(&ended);
    let left = left.iter().map(|line| &line["event"]["key_at_end"]);
    let left: Vec<_> = left.filter(|left| left.is_object()).collect();
    assert_eq!(left.len(), 1, "the key is there");
    assert!(left[0]["pttl_ns"].is_null(), "and has no TTL");
}

#[test]
fn a_majority_that_is_cancelled_tidies_up_nothing() {
    let fault = CANCEL.to_owned() + "at = { point = \"before-acquire\", nth = 20 }";
    let ended = under("redlock", &sales(SHORT, &fault));
    ended.exits(VIOLATED);
    landed(&ended, "of 5 servers and dropped");
    assert!(ended.report().violated().contains("orphan-key"));
}

#[test]
fn a_renewal_that_is_cancelled_is_followed_by_the_next() {
    let fault = CANCEL.to_owned()
        + "which = \"renewal\"\nat = { when = \"granted\", nth = 1 }\nagain = true";
    let text = sales(LONG, &fault).replace("duration = \"3s\"", "duration = \"5s\"");
    let text = text.replace("give_up_after = \"300ms\"", "give_up_after = \"5s\"");
    let ended = under(
        "token-lua-watchdog",
        &text.replace("workers = 4", "workers = 2"),
    );
    held(&ended, "the renewal of worker");
    let history = events(&ended);
    let failed = when(&history, "renewal_failed");
    assert_eq!(failed.len(), 1);
    assert!(
        when(&history, "renewed")
            .iter()
            .any(|renewed| *renewed > failed[0])
    );
}

#[test]
fn who_asks_nobody_has_nothing_in_flight() {
    let fault = CANCEL.to_owned() + "at = { point = \"before-acquire\", nth = 20 }";
    missed(&under("none", &sales(SHORT, &fault)));
}

// ---- client-clock

const CLOCK: &str = "kind = \"client-clock\"\nat = { point = \"in-section\", nth = 1 }\n";

#[test]
fn a_clock_that_jumps_back_makes_a_watchdog_late() {
    let fault = CLOCK.to_owned() + "by = \"-3s\"";
    let ended = under("token-lua-watchdog", &sales(LONG, &fault));
    ended.exits(VIOLATED);
    landed(&ended, "a clock that is off by -3.000s");
    let report = ended.report();
    let causes: Vec<_> = report.causes_of("overlap").into_iter().collect();
    assert_eq!(causes, ["lease-expired"], "{report:?}");
}

#[test]
fn a_clock_that_jumps_forward_makes_a_watchdog_early_and_is_set_right_again() {
    let fault = CLOCK.to_owned() + "by = \"3s\"\nfor = \"500ms\"\nagain = true";
    let text = sales("constant = \"500ms\"", &fault);
    let ended = under("token-lua-watchdog", &text.replace("300ms\" }", "3s\" }"));
    held(&ended, "a clock that is off by +3.000s");
    let history = events(&ended);
    let (struck, over) = (
        when(&history, "fault_began")[0],
        when(&history, "fault_ended")[0],
    );
    let renewed = when(&history, "renewal_asked");
    // A watchdog is due a third of a lease after the grant, and this one was at once.
    assert!(renewed.iter().any(|asked| (struck..over).contains(asked)));
    assert!(over - struck >= 500_000_000);
}

#[test]
fn a_validity_on_a_clock_that_jumps_back_is_relied_on_for_too_long() {
    let heeding = LONG.to_owned() + ", heeds_lost_lease = true";
    let fault = CLOCK.to_owned() + "by = \"-3s\"";
    let with = under("redlock", &sales(&heeding, &fault));
    landed(&with, "a clock that is off by -3.000s");
    // Its first section writes after its lease has ended, beside another one; the other ones, whose
    // clocks are right, do not.
    let first = |ended: &Ended| {
        let history = events(ended);
        let wrote = history.iter().map(|line| &line["event"]["wrote"]);
        let of_first = wrote.filter(|wrote| wrote["op"] == first_worker(&history));
        of_first.map(|wrote| wrote["effect"].clone()).next()
    };
    let effect = first(&with).expect("it wrote");
    assert_eq!(effect["written"]["rows"], 1, "{effect}");
    let mere = fault.replace("-3s", "-1ms");
    let without = under("redlock", &sales(&heeding, &mere));
    assert_eq!(first(&without).expect("it came to its write"), "withheld");
}

/// The operation whose work began first.
fn first_worker(history: &[Value]) -> Value {
    let mut working = history.iter().map(|line| &line["event"]["working"]["op"]);
    working.find(|op| op.is_u64()).cloned().expect("one works")
}

#[test]
fn a_lock_that_reads_no_clock_is_not_struck_by_one() {
    let fault = CLOCK.to_owned() + "by = \"-3s\"";
    missed(&under("token-lua", &sales(SHORT, &fault)));
}

// ---- the scenarios that teach them

#[test]
fn the_scenarios_of_these_faults_show_what_they_say() {
    let started = [
        "cancel --lock fenced",
        "stall-watchdog --lock reentrant-watchdog",
        "client-clock --lock fair",
    ]
    .map(|words| oversold(&format!("run {words}")).start());
    for running in started {
        let ended = running.ends();
        ended.exits(PASS);
        assert_eq!(ended.report().doubts(), [""; 0]);
    }
}

// ---- what misses, and what is left

#[test]
fn what_strikes_a_dead_instance_proves_nothing() {
    let at = "at = { time = \"1s\", instance = 0 }\n";
    let mut faults = "kind = \"crash\"\nat = { time = \"200ms\", instance = 0 }\n".to_owned();
    for kind in ["block-executor", "stall-watchdog"] {
        faults += &format!("[[fault]]\nkind = \"{kind}\"\nfor = \"200ms\"\n{at}");
    }
    faults += &format!("[[fault]]\nkind = \"client-clock\"\nby = \"-3s\"\n{at}");
    let ended = under("token-lua-watchdog", &sales(SHORT, &faults));
    ended.exits(INCONCLUSIVE);
    let report = ended.report();
    let doubts = report.doubts();
    let unproven = doubts
        .iter()
        .filter(|doubt| doubt.contains("nothing proves"));
    assert_eq!(unproven.count(), 3, "{doubts:?}");
}

#[test]
fn no_server_outlives_a_driver_that_is_killed_while_an_instance_is_struck() {
    let at = "at = { point = \"in-section\", nth = 1 }\n";
    let mut faults = vec![format!(
        "kind = \"client-clock\"\nby = \"-3s\"\nfor = \"60s\"\n{at}"
    )];
    for kind in ["block-executor", "stall-watchdog"] {
        faults.push(format!("kind = \"{kind}\"\nfor = \"60s\"\n{at}"));
    }
    faults.push(format!("kind = \"cancel\"\nwhich = \"renewal\"\n{at}"));
    for fault in faults {
        let text = sales(SHORT, &fault);
        let words = "run - --lock token-lua-watchdog";
        let mut running = oversold(words).reading(&text).start();
        let mut servers = running.until_it_has_a_child();
        running.until_history_tells("fault_began");
        servers.extend(running.servers());
        running.signal(Signal::SIGKILL);
        for server in servers {
            server.is_gone_within(SOON);
        }
    }
}
