//! Watchdogs that cease to ask, and holders that are not told that their lease is lost: for each a
//! history that shows it, and twins that differ in one fact and must not be found.

use oversold::check::{Cause, Property, Role};
use oversold::history::event::Release;
use oversold::verdict::Verdict;

use crate::history::{
    A, B, C, History, assert_clean, assert_found, assert_not_found, sale_under, the_one,
};

// ---- watchdog-dead

/// A is in its section from the start; its watchdog is to ask every 1.67 s.
fn a_section() -> History {
    sale_under("token-lua-watchdog").at(0.0).granted(A).works(A, 4.8, 100)
}

#[test]
fn a_watchdog_that_does_not_ask_while_its_section_runs_is_dead() {
    let judged = a_section().at(4.8).releases(A).judged();
    assert_found(&judged, Property::WatchdogDead, Cause::Mistake);
    let finding = the_one(&judged, Property::WatchdogDead);
    assert_eq!((finding.witnesses[0].op, finding.witnesses[0].role), (A.number, Role::Holder));
    assert_eq!((judged.lock, judged.business), (Verdict::Fail, Verdict::Pass));
}

#[test]
fn one_that_asks_is_not() {
    assert_clean(&a_section().at(1.7).renews(A).at(3.4).renews(A).at(4.8).releases(A).judged());
}

#[test]
fn one_that_dies_in_the_middle_is_dead_too() {
    let judged = a_section().at(1.7).renews(A).at(5.5).releases(A).judged();
    assert_found(&judged, Property::WatchdogDead, Cause::Mistake);
}

#[test]
fn one_that_asks_far_too_late_was_dead_until_then() {
    let judged = a_section().at(3.6).renews(A).at(4.8).releases(A).judged();
    assert_found(&judged, Property::WatchdogDead, Cause::Mistake);
}

#[test]
fn one_that_dies_with_a_renewal_that_failed_is_dead() {
    let told = a_section().at(1.7).asks_to_renew(A).at(1.8).renewal_fails(A);
    let dead = told.clone().at(5.2).releases_and_hears(A, Release::Gone).judged();
    assert_found(&dead, Property::WatchdogDead, Cause::Mistake);
    let goes_on = told.at(3.4).renews(A).at(5.0).releases(A).judged();
    assert_not_found(&goes_on, Property::WatchdogDead);
}

#[test]
fn a_section_that_ends_before_its_watchdog_has_to_ask_needs_none() {
    assert_clean(&a_section().at(1.6).releases(A).judged());
}

#[test]
fn one_that_is_late_by_less_than_an_interval_lives() {
    assert_clean(&a_section().at(3.2).renews(A).at(4.8).releases(A).judged());
}

#[test]
fn one_that_waits_for_an_answer_lives() {
    let judged = a_section().at(1.7).asks_to_renew(A).at(4.8).releases(A).judged();
    assert_not_found(&judged, Property::WatchdogDead);
}

#[test]
fn one_that_has_told_the_loss_need_not_ask() {
    let judged = a_section()
        .at(1.7).asks_to_renew(A)
        .at(1.8).lease_lost(A)
        .at(7.0).releases_and_hears(A, Release::Gone)
        .judged();
    assert_not_found(&judged, Property::WatchdogDead);
}

#[test]
fn one_that_stands_still_with_its_instance_is_excused() {
    let excused = a_section().at(1.0).freezes(A).at(4.7).thaws(A).at(4.8).releases(A).judged();
    assert_not_found(&excused, Property::WatchdogDead);
    let other = a_section().at(1.0).freezes(B).at(4.7).thaws(B).at(4.8).releases(A).judged();
    assert_found(&other, Property::WatchdogDead, Cause::Mistake);
}

#[test]
fn one_that_the_driver_kept_back_is_excused() {
    let excused = a_section().at(4.7).driver_was_late(3.5).at(4.8).releases(A).judged();
    assert_not_found(&excused, Property::WatchdogDead);
    let other = a_section().at(4.7).driver_kept_back(B, 3.5).at(4.8).releases(A).judged();
    assert_found(&other, Property::WatchdogDead, Cause::Mistake);
}

