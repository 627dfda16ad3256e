//! The ledger, and the story of how it went wrong.

use oversold::check::{Cause, Judgement, Property};
use oversold::history::event::{Release, Stop};
use oversold::store::Ledger;
use oversold::verdict::Verdict;

use crate::history::{
    A, B, C, D, History, assert_clean, assert_found, assert_not_found, posted, reconciliation_under,
    sale_under, sold, the_one,
};

/// A is slow and reads 2 units; B gets in beside it, sells them both and leaves; A then writes
/// what it had seen over what is left.
fn a_sale_in_which_the_slow_one_writes_over(replaced: i64) -> History {
    sale_under("token-lua")
        .at(0.0).granted(A).works(A, 7.0, 2)
        .at(5.1).granted(B).works(B, 0.1, 2)
        .at(5.2).writes(B, 2, 2, 1).releases(B)
        .at(7.0).writes(A, 2, replaced, 1).releases_and_hears(A, Release::Gone)
}

fn oversold_by(oversold: i64) -> Ledger {
    Ledger { stock: 1, remaining: 1, orders: 1 + oversold, oversold, ..Ledger::default() }
}

#[test]
fn more_orders_than_stock_are_oversold_by_the_stale_write() {
    let told = a_sale_in_which_the_slow_one_writes_over(1);
    let judged = told.judged_with(oversold_by(1));
    assert_found(&judged, Property::Oversell, Cause::LeaseExpired);
    let finding = the_one(&judged, Property::Oversell);
    assert_eq!(finding.witnesses[0].op, A.number);
    assert!(finding.summary.contains("had read 2 and wrote 1 over 1"), "{}", finding.summary);
    assert_eq!((judged.lock, judged.business), (Verdict::Fail, Verdict::Fail));
}

#[test]
fn as_many_orders_as_stock_are_not() {
    let judged = a_sale_in_which_the_slow_one_writes_over(1).judged_with(Ledger {
        stock: 2, remaining: 0, orders: 2, ..Ledger::default()
    });
    assert_not_found(&judged, Property::Oversell);
    assert_eq!(judged.business, Verdict::Pass);
}

#[test]
fn a_guard_that_refused_the_stale_write_kept_the_ledger_right() {
    let judged = sale_under("token-lua")
        .at(0.0).granted(A).works(A, 7.0, 100)
        .at(5.1).granted(B).works(B, 0.1, 100)
        .at(5.2).writes(B, 100, 100, 1).releases(B)
        .at(7.0).bounces_off_the_guard(A, 100, 99).releases_and_hears(A, Release::Gone)
        .judged();
    assert_eq!((judged.lock, judged.business), (Verdict::Fail, Verdict::Pass));
}

fn astray(remaining: i64) -> Ledger {
    Ledger { remaining, ..sold(2) }
}

#[test]
fn a_stale_write_that_gives_a_unit_back_is_a_lost_update() {
    let judged = a_sale_in_which_the_slow_one_writes_over(1).judged_with(astray(99));
    assert_found(&judged, Property::LostUpdate, Cause::LeaseExpired);
}

#[test]
fn stock_and_orders_that_add_up_are_none() {
    let judged = a_sale_in_which_the_slow_one_writes_over(2).judged_with(astray(98));
    assert_not_found(&judged, Property::LostUpdate);
    assert_eq!(judged.business, Verdict::Pass);
}

#[test]
fn units_that_vanished_are_the_doing_of_the_write_that_took_them() {
    let judged = sale_under("none")
        .at(0.0).walks_in(A).works(A, 3.0, 50)
        .at(1.0).walks_in(B).works(B, 1.0, 51)
        .at(2.0).writes(B, 51, 50, 1).leaves(B)
        .at(3.0).writes(A, 50, 60, 1).leaves(A)
        .judged_with(astray(80));
    let finding = the_one(&judged, Property::LostUpdate);
    assert_eq!((finding.cause, finding.witnesses[0].op), (Cause::NoLock, A.number));
}

// ---- whose doing it was

/// A's stale write over B's, where A had lost its lock by the driver's lag; and C's.
fn a_sale_spoilt_by_the_driver() -> History {
    sale_under("token-lua")
        .at(0.0).granted(A).works(A, 1.0, 10)
        .at(5.0).driver_was_late(4.6)
        .at(5.1).granted(B).works(B, 0.1, 10)
        .at(5.2).writes(B, 10, 10, 1).releases(B)
        .at(5.5).writes(A, 10, 9, 1).releases_and_hears(A, Release::Gone)
}

