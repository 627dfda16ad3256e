//! Stored histories, read back as `oversold check` does. The files are in `tests/histories/`, each
//! with the verdict that is known of it below.

use std::path::{Path, PathBuf};

use oversold::check::{Cause, Judge, Judgement, Property};
use oversold::history::event::Release;
use oversold::history::file::{self, Header, HistoryError, SCHEMA_VERSION};
use oversold::history::keep::{Kept, Writer};
use oversold::history::{Event, Kind};
use oversold::plan::Plan;
use oversold::store::Ledger;
use oversold::verdict::Verdict;

use crate::history::{
    A, B, C, History, assert_clean, assert_found, posted, reconciliation_under, sale_under, sold,
};

fn stored(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories");
    folder.join(name)
}

/// What the checks say of a stored history.
pub fn judge_file(path: &Path, ledger: &Ledger) -> Judgement {
    let (header, events) = file::read::<Plan>(path).unwrap();
    let mut judge = Judge::new(&header.plan, header.keys.len());
    for event in events {
        judge.event(&event.unwrap());
    }
    judge.end(ledger)
}

/// Writes a history as a run does.
pub fn store(told: &History, events: &[Event], path: &Path) {
    let names = |what: &str| (0..told.keys).map(|n| format!("{what}_{n}")).collect();
    let header = Header {
        schema_version: SCHEMA_VERSION,
        kept: Kept::Full,
        server: "Redis 7.0.15".to_owned(),
        keys: names("lock"),
        items: names("item"),
        plan: told.plan.clone(),
    };
    let mut writer = Writer::create(path, &header, told.plan.ttl()).unwrap();
    writer.append(events, false);
    writer.finish().unwrap();
}

#[test]
fn the_stored_chain_of_the_flash_sale_is_judged_as_it_was() {
    // A reads 100 and is slow; B gets in, A removes B's lock, C gets in and sells; B then writes
    // as if C had not been there.
    let ledger = Ledger {
        remaining: 99,
        ..sold(3)
    };
    let judged = judge_file(&stored("flash-sale-chain.jsonl"), &ledger);
    assert_eq!(judged.count(Property::Overlap), 2);
    assert_found(&judged, Property::ForeignRelease, Cause::LeaseExpired);
    assert_found(&judged, Property::LostUpdate, Cause::LeaseExpired);
    assert_eq!(judged.doubts, Vec::<String>::new());
}

#[test]
fn the_stored_reconciliation_of_the_same_account_is_judged_as_it_was() {
    let ledger = Ledger {
        double_processed: 20,
        never_processed: 0,
        ..posted(60)
    };
    let judged = judge_file(&stored("reconcile-twice.jsonl"), &ledger);
    assert_found(&judged, Property::Overlap, Cause::LeaseExpired);
    assert_found(&judged, Property::DoubleProcessing, Cause::LeaseExpired);
    assert_eq!(
        (judged.lock, judged.business),
        (Verdict::Fail, Verdict::Fail)
    );
}

#[test]
fn the_stored_frozen_watchdog_is_judged_as_it_was() {
    let judged = judge_file(&stored("frozen-watchdog.jsonl"), &sold(2));
    assert_found(&judged, Property::Overlap, Cause::FrozenHolder);
    assert_eq!(judged.count(Property::ForeignRelease), 0);
    assert_eq!(
        (judged.lock, judged.business),
        (Verdict::Fail, Verdict::Pass)
    );
}

#[test]
fn the_stored_run_of_a_lock_that_held_is_clean() {
    assert_clean(&judge_file(&stored("held.jsonl"), &sold(2)));
}

