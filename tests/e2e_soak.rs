//! `oversold soak`: counts that are exact to the operation, latencies that leave nothing out, and an
//! end in order whatever happens to the server, the driver or the user's patience.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use support::{Ended, INCONCLUSIVE, Lock, PASS, Running, SIGINT, VIOLATED, oversold};

/// The exit code of a threshold that was crossed.
const THRESHOLD: i32 = 99;

/// A soak of one key, with more of it added.
fn one_key(load: &str, more: &str) -> String {
    format!(
        r#"
name = "one-key"
title = "a soak of one key"

[load]
{load}

[workload]
kind = "tally"
keys = 1

[section]
constant = "0ms"

[store]
kind = "memory"

[lock]
kind = "token-lua"
ttl = "10s"

[lock.wait]
retry_every = "1ms"
give_up_after = "20s"

{more}
"#
    )
}

fn soak(report: Lock<'_>) -> &Value {
    &report.trials()[0]["soak"]
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("not a number: {value}"))
}

fn percentile(latency: &Value, which: f64) -> Duration {
    let percentiles = latency["percentiles"].as_array().expect("a list");
    let found = percentiles.iter().find(|one| one["percentile"] == which);
    Duration::from_nanos(number(&found.expect("samples enough")["ns"]))
}

/// All ends together.
fn ended(outcomes: &Value) -> u64 {
    let outcomes = outcomes.as_object().expect("a table");
    let ends = outcomes
        .iter()
        .filter(|(name, _)| *name != "issued" && *name != "rows");
    ends.map(|(_, n)| number(n)).sum()
}

/// What was issued, what came of it, what was stored and what the history tells are one number.
#[track_caller]
fn counts_agree(report: Lock<'_>) {
    let (trial, outcomes) = (&report.trials()[0], &soak(report)["outcomes"]);
    assert_eq!(ended(outcomes), number(&outcomes["issued"]), "{outcomes}");
    assert_eq!(outcomes["issued"], trial["counts"]["operations"], "{trial}");
    assert_eq!(outcomes["rows"], trial["ledger"]["increments"], "{trial}");
    assert_eq!(
        outcomes["rows"], outcomes["completed"],
        "one increment each"
    );
}

/// A stored soak is judged and summed up as it was when it ran.
#[track_caller]
fn check_tells_the_same(run: &Ended) {
    let again = oversold("check").word(run.run_folder()).run();
    let (told, before) = (again.report(), run.report());
    assert_eq!(soak(told), soak(before));
    assert_eq!(told.trials()[0]["counts"], before.trials()[0]["counts"]);
}

#[test]
fn twenty_thousand_operations_are_twenty_thousand_in_ledger_history_and_summary() {
    let ended = oversold("soak -c 200 -n 20k --history full").run();
    ended.exits(PASS);
    let report = ended.report();
    assert_eq!(soak(report)["outcomes"]["issued"], 20_000);
    assert_eq!(soak(report)["outcomes"]["completed"], 20_000);
    counts_agree(report);
    check_tells_the_same(&ended);
    for part in [
        "Summary:",
        "Operations/sec:",
        "closed loop",
        "in this process",
        "replay    ",
    ] {
        assert!(
            ended.stdout.contains(part),
            "no {part} in\n{}",
            ended.stdout
        );
    }
    for file in ["latency.hgrm", "latency.hlog", "ledger.json", "junit.xml"] {
        assert!(ended.run_folder().join(file).is_file(), "{file}");
    }
}

#[test]
fn a_duration_bounds_a_soak_and_no_number_does_beside_it() {
    let ended = oversold("soak -c 20 -z 1s --keys 5 --section 0..1ms --warmup 300ms").run();
    ended.exits(PASS).within(Duration::from_secs(30));
    let report = ended.report();
    counts_agree(report);
    assert_eq!(report.trials()[0]["coverage"]["stop"], "duration_over");
    assert_eq!(soak(report)["keys"], 5);
    let measured = number(&soak(report)["acquire"]["count"]);
    let all = number(&report.trials()[0]["counts"]["granted"]);
    assert!(
        0 < measured && measured < all,
        "the warm-up is left out: {measured} of {all}"
    );
}

#[test]
fn planned_starts_are_all_begun_and_an_offline_check_gives_the_same_figures() {
    let ended = oversold("soak -c 50 --keys 2 --section 0..2ms --history full --stages")
        .word("200/s for 1s, 200/s to 600/s over 1s")
        .run();
    ended.exits_with_one_of(&[PASS, INCONCLUSIVE]);
    let report = ended.report();
    counts_agree(report);
    let starts = &soak(report)["starts"];
    assert_eq!(
        number(&starts["due"]),
        number(&soak(report)["outcomes"]["issued"]) + number(&starts["never"])
    );
    assert_eq!(starts["due"], 600, "{starts}");
    assert!(
        ended.stdout.contains("open loop: 200/s for 1s"),
        "{}",
        ended.stdout
    );
    check_tells_the_same(&ended);
}