#[test]
fn what_the_drivers_lag_alone_has_sold_twice_is_no_violation() {
    let judged = a_sale_spoilt_by_the_driver().judged_with(oversold_by(1));
    assert_not_found_as_a_violation(&judged, Property::Oversell);
    assert_eq!(judged.business, Verdict::Inconclusive);
}

fn assert_not_found_as_a_violation(judged: &Judgement, property: Property) {
    assert_eq!(judged.count(property), 0, "{judged:#?}");
    assert!(judged.by_driver.iter().any(|finding| finding.property == property));
}

#[test]
fn the_drivers_lag_does_not_swallow_what_the_lock_has_sold_twice_as_well() {
    let judged = a_sale_spoilt_by_the_driver()
        .at(10.0).granted(C).works(C, 9.0, 9)
        .at(15.1).granted(D)
        .at(19.0).writes(C, 9, 8, 1).releases_and_hears(C, Release::Gone)
        .judged_with(oversold_by(2));
    assert_found(&judged, Property::Oversell, Cause::LeaseExpired);
    assert_eq!(judged.business, Verdict::Fail);
}

#[test]
fn a_section_that_was_not_alone_twice_is_the_locks_if_one_time_was() {
    let judged = sale_under("token-lua")
        .at(0.0).granted(A).works(A, 1.0, 10)
        .at(5.0).driver_was_late(4.6)
        .at(5.1).granted(B).works(B, 9.0, 10)
        .at(5.2).releases_and_hears(A, Release::Gone)
        .at(10.2).granted(C).works(C, 0.1, 10)
        .at(10.3).writes(C, 10, 10, 1).releases(C)
        .at(14.0).writes(B, 10, 9, 1).releases_and_hears(B, Release::Gone)
        .judged_with(oversold_by(1));
    assert_found(&judged, Property::Oversell, Cause::LeaseExpired);
}

// ---- double-processing

/// A is slow with its account; B processes the same one beside it.
fn an_account_that_two_have_read(seen_by_b: i64) -> History {
    reconciliation_under("token-lua")
        .at(0.0).granted(A).works(A, 7.0, 20)
        .at(5.1).granted(B).works(B, 0.1, seen_by_b)
        .at(5.2).writes(B, seen_by_b, 20, 20).releases(B)
        .at(7.0).writes(A, 20, 0, 20).releases_and_hears(A, Release::Gone)
        .at(8.0).granted(C.on(1)).works(C.on(1), 1.0, 20)
        .at(9.0).writes(C.on(1), 20, 20, 20).releases(C.on(1))
}

#[test]
fn entries_that_two_have_processed_are_found() {
    let twice = Ledger { double_processed: 20, never_processed: 0, ..posted(60) };
    let judged = an_account_that_two_have_read(20).judged_with(twice);
    assert_found(&judged, Property::DoubleProcessing, Cause::LeaseExpired);
    let finding = the_one(&judged, Property::DoubleProcessing);
    assert!(finding.summary.contains("did 20 entries again"), "{}", finding.summary);
}

#[test]
fn entries_that_one_has_processed_are_not() {
    let judged = reconciliation_under("token-lua")
        .at(0.0).granted(A).works(A, 3.0, 20)
        .at(3.0).writes(A, 20, 20, 20).releases(A)
        .at(8.0).granted(C.on(1)).works(C.on(1), 1.0, 20)
        .at(9.0).writes(C.on(1), 20, 20, 20).releases(C.on(1))
        .judged();
    assert_clean(&judged);
}

// ---- never-processed

/// The first account is processed, the second one is left.
fn one_account_of_two() -> History {
    reconciliation_under("token-lua-watchdog")
        .at(0.0).granted(A).works(A, 1.0, 20)
        .at(1.0).writes(A, 20, 20, 20).releases(A)
}

#[test]
fn an_account_whose_only_section_withheld_its_write_was_never_processed() {
    let judged = one_account_of_two()
        .at(2.0).granted(B.on(1)).works(B.on(1), 1.0, 20).freezes(B)
        .at(7.1).granted(C.on(1))
        .at(7.2).releases(C.on(1))
        .at(9.0).thaws(B).asks_to_renew(B)
        .at(9.1).lease_lost(B).withholds(B.on(1), 20).releases_and_hears(B, Release::Gone)
        .judged();
    assert_found(&judged, Property::NeverProcessed, Cause::FrozenHolder);
}

