//! Why a section was not alone: each cause, and a twin in which one fact makes it another one.

use oversold::check::{Cause, Judgement, Property};
use oversold::history::event::Release;
use oversold::verdict::Verdict;

use crate::history::{A, B, C, D, History, Op, assert_found, assert_not_found, sale_under, sold};

/// B comes in at a time, while A is in its section.
fn overlapped(told: History, by: f64) -> Judgement {
    told.at(by).granted(B).at(by + 1.0).leaves(B).judged()
}

/// The overlap's cause; or driver-lag, when it was no violation.
fn cause(judged: &Judgement) -> Cause {
    let all = judged.findings.iter().chain(&judged.by_driver);
    let mut overlaps = all.filter(|finding| finding.property == Property::Overlap);
    let first = overlaps.next().map(|finding| finding.cause);
    assert!(overlaps.next().is_none(), "{judged:#?}");
    first.expect("an overlap")
}

// ---- no-lock

#[test]
fn without_a_lock_there_is_no_lock() {
    let judged = sale_under("none").at(0.0).walks_in(A).at(1.0).walks_in(B).judged();
    assert_eq!(cause(&judged), Cause::NoLock);
}

#[test]
fn two_grants_of_a_lock_within_one_lease_are_not_explained() {
    let judged = sale_under("token-lua").at(0.0).granted(A).at(1.0).granted(B).judged();
    assert_eq!(cause(&judged), Cause::Unexplained);
    assert_eq!(judged.lock, Verdict::Fail);
}

// ---- lease-expired, for locks without a watchdog

#[test]
fn a_work_that_is_longer_than_the_lease_outlives_it() {
    let told = sale_under("token-lua").at(0.0).granted(A).works(A, 7.0, 100);
    assert_eq!(cause(&overlapped(told, 5.1)), Cause::LeaseExpired);
}

#[test]
fn a_slow_store_makes_a_short_work_outlive_its_lease() {
    let told = sale_under("token-lua").at(0.0).granted(A).works(A, 1.0, 100);
    assert_eq!(cause(&overlapped(told, 5.1)), Cause::LeaseExpired);
}

#[test]
fn the_drivers_lag_that_makes_a_short_work_outlive_its_lease_is_not_the_locks() {
    let told = sale_under("token-lua")
        .at(0.0).granted(A).works(A, 1.0, 100)
        .at(4.8).driver_was_late(4.0);
    let judged = overlapped(told, 5.1);
    assert_eq!(cause(&judged), Cause::DriverLag);
    assert_eq!(judged.lock, Verdict::Inconclusive);
    assert!(judged.doubts.iter().any(|why| why.contains("driver's own lag")));
}

#[test]
fn the_drivers_lag_in_one_instance_counts_for_that_instance_alone() {
    let held_up = |whom: Op| {
        let told = sale_under("token-lua")
            .at(0.0).granted(A).works(A, 1.0, 100)
            .at(4.8).driver_kept_back(whom, 4.0);
        cause(&overlapped(told, 5.1))
    };
    assert_eq!(held_up(A), Cause::DriverLag);
    assert_eq!(held_up(B), Cause::LeaseExpired);
}

#[test]
fn a_lag_that_was_measured_twice_happened_once() {
    let told = sale_under("token-lua")
        .at(0.0).granted(A).works(A, 1.0, 100)
        .at(1.2).driver_was_late(1.0)
        .at(1.2).driver_kept_back(A, 1.0);
    assert_eq!(cause(&overlapped(told, 5.1)), Cause::LeaseExpired);
}

#[test]
fn the_drivers_lag_before_the_work_began_is_not_the_locks_either() {
    let told = sale_under("token-lua")
        .at(0.0).granted(A)
        .at(4.5).driver_was_late(4.4).works(A, 1.0, 100);
    assert_eq!(cause(&overlapped(told, 5.1)), Cause::DriverLag);
}

#[test]
fn a_lag_that_did_not_matter_does_not_excuse_a_long_work() {
    let told = sale_under("token-lua")
        .at(0.0).granted(A).works(A, 7.0, 100)
        .at(4.5).driver_was_late(4.4);
    let judged = overlapped(told, 5.1);
    assert_eq!(cause(&judged), Cause::LeaseExpired);
    assert_eq!(judged.lock, Verdict::Fail);
}

