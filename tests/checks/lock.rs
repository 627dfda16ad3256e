//! The lock's promise: one section at a time, only the owner releases, no key left behind, who asks
//! gets in.

use oversold::check::{Cause, Finding, Property, Role};
use oversold::history::event::Release;
use oversold::verdict::Verdict;

use crate::history::{
    A, B, C, D, History, assert_clean, assert_found, assert_not_found, reconciliation_under,
    sale_under, sold, the_one,
};

// ---- overlap

#[test]
fn two_sections_at_a_time_are_an_overlap() {
    let judged = sale_under("set-nx-ex-del")
        .at(0.0).granted(A).works(A, 7.0, 100)
        .at(5.1).granted(B)
        .at(7.0).releases_and_hears(A, Release::NotMine)
        .at(7.1).releases(B)
        .judged();
    assert_found(&judged, Property::Overlap, Cause::LeaseExpired);
    assert_eq!(judged.lock, Verdict::Fail);
    assert_eq!(judged.business, Verdict::Pass);
    let witnesses = &the_one(&judged, Property::Overlap).witnesses;
    let roles: Vec<_> = witnesses.iter().map(|w| (w.op, w.role)).collect();
    assert_eq!(roles, [(A.number, Role::Holder), (B.number, Role::Intruder)]);
}

#[test]
fn a_section_that_begins_when_the_other_has_left_is_none() {
    let judged = sale_under("set-nx-ex-del")
        .at(0.0).granted(A).works(A, 4.0, 100)
        .at(4.0).releases(A)
        .at(5.1).granted(B)
        .at(7.1).releases(B)
        .judged();
    assert_clean(&judged);
}

#[test]
fn sections_of_two_keys_do_not_overlap() {
    let told = reconciliation_under("token-lua")
        .at(0.0).granted(A).works(A, 4.0, 20)
        .at(1.0).granted(B.on(1)).works(B.on(1), 4.0, 20)
        .at(3.0).writes(A, 20, 20, 20).writes(B.on(1), 20, 20, 20)
        .at(4.0).releases(A)
        .at(4.5).releases(B.on(1));
    assert_clean(&told.judged());
}

#[test]
fn each_pair_of_three_sections_is_an_overlap_of_its_own() {
    let judged = sale_under("none")
        .at(0.0).walks_in(A)
        .at(1.0).walks_in(B)
        .at(2.0).walks_in(C)
        .judged();
    assert_eq!(judged.count(Property::Overlap), 3);
}

// ---- foreign-release

fn a_slow_holder_whose_release_is_answered(outcome: Release) -> History {
    sale_under("set-nx-ex-del")
        .at(0.0).granted(A).works(A, 7.0, 100)
        .at(5.1).granted(B).works(B, 3.0, 100)
        .at(7.0).releases_and_hears(A, outcome)
        .at(8.1).releases_and_hears(B, Release::Gone)
}

#[test]
fn a_release_that_removes_another_ones_lock_is_foreign() {
    let judged = a_slow_holder_whose_release_is_answered(Release::Removed).judged();
    assert_found(&judged, Property::ForeignRelease, Cause::LeaseExpired);
    let witnesses = &the_one(&judged, Property::ForeignRelease).witnesses;
    let roles: Vec<_> = witnesses.iter().map(|w| (w.op, w.role)).collect();
    assert_eq!(roles, [(A.number, Role::Releaser), (B.number, Role::Victim)]);
}

#[test]
fn a_release_that_leaves_another_ones_lock_alone_is_not_foreign() {
    let judged = a_slow_holder_whose_release_is_answered(Release::NotMine).judged();
    assert_not_found(&judged, Property::ForeignRelease);
}

#[test]
fn a_release_is_foreign_even_if_nobody_has_seen_whose_lock_it_removed() {
    let judged = sale_under("set-nx-ex-del")
        .at(0.0).granted(A).works(A, 6.0, 100)
        .at(5.9).asks(B)
        .at(6.0).asks_to_release(A)
        .at(6.1).release_answered(A, Release::Removed)
        .at(6.2).granted(B)
        .at(7.0).releases_and_hears(B, Release::Gone)
        .judged();
    assert_found(&judged, Property::ForeignRelease, Cause::LeaseExpired);
}

