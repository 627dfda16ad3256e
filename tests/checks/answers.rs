//! What a lock tells its caller against what the server had said, as the links heard it: for each
//! answer a history in which it is false, and a twin in which it is not.

use oversold::check::{Cause, Property, Role};
use oversold::history::event::Release;
use oversold::scenario::{Acknowledged, Mistake, Reply, Topology};

use crate::history::{
    A, B, History, assert_clean, assert_found, assert_not_found, sale_under, the_one,
};
use Reply::{Acquire, Renewal, Release as Released};

/// A sale under a lock whose servers stand behind links.
fn linked(lock: &str) -> History {
    let mut told = sale_under(lock);
    let (replicas, min_replicas_to_write) = (1, 0);
    told.plan.topology = Topology::Sentinel { replicas, min_replicas_to_write, down_after_ms: 500 };
    told
}

/// A asks at 1 s, and the server grants it or not; it has not heard yet.
fn asked(told: History, done: bool) -> History {
    told.at(1.0).asks(A).at(1.02).server_says(A, Acquire, 1.01, done).at(1.03)
}

/// A is in its section by right.
fn held(lock: &str) -> History {
    asked(linked(lock), true).granted(A)
}

/// A asks to release at 2 s, and the server does it or not; it has not heard yet.
fn released(told: History, done: bool) -> History {
    told.at(2.0).asks_to_release(A).at(2.02).server_says(A, Released, 2.01, done).at(2.03)
}

/// A asks to renew at 2.7 s, and the server does it or not; it has not heard yet.
fn renewed(done: bool) -> History {
    let told = held("token-lua-watchdog").at(2.7).asks_to_renew(A);
    told.at(2.72).server_says(A, Renewal, 2.71, done).at(2.73)
}

fn found(told: History, what: &str) {
    let judged = told.judged();
    assert_found(&judged, Property::FalseAnswer, Cause::Mistake);
    let finding = the_one(&judged, Property::FalseAnswer);
    assert!(finding.summary.contains(what), "{}", finding.summary);
    assert_eq!((finding.witnesses[0].op, finding.witnesses[0].role), (A.number, Role::Holder));
}

fn not_found(told: History) {
    assert_not_found(&told.judged(), Property::FalseAnswer);
}

#[test]
fn answers_that_the_server_gave_are_right() {
    assert_clean(&released(held("token-lua"), true).release_answered(A, Release::Removed).judged());
    let told = renewed(true).renewed(A).at(3.0).asks_to_release(A);
    let told = told.at(3.02).server_says(A, Released, 3.01, true).at(3.03);
    assert_clean(&told.release_answered(A, Release::Removed).judged());
}

// ---- the acquire

#[test]
fn a_grant_that_the_server_refused_is_false() {
    let told = asked(linked("token-lua"), false).granted(A);
    found(released(told, true).release_answered(A, Release::Removed), "had not granted it");
}

#[test]
fn a_fencing_token_that_the_server_did_not_draw_is_false() {
    let told = |said| {
        let asked = linked("fenced").at(1.0).asks(A);
        asked.at(1.02).server_says_a_number(A, Acquire, 1.01, true, Some(said)).at(1.03).granted_with(A, 7)
    };
    not_found(told(7));
    found(told(8), "the fencing token 7, and the server had said 8");
}

#[test]
fn a_lease_that_the_server_was_not_asked_for_is_false() {
    let ttl = linked("token-lua-watchdog").plan.ttl().as_secs_f64();
    let granted = |lease| {
        let asked = linked("token-lua-watchdog").at(1.0).asks(A);
        asked.at(1.02).server_leases(A, Acquire, 1.01, lease).at(1.03).granted(A)
    };
    not_found(granted(ttl));
    // Told less, as a lock on a majority is by its clocks' drift, it is on the safe side.
    not_found(granted(ttl + 1.0));
    found(granted(ttl / 2.0), "had been asked for");
    let renewed = |lease| {
        let asked = granted(ttl).at(2.7).asks_to_renew(A);
        asked.at(2.72).server_leases(A, Renewal, 2.71, lease).at(2.73).renewed(A)
    };
    not_found(renewed(ttl));
    found(renewed(ttl / 1000.0), "had been asked for");
}

