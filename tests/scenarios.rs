//! Scenario files: those that are here, those that are wrong, and the plans that follow from them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use oversold::check::Property;
use oversold::lock;
use oversold::plan::{Overrides, Pace, Plan, SoakFlags};
use oversold::scenario::{
    Acknowledged, At, Between, Dist, ErrorWord, Expect, Granularity, Guard, How, InstanceFault,
    Invalid, LinkFault, Mistake, Reply, Scenario, Seen, ServerFault, Stopped, Store, Topology,
    Trap, Vocabulary, Wait, Workload, built_in, pace,
};
use proptest::prelude::*;

fn vocabulary() -> Vocabulary {
    Vocabulary {
        locks: lock::names(),
        properties: Property::words(),
    }
}

fn parse(text: &str) -> Result<Scenario, Invalid> {
    Scenario::parse("x.toml", text, &vocabulary())
}

fn valid(text: &str) -> Scenario {
    parse(text).unwrap_or_else(|invalid| panic!("{invalid}"))
}

/// What a user is told of a scenario that is wrong.
fn told(text: &str) -> String {
    match parse(text) {
        Ok(scenario) => panic!("nothing was found wrong with {scenario:?}"),
        Err(invalid) => invalid.to_string(),
    }
}

/// What a user is told, without the excerpts of the text.
fn told_in_short(text: &str) -> Vec<String> {
    let told = told(text);
    let lines = told.lines().skip(1);
    let lines = lines.filter_map(|line| line.strip_prefix("x.toml:"));
    lines.map(str::to_owned).collect()
}

#[track_caller]
fn assert_text(found: &str, expected: &str) {
    assert!(
        found == expected,
        "\n--- expected\n{expected}\n--- found\n{found}\n---"
    );
}

/// The shortest scenario, with more of it added or replaced.
fn small(more: &str) -> String {
    format!(
        "name = \"small\"\n{more}\n\
         [load]\nworkers = 4\nduration = \"10s\"\n\
         [workload]\nkind = \"flash-sale\"\nstock = 10\n\
         [section]\nconstant = \"50ms\"\n\
         [lock]\nkind = \"token-lua\"\nttl = \"5s\"\n"
    )
}

fn shipped() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let entries = std::fs::read_dir(folder).expect("scenarios/ can be read");
    let paths = entries.map(|entry| entry.expect("an entry can be read").path());
    let mut files: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no scenario in scenarios/");
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).expect("a scenario can be read");
        (path, text)
    };
    files.into_iter().map(read).collect()
}

// Those that are here.

#[test]
fn every_scenario_that_is_shipped_is_valid_and_named_after_its_file() {
    for (path, text) in shipped() {
        let scenario = Scenario::parse(&path.display().to_string(), &text, &vocabulary())
            .unwrap_or_else(|invalid| panic!("{invalid}"));
        let stem = path.file_stem().expect("a file has a name");
        assert_eq!(
            scenario.name.as_str(),
            stem,
            "the name in {}",
            path.display()
        );
        assert!(
            !scenario.title.is_empty(),
            "{} has no title",
            path.display()
        );
    }
}

#[test]
fn every_scenario_that_is_shipped_is_built_in() {
    let built_in = built_in::ALL.iter();
    let built_in: Vec<_> = built_in
        .map(|one| (one.name.to_owned(), one.text))
        .collect();
    let named = |(path, text): &(PathBuf, String)| {
        let stem = path.file_stem().expect("a file has a name");
        (stem.display().to_string(), text.clone())
    };
    let shipped: Vec<_> = shipped().iter().map(named).collect();
    let shipped: Vec<_> = shipped
        .iter()
        .map(|(name, text)| (name.clone(), text.as_str()))
        .collect();
    assert_eq!(
        built_in, shipped,
        "one line each in src/scenario/built_in.rs, by name"
    );
}

#[test]
fn each_trap_and_rule_has_a_scenario() {
    let scenarios = shipped();
    let parse = |(path, text): &(PathBuf, String)| {
        Scenario::parse(&path.display().to_string(), text, &vocabulary()).ok()
    };
    let scenarios: Vec<Scenario> = scenarios.iter().filter_map(parse).collect();
    for trap in Trap::ALL {
        let shown = scenarios
            .iter()
            .any(|scenario| scenario.shows.contains(&trap));
        assert!(shown, "no scenario shows {}", trap.word());
    }
}

#[test]
fn a_scenario_may_say_which_locks_it_is_about_and_what_it_shows() {
    let scenario = valid(&small(
        "locks = [\"token-lua\", \"redlock\"]\nshows = [\"own-token\", \"check-then-delete\"]",
    ));
    assert_eq!(scenario.locks, ["token-lua", "redlock"]);
    assert_eq!(scenario.shows, [Trap::CheckThenDelete, Trap::OwnToken]);
    let told = told(&small("locks = [\"redlok\"]\nshows = [\"own-tokn\"]"));
    assert!(told.contains("did you mean \"redlock\"?"), "{told}");
    assert!(told.contains("did you mean \"own-token\"?"), "{told}");
}

#[test]
fn what_is_left_out_has_a_plain_default() {
    let scenario = valid(&small(""));
    assert_eq!(scenario.load.instances, 1);
    assert_eq!(scenario.load.operations, None);
    assert_eq!(scenario.load.think, Dist::Constant { ns: 0 });
    assert_eq!(
        (scenario.time_scale, scenario.trials, scenario.seed),
        (1.0, 1, 1)
    );
    assert_eq!(scenario.wait, Wait::FailFast);
    assert_eq!(scenario.response_timeout, None);
    assert!(scenario.faults.is_empty() && scenario.expect.is_empty());
}

#[test]
fn a_file_from_another_system_is_read_alike() {
    let windows = format!("\u{feff}{}", small("").replace('\n', "\r\n"));
    assert_eq!(valid(&windows), valid(&small("")));
}

#[test]
fn a_number_may_be_written_in_every_way_that_toml_has() {
    let scenario = valid(&small("seed = 0x1F\ntrials = 1_0\ntime_scale = 0x2"));
    assert_eq!((scenario.seed, scenario.trials), (31, 10));
    assert_eq!(scenario.time_scale, 2.0);
    let largest = valid(&small("seed = 18446744073709551615"));
    assert_eq!(largest.seed, u64::MAX);
}

#[test]
fn each_workload_is_read_with_its_own_words() {
    let with = |workload: &str| {
        let text = small("").replace("kind = \"flash-sale\"\nstock = 10", workload);
        valid(&text).workload
    };
    let sale = |stock, skus, granularity| Workload::FlashSale {
        stock,
        skus,
        granularity,
    };
    let kind = "kind = \"flash-sale\"\nstock = 10";
    assert_eq!(with(kind), sale(10, 1, Granularity::Sku));
    let all = format!("{kind}\nskus = 5\ngranularity = \"all\"");
    assert_eq!(with(&all), sale(10, 5, Granularity::All));
    let unit = format!("{kind}\nskus = 5\ngranularity = \"unit\"");
    assert_eq!(with(&unit), sale(10, 5, Granularity::Unit));
    let cron = "kind = \"cron\"\nticks = 3\nevery = \"60s\"";
    let every_ns = 60_000_000_000;
    assert_eq!(with(cron), Workload::Cron { ticks: 3, every_ns });
    assert_eq!(with("kind = \"counter\""), Workload::Counter);
    assert_eq!(with("kind = \"leader\""), Workload::Leader);
}

#[test]
fn more_units_than_can_be_looked_up_get_no_lock_each() {
    let with = |skus: u32| {
        let sale = format!("stock = 1000\nskus = {skus}\ngranularity = \"unit\"");
        small("").replace("stock = 10", &sale)
    };
    valid(&with(100));
    let told = told(&with(101));
    let so = "101 SKUs with 1000 units each make 101000 locks, one for each unit: at most 100000";
    assert!(told.contains(so), "{told}");
}

#[test]
fn a_wait_may_grow_from_one_retry_to_the_next_or_be_for_a_message() {
    let wait = |wait: &str| valid(&(small("") + "wait = " + wait + "\n")).wait;
    let retry = |jitter, backoff| Wait::Retry {
        every_ns: 50_000_000,
        jitter,
        backoff,
        give_up_after_ns: 10_000_000_000,
    };
    let plain = "retry_every = \"50ms\", give_up_after = \"10s\"";
    assert_eq!(wait(&format!("{{ {plain} }}")), retry(0.5, 1.0));
    let grows = format!("{{ {plain}, jitter = 0.1, backoff = 2 }}");
    assert_eq!(wait(&grows), retry(0.1, 2.0));
    let bound_ns = 10_000_000_000;
    let message = wait("{ wake_up_within = \"10s\" }");
    assert_eq!(message, Wait::WakeUp { bound_ns });
}

