//! A key that is kept by who was not answered and gave up: what proves it, and what else may be the
//! reason.

use oversold::check::{Cause, Judgement, Property};
use oversold::history::event::Release;
use oversold::verdict::Verdict;

use crate::history::{
    A, B, C, D, History, assert_found, assert_not_found, reconciliation_under, sale_under, the_one,
};

/// A asks at 1 s, is not answered, and gives up.
fn unheard(told: History) -> History {
    told.at(1.0).hears_nothing(A).at(1.1).gives_up(A)
}

/// B is refused at 2 s.
fn refused(told: History) -> Judgement {
    told.at(2.0).denied(B).gives_up(B).judged()
}

fn found(judged: &Judgement) {
    assert_found(judged, Property::OrphanKey, Cause::ReplyLost);
    assert_eq!(judged.lock, Verdict::Fail);
}

fn not_found(judged: &Judgement) {
    assert_not_found(judged, Property::OrphanKey);
}

// ---- somebody is refused

#[test]
fn who_is_refused_while_nobody_else_can_hold_it_tells_of_the_one_that_was_not_answered() {
    let judged = refused(unheard(sale_under("token-lua")));
    found(&judged);
    let witnesses = &the_one(&judged, Property::OrphanKey).witnesses;
    let ops: Vec<_> = witnesses.iter().map(|witness| witness.op).collect();
    assert_eq!(ops, [A.number, B.number]);
}

#[test]
fn a_server_that_restarts_with_its_data_may_come_with_another_ones_key() {
    let told = unheard(sale_under("token-lua")).at(1.5).restarts_without(&[]);
    not_found(&refused(told));
    // Until somebody gets in.
    let told = sale_under("token-lua").at(0.1).restarts_without(&[]);
    found(&refused(unheard(told.at(0.3).granted(C).at(0.5).releases(C))));
}

#[test]
fn it_is_told_once() {
    let told = unheard(sale_under("token-lua")).at(1.5).denied(C).gives_up(C);
    found(&refused(told));
}

#[test]
fn of_two_that_were_not_answered_both_are_named() {
    let told = unheard(sale_under("token-lua")).at(1.4).hears_nothing(C).at(1.5).gives_up(C);
    let judged = refused(told);
    found(&judged);
    let witnesses = &the_one(&judged, Property::OrphanKey).witnesses;
    let ops: Vec<_> = witnesses.iter().map(|witness| witness.op).collect();
    assert_eq!(ops, [A.number, C.number, B.number]);
}

#[test]
fn who_goes_on_asking_may_find_that_it_is_its_own() {
    let told = sale_under("token-lua").at(1.0).hears_nothing(A);
    not_found(&refused(told));
}

#[test]
fn another_one_that_was_not_answered_and_goes_on_asking_may_hold_it() {
    let told = unheard(sale_under("token-lua").at(1.0).hears_nothing(C));
    not_found(&refused(told));
}

#[test]
fn one_that_was_asking_at_the_time_may_have_been_granted_it() {
    let told = unheard(sale_under("token-lua")).at(1.9).asks(C);
    let judged = told.at(2.0).denied(B).gives_up(B).at(2.1).granted(C).at(2.2).releases(C).judged();
    not_found(&judged);
}

#[test]
fn one_that_was_asking_at_the_time_and_is_not_answered_either_may_hold_it() {
    let told = unheard(sale_under("token-lua")).at(1.9).asks(C).asks(D);
    let told = told.at(2.0).denied(B).gives_up(B).at(2.1).hears_nothing(C).at(2.2).gives_up(C);
    not_found(&told.at(2.3).denied(D).gives_up(D).judged());
}

#[test]
fn one_that_was_asking_at_the_time_and_was_refused_too_did_not_hold_it() {
    let told = unheard(sale_under("token-lua")).at(1.9).asks(C);
    found(&told.at(2.0).denied(B).gives_up(B).at(2.1).denied(C).gives_up(C).judged());
}

#[test]
fn who_asked_before_it_gave_up_may_have_been_refused_before() {
    let told = unheard(sale_under("token-lua").at(1.05).asks(B));
    not_found(&refused(told));
}

#[test]
fn a_holder_keeps_others_out_by_right() {
    let told = unheard(sale_under("token-lua").at(0.5).granted(D));
    not_found(&told.at(2.0).denied(B).gives_up(B).at(2.5).releases(D).judged());
}

#[test]
fn the_release_of_a_holder_shows_that_it_was_the_holders_key() {
    let told = unheard(sale_under("token-lua").at(0.5).granted(D)).at(1.5).releases(D);
    not_found(&refused(told));
}

#[test]
fn who_died_may_have_left_it() {
    let told = sale_under("token-lua").at(0.5).granted(D).at(0.9).crashes(D);
    not_found(&refused(unheard(told)));
}

#[test]
fn who_died_asking_may_have_left_it() {
    let told = unheard(sale_under("token-lua").at(0.5).asks(D)).at(1.5).crashes(D);
    not_found(&refused(told));
}

#[test]
fn who_died_before_another_one_got_in_has_not_left_it() {
    let told = sale_under("token-lua")
        .at(0.0).granted(D).at(0.1).crashes(D)
        .at(0.5).granted(C).at(0.6).releases(C);
    found(&refused(unheard(told)));
}

#[test]
fn whose_process_dies_after_it_gave_up_has_left_it_by_that() {
    not_found(&refused(unheard(sale_under("token-lua")).at(1.5).crashes(A)));
}