#[test]
fn an_account_whose_only_holder_crashed_was_never_processed() {
    let told = one_account_of_two().at(2.0).granted(B.on(1)).works(B.on(1), 1.0, 20);
    let judged = told.at(2.5).crashes(B).judged();
    assert_found(&judged, Property::NeverProcessed, Cause::HolderCrashed);
    assert!(!the_one(&judged, Property::NeverProcessed).summary.contains("stale"));
}

#[test]
fn an_account_that_was_written_at_last_was_processed() {
    let judged = one_account_of_two()
        .at(2.0).granted(B.on(1)).works(B.on(1), 1.0, 20)
        .at(3.0).writes(B.on(1), 20, 20, 20).releases(B)
        .judged();
    assert_clean(&judged);
}

fn assert_only_doubted(judged: &Judgement, why: &str) {
    assert_not_found(judged, Property::NeverProcessed);
    assert!(judged.doubts.iter().any(|doubt| doubt.contains(why)), "{:?}", judged.doubts);
}

#[test]
fn an_account_that_no_operation_came_for_is_no_violation() {
    assert_only_doubted(&one_account_of_two().judged(), "no operation came for them");
}

#[test]
fn an_account_left_because_everybody_is_dead_is_no_violation() {
    let told = one_account_of_two().at(2.0).granted(B.on(1)).works(B.on(1), 1.0, 20);
    let judged = told.at(2.5).crashes(B).stops(Stop::NobodyLeft).judged();
    assert_only_doubted(&judged, "every instance had crashed");
}

#[test]
fn an_account_left_because_the_store_failed_is_no_violation() {
    let told = one_account_of_two().at(2.0).granted(B.on(1)).store_fails(B);
    assert_only_doubted(&told.at(2.5).releases(B).judged(), "the store had failed");
}

#[test]
fn an_account_left_because_time_was_up_is_no_violation() {
    let told = one_account_of_two().at(2.0).denied(B.on(1)).gives_up(B);
    let judged = told.at(3.0).stops(Stop::DurationOver).judged();
    assert_only_doubted(&judged, "give it longer");
}

// ---- history and ledger

#[test]
fn rows_that_no_operation_recorded_leave_a_doubt() {
    let judged = sale_under("token-lua")
        .at(0.0).granted(A).works(A, 1.0, 100)
        .at(1.0).writes(A, 100, 100, 1).releases(A)
        .judged_with(sold(2));
    assert!(judged.doubts[0].contains("1 rows recorded, 2 in the ledger"));
    assert_eq!(judged.business, Verdict::Inconclusive);
}

// ---- the story

#[test]
fn the_story_follows_the_chain_from_the_slow_one_to_the_last_victim() {
    let judged = sale_under("set-nx-ex-del")
        .at(0.0).granted(A).works(A, 7.0, 100)
        .at(5.1).granted(B).works(B, 4.0, 100)
        .at(7.0).writes(A, 100, 100, 1).releases(A)
        .at(7.5).granted(C).works(C, 1.0, 99)
        .at(8.5).writes(C, 99, 99, 1).releases(C)
        .at(9.1).writes(B, 100, 98, 1).releases_and_hears(B, Release::Gone)
        .judged_with(Ledger { remaining: 99, ..sold(3) });
    let told: Vec<_> = judged.story.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(told, [
        "A, operation 0 (instance 0, worker 0), is granted the lock for 5.0 s",
        "A reads 100; its work takes 7.0 s",
        "A's lease runs out; A is still at work",
        "B, operation 1 (instance 1, worker 1), gets in beside A",
        "A writes over the 100 that it had read (1 added)",
        "A's release removes B's lock",
        "C, operation 2 (instance 2, worker 2), gets in beside B",
        "C writes over the 99 that it had read (1 added)",
        "C releases the lock",
        "B writes as if there were still 100; there are 98 (1 added): 2 too many",
        "B releases, and there is no lock",
    ]);
}

#[test]
fn a_history_without_a_violation_has_no_story() {
    let judged = sale_under("token-lua").at(0.0).granted(A).at(1.0).releases(A).judged();
    assert_eq!(judged.story, vec![]);
}
