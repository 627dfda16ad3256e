//! Large loads: many workers, many instances, a freeze among many. They start, they stop, nobody
//! is left over, and the lock is judged for what it did and not for the driver's breath.

mod support;

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use support::{Ended, INCONCLUSIVE, Lock, PASS, oversold, told};

/// A load of that many workers in that many instances, each of whom asks now and then.
fn load(instances: u32, workers: u32, duration: &str, think: &str, more: &str) -> String {
    format!(
        r#"
name = "load"
title = "{workers} workers in {instances} instances"

[load]
instances = {instances}
workers = {workers}
duration = "{duration}"
think = {{ uniform = {think} }}

[workload]
kind = "flash-sale"
stock = 1000000

[section]
uniform = ["1ms", "2ms"]

[lock]
kind = "token-lua"
ttl = "3s"
{more}
"#
    )
}

/// It came to its own end, and nothing but the machine's breath may cast doubt on it.
#[track_caller]
fn ends_cleanly(ended: &Ended) -> Lock<'_> {
    ended.exits_with_one_of(&[PASS, INCONCLUSIVE]);
    let report = ended.report();
    assert!(report.violated().is_empty(), "{report:?}");
    let others: Vec<_> = (report.doubts().into_iter())
        .filter(|doubt| !doubt.starts_with("the driver was late"))
        .collect();
    assert_eq!(others, [] as [&str; 0], "{report:?}");
    report
}

fn operations(report: Lock<'_>) -> u64 {
    report.trials()[0]["counts"]["operations"]
        .as_u64()
        .expect("a number")
}

#[test]
fn ten_thousand_workers_in_five_hundred_instances_start_and_stop() {
    let scenario = load(500, 10_000, "4s", r#"["2s", "6s"]"#, "");
    let ended = oversold("run -").reading(&scenario).run();
    let report = ends_cleanly(&ended);
    assert!(
        operations(report) >= 10_000,
        "everybody asked at least once"
    );
    ended.within(Duration::from_secs(40));
    // Of all children so far the one that took the most, the driver or its server.
    let used = getrusage(UsageWho::RUSAGE_CHILDREN).expect("it can be asked");
    let mib = used.max_rss() / 1024;
    assert!(mib < 1024, "{mib} MiB");
}

#[test]
fn a_thousand_instances_are_frozen_and_thawed_at_once() {
    let freezes = (0..1000).map(|instance| {
        format!(
            "[[fault]]\nkind = \"freeze\"\nat = {{ time = \"2s\", instance = {instance} }}\nfor = \"1s\"\n"
        )
    });
    let more = format!(
        "[lock.wait]\nretry_every = \"200ms\"\ngive_up_after = \"10s\"\n{}",
        freezes.collect::<String>()
    );
    let scenario = load(1000, 1000, "5s", r#"["300ms", "600ms"]"#, &more);
    let ended = oversold("run -").reading(&scenario).run();
    let report = ends_cleanly(&ended);
    ended.within(Duration::from_secs(40));
    let trial = &report.trials()[0];
    let faults = trial["coverage"]["faults"].as_array().expect("a list");
    assert_eq!(faults.len(), 1000);
    for fault in faults {
        assert!(fault["proof"].is_string(), "it did not land: {fault}");
    }
    // Nobody moved in between, and they did afterwards.
    let told = told::history(&ended);
    let frozen = told.iter().rposition(|event| event.what == "frozen");
    let thawed = told.iter().position(|event| event.what == "thawed");
    let (frozen, thawed) = (frozen.expect("frozen"), thawed.expect("thawed"));
    assert!(frozen < thawed, "all of them stood still for a while");
    for moves in ["asked", "entered"] {
        assert_eq!(told::count(&told[frozen..thawed], moves), 0, "{moves}");
        assert!(told::count(&told[thawed..], moves) > 0, "{moves}");
    }
}

#[test]
fn two_hundred_instances_of_one_worker_share_one_lock() {
    let wait = "[lock.wait]\nretry_every = \"200ms\"\ngive_up_after = \"10s\"";
    let scenario = load(200, 200, "2s", r#"["200ms", "600ms"]"#, wait);
    let ended = oversold("run -").reading(&scenario).run();
    let report = ends_cleanly(&ended);
    assert!(operations(report) >= 200);
}

#[test]
fn one_freeze_among_a_thousand_workers_strikes_one_instance_and_lands() {
    let freeze = r#"
[[fault]]
kind = "freeze"
at = { time = "500ms", instance = 7 }
for = "1s"
"#;
    let scenario = load(100, 1_000, "3s", r#"["500ms", "1s"]"#, freeze);
    let ended = oversold("run -").reading(&scenario).run();
    let report = ends_cleanly(&ended);
    let fault = &report.trials()[0]["coverage"]["faults"][0];
    assert_eq!(fault["struck"], 1);
    let proof = fault["proof"].as_str().expect("it landed");
    assert!(proof.starts_with("instance 7 "), "{proof}");
}

#[test]
fn more_workers_than_files_may_be_open_are_refused_before_anything_starts() {
    let scenario = load(1, 500, "1s", r#"["1s", "2s"]"#, "");
    let ended = oversold("run -")
        .reading(&scenario)
        .with_open_files(300)
        .run();
    ended.exits(support::ENVIRONMENT);
    assert!(ended.stderr.contains("ulimit -Hn"), "{}", ended.stderr);
}

#[test]
fn a_low_soft_limit_of_open_files_is_raised() {
    let scenario = load(10, 500, "1s", r#"["200ms", "400ms"]"#, "");
    let ended = oversold("run -")
        .reading(&scenario)
        .with_soft_open_files(128)
        .run();
    ends_cleanly(&ended);
}