#[test]
fn a_release_that_was_not_answered_may_have_left_it() {
    let lost = Release::Unknown("timed out".to_owned());
    let told = sale_under("token-lua").at(0.5).granted(D).at(0.9).releases_and_hears(D, lost);
    not_found(&refused(unheard(told)));
}

#[test]
fn a_promoted_replica_may_have_come_with_it() {
    not_found(&refused(unheard(sale_under("token-lua")).at(1.5).promotes(&[0])));
}

#[test]
fn an_acquire_that_failed_changed_nothing() {
    let told = sale_under("token-lua").at(1.0).acquire_fails(A).at(1.1).gives_up(A);
    not_found(&refused(told));
}

#[test]
fn who_only_stops_because_the_run_ends_did_not_give_up() {
    let told = sale_under("token-lua").at(1.0).hears_nothing(A).at(1.1).stops_waiting(A);
    not_found(&refused(told));
}

#[test]
fn an_answer_that_the_driver_was_too_late_to_hear_is_not_the_locks_fault() {
    let told = sale_under("token-lua").at(0.2).asks(A).at(0.9).driver_was_late(0.7);
    let judged = refused(unheard(told));
    assert_eq!(judged.count(Property::OrphanKey), 0);
    assert_eq!(judged.by_driver[0].property, Property::OrphanKey);
}

#[test]
fn a_key_of_its_own_keeps_nobody_out_of_another() {
    let told = unheard(reconciliation_under("token-lua"));
    not_found(&told.at(2.0).denied(B.on(1)).gives_up(B.on(1)).judged());
}

#[test]
fn a_release_that_may_have_come_before_it_says_nothing_of_it() {
    let told = sale_under("token-lua").at(0.0).granted(D).at(0.9).asks_to_release(D);
    let told = unheard(told).at(1.2).release_answered(D, Release::Removed);
    found(&refused(told));
}

#[test]
fn an_owner_that_is_let_in_once_more_keeps_the_hold_that_it_does_not_know_of() {
    let told = sale_under("reentrant-watchdog").at(1.0).hears_nothing(A).at(1.1).granted(A);
    let told = told.at(1.5).asks_to_release(A).at(1.51);
    found(&refused(told.clone().release_answered(A, Release::StillHeld(1))));
    not_found(&refused(told.release_answered(A, Release::Removed)));
}

// ---- its lease runs out

#[test]
fn a_lease_of_nobodys_that_runs_out_was_the_one_that_was_not_answered() {
    found(&unheard(sale_under("token-lua")).at(6.05).expires(0).judged());
}

#[test]
fn the_next_one_may_be_in_before_the_server_has_told() {
    found(&unheard(sale_under("token-lua")).at(6.0).granted(C).at(6.02).expires(0).judged());
}

#[test]
fn a_lease_that_runs_out_after_somebody_got_in_is_his() {
    let told = unheard(sale_under("token-lua")).at(3.0).granted(C).at(4.0).releases(C);
    not_found(&told.at(6.05).expires(0).judged());
}

#[test]
fn a_lease_that_runs_out_too_early_was_the_one_before() {
    let told = sale_under("token-lua").at(0.0).granted(D);
    let told = told.at(4.99).asks(A).releases_and_hears(D, Release::NotMine);
    let told = told.at(5.0).hears_nothing(A).gives_up(A);
    not_found(&told.at(5.04).expires(0).judged());
}

#[test]
fn to_be_refused_in_a_queue_says_nothing_but_a_lease_that_runs_out_does() {
    let told = unheard(sale_under("fair")).at(2.0).denied(B).gives_up(B);
    not_found(&told.clone().judged());
    found(&told.at(6.05).expires(0).judged());
}

#[test]
fn of_several_servers_a_majority_must_have_kept_it() {
    let told = || {
        let mut told = sale_under("redlock");
        told.plan.topology = oversold::scenario::Topology::Quorum { nodes: 5 };
        unheard(told).at(2.0).denied(B).gives_up(B).at(6.05)
    };
    not_found(&told().expires(0).expires(0).judged());
    found(&told().expires(0).expires(0).at(6.06).expires(0).judged());
}

// ---- a server that tells nothing of its keys

fn untold() -> History {
    sale_under("token-lua").server_tells_nothing_of_its_keys()
}

fn in_doubt(judged: &Judgement) {
    not_found(judged);
    assert_eq!(judged.lock, Verdict::Inconclusive, "{:?}", judged.doubts);
    let told = judged.doubts.iter().any(|doubt| doubt.contains("tells nothing of its keys"));
    assert!(told, "{:?}", judged.doubts);
}

fn in_no_doubt(judged: &Judgement) {
    not_found(judged);
    assert_eq!(judged.lock, Verdict::Pass, "{:?}", judged.doubts);
}

#[test]
fn where_the_server_is_silent_who_gets_in_when_a_lease_may_have_run_out_leaves_a_doubt() {
    in_doubt(&unheard(untold()).at(6.1).granted(C).at(6.3).leaves(C).releases(C).judged());
}

#[test]
fn where_it_is_silent_who_gets_in_sooner_shows_that_nobody_kept_the_lock() {
    in_no_doubt(&unheard(untold()).at(3.0).granted(C).at(3.2).leaves(C).releases(C).judged());
}

#[test]
fn where_it_is_silent_a_run_with_every_answer_is_in_no_doubt() {
    let told = untold().at(1.0).granted(A).at(1.2).leaves(A).releases(A);
    in_no_doubt(&told.at(7.0).granted(C).at(7.2).leaves(C).releases(C).judged());
}

#[test]
fn where_it_is_silent_a_refusal_tells_as_well() {
    found(&refused(unheard(untold())));
}
