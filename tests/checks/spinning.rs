//! Waiters that ask over and over again, and those that only ask as often as they may.

use oversold::check::{Cause, Property, Role};
use oversold::verdict::Verdict;

use crate::history::{
    A, B, C, History, assert_clean, assert_found, assert_not_found, plan, the_one,
};

const SALE: &str = "kind = \"flash-sale\"\nstock = 100";

/// A holds the lock for 4.5 s; who waits for it asks every 500 ms.
fn waiting_for_a() -> History {
    waiting("retry_every = \"500ms\"\ngive_up_after = \"60s\"")
}

fn waiting(policy: &str) -> History {
    let waits = plan("token-lua", SALE, &format!("[lock.wait]\n{policy}"));
    History::of(waits, 1).at(0.0).granted(A).works(A, 4.5, 100)
}

/// B asks so many times, at this pace, and is answered by a refusal or an error.
fn asks_on(mut told: History, times: u32, every: f64, refused: bool) -> History {
    for n in 0..times {
        told = told.at(0.5 + f64::from(n) * every);
        told = match refused {
            true => told.denied(B),
            false => told.acquire_fails(B),
        };
    }
    told
}

#[test]
fn who_asks_again_at_once_is_spinning() {
    let judged = asks_on(waiting_for_a(), 40, 0.005, true).gives_up(B).at(4.5).releases(A).judged();
    assert_found(&judged, Property::BusySpinning, Cause::Mistake);
    let witness = &the_one(&judged, Property::BusySpinning).witnesses[0];
    assert_eq!((witness.op, witness.role), (B.number, Role::Waiter));
    assert_eq!((judged.lock, judged.business), (Verdict::Fail, Verdict::Pass));
}

#[test]
fn errors_are_no_reason_to_ask_again_at_once() {
    let judged = asks_on(waiting_for_a(), 40, 0.005, false).gives_up(B).at(4.5).releases(A).judged();
    assert_found(&judged, Property::BusySpinning, Cause::Mistake);
}

#[test]
fn it_is_told_once_however_long_it_goes_on() {
    let judged = asks_on(waiting_for_a(), 400, 0.005, true).gives_up(B).at(4.5).releases(A).judged();
    assert_found(&judged, Property::BusySpinning, Cause::Mistake);
}

#[test]
fn who_begins_to_spin_after_a_while_is_found_too() {
    let patient = asks_on(waiting_for_a(), 8, 0.4, true);
    let mut told = patient;
    for n in 0..64 {
        told = told.at(3.8 + f64::from(n) * 0.005).acquire_fails(B);
    }
    let judged = told.gives_up(B).at(4.5).releases(A).judged();
    assert_found(&judged, Property::BusySpinning, Cause::Mistake);
}

#[test]
fn who_keeps_the_pace_is_not() {
    let judged = asks_on(waiting_for_a(), 8, 0.5, true).gives_up(B).at(4.5).releases(A).judged();
    assert_clean(&judged);
}

#[test]
fn a_jitter_that_makes_some_pauses_short_is_no_spinning() {
    let judged = asks_on(waiting_for_a(), 40, 0.1, true).gives_up(B).at(4.5).releases(A).judged();
    assert_not_found(&judged, Property::BusySpinning);
}

#[test]
fn who_asks_once_an_operation_waits_for_nothing() {
    let told = History::of(plan("token-lua", SALE, ""), 1);
    let told = told.at(0.0).granted(A).works(A, 4.5, 100);
    let judged = asks_on(told, 40, 0.005, true).gives_up(B).at(4.5).releases(A).judged();
    assert_not_found(&judged, Property::BusySpinning);
}

#[test]
fn a_holder_that_asks_again_is_no_waiter() {
    let mut told = waiting_for_a();
    for n in 0..40 {
        told = told.at(0.5 + f64::from(n) * 0.005).denied(A);
    }
    assert_not_found(&told.at(4.5).releases(A).judged(), Property::BusySpinning);
}

/// B waits for a wake-up; another one has the lock 40 times for a moment, and gives it back or not.
fn woken(releases: bool) -> History {
    let policy = "[lock.wait]\nwake_up_within = \"60s\"";
    let mut told = History::of(plan("reentrant-watchdog", SALE, policy), 1);
    for n in 0..40u32 {
        let at = 0.5 + f64::from(n) * 0.01;
        told = told.at(at).denied(B);
        if releases {
            let holder = crate::history::Op { number: 20 + u64::from(n), ..C };
            told = told.at(at + 0.003).granted(holder).at(at + 0.005).releases(holder);
        }
    }
    told.gives_up(B)
}

#[test]
fn who_is_woken_by_each_release_asks_as_often() {
    assert_not_found(&woken(true).judged(), Property::BusySpinning);
    assert_found(&woken(false).judged(), Property::BusySpinning, Cause::Mistake);
}
