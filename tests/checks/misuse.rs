//! What people do wrong around a lock that is right: for each of it a history that shows it, and a
//! twin that differs in one fact and must not be found.

use oversold::check::{Cause, Property, Role};
use oversold::history::event::Release;
use oversold::store::Ledger;
use oversold::verdict::Verdict;

use crate::history::{
    A, B, C, History, assert_clean, assert_found, assert_not_found, sale_under, sold, the_one,
};

// ---- entry-without-grant: denial-ignored, fail-open

#[test]
fn who_enters_after_a_refusal_has_ignored_the_denial() {
    let judged = sale_under("token-lua")
        .at(0.0).granted(A)
        .at(1.0).releases(A)
        .at(2.0).denied(B).enters(B)
        .at(3.0).leaves(B).ends(B)
        .judged();
    assert_found(&judged, Property::EntryWithoutGrant, Cause::DenialIgnored);
    assert_eq!((judged.lock, judged.business), (Verdict::Fail, Verdict::Pass));
}

#[test]
fn who_is_refused_and_gets_it_later_has_ignored_nothing() {
    let judged = sale_under("token-lua")
        .at(0.0).granted(A)
        .at(0.5).denied(B)
        .at(1.0).releases(A)
        .at(2.0).granted(B)
        .at(3.0).releases(B)
        .judged();
    assert_clean(&judged);
}

#[test]
fn who_enters_after_an_error_has_failed_open() {
    let judged = sale_under("token-lua")
        .at(2.0).acquire_fails(A).enters(A)
        .at(3.0).leaves(A).ends(A)
        .judged();
    assert_found(&judged, Property::EntryWithoutGrant, Cause::FailOpen);
}

#[test]
fn who_enters_without_an_answer_has_failed_open_too() {
    let judged = sale_under("token-lua")
        .at(2.0).hears_nothing(A).enters(A)
        .at(3.0).leaves(A).ends(A)
        .judged();
    assert_found(&judged, Property::EntryWithoutGrant, Cause::FailOpen);
}

#[test]
fn who_gives_up_after_an_error_has_not() {
    let judged = sale_under("token-lua")
        .at(2.0).acquire_fails(A).gives_up(A)
        .at(3.0).granted(B)
        .at(4.0).releases(B)
        .judged();
    assert_clean(&judged);
}

#[test]
fn the_last_answer_decides_whether_a_denial_was_ignored() {
    let failed_last = sale_under("token-lua").at(1.0).denied(A).at(2.0).acquire_fails(A).enters(A);
    assert_found(&failed_last.judged(), Property::EntryWithoutGrant, Cause::FailOpen);
    let denied_last = sale_under("token-lua").at(1.0).acquire_fails(A).at(2.0).denied(A).enters(A);
    assert_found(&denied_last.judged(), Property::EntryWithoutGrant, Cause::DenialIgnored);
}

// ---- release-unacquired

/// A is in its section; B is refused, releases all the same, and is answered.
fn a_release_of_nothing_that_is_answered(outcome: Release) -> History {
    sale_under("set-nx-ex-del")
        .at(0.0).granted(A).works(A, 3.0, 100)
        .at(1.0).denied(B)
        .at(1.1).asks_to_release(B)
        .at(1.2).released_only(B, outcome).gives_up(B)
}

#[test]
fn a_release_by_who_was_refused_is_one_of_what_was_not_acquired() {
    let judged = a_release_of_nothing_that_is_answered(Release::NotMine)
        .at(3.0).releases(A)
        .judged();
    assert_found(&judged, Property::ReleaseUnacquired, Cause::Mistake);
    assert_not_found(&judged, Property::ForeignRelease);
    let finding = the_one(&judged, Property::ReleaseUnacquired);
    assert_eq!(finding.witnesses[0].op, B.number);
    assert!(!finding.summary.contains("another's lock"), "{}", finding.summary);
    assert_eq!((judged.lock, judged.business), (Verdict::Fail, Verdict::Pass));
}