#[test]
fn a_server_that_stands_still_shows_in_corrected_latency_and_not_in_service_time() {
    let load = "workers = 5\nrate = \"300/s\"\nduration = \"4s\"";
    let stall = "[[fault]]\nkind = \"stop-server\"\nat = { time = \"1s\" }\nfor = \"2s\"\n";
    let ended = oversold("soak -").reading(&one_key(load, stall)).run();
    ended.exits_with_one_of(&[PASS, INCONCLUSIVE]);
    let report = ended.report();
    counts_agree(report);
    let soak = soak(report);
    let corrected = percentile(&soak["acquire"], 75.0);
    let service = percentile(&soak["acquire_service"], 75.0);
    assert!(
        corrected > Duration::from_millis(500),
        "{corrected:?}, {service:?}"
    );
    assert!(
        corrected > service * 5,
        "{corrected:?} is hidden from {service:?}"
    );
    let outage = &soak["silence"]["outages"][0];
    assert!(number(&outage["for_ns"]) > 1_500_000_000, "{outage}");
    let warnings = soak["warnings"].as_array().expect("a list");
    assert!(
        warnings
            .iter()
            .any(|told| told.to_string().contains("outage")),
        "{warnings:?}"
    );
}

#[test]
fn a_server_that_restarts_is_an_outage_and_the_soak_goes_on() {
    let load = "workers = 20\nduration = \"3s\"";
    let restart =
        "[[fault]]\nkind = \"restart\"\ndata = \"kept\"\nat = { time = \"1s\" }\nfor = \"700ms\"\n";
    let ended = oversold("soak -").reading(&one_key(load, restart)).run();
    ended.exits(PASS).within(Duration::from_secs(40));
    let report = ended.report();
    counts_agree(report);
    let silence = &soak(report)["silence"];
    assert!(number(&silence["outages"][0]["errors"]) > 0, "{silence}");
    assert!(ended.stdout.contains("Outages"), "{}", ended.stdout);
}

#[test]
fn a_server_that_dies_ends_the_soak_in_time_and_nobody_calls_that_a_pass() {
    let mut running = oversold("soak -c 20 -z 60s --history full").start();
    running.until_history_tells("entered");
    let [server] = running.servers().try_into().expect("one server");
    server.signal(Signal::SIGKILL);
    let ended = running.ends();
    ended.exits(INCONCLUSIVE).within(Duration::from_secs(40));
    counts_agree(ended.report());
    assert_eq!(
        ended.report().trials()[0]["coverage"]["stop"],
        "server_died"
    );
}

#[test]
fn a_store_that_dies_with_its_server_leaves_a_report_without_a_ledger() {
    let mut running = oversold("soak -c 20 -z 60s --store redis --history full").start();
    running.until_history_tells("entered");
    let [server] = running.servers().try_into().expect("one server");
    server.signal(Signal::SIGKILL);
    let ended = running.ends();
    ended.exits(INCONCLUSIVE).within(Duration::from_secs(60));
    let report = ended.report();
    assert_eq!(report.business_verdict(), "inconclusive");
    let trial = &report.trials()[0];
    assert!(trial["ledger_unknown"].is_string(), "{trial}");
    assert!(number(&soak(report)["outcomes"]["issued"]) > 0);
    assert!(
        ended.stdout.contains("an unknown number in the ledger"),
        "{}",
        ended.stdout
    );
    assert!(ended.run_folder().join("report.json").is_file());
}

#[test]
fn a_server_that_stays_away_ends_the_soak_in_time() {
    let load = "workers = 20\nduration = \"60s\"";
    let kill = "[[fault]]\nkind = \"kill-server\"\nat = { time = \"500ms\" }\n";
    let ended = oversold("soak - --max-outage 1s")
        .reading(&one_key(load, kill))
        .run();
    ended.exits(INCONCLUSIVE).within(Duration::from_secs(40));
    let report = ended.report();
    counts_agree(report);
    assert_eq!(report.trials()[0]["coverage"]["stop"], "silence");
    assert!(number(&soak(report)["silence"]["count"]) > 0);
}

#[test]
fn an_interruption_at_any_moment_leaves_a_complete_report() {
    for (turn, wait) in [0, 70, 230].into_iter().enumerate() {
        let mut running = oversold("soak -c 50 -z 60s --history full --seed")
            .word(turn.to_string())
            .start();
        running.until_history_tells("entered");
        std::thread::sleep(Duration::from_millis(wait));
        running.signal(Signal::SIGINT);
        let ended = running.ends();
        ended.exits(SIGINT).within(Duration::from_secs(40));
        let report = ended.report();
        counts_agree(report);
        assert_eq!(report.word("interrupted"), "SIGINT");
        assert_eq!(report.0["partial"], false);
        assert_eq!(report.lock_verdict(), "inconclusive");
        let stored = json(&ended.run_folder().join("report.json"));
        assert_eq!(stored["interrupted"], "SIGINT");
    }
}

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|why| panic!("{path:?}: {why}"));
    serde_json::from_str(&text).unwrap_or_else(|why| panic!("{path:?}: {why}"))
}