#[test]
fn a_release_in_time_is_not_foreign_although_the_next_grant_is_heard_before_its_answer() {
    let judged = sale_under("set-nx-ex-del")
        .at(0.0).granted(A).works(A, 1.0, 100)
        .at(1.0).asks_to_release(A)
        .at(1.001).asks(B)
        .at(1.003).granted(B)
        .at(1.004).release_answered(A, Release::Removed)
        .at(2.0).releases(B)
        .judged();
    assert_clean(&judged);
}

/// Redis counts whole milliseconds, and a key lives through the last one.
#[test]
fn a_release_in_the_very_millisecond_of_the_leases_end_is_not_foreign() {
    let judged = sale_under("token-lua")
        .at(0.0).granted(A).works(A, 5.0, 100)
        .at(5.0005).releases(A)
        .at(6.0).granted(B)
        .at(7.0).releases(B)
        .judged();
    assert_clean(&judged);
}

/// A's instance stood still between the server's grant and its answer: A was first, whatever the
/// order of the answers.
fn a_grant_that_is_heard_after_the_next_one() -> History {
    sale_under("set-nx-ex-del")
        .at(0.0).asks(A)
        .at(0.1).freezes(A)
        .at(5.1).granted(B).works(B, 3.0, 100)
        .at(6.0).thaws(A).granted(A).works(A, 3.0, 100)
}

#[test]
fn the_later_grants_own_release_is_not_foreign_though_the_earlier_answer_came_after_it() {
    let judged = a_grant_that_is_heard_after_the_next_one()
        .at(8.1).releases(B)
        .at(9.0).releases_and_hears(A, Release::Gone)
        .judged();
    assert_not_found(&judged, Property::ForeignRelease);
    assert_found(&judged, Property::Overlap, Cause::FrozenHolder);
}

#[test]
fn the_earlier_grants_release_is_foreign_though_its_answer_came_last() {
    let judged = a_grant_that_is_heard_after_the_next_one()
        .at(7.0).releases(A)
        .at(8.1).releases_and_hears(B, Release::Gone)
        .judged();
    assert_found(&judged, Property::ForeignRelease, Cause::FrozenHolder);
    assert_eq!(the_one(&judged, Property::ForeignRelease).witnesses[1].op, B.number);
}

#[test]
fn a_release_is_foreign_though_its_victim_has_ended_and_its_own_lease_had_no_end() {
    let judged = sale_under("setnx-expire-del")
        .at(0.0).granted(A).works(A, 9.0, 100).asks_to_renew(A)
        .at(5.1).granted(B)
        .at(6.0).releases(B)
        .at(6.1).asks(C)
        .at(9.0).asks_to_release(A)
        .at(9.1).release_answered(A, Release::Removed)
        .at(9.2).granted(C)
        .at(9.9).releases_and_hears(C, Release::Gone)
        .judged();
    assert_eq!(judged.count(Property::ForeignRelease), 1, "{judged:#?}");
}

/// A's renewal was cut off by its time-out and applied all the same, as late as it could be.
fn a_renewal_without_an_answer_and_a_release_at(seconds: f64) -> History {
    sale_under("token-lua-watchdog")
        .at(0.0).granted(A).works(A, 12.0, 100)
        .at(1.7).asks_to_renew(A)
        .at(2.7).renewal_fails(A)
        .at(seconds).releases(A)
}

#[test]
fn a_release_is_not_foreign_while_an_unanswered_renewal_may_keep_the_lease() {
    let judged = a_renewal_without_an_answer_and_a_release_at(9.5).judged();
    assert_not_found(&judged, Property::ForeignRelease);
}

