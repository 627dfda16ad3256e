//! The faults that strike a server: each lands and leaves its proof, is over when it is over, and
//! proves nothing where it misses; and none of them leaves a process behind.

mod support;

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use support::told::events;
use support::{ENVIRONMENT, Ended, INCONCLUSIVE, PASS, VIOLATED, files_named, oversold, package};

/// How long a server may outlive its driver.
const SOON: Duration = Duration::from_secs(2);

/// Short sales for three seconds, with some faults.
fn sales(faults: &str) -> String {
    format!(
        r#"
name = "struck"
load = {{ instances = 4, workers = 8, duration = "3s" }}
workload = {{ kind = "flash-sale", stock = 100000 }}
section = {{ constant = "60ms" }}
lock = {{ kind = "token-lua", ttl = "2s", wait = {{ retry_every = "20ms", give_up_after = "60s" }} }}
{faults}"#
    )
}

fn fault(kind: &str, rest: &str) -> String {
    format!("[[fault]]\nkind = \"{kind}\"\nat = {{ point = \"in-section\", nth = 5 }}\n{rest}\n")
}

/// Runs sales with one fault.
fn struck(kind: &str, rest: &str) -> Ended {
    let text = sales(&fault(kind, rest));
    oversold("run - --expect pass").reading(&text).run()
}

/// The proof that a fault landed.
fn proof(ended: &Ended, fault: usize) -> &str {
    let covered = &ended.report().trials()[0]["coverage"]["faults"][fault];
    let proof = covered["proof"].as_str();
    proof.unwrap_or_else(|| panic!("no proof: {covered}\n{}", ended.stdout))
}

/// What happened of one kind, in order, with its place in the history.
fn told<'a>(history: &'a [Value], kind: &str) -> Vec<(usize, &'a Value)> {
    let events = history.iter().map(|line| &line["event"]).enumerate();
    events
        .filter_map(|(place, event)| Some((place, event.get(kind)?)))
        .collect()
}

/// The lock was taken again after the fault was over.
fn taken_again(ended: &Ended) {
    let history = events(ended);
    let (over, _) = told(&history, "fault_ended")[0];
    let granted = told(&history, "granted");
    assert!(granted.iter().any(|(place, _)| *place > over));
}

/// No two sections at once, and no doubt.
fn held(ended: &Ended) {
    ended.exits(PASS);
    let report = ended.report();
    assert_eq!(report.doubts(), [""; 0], "{report:?}");
}

/// Two sections at once at most, and by this cause alone.
fn broke_only_by(ended: &Ended, cause: &str) {
    ended.exits_with_one_of(&[PASS, VIOLATED]);
    let report = ended.report();
    assert_eq!(report.doubts(), [""; 0], "{report:?}");
    let causes = report.causes_of("overlap");
    assert!(causes.iter().all(|found| *found == cause), "{report:?}");
}

// They land, and are over.

#[test]
fn a_restart_with_its_data_keeps_the_lock() {
    let ended = struck("restart", "data = \"kept\"\nfor = \"200ms\"");
    held(&ended);
    let proof = proof(&ended, 0);
    assert!(
        proof.contains("with its data") && proof.contains("run_id"),
        "{proof}"
    );
    let history = events(&ended);
    assert_eq!(
        told(&history, "restarted")[0].1["lost"],
        Value::Array(vec![])
    );
    taken_again(&ended);
}

#[test]
fn a_restart_without_its_data_loses_the_lock() {
    let ended = struck("restart", "data = \"lost\"");
    broke_only_by(&ended, "server-lost-data");
    let proof = proof(&ended, 0);
    assert!(
        proof.contains("EXISTS stock:lock:sku_10086 became 0"),
        "{proof}"
    );
    let history = events(&ended);
    assert_eq!(told(&history, "restarted")[0].1["lost"][0], 0);
    taken_again(&ended);
}

#[test]
fn a_replica_that_restarts_without_its_data_is_told_it_again() {
    let group = "[topology]\nkind = \"sentinel\"\nreplicas = 1\n";
    let text = sales(&(fault("restart", "node = 1\ndata = \"lost\"") + group));
    let ended = oversold("run - --expect pass").reading(&text).run();
    held(&ended);
    let proof = proof(&ended, 0);
    assert!(proof.contains("its primary tells it again"), "{proof}");
}

#[test]
fn a_server_that_stands_still_goes_on() {
    let ended = struck("stop-server", "for = \"500ms\"");
    held(&ended);
    assert!(proof(&ended, 0).contains("answered a PING after"));
    taken_again(&ended);
}