#[test]
fn a_dead_process_needs_no_watchdog() {
    assert_not_found(&a_section().at(4.5).crashes(A).judged(), Property::WatchdogDead);
}

#[test]
fn a_lock_without_a_watchdog_needs_none() {
    let judged = sale_under("token-lua").at(0.0).granted(A).works(A, 4.8, 100).at(4.8).releases(A);
    assert_clean(&judged.judged());
}

#[test]
fn who_was_not_granted_anything_has_no_lease_to_keep() {
    let judged = sale_under("token-lua-watchdog")
        .at(0.0).denied(A).enters(A)
        .at(4.8).leaves(A).ends(A)
        .judged();
    assert_not_found(&judged, Property::WatchdogDead);
}

// ---- untold-loss

/// A stands still until its lease is over and B has been granted the lock; then it goes on, and its
/// watchdog too.
fn a_lease_that_goes_to_b() -> History {
    sale_under("token-lua-watchdog")
        .at(0.0).granted(A).works(A, 12.0, 100)
        .at(0.5).freezes(A)
        .at(5.1).granted(B).works(B, 1.0, 100)
        .at(6.0).thaws(A)
        .at(6.1).releases(B)
}

#[test]
fn who_renews_blindly_is_never_told_of_its_loss() {
    let judged = a_lease_that_goes_to_b()
        .at(6.2).granted(C).works(C, 1.0, 100).at(6.3).renews(A)
        .at(7.2).releases(C)
        .at(7.9).renews(A)
        .at(9.5).renews(A)
        .at(10.5).releases_and_hears(A, Release::NotMine)
        .judged();
    assert_found(&judged, Property::UntoldLoss, Cause::Mistake);
    assert_eq!(the_one(&judged, Property::UntoldLoss).witnesses[0].op, A.number);
}

#[test]
fn who_is_told_at_the_next_renewal_is_told_in_time() {
    let judged = a_lease_that_goes_to_b()
        .at(6.2).asks_to_renew(A)
        .at(6.3).lease_lost(A)
        .at(12.0).releases_and_hears(A, Release::Gone)
        .judged();
    assert_not_found(&judged, Property::UntoldLoss);
}

#[test]
fn who_is_told_at_last_is_told_too_late() {
    let judged = a_lease_that_goes_to_b()
        .at(10.0).asks_to_renew(A)
        .at(10.1).lease_lost(A)
        .at(12.0).releases_and_hears(A, Release::Gone)
        .judged();
    assert_found(&judged, Property::UntoldLoss, Cause::Mistake);
}

#[test]
fn whose_section_ends_soon_after_need_not_be_told() {
    let judged = a_lease_that_goes_to_b().at(8.0).releases_and_hears(A, Release::Gone).judged();
    assert_not_found(&judged, Property::UntoldLoss);
}

#[test]
fn who_could_not_be_told_for_the_drivers_lag_is_excused() {
    let judged = a_lease_that_goes_to_b()
        .at(10.4).driver_was_late(4.0)
        .at(10.5).releases_and_hears(A, Release::Gone)
        .judged();
    assert_not_found(&judged, Property::UntoldLoss);
}

#[test]
fn a_question_on_its_way_is_waited_for_within_the_clients_patience() {
    let asks = |patience: f64| {
        let mut told = a_lease_that_goes_to_b();
        told.plan.lock.response_timeout_ns = (patience * 1e9) as u64;
        let told = told.at(6.2).asks_to_renew(A).at(18.0).renewal_fails(A);
        told.at(18.1).releases_and_hears(A, Release::Gone).judged()
    };
    // It may have to connect anew first, for five seconds.
    assert_not_found(&asks(3.0), Property::UntoldLoss);
    assert_found(&asks(0.1), Property::UntoldLoss, Cause::RenewalFailed);
}

#[test]
fn a_lease_that_was_kept_alive_is_not_lost() {
    let judged = sale_under("token-lua-watchdog")
        .at(0.0).granted(A).works(A, 6.7, 100)
        .at(1.7).renews(A).at(3.4).renews(A).at(5.1).renews(A)
        .at(6.7).releases(A)
        .judged();
    assert_clean(&judged);
}