#[test]
fn a_lag_that_is_recorded_after_the_entry_it_explains_counts() {
    let told = sale_under("token-lua")
        .at(0.0).granted(A).works(A, 1.0, 100)
        .at(5.103).driver_was_late(4.7);
    assert_eq!(cause(&overlapped(told, 5.1)), Cause::DriverLag);
}

#[test]
fn a_lag_after_the_lease_had_ended_excuses_nothing() {
    let told = sale_under("token-lua")
        .at(0.0).granted(A).works(A, 1.0, 100)
        .at(9.9).driver_was_late(4.8);
    assert_eq!(cause(&overlapped(told, 10.0)), Cause::LeaseExpired);
}

// ---- frozen-holder

#[test]
fn a_short_work_outlives_its_lease_in_a_frozen_instance() {
    let told = sale_under("token-lua")
        .at(0.0).granted(A).works(A, 1.0, 100)
        .at(0.5).freezes(A);
    assert_eq!(cause(&overlapped(told, 5.1)), Cause::FrozenHolder);
}

#[test]
fn a_freeze_of_another_instance_is_not_the_cause() {
    let told = sale_under("token-lua")
        .at(0.0).granted(A).works(A, 1.0, 100)
        .at(0.5).freezes(C);
    assert_eq!(cause(&overlapped(told, 5.1)), Cause::LeaseExpired);
}

#[test]
fn a_watchdog_stands_still_with_its_instance() {
    let told = sale_under("token-lua-watchdog")
        .at(0.0).granted(A).works(A, 7.0, 100)
        .at(1.7).renews(A)
        .at(1.8).freezes(A);
    assert_eq!(cause(&overlapped(told, 6.8)), Cause::FrozenHolder);
}

#[test]
fn a_moments_freeze_does_not_explain_renewals_that_failed() {
    let told = sale_under("token-lua-watchdog")
        .at(0.0).granted(A).works(A, 7.0, 100)
        .at(1.7).asks_to_renew(A)
        .at(1.8).freezes(A)
        .at(1.81).thaws(A)
        .at(2.7).renewal_fails(A);
    assert_eq!(cause(&overlapped(told, 5.1)), Cause::RenewalFailed);
}

#[test]
fn a_freeze_that_a_second_one_falls_into_counts_from_its_beginning() {
    let told = sale_under("token-lua-watchdog")
        .at(0.0).granted(A).works(A, 7.0, 100)
        .at(0.5).freezes(A)
        .at(4.9).freezes(A)
        .at(5.0).thaws(A);
    assert_eq!(cause(&overlapped(told, 5.1)), Cause::FrozenHolder);
}

#[test]
fn who_stood_still_between_its_grant_and_its_entry_is_the_one_whose_lease_ran_out() {
    let judged = sale_under("token-lua")
        .at(0.0).asks(A).freezes(A)
        .at(5.1).granted(B).works(B, 2.0, 100)
        .at(6.0).thaws(A).granted(A)
        .judged();
    assert_eq!(cause(&judged), Cause::FrozenHolder);
    assert!(judged.findings[0].summary.contains("granted the lock first"));
}

// ---- renewal-failed

/// A's watchdog asked for its renewal in time.
fn a_renewal_in_time() -> History {
    sale_under("token-lua-watchdog")
        .at(0.0).granted(A).works(A, 12.0, 100)
        .at(1.7).asks_to_renew(A)
}

#[test]
fn a_renewal_that_is_not_answered_lets_the_lease_run_out() {
    let judged = overlapped(a_renewal_in_time(), 5.1);
    assert_eq!(cause(&judged), Cause::RenewalFailed);
    assert_eq!(judged.lock, Verdict::Fail);
}

#[test]
fn a_renewal_that_fails_lets_the_lease_run_out() {
    let told = a_renewal_in_time().at(2.7).renewal_fails(A);
    assert_eq!(cause(&overlapped(told, 5.1)), Cause::RenewalFailed);
}

#[test]
fn a_renewal_that_the_driver_was_too_late_for_is_not_the_locks() {
    let told = a_renewal_in_time().at(4.9).driver_was_late(3.1);
    let judged = overlapped(told, 5.1);
    assert_eq!(cause(&judged), Cause::DriverLag);
    assert_eq!(judged.lock, Verdict::Inconclusive);
}