#[test]
fn every_mistake_store_and_guard_is_read_by_its_word() {
    for mistake in Mistake::ALL {
        let text = small("") + &format!("mistake = \"{}\"\n", mistake.word());
        assert_eq!(valid(&text).mistake, Some(mistake));
    }
    assert_eq!(valid(&small("")).mistake, None);
    for (store, guard) in Store::ALL.into_iter().zip(Guard::ALL) {
        let (kind, backstop) = (store.word(), guard.word());
        let text = small("") + &format!("[store]\nkind = \"{kind}\"\nguard = \"{backstop}\"\n");
        let scenario = valid(&text);
        assert_eq!((scenario.store, scenario.guard), (store, guard));
    }
    for guard in Guard::ALL {
        let text = small("") + &format!("[store]\nguard = \"{}\"\n", guard.word());
        let scenario = valid(&text);
        assert_eq!((scenario.store, scenario.guard), (Store::Sqlite, guard));
    }
}

#[test]
fn a_quorum_has_five_servers_unless_it_says_otherwise() {
    let topology = |more: &str| valid(&(small("") + "[topology]\n" + more)).topology;
    assert_eq!(topology("kind = \"single\"\n").nodes(), 1);
    assert_eq!(topology("kind = \"quorum\"\n").nodes(), 5);
    assert_eq!(topology("kind = \"quorum\"\nnodes = 3\n").nodes(), 3);
    let group = |replicas, min_replicas_to_write| Topology::Sentinel {
        replicas,
        min_replicas_to_write,
        down_after_ms: 500,
    };
    assert_eq!(topology("kind = \"sentinel\"\n"), group(2, 0));
    let one = "kind = \"sentinel\"\nreplicas = 1\nmin_replicas_to_write = 1\n";
    assert_eq!(topology(one), group(1, 1));
    let never = one.replace("to_write = 1", "to_write = 2");
    assert_eq!(
        told_in_short(&(small("") + "[topology]\n" + &never)),
        ["17:25: there are only 1 replicas: no write is ever taken"]
    );
}

#[test]
fn a_grant_can_need_acknowledgements_within_a_bound() {
    let lock = |more: &str| small("").replace("ttl = \"5s\"\n", &format!("ttl = \"5s\"\n{more}"));
    let told = valid(&lock("wait_replicas = 2\nwait_at_most = \"500ms\"\n")).acknowledged;
    let (replicas, bound_ns) = (2, 500_000_000);
    assert_eq!(told, Some(Acknowledged { replicas, bound_ns }));
    assert_eq!(valid(&lock("")).acknowledged, None);
    assert_eq!(
        told_in_short(&lock("wait_replicas = 2\n")),
        ["14:1: `wait_replicas` needs a bound: for example `wait_at_most = \"500ms\"`"]
    );
    assert_eq!(
        told_in_short(&lock("wait_at_most = \"500ms\"\n")),
        ["14:1: `wait_at_most` goes with `wait_replicas`"]
    );
}

#[test]
fn two_primaries_and_a_handing_over_need_replicas() {
    let fault =
        |kind: &str, at: &str| format!("[[fault]]\nkind = \"{kind}\"\nat = {at}\nfor = \"2s\"\n");
    let group = "[topology]\nkind = \"sentinel\"\n";
    let (point, time) = ("{ point = \"in-section\" }", "{ time = \"1s\" }");
    let text = small("") + group + &fault("split-brain", point);
    let for_ns = 2_000_000_000;
    assert_eq!(valid(&text).faults[0].how, How::SplitBrain { for_ns });
    assert_eq!(
        told_in_short(&(small("") + group + &fault("split-brain", time))),
        ["18:6: `split-brain` strikes at a `point`: it is about one grant"]
    );
    let graceful = fault("graceful", time).replace("for = \"2s\"\n", "");
    let how = valid(&(small("") + group + &graceful)).faults[0].how;
    assert_eq!(how, How::Graceful);
    assert_eq!(
        told_in_short(&(small("") + &graceful)),
        ["15:8: `graceful` needs `topology = { kind = \"sentinel\" }`"]
    );
}

#[test]
fn what_is_between_processes_can_be_stopped_one_way() {
    let group = "[topology]\nkind = \"sentinel\"\n";
    let fault = |more: &str| {
        let head = "[[fault]]\nat = { time = \"1s\" }\nfor = \"2s\"\n";
        small("") + group + head + more
    };
    let how = |more: &str| valid(&fault(more)).faults[0].how;
    let for_ns = 2_000_000_000;
    let partition = |between, stops| {
        How::OnLink(LinkFault::Partition {
            between,
            stops,
            for_ns,
        })
    };
    let between = |word: &str| format!("kind = \"partition\"\nbetween = \"{word}\"\n");
    let node = |node| Between::InstancesAndServer { node };
    assert_eq!(
        how(&between("instances-and-server")),
        partition(node(0), Stopped::Both)
    );
    assert_eq!(
        how(&(between("instances-and-server") + "node = 2\nstops = \"replies\"\n")),
        partition(node(2), Stopped::Replies)
    );
    for (word, who) in [
        ("replicas-and-primary", Between::ReplicasAndPrimary),
        ("sentinels-and-primary", Between::SentinelsAndPrimary),
        ("sentinels", Between::Sentinels),
    ] {
        let text = between(word) + "stops = \"requests\"\n";
        assert_eq!(how(&text), partition(who, Stopped::Requests));
        let alone = fault(&between(word)).replace(group, "");
        let needs = format!("`{word}` needs `topology = {{ kind = \"sentinel\" }}`");
        assert_eq!(told_in_short(&alone), [format!("18:11: {needs}")]);
    }
    let rate = 200;
    assert_eq!(
        how("kind = \"bandwidth\"\nbytes_per_second = 200\n"),
        How::OnLink(LinkFault::Bandwidth { rate, for_ns })
    );
    let error = ErrorWord::Loading;
    assert_eq!(
        how("kind = \"answer-error\"\nerror = \"LOADING\"\n"),
        How::OnLink(LinkFault::AnswerError { error, for_ns })
    );
    assert!(how("kind = \"answer-error\"\nerror = \"OOM\"\n").needs_link());
}

#[test]
fn a_grant_can_be_lost_at_a_point_and_where_there_are_replicas() {
    let fault = |at: &str| format!("[[fault]]\nkind = \"lost-grant\"\nat = {at}\n");
    let group = "[topology]\nkind = \"sentinel\"\n";
    let (point, time) = ("{ point = \"in-section\" }", "{ time = \"1s\" }");
    let how = valid(&(small("") + group + &fault(point))).faults[0].how;
    assert_eq!(how, How::LostGrant);
    assert_eq!(
        told_in_short(&(small("") + group + &fault(time))),
        ["18:6: `lost-grant` strikes at a `point`: it is about one grant"]
    );
    assert_eq!(
        told_in_short(&(small("") + &fault(point))),
        ["15:8: `lost-grant` needs `topology = { kind = \"sentinel\" }`"]
    );
}

#[test]
fn the_way_to_the_servers_may_be_broken() {
    let fault = |kind: &str, more: &str| {
        let at = "{ point = \"before-acquire\", nth = 3 }";
        small("") + &format!("[[fault]]\nkind = \"{kind}\"\nat = {at}\n{more}")
    };
    let how = |kind: &str, more: &str| valid(&fault(kind, more)).faults[0].how;
    let (by_ns, for_ns) = (100_000_000, 2_000_000_000);
    let acquire = Reply::Acquire;
    assert_eq!(how("lose-reply", ""), How::LoseReply { which: acquire });
    let release = Reply::Release;
    assert_eq!(
        how("lose-reply", "which = \"release\"\n"),
        How::LoseReply { which: release }
    );
    let long = "for = \"2s\"\n";
    assert_eq!(how("cut-off", long), How::CutOff { for_ns });
    assert_eq!(how("refuse", long), How::Refuse { for_ns });
    let late = long.to_owned() + "by = \"100ms\"\n";
    assert_eq!(how("delay", &late), How::Delay { by_ns, for_ns });
    assert_eq!(
        how("reset", "applied = false\n"),
        How::Reset { applied: false }
    );
    let timed =
        fault("lose-reply", "").replace("point = \"before-acquire\", nth = 3", "time = \"1s\"");
    assert_eq!(
        told_in_short(&timed),
        ["16:6: `lose-reply` strikes at a `point`: it is about one worker"]
    );
}

