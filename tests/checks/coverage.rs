//! No pass without proof: each reason for which a run cannot answer, and a twin that can.

use oversold::check::{Judgement, Property};
use oversold::history::event::Stop;
use oversold::verdict::{Signal, Verdict};

use crate::history::{
    A, B, History, assert_clean, sale_under, sale_with_a_freeze, sale_with_a_planned_freeze, sold,
};

fn one_section(told: History) -> History {
    told.at(0.0).granted(A).at(1.0).releases(A)
}

fn assert_doubted(judged: &Judgement, why: &str) {
    let (lock, business) = (judged.lock, judged.business);
    assert_eq!((lock, business), (Verdict::Inconclusive, Verdict::Inconclusive));
    let doubts = &judged.doubts;
    assert!(doubts.len() == 1 && doubts[0].contains(why), "{doubts:?}");
}

#[test]
fn a_planned_fault_that_never_struck_proves_nothing() {
    let judged = one_section(sale_with_a_planned_freeze()).judged();
    assert_doubted(&judged, "planned fault 1 never struck");
}

#[test]
fn a_fault_that_struck_without_proof_proves_nothing() {
    let judged = one_section(sale_with_a_planned_freeze()).at(1.0).fault_strikes().judged();
    assert_doubted(&judged, "nothing proves that it landed: freeze of instance 0");
}

#[test]
fn a_fault_that_was_proven_leaves_no_doubt() {
    let told = one_section(sale_with_a_planned_freeze()).at(1.0).fault_strikes();
    let judged = told.at(9.0).fault_is_proven().judged();
    assert_clean(&judged);
    assert_eq!(judged.coverage.faults[0].struck, 1);
}

/// Struck three times.
fn struck_thrice() -> History {
    let told = sale_with_a_freeze("at = { time = \"1s\", every = \"9s\", times = 3 }");
    let told = one_section(told).at(1.0).fault_strikes();
    told.at(10.0).fault_strikes().at(19.0).fault_strikes()
}

#[test]
fn a_repeated_fault_of_which_no_strike_landed_proves_nothing() {
    let judged = struck_thrice().judged();
    assert_doubted(&judged, "freeze of instance 0 for 8s (landed 0 of 3 times)");
}

#[test]
fn a_repeated_fault_tells_how_many_of_its_strikes_landed() {
    let judged = struck_thrice().at(27.0).fault_is_proven().judged();
    assert_clean(&judged);
    let covered = &judged.coverage.faults[0];
    assert_eq!((covered.planned, covered.struck, covered.landed), (Some(3), 3, 1));
    assert_eq!(covered.times().as_deref(), Some("landed 1 of 3 times"));
}

#[test]
fn a_lock_that_nobody_contended_for_was_not_tested() {
    let judged = one_section(sale_under("token-lua")).without_bystander().judged();
    assert_doubted(&judged, "nobody contended");
}

#[test]
fn one_refusal_is_contention() {
    assert_clean(&one_section(sale_under("token-lua")).judged());
}

#[test]
fn a_run_without_a_section_tested_nothing() {
    let judged = sale_under("token-lua").at(0.0).denied(A).gives_up(A).judged();
    assert_doubted(&judged, "nobody entered a section");
}

#[test]
fn a_history_without_its_end_was_cut_off() {
    let judged = one_section(sale_under("token-lua")).cut_off().judged();
    assert_doubted(&judged, "cut off");
}

#[test]
fn a_run_whose_keys_could_not_be_looked_up_says_so() {
    let told = one_section(sale_under("token-lua")).at(2.0).keys_cannot_be_looked_up();
    assert_doubted(&told.judged(), "whether a key was left behind: not connected");
}

fn stopped(why: Stop) -> Judgement {
    one_section(sale_under("token-lua")).at(2.0).stops(why).judged()
}

#[test]
fn a_server_that_died_ends_the_test() {
    let told = one_section(sale_under("token-lua")).at(2.0).server_dies();
    let judged = told.stops(Stop::ServerDied).judged();
    assert_doubted(&judged, "the server died");
}

#[test]
fn an_interrupted_run_cannot_answer() {
    assert_doubted(&stopped(Stop::Signal(Signal::Sigint)), "interrupted");
    assert_doubted(&stopped(Stop::Signal(Signal::Sigterm)), "interrupted");
}

#[test]
fn a_run_that_came_to_its_own_end_can() {
    assert_clean(&stopped(Stop::DurationOver));
    assert_clean(&stopped(Stop::OperationsDone));
    assert_clean(&stopped(Stop::NothingLeft));
}

/// The lease of a lock without a watchdog lives for 5 s.
#[test]
fn a_driver_that_was_late_by_more_than_the_lease_proves_nothing() {
    let told = one_section(sale_under("token-lua"));
    let judged = told.clone().at(20.0).driver_was_late(5.1).judged();
    assert_doubted(&judged, "the driver was late by 5s");
    assert_clean(&told.at(20.0).driver_was_late(4.9).judged());
}

/// A watchdog that asks every third of it has two thirds to be late.
#[test]
fn a_watchdogs_driver_may_be_late_by_two_thirds_of_the_lease() {
    let told = one_section(sale_under("token-lua-watchdog"));
    let judged = told.clone().at(20.0).driver_was_late(3.4).judged();
    assert_doubted(&judged, "the driver was late by 3s");
    assert_clean(&told.at(20.0).driver_was_late(3.3).judged());
}

#[test]
fn a_drain_that_was_cut_leaves_a_doubt() {
    let judged = one_section(sale_under("token-lua")).at(2.0).drain_is_cut().judged();
    assert_doubted(&judged, "1 instances did not end in time");
}

#[test]
fn a_violation_outranks_every_doubt() {
    let told = sale_under("token-lua").at(0.0).granted(A).at(1.0).granted(B);
    let judged = told.cut_off().without_bystander().judged_with(sold(0));
    assert_eq!(judged.count(Property::Overlap), 1);
    assert_eq!((judged.lock, judged.business), (Verdict::Fail, Verdict::Inconclusive));
}
