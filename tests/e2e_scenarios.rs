//! The shipped scenarios against real servers: each lock, under each fault, must be judged as
//! `INCIDENTS.md` tells, cell by cell, and read so from the JSON document.

mod support;

use support::{Ended, LOCKS, Lock, PASS, oversold, package};

/// The five locks that are one.
const REAL: [&str; 5] = [
    "setnx-expire-del",
    "set-nx-ex-del",
    "token-get-del",
    "token-lua",
    "token-lua-watchdog",
];

/// The newer locks that are one.
const NEW: [&str; 6] = [
    "fixed-token-lua",
    "reentrant-watchdog",
    "fair",
    "fenced",
    "redlock",
    "redlock-watchdog",
];

/// The alternatives to locking: the store protects itself.
const ALTERNATIVES: [&str; 3] = ["conditional", "optimistic", "unique"];

/// The older locks.
fn compare(scenario: &str) -> Ended {
    compare_these(scenario, &LOCKS)
}

/// The newer locks and the alternatives.
fn compare_new(scenario: &str) -> Ended {
    compare_these(scenario, &[&NEW[..], &ALTERNATIVES].concat())
}

fn compare_these(scenario: &str, locks: &[&str]) -> Ended {
    let locks_named = locks.join(",");
    let words = format!("compare scenarios/{scenario}.toml --locks {locks_named}");
    let ended = oversold(&words).run();
    ended.exits(PASS);
    let names: Vec<&str> = ended.all().into_iter().map(Lock::name).collect();
    assert_eq!(names, locks, "every lock has its report");
    for lock in ended.all() {
        assert_eq!(lock.verdict(), "pass", "as the scenario expects: {lock:?}");
        explained(lock);
    }
    ended
}

/// The history always tells why.
#[track_caller]
fn explained(lock: Lock<'_>) {
    assert!(!lock.causes().contains("unexplained"), "{lock:?}");
}

/// L: the lock is broken.
#[track_caller]
fn lock_breaks(lock: Lock<'_>) {
    assert_eq!(lock.lock_verdict(), "fail", "{lock:?}");
    assert!(lock.violated().contains("overlap"), "{lock:?}");
}

/// B: the ledger is broken.
#[track_caller]
fn ledger_breaks(lock: Lock<'_>, property: &str) {
    assert_eq!(lock.business_verdict(), "fail", "{lock:?}");
    assert!(lock.violated().contains(property), "{lock:?}");
}

/// `-`: nothing at all.
#[track_caller]
fn nothing_breaks(lock: Lock<'_>) {
    assert_eq!(lock.lock_verdict(), "pass", "{lock:?}");
    assert_eq!(lock.business_verdict(), "pass", "{lock:?}");
    assert!(lock.violated().is_empty(), "{lock:?}");
    assert!(lock.doubts().is_empty(), "{lock:?}");
}

/// Without a lock everything breaks, for that one reason.
#[track_caller]
fn no_lock_breaks_all(lock: Lock<'_>, property: &str) {
    lock_breaks(lock);
    ledger_breaks(lock, property);
    assert_eq!(lock.causes(), ["no-lock"].into(), "{lock:?}");
}

#[test]
fn on_a_calm_day_every_lock_holds_and_only_none_oversells() {
    let ended = compare("calm");
    no_lock_breaks_all(ended.lock("none"), "oversell");
    for name in REAL {
        nothing_breaks(ended.lock(name));
        assert_eq!(ended.lock(name).ledger("orders"), [100]);
    }
}

#[test]
fn a_pause_longer_than_the_ttl_breaks_every_lock_and_its_ledger_the_watchdogs_too() {
    let ended = compare("gc-pause");
    no_lock_breaks_all(ended.lock("none"), "oversell");
    for name in REAL {
        let lock = ended.lock(name);
        lock_breaks(lock);
        ledger_breaks(lock, "oversell");
        assert!(
            lock.causes_of("overlap").contains("frozen-holder"),
            "{lock:?}"
        );
        assert!(
            lock.trials()[0]["coverage"]["faults"][0]["proof"].is_string(),
            "it landed"
        );
    }
    for name in ["token-lua", "token-lua-watchdog"] {
        let lock = ended.lock(name);
        assert!(!lock.violated().contains("foreign-release"), "{lock:?}");
        only_the_pause_is_to_blame(lock);
    }
}

