//! The fault `partition` against real servers: between whom nothing passes, both ways or one way, until
//! that is over; and what becomes of it where there is nothing to stop.

mod support;

use std::time::Duration;

use nix::sys::signal::Signal;
use support::told::{count, grants, landed, landed_and_undone, missed, when, window};
use support::{Ended, PASS, VIOLATED, oversold};

/// Short sections, and customers who do not wait for long.
const SCENARIO: &str = r#"
name = "parted"
title = "short sections, and nothing passes between some processes"

TOPOLOGY

[load]
instances = 2
workers = 4
duration = "3500ms"
think = "10ms"

[workload]
kind = "flash-sale"
stock = 1000000

[section]
uniform = ["5ms", "15ms"]

[lock]
kind = "token-lua"
ttl = "700ms"
response_timeout = "300ms"

[lock.wait]
retry_every = "20ms"
give_up_after = "200ms"

[[fault]]
kind = "partition"
at = { time = "500ms" }
"#;

const GROUP: &str = "topology = { kind = \"sentinel\", replicas = 1, min_replicas_to_write = 0 }";

fn scenario(topology: &str, fault: &str) -> String {
    SCENARIO.replace("TOPOLOGY", topology) + fault
}

/// Runs it under a lock, with what is parted.
fn under(lock: &str, topology: &str, fault: &str) -> Ended {
    let words = format!("run - --expect pass --lock {lock}");
    oversold(&words).reading(&scenario(topology, fault)).run()
}

/// This lock takes nothing back of an attempt that was not answered: a key may be left for a lease, and
/// that is all that may be found.
fn at_most_keys_are_left(ended: &Ended) {
    ended.exits_with_one_of(&[PASS, VIOLATED]);
    let found: Vec<&str> = ended.report().violated().into_iter().collect();
    assert!(
        found.iter().all(|found| *found == "orphan-key"),
        "{found:?}"
    );
}

const INSTANCES: &str = "between = \"instances-and-server\"\nfor = \"900ms\"\n";

#[test]
fn no_instance_hears_of_a_server_until_that_is_over() {
    let ended = under("token-lua", "", INSTANCES);
    // What was sent meanwhile is applied late, and nobody gives it back.
    at_most_keys_are_left(&ended);
    let told = landed_and_undone(&ended, "say to each other was stopped at 1 links");
    let (landed, over) = window(&told);
    assert_eq!(grants(&told, 0, landed, over), 0);
    assert_eq!(grants(&told, 1, landed, over), 0);
}

#[test]
fn what_only_the_answers_are_stopped_of_is_done_and_not_heard_of() {
    let fault = INSTANCES.to_owned() + "stops = \"replies\"\n";
    let ended = under("token-lua", "", &fault);
    at_most_keys_are_left(&ended);
    let told = landed_and_undone(&ended, "answer the instances was stopped");
    let (landed, over) = window(&told);
    let all = [0, 1].map(|instance| grants(&told, instance, landed, over));
    assert_eq!(all, [0, 0]);
    // Somebody's key was set meanwhile: the server itself tells of its end.
    let server = told.iter().filter(|event| event.what == "server");
    let mut while_parted = server.filter(|event| landed < event.at);
    assert!(while_parted.any(|event| event.about["did"] == "expired"));
}

#[test]
fn who_asks_no_server_is_parted_from_none() {
    missed(&under("conditional", "", INSTANCES));
}

#[test]
fn sentinels_that_do_not_hear_the_primary_promote_another_one() {
    let fault = "between = \"sentinels-and-primary\"\nfor = \"2200ms\"\n";
    let ended = under("token-lua", GROUP, fault);
    // Some of what the old primary grants is lost.
    ended.exits_with_one_of(&[PASS, VIOLATED]);
    let told = landed(
        &ended,
        "what the Sentinels and the primary say to each other",
    );
    assert!(when(&told, "fault_began") < when(&told, "promoted"));
}

#[test]
fn a_primary_that_does_not_hear_its_replicas_refuses_writes_if_it_needs_one() {
    let group = GROUP.replace("min_replicas_to_write = 0", "min_replicas_to_write = 1");
    let fault = "between = \"replicas-and-primary\"\nstops = \"requests\"\nfor = \"3500ms\"\n";
    let text = scenario(&group, fault).replace("\"3500ms\"\nthink", "\"6s\"\nthink");
    let words = "run - --expect pass --lock token-lua";
    let ended = oversold(words).reading(&text).run();
    ended.exits_with_one_of(&[PASS, VIOLATED]);
    let told = landed_and_undone(&ended, "what the replicas ask the primary");
    let (_, over) = window(&told);
    let failed: Vec<_> = told
        .iter()
        .filter(|event| event.what == "acquire_failed")
        .collect();
    assert!(failed.iter().any(|event| event.at < over));
    let said = failed[0].about["error"].to_string();
    assert!(said.contains("replicas"), "{said}");
    assert_eq!(count(&told, "promoted"), 0);
}

#[test]
fn sentinels_that_do_not_hear_each_other_change_nothing() {
    let fault = "between = \"sentinels\"\nfor = \"1s\"\n";
    let ended = under("token-lua", GROUP, fault);
    ended.exits(PASS);
    let told = landed_and_undone(&ended, "stopped at 3 links");
    assert_eq!(count(&told, "promoted"), 0);
}

#[test]
fn what_is_parted_for_less_than_anybody_speaks_proves_nothing() {
    let fault = "between = \"sentinels\"\nfor = \"1ms\"\n";
    missed(&under("token-lua", GROUP, fault));
}

#[test]
fn all_servers_end_with_a_driver_that_is_killed_while_they_are_parted() {
    let fault = "between = \"replicas-and-primary\"\nfor = \"3s\"\n";
    let text = scenario(GROUP, fault);
    let mut running = oversold("run -").reading(&text).start();
    running.until_history_tells("fault_began");
    let servers = running.servers();
    assert!(servers.len() >= 5, "{servers:?}");
    running.signal(Signal::SIGKILL);
    for server in servers {
        server.is_gone_within(Duration::from_secs(2));
    }
}