#[test]
fn a_little_lag_does_not_excuse_a_renewal_that_was_not_answered() {
    let told = a_renewal_in_time().at(4.9).driver_was_late(0.5);
    assert_eq!(cause(&overlapped(told, 5.1)), Cause::RenewalFailed);
}

#[test]
fn a_lag_after_a_renewal_has_failed_does_not_excuse_it() {
    let told = a_renewal_in_time().at(1.8).renewal_fails(A).at(4.9).driver_was_late(3.0);
    let judged = overlapped(told, 5.1);
    assert_eq!(cause(&judged), Cause::RenewalFailed);
    assert_eq!(judged.lock, Verdict::Fail);
}

#[test]
fn a_renewal_whose_answer_the_driver_was_too_late_to_hear_is_not_the_locks() {
    let told = a_renewal_in_time().at(4.9).driver_was_late(3.1).renewal_fails(A);
    assert_eq!(cause(&overlapped(told, 5.1)), Cause::DriverLag);
}

#[test]
fn a_lock_that_was_lost_stays_lost_whatever_a_late_renewal_says() {
    let judged = sale_under("token-lua-watchdog")
        .at(0.0).granted(A).works(A, 9.0, 100)
        .at(0.5).freezes(A)
        .at(5.1).asks(B)
        .at(5.2).thaws(A).asks_to_renew(A)
        .at(5.21).granted(B).works(B, 1.0, 100)
        .at(5.22).renewed(A)
        .at(6.2).releases(B)
        .at(6.3).granted(C).works(C, 0.5, 99)
        .at(6.8).releases(C)
        .at(9.0).releases_and_hears(A, Release::Gone)
        .judged();
    assert_eq!(causes(&judged), [Cause::FrozenHolder, Cause::FrozenHolder], "{judged:#?}");
    assert_not_found(&judged, Property::ForeignRenewal);
}

#[test]
fn a_watchdog_that_never_asks_is_not_excused_by_a_lag_that_nobody_measured() {
    let told = sale_under("token-lua-watchdog").at(0.0).granted(A).works(A, 7.0, 100);
    let judged = overlapped(told, 5.1);
    assert_eq!(cause(&judged), Cause::LeaseExpired);
    assert_eq!(judged.lock, Verdict::Fail);
}

#[test]
fn a_lock_that_the_server_has_lost_before_its_time_is_not_the_drivers_lag() {
    let told = a_renewal_in_time().at(1.8).lease_lost(A);
    let judged = overlapped(told, 5.1);
    assert_eq!(cause(&judged), Cause::Unexplained);
    assert_eq!(judged.lock, Verdict::Fail);
}

#[test]
fn a_lease_that_its_watchdog_gives_up_after_failures_ran_out_for_them() {
    let told = a_renewal_in_time()
        .at(2.7).renewal_fails(A)
        .at(3.4).asks_to_renew(A)
        .at(5.0).renewal_fails(A).lease_lost(A);
    assert_eq!(cause(&overlapped(told, 5.1)), Cause::RenewalFailed);
}

#[test]
fn renewals_in_time_leave_nothing_to_explain_an_overlap() {
    let told = a_renewal_in_time().at(1.71).renewed(A).at(3.4).renews(A);
    assert_eq!(cause(&overlapped(told, 5.1)), Cause::Unexplained);
}

// ---- foreign-release

/// A is slow, B comes in after its lease; A's release at 7 s is answered; C comes in beside B.
fn a_chain_in_which_the_first_release_is_answered(outcome: Release) -> Judgement {
    sale_under("set-nx-ex-del")
        .at(0.0).granted(A).works(A, 7.0, 100)
        .at(5.1).granted(B).works(B, 4.0, 100)
        .at(7.0).releases_and_hears(A, outcome)
        .at(7.5).granted(C)
        .judged()
}

fn causes(judged: &Judgement) -> Vec<Cause> {
    let overlaps = judged.findings.iter().chain(&judged.by_driver);
    let overlaps = overlaps.filter(|finding| finding.property == Property::Overlap);
    overlaps.map(|finding| finding.cause).collect()
}