#[test]
fn a_grant_that_an_earlier_question_was_answered_by_is_false() {
    let told = linked("token-lua")
        .at(0.5).asks(A).at(0.6).hears_nothing(A)
        .at(1.0).asks(A).at(1.01).server_says(A, Acquire, 0.51, true)
        .at(1.02).server_says(A, Acquire, 1.011, false)
        .at(1.03).granted(A);
    found(told, "had not granted it");
}

#[test]
fn a_refusal_of_what_the_server_granted_is_false() {
    found(asked(linked("token-lua"), true).denied(A).gives_up(A), "another has the lock");
    not_found(asked(linked("token-lua"), false).denied(A).gives_up(A));
}

#[test]
fn a_refusal_is_not_false_for_what_an_earlier_question_was_answered_by() {
    let told = linked("token-lua")
        .at(0.5).asks(A).at(0.9).hears_nothing(A)
        .at(1.0).asks(A).at(1.01).server_says(A, Acquire, 0.51, true)
        .at(1.02).server_says(A, Acquire, 1.011, false);
    not_found(told.at(1.03).denied(A).gives_up(A));
}

#[test]
fn an_error_after_the_server_granted_it_is_false() {
    found(asked(linked("token-lua"), true).acquire_fails(A).gives_up(A), "told of an error");
    not_found(asked(linked("token-lua"), false).acquire_fails(A).gives_up(A));
}

#[test]
fn an_error_is_not_false_where_replicas_have_not_acknowledged_the_grant() {
    let mut told = asked(linked("token-lua"), true).acquire_fails(A).gives_up(A);
    told.plan.lock.acknowledged = Some(Acknowledged { replicas: 1, bound_ns: 20_000_000 });
    not_found(told);
}

#[test]
fn not_to_know_is_never_false() {
    not_found(asked(linked("token-lua"), true).hears_nothing(A).gives_up(A));
    let unknown = Release::Unknown("timed out".to_owned());
    not_found(released(held("token-lua"), true).release_answered(A, unknown));
}

// ---- the release

#[test]
fn a_removal_that_the_server_did_not_do_is_false() {
    found(
        released(held("token-lua"), false).release_answered(A, Release::Removed),
        "had not removed it",
    );
}

#[test]
fn a_lock_that_is_said_to_be_gone_and_was_removed_is_false() {
    let answers = [Release::Gone, Release::NotMine, Release::Failed("OOM".to_owned())];
    for outcome in answers {
        let told = |done| released(held("token-lua"), done).release_answered(A, outcome.clone());
        found(told(true), "had removed it");
        not_found(told(false));
    }
}

#[test]
fn a_hold_count_that_the_server_did_not_say_is_false() {
    let told = |said| {
        held("reentrant-watchdog")
            .at(1.5).asks_to_release_inside(A)
            .at(1.52).server_says_a_number(A, Released, 1.51, false, said)
            .at(1.53).released_only(A, Release::StillHeld(1))
    };
    not_found(told(Some(1)));
    found(told(Some(2)), "1 holds are left, and the server had said 2");
    found(told(None), "had said nothing");
}

// ---- the renewal

#[test]
fn a_longer_lease_that_the_server_did_not_give_is_false() {
    found(renewed(false).renewed(A), "had not extended it");
    not_found(renewed(true).renewed(A));
}

#[test]
fn a_loss_of_what_the_server_extended_is_false() {
    found(renewed(true).lease_lost(A), "had extended it");
    not_found(renewed(false).lease_lost(A));
}

#[test]
fn a_loss_by_the_watchdogs_own_reckoning_says_nothing_of_the_server() {
    not_found(renewed(true).renewal_fails(A).lease_lost(A));
}

#[test]
fn a_renewal_that_is_asked_in_another_way_is_not_held_against_the_locks_own() {
    let mut told = renewed(false).renewed(A);
    told.plan.lock.mistake = Some(Mistake::RenewBlindly);
    not_found(told);
}

// ---- an answer that came too late