#[test]
fn a_stored_history_whose_last_line_was_cut_off_in_the_middle_cannot_answer() {
    let path = stored("held-truncated.jsonl");
    let (_, events) = file::read::<Plan>(&path).unwrap();
    let events: Vec<_> = events.map(Result::unwrap).collect();
    assert!(!events.iter().any(|event| event.event == Kind::Ended {}));
    let whole = std::fs::read_to_string(&path).unwrap();
    assert_eq!(
        events.len(),
        whole.lines().count() - 2,
        "header and half line"
    );
    let judged = judge_file(&path, &sold(2));
    assert_eq!(judged.lock, Verdict::Inconclusive);
    assert!(judged.doubts[0].contains("cut off"), "{:?}", judged.doubts);
}

#[test]
fn a_line_in_the_middle_that_is_no_event_is_an_error_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.jsonl");
    let whole = std::fs::read_to_string(stored("held.jsonl")).unwrap();
    let mut lines: Vec<_> = whole.lines().collect();
    lines[2] = "{\"at_ns\":1,";
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    let (_, events) = file::read::<Plan>(&path).unwrap();
    let failed = events.filter_map(Result::err).next().unwrap();
    assert!(
        matches!(failed, HistoryError::Line { line: 3, .. }),
        "{failed}"
    );
}

/// How the stored histories were made. A change of the format must still read the old ones, so they
/// are written anew only with a new schema version.
#[test]
#[ignore = "writes tests/histories anew"]
fn write_the_stored_histories() {
    let put = |name: &str, told: &History| store(told, &told.events(), &stored(name));
    put("flash-sale-chain.jsonl", &flash_sale_chain());
    put("reconcile-twice.jsonl", &reconcile_twice());
    put("frozen-watchdog.jsonl", &frozen_watchdog());
    put("held.jsonl", &held());
    let whole = std::fs::read_to_string(stored("held.jsonl")).unwrap();
    let cut = &whole[..whole.len() - 20];
    std::fs::write(stored("held-truncated.jsonl"), cut).unwrap();
}

#[rustfmt::skip]
fn flash_sale_chain() -> History {
    sale_under("set-nx-ex-del")
        .at(0.0).granted(A).works(A, 7.0, 100)
        .at(5.1).granted(B).works(B, 4.0, 100)
        .at(7.0).writes(A, 100, 100, 1).releases(A)
        .at(7.5).granted(C).works(C, 1.0, 99)
        .at(8.5).writes(C, 99, 99, 1).releases(C)
        .at(9.1).writes(B, 100, 98, 1).releases_and_hears(B, Release::Gone)
}

#[rustfmt::skip]
fn reconcile_twice() -> History {
    reconciliation_under("set-nx-ex-del")
        .at(0.0).granted(A).works(A, 7.0, 20)
        .at(5.1).granted(B).works(B, 1.0, 20)
        .at(6.1).writes(B, 20, 20, 20).releases(B)
        .at(7.0).writes(A, 20, 0, 20).releases_and_hears(A, Release::Gone)
        .at(8.0).granted(C.on(1)).works(C.on(1), 1.0, 20)
        .at(9.0).writes(C.on(1), 20, 20, 20).releases(C.on(1))
}

#[rustfmt::skip]
fn frozen_watchdog() -> History {
    sale_under("token-lua-watchdog")
        .at(0.0).granted(A).works(A, 4.0, 100)
        .at(1.7).renews(A)
        .at(2.0).freezes(A)
        .at(6.8).granted(B).works(B, 1.0, 100)
        .at(7.8).writes(B, 100, 100, 1).releases(B)
        .at(10.0).thaws(A).asks_to_renew(A)
        .at(10.001).lease_lost(A).writes(A, 99, 99, 1).releases_and_hears(A, Release::Gone)
}

#[rustfmt::skip]
fn held() -> History {
    sale_under("token-lua-watchdog")
        .at(0.0).granted(A).works(A, 4.0, 100)
        .at(1.7).renews(A)
        .at(4.0).writes(A, 100, 100, 1).releases(A)
        .at(4.5).granted(B).works(B, 1.0, 99)
        .at(5.5).writes(B, 99, 99, 1).releases(B)
}