#[test]
fn a_server_is_struck_by_its_number() {
    let fault = |rest: &str| {
        let text = format!("[[fault]]\nat = {{ time = \"1s\" }}\n{rest}\n");
        valid(&(small("") + &text)).faults[0].how
    };
    let restart = |node, empty, for_ns| How::Server {
        node,
        fault: ServerFault::Restart { empty, for_ns },
    };
    assert_eq!(
        fault("kind = \"restart\"\ndata = \"lost\""),
        restart(0, true, 0)
    );
    let later = "kind = \"restart\"\nnode = 2\ndata = \"kept\"\nfor = \"2s\"";
    assert_eq!(fault(later), restart(2, false, 2_000_000_000));
    let jump = |by_ns| How::Server {
        node: 0,
        fault: ServerFault::ClockJump { by_ns },
    };
    assert_eq!(
        fault("kind = \"clock-jump\"\nby = \"40s\""),
        jump(40_000_000_000)
    );
    assert_eq!(
        fault("kind = \"clock-jump\"\nby = \"-40s\""),
        jump(-40_000_000_000)
    );
}

#[test]
fn a_clock_jumps_by_a_duration_that_is_not_zero() {
    let fault = |by: &str| {
        let text = "[[fault]]\nat = { time = \"1s\" }\nkind = \"clock-jump\"\nby = ";
        told_in_short(&(small("") + text + by))
    };
    assert_eq!(fault("\"0s\""), ["17:6: `fault[0].by` must not be 0"]);
    assert_eq!(fault("\"--4s\"").len(), 1);
}

#[test]
fn a_majority_can_lose_a_grant_at_a_point_and_where_there_is_one() {
    let fault = |at: &str| format!("[[fault]]\nkind = \"quorum-restart\"\nat = {at}\n");
    let quorum = "[topology]\nkind = \"quorum\"\n";
    let (point, time) = ("{ point = \"in-section\" }", "{ time = \"1s\" }");
    let how = valid(&(small("") + quorum + &fault(point))).faults[0].how;
    let fault_of = ServerFault::QuorumRestart;
    assert_eq!(
        how,
        How::Server {
            node: 0,
            fault: fault_of
        }
    );
    assert_eq!(
        told_in_short(&(small("") + quorum + &fault(time))),
        ["18:6: `quorum-restart` strikes at a `point`: it is about one grant"]
    );
    assert_eq!(
        told_in_short(&(small("") + &fault(point))),
        ["15:8: `quorum-restart` needs `topology = { kind = \"quorum\" }`"]
    );
}

#[test]
fn an_instance_is_struck_in_more_than_one_way() {
    let fault = |rest: &str| {
        let at = "[[fault]]\nat = { point = \"in-section\" }\n";
        match valid(&(small("") + at + rest)).faults[0].how {
            How::Instance { fault } => fault,
            other => unreachable!("{other:?}"),
        }
    };
    let for_ns = 2_000_000_000;
    let long = |kind: &str| format!("kind = \"{kind}\"\nfor = \"2s\"\n");
    let (block, stall) = (long("block-executor"), long("stall-watchdog"));
    assert_eq!(fault(&block), InstanceFault::BlockExecutor { for_ns });
    assert_eq!(fault(&stall), InstanceFault::StallWatchdog { for_ns });
    let which = Reply::Acquire;
    assert_eq!(fault("kind = \"cancel\""), InstanceFault::Cancel { which });
    let which = Reply::Renewal;
    let renewal = "kind = \"cancel\"\nwhich = \"renewal\"";
    assert_eq!(fault(renewal), InstanceFault::Cancel { which });
    let clock = |by_ns, for_ns| InstanceFault::ClientClock { by_ns, for_ns };
    let back = "kind = \"client-clock\"\nby = \"-4s\"\n";
    assert_eq!(fault(back), clock(-4_000_000_000, None));
    assert_eq!(
        fault(&(back.to_owned() + "for = \"2s\"")),
        clock(-4_000_000_000, Some(for_ns))
    );
    let timed = "[[fault]]\nkind = \"cancel\"\nat = { time = \"1s\" }\n";
    assert_eq!(
        told_in_short(&(small("") + timed)),
        ["16:6: `cancel` strikes at a `point`: it is about one worker"]
    );
}

#[test]
fn a_lock_is_to_be_granted_again_only_where_it_can_be() {
    let fault = |kind: &str| {
        let at = "at = { time = \"1s\" }\nagain = true\n";
        small("") + &format!("[[fault]]\nkind = \"{kind}\"\n{at}")
    };
    assert!(valid(&fault("crash")).faults[0].again);
    assert_eq!(
        told_in_short(&fault("kill-server")),
        ["17:9: nobody is granted a lock again whose only server is dead"]
    );
    let quorum = "[topology]\nkind = \"quorum\"\n";
    assert!(valid(&(fault("kill-server") + quorum)).faults[0].again);
}

/// A crash with this schedule.
fn scheduled(at: &str) -> String {
    small("") + "[[fault]]\nkind = \"crash\"\nat = " + at
}

#[test]
fn a_fault_strikes_when_something_is_seen() {
    let at = |at: &str| valid(&scheduled(at)).faults[0].at.clone();
    let (what, key, nth) = (Seen::Granted, None, 1);
    let granted = at("{ when = \"granted\" }");
    assert_eq!(granted, At::Seen { what, key, nth });
    let (what, key, nth) = (Seen::Denied, Some(3), 5);
    let denied = at("{ when = \"denied\", key = 3, nth = 5 }");
    assert_eq!(denied, At::Seen { what, key, nth });
    assert_eq!(
        told_in_short(&scheduled("{ when = \"entered\" }")),
        ["16:15: unknown `fault[0].at.when` \"entered\"; did you mean \"renewed\"?"]
    );
    assert_eq!(
        told_in_short(&scheduled("{ point = \"in-section\", key = 1 }")),
        ["16:30: `key` does not go with `point`"]
    );
}

#[test]
fn a_fault_strikes_more_than_once() {
    let repeat = |at: &str| valid(&scheduled(at)).faults[0].repeat;
    let told = |at: &str| told_in_short(&scheduled(at));
    let thrice = repeat("{ point = \"in-section\", nth = 2, every = 10, times = 3 }");
    assert_eq!((thrice.every, thrice.times), (10, Some(3)));
    let struck: Vec<u64> = (1..40).filter(|n| thrice.strikes_at(*n, 2)).collect();
    assert_eq!(struck, [2, 12, 22]);
    let endless = repeat("{ point = \"in-section\", every = 10 }");
    assert_eq!((endless.every, endless.times), (10, None));
    let in_a_row = repeat("{ when = \"granted\", times = 2 }");
    assert_eq!((in_a_row.every, in_a_row.times), (1, Some(2)));
    let by_the_clock = repeat("{ time = \"1s\", every = \"2s\", times = 3 }");
    let times: Vec<u64> = by_the_clock.times_from(1_000_000_000).collect();
    assert_eq!(times, [1_000_000_000, 3_000_000_000, 5_000_000_000]);
    let by_chance = repeat("{ point = \"in-section\", chance = 0.25, times = 2 }");
    assert_eq!((by_chance.chance, by_chance.times), (Some(0.25), Some(2)));
    assert_eq!(
        told("{ point = \"in-section\", chance = 0.5, every = 2 }"),
        ["16:30: `chance` decides by itself how often: without `every`"]
    );
    assert_eq!(
        told("{ time = \"1s\", times = 2 }"),
        ["16:21: `times` goes with `every`: how far apart they are"]
    );
}

#[test]
fn what_must_be_prepared_is_not_left_to_chance() {
    let group = "[topology]\nkind = \"sentinel\"\n";
    let fault = |at: &str| format!("[[fault]]\nkind = \"lost-grant\"\nat = {at}\n");
    let by_chance = fault("{ point = \"in-section\", chance = 0.5 }");
    assert_eq!(told_in_short(&(small("") + group + &by_chance)).len(), 1);
    valid(&(small("") + group + &fault("{ when = \"granted\", nth = 3 }")));
}