#[test]
fn a_release_that_removes_anothers_lock_says_so_and_lets_the_next_one_in() {
    let judged = a_release_of_nothing_that_is_answered(Release::Removed)
        .at(2.0).granted(C)
        .at(2.5).releases(C)
        .at(3.0).releases_and_hears(A, Release::Gone)
        .judged();
    let finding = the_one(&judged, Property::ReleaseUnacquired);
    assert!(finding.summary.contains("removed another's lock"), "{}", finding.summary);
    assert_found(&judged, Property::Overlap, Cause::ForeignRelease);
}

#[test]
fn a_release_of_nothing_lets_the_next_one_in_before_it_is_answered() {
    let judged = sale_under("set-nx-ex-del")
        .at(0.0).granted(A).works(A, 3.0, 100)
        .at(1.0).denied(B).asks_to_release(B)
        .at(1.01).granted(C)
        .at(1.02).released_only(B, Release::Removed).gives_up(B)
        .at(2.5).releases(C)
        .at(3.0).releases_and_hears(A, Release::Gone)
        .judged();
    assert_found(&judged, Property::Overlap, Cause::ForeignRelease);
}

#[test]
fn a_release_of_nothing_that_left_the_lock_alone_explains_no_overlap() {
    let judged = a_release_of_nothing_that_is_answered(Release::NotMine)
        .at(2.0).granted(C)
        .at(2.5).releases(C)
        .at(3.0).releases_and_hears(A, Release::Gone)
        .judged();
    assert_found(&judged, Property::Overlap, Cause::Unexplained);
}

#[test]
fn who_was_refused_and_only_gives_up_has_released_nothing() {
    let judged = sale_under("set-nx-ex-del")
        .at(0.0).granted(A).works(A, 3.0, 100)
        .at(1.0).denied(B).gives_up(B)
        .at(3.0).releases(A)
        .judged();
    assert_clean(&judged);
}

// ---- nested-acquire

#[test]
fn a_holder_that_is_refused_its_own_lock_waits_for_itself() {
    let judged = sale_under("token-lua")
        .at(0.0).granted(A)
        .at(1.0).denied(A)
        .at(2.0).releases(A)
        .judged();
    assert_found(&judged, Property::NestedAcquire, Cause::Mistake);
    let witness = &the_one(&judged, Property::NestedAcquire).witnesses[0];
    assert_eq!((witness.op, witness.role), (A.number, Role::Holder));
}

#[test]
fn a_reentrant_lock_that_is_granted_again_is_no_nested_acquire() {
    let judged = sale_under("reentrant-watchdog")
        .at(0.0).granted(A)
        .at(1.0).granted_only(A)
        .at(1.1).asks_to_release_inside(A).at(1.2).released_only(A, Release::StillHeld(1))
        .at(2.0).releases(A)
        .judged();
    assert_clean(&judged);
}

#[test]
fn another_one_that_is_refused_is_no_nested_acquire() {
    let judged = sale_under("token-lua")
        .at(0.0).granted(A)
        .at(1.0).denied(B).gives_up(B)
        .at(2.0).releases(A)
        .judged();
    assert_clean(&judged);
}

#[test]
fn who_has_nothing_and_asks_for_it_waits_for_another() {
    let without_a_grant = sale_under("token-lua")
        .at(0.0).denied(A).enters(A)
        .at(1.0).denied(A)
        .at(2.0).leaves(A).ends(A)
        .judged();
    assert_not_found(&without_a_grant, Property::NestedAcquire);
    let after_its_release = sale_under("token-lua")
        .at(0.0).granted(A)
        .at(1.0).releases_and_goes_on(A)
        .at(1.1).granted(B)
        .at(1.2).denied(A).ends(A)
        .at(2.0).releases(B)
        .judged();
    assert_not_found(&after_its_release, Property::NestedAcquire);
}

// ---- wrong-ttl

