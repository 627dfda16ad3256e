//! A grant that counts only when replicas have acknowledged it, and a lock on a majority of which nodes
//! are down or slow: who gets in, and who does not.

mod support;

use support::told::{count, first, grants, history, landed, when};
use support::{PASS, VIOLATED, oversold, package};

#[test]
fn a_grant_that_no_replica_has_acknowledged_is_given_back_and_lost_to_nobody() {
    for lock in ["setnx-expire-del", "reentrant-watchdog"] {
        let ended = oversold(&format!("run scenarios/wait-replicas.toml --lock {lock}")).run();
        ended.exits(PASS);
        let report = ended.report();
        assert_eq!(report.violated().len(), 0, "{report:?}");
        assert_eq!(report.ledger("orders"), [1]);
        let told = landed(&ended, "was 1 on that and 0 on this");
        // Who had taken the key on the old primary did not believe it.
        assert!(when(&told, "promoted") < when(&told, "granted"));
        assert!(count(&told, "acquire_unknown") + count(&told, "acquire_failed") > 0);
    }
}

#[test]
fn without_the_acknowledgement_the_same_promotion_loses_the_grant() {
    let file = package("scenarios/wait-replicas.toml");
    let text = std::fs::read_to_string(file).expect("the scenario");
    let without = text.replace("wait_replicas = 1\nwait_at_most = \"3s\"\n", "");
    // Long enough for the failover, of which this section knows nothing.
    let long = without.replace("constant = \"5s\"", "constant = \"15s\"");
    assert_ne!(text, without);
    let ended = oversold("run - --expect pass").reading(&long).run();
    ended.exits(VIOLATED);
    let causes = ended.report().causes_of("overlap");
    let causes: Vec<_> = causes.into_iter().collect();
    assert_eq!(causes, ["promotion-lost-grant"]);
}

#[test]
fn an_acknowledgement_that_does_not_come_in_time_is_a_failed_attempt() {
    let file = package("scenarios/calm.toml");
    let text = std::fs::read_to_string(file).expect("the scenario");
    let lock = "[lock]\nwait_replicas = 1\nwait_at_most = \"100ms\"\n";
    let ended = oversold("run - --lock token-lua --expect pass -z 5s")
        .reading(&text.replace("[lock]\n", lock))
        .run();
    // A single server has no replica.
    let told = history(&ended);
    assert_eq!(count(&told, "granted"), 0);
    let said = first(&told, "acquire_failed").about["error"].to_string();
    assert!(said.contains("0 of 1 replicas acknowledged it"), "{said}");
    // What was taken is given back.
    assert_eq!(ended.report().violated().len(), 0);
}

// ---- a majority

/// How often the lock was granted before the last fault had landed, and after it.
fn before_and_after(scenario: &str, proof: &str) -> (usize, usize) {
    let ended = oversold(&format!("run scenarios/{scenario}.toml")).run();
    ended.exits(PASS);
    let report = ended.report();
    assert_eq!(report.violated().len(), 0, "{report:?}");
    assert_eq!(report.doubts(), [""; 0], "{report:?}");
    let told = landed(&ended, proof);
    let last = told.iter().rfind(|event| event.what == "fault_landed");
    let last = last.expect("it landed").at;
    let all = |from, to| (0..4).map(|one| grants(&told, one, from, to)).sum();
    // The units that nobody could buy are told.
    assert!(report.ledger("unsold")[0] > 0);
    (all(0, last), all(last, u64::MAX))
}

#[test]
fn a_majority_goes_on_without_the_minority() {
    let (before, after) = before_and_after("minority-down", "refuses connections");
    assert!(before > 0 && after > 0, "{before} and {after}");
}

#[test]
fn a_minority_lets_nobody_in_and_keeps_nobody_waiting_for_ever() {
    let (before, after) = before_and_after("majority-down", "refuses connections");
    assert!(before > 0);
    assert_eq!(after, 0);
}

#[test]
fn a_majority_does_not_wait_for_a_node_that_stands_still() {
    let (before, after) = before_and_after("slow-node", "when it went on");
    assert!(before > 0 && after > 0, "{before} and {after}");
}