fn wait_for(what: &str, mut look: impl FnMut() -> bool) {
    let began = Instant::now();
    while !look() {
        assert!(began.elapsed() < Duration::from_secs(60), "still no {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The folder of a soak that runs.
fn folder_of(running: &mut Running) -> PathBuf {
    let history = running.until_history_tells("entered");
    history.parent().expect("a folder").to_owned()
}

#[test]
fn a_rolling_report_survives_a_kill() {
    let mut running = oversold("soak -c 20 -z 60s --history full --rolling-report 200ms").start();
    let folder = folder_of(&mut running);
    wait_for("report", || folder.join("report.json").is_file());
    running.signal(Signal::SIGKILL);
    let _ = running.child.wait();
    let report = json(&folder.join("report.json"));
    assert_eq!(report["partial"], true);
    assert_eq!(report["lock_verdict"], "inconclusive");
    assert!(number(&report["trials"][0]["soak"]["outcomes"]["issued"]) > 0);
    assert!(folder.join("junit.xml").is_file());
}

#[test]
fn figures_are_served_while_it_runs_and_a_signal_asks_for_a_status() {
    let mut running = oversold("soak -c 20 -z 60s --history full --metrics 127.0.0.1:0").start();
    running.until_it_says("metrics at http://");
    let said = running.said();
    let (_, at) = said.split_once("metrics at http://").expect("an address");
    let address = at.split('/').next().expect("an address").to_owned();
    running.until_history_tells("entered");
    // Clients who say nothing hold up nobody.
    let _silent = [(); 3].map(|()| TcpStream::connect(&address).expect("a connection"));
    let began = Instant::now();
    asked(&address, "GET /metrics");
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );
    wait_for("completed operations", || {
        let text = asked(&address, "GET /metrics");
        let line = text
            .lines()
            .find(|line| line.starts_with("oversold_operations_total{outcome=\"completed\"}"));
        line.is_some_and(|line| !line.ends_with(" 0"))
    });
    let text = asked(&address, "GET /metrics");
    assert!(
        text.contains("application/openmetrics-text; version=1.0.0"),
        "{text}"
    );
    assert!(
        text.contains("oversold_acquire_seconds_bucket{le=\"+Inf\"}"),
        "{text}"
    );
    assert!(text.ends_with("# EOF\n"), "{text}");
    assert!(asked(&address, "GET /other").starts_with("HTTP/1.1 404"));
    assert!(asked(&address, "POST /metrics").starts_with("HTTP/1.1 405"));
    running.signal(Signal::SIGUSR1);
    running.until_it_says(" wait, ");
    running.signal(Signal::SIGINT);
    running.ends().exits(SIGINT);
}

fn asked(address: &str, what: &str) -> String {
    let mut asking = TcpStream::connect(address).expect("a connection");
    write!(asking, "{what} HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("a question");
    let mut answer = String::new();
    asking.read_to_string(&mut answer).expect("an answer");
    answer
}

#[test]
fn a_threshold_that_is_crossed_is_an_exit_of_its_own_and_one_without_samples_no_pass() {
    let crossed = oversold("soak -c 20 -n 2k --threshold")
        .word("acquire p(99) < 1us")
        .run();
    crossed.exits(THRESHOLD);
    assert_eq!(crossed.report().0["thresholds"], "fail");
    let held = oversold("soak -c 20 -n 2k --threshold")
        .word("errors < 1%")
        .run();
    held.exits(PASS);
    // This business has no stock.
    let unknown = oversold("soak -c 20 -n 2k --threshold")
        .word("oversold == 0")
        .run();
    unknown.exits(INCONCLUSIVE);
    assert!(
        unknown.stdout.contains("too few samples"),
        "{}",
        unknown.stdout
    );
}

#[test]
fn a_threshold_may_end_a_soak() {
    let ended = oversold("soak -c 20 -z 60s --abort-on-fail --threshold")
        .word("acquire max < 1us")
        .run();
    ended.exits(THRESHOLD).within(Duration::from_secs(40));
    assert_eq!(ended.report().trials()[0]["coverage"]["stop"], "threshold");
}

#[test]
fn violations_are_told_when_they_happen_and_enough_of_them_end_a_soak_whatever_its_thresholds() {
    let load = "workers = 20\nduration = \"60s\"";
    let thresholds = "[[thresholds]]\nthreshold = \"acquire max < 1ns\"\n";
    let scenario = one_key(load, thresholds).replace("\"0ms\"", "\"2ms\"");
    let ended = oversold("soak - --lock none --max-violations 50")
        .reading(&scenario)
        .run();
    ended.exits(VIOLATED).within(Duration::from_secs(40));
    assert_eq!(ended.report().trials()[0]["coverage"]["stop"], "violations");
    assert_eq!(ended.report().0["thresholds"], "fail");
    let told = ended.stderr.matches("violation at ").count();
    assert_eq!(told, 10, "{}", ended.stderr);
    assert!(ended.stderr.contains("more violations"), "{}", ended.stderr);
    counts_agree(ended.report());
}