fn a_lease_of(seconds: f64) -> History {
    sale_under("token-lua")
        .at(0.0).granted_for(A, seconds)
        .at(0.002).releases(A)
}

#[test]
fn a_lease_in_the_wrong_unit_is_found_whichever_way_it_is_wrong() {
    assert_found(&a_lease_of(5_000.0).judged(), Property::WrongTtl, Cause::Mistake);
    assert_found(&a_lease_of(0.005).judged(), Property::WrongTtl, Cause::Mistake);
    let finding = &a_lease_of(5_000.0).judged().findings[0];
    assert!(finding.summary.contains("a lease of 5000s, and the plan says 5s"));
}

#[test]
fn a_lease_of_about_the_planned_length_is_not_wrong() {
    for seconds in [2.5, 4.9, 5.0, 5.1, 10.0] {
        assert_clean(&a_lease_of(seconds).judged());
    }
}

#[test]
fn a_wrong_lease_is_told_once_however_often_it_is_granted() {
    let told = a_lease_of(5_000.0).at(1.0).granted_for(B, 5_000.0).at(2.0).releases(B);
    assert_found(&told.judged(), Property::WrongTtl, Cause::Mistake);
}

#[test]
fn who_takes_no_lock_has_no_lease_that_could_be_wrong() {
    let judged = sale_under("none").at(0.0).walks_in(A).at(1.0).leaves(A).ends(A).judged();
    assert_not_found(&judged, Property::WrongTtl);
}

// ---- foreign-renewal

/// A stands still until its lease is over and B has been granted the lock; then it goes on.
fn a_pause_in_which_the_lock_goes_to_b() -> History {
    sale_under("token-lua-watchdog")
        .at(0.0).granted(A).works(A, 9.0, 100)
        .at(0.5).freezes(A)
        .at(5.1).granted(B).works(B, 3.0, 100)
        .at(6.0).thaws(A)
}

#[test]
fn a_renewal_that_works_after_the_lock_went_to_another_is_foreign() {
    let judged = a_pause_in_which_the_lock_goes_to_b()
        .at(6.1).renews(A)
        .at(8.0).releases_and_hears(B, Release::Removed)
        .at(9.0).releases_and_hears(A, Release::Gone)
        .judged();
    assert_found(&judged, Property::ForeignRenewal, Cause::Mistake);
    assert_eq!(the_one(&judged, Property::ForeignRenewal).witnesses[0].op, A.number);
}

#[test]
fn a_renewal_of_anothers_lease_makes_ones_own_no_longer() {
    let judged = a_pause_in_which_the_lock_goes_to_b()
        .at(6.1).renews(A)
        .at(8.0).releases_and_hears(B, Release::Removed)
        .at(8.1).granted(C)
        .at(8.5).releases(C)
        .at(9.0).releases_and_hears(A, Release::Gone)
        .judged();
    assert_eq!(judged.count(Property::Overlap), 2);
    assert!(judged.findings.iter().all(|f| f.cause != Cause::Unexplained), "{judged:?}");
}

#[test]
fn a_renewal_that_tells_the_loss_is_not() {
    let judged = a_pause_in_which_the_lock_goes_to_b()
        .at(6.1).asks_to_renew(A)
        .at(6.2).lease_lost(A)
        .at(8.0).releases_and_hears(B, Release::Removed)
        .at(9.0).releases_and_hears(A, Release::Gone)
        .judged();
    assert_not_found(&judged, Property::ForeignRenewal);
    assert_found(&judged, Property::Overlap, Cause::FrozenHolder);
}

#[test]
fn a_renewal_while_the_lease_is_ones_own_is_not() {
    let judged = sale_under("token-lua-watchdog")
        .at(0.0).granted(A).works(A, 4.0, 100)
        .at(1.7).renews(A)
        .at(3.4).renews(A)
        .at(4.0).releases(A)
        .at(5.0).granted(B)
        .at(6.0).releases(B)
        .judged();
    assert_clean(&judged);
}