#[test]
fn a_release_is_foreign_when_no_unanswered_renewal_can_have_kept_the_lease_so_long() {
    let judged = a_renewal_without_an_answer_and_a_release_at(10.5).judged();
    assert_found(&judged, Property::ForeignRelease, Cause::RenewalFailed);
}

/// A held the lock twice, gave one hold back, and outlives its lease; B comes in.
fn a_holder_that_gave_one_of_two_holds_back() -> History {
    sale_under("reentrant-watchdog")
        .at(0.0).granted(A).works(A, 9.0, 100)
        .at(0.4).granted_only(A)
        .at(0.5).asks_to_release_inside(A)
        .at(0.6).released_only(A, Release::StillHeld(1))
        .at(5.8).granted(B)
}

/// Why C could enter beside B.
fn why_c_is_beside_b(told: History) -> Cause {
    let judged = told.at(7.0).granted(C).judged();
    let beside = |finding: &&Finding| {
        let ops: Vec<_> = finding.witnesses.iter().map(|witness| witness.op).collect();
        finding.property == Property::Overlap && ops == [B.number, C.number]
    };
    judged.findings.iter().find(beside).map(|finding| finding.cause).expect("an overlap")
}

#[test]
fn a_hold_that_was_given_back_removes_nobodys_lock_later() {
    assert_eq!(why_c_is_beside_b(a_holder_that_gave_one_of_two_holds_back()), Cause::Unexplained);
}

#[test]
fn nor_does_it_when_its_holder_crashes() {
    let told = a_holder_that_gave_one_of_two_holds_back().at(6.0).crashes(A);
    assert_eq!(why_c_is_beside_b(told), Cause::Unexplained);
}

#[test]
fn a_release_of_the_last_hold_that_is_on_its_way_may_remove_it() {
    let told = a_holder_that_gave_one_of_two_holds_back().at(6.0).asks_to_release(A);
    assert_eq!(why_c_is_beside_b(told), Cause::ForeignRelease);
}

/// A hold that is given back makes the lease full again: to 9 s, here.
fn a_hold_given_back_at_4_and_the_last_one_at(seconds: f64) -> History {
    sale_under("reentrant-watchdog")
        .at(0.0).granted(A).works(A, 9.0, 100)
        .at(1.0).granted_only(A)
        .at(4.0).asks_to_release_inside(A)
        .at(4.1).released_only(A, Release::StillHeld(1))
        .at(seconds).releases(A)
}

#[test]
fn a_release_within_a_lease_of_the_hold_given_back_is_not_foreign() {
    // (Its watchdog is dead, which is told apart.)
    let judged = a_hold_given_back_at_4_and_the_last_one_at(8.5).judged();
    assert_not_found(&judged, Property::ForeignRelease);
}

#[test]
fn a_release_later_than_a_lease_after_the_hold_given_back_is_foreign() {
    let judged = a_hold_given_back_at_4_and_the_last_one_at(9.5).judged();
    assert_found(&judged, Property::ForeignRelease, Cause::LeaseExpired);
}

// ---- entry-without-grant

#[test]
fn who_enters_after_a_refusal_has_no_grant() {
    let judged = sale_under("set-nx-ex-del")
        .at(0.0).granted(A)
        .at(0.1).denied(B)
        .at(4.0).releases(A)
        .at(4.1).enters(B)
        .at(4.2).leaves(B)
        .judged();
    assert_found(&judged, Property::EntryWithoutGrant, Cause::DenialIgnored);
    assert_not_found(&judged, Property::Overlap);
}

#[test]
fn who_is_granted_the_lock_after_a_refusal_may_enter() {
    let judged = sale_under("set-nx-ex-del")
        .at(0.0).granted(A)
        .at(0.1).denied(B)
        .at(4.0).releases(A)
        .at(4.1).granted(B)
        .at(4.2).releases(B)
        .judged();
    assert_clean(&judged);
}

#[test]
fn who_is_granted_the_lock_beside_a_section_without_a_grant_overlaps_it() {
    let judged = sale_under("set-nx-ex-del")
        .at(0.0).denied(A).enters(A)
        .at(0.1).granted(B)
        .judged();
    assert_found(&judged, Property::Overlap, Cause::DenialIgnored);
}