#[test]
fn a_removed_lock_lets_the_next_one_in() {
    let judged = a_chain_in_which_the_first_release_is_answered(Release::Removed);
    assert_eq!(causes(&judged), [Cause::LeaseExpired, Cause::ForeignRelease]);
    assert!(judged.findings.iter().any(|f| f.summary.contains("operation 0 had removed")));
}

#[test]
fn a_lock_that_was_left_alone_does_not() {
    let judged = a_chain_in_which_the_first_release_is_answered(Release::NotMine);
    assert_eq!(causes(&judged), [Cause::LeaseExpired, Cause::Unexplained]);
}

#[test]
fn an_unanswered_release_may_have_let_the_next_one_in() {
    let lost = Release::Unknown("timed out".to_owned());
    let judged = a_chain_in_which_the_first_release_is_answered(lost);
    assert_eq!(causes(&judged), [Cause::LeaseExpired, Cause::ForeignRelease]);
}

#[test]
fn a_removed_lock_lets_the_next_one_in_before_the_release_is_answered() {
    let judged = sale_under("set-nx-ex-del")
        .at(0.0).granted(A).works(A, 7.0, 100)
        .at(5.1).granted(B).works(B, 4.0, 100)
        .at(7.0).asks_to_release(A)
        .at(7.002).granted(C)
        .at(7.003).release_answered(A, Release::Removed)
        .judged();
    assert_eq!(causes(&judged), [Cause::LeaseExpired, Cause::ForeignRelease]);
}

#[test]
fn a_release_that_a_crash_cut_off_may_have_let_the_next_one_in() {
    let judged = sale_under("set-nx-ex-del")
        .at(0.0).granted(A).works(A, 7.0, 100)
        .at(5.1).granted(B).works(B, 4.0, 100)
        .at(7.0).asks_to_release(A)
        .at(7.001).crashes(A)
        .at(7.5).granted(C)
        .judged();
    assert_eq!(causes(&judged), [Cause::LeaseExpired, Cause::ForeignRelease]);
}

#[test]
fn the_owners_own_release_before_a_grant_is_not_blamed_for_what_follows() {
    let judged = sale_under("set-nx-ex-del")
        .at(0.0).granted(A).works(A, 1.0, 100)
        .at(0.999).asks(B)
        .at(1.0).asks_to_release(A)
        .at(1.002).granted(B).works(B, 4.0, 99)
        .at(1.003).release_answered(A, Release::Removed)
        .at(3.0).granted(C)
        .judged();
    assert_eq!(causes(&judged), [Cause::Unexplained]);
}

#[test]
fn a_victim_that_left_its_section_in_time_removes_the_next_lock_by_foreign_release() {
    let judged = sale_under("set-nx-ex-del")
        .at(0.0).granted(A).works(A, 6.0, 100)
        .at(5.1).granted(B).works(B, 1.0, 100)
        .at(6.0).releases(A)
        .at(6.1).leaves(B)
        .at(6.2).granted(C).works(C, 1.0, 99)
        .at(6.5).asks_to_release(B)
        .at(6.6).release_answered(B, Release::Removed)
        .at(6.7).granted(D)
        .judged();
    let foreign = judged.findings.iter().filter(|f| f.property == Property::ForeignRelease);
    let foreign: Vec<_> = foreign.map(|finding| finding.cause).collect();
    assert_eq!(foreign, [Cause::LeaseExpired, Cause::ForeignRelease], "{judged:#?}");
}

#[test]
fn what_follows_from_a_lock_lost_by_the_drivers_lag_is_the_drivers_too() {
    let judged = sale_under("set-nx-ex-del")
        .at(0.0).granted(A).works(A, 1.0, 100)
        .at(5.0).driver_was_late(4.5)
        .at(5.1).granted(B).works(B, 3.0, 100)
        .at(5.2).releases(A)
        .at(5.3).granted(C)
        .judged();
    assert_eq!(causes(&judged), [Cause::DriverLag, Cause::DriverLag], "{judged:#?}");
    assert_eq!(judged.count(Property::ForeignRelease), 0);
    assert_eq!(judged.lock, Verdict::Inconclusive);
}