#[test]
fn a_renewal_that_was_asked_before_the_lock_went_to_another_is_not() {
    let judged = sale_under("token-lua-watchdog")
        .at(0.0).granted(A).works(A, 9.0, 100)
        .at(4.9).asks_to_renew(A)
        .at(5.1).granted(B).works(B, 3.0, 100)
        .at(5.2).renewed(A)
        .judged();
    assert_not_found(&judged, Property::ForeignRenewal);
}

#[test]
fn a_renewal_of_anothers_lease_after_the_release_is_told_once() {
    let judged = a_pause_in_which_the_lock_goes_to_b()
        .at(6.5).asks_to_release(A)
        .at(6.6).released_only(A, Release::NotMine)
        .at(7.0).renews(A)
        .at(7.5).ends(A)
        .at(8.0).releases(B)
        .judged();
    assert_found(&judged, Property::RenewalAfterRelease, Cause::Mistake);
    assert_not_found(&judged, Property::ForeignRenewal);
}

// ---- renewal-after-release

/// A's watchdog renewed once, and A has released; something of it may go on.
fn a_section_that_has_released() -> History {
    sale_under("token-lua-watchdog")
        .at(0.0).granted(A).works(A, 2.0, 100)
        .at(1.7).renews(A)
        .at(2.0).releases_and_goes_on(A)
}

#[test]
fn a_watchdog_that_goes_on_after_the_release_is_found() {
    let judged = a_section_that_has_released()
        .at(3.4).asks_to_renew(A)
        .at(3.5).lease_lost(A).ends(A)
        .judged();
    assert_found(&judged, Property::RenewalAfterRelease, Cause::Mistake);
    assert_eq!((judged.lock, judged.business), (Verdict::Fail, Verdict::Pass));
}

#[test]
fn each_renewal_after_the_release_is_one() {
    let judged = a_section_that_has_released()
        .at(3.4).renews(A)
        .at(5.1).renews(A)
        .at(6.0).ends(A)
        .judged();
    assert_eq!(judged.count(Property::RenewalAfterRelease), 2);
    assert_not_found(&judged, Property::ForeignRenewal);
}

#[test]
fn a_watchdog_that_ends_with_the_release_is_not() {
    assert_clean(&a_section_that_has_released().at(2.1).ends(A).judged());
}

#[test]
fn a_renewal_that_is_answered_while_the_release_is_on_its_way_is_not() {
    let judged = sale_under("token-lua-watchdog")
        .at(0.0).granted(A).works(A, 2.0, 100)
        .at(1.9).asks_to_renew(A)
        .at(2.0).asks_to_release(A)
        .at(2.1).renewed(A)
        .at(2.2).release_answered(A, Release::Removed)
        .judged();
    assert_clean(&judged);
}

#[test]
fn a_hold_that_is_given_back_while_another_is_left_does_not_end_the_renewals() {
    let judged = sale_under("reentrant-watchdog")
        .at(0.0).granted(A).works(A, 4.0, 100)
        .at(0.5).asks_to_release_inside(A).at(0.6).released_only(A, Release::StillHeld(1))
        .at(1.7).renews(A)
        .at(4.0).releases(A)
        .judged();
    assert_clean(&judged);
}

// ---- effect-after-release

/// A releases, B sells beside A's effect, and A's write lands after that.
fn an_effect_that_lands_after_another_ones(replaced: i64) -> History {
    sale_under("token-lua")
        .at(0.0).granted(A).works(A, 1.0, 100)
        .at(1.0).releases_and_goes_on(A)
        .at(1.1).granted(B).works(B, 0.1, 100)
        .at(1.2).writes(B, 100, 100, 1).releases(B)
        .at(1.3).writes(A, 100, replaced, 1).ends(A)
}