#[test]
fn a_killed_server_stays_away_and_nobody_gets_in() {
    let ended = struck("kill-server", "");
    ended.exits(PASS);
    assert!(proof(&ended, 0).contains("refuses connections"));
    let history = events(&ended);
    let (over, _) = told(&history, "fault_ended")[0];
    let granted = told(&history, "granted");
    assert!(granted.iter().all(|(place, _)| *place < over));
    assert_eq!(told(&history, "server_died"), []);
}

#[test]
fn a_clock_that_jumps_forward_ends_the_lease() {
    let ended = struck("clock-jump", "by = \"3s\"");
    broke_only_by(&ended, "server-clock");
    assert!(proof(&ended, 0).contains("+3.00"), "{}", proof(&ended, 0));
    let history = events(&ended);
    assert_eq!(told(&history, "clock_jumped")[0].1["lost"][0], 0);
    taken_again(&ended);
}

#[test]
fn a_clock_that_jumps_back_ends_no_lease() {
    let ended = struck("clock-jump", "by = \"-3s\"");
    held(&ended);
    assert!(proof(&ended, 0).contains("-3.00"), "{}", proof(&ended, 0));
    taken_again(&ended);
}

#[test]
fn a_server_that_forgets_its_scripts_learns_them_again() {
    let ended = struck("script-flush", "");
    held(&ended);
    assert!(proof(&ended, 0).contains("SCRIPT FLUSH"));
    taken_again(&ended);
}

#[test]
fn a_server_that_keeps_its_clients_waiting_goes_on() {
    let ended = struck("client-pause", "for = \"500ms\"");
    held(&ended);
    assert!(proof(&ended, 0).contains("answered a PING after"));
    taken_again(&ended);
}

#[test]
fn clients_whose_connections_are_closed_come_back() {
    let ended = struck("client-kill", "");
    held(&ended);
    assert!(proof(&ended, 0).contains("closed"));
    taken_again(&ended);
}

#[test]
fn an_evicted_lock_is_granted_again() {
    let ended = struck("evict", "");
    broke_only_by(&ended, "evicted");
    assert!(
        proof(&ended, 0).contains("became 0"),
        "{}",
        proof(&ended, 0)
    );
    taken_again(&ended);
}

/// Writes are refused for a while, with this error, and then the lock is taken again.
fn refuses(kind: &str, error: &str) {
    let ended = struck(kind, "for = \"300ms\"\nagain = true");
    held(&ended);
    let proof = proof(&ended, 0).to_uppercase();
    assert!(
        proof.contains("A WRITE WITH") && proof.contains(error),
        "{proof}"
    );
    let history = events(&ended);
    assert!(!told(&history, "acquire_failed").is_empty());
    taken_again(&ended);
}

#[test]
fn a_server_that_takes_itself_for_a_replica_is_a_primary_again() {
    refuses("read-only", "READONLY");
}

#[test]
fn a_server_that_cannot_save_is_able_to_again() {
    refuses("disk-full", "MISCONF");
}

#[test]
fn a_server_without_memory_has_some_again() {
    refuses("no-memory", "OOM");
}

#[test]
fn a_server_that_is_busy_with_one_command_goes_on() {
    let ended = struck("debug-sleep", "for = \"500ms\"\nagain = true");
    held(&ended);
    assert!(proof(&ended, 0).contains("answered a PING after"));
    taken_again(&ended);
}

/// Two trials of each lock on a majority.
fn on_a_majority(scenario: &str, how: &str, cause: &str) {
    let words = format!("compare scenarios/{scenario}.toml --trials 2");
    let ended = oversold(&words).run();
    ended.exits(PASS);
    for report in ended.all() {
        assert_eq!(report.doubts(), [""; 0], "{report:?}");
        let causes: Vec<_> = report.causes_of("overlap").into_iter().collect();
        assert_eq!(causes, [cause], "{report:?}");
        for trial in report.trials() {
            let proof = trial["coverage"]["faults"][0]["proof"].as_str();
            let proof = proof.expect("a proof");
            assert!(proof.contains("held by just 3 of 5 nodes"), "{proof}");
            assert!(proof.contains(how) && proof.contains("are back"), "{proof}");
        }
    }
}

#[test]
fn a_grant_on_just_a_majority_is_lost_with_the_data_of_one_node() {
    on_a_majority(
        "quorum-restart",
        "it restarted without its data",
        "server-lost-data",
    );
}

#[test]
fn a_grant_on_just_a_majority_is_lost_by_the_clock_of_one_node() {
    on_a_majority("quorum-clock", "its clock jumped", "server-clock");
}

// They miss.