/// But for the write in spite of the watchdog's news, which is the section's own mistake.
#[track_caller]
fn only_the_pause_is_to_blame(lock: Lock<'_>) {
    for property in lock.violated() {
        let cause = match property {
            "unheeded-loss" => "mistake",
            _ => "frozen-holder",
        };
        assert_eq!(lock.causes_of(property), [cause].into(), "{lock:?}");
    }
}

#[test]
fn a_unique_constraint_keeps_the_ledger_right_when_a_pause_breaks_the_lock() {
    let ended = compare("gc-pause-unique");
    for lock in ended.all() {
        lock_breaks(lock);
        assert_eq!(lock.business_verdict(), "pass", "{lock:?}");
        assert_eq!(lock.ledger("orders"), [60], "{lock:?}");
        assert_eq!(lock.ledger("oversold"), [0], "{lock:?}");
    }
    for name in REAL {
        let lock = ended.lock(name);
        assert!(
            lock.causes_of("overlap").contains("frozen-holder"),
            "{lock:?}"
        );
    }
}

#[test]
fn a_crash_between_setnx_and_expire_leaves_a_key_for_ever_and_nobody_gets_in() {
    let ended = compare("crash-between");
    no_lock_breaks_all(ended.lock("none"), "oversell");
    let broken = ended.lock("setnx-expire-del");
    assert_eq!(broken.lock_verdict(), "fail", "{broken:?}");
    assert_eq!(
        broken.business_verdict(),
        "pass",
        "nothing was sold twice: {broken:?}"
    );
    let orphan = ["orphan-key", "starved", "unsold"];
    assert_eq!(broken.violated(), orphan.into(), "{broken:?}");
    for property in orphan {
        assert_eq!(
            broken.causes_of(property),
            ["holder-crashed"].into(),
            "{broken:?}"
        );
    }
    for name in &REAL[1..] {
        nothing_breaks(ended.lock(name));
        assert_eq!(
            ended.lock(name).ledger("orders"),
            [100],
            "within a TTL they got in again"
        );
    }
}

#[test]
fn a_crash_inside_the_section_blocks_for_one_ttl_and_breaks_nothing() {
    let ended = compare("crash-inside");
    no_lock_breaks_all(ended.lock("none"), "oversell");
    for name in REAL {
        nothing_breaks(ended.lock(name));
        assert_eq!(
            ended.lock(name).ledger("orders"),
            [60],
            "within a TTL they got in again"
        );
    }
}

#[test]
fn a_section_longer_than_the_ttl_breaks_all_but_the_watchdog_and_del_releases_anothers_lock() {
    let ended = compare("release-by-other");
    no_lock_breaks_all(ended.lock("none"), "oversell");
    for name in &REAL[..4] {
        let lock = ended.lock(name);
        lock_breaks(lock);
        ledger_breaks(lock, "oversell");
        assert!(
            lock.causes_of("overlap").contains("lease-expired"),
            "{lock:?}"
        );
    }
    for name in ["setnx-expire-del", "set-nx-ex-del"] {
        let lock = ended.lock(name);
        assert!(lock.violated().contains("foreign-release"), "{lock:?}");
    }
    let compares = ended.lock("token-lua");
    assert!(
        !compares.violated().contains("foreign-release"),
        "{compares:?}"
    );
    assert_eq!(compares.causes(), ["lease-expired"].into(), "{compares:?}");
    nothing_breaks(ended.lock("token-lua-watchdog"));
    assert_eq!(ended.lock("token-lua-watchdog").ledger("orders"), [12]);
}