#[test]
fn a_lag_that_cost_another_its_lock_does_not_excuse_ones_own_slowness() {
    let judged = sale_under("set-nx-ex-del")
        .at(0.0).granted(A).works(A, 1.0, 100)
        .at(5.0).driver_was_late(4.5)
        .at(5.1).granted(B).works(B, 9.0, 100)
        .at(5.2).releases_and_hears(A, Release::Gone)
        .at(10.2).granted(C).works(C, 9.0, 100)
        .at(14.0).releases(B)
        .judged();
    assert_eq!(causes(&judged), [Cause::LeaseExpired, Cause::DriverLag], "{judged:#?}");
    assert_found(&judged, Property::ForeignRelease, Cause::LeaseExpired);
}

// ---- mistake: a lock that is asked for once more, and given back with that

#[test]
fn who_asks_for_its_own_lock_once_more_may_have_given_it_back() {
    let told = |whose: Op| {
        let told = sale_under("redlock").at(0.0).granted(A).works(A, 3.0, 100);
        cause(&told.at(1.0).denied(whose).at(1.1).granted(B).judged())
    };
    assert_eq!(told(A), Cause::Mistake);
    assert_eq!(told(C), Cause::Unexplained);
}

#[test]
fn it_may_be_given_back_before_the_answer_comes() {
    let told = sale_under("redlock").at(0.0).granted(A).works(A, 3.0, 100);
    assert_eq!(cause(&told.at(1.0).asks(A).at(1.1).granted(B).judged()), Cause::Mistake);
}

#[test]
fn who_gives_its_lock_back_inside_its_section_may_have_nothing_left_of_it() {
    let told = sale_under("token-lua").at(0.0).granted(A).works(A, 3.0, 100);
    let told = told.at(1.0).asks_to_release_inside(A).at(1.1).granted(B);
    assert_eq!(cause(&told.judged()), Cause::Mistake);
}

#[test]
fn who_holds_it_twice_and_gives_one_hold_back_still_has_it() {
    let told = sale_under("reentrant-watchdog")
        .at(0.0).granted(A).works(A, 3.0, 100)
        .at(0.5).granted_only(A)
        .at(0.6).asks_to_release_inside(A)
        .at(0.7).released_only(A, Release::StillHeld(1));
    assert_eq!(cause(&told.at(1.1).granted(B).judged()), Cause::Unexplained);
}

// ---- evicted

#[test]
fn an_evicted_key_lets_the_next_one_in() {
    let told = sale_under("token-lua").at(0.0).granted(A).at(1.0).evicts(0);
    assert_eq!(cause(&overlapped(told, 1.1)), Cause::Evicted);
}

#[test]
fn an_eviction_that_is_heard_after_the_entry_it_explains_counts() {
    let heard = |at| sale_under("token-lua").at(0.0).granted(A).at(at).evicts(0);
    assert_eq!(cause(&overlapped(heard(1.101), 1.1)), Cause::Evicted);
    assert_eq!(cause(&overlapped(heard(1.3), 1.1)), Cause::Unexplained);
}

#[test]
fn an_eviction_before_the_grant_does_not() {
    let told = sale_under("token-lua").at(0.5).evicts(0).at(1.0).granted(A);
    assert_eq!(cause(&overlapped(told, 1.1)), Cause::Unexplained);
}

// ---- promotion-lost-grant

#[test]
fn a_promoted_replica_without_the_key_lets_the_next_one_in() {
    let told = |held: &[u32]| sale_under("token-lua").at(0.0).granted(A).at(1.0).promotes(held);
    assert_eq!(cause(&overlapped(told(&[]), 1.1)), Cause::PromotionLostGrant);
    assert_eq!(cause(&overlapped(told(&[0]), 1.1)), Cause::Unexplained);
}

#[test]
fn a_promotion_that_is_seen_after_the_entry_it_explains_counts() {
    let seen = |at| sale_under("token-lua").at(0.0).granted(A).at(at).promotes(&[]);
    assert_eq!(cause(&overlapped(seen(1.101), 1.1)), Cause::PromotionLostGrant);
    assert_eq!(cause(&overlapped(seen(1.3), 1.1)), Cause::Unexplained);
}

#[test]
fn a_promotion_before_the_grant_or_after_the_lease_lost_no_grant() {
    let before = sale_under("token-lua").at(0.5).promotes(&[]).at(1.0).granted(A);
    assert_eq!(cause(&overlapped(before, 1.1)), Cause::Unexplained);
    let after = sale_under("token-lua").at(0.0).granted(A).works(A, 7.0, 100).at(5.05).promotes(&[]);
    assert_eq!(cause(&overlapped(after, 5.1)), Cause::LeaseExpired);
}