#[test]
fn who_is_answered_late_has_the_lock_of_who_gave_it_back_meanwhile() {
    // A's lease runs out, and its release may still hit anybody; B waits long for its answer; D has
    // the lock and gives it back before B gets it.
    let judged = sale_under("token-lua")
        .at(0.0).granted(A).works(A, 6.0, 100)
        .at(0.5).asks(B)
        .at(5.1).granted(C).works(C, 0.5, 100)
        .at(5.6).writes(C, 100, 100, 1).releases(C)
        .at(6.0).asks_to_release_inside(A)
        .at(6.1).asks(D)
        .at(6.2).granted_only(D).enters(D)
        .at(6.3).asks_to_release(D)
        .at(6.4).granted_only(B).enters(B)
        .at(6.5).asks_to_release(B)
        .at(6.6).released_only(D, Release::Removed).ends(D)
        .at(6.7).released_only(B, Release::Removed).ends(B)
        .at(6.8).released_only(A, Release::NotMine)
        .judged();
    assert_not_found(&judged, Property::ForeignRelease);
}

// ---- orphan-key

#[test]
fn a_key_without_a_ttl_that_outlives_everybody_is_an_orphan() {
    let judged = sale_under("setnx-expire-del")
        .at(0.0).granted(A)
        .at(1.0).releases(A)
        .at(2.0).asks(B)
        .at(2.1).crashes(B)
        .at(3.0).key_is_left(0, None)
        .judged();
    assert_found(&judged, Property::OrphanKey, Cause::HolderCrashed);
}

#[test]
fn a_key_that_is_kept_alive_after_the_end_has_a_watchdog_that_outlives_everything() {
    let told = |rises| {
        sale_under("token-lua-watchdog")
            .at(0.0).granted(A)
            .at(1.0).releases_and_hears(A, Release::Failed("OOM".to_owned()))
            .at(12.0).key_is_left_and_rises(0, Some(4.0), rises)
            .judged()
    };
    assert_found(&told(5), Property::OrphanKey, Cause::Mistake);
    assert!(told(5).findings[0].summary.contains("extended 5 times"), "{:?}", told(5));
    // It need not have lived to the last look.
    let gone = sale_under("token-lua-watchdog")
        .at(0.0).granted(A)
        .at(1.0).releases_and_hears(A, Release::Failed("OOM".to_owned()))
        .at(9.0).key_is_left_and_rises(0, Some(0.0), 2)
        .judged();
    assert_found(&gone, Property::OrphanKey, Cause::Mistake);
    assert!(gone.findings[0].summary.contains("extended 2 times"), "{gone:?}");
    // One that was on its way when everybody stopped is none.
    assert!(!told(1).findings[0].summary.contains("extended"), "{:?}", told(1));
}

#[test]
fn a_key_that_ends_with_its_lease_is_none() {
    let judged = sale_under("set-nx-ex-del")
        .at(0.0).granted(A)
        .at(1.0).releases(A)
        .at(2.0).asks(B)
        .at(2.1).crashes(B)
        .judged();
    assert_clean(&judged);
}

#[test]
fn an_orphan_is_the_dead_ones_though_a_slow_one_was_still_in_its_section() {
    let judged = sale_under("setnx-expire-del")
        .at(0.0).granted(A).works(A, 8.0, 100)
        .at(5.1).asks(B)
        .at(5.2).crashes(B)
        .at(8.0).releases_and_hears(A, Release::NotMine)
        .at(16.0).key_is_left(0, None)
        .judged();
    assert_found(&judged, Property::OrphanKey, Cause::HolderCrashed);
}

#[test]
fn a_key_whose_operation_the_driver_cut_short_is_no_orphan() {
    let judged = sale_under("setnx-expire-del")
        .at(0.0).granted(A)
        .at(1.0).releases(A)
        .at(2.0).asks(B)
        .at(9.0).drain_is_cut()
        .at(9.1).key_is_left(0, None)
        .judged();
    assert_not_found(&judged, Property::OrphanKey);
    assert_eq!(judged.lock, Verdict::Inconclusive);
}