#[test]
fn a_long_reconciliation_is_done_twice_by_all_but_the_watchdog() {
    let ended = compare("reconcile-twice");
    no_lock_breaks_all(ended.lock("none"), "double-processing");
    for name in &REAL[..4] {
        let lock = ended.lock(name);
        lock_breaks(lock);
        ledger_breaks(lock, "double-processing");
        assert!(
            lock.causes_of("overlap").contains("lease-expired"),
            "{lock:?}"
        );
    }
    for name in ["setnx-expire-del", "set-nx-ex-del"] {
        let lock = ended.lock(name);
        assert!(lock.violated().contains("foreign-release"), "{lock:?}");
    }
    let compares = ended.lock("token-lua");
    assert!(
        !compares.violated().contains("foreign-release"),
        "{compares:?}"
    );
    nothing_breaks(ended.lock("token-lua-watchdog"));
    assert_eq!(ended.lock("token-lua-watchdog").ledger("postings"), [20]);
}

#[test]
fn incident_137_oversells_in_every_trial() {
    let ended = oversold("run scenarios/incident-137.toml --trials 3").run();
    ended.exits(PASS);
    let lock = ended.report();
    explained(lock);
    lock_breaks(lock);
    ledger_breaks(lock, "oversell");
    assert_eq!(lock.name(), "setnx-expire-del");
    for oversold in lock.ledger("oversold") {
        assert!(oversold > 0, "{:?}", lock.ledger("oversold"));
    }
    for trial in lock.trials() {
        assert!(
            trial["violations"]["foreign-release"].is_number(),
            "{lock:?}"
        );
    }
    assert_eq!(lock.0["violated"]["count"], 3);
}

#[test]
fn incident_137_repaired_sells_exactly_a_hundred() {
    let repaired = "run scenarios/incident-137.toml --lock token-lua-watchdog";
    let ended = oversold(repaired).run();
    ended.exits(PASS);
    nothing_breaks(ended.report());
    assert_eq!(ended.report().ledger("orders"), [100]);
    assert_eq!(ended.report().ledger("remaining"), [0]);
}

#[test]
fn the_newer_locks_and_the_alternatives_hold_on_a_calm_day() {
    let ended = compare_new("calm");
    for lock in ended.all() {
        nothing_breaks(lock);
        assert_eq!(lock.ledger("orders"), [100], "{lock:?}");
    }
}

#[test]
fn a_pause_breaks_every_newer_lock_and_none_of_the_alternatives() {
    let ended = compare_new("gc-pause");
    for name in NEW {
        let lock = ended.lock(name);
        lock_breaks(lock);
        ledger_breaks(lock, "oversell");
        let causes = lock.causes_of("overlap");
        assert!(causes.contains("frozen-holder"), "{lock:?}");
    }
    for name in &NEW[1..] {
        let lock = ended.lock(name);
        assert!(!lock.violated().contains("foreign-release"), "{lock:?}");
        only_the_pause_is_to_blame(lock);
    }
    for name in ALTERNATIVES {
        let lock = ended.lock(name);
        assert_eq!(lock.business_verdict(), "pass", "{lock:?}");
        assert_eq!(lock.ledger("orders"), [60], "{lock:?}");
    }
    for lock in ended.all() {
        let proof = &lock.trials()[0]["coverage"]["faults"][0]["proof"];
        assert!(proof.is_string(), "it landed: {lock:?}");
    }
}

#[test]
fn a_store_that_refuses_an_old_fence_keeps_the_ledger_right_when_a_pause_breaks_the_lock() {
    let ended = oversold("run scenarios/gc-pause-fence.toml").run();
    ended.exits(PASS);
    let lock = ended.report();
    explained(lock);
    assert_eq!(lock.name(), "fenced");
    lock_breaks(lock);
    let causes = lock.causes_of("overlap");
    assert!(causes.contains("frozen-holder"), "{lock:?}");
    assert_eq!(lock.business_verdict(), "pass", "{lock:?}");
    assert_eq!(lock.ledger("orders"), [60], "{lock:?}");
    assert_eq!(lock.ledger("oversold"), [0], "{lock:?}");
}

