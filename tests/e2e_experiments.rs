//! The experiments, and what they are about: how the probability of a violation moves with the TTL
//! and with the rate, what a coarse lock costs, a lock for each unit, and how long nobody leads.

mod support;

use nix::sys::signal::Signal;
use serde_json::Value;
use support::{Ended, INCONCLUSIVE, PASS, SIGINT, USAGE, VIOLATED, oversold};

/// The violated share of a row.
#[derive(Debug)]
struct Share {
    count: u64,
    of: u64,
    low: f64,
    high: f64,
}

impl Share {
    fn estimate(&self) -> f64 {
        self.count as f64 / self.of as f64
    }
}

fn rows(ended: &Ended) -> &Vec<Value> {
    ended.document()["rows"].as_array().expect("rows")
}

fn shares(ended: &Ended) -> Vec<Share> {
    let number = |value: &Value| value.as_f64().expect("a number");
    let share = |row: &Value| {
        let violated = &row["violated"];
        Share {
            count: violated["count"].as_u64().expect("a count"),
            of: violated["of"].as_u64().expect("a count"),
            low: number(&violated["low"]),
            high: number(&violated["high"]),
        }
    };
    rows(ended).iter().map(share).collect()
}

/// All but the name of the folder, which is the test's own.
#[track_caller]
fn fits_a_terminal(ended: &Ended) {
    let lines = ended.stdout.lines();
    for line in lines.filter(|line| !line.starts_with("files")) {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

/// How many trials of each row were left out. Only where the driver itself was late, on a machine
/// that does other things too, may one be.
#[track_caller]
fn left_out_for_the_driver(ended: &Ended) -> Vec<u64> {
    ended.exits_with_one_of(&[PASS, INCONCLUSIVE]);
    let trials = rows(ended).iter().flat_map(|row| row["trials"].as_array());
    for doubt in trials
        .flatten()
        .flat_map(|trial| trial["doubts"].as_array())
        .flatten()
    {
        let doubt = doubt.as_str().expect("a text");
        assert!(doubt.contains("driver"), "{doubt}");
    }
    let unsure = rows(ended).iter().map(|row| row["unsure"].as_u64());
    let unsure: Vec<u64> = unsure.map(|n| n.expect("a number")).collect();
    let expected = match unsure.iter().sum() {
        0 => PASS,
        _ => INCONCLUSIVE,
    };
    ended.exits(expected);
    unsure
}

#[track_caller]
fn is_valid_by_the_published_schema(ended: &Ended) {
    let schema = std::fs::read_to_string(support::package("docs/report.schema.json"));
    let schema: Value = serde_json::from_str(&schema.expect("it is there")).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let wrong: Vec<_> = validator.iter_errors(ended.document()).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn a_longer_ttl_only_lowers_the_probability_of_a_violation() {
    let ended =
        oversold("ttl-sweep --multiples 0.5,1.5,5 --trials 8 --time-scale 0.1 --jobs 6").run();
    let unsure = left_out_for_the_driver(&ended);
    let shares = shares(&ended);
    assert_eq!(shares.len(), 3);
    for (at, earlier) in shares.iter().enumerate() {
        assert!(
            earlier.of >= 6 && earlier.of + unsure[at] == 8,
            "{shares:?}"
        );
        let rises = |later: &Share| later.low > earlier.high;
        assert!(!shares[at..].iter().any(rises), "{shares:?}");
    }
    assert!(shares[2].estimate() < shares[0].estimate(), "{shares:?}");
    let said = &ended.stdout;
    assert!(
        said.contains("A longer TTL only lowers the probability"),
        "{said}"
    );
    assert!(said.contains("was not put to the test"), "{said}");
    fits_a_terminal(&ended);
    is_valid_by_the_published_schema(&ended);
}

#[test]
fn the_same_code_breaks_seldom_on_a_quiet_day_and_nearly_always_at_the_peak() {
    let ended = oversold("rate-sweep --rates 300,2600 --trials 6 --jobs 8").run();
    ended.exits(PASS);
    let [quiet, peak] = shares(&ended).try_into().expect("two rates");
    assert!(
        quiet.estimate() + 0.3 < peak.estimate(),
        "{quiet:?} {peak:?}"
    );
    let said = &ended.stdout;
    assert!(
        said.contains("the rate alone raises the probability"),
        "{said}"
    );
    fits_a_terminal(&ended);
    is_valid_by_the_published_schema(&ended);
    // The rate is a nominal one, and what was measured stands beside it.
    let measured = |row: usize| {
        let rate = &rows(&ended)[row]["trials"][0]["arrivals_per_second"];
        rate.as_f64().expect("a number")
    };
    assert!(
        measured(0) < 400.0 && measured(1) > 2.0 * measured(0),
        "{said}"
    );
}

#[test]
fn an_interrupted_sweep_prints_what_was_done() {
    let mut sweep = oversold("ttl-sweep --multiples 0.5,5 --trials 1000 --history full").start();
    sweep.until_history_tells("ended");
    sweep.signal(Signal::SIGINT);
    let ended = sweep.ends();
    ended.exits(SIGINT);
    assert!(ended.stdout.contains("Interrupted"), "{}", ended.stdout);
    assert_eq!(rows(&ended).len(), 2);
    // Only trials that came to their own end are counted.
    for row in rows(&ended) {
        for trial in row["trials"].as_array().expect("trials") {
            assert_eq!(trial["coverage"]["stop"], "nothing_left");
        }
    }
}

#[test]
fn a_finer_lock_lets_more_through_and_holds_all_the_same() {
    let ended = oversold("granularity --trials 1 -z 6s").run();
    ended.exits(PASS);
    let sections: Vec<f64> = (rows(&ended).iter())
        .map(|row| &row["trials"][0]["operations_per_second"])
        .map(|rate| rate.as_f64().expect("a number"))
        .collect();
    let [all, sku, unit] = sections.try_into().expect("three granularities");
    assert!(sku > 2.0 * all && unit > 2.0 * all, "{all} {sku} {unit}");
    let said = &ended.stdout;
    assert!(said.contains("lets in one at a time"), "{said}");
    assert!(
        said.contains("times as many with one for each unit"),
        "{said}"
    );
    fits_a_terminal(&ended);
    is_valid_by_the_published_schema(&ended);
}

#[test]
fn the_throughput_of_a_lock_that_does_not_hold_is_worth_nothing() {
    let ended = oversold("granularity --locks none --trials 1 -z 3s").run();
    ended.exits(VIOLATED);
    let said = &ended.stdout;
    assert!(
        said.contains("A lock that did not hold has no throughput"),
        "{said}"
    );
}

#[test]
fn granularity_is_about_a_flash_sale() {
    let ended = oversold("granularity scenarios/reconcile-twice.toml").run();
    ended.exits(USAGE);
    assert!(ended.stderr.contains("flash-sale"), "{}", ended.stderr);
}

/// Two SKUs with ten units each, a lock for each unit.
fn units(lock: &str) -> String {
    format!(
        r#"
name = "units"
title = "a lock for each unit"

[load]
instances = 4
workers = 40
duration = "20s"

[workload]
kind = "flash-sale"
skus = 2
stock = 10
granularity = "unit"

[section]
uniform = ["20ms", "40ms"]

[lock]
kind = "{lock}"
ttl = "5s"

[lock.wait]
retry_every = "20ms"
give_up_after = "10s"

[expect.none]
violation = ["overlap", "oversell"]
"#
    )
}

#[test]
fn with_a_lock_for_each_unit_exactly_the_stock_is_sold() {
    let ended = oversold("run -").reading(&units("token-lua")).run();
    ended.exits(PASS);
    let report = ended.report();
    assert_eq!(report.ledger("stock"), [20]);
    assert_eq!(report.ledger("orders"), [20]);
    assert_eq!(report.ledger("remaining"), [0]);
    let history = ended.run_folder().join("history.jsonl");
    let history = std::fs::read_to_string(history).expect("a history");
    assert!(history.contains("sku_10087_unit_10"), "units have names");
    assert!(!history.contains("unit_11"));
}

#[test]
fn without_a_lock_a_unit_is_sold_more_than_once() {
    let ended = oversold("run -").reading(&units("none")).run();
    ended.exits(PASS);
    assert!(ended.report().ledger("oversold")[0] > 0);
}

#[test]
fn nobody_leads_for_about_a_ttl_when_the_leader_dies() {
    let scenario = r#"
name = "leader-dies"

[load]
instances = 4
workers = 8
duration = "3s"

[workload]
kind = "leader"

[section]
constant = "50ms"

[lock]
kind = "token-lua"
ttl = "800ms"

[lock.wait]
retry_every = "20ms"
give_up_after = "3s"

[[fault]]
kind = "crash"
at = { point = "in-section", nth = 5 }
"#;
    let ended = oversold("run -").reading(scenario).run();
    ended.exits(PASS);
    let report = ended.report();
    let vacancy = &report.trials()[0]["vacancy"];
    let ms = |field: &str| vacancy[field].as_u64().expect("a number") / 1_000_000;
    let (longest, total) = (ms("longest_ns"), ms("total_ns"));
    assert!(
        (600..1600).contains(&longest),
        "a TTL of 800 ms: {longest} ms"
    );
    assert!(
        total > longest,
        "and a little from term to term: {total} ms"
    );
    assert!(
        ended.stdout.contains("nobody acted for"),
        "{}",
        ended.stdout
    );
}

#[test]
fn how_long_nobody_acts_is_told_of_leaders_only() {
    let ended = oversold("run scenarios/coarse-lock.toml -z 2s").run();
    ended.exits(PASS);
    assert_eq!(ended.report().trials()[0]["vacancy"], Value::Null);
    assert!(!ended.stdout.contains("nobody acted"), "{}", ended.stdout);
}