#[test]
fn random_times_are_drawn_from_the_seed_and_lie_in_their_window() {
    let scenario = valid(&scheduled("{ random = [\"2s\", \"8s\"], times = 5 }"));
    let drawn = |seed| {
        let flags = Overrides {
            time_scale: Some(0.5),
            ..none()
        };
        match &Plan::resolve(&scenario, &flags, "none", seed).faults[0].at {
            At::Random { drawn, .. } => drawn.clone(),
            other => unreachable!("{other:?}"),
        }
    };
    let one = drawn(1);
    assert_eq!(one, drawn(1));
    assert_ne!(one, drawn(2));
    assert_eq!(one.len(), 5);
    assert!(one.is_sorted());
    let window = 1_000_000_000..=4_000_000_000;
    assert!(one.iter().all(|moment| window.contains(&moment.at_ns)));
    assert_eq!(
        told_in_short(&scheduled("{ random = [\"8s\", \"2s\"] }")),
        ["16:17: a window ends after it has begun"]
    );
}

#[test]
fn a_server_may_refuse_writes_for_a_while() {
    let fault = "[[fault]]\nkind = \"refuse-writes\"\nat = { time = \"1s\" }\nfor = \"2s\"\n";
    let for_ns = 2_000_000_000;
    let how = valid(&(small("") + fault)).faults[0].how;
    assert_eq!(how, How::RefuseWrites { for_ns });
    let without = fault.replace("for = \"2s\"\n", "");
    assert_eq!(
        told_in_short(&(small("") + &without)),
        ["14:1: `fault[0]` needs `for`, for example `for = \"8s\"`"]
    );
}

// Those that are wrong.

#[test]
fn the_new_words_have_their_own_mistakes() {
    let text = r#"name = "words"
[topology]
kind = "quorum"
nodes = 10
[load]
workers = 4
duration = "10s"
[workload]
kind = "cron"
ticks = 0
evry = "60s"
[section]
constant = "1s"
[lock]
kind = "token-lua"
mistake = "ignore-denid"
ttl = "5s"
wait = { wake_up_within = "0s", retry_every = "50ms" }
[store]
kind = "mysql"
guard = "fense"
"#;
    assert_text(
        &told(text),
        r#"x.toml: 8 problems
x.toml:4:9: `topology.nodes` must lie between 1 and 9
  4 | nodes = 10
    |         ^^
x.toml:10:9: `workload.ticks` must lie between 1 and 1000000
  10 | ticks = 0
     |         ^
x.toml:11:1: unknown key `workload.evry`; did you mean "every"?
  11 | evry = "60s"
     | ^^^^
x.toml:16:11: unknown `lock.mistake` "ignore-denid"; did you mean "ignore-denied"?
  16 | mistake = "ignore-denid"
     |           ^^^^^^^^^^^^^^
x.toml:18:27: `lock.wait.wake_up_within` must be longer than 0
  18 | wait = { wake_up_within = "0s", retry_every = "50ms" }
     |                           ^^^^
x.toml:18:33: unknown key `lock.wait.retry_every`; known: wake_up_within
  18 | wait = { wake_up_within = "0s", retry_every = "50ms" }
     |                                 ^^^^^^^^^^^
x.toml:20:8: unknown `store.kind` "mysql"; known: sqlite, postgres, redis, memory
  20 | kind = "mysql"
     |        ^^^^^^^
x.toml:21:9: unknown `store.guard` "fense"; did you mean "fence"?
  21 | guard = "fense"
     |         ^^^^^^^"#,
    );
}

#[test]
fn every_mistake_is_told_at_once_in_the_order_of_the_text() {
    let text = r#"name = "many mistakes"
title = 5
time_scale = nan
trials = 0
seed = -1
colour = "red"

[topology]
kind = "sentinal"

[load]
instances = 6
workers = 4
duration = 90
thnk = "2s"

[workload]
kind = "flash-sale"
stock = 99999999999999999999
entries = 20

[section]
uniform = ["8s", "6s"]

[lock]
kind = "token-lau"
tt = "5"

[lock.wait]
retry_every = "50"
jitter = inf
give_up_after = "-3s"

[store]
guard = "uniqe"

[[fault]]
kind = "freeze"
at = { point = "in-sectoin", nth = 0 }
for = "8"

[[fault]]
kind = "crash"
at = { time = "3s", instance = 6 }
for = "8s"

[expect.token-lu]
violation = ["oversel"]

[expect.none]
violation = "overlap"
"#;
    assert_text(
        &told(text),
        r#"x.toml: 27 problems
x.toml:1:8: `name` names a folder: letters, digits, `-` and `_`, at most 80 of them
  1 | name = "many mistakes"
    |        ^^^^^^^^^^^^^^^
x.toml:2:9: `title` must be a string, not an integer
  2 | title = 5
    |         ^
x.toml:3:14: `time_scale` must lie between 0.001 and 10
  3 | time_scale = nan
    |              ^^^
x.toml:4:10: `trials` must lie between 1 and 10000
  4 | trials = 0
    |          ^
x.toml:5:8: `seed` must lie between 0 and 18446744073709551615
  5 | seed = -1
    |        ^^
x.toml:6:1: unknown key `colour`; known: name, title, shows, locks, time_scale, trials, seed, topology, load, workload, section, lock, store, fault, expect, thresholds
  6 | colour = "red"
    | ^^^^^^
x.toml:9:8: unknown `topology.kind` "sentinal"; did you mean "sentinel"?
  9 | kind = "sentinal"
    |        ^^^^^^^^^^
x.toml:13:11: `load.workers` counts all workers: at least one for each of the 6 instances
  13 | workers = 4
     |           ^
x.toml:14:12: `load.duration` must be a duration with its unit, such as "5s" or "200ms", not an integer
  14 | duration = 90
     |            ^^
x.toml:15:1: unknown key `load.thnk`; did you mean "think"?
  15 | thnk = "2s"
     | ^^^^
x.toml:19:9: `workload.stock` must lie between 1 and 1000000
  19 | stock = 99999999999999999999
     |         ^^^^^^^^^^^^^^^^^^^^
x.toml:20:1: unknown key `workload.entries`; known: kind, stock, skus, granularity
  20 | entries = 20
     | ^^^^^^^
x.toml:23:11: `section.uniform` runs from the shorter end to the longer one
  23 | uniform = ["8s", "6s"]
     |           ^^^^^^^^^^^^
x.toml:26:8: unknown `lock.kind` "token-lau"; did you mean "token-lua"?
  26 | kind = "token-lau"
     |        ^^^^^^^^^^^
x.toml:27:1: unknown key `lock.tt`; did you mean "ttl"?
  27 | tt = "5"
     | ^^
x.toml:30:15: `lock.wait.retry_every` is not a duration (time unit needed, for example 50sec or 50ms); write it with its unit, such as "5s" or "200ms"
  30 | retry_every = "50"
     |               ^^^^
x.toml:31:10: `lock.wait.jitter` must lie between 0 and 1
  31 | jitter = inf
     |          ^^^
x.toml:32:17: `lock.wait.give_up_after` is not a duration (expected number at 0); write it with its unit, such as "5s" or "200ms"
  32 | give_up_after = "-3s"
     |                 ^^^^^
x.toml:35:9: unknown `store.guard` "uniqe"; did you mean "unique"?
  35 | guard = "uniqe"
     |         ^^^^^^^
x.toml:39:16: unknown `fault[0].at.point` "in-sectoin"; did you mean "in-section"?
  39 | at = { point = "in-sectoin", nth = 0 }
     |                ^^^^^^^^^^^^
x.toml:39:36: `fault[0].at.nth` must lie between 1 and 1000000000
  39 | at = { point = "in-sectoin", nth = 0 }
     |                                    ^
x.toml:40:7: `fault[0].for` is not a duration (time unit needed, for example 8sec or 8ms); write it with its unit, such as "5s" or "200ms"
  40 | for = "8"
     |       ^^^
x.toml:44:32: instance 6 does not exist: there are 6, numbered from 0
  44 | at = { time = "3s", instance = 6 }
     |                                ^
x.toml:45:1: unknown key `fault[1].for`; known: kind, at, again
  45 | for = "8s"
     | ^^^
x.toml:47:9: unknown lock `token-lu`; did you mean "token-lua"?
  47 | [expect.token-lu]
     |         ^^^^^^^^
x.toml:48:14: unknown `expect.token-lu.violation[0]` "oversel"; did you mean "oversell"?
  48 | violation = ["oversel"]
     |              ^^^^^^^^^
x.toml:51:13: `expect.none.violation` must be a list, not a string
  51 | violation = "overlap"
     |             ^^^^^^^^^"#,
    );
}