#[test]
fn a_long_section_breaks_the_newer_locks_that_do_not_renew_and_a_fixed_token_releases_anothers() {
    let ended = compare_new("release-by-other");
    let fixed = ended.lock("fixed-token-lua");
    lock_breaks(fixed);
    ledger_breaks(fixed, "oversell");
    assert!(fixed.violated().contains("foreign-release"), "{fixed:?}");
    let redlock = ended.lock("redlock");
    lock_breaks(redlock);
    ledger_breaks(redlock, "oversell");
    assert!(
        !redlock.violated().contains("foreign-release"),
        "{redlock:?}"
    );
    for name in ["fixed-token-lua", "redlock"] {
        let lock = ended.lock(name);
        let causes = lock.causes_of("overlap");
        assert!(causes.contains("lease-expired"), "{lock:?}");
    }
    for name in ["reentrant-watchdog", "fair", "fenced", "redlock-watchdog"] {
        nothing_breaks(ended.lock(name));
        assert_eq!(ended.lock(name).ledger("orders"), [12]);
    }
    for name in ALTERNATIVES {
        assert_eq!(ended.lock(name).business_verdict(), "pass");
    }
}

#[test]
fn a_crash_inside_the_section_breaks_none_of_the_newer_locks_nor_the_alternatives() {
    let ended = compare_new("crash-inside");
    for lock in ended.all() {
        nothing_breaks(lock);
        assert_eq!(lock.ledger("orders"), [60], "{lock:?}");
    }
}

/// The property that tells each mistake by its name; `check-once` is told by what it leads to.
const MISTAKES: [(&str, &str); 13] = [
    ("check-once", "overlap"),
    ("effect-after-release", "effect-after-release"),
    ("fail-open", "entry-without-grant"),
    ("ignore-denied", "entry-without-grant"),
    ("nested", "nested-acquire"),
    ("release-unacquired", "release-unacquired"),
    ("renew-blindly", "foreign-renewal"),
    ("spin", "busy-spinning"),
    ("ttl-cut-to-zero", "wrong-ttl"),
    ("ttl-too-long", "wrong-ttl"),
    ("ttl-too-short", "wrong-ttl"),
    ("watchdog-dies", "watchdog-dead"),
    ("watchdog-not-cancelled", "renewal-after-release"),
];

#[test]
fn each_mistake_around_a_lock_is_caught_in_its_scenario() {
    let folder = std::fs::read_dir(package("scenarios")).expect("scenarios");
    let names = folder
        .flatten()
        .filter_map(|entry| Some(entry.file_name().to_str()?.to_owned()));
    let mut shipped: Vec<String> = names.filter(|name| name.starts_with("mistake-")).collect();
    shipped.sort();
    let known = MISTAKES.map(|(mistake, _)| format!("mistake-{mistake}.toml"));
    assert_eq!(shipped, known, "each has its line above");
    // A few at a time: more would make the driver late.
    for few in MISTAKES.chunks(2) {
        let started = few.iter().map(|(mistake, property)| {
            let words = format!("run scenarios/mistake-{mistake}.toml");
            (oversold(&words).start(), *property)
        });
        let started: Vec<_> = started.collect();
        for (running, property) in started {
            let ended = running.ends();
            ended.exits(PASS);
            let lock = ended.report();
            assert!(lock.violated().contains(property), "{lock:?}");
            explained(lock);
        }
    }
}

#[test]
fn a_validity_counts_from_the_grant_also_where_the_pause_comes_before_the_section() {
    let text = std::fs::read_to_string(package("scenarios/gc-pause.toml")).expect("a scenario");
    let (ours, _expectations) = text.split_once("[expect.none]").expect("expectations");
    let section = r#"uniform = ["200ms", "400ms"]"#;
    let paused = ours
        .replace(section, &format!("heeds_lost_lease = true\n{section}"))
        .replace("\"in-section\"", "\"between-commands\"");
    let ended = oversold("run - --lock redlock").reading(&paused).run();
    let lock = ended.report();
    assert!(lock.doubts().is_empty(), "{lock:?}");
    assert_eq!(lock.business_verdict(), "pass", "{lock:?}");
    assert_eq!(lock.ledger("oversold"), [0], "{lock:?}");
    let proof = &lock.trials()[0]["coverage"]["faults"][0]["proof"];
    assert!(proof.is_string(), "it landed: {lock:?}");
    let history = std::fs::read_to_string(ended.run_folder().join("history.jsonl"));
    let withheld = history.expect("a history").matches("\"withheld\"").count();
    assert_eq!(withheld, 1, "the one that was paused wrote nothing");
}
