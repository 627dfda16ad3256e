//! A stored run tells the same again: `check` judges it as the run did, `replay` runs its plan
//! again, its ledger can be asked by anybody who speaks SQL, and a damaged history never passes.

mod support;

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::Value;
use support::{Ended, INCONCLUSIVE, PASS, USAGE, VIOLATED, files_named, oversold};

/// Half a second under a lock that breaks at once: work longer than the TTL.
const BREAKS: &str = r#"
name = "breaks"
title = "work longer than the TTL"

[load]
instances = 2
workers = 6
duration = "20s"

[workload]
kind = "flash-sale"
stock = 6

[section]
uniform = ["150ms", "200ms"]

[lock]
kind = "set-nx-ex-del"
ttl = "100ms"

[lock.wait]
retry_every = "10ms"
give_up_after = "10s"
"#;

/// Half a second under a lock that holds.
const HOLDS: &str = r#"
name = "holds"
title = "short sections under a long TTL"

[load]
instances = 3
workers = 12
duration = "20s"

[workload]
kind = "flash-sale"
stock = 40

[section]
uniform = ["5ms", "10ms"]

[lock]
kind = "token-lua"
ttl = "2s"

[lock.wait]
retry_every = "20ms"
give_up_after = "15s"
"#;

/// `check` on a run's folder.
fn check(stored: &Path) -> Ended {
    oversold("check").word(stored).run()
}

/// The reports of a document by lock, with the spelling of folders taken out.
fn by_lock(ended: &Ended) -> Vec<(String, Value)> {
    let reports = ended.all().into_iter().map(|lock| {
        let mut report = lock.0.clone();
        let trials = report["trials"].as_array_mut().expect("a list");
        for trial in trials {
            trial["folder"] = Value::Null;
        }
        (lock.name().to_owned(), report)
    });
    let mut reports: Vec<_> = reports.collect();
    reports.sort_by(|one, other| one.0.cmp(&other.0));
    reports
}

/// The run and its `check` say the same, field by field.
#[track_caller]
fn the_same_again(run: &Ended, again: &Ended) {
    assert_eq!(run.code, again.code, "{}\n{}", run.stdout, again.stdout);
    let (before, after) = (by_lock(run), by_lock(again));
    assert_eq!(before.len(), after.len());
    for ((lock, before), (_, after)) in before.iter().zip(&after) {
        let fields = before.as_object().expect("a table");
        for (field, value) in fields {
            assert_eq!(&after[field], value, "{field} of {lock}");
        }
        assert_eq!(before, after, "a field of {lock} that the run did not have");
    }
}

#[test]
fn a_single_run_that_broke_is_judged_the_same_again() {
    let run = oversold("run -").reading(BREAKS).run();
    run.exits(VIOLATED);
    the_same_again(&run, &check(&run.run_folder()));
}

#[test]
fn the_history_file_alone_names_the_run() {
    let run = oversold("run -").reading(BREAKS).run();
    let history = run.run_folder().join("history.jsonl");
    the_same_again(&run, &check(&history));
}

#[test]
fn a_run_that_holds_is_judged_the_same_again() {
    let run = oversold("run -").reading(HOLDS).run();
    run.exits(PASS);
    the_same_again(&run, &check(&run.run_folder()));
}

#[test]
fn several_trials_are_judged_the_same_again_as_one_report() {
    // From a seed at which the order of names is not the order of numbers.
    let run = oversold("run - --trials 3 --seed 9").reading(BREAKS).run();
    run.exits(VIOLATED);
    assert_eq!(run.report().trials().len(), 3);
    the_same_again(&run, &check(&run.run_folder()));
}

#[test]
fn a_comparison_is_judged_the_same_again_lock_by_lock() {
    let locks = "compare - --locks none,set-nx-ex-del,token-lua-watchdog --trials 2";
    let run = oversold(locks).reading(BREAKS).run();
    run.exits(VIOLATED);
    assert_eq!(run.lock("token-lua-watchdog").lock_verdict(), "pass");
    the_same_again(&run, &check(&run.run_folder()));
}

#[test]
fn an_expected_violation_is_as_expected_again() {
    let run = oversold("run - --expect violation").reading(BREAKS).run();
    run.exits(PASS);
    the_same_again(&run, &check(&run.run_folder()));
}

#[test]
fn a_stored_plan_runs_again_under_the_same_seed_and_lock() {
    let run = oversold("run - --seed 77 --lock setnx-expire-del")
        .reading(BREAKS)
        .run();
    let again = oversold("replay").word(run.run_folder()).run();
    again.exits(VIOLATED);
    let plan = |ended: &Ended| {
        let text = std::fs::read_to_string(ended.run_folder().join("plan.json"));
        serde_json::from_str::<Value>(&text.expect("a plan")).expect("JSON")
    };
    assert_eq!(plan(&run), plan(&again));
    assert_eq!(again.report().name(), "setnx-expire-del");
    assert_eq!(again.report().trials()[0]["seed"], 77);
}