// ---- starved, unsold

/// The holder died at 1 s with a key that never ends; somebody asks so much later.
fn a_dead_holder_and_a_refusal_at(seconds: f64) -> History {
    sale_under("setnx-expire-del")
        .at(0.0).granted(D)
        .at(0.1).releases(D)
        .at(0.5).asks(A)
        .at(1.0).crashes(A)
        .at(seconds).denied(B).gives_up(B)
}

#[test]
fn a_refusal_longer_than_a_lease_after_the_last_living_holder_is_starvation() {
    let judged = a_dead_holder_and_a_refusal_at(9.0).judged_with(sold(100));
    assert_found(&judged, Property::Starved, Cause::HolderCrashed);
    assert_not_found(&judged, Property::Unsold);
}

#[test]
fn a_refusal_within_the_lease_of_a_dead_holder_is_not() {
    let judged = a_dead_holder_and_a_refusal_at(5.5).judged_with(sold(100));
    assert_not_found(&judged, Property::Starved);
}

#[test]
fn a_lost_answer_that_took_the_lock_for_ever_starves_everybody() {
    let judged = sale_under("setnx-expire-del")
        .at(1.0).hears_nothing(A).gives_up(A)
        .at(9.0).denied(B).gives_up(B)
        .judged();
    assert_found(&judged, Property::Starved, Cause::ReplyLost);
}

#[test]
fn units_that_nobody_could_get_at_are_unsold() {
    let judged = a_dead_holder_and_a_refusal_at(9.0).judged_with(sold(40));
    assert_found(&judged, Property::Unsold, Cause::HolderCrashed);
    assert_eq!(judged.business, Verdict::Pass, "{:?}", judged.doubts);
}

#[test]
fn units_that_nobody_wanted_are_not() {
    let told = a_dead_holder_and_a_refusal_at(9.0);
    let judged = told.at(9.5).granted(C).at(10.0).releases(C);
    assert_not_found(&judged.judged_with(sold(40)), Property::Unsold);
}

/// The key lay idle for long; then B was granted it and C refused, at the same time.
fn an_idle_key_and_two_who_come_at_once() -> History {
    sale_under("set-nx-ex-del")
        .at(0.0).granted(A)
        .at(1.0).releases(A)
        .at(60.0).asks(B).asks(C)
}

#[test]
fn a_refusal_that_is_heard_before_the_grant_it_lost_to_is_not_starvation() {
    let judged = an_idle_key_and_two_who_come_at_once()
        .at(60.001).denied(C).gives_up(C)
        .at(60.002).granted(B)
        .at(61.0).releases(B)
        .judged();
    assert_clean(&judged);
}

#[test]
fn a_refusal_is_starvation_once_everybody_who_asked_was_refused() {
    let judged = an_idle_key_and_two_who_come_at_once()
        .at(60.001).denied(C).gives_up(C)
        .at(60.002).denied(B).gives_up(B)
        .judged();
    assert_found(&judged, Property::Starved, Cause::Unexplained);
}

#[test]
fn a_refusal_that_a_frozen_instance_hears_late_is_not_starvation() {
    let judged = sale_under("set-nx-ex-del")
        .at(0.0).granted(A)
        .at(0.5).asks(B).freezes(B)
        .at(1.0).releases(A)
        .at(20.0).thaws(B).denied(B).gives_up(B)
        .judged();
    assert_clean(&judged);
}

#[test]
fn each_new_starvation_is_told_once() {
    let judged = sale_under("setnx-expire-del")
        .at(1.0).asks(A)
        .at(1.1).crashes(A)
        .at(9.0).denied(B)
        .at(10.0).denied(B)
        .at(11.0).granted(C)
        .at(12.0).crashes(C)
        .at(20.0).denied(D)
        .judged();
    assert_eq!(judged.count(Property::Starved), 2);
}