// ---- server-lost-data, server-clock

#[test]
fn a_server_that_restarts_without_the_key_lets_the_next_one_in() {
    let told = |lost: &[u32]| {
        sale_under("token-lua").at(0.0).granted(A).at(1.0).restarts_without(lost)
    };
    assert_eq!(cause(&overlapped(told(&[0]), 1.1)), Cause::ServerLostData);
    assert_eq!(cause(&overlapped(told(&[]), 1.1)), Cause::Unexplained);
}

#[test]
fn a_clock_that_jumps_over_the_end_of_a_lease_lets_the_next_one_in() {
    let told = |by, lost: &[u32]| {
        sale_under("token-lua").at(0.0).granted(A).at(1.0).clock_jumps(by, lost)
    };
    assert_eq!(cause(&overlapped(told(9.0, &[0]), 1.1)), Cause::ServerClock);
    assert_eq!(cause(&overlapped(told(2.0, &[]), 1.1)), Cause::Unexplained);
    assert_eq!(cause(&overlapped(told(-9.0, &[]), 1.1)), Cause::Unexplained);
}

#[test]
fn a_watchdog_that_hears_of_it_changes_nothing_about_the_cause() {
    let told = sale_under("token-lua-watchdog")
        .at(0.0).granted(A)
        .at(1.0).restarts_without(&[0])
        .at(1.7).asks_to_renew(A)
        .at(1.71).lease_lost(A);
    assert_eq!(cause(&overlapped(told, 1.8)), Cause::ServerLostData);
}

#[test]
fn what_a_server_lost_before_the_grant_or_after_the_lease_or_the_entry_is_no_cause() {
    let before = sale_under("token-lua").at(0.5).restarts_without(&[0]).at(1.0).granted(A);
    assert_eq!(cause(&overlapped(before, 1.1)), Cause::Unexplained);
    let before = sale_under("token-lua").at(0.5).clock_jumps(9.0, &[0]).at(1.0).granted(A);
    assert_eq!(cause(&overlapped(before, 1.1)), Cause::Unexplained);
    let over = sale_under("token-lua").at(0.0).granted(A).works(A, 7.0, 100);
    let over = over.at(5.05).restarts_without(&[0]);
    assert_eq!(cause(&overlapped(over, 5.1)), Cause::LeaseExpired);
    let after = sale_under("token-lua").at(0.0).granted(A).at(1.0).granted(B);
    let after = after.at(1.02).clock_jumps(9.0, &[0]).at(2.0).leaves(B).judged();
    assert_eq!(cause(&after), Cause::Unexplained);
}

// ---- holder-crashed, reply-lost

#[test]
fn a_dead_holders_key_is_left_behind_by_its_crash_and_a_lost_answers_by_that() {
    let left = |told: History| told.at(9.0).key_is_left(0, None).judged_with(sold(0));
    let crashed = left(sale_under("setnx-expire-del").at(0.0).asks(A).at(0.1).crashes(A));
    assert_found(&crashed, Property::OrphanKey, Cause::HolderCrashed);
    let lost = left(sale_under("setnx-expire-del").at(0.1).hears_nothing(A).gives_up(A));
    assert_found(&lost, Property::OrphanKey, Cause::ReplyLost);
    let neither = left(sale_under("setnx-expire-del").at(0.1).denied(A).gives_up(A));
    assert_found(&neither, Property::OrphanKey, Cause::Unexplained);
}

#[test]
fn an_answer_that_the_standing_driver_did_not_hear_was_not_lost() {
    let late = |seconds| {
        sale_under("setnx-expire-del")
            .at(0.0).asks(A)
            .at(2.0).driver_was_late(seconds)
            .at(2.01).hears_nothing(A).gives_up(A)
            .at(9.0).key_is_left(0, None)
            .judged_with(sold(0))
    };
    assert!(late(1.5).findings.is_empty());
    assert_eq!(late(1.5).by_driver[0].property, Property::OrphanKey);
    assert_found(&late(0.5), Property::OrphanKey, Cause::ReplyLost);
}