#[test]
fn a_write_after_the_release_is_found_and_is_the_cause_of_what_it_spoils() {
    let spoilt = Ledger { remaining: 99, ..sold(2) };
    let judged = an_effect_that_lands_after_another_ones(99).judged_with(spoilt);
    assert_found(&judged, Property::EffectAfterRelease, Cause::Mistake);
    assert_found(&judged, Property::LostUpdate, Cause::EffectAfterRelease);
    assert_not_found(&judged, Property::Overlap);
    assert_eq!((judged.lock, judged.business), (Verdict::Pass, Verdict::Fail));
}

#[test]
fn units_that_are_sold_twice_by_a_late_effect_are_its_doing() {
    let twice = Ledger { stock: 1, orders: 2, oversold: 1, ..Ledger::default() };
    let judged = sale_under("token-lua")
        .at(0.0).granted(A).works(A, 1.0, 1)
        .at(1.0).releases_and_goes_on(A)
        .at(1.1).granted(B).works(B, 0.1, 1)
        .at(1.2).writes(B, 1, 1, 1).releases(B)
        .at(1.3).writes(A, 1, 0, 1).ends(A)
        .judged_with(Ledger { remaining: 0, ..twice });
    assert_found(&judged, Property::Oversell, Cause::EffectAfterRelease);
}

#[test]
fn a_write_before_the_release_is_not() {
    let judged = sale_under("token-lua")
        .at(0.0).granted(A).works(A, 1.0, 100)
        .at(1.0).writes(A, 100, 100, 1).releases_and_goes_on(A)
        .at(1.1).granted(B).works(B, 0.1, 99)
        .at(1.2).writes(B, 99, 99, 1).releases(B)
        .at(1.3).ends(A)
        .judged();
    assert_clean(&judged);
}

#[test]
fn a_late_write_that_did_not_land_has_no_effect() {
    let told = sale_under("token-lua")
        .at(0.0).granted(A).works(A, 1.0, 100)
        .at(1.0).releases_and_goes_on(A);
    assert_clean(&told.clone().at(1.3).bounces_off_the_guard(A, 100, 99).ends(A).judged());
    assert_clean(&told.at(1.3).withholds(A, 100).ends(A).judged());
}

#[test]
fn a_late_effect_of_who_was_not_alone_is_the_doing_of_what_let_the_other_one_in() {
    let judged = sale_under("token-lua")
        .at(0.0).granted(A).works(A, 7.0, 100)
        .at(5.1).granted(B).works(B, 0.1, 100)
        .at(5.2).writes(B, 100, 100, 1).releases(B)
        .at(7.0).asks_to_release(A)
        .at(7.1).released_only(A, Release::Gone)
        .at(7.2).writes(A, 100, 99, 1).ends(A)
        .judged_with(Ledger { remaining: 99, ..sold(2) });
    assert_found(&judged, Property::EffectAfterRelease, Cause::Mistake);
    assert_found(&judged, Property::LostUpdate, Cause::LeaseExpired);
}

// ---- unheeded-loss

/// A's watchdog has told it that its lease is lost; B has sold a unit since.
fn a_section_that_was_told_of_its_loss() -> History {
    sale_under("token-lua-watchdog")
        .at(0.0).granted(A).works(A, 9.0, 100)
        .at(0.5).freezes(A)
        .at(5.1).granted(B).works(B, 0.5, 100)
        .at(5.6).writes(B, 100, 100, 1).releases(B)
        .at(6.0).thaws(A).asks_to_renew(A)
        .at(6.1).lease_lost(A)
}

#[test]
fn who_writes_over_others_although_it_was_told_of_its_loss_did_not_heed_it() {
    let judged = a_section_that_was_told_of_its_loss()
        .at(9.0).writes(A, 100, 99, 1).releases_and_hears(A, Release::Gone)
        .judged_with(Ledger { remaining: 99, ..sold(2) });
    assert_found(&judged, Property::UnheededLoss, Cause::Mistake);
    assert_eq!(the_one(&judged, Property::UnheededLoss).witnesses[0].op, A.number);
}