/// Every fault that strikes one server.
const ALONE: [(&str, &str); 14] = [
    ("restart", "data = \"kept\""),
    ("restart", "data = \"lost\""),
    ("kill-server", ""),
    ("stop-server", "for = \"200ms\""),
    ("clock-jump", "by = \"3s\""),
    ("clock-jump", "by = \"-3s\""),
    ("script-flush", ""),
    ("client-pause", "for = \"200ms\""),
    ("client-kill", ""),
    ("evict", ""),
    ("read-only", "for = \"200ms\""),
    ("disk-full", "for = \"200ms\""),
    ("no-memory", "for = \"200ms\""),
    ("debug-sleep", "for = \"200ms\""),
];

fn at(time: &str, kind: &str, rest: &str) -> String {
    format!("[[fault]]\nkind = \"{kind}\"\nat = {{ time = \"{time}\" }}\n{rest}\n")
}

/// Nothing proves these faults, and only these.
fn unproven(ended: &Ended, unproven: usize) {
    ended.exits(INCONCLUSIVE);
    let report = ended.report();
    let doubts = report.doubts();
    let of = doubts
        .iter()
        .filter(|doubt| doubt.contains("nothing proves that it landed"));
    assert_eq!(of.count(), unproven, "{report:?}");
}

#[test]
fn what_strikes_a_dead_server_proves_nothing() {
    let mut faults = at("500ms", "kill-server", "");
    for (kind, rest) in ALONE {
        faults += &at("1s", kind, rest);
    }
    let ended = oversold("run - --expect pass")
        .reading(&sales(&faults))
        .run();
    unproven(&ended, ALONE.len());
    assert!(proof(&ended, 0).contains("refuses connections"));
}

#[test]
fn what_strikes_a_server_without_what_it_would_lose_proves_nothing() {
    // One customer, who is done before, and whose lock knows no script.
    let faults = at("1s", "restart", "data = \"lost\"") + &at("2s", "script-flush", "");
    let text = sales(&(faults + &at("2s", "evict", "")));
    let text = text.replace(
        "instances = 4, workers = 8",
        "instances = 1, workers = 1, think = \"9s\"",
    );
    let ended = oversold("run - --expect pass --lock set-nx-ex-del")
        .reading(&text)
        .run();
    unproven(&ended, 3);
}

#[test]
fn a_grant_that_rests_on_more_than_a_clock_can_take_proves_nothing() {
    let file = package("scenarios/quorum-clock.toml");
    let text = std::fs::read_to_string(file).expect("the scenario");
    // Less than a lease.
    let text = text.replace("by = \"90s\"", "by = \"9s\"");
    let ended = oversold("run - --expect pass").reading(&text).run();
    unproven(&ended, 1);
}

#[test]
fn nobody_is_granted_a_lock_when_a_third_node_is_down() {
    let quorum = "[topology]\nkind = \"quorum\"\n";
    let faults = at("100ms", "kill-server", "node = 1") + &fault("quorum-restart", "");
    let text = sales(&(faults + quorum));
    let ended = oversold("run - --expect pass --lock redlock")
        .reading(&text)
        .run();
    unproven(&ended, 1);
}

#[test]
fn a_clock_cannot_jump_where_nothing_can_be_compiled() {
    let text = sales(&fault("clock-jump", "by = \"3s\""));
    let ended = oversold("run -")
        .reading(&text)
        .variable("CC", "/nowhere/cc")
        .run();
    ended.exits(ENVIRONMENT);
    assert!(
        ended.stderr.contains("install a C compiler"),
        "{}",
        ended.stderr
    );
}

#[test]
fn what_is_missing_for_one_of_several_is_told_before_anything_runs() {
    let words = "matrix --scenarios calm,clock-jump --locks token-lua";
    let ended = oversold(words).variable("CC", "/nowhere/cc").run();
    ended.exits(ENVIRONMENT);
    assert!(files_named("plan.json", &ended.reports).is_empty());
}

// The driver dies.

#[test]
fn no_server_outlives_a_driver_that_is_killed_while_it_is_struck() {
    let long = |rest: &str| rest.replace("200ms", "60s");
    let mut texts: Vec<_> = ALONE
        .iter()
        .map(|(kind, rest)| sales(&fault(kind, &long(rest))))
        .collect();
    texts.push(sales(&fault("restart", "data = \"lost\"\nfor = \"60s\"")));
    for scenario in ["quorum-restart", "quorum-clock"] {
        let file = package(&format!("scenarios/{scenario}.toml"));
        texts.push(std::fs::read_to_string(file).expect("the scenario"));
    }
    for text in texts {
        let mut running = oversold("run -").reading(&text).start();
        let mut servers = running.until_it_has_a_child();
        running.until_history_tells("fault_began");
        servers.extend(running.servers());
        running.signal(Signal::SIGKILL);
        for server in servers {
            server.is_gone_within(SOON);
        }
    }
}