#[test]
fn a_crash_before_a_later_grant_is_not_the_cause_of_what_that_one_leaves() {
    let judged = sale_under("setnx-expire-del")
        .at(0.0).asks(A)
        .at(0.1).crashes(A)
        .at(5.5).granted(B)
        .at(6.0).releases_and_hears(B, Release::Failed("READONLY".to_owned()))
        .at(13.5).key_is_left(0, None)
        .judged();
    assert_found(&judged, Property::OrphanKey, Cause::Unexplained);
    assert_not_found(&judged, Property::Overlap);
}

// ---- a chain of removals that the driver's lag began

/// A's lease runs out by lag; its release takes B's lock, B's takes C's: a chain of two at a time.
/// Then the key lies free, and C is granted it anew before B's release is answered.
fn chain(began: History) -> History {
    began
        .at(5.1).granted(B).works(B, 1.0, 100)
        .at(5.2).leaves(A).releases(A)
        .at(5.3).asks(C)
        .at(5.4).leaves(B).asks_to_release(B)
        .at(5.5).release_answered(B, Release::Removed)
        .at(5.6).granted_only(C).enters(C).works(C, 1.0, 99)
        .at(5.7).granted(D)
        .at(6.0).leaves(D).releases(D)
        .at(6.1).leaves(C).releases_and_hears(C, Release::Gone)
}

#[test]
fn a_chain_of_removals_that_the_drivers_lag_began_stays_the_drivers_over_a_moment_of_rest() {
    let lagged = sale_under("set-nx-ex-del")
        .at(0.0).granted(A).works(A, 1.0, 100)
        .at(4.8).driver_was_late(4.0);
    let judged = chain(lagged).judged();
    assert_eq!(causes(&judged), [Cause::DriverLag, Cause::DriverLag], "{judged:#?}");
    assert!(judged.findings.is_empty(), "{judged:#?}");
    assert_eq!(judged.lock, Verdict::Inconclusive);
}

#[test]
fn the_same_chain_that_a_long_work_began_is_the_locks() {
    let slow = sale_under("set-nx-ex-del").at(0.0).granted(A).works(A, 7.0, 100);
    let judged = chain(slow).judged();
    assert_eq!(causes(&judged), [Cause::LeaseExpired, Cause::ForeignRelease], "{judged:#?}");
    assert_eq!(judged.lock, Verdict::Fail);
}

#[test]
fn a_release_that_the_driver_sent_too_late_is_the_drivers_although_it_was_asked_in_time() {
    let judged = sale_under("set-nx-ex-del")
        .at(0.0).granted(A).works(A, 0.1, 100)
        .at(0.2).leaves(A).asks_to_release(A)
        .at(5.9).driver_was_late(5.6)
        .at(6.0).granted(B).works(B, 1.0, 99)
        .at(6.1).release_answered(A, Release::Removed)
        .at(6.2).granted(C)
        .judged();
    assert_eq!(causes(&judged), [Cause::DriverLag], "{judged:#?}");
}

#[test]
fn a_release_that_was_asked_too_late_without_any_lag_is_the_locks() {
    let judged = sale_under("set-nx-ex-del")
        .at(0.0).granted(A).works(A, 0.1, 100)
        .at(5.8).leaves(A).asks_to_release(A)
        .at(6.0).granted(B).works(B, 1.0, 99)
        .at(6.1).release_answered(A, Release::Removed)
        .at(6.2).granted(C)
        .judged();
    assert_eq!(causes(&judged), [Cause::ForeignRelease], "{judged:#?}");
}

#[test]
fn a_lock_that_was_upset_by_lag_and_met_nobody_passes_the_upset_on() {
    let judged = sale_under("set-nx-ex-del")
        .at(0.0).granted(A).works(A, 0.1, 100)
        .at(4.9).driver_was_late(4.6)
        .at(5.0).asks(B)
        .at(5.1).leaves(A).releases(A)
        .at(5.2).granted_only(B).enters(B).works(B, 1.0, 100)
        .at(6.0).asks(C)
        .at(6.2).leaves(B).asks_to_release(B)
        .at(6.3).release_answered(B, Release::Removed)
        .at(6.4).granted_only(C).enters(C).works(C, 1.0, 99)
        .at(6.5).granted(D)
        .judged();
    assert_eq!(causes(&judged), [Cause::DriverLag], "{judged:#?}");
}