#[test]
fn a_stored_comparison_runs_again_with_all_its_locks_and_trials() {
    let locks = "compare - --locks set-nx-ex-del,token-lua-watchdog --trials 2";
    let run = oversold(locks).reading(BREAKS).run();
    let again = oversold("replay").word(run.run_folder()).run();
    again.exits(VIOLATED);
    assert_eq!(again.all().len(), 2);
    for lock in again.all() {
        assert_eq!(lock.trials().len(), 2, "{lock:?}");
        assert_eq!(
            lock.lock_verdict(),
            run.lock(lock.name()).lock_verdict(),
            "{lock:?}"
        );
    }
}

#[test]
fn anybody_can_count_the_orders_in_the_ledger() {
    let run = oversold("run -").reading(BREAKS).run();
    let ledger = Connection::open(run.run_folder().join("ledger.sqlite")).expect("a ledger");
    let count = |sql: &str| {
        let counted = ledger.query_row(sql, [], |row| row.get::<_, i64>(0));
        counted.expect("a number")
    };
    let report = run.report();
    assert_eq!(
        report.ledger("orders"),
        [count("SELECT count(*) FROM orders")]
    );
    assert_eq!(
        report.ledger("stock"),
        [count("SELECT sum(initial) FROM stock")]
    );
    assert_eq!(
        report.ledger("remaining"),
        [count("SELECT sum(units) FROM stock")]
    );
    assert_eq!(
        report.ledger("oversold"),
        [count("SELECT count(*) FROM orders") - 6]
    );
    let writers = "SELECT count(DISTINCT operation) FROM orders";
    assert_eq!(
        count(writers),
        count("SELECT count(*) FROM orders"),
        "one order an operation"
    );
}

/// A copy of a run's history and ledger, the history shortened.
fn cut(run: &Ended, keep: impl Fn(&str) -> usize) -> (tempfile::TempDir, PathBuf) {
    let copy = tempfile::tempdir().expect("a temporary folder");
    for file in ["history.jsonl", "ledger.sqlite"] {
        std::fs::copy(run.run_folder().join(file), copy.path().join(file)).expect("a copy");
    }
    let history = copy.path().join("history.jsonl");
    let mut text = std::fs::read_to_string(&history).expect("a history");
    text.truncate(keep(&text));
    std::fs::write(&history, text).expect("a shorter history");
    let path = copy.path().to_owned();
    (copy, path)
}

/// Where a line ends that lies at about this share of a text.
fn line_end(text: &str, share: f64) -> usize {
    let about = (text.len() as f64 * share) as usize;
    about + text[about..].find('\n').expect("a line's end") + 1
}

#[test]
fn a_history_of_a_lock_that_held_is_inconclusive_wherever_it_was_cut() {
    let run = oversold("run -").reading(HOLDS).run();
    run.exits(PASS);
    for share in [0.2, 0.5, 0.8, 0.99] {
        // Between two lines, and in the middle of one.
        for less in [0, 9] {
            let (_kept, stored) = cut(&run, |text| line_end(text, share) - less);
            let again = check(&stored);
            again.exits(INCONCLUSIVE);
            assert_ne!(again.report().lock_verdict(), "pass");
            assert_ne!(again.report().business_verdict(), "pass");
        }
    }
    // Only its last line is missing, then only that one's end.
    let last = |text: &str| text.trim_end().rfind('\n').expect("lines") + 1;
    check(&cut(&run, last).1).exits(INCONCLUSIVE);
    check(&cut(&run, |text| text.len() - 1).1).exits(INCONCLUSIVE);
}

#[test]
fn a_history_of_a_lock_that_broke_is_still_a_violation_when_it_was_cut() {
    let run = oversold("run -").reading(BREAKS).run();
    run.exits(VIOLATED);
    for share in [0.3, 0.6, 0.95] {
        let (_kept, stored) = cut(&run, |text| line_end(text, share));
        check(&stored).exits(VIOLATED);
    }
}

#[test]
fn a_history_that_is_damaged_in_its_middle_is_refused_by_line() {
    let run = oversold("run -").reading(HOLDS).run();
    let (_kept, stored) = cut(&run, str::len);
    let history = stored.join("history.jsonl");
    let text = std::fs::read_to_string(&history).expect("a history");
    let damaged: Vec<&str> = (text.lines().enumerate())
        .map(|(at, line)| if at == 20 { "{\"at_ns\":" } else { line })
        .collect();
    std::fs::write(&history, damaged.join("\n") + "\n").expect("a damaged history");
    let again = check(&stored);
    again.exits(USAGE);
    assert!(
        again.stderr.contains("history.jsonl:21"),
        "{}",
        again.stderr
    );
}

#[test]
fn a_history_without_its_ledger_is_refused() {
    let run = oversold("run -").reading(HOLDS).run();
    let (_kept, stored) = cut(&run, str::len);
    std::fs::remove_file(stored.join("ledger.sqlite")).expect("it was there");
    let again = check(&stored);
    again.exits(USAGE);
    assert!(again.stderr.contains("ledger.sqlite"), "{}", again.stderr);
}

#[test]
fn every_trial_leaves_its_files() {
    let run = oversold("run - --trials 2").reading(BREAKS).run();
    let folder = run.run_folder();
    for file in [
        "plan.json",
        "history.jsonl",
        "ledger.sqlite",
        "latency.hgrm",
        "server.log",
    ] {
        assert_eq!(files_named(file, &folder).len(), 2, "{file}");
    }
    for file in ["report.json", "junit.xml"] {
        assert_eq!(files_named(file, &folder).len(), 1, "{file}");
    }
}