#[test]
fn distributions_have_their_own_mistakes() {
    let text = r#"name = "distributions"

[load]
workers = 4
duration = "1s"
think = { mix = [{ share = 0.1, constant = "1s" }, { share = 0.2, constant = "1s" }] }

[workload]
kind = "reconcile"
accounts = 0
stock = 5

[section.cache]
miss_one_in = 0
miss = { lognormal = { p50 = "6s", p99 = "1s" } }
hit = { cache = { miss_one_in = 2, miss = "1s", hit = "1s" } }

[lock]
kind = "none"
ttl = "0s"
response_timeout = "25h"
wait = "fail-fats"
"#;
    assert_text(
        &told(text),
        r#"x.toml: 10 problems
x.toml:6:17: the shares of `load.think.mix` add up to 0.3, not to 1
  6 | think = { mix = [{ share = 0.1, constant = "1s" }, { share = 0.2, constant = "1s" }] }
    |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
x.toml:8:1: `workload` needs `entries`, for example `entries = 20`
  8 | [workload]
    | ^^^^^^^^^^
x.toml:10:12: `workload.accounts` must lie between 1 and 1000000
  10 | accounts = 0
     |            ^
x.toml:11:1: unknown key `workload.stock`; known: kind, accounts, entries
  11 | stock = 5
     | ^^^^^
x.toml:14:15: `section.cache.miss_one_in` must lie between 1 and 1000000
  14 | miss_one_in = 0
     |               ^
x.toml:15:22: `section.cache.miss.lognormal`: p50 must not be longer than p99
  15 | miss = { lognormal = { p50 = "6s", p99 = "1s" } }
     |                      ^^^^^^^^^^^^^^^^^^^^^^^^^^
x.toml:16:7: `section.cache.hit`: a cache cannot be part of another distribution
  16 | hit = { cache = { miss_one_in = 2, miss = "1s", hit = "1s" } }
     |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
x.toml:20:7: `lock.ttl` must be longer than 0
  20 | ttl = "0s"
     |       ^^^^
x.toml:21:20: `lock.response_timeout` is longer than a day
  21 | response_timeout = "25h"
     |                    ^^^^^
x.toml:22:8: unknown `lock.wait` "fail-fats"; did you mean "fail-fast"?
  22 | wait = "fail-fats"
     |        ^^^^^^^^^^^"#,
    );
}

#[test]
fn a_section_is_one_distribution() {
    let with = |section: &str| small("").replace("constant = \"50ms\"", section);
    let needed = "one distribution is needed: `constant = \"50ms\"`, `uniform = [\"6s\", \"8s\"]`, \
                  `lognormal = { p50 = \"40ms\", p99 = \"200ms\" }`, `mix = [...]` or \
                  `cache = {...}`";
    let two = with("constant = \"50ms\"\nuniform = [\"1s\", \"2s\"]");
    assert_eq!(told_in_short(&two), [format!("9:1: {needed}")]);
    assert_eq!(told_in_short(&with("")), [format!("9:1: {needed}")]);
    assert_eq!(
        told_in_short(&with("unifrom = [\"1s\", \"2s\"]")),
        ["10:1: unknown key `section.unifrom`; did you mean \"uniform\"?"]
    );
    assert_eq!(
        told_in_short(&with("uniform = [\"1s\"]")),
        ["10:11: `section.uniform` has two ends: [\"6s\", \"8s\"]"]
    );
    assert_eq!(
        told_in_short(&with("mix = []")),
        ["10:7: the shares of `section.mix` add up to 0, not to 1"]
    );
}

#[test]
fn an_empty_file_is_told_what_a_scenario_needs() {
    let expected = "\
x.toml: 5 problems
x.toml:1:1: the file needs `name`, for example `name = \"my-incident\"`
x.toml:1:1: the file needs `load`, for example `load = { workers = 200, duration = \"90s\" }`
x.toml:1:1: the file needs `workload`, for example `workload = { kind = \"flash-sale\", stock = 100 }`
x.toml:1:1: the file needs `section`, for example `section = { constant = \"50ms\" }`
x.toml:1:1: the file needs `lock`, for example `lock = { kind = \"token-lua\", ttl = \"5s\" }`";
    assert_text(&told(""), expected);
    assert_text(&told("# only a comment\n"), expected);
}

#[test]
fn the_examples_in_the_messages_are_valid_themselves() {
    let told = told("");
    let examples = told
        .lines()
        .filter_map(|line| line.split("for example `").nth(1));
    let text: String = examples
        .map(|line| line.trim_end_matches('`').to_owned() + "\n")
        .collect();
    assert_eq!(valid(&text).name, "my-incident");
}

#[test]
fn missing_tables_and_keys_are_told_where_they_belong() {
    let text = r#"name = "missing"
[load]
instances = 2
[workload]
stock = 5
[lock]
wait = { jitter = 0.5 }
[[fault]]
at = { nth = 3 }
[[fault]]
kind = "freeze"
[expect.none]
never = ["oversell"]
"#;
    assert_text(
        &told(text),
        r#"x.toml: 13 problems
x.toml:1:1: the file needs `section`, for example `section = { constant = "50ms" }`
x.toml:2:1: `load` needs `workers`, for example `workers = 200`
  2 | [load]
    | ^^^^^^
x.toml:2:1: `load` needs `duration`, for example `duration = "90s"`
  2 | [load]
    | ^^^^^^
x.toml:4:1: `workload` needs `kind`, for example `kind = "flash-sale"`
  4 | [workload]
    | ^^^^^^^^^^
x.toml:6:1: `lock` needs `kind`, for example `kind = "token-lua"`
  6 | [lock]
    | ^^^^^^
x.toml:6:1: `lock` needs `ttl`, for example `ttl = "5s"`
  6 | [lock]
    | ^^^^^^
x.toml:7:8: `lock.wait` needs `retry_every`, for example `retry_every = "50ms"`
  7 | wait = { jitter = 0.5 }
    |        ^^^^^^^^^^^^^^^^
x.toml:7:8: `lock.wait` needs `give_up_after`, for example `give_up_after = "10s"`
  7 | wait = { jitter = 0.5 }
    |        ^^^^^^^^^^^^^^^^
x.toml:8:1: `fault[0]` needs `kind`, for example `kind = "freeze"`
  8 | [[fault]]
    | ^^^^^^^^^
x.toml:9:6: a fault strikes at a point of an operation, `at = { point = "in-section", nth = 20 }`, or at a time, `at = { time = "3s", instance = 0 }`
  9 | at = { nth = 3 }
    |      ^^^^^^^^^^^
x.toml:10:1: `fault[1]` needs `at`, for example `at = { point = "in-section", nth = 20 }`
  10 | [[fault]]
     | ^^^^^^^^^
x.toml:10:1: `fault[1]` needs `for`, for example `for = "8s"`
  10 | [[fault]]
     | ^^^^^^^^^
x.toml:12:1: `expect.none` needs `violation`, for example `violation = ["oversell"]`
  12 | [expect.none]
     | ^^^^^^^^^^^^^"#,
    );
}

#[test]
fn a_misspelt_key_is_one_mistake_and_not_a_missing_one_too() {
    let text = small("")
        .replace("ttl =", "tll =")
        .replace("workers =", "worker =");
    assert_eq!(
        told_in_short(&text),
        [
            "4:1: unknown key `load.worker`; did you mean \"workers\"?",
            "13:1: unknown key `lock.tll`; did you mean \"ttl\"?"
        ]
    );
    let text = small("").replace("kind = \"flash-sale\"", "knd = \"flash-sale\"");
    assert_eq!(
        told_in_short(&text),
        ["7:1: unknown key `workload.knd`; did you mean \"kind\"?"]
    );
}

#[test]
fn a_wrong_value_has_no_follow_on_mistakes() {
    // Without the kind nobody knows which keys belong to it.
    let text = small("").replace("flash-sale", "auction");
    assert_eq!(
        told_in_short(&text),
        [
            "7:8: unknown `workload.kind` \"auction\"; known: flash-sale, reconcile, counter, tally, cron, leader"
        ]
    );
    // Without a number of instances nobody knows whether there is a seventh.
    let fault = "[[fault]]\nkind = \"crash\"\nat = { time = \"1s\", instance = 7 }\n";
    let text = small("").replace("workers", "instances = 2.5\nworkers") + fault;
    assert_eq!(
        told_in_short(&text),
        ["4:13: `load.instances` must be a whole number, not a float"]
    );
}