/// A has asked twice when a black hole lifts at 2 s, and both questions come to the server then.
fn late(first: bool, second: bool) -> History {
    linked("token-lua")
        .at(0.5).asks(A).at(0.8).hears_nothing(A)
        .at(1.9).asks(A)
        .at(2.01).server_says(A, Acquire, 2.0, first)
        .at(2.02).server_says(A, Acquire, 2.0, second)
}

#[test]
fn what_is_said_when_a_black_hole_lifts_may_be_meant_for_the_question_before() {
    not_found(late(true, false).at(2.03).denied(A).gives_up(A));
    not_found(late(false, true).at(2.03).granted(A));
    // An error may have come from nobody.
    not_found(late(true, false).at(2.03).acquire_fails(A).at(2.04).asks(A)
        .at(2.05).server_says(A, Acquire, 2.04, true).at(2.06).denied(A));
}

#[test]
fn who_was_answered_since_is_judged_again() {
    let told = late(true, false).at(2.03).denied(A).at(2.1).asks(A)
        .at(2.12).server_says(A, Acquire, 2.11, true).at(2.13).denied(A);
    found(told.gives_up(A), "another has the lock");
}

#[test]
fn the_next_operation_of_a_worker_hears_late_answers_too() {
    let next = |first: bool| {
        let next = A.next();
        linked("token-lua")
            .at(0.5).asks(A).at(0.8).hears_nothing(A).gives_up(A)
            .at(1.9).asks(next).at(2.01).server_says(next, Acquire, 2.0, first)
            .at(2.02).server_says(next, Acquire, 2.0, false).at(2.03).denied(next).gives_up(next)
    };
    not_found(next(true));
    not_found(next(false));
}

#[test]
fn a_late_answer_to_one_question_says_nothing_of_another() {
    let told = late(true, true).at(2.03).granted(A);
    let told = told.at(3.0).asks_to_release(A).at(3.02).server_says(A, Released, 3.01, false);
    found(told.at(3.03).release_answered(A, Release::Removed), "had not removed it");
}

#[test]
fn a_renewal_that_was_not_answered_makes_the_next_one_unsure() {
    let told = |again: bool| {
        let told = held("token-lua-watchdog").at(2.7).asks_to_renew(A).at(3.0).renewal_fails(A);
        let told = told.at(3.1).asks_to_renew(A).at(3.2).server_says(A, Renewal, 3.15, false);
        let told = told.at(3.3).renewed(A);
        match again {
            true => told.at(4.7).asks_to_renew(A).at(4.8)
                .server_says(A, Renewal, 4.75, false).at(4.9).renewed(A),
            false => told,
        }
    };
    not_found(told(false));
    found(told(true), "had not extended it");
}

// ---- who is heard

#[test]
fn what_was_said_to_another_worker_is_not_ones_own() {
    let told = linked("token-lua").at(1.0).asks(A).at(1.02).server_says(B, Acquire, 1.01, true);
    found(told.at(1.03).granted(A), "had not granted it");
}

#[test]
fn a_history_in_which_no_server_is_heard_is_believed() {
    not_found(linked("token-lua").at(1.0).granted(A).at(2.0).releases(A));
    let not_linked = asked(sale_under("token-lua"), false).granted(A);
    not_found(not_linked);
}

#[test]
fn of_several_servers_a_majority_must_have_granted_it() {
    let told = |grants: u32| {
        let mut told = sale_under("redlock");
        told.plan.topology = Topology::Quorum { nodes: 5 };
        told.plan.faults = a_fault_of_a_link();
        told = told.at(1.0).asks(A).at(1.02);
        for node in 0..5 {
            told = told.server_says(A, Acquire, 1.01, node < grants);
        }
        told.at(1.03)
    };
    not_found(told(3).granted(A));
    found(told(2).granted(A), "had not granted it");
    // It has released what came too late, on all of them.
    not_found(told(3).acquire_fails(A).gives_up(A));
}

fn a_fault_of_a_link() -> Vec<oversold::scenario::Fault> {
    let refuse = "[[fault]]\nkind = \"refuse\"\nat = { time = \"1s\" }\nfor = \"1s\"";
    crate::history::plan("redlock", "kind = \"flash-sale\"\nstock = 100", refuse).faults
}
