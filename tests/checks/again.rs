//! After a fault the lock is granted once more, or not; and what is no proof of either.

use oversold::check::{Cause, Judgement, Property};
use oversold::verdict::Verdict;

use crate::history::{
    A, B, C, History, assert_clean, assert_found, assert_not_found, sale_with_a_freeze,
};

/// A freeze of A's instance from 1 s to 3 s, after which the lock must be granted again. Until
/// 3 s + 7.5 s (a lease, and half of one) it may fail.
fn after_a_fault() -> History {
    let told = sale_with_a_freeze("at = { time = \"1s\", instance = 0 }\nagain = true");
    let told = told.at(0.1).granted(B).at(0.5).releases(B).at(1.0).fault_strikes_at(0, A);
    told.at(2.9).fault_is_proven().at(3.0).fault_ends(0)
}

fn found(judged: &Judgement) {
    assert_found(judged, Property::NotAgain, Cause::AfterFault);
    assert_eq!(judged.lock, Verdict::Fail);
}

fn doubted(judged: &Judgement, why: &str) {
    assert_not_found(judged, Property::NotAgain);
    assert_eq!(judged.lock, Verdict::Inconclusive);
    let doubts = &judged.doubts;
    assert!(doubts.len() == 1 && doubts[0].contains(why), "{doubts:?}");
}

#[test]
fn the_one_that_was_struck_is_granted_the_lock_again() {
    assert_clean(&after_a_fault().at(4.0).granted(A).at(5.0).releases(A).judged());
}

#[test]
fn the_one_that_was_struck_gets_nothing_but_errors_for_longer_than_a_lease() {
    found(&after_a_fault().at(4.0).acquire_fails(A).at(10.6).acquire_fails(A).gives_up(A).judged());
}

#[test]
fn or_no_answer() {
    found(&after_a_fault().at(10.6).hears_nothing(A).judged());
}

#[test]
fn within_a_lease_it_may_fail() {
    let told = after_a_fault().at(10.4).acquire_fails(A);
    assert_clean(&told.at(10.8).granted(A).at(11.0).releases(A).judged());
}

#[test]
fn who_failed_within_a_lease_and_did_not_ask_again_leaves_a_doubt() {
    doubted(&after_a_fault().at(10.4).acquire_fails(A).gives_up(A).judged(), "asked for 1 times");
}

#[test]
fn a_grant_that_was_asked_for_before_the_end_is_not_another_one() {
    let told = after_a_fault().at(2.8).asks(A).at(3.2).granted(A).at(3.5).releases(A);
    doubted(&told.judged(), "nobody asked");
}

#[test]
fn where_nobody_asks_nothing_is_known() {
    doubted(&after_a_fault().judged(), "instance 0 is granted the lock again");
}

#[test]
fn another_instance_says_nothing_of_the_one_that_was_struck() {
    let told = after_a_fault().at(4.0).granted(B.on(0)).at(5.0).releases(B);
    doubted(&told.at(11.0).acquire_fails(C).gives_up(C).judged(), "nobody asked");
}

#[test]
fn who_is_only_refused_may_have_come_beside_a_holder() {
    let told = after_a_fault().at(9.0).granted(C).at(11.0).denied(A).gives_up(A);
    doubted(&told.at(12.0).releases(C).judged(), "asked for 1 times and not granted");
}

#[test]
fn when_the_one_that_was_struck_is_dead_any_other_will_do() {
    let told = after_a_fault().at(3.5).crashes(A);
    assert_clean(&told.clone().at(9.0).granted(C).at(9.5).releases(C).judged());
    found(&told.at(11.0).acquire_fails(C).gives_up(C).judged());
}

#[test]
fn what_fails_while_another_fault_strikes_is_no_proof() {
    let told = after_a_fault().at(10.0).fault_strikes_at(1, B);
    let judged = told.clone().at(11.0).acquire_fails(A).gives_up(A).judged();
    doubted(&judged, "asked for 1 times");
    found(&told.at(10.5).fault_ends(1).at(11.0).acquire_fails(A).gives_up(A).judged());
}

#[test]
fn a_driver_that_was_late_is_not_the_locks_fault() {
    let told = after_a_fault().at(10.6).asks(A).at(16.0).hears_nothing(A);
    let judged = told.at(16.0).driver_was_late(5.0).judged();
    assert_eq!(judged.count(Property::NotAgain), 0, "{judged:#?}");
    assert_eq!(judged.by_driver.len(), 1, "{judged:#?}");
}

#[test]
fn a_fault_that_does_not_end_leaves_a_doubt() {
    let told = sale_with_a_freeze("at = { time = \"1s\", instance = 0 }\nagain = true");
    let told = told.at(0.1).granted(B).at(0.5).releases(B).at(1.0).fault_strikes_at(0, A);
    doubted(&told.at(2.9).fault_is_proven().judged(), "had not ended");
}

#[test]
fn of_a_fault_that_does_not_ask_for_it_nothing_is_asked() {
    let told = sale_with_a_freeze("at = { time = \"1s\", instance = 0 }");
    let told = told.at(0.1).granted(B).at(0.5).releases(B).at(1.0).fault_strikes_at(0, A);
    let told = told.at(2.9).fault_is_proven().at(3.0).fault_ends(0);
    assert_clean(&told.at(11.0).acquire_fails(A).gives_up(A).judged());
}