#[test]
fn a_fault_that_cannot_strike_is_told_although_other_parts_are_wrong() {
    let fault = "[[fault]]\nkind = \"crash\"\nat = { time = \"1s\", instance = 1 }\n";
    let text = small("").replace("\"10s\"", "10") + fault + "[[fault]]\nkind = \"flood\"\n";
    assert_eq!(
        told_in_short(&text),
        [
            "5:12: `load.duration` must be a duration with its unit, such as \"5s\" or \"200ms\", \
             not an integer",
            "16:32: instance 1 does not exist: there are 1, numbered from 0",
            "17:1: `fault[1]` needs `at`, for example `at = { point = \"in-section\", nth = 20 }`",
            "18:8: unknown `fault[1].kind` \"flood\"; known: freeze, block-executor, crash, \
             stall-watchdog, cancel, client-clock, refuse-writes, lose-reply, cut-off, delay, reset, \
             refuse, lost-grant, split-brain, graceful, partition, bandwidth, answer-error, restart, \
             kill-server, stop-server, clock-jump, script-flush, client-pause, client-kill, evict, \
             read-only, disk-full, no-memory, debug-sleep, \
             quorum-restart, quorum-clock",
        ]
    );
}

#[test]
fn a_fault_strikes_at_a_point_or_at_a_time() {
    let at = |at: &str| told_in_short(&(small("") + "[[fault]]\nkind = \"crash\"\nat = " + at));
    assert_eq!(
        at("{ point = \"in-section\", time = \"3s\" }"),
        ["16:30: a fault strikes either at a `point` or at a `time`, not at both"]
    );
    assert_eq!(
        at("{ point = \"in-section\", instance = 0 }"),
        ["16:30: `instance` goes with `time`: a point strikes who reaches it"]
    );
    assert_eq!(
        at("{ time = \"3s\", nth = 2 }"),
        ["16:21: `nth` goes with `point`: a time comes once"]
    );
    assert_eq!(
        at("{ pont = \"in-section\", nth = 2 }"),
        ["16:8: unknown key `fault[0].at.pont`; did you mean \"point\"?"]
    );
}

#[test]
fn what_is_expected_cannot_be_forbidden_too() {
    let text = small("") + "[expect.none]\nviolation = [\"overlap\"]\nnever = [\"overlap\"]\n";
    assert_eq!(
        told_in_short(&text),
        ["16:9: \"overlap\" is expected above, and never here"]
    );
    let text = small("") + "[expect]\nnone = 5\ntoken-lua = \"violations\"\n";
    assert_eq!(
        told_in_short(&text),
        [
            "15:8: `expect.none` must be \"pass\", \"violation\" or a table that names the \
             violations, not an integer",
            "16:13: unknown `expect.token-lua` \"violations\"; did you mean \"violation\"?"
        ]
    );
}

#[test]
fn a_value_of_another_type_is_told_with_the_type_that_is_wanted() {
    let wrong = |key: &str, value: &str| {
        let mut told = told_in_short(&small(&format!("{key} = {value}")));
        assert_eq!(told.len(), 1, "{told:?}");
        told.remove(0)
    };
    assert_eq!(
        wrong("title", "1.5"),
        "2:9: `title` must be a string, not a float"
    );
    assert_eq!(
        wrong("trials", "\"3\""),
        "2:10: `trials` must be a whole number, not a string"
    );
    assert_eq!(
        wrong("time_scale", "true"),
        "2:14: `time_scale` must be a number, not a boolean"
    );
    assert_eq!(
        wrong("topology", "\"single\""),
        "2:12: `topology` must be a table, not a string"
    );
    assert_eq!(
        wrong("seed", "2026-11-30"),
        "2:8: `seed` must be a whole number, not a date"
    );
    assert_eq!(
        wrong("store", "[]"),
        "2:9: `store` must be a table, not a list"
    );
    assert_eq!(
        wrong("fault", "{ kind = \"crash\" }"),
        "2:9: `fault` must be a list, each fault under a `[[fault]]` of its own, not a table"
    );
}

#[test]
fn a_number_out_of_its_range_is_told_with_the_range() {
    for trials in ["0", "-3", "10001", "99999999999999999999999999", "-0x1"] {
        if let Some(message) = told_of_number("trials", trials) {
            assert_eq!(
                message, "2:10: `trials` must lie between 1 and 10000",
                "{trials}"
            );
        }
    }
    for scale in [
        "nan", "-nan", "inf", "-inf", "0", "0.0", "-1", "1e400", "10.1", "11",
    ] {
        let message = told_of_number("time_scale", scale);
        let expected = "2:14: `time_scale` must lie between 0.001 and 10";
        assert_eq!(message.as_deref(), Some(expected), "{scale}");
    }
}

/// The one mistake, unless it is one of syntax.
fn told_of_number(key: &str, value: &str) -> Option<String> {
    let invalid = parse(&small(&format!("{key} = {value}"))).expect_err(value);
    let told = told_in_short(&invalid.text);
    assert_eq!(told.len(), 1, "{told:?}");
    (!invalid.unread).then(|| told[0].clone())
}

// Syntax.

