//! Two servers that are the primary at once: what each of them granted, renewed and removed, and twins
//! in which one fact makes it something else.

use oversold::check::{Cause, Judgement, Property};

use crate::history::{A, B, C, History, assert_found, assert_not_found, sale_under};

const OLD: &str = "127.0.0.1:1";
const NEW: &str = "127.0.0.1:2";

/// A replica is promoted that does not know of the lock, while the old primary lives on.
fn splits(told: History) -> History {
    told.promotes(&[]).two_primaries([OLD, NEW], &[])
}

/// A has the lock from the old primary when there come to be two.
fn split_under(lock: &str) -> History {
    splits(sale_under(lock).at(0.0).granted_by(A, OLD).at(1.0))
}

fn cause(judged: &Judgement) -> Cause {
    let mut all = judged.findings.iter();
    let overlap = all.find(|finding| finding.property == Property::Overlap);
    overlap.expect("an overlap").cause
}

#[test]
fn two_primaries_that_grant_the_same_lock_are_a_split_brain() {
    let judged = split_under("token-lua").at(1.1).granted_by(B, NEW).at(2.0).leaves(B).judged();
    assert_eq!(cause(&judged), Cause::SplitBrain);
}

#[test]
fn where_the_old_primary_was_gone_the_promotion_lost_the_grant() {
    let told = sale_under("token-lua").at(0.0).granted_by(A, OLD).at(1.0).promotes(&[]);
    let judged = told.at(1.1).granted_by(B, NEW).at(2.0).leaves(B).judged();
    assert_eq!(cause(&judged), Cause::PromotionLostGrant);
}

#[test]
fn a_lock_that_one_server_grants_twice_is_not_split_by_another_one() {
    let told = splits(sale_under("token-lua").at(1.0)).at(1.1).granted_by(A, NEW);
    let judged = told.at(1.2).granted_by(B, NEW).at(2.0).leaves(B).judged();
    assert_eq!(cause(&judged), Cause::Unexplained);
}

#[test]
fn what_the_old_primary_grants_after_the_promotion_is_split_too() {
    let granted = |told: History| told.at(2.0).leaves(A).judged();
    let told = || splits(sale_under("token-lua").at(1.0)).at(1.1).granted_by(B, NEW).at(1.2);
    assert_eq!(cause(&granted(told().granted_by(A, OLD))), Cause::SplitBrain);
    assert_eq!(cause(&granted(told().granted(A))), Cause::Unexplained);
}

#[test]
fn a_grant_of_a_split_is_lost_when_the_sides_meet_again_and_one_after_it_is_not() {
    let lost = split_under("token-lua").at(2.0).one_primary(NEW).at(2.5).granted_by(B, NEW);
    assert_eq!(cause(&lost.at(3.0).leaves(B).judged()), Cause::SplitBrain);
    let later = splits(sale_under("token-lua").at(1.0)).at(2.0).one_primary(NEW).at(2.5).granted_by(A, OLD);
    let judged = later.at(2.6).granted_by(B, NEW).at(3.0).leaves(B).judged();
    assert_eq!(cause(&judged), Cause::Unexplained);
}

#[test]
fn two_primaries_that_are_seen_a_little_after_what_they_explain_count() {
    let seen = |at: f64| {
        let told = sale_under("token-lua").at(0.0).granted_by(A, OLD).at(1.1).granted_by(B, NEW);
        told.at(at).two_primaries([OLD, NEW], &[0]).at(2.0).leaves(B).judged()
    };
    assert_eq!(cause(&seen(1.101)), Cause::SplitBrain);
    assert_eq!(cause(&seen(1.3)), Cause::Unexplained);
}

#[test]
fn a_lease_that_had_run_out_is_not_excused_by_two_primaries() {
    let told = sale_under("token-lua").at(0.0).granted_by(A, OLD).works(A, 7.0, 100).at(1.0);
    let judged = splits(told).at(5.1).granted_by(B, NEW).at(6.0).leaves(B).judged();
    assert_eq!(cause(&judged), Cause::LeaseExpired);
}

// ---- what is done on one server concerns nothing on the other

#[test]
fn a_release_on_the_server_that_granted_is_ones_own_and_on_the_other_it_is_foreign() {
    let released = |on: &str| {
        let told = split_under("set-nx-ex-del").at(1.1).granted_by(B, NEW);
        told.at(2.0).releases_on(A, on).at(3.0).leaves(B).judged()
    };
    assert_not_found(&released(OLD), Property::ForeignRelease);
    assert_found(&released(NEW), Property::ForeignRelease, Cause::SplitBrain);
}

#[test]
fn a_foreign_release_on_the_new_primary_lets_the_next_one_in_and_one_on_the_old_does_not() {
    let causes = |on: &str| {
        let told = split_under("set-nx-ex-del").at(1.1).granted_by(B, NEW).at(2.0).releases_on(A, on);
        let judged = told.at(2.1).granted_by(C, NEW).at(3.0).leaves(C).judged();
        let overlaps = judged.findings.iter().filter(|f| f.property == Property::Overlap);
        overlaps.map(|finding| finding.cause).collect::<Vec<_>>()
    };
    assert_eq!(causes(NEW), [Cause::SplitBrain, Cause::ForeignRelease]);
    assert_eq!(causes(OLD), [Cause::SplitBrain, Cause::Unexplained]);
}

#[test]
fn a_renewal_on_the_server_that_granted_extends_ones_own_lease_and_on_the_other_anothers() {
    let renewed = |on: &str| {
        let told = split_under("token-lua-watchdog").at(1.1).granted_by(B, NEW);
        told.at(1.7).renews_on(A, on).at(3.0).leaves(B).judged()
    };
    assert_not_found(&renewed(OLD), Property::ForeignRenewal);
    assert_found(&renewed(NEW), Property::ForeignRenewal, Cause::Mistake);
}