#[test]
fn who_lost_its_lease_to_the_drivers_lag_is_not_blamed_for_its_write() {
    let judged = sale_under("token-lua-watchdog")
        .at(0.0).granted(A).works(A, 9.0, 100)
        .at(5.0).driver_was_late(4.5)
        .at(5.1).granted(B).works(B, 0.5, 100)
        .at(5.6).writes(B, 100, 100, 1).releases(B)
        .at(6.0).asks_to_renew(A)
        .at(6.1).lease_lost(A)
        .at(9.0).writes(A, 100, 99, 1).releases_and_hears(A, Release::Gone)
        .judged();
    assert_eq!(judged.count(Property::UnheededLoss), 0);
    assert_eq!((judged.lock, judged.business), (Verdict::Inconclusive, Verdict::Inconclusive));
}

#[test]
fn who_withholds_its_write_heeds_it() {
    let judged = a_section_that_was_told_of_its_loss()
        .at(9.0).withholds(A, 100).releases_and_hears(A, Release::Gone)
        .judged();
    assert_not_found(&judged, Property::UnheededLoss);
    assert_eq!(judged.business, Verdict::Pass);
}

#[test]
fn a_write_that_the_guard_refuses_did_not_have_to_be_withheld() {
    let judged = a_section_that_was_told_of_its_loss()
        .at(9.0).bounces_off_the_guard(A, 100, 99).releases_and_hears(A, Release::Gone)
        .judged();
    assert_not_found(&judged, Property::UnheededLoss);
}

#[test]
fn a_write_over_what_was_read_harms_nobody_although_the_lease_is_lost() {
    let judged = sale_under("token-lua-watchdog")
        .at(0.0).granted(A).works(A, 9.0, 100)
        .at(0.5).freezes(A)
        .at(6.0).thaws(A).asks_to_renew(A)
        .at(6.1).lease_lost(A)
        .at(9.0).writes(A, 100, 100, 1).releases_and_hears(A, Release::Gone)
        .judged();
    assert_clean(&judged);
}

#[test]
fn who_was_told_nothing_could_heed_nothing() {
    let judged = sale_under("token-lua")
        .at(0.0).granted(A).works(A, 9.0, 100)
        .at(5.1).granted(B).works(B, 0.5, 100)
        .at(5.6).writes(B, 100, 100, 1).releases(B)
        .at(9.0).writes(A, 100, 99, 1).releases_and_hears(A, Release::Gone)
        .judged_with(Ledger { remaining: 99, ..sold(2) });
    assert_not_found(&judged, Property::UnheededLoss);
    assert_found(&judged, Property::LostUpdate, Cause::LeaseExpired);
}

// ---- what promises no exclusion

#[test]
fn the_alternatives_to_locking_promise_no_exclusion() {
    for lock in ["conditional", "optimistic", "unique"] {
        let beside = sale_under(lock)
            .at(0.0).walks_in(A).works(A, 2.0, 100)
            .at(1.0).walks_in(B).works(B, 0.5, 100)
            .at(1.5).writes(B, 100, 100, 1).leaves(B).ends(B)
            .at(2.0).bounces_off_the_guard(A, 100, 99).leaves(A).ends(A);
        let judged = beside.judged();
        assert_not_found(&judged, Property::Overlap);
        assert_eq!((judged.lock, judged.business), (Verdict::Pass, Verdict::Pass), "{lock}");
    }
}

#[test]
fn the_alternatives_to_locking_elect_no_leader() {
    let plan = crate::history::plan("unique", "kind = \"leader\"", "");
    let judged = History::of(plan, 1)
        .at(0.0).walks_in(A).works(A, 2.0, 0)
        .at(1.0).walks_in(B)
        .judged();
    assert_found(&judged, Property::Overlap, Cause::NoLock);
}

#[test]
fn no_lock_at_all_is_held_to_what_a_lock_promises() {
    let judged = sale_under("none")
        .at(0.0).walks_in(A).works(A, 2.0, 100)
        .at(1.0).walks_in(B)
        .judged();
    assert_found(&judged, Property::Overlap, Cause::NoLock);
}