#[test]
fn each_syntax_error_is_told_once_and_nothing_that_follows_from_it() {
    let text = r#"name = "syntax
title = 'x'
[load
workers = 5
duration = "90s"
[workload]
kind = flash-sale
stock =
[section]
uniform = ["1s", "2s"
[lock]
kind = "none"
ttl = "1s"
"#;
    assert_text(
        &told(text),
        r#"x.toml: 5 problems; what follows a syntax error is not read yet
x.toml:1:15: invalid basic string, expected `"`
  1 | name = "syntax
    |               ^
x.toml:3:6: unclosed table, expected `]`
  3 | [load
    |      ^
x.toml:7:8: needs quotes: `"flash-sale"`
  7 | kind = flash-sale
    |        ^^^^^^^^^^
x.toml:8:8: the value is missing
  8 | stock =
    |        ^
x.toml:10:11: this `[` is not closed: its `]` is missing
  10 | uniform = ["1s", "2s"
     |           ^"#,
    );
}

#[test]
fn what_was_read_before_a_syntax_error_is_told_with_it() {
    let text = "name = \"a b\"\ntrials = 0\ncolour = 1\nseed = 1 2\n[lock]\nkind = \"nome\"\n";
    assert_text(
        &told(text),
        r#"x.toml: 4 problems; what follows a syntax error is not read yet
x.toml:1:8: `name` names a folder: letters, digits, `-` and `_`, at most 80 of them
  1 | name = "a b"
    |        ^^^^^
x.toml:2:10: `trials` must lie between 1 and 10000
  2 | trials = 0
    |          ^
x.toml:3:1: unknown key `colour`; known: name, title, shows, locks, time_scale, trials, seed, topology, load, workload, section, lock, store, fault, expect, thresholds
  3 | colour = 1
    | ^^^^^^
x.toml:4:8: string values must be quoted, expected literal string
  4 | seed = 1 2
    |        ^^^"#,
    );
}

#[test]
fn a_word_without_quotes_is_told_how_to_quote_it() {
    let last = |line: &str| {
        let told = told_in_short(&format!("name = \"x\"\n{line}\n"));
        told.last().cloned().unwrap_or_default()
    };
    assert_eq!(last("title = 5s"), "2:9: needs quotes: `\"5s\"`");
    assert_eq!(last("title = 200 ms"), "2:9: needs quotes: `\"200 ms\"`");
    assert_eq!(
        last("title = token-lua"),
        "2:9: needs quotes: `\"token-lua\"`"
    );
    assert_eq!(last("title = [5s, 6s]"), "2:10: needs quotes: `\"5s\"`");
    assert_eq!(
        last("title = True"),
        "2:9: written in small letters: `true`"
    );
    assert_eq!(last("title ="), "2:8: the value is missing");
    assert_eq!(last("title = # later"), "2:9: the value is missing");
    assert_eq!(last("title = .5"), "2:9: invalid mantissa, expected digits");
    assert_eq!(last("title = 007"), "2:9: unexpected leading zero");
}

#[test]
fn a_duplicate_is_told_beside_all_other_mistakes() {
    let text = small("trials = 0\nseed = 1\nseed = 2\n") + "[lock]\nkind = \"nome\"\n";
    assert_eq!(
        told_in_short(&text),
        [
            "2:10: `trials` must lie between 1 and 10000",
            "4:1: `seed` is given twice: it stands above already",
            "17:2: `lock` is given twice: it stands above already",
            "18:1: `kind` is given twice: it stands above already",
        ]
    );
}

#[test]
fn another_language_is_told_apart() {
    let json = told_in_short("{\"name\": \"x\", \"load\": {\"workers\": 3}}\n");
    assert_eq!(json, ["1:1: invalid key-value pair, expected key"]);
    let yaml = told_in_short("name: x\nload:\n  workers: 3\n");
    assert_eq!(
        yaml,
        [
            "1:5: invalid unquoted key, expected letters, numbers, `-`, `_`",
            "2:6: key with no value, expected `=`",
            "3:12: key with no value, expected `=`",
        ]
    );
}

#[test]
fn deep_nesting_is_an_error_and_no_crash() {
    let lists = small("") + "a = " + &"[".repeat(100_000);
    assert!(parse(&lists).is_err());
    let tables = small("") + "a = " + &"{a=".repeat(100_000);
    assert!(parse(&tables).is_err());
    let mixes = "{share = 1, mix = [".repeat(1_000) + &"]}".repeat(1_000);
    let mixes = small("").replace("constant = \"50ms\"", &format!("mix = [{mixes}]"));
    assert!(parse(&mixes).is_err());
}

// How a mistake is shown.

#[test]
fn marks_stand_below_what_they_mark_whatever_the_line_is_made_of() {
    let text = small("\t\"name\\u001b[31m\"\t=\t5 # tab\n\"日本\" = \"ｗｉｄｅ\" # 日本\ntitle = { a = 1,\n  b = 2 }")
        .replace("ttl = \"5s\"", "ttl = \"５s\" # é");
    assert_text(
        &told(&text),
        r#"x.toml: 4 problems
x.toml:2:2: unknown key `name\u{1b}[31m`; known: name, title, shows, locks, time_scale, trials, seed, topology, load, workload, section, lock, store, fault, expect, thresholds
  2 |     "name\u001b[31m"    =    5 # tab
    |     ^^^^^^^^^^^^^^^^
x.toml:3:1: unknown key `日本`; known: name, title, shows, locks, time_scale, trials, seed, topology, load, workload, section, lock, store, fault, expect, thresholds
  3 | "日本" = "ｗｉｄｅ" # 日本
    | ^^^^^^
x.toml:4:9: `title` must be a string, not a table
  4 | title = { a = 1,
    |         ^^^^^^^^
x.toml:16:7: `lock.ttl` is not a duration (expected number at 0); write it with its unit, such as "5s" or "200ms"
  16 | ttl = "５s" # é
     |       ^^^^^"#,
    );
}

#[test]
fn a_control_character_never_reaches_the_terminal() {
    let told = told(&small(
        "title = \"\u{1b}[31m\"\n\"\\u001b[31m\" = \"\\u0007\"\r\r\n",
    ));
    let raw: Vec<char> = told
        .chars()
        .filter(|c| c.is_control() && *c != '\n')
        .collect();
    assert!(raw.is_empty(), "{raw:?} in {told}");
}

// Anything at all.

/// Texts that look like scenarios, and are cut, doubled and mixed up.
fn mutated() -> impl Strategy<Value = String> {
    let texts: Vec<String> = shipped().into_iter().map(|(_, text)| text).collect();
    let pieces = prop_oneof![
        Just("\""),
        Just("["),
        Just("]"),
        Just("{"),
        Just("}"),
        Just("="),
        Just(","),
        Just("\n"),
        Just("\r"),
        Just("\t"),
        Just("'''"),
        Just("\"\"\""),
        Just("#"),
        Just("\\u0000"),
        Just("-1"),
        Just("nan"),
        Just("inf"),
        Just("99999999999999999999"),
        Just("0x"),
        Just("1e999"),
        Just("\"5s\""),
        Just("\"99999999999999999999s\""),
        Just("日"),
        Just("\u{0}"),
        Just("[[fault]]"),
        Just("[expect.none]"),
        Just("mix = [{ share = 1, cache = {} }]"),
        Just("kind = 5"),
    ];
    let edit = (
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        pieces,
    );
    let edits = prop::collection::vec(edit, 1..6);
    (prop::sample::select(texts), edits).prop_map(|(text, edits)| {
        edits.iter().fold(text, |text, (from, length, piece)| {
            let chars: Vec<char> = text.chars().collect();
            let from = from.index(chars.len() + 1);
            let until = (from + length.index(12)).min(chars.len());
            let before: String = chars[..from].iter().collect();
            let after: String = chars[until..].iter().collect();
            before + piece + &after
        })
    })
}

/// It is valid, or it is told what is wrong, in the order of the text and each thing in its place.
fn assert_told_well(text: &str) -> Result<(), TestCaseError> {
    let Err(invalid) = parse(text) else {
        return Ok(());
    };
    prop_assert!(!invalid.problems.is_empty(), "invalid, and nobody says why");
    let starts: Vec<usize> = invalid.problems.iter().map(|p| p.span.start).collect();
    prop_assert!(starts.is_sorted(), "{starts:?}");
    let told = invalid.to_string();
    let messages = told
        .lines()
        .filter(|line| line.starts_with("x.toml:"))
        .count();
    prop_assert_eq!(messages, invalid.problems.len() + 1, "{}", told);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_text_is_read_without_a_panic(text in "(?s).{0,200}") {
        assert_told_well(&text)?;
    }

    #[test]
    fn any_text_of_toml_s_own_characters_is_read_without_a_panic(
        text in "[\\[\\]{}=,.\"'#a-c0-9 \\n\\r\\t\\\\_-]{0,120}"
    ) {
        assert_told_well(&text)?;
    }

    #[test]
    fn a_damaged_scenario_is_read_without_a_panic(text in mutated()) {
        assert_told_well(&text)?;
    }

    #[test]
    fn a_valid_scenario_gives_a_plan_that_reads_back_equal(
        place in any::<prop::sample::Index>(),
        seed in any::<u64>(),
        scale in 0.001..10.0_f64,
        workers in 1..10_000_u32,
        seconds in 1..86_400_u64,
    ) {
        let shipped = shipped();
        let scenario = valid(&shipped[place.index(shipped.len())].1);
        let flags = Overrides {
            time_scale: Some(scale),
            workers: Some(workers),
            duration: Some(Duration::from_secs(seconds)),
            ..Overrides::default()
        };
        let plan = Plan::resolve(&scenario, &flags, &scenario.lock, seed);
        let stored = serde_json::to_string_pretty(&plan).expect("a plan can be stored");
        let read: Plan = serde_json::from_str(&stored).expect("a stored plan can be read");
        prop_assert_eq!(read, plan);
    }
}

// Plans.

const SCENARIO: &str = r#"name = "plan"
time_scale = 0.1
trials = 3
seed = 7

[load]
instances = 6
workers = 60
operations = 1000
duration = "90s"
think = "2s"

[workload]
kind = "flash-sale"
stock = 100

[section]
uniform = ["6s", "8s"]

[lock]
kind = "token-lua"
ttl = "5s"
wait = { retry_every = "100ms", give_up_after = "10s" }

[[fault]]
kind = "freeze"
at = { time = "20s" }
for = "8s"

[[fault]]
kind = "crash"
at = { time = "30s", instance = 5 }

[expect]
token-lua = "violation"
"#;

fn plan(flags: &Overrides, seed: u64) -> Plan {
    Plan::resolve(&valid(SCENARIO), flags, "token-lua", seed)
}

fn none() -> Overrides {
    Overrides::default()
}

fn seconds(ns: u64) -> f64 {
    Duration::from_nanos(ns).as_secs_f64()
}

#[test]
fn equal_seeds_give_equal_plans_and_another_seed_gives_another() {
    assert_eq!(plan(&none(), 7), plan(&none(), 7));
    let other = plan(&none(), 8);
    assert_ne!(other, plan(&none(), 7));
    // Not only the number is another: so are the choices that it makes.
    let drawn = |seed: u64| match plan(&none(), seed).faults[0].at {
        At::Time { instance, .. } => instance.expect("the plan decides who is struck"),
        _ => unreachable!("the fault has a time"),
    };
    let drawn: std::collections::BTreeSet<u32> = (0..100).map(drawn).collect();
    assert_eq!(
        drawn,
        (0..6).collect(),
        "each of six instances is drawn some time"
    );
}

#[test]
fn a_stored_plan_reads_back_equal() {
    let plan = plan(&none(), u64::MAX);
    let stored = serde_json::to_string(&plan).expect("a plan can be stored");
    let read: Plan = serde_json::from_str(&stored).expect("a stored plan can be read");
    assert_eq!(read, plan);
}

#[test]
fn stages_are_all_issued_unless_a_number_is_given() {
    let soak = built_in::ALL.iter().find(|known| known.name == "soak");
    let scenario = valid(soak.expect("a scenario").text);
    let plan = |operations, duration, pace| {
        let flags = Overrides {
            operations,
            soak: Some(SoakFlags {
                duration,
                pace: Some(pace),
                ..SoakFlags::default()
            }),
            ..none()
        };
        Plan::resolve(&scenario, &flags, "token-lua", 1)
    };
    let stages = || Pace::Stages(pace::stages("300/s for 30s, 2600/s for 90s").expect("stages"));
    let all = plan(None, None, stages());
    assert_eq!(all.most_operations(), Some(300 * 30 + 2600 * 90));
    assert_eq!(all.duration(), Duration::from_secs(120));
    let some = plan(Some(500), None, stages());
    assert_eq!(some.most_operations(), Some(500));
    let short = plan(None, Some(Duration::from_secs(10)), stages());
    assert_eq!(short.load.operations, None);
    assert_eq!(short.duration(), Duration::from_secs(10));
    // A rate has no end of its own: without one the scenario's number is it.
    assert_eq!(
        plan(None, None, Pace::Rate(2600.0)).most_operations(),
        Some(10_000)
    );
}

#[test]
fn every_duration_of_a_plan_is_in_the_run_s_time() {
    let plan = plan(&none(), 7);
    assert_eq!(plan.duration(), Duration::from_secs(9));
    assert_eq!(plan.ttl(), Duration::from_millis(500));
    assert_eq!(plan.load.think, Dist::Constant { ns: 200_000_000 });
    assert_eq!(plan.section.longest(), Duration::from_millis(800));
    assert_eq!(plan.longest_section(), Duration::from_millis(1600));
    assert!(matches!(plan.faults[0].at, At::Time { at_ns, .. } if seconds(at_ns) == 2.0));
    let Wait::Retry {
        every_ns,
        give_up_after_ns,
        ..
    } = plan.lock.wait
    else {
        unreachable!("the scenario retries");
    };
    assert_eq!((seconds(every_ns), seconds(give_up_after_ns)), (0.01, 1.0));
}

#[test]
fn flags_change_what_they_name_and_nothing_else() {
    let as_written = plan(&none(), 7);
    let flags = Overrides {
        workers: Some(200),
        operations: Some(100_000),
        ..none()
    };
    let mut changed = plan(&flags, 7);
    assert_eq!(
        (changed.load.workers, changed.load.operations),
        (200, Some(100_000))
    );
    changed.load = as_written.load.clone();
    assert_eq!(changed, as_written);
}

#[test]
fn a_mistake_and_a_store_by_flag_replace_the_scenario_s() {
    let flags = Overrides {
        mistake: Some(Mistake::TtlTooLong),
        store: Some(Store::Redis),
        ..none()
    };
    let mut changed = plan(&flags, 7);
    let as_written = plan(&none(), 7);
    assert_eq!(
        (changed.lock.mistake, changed.store),
        (flags.mistake, Store::Redis)
    );
    // The plan says what was meant, and the lock is made with what was written.
    assert_eq!(changed.ttl(), as_written.ttl());
    assert_eq!(changed.made_ttl(), as_written.ttl() * 1000);
    (changed.lock.mistake, changed.store) = (None, as_written.store);
    assert_eq!(changed, as_written);
}

#[test]
fn a_duration_by_flag_is_in_the_scenario_s_own_time() {
    let ten_minutes = Overrides {
        duration: Some(Duration::from_secs(600)),
        ..none()
    };
    assert_eq!(plan(&ten_minutes, 7).duration(), Duration::from_secs(60));
    let slower = Overrides {
        time_scale: Some(0.5),
        ..ten_minutes
    };
    assert_eq!(plan(&slower, 7).duration(), Duration::from_secs(300));
}

#[test]
fn a_time_scale_by_flag_replaces_the_scenario_s() {
    let flags = Overrides {
        time_scale: Some(2.0),
        ..none()
    };
    let plan = plan(&flags, 7);
    assert_eq!(
        (plan.time_scale, plan.ttl()),
        (2.0, Duration::from_secs(10))
    );
    assert_eq!(plan.section.longest(), Duration::from_secs(16));
}

#[test]
fn fewer_workers_than_instances_leave_no_instance_empty_and_no_fault_without_its_victim() {
    let flags = Overrides {
        workers: Some(2),
        ..none()
    };
    for seed in 0..50 {
        let plan = plan(&flags, seed);
        assert_eq!((plan.load.instances, plan.load.workers), (2, 2));
        for fault in &plan.faults {
            assert!(
                matches!(
                    fault.at,
                    At::Time {
                        instance: Some(0 | 1),
                        ..
                    }
                ),
                "{fault:?}"
            );
        }
    }
}

#[test]
fn a_lease_is_planned_as_the_server_counts_it() {
    let ttl = |ttl: &str, scale: f64| {
        let scenario = valid(&small("").replace("\"5s\"", ttl));
        let flags = Overrides {
            time_scale: Some(scale),
            ..none()
        };
        Plan::resolve(&scenario, &flags, "none", 1).ttl()
    };
    assert_eq!(ttl("\"5s\"", 0.0333), Duration::from_millis(167));
    assert_eq!(ttl("\"1ms\"", 0.001), Duration::from_millis(1));
}

#[test]
fn trials_have_seeds_in_a_row_from_the_first() {
    let scenario = valid(SCENARIO);
    assert_eq!(none().seeds(&scenario), [7, 8, 9]);
    let flags = Overrides {
        seed: Some(u64::MAX),
        trials: Some(2),
        ..none()
    };
    assert_eq!(flags.seeds(&scenario), [u64::MAX, 0]);
}

#[test]
fn a_lock_that_the_scenario_does_not_name_must_pass_unless_a_flag_says_otherwise() {
    let scenario = valid(SCENARIO);
    let expect = |flags: &Overrides, lock: &str| Plan::resolve(&scenario, flags, lock, 1).expect;
    assert_eq!(expect(&none(), "token-lua"), Expect::any_violation());
    assert_eq!(expect(&none(), "none"), Expect::Pass);
    let flags = Overrides {
        expect: Some(Expect::Pass),
        ..none()
    };
    assert_eq!(expect(&flags, "token-lua"), Expect::Pass);
}

// Open loops and thresholds.

/// The smallest scenario with more in its `[load]`.
fn loaded(more: &str) -> String {
    small("").replace("duration = \"10s\"", more)
}

#[test]
fn stages_and_rates_are_the_run_s_own_whatever_the_time_scale() {
    let stages = |text: &str| {
        let scenario = valid(&text.replace("[load]", "time_scale = 0.1\n[load]"));
        let plan = Plan::resolve(&scenario, &Overrides::default(), "token-lua", 1);
        let words: Vec<_> = plan.load.stages.iter().map(|stage| stage.words()).collect();
        (words.join(", "), scenario.load.duration_ns)
    };
    let rate = loaded("rate = \"2.6k/s\"\nduration = \"10s\"");
    assert_eq!(stages(&rate), ("2600/s".to_owned(), 10_000_000_000));
    let ramp = "300/s for 30s, 300/s to 2600/s over 1m";
    for text in [
        format!("stages = \"{ramp}\""),
        "stages = [\"300/s for 30s\", \"300/s to 2600/s over 60s\"]".to_owned(),
    ] {
        assert_eq!(stages(&loaded(&text)), (ramp.to_owned(), 90_000_000_000));
    }
}

#[test]
fn a_rate_a_stage_and_a_threshold_that_cannot_be_read_are_told_where_they_stand() {
    assert_eq!(
        told_in_short(&loaded("rate = \"fast\"\nduration = \"10s\"")),
        ["5:8: `load.rate`: \"fast\" is not a rate; write for example \"300/s\" or \"1k/s\""]
    );
    let both = loaded("rate = \"1/s\"\nstages = \"1/s for 1s\"");
    assert_eq!(
        told_in_short(&both),
        ["6:10: `rate` and `stages` exclude each other"]
    );
    let stage = told_in_short(&loaded("stages = [\"300/s\"]"));
    assert!(
        stage[0].starts_with("5:11: `load.stages[0]`: \"300/s\" is not a stage"),
        "{stage:?}"
    );
    let threshold = told_in_short(&small(
        "thresholds = [\"errors < 1%\", \"aquire p(99) < 1s\"]",
    ));
    assert_eq!(
        threshold,
        ["2:30: nothing called `aquire` is measured; did you mean \"acquire\"?"]
    );
    let ending = "thresholds = [{ threshold = \"violations == 0\", abort_on_fail = true }]";
    assert!(valid(&small(ending)).thresholds[0].abort_on_fail);
}
