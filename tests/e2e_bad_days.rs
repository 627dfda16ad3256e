//! Bad days: the driver is killed or told to stop, the server dies or stands still, the disk is
//! full, the server is none, nobody reads the output. Every run ends in bounded time, says what was
//! wrong by its exit code, and leaves no process behind.

mod support;

use std::io::{Write, pipe};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use support::{
    ENVIRONMENT, Ended, INCONCLUSIVE, LOCKS, Oversold, PASS, Process, Running, SIGINT, SIGTERM,
    VIOLATED, files_named, oversold,
};
use tempfile::TempDir;

/// How long a server may outlive its driver.
const SOON: Duration = Duration::from_secs(2);

/// A lock that holds under a load that goes on for a minute.
const LONG: &str = r#"
name = "long"
title = "a sound lock and short sections for a minute"

[load]
instances = 4
workers = 16
duration = "60s"
think = "5ms"

[workload]
kind = "flash-sale"
stock = 1000000

[section]
uniform = ["2ms", "5ms"]

[lock]
kind = "token-lua"
ttl = "2s"

[lock.wait]
retry_every = "10ms"
give_up_after = "1s"
"#;

/// `LONG` with something replaced or added.
fn long_with(changes: &[(&str, &str)], more: &str) -> String {
    let text = changes.iter().fold(LONG.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    });
    text + more
}

/// A load whose lock breaks at once: sections longer than the TTL.
fn breaking() -> String {
    let slow = [
        (r#"["2ms", "5ms"]"#, r#"["150ms", "200ms"]"#),
        (r#"ttl = "2s""#, r#"ttl = "100ms""#),
    ];
    long_with(&slow, "")
}

/// Starts a run and waits until somebody has been in a section.
fn mid_run(program: Oversold) -> (Running, Process) {
    let mut running = program.start();
    running.until_history_tells("released");
    let servers = running.servers();
    let [server] = servers.as_slice() else {
        panic!("one server, not {servers:?}");
    };
    (running, server.clone())
}

/// The stored report of the only run.
fn stored_report(ended: &Ended) -> Value {
    let text = std::fs::read_to_string(ended.run_folder().join("report.json"));
    serde_json::from_str(&text.expect("a report")).expect("JSON")
}

#[test]
fn a_killed_driver_takes_its_server_with_it() {
    let (running, server) = mid_run(oversold("run -").reading(LONG));
    running.signal(Signal::SIGKILL);
    server.is_gone_within(SOON);
    assert_eq!(running.ends().code, None, "by the signal");
}

#[test]
fn a_history_of_a_killed_driver_is_inconclusive() {
    let (running, server) = mid_run(oversold("run -").reading(LONG));
    running.signal(Signal::SIGKILL);
    server.is_gone_within(SOON);
    let ended = running.ends();
    let again = oversold("check").word(ended.run_folder()).run();
    again.exits(INCONCLUSIVE);
}

#[test]
fn sigint_drains_judges_writes_and_exits_130() {
    let (running, server) = mid_run(oversold("run -").reading(LONG));
    running.signal(Signal::SIGINT);
    let ended = running.ends();
    ended.exits(SIGINT).within(Duration::from_secs(20));
    server.is_gone_within(Duration::ZERO);
    let report = stored_report(&ended);
    assert_eq!(report["interrupted"], "SIGINT");
    assert_eq!(report["verdict"], "inconclusive");
    assert_eq!(report["lock_verdict"], "inconclusive");
    assert_eq!(&report, ended.document());
    let again = oversold("check").word(ended.run_folder()).run();
    again.exits(SIGINT);
    assert_eq!(again.document()["verdict"], "inconclusive");
}

#[test]
fn sigterm_does_the_same_and_exits_143() {
    let (running, server) = mid_run(oversold("run -").reading(LONG));
    running.signal(Signal::SIGTERM);
    let ended = running.ends();
    ended.exits(SIGTERM).within(Duration::from_secs(20));
    server.is_gone_within(Duration::ZERO);
    assert_eq!(stored_report(&ended)["interrupted"], "SIGTERM");
}

#[test]
fn an_interrupted_run_still_tells_the_violation_that_it_found() {
    let mut running = oversold("run -").reading(&breaking()).start();
    // Two sections at a time, with which a lease had run out.
    let history = running.until_history_tells("released");
    let began = Instant::now();
    let releases = || {
        let text = std::fs::read_to_string(&history).unwrap_or_default();
        text.matches("{\"released\":").count()
    };
    while releases() < 5 {
        assert!(began.elapsed() < support::FOREVER, "five releases");
        std::thread::sleep(Duration::from_millis(10));
    }
    running.signal(Signal::SIGINT);
    let ended = running.ends();
    ended.exits(SIGINT);
    assert_eq!(stored_report(&ended)["verdict"], "fail");
    assert!(ended.report().violated().contains("overlap"));
}

#[test]
fn sigint_in_the_first_of_many_trials_leaves_the_others_out_and_says_so() {
    let (running, _) = mid_run(oversold("run - --trials 50").reading(LONG));
    running.signal(Signal::SIGINT);
    let ended = running.ends();
    ended.exits(SIGINT);
    assert_eq!(ended.report().trials().len(), 1);
    assert_eq!(ended.document()["interrupted"], "SIGINT");
}

#[test]
fn sigint_while_a_trial_drains_by_itself_leaves_the_others_out_and_says_so() {
    // All operations are issued at once; the drain waits for the one that is frozen.
    let freeze = r#"
[[fault]]
kind = "freeze"
at = { point = "in-section", nth = 1 }
for = "3s"
"#;
    let mut running = oversold("run - --trials 50 -z 1s")
        .reading(&long_with(&[], freeze))
        .start();
    running.until_history_tells("draining");
    running.signal(Signal::SIGINT);
    let ended = running.ends();
    ended.exits(SIGINT);
    assert_eq!(ended.report().trials().len(), 1);
    assert_eq!(ended.document()["interrupted"], "SIGINT");
}

#[test]
fn sigint_in_a_comparison_leaves_the_other_locks_out_and_says_so() {
    let (running, _) = mid_run(oversold("compare -").reading(LONG));
    running.signal(Signal::SIGINT);
    let ended = running.ends();
    ended.exits(SIGINT);
    assert_eq!(ended.report().name(), "none");
}

/// A run that would drain for as long as its instance stands still.
fn frozen_for_long() -> (Running, Process) {
    let freeze = r#"
[[fault]]
kind = "freeze"
at = { point = "in-section", nth = 5 }
for = "1000s"
"#;
    let mut running = oversold("run -").reading(&long_with(&[], freeze)).start();
    running.until_history_tells("frozen");
    let server = running.servers().remove(0);
    (running, server)
}

#[test]
fn a_second_sigint_leaves_at_once() {
    let (mut running, server) = frozen_for_long();
    let folder = std::fs::read_link(format!("/proc/{}/cwd", server.pid)).expect("its folder");
    running.signal(Signal::SIGINT);
    running.until_it_says("once more to leave at once");
    std::thread::sleep(Duration::from_millis(300));
    assert!(
        running.child.try_wait().expect("it can be asked").is_none(),
        "it drains"
    );
    let told = Instant::now();
    running.signal(Signal::SIGINT);
    let ended = running.ends();
    assert!(told.elapsed() < SOON, "{:?}", told.elapsed());
    ended.exits(SIGINT);
    server.is_gone_within(SOON);
    assert!(!folder.exists(), "its server's folder is gone too");
}

#[test]
fn a_sigterm_after_a_sigint_leaves_at_once() {
    let (mut running, server) = frozen_for_long();
    running.signal(Signal::SIGINT);
    running.until_it_says("once more to leave at once");
    running.signal(Signal::SIGTERM);
    running.ends().exits(SIGTERM);
    server.is_gone_within(SOON);
}

#[test]
fn two_sigints_end_a_command_that_waits_for_input() {
    let mut running = oversold("validate -").waiting_for_input().start();
    // It reads when it has its signal handlers, and these when it has threads.
    running.until_it_catches(Signal::SIGINT);
    running.signal(Signal::SIGINT);
    running.until_it_says("once more to leave at once");
    running.signal(Signal::SIGINT);
    let ended = running.ends();
    ended.exits(SIGINT).within(Duration::from_secs(10));
}

#[test]
fn a_server_that_is_killed_ends_the_run_inconclusive() {
    let (running, server) = mid_run(oversold("run -").reading(LONG));
    server.signal(Signal::SIGKILL);
    let ended = running.ends();
    ended.exits(INCONCLUSIVE).within(Duration::from_secs(30));
    let report = stored_report(&ended);
    assert_eq!(report["lock_verdict"], "inconclusive");
    assert_eq!(report["business_verdict"], "inconclusive");
    let doubts = ended.report().doubts();
    assert!(
        doubts.iter().any(|doubt| doubt.contains("server died")),
        "{doubts:?}"
    );
    assert!(
        ended.run_folder().join("server.log").is_file(),
        "its log is kept"
    );
}

#[test]
fn a_server_that_is_killed_after_a_violation_does_not_hide_it() {
    let mut running = oversold("run -").reading(&breaking()).start();
    let history = running.until_history_tells("released");
    let began = Instant::now();
    let rows = || {
        let text = std::fs::read_to_string(&history).unwrap_or_default();
        text.matches("{\"released\":").count()
    };
    while rows() < 5 {
        assert!(began.elapsed() < support::FOREVER, "five releases");
        std::thread::sleep(Duration::from_millis(10));
    }
    running.servers().remove(0).signal(Signal::SIGKILL);
    let ended = running.ends();
    ended.exits(VIOLATED).within(Duration::from_secs(30));
    assert!(ended.report().violated().contains("overlap"));
    let doubts = ended.report().doubts();
    assert!(
        doubts.iter().any(|doubt| doubt.contains("server died")),
        "{doubts:?}"
    );
}

/// Runs of a scenario under some locks, side by side, each in the middle of its work.
fn side_by_side<'a>(locks: &[&'a str], scenario: &str) -> Vec<(&'a str, Running, Process)> {
    let started = locks.iter().map(|lock| {
        let program = oversold("run - --lock").word(lock).reading(scenario);
        let (running, server) = mid_run(program);
        (*lock, running, server)
    });
    started.collect()
}

#[test]
fn a_server_that_stands_still_ends_the_run_in_bounded_time_and_inconclusive() {
    let short = long_with(&[(r#"duration = "60s""#, r#"duration = "5s""#)], "");
    let runs = side_by_side(&LOCKS[1..], &short);
    for (_, _, server) in &runs {
        server.signal(Signal::SIGSTOP);
    }
    for (lock, running, server) in runs {
        let ended = running.ends();
        ended.exits(INCONCLUSIVE).within(Duration::from_secs(30));
        let report = ended.report();
        assert_eq!(report.lock_verdict(), "inconclusive", "{report:?}");
        let unknown = &report.trials()[0]["counts"]["unknown"];
        assert!(unknown.as_u64() > Some(0), "{lock}: {unknown}");
        server.is_gone_within(SOON);
    }
}

#[test]
fn sigint_ends_a_run_whose_server_stands_still() {
    let (running, server) = mid_run(oversold("run -").reading(LONG));
    server.signal(Signal::SIGSTOP);
    running.signal(Signal::SIGINT);
    let ended = running.ends();
    ended.exits(SIGINT).within(Duration::from_secs(30));
    server.is_gone_within(SOON);
}

/// A pause of half a second longer than the TTL.
const PAUSE: Duration = Duration::from_millis(1500);

/// `LONG` for five seconds under a TTL of one.
fn five_seconds() -> String {
    let shorter = [
        (r#"duration = "60s""#, r#"duration = "5s""#),
        (r#"ttl = "2s""#, r#"ttl = "1s""#),
    ];
    long_with(&shorter, "")
}

/// Reports of runs whose driver stood still twice.
fn driver_stalls(locks: &[&str]) -> Vec<Ended> {
    let runs = side_by_side(locks, &five_seconds());
    for _ in 0..2 {
        for (_, running, _) in &runs {
            running.signal(Signal::SIGSTOP);
        }
        std::thread::sleep(PAUSE);
        for (_, running, _) in &runs {
            running.signal(Signal::SIGCONT);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    runs.into_iter()
        .map(|(_, running, _)| running.ends())
        .collect()
}

/// What only the driver's own pause explains is no violation, and no pass either.
#[track_caller]
fn only_the_driver_is_to_blame(ended: &Ended) {
    ended.exits(INCONCLUSIVE);
    let doubts = ended.report().doubts();
    let late = doubts.iter().any(|doubt| doubt.contains("driver was late"));
    assert!(late, "{doubts:?}");
}

#[test]
fn a_driver_that_stood_still_blames_no_lock_that_compares_its_token() {
    let compares = ["token-get-del", "token-lua", "token-lua-watchdog"];
    for ended in driver_stalls(&compares) {
        only_the_driver_is_to_blame(&ended);
    }
}

#[test]
fn a_driver_that_stood_still_does_not_blame_a_lock_for_the_dels_that_it_delayed() {
    for ended in driver_stalls(&["setnx-expire-del", "set-nx-ex-del"]) {
        only_the_driver_is_to_blame(&ended);
    }
}

/// Reports of runs whose servers stood still for longer than the TTL and then went on.
fn server_stalls(locks: &[&str]) -> Vec<Ended> {
    let runs = side_by_side(locks, &five_seconds());
    for (_, _, server) in &runs {
        server.signal(Signal::SIGSTOP);
    }
    std::thread::sleep(PAUSE);
    for (_, _, server) in &runs {
        server.signal(Signal::SIGCONT);
    }
    let ended: Vec<Ended> = runs.into_iter().map(|(_, run, _)| run.ends()).collect();
    for ended in &ended {
        let unknown = &ended.report().trials()[0]["counts"]["unknown"];
        assert!(unknown.as_u64() > Some(0), "answers came too late");
    }
    ended
}

#[test]
fn a_lease_whose_grant_was_answered_too_late_blocks_for_one_ttl_and_the_lost_reply_is_named() {
    let leased = [
        "set-nx-ex-del",
        "token-get-del",
        "token-lua",
        "token-lua-watchdog",
    ];
    for ended in server_stalls(&leased) {
        let report = ended.report();
        let orphans = report.causes_of("orphan-key");
        let told = orphans.is_empty() || orphans == ["reply-lost"].into();
        assert!(told, "{report:?}");
        assert!(!report.violated().contains("starved"), "{report:?}");
    }
}

#[test]
fn a_setnx_that_was_answered_too_late_may_block_for_ever_and_then_the_lost_reply_is_named() {
    for ended in server_stalls(&["setnx-expire-del"]) {
        let report = ended.report();
        // Only where it was the SETNX, and not the PEXPIRE or the DEL, that was not answered.
        if report.violated().contains("orphan-key") {
            assert_eq!(report.causes(), ["reply-lost"].into(), "{report:?}");
            assert_eq!(report.business_verdict(), "pass", "{report:?}");
        }
    }
}

#[test]
fn a_server_that_dies_while_the_run_drains_is_noticed() {
    let freeze = r#"
[[fault]]
kind = "freeze"
at = { point = "in-section", nth = 5 }
for = "3s"
"#;
    let mut running = oversold("run - -z 1s")
        .reading(&long_with(&[], freeze))
        .start();
    running.until_history_tells("draining");
    running.servers().remove(0).signal(Signal::SIGKILL);
    let ended = running.ends();
    // The frozen holder's lease ran out while it stood still: that may be found first.
    ended.exits_with_one_of(&[INCONCLUSIVE, VIOLATED]);
    assert!(!ended.report().doubts().is_empty(), "{:?}", ended.report());
}

/// A small file system of a test's own, where this user may make one.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn of(size: &str) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(folder.path())
            .output();
        if mounted.is_ok_and(|mount| mount.status.success()) {
            return Some(SmallDisk(folder));
        }
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: a small file system needs root (mount)"
        );
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .arg(self.0.path())
            .output();
    }
}

#[test]
fn a_full_disk_ends_the_run_and_the_file_is_named() {
    // Full before the plan is written, with the ledger, and with the history.
    for (size, file) in [
        ("4k", None),
        ("64k", Some("ledger.sqlite")),
        ("2m", Some("history.jsonl")),
    ] {
        let Some(disk) = SmallDisk::of(size) else {
            return;
        };
        let short = [(r#"duration = "60s""#, r#"duration = "4s""#)];
        let ended = oversold("run -")
            .reading(&long_with(&short, ""))
            .reports_at(disk.0.path())
            .run();
        ended.exits(ENVIRONMENT).within(Duration::from_secs(30));
        let place = disk.0.path().display().to_string();
        assert!(ended.stderr.contains(&place), "{size}: {}", ended.stderr);
        if let Some(file) = file {
            assert!(ended.stderr.contains(file), "{size}: {}", ended.stderr);
        }
    }
}

#[test]
fn a_full_disk_does_not_hide_a_violation() {
    let Some(disk) = SmallDisk::of("128k") else {
        return;
    };
    let ended = oversold("soak - -z 4s --history full")
        .reading(&(breaking() + "\n[store]\nkind = \"memory\"\n"))
        .reports_at(disk.0.path())
        .run();
    ended.exits(VIOLATED).within(Duration::from_secs(30));
    assert!(ended.stderr.contains("history.jsonl"), "{}", ended.stderr);
    assert!(ended.stdout.contains("overlap"), "{}", ended.stdout);
}

/// A file on a disk that is full.
fn full() -> Stdio {
    let full = std::fs::File::options().write(true).open("/dev/full");
    full.expect("/dev/full").into()
}

#[test]
fn a_document_that_finds_no_room_is_named() {
    let short = long_with(&[("stock = 1000000", "stock = 20")], "");
    for flag in ["--json", "--junit"] {
        let ended = oversold("run -")
            .word(flag)
            .word("/dev/full")
            .reading(&short)
            .run();
        ended.exits(ENVIRONMENT);
        assert!(ended.stderr.contains("/dev/full"), "{}", ended.stderr);
    }
    let mut running = oversold("run - --json -")
        .reading(&short)
        .start_with_output(Some((full(), Stdio::null())));
    running.until_history_tells("ended");
    assert_eq!(running.ends().code, Some(ENVIRONMENT));
}

#[test]
fn a_report_folder_that_cannot_be_made_is_named_before_anything_runs() {
    let blocked = tempfile::NamedTempFile::new().expect("a file");
    let ended = oversold("run -")
        .reading(LONG)
        .reports_at(blocked.path())
        .run();
    ended.exits(ENVIRONMENT).within(Duration::from_secs(10));
    let place = blocked.path().display().to_string();
    assert!(ended.stderr.contains(&place), "{}", ended.stderr);
}

/// A script that is named as a server.
fn script(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("redis-server");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("executable");
    (folder, path)
}

fn run_with_server(server: &Path) -> Oversold {
    let short = long_with(&[("stock = 1000000", "stock = 20")], "");
    oversold("run - --redis-server")
        .word(server)
        .reading(&short)
}

const VERSION: &str = "echo 'Redis server v=7.0.15 sha=00000000:0 malloc=libc bits=64'; exit 0";

#[test]
fn a_program_that_is_no_server_is_refused() {
    for program in [
        "/bin/true",
        "/bin/false",
        "/dev/null",
        "/nowhere/redis-server",
    ] {
        let ended = run_with_server(Path::new(program)).run();
        ended.exits(ENVIRONMENT).within(Duration::from_secs(10));
        assert!(ended.stderr.contains(program), "{}", ended.stderr);
    }
}

#[test]
fn a_server_that_hangs_when_asked_for_its_version_is_given_up_and_ended() {
    let (_folder, path) = script("sleep 1000");
    let mut running = run_with_server(&path).start();
    let mut children = running.until_it_has_a_child();
    std::thread::sleep(Duration::from_millis(300));
    children.extend(running.servers());
    let ended = running.ends();
    ended.exits(ENVIRONMENT).within(Duration::from_secs(15));
    assert!(
        ended.stderr.contains("not answered within"),
        "{}",
        ended.stderr
    );
    for child in children {
        child.is_gone_within(SOON);
    }
}

#[test]
fn a_server_that_never_gets_ready_is_given_up_and_ended() {
    let (_folder, path) = script(&format!(
        "[ \"$1\" = --version ] && {{ {VERSION}; }}\nsleep 1000"
    ));
    let mut running = run_with_server(&path).start();
    running.until_history_exists();
    std::thread::sleep(Duration::from_millis(500));
    let children = running.servers();
    assert!(!children.is_empty());
    let ended = running.ends();
    ended.exits(ENVIRONMENT).within(Duration::from_secs(30));
    assert!(
        ended.stderr.contains("was not ready after"),
        "{}",
        ended.stderr
    );
    for child in children {
        child.is_gone_within(SOON);
    }
}

#[test]
fn a_server_that_ends_before_it_is_ready_is_told_with_its_last_words() {
    let (_folder, path) = script(&format!(
        "[ \"$1\" = --version ] && {{ {VERSION}; }}\necho 'no luck today'"
    ));
    let ended = run_with_server(&path).run();
    ended.exits(ENVIRONMENT).within(Duration::from_secs(10));
    assert!(ended.stderr.contains("no luck today"), "{}", ended.stderr);
}

#[test]
fn a_script_that_starts_a_server_beside_itself_leaves_none() {
    let (_folder, path) = script("redis-server \"$@\"\nexit $?");
    let mut running = oversold("run - --redis-server")
        .word(&path)
        .reading(LONG)
        .start();
    running.until_history_tells("released");
    let servers = running.servers();
    assert_eq!(servers.len(), 2, "the script and its server");
    running.signal(Signal::SIGINT);
    running.ends().exits(SIGINT);
    for server in servers {
        server.is_gone_within(SOON);
    }
}

/// The end of a pipe that nobody reads.
fn nobody_reads() -> Stdio {
    let (reader, writer) = pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

#[test]
fn nobody_reading_the_output_is_no_reason_to_panic_or_to_lose_the_exit_code() {
    let short = long_with(&[("stock = 1000000", "stock = 20")], "");
    let broken = breaking().replace("stock = 1000000", "stock = 5");
    let commands = [
        ("run -", &short, PASS),
        ("run -", &broken, VIOLATED),
        ("run - --json -", &short, PASS),
        ("compare - --locks token-lua,token-get-del", &short, PASS),
        ("run - --redis-server /bin/true", &short, ENVIRONMENT),
        ("validate -", &short, PASS),
        ("list", &short, PASS),
        ("doctor", &short, PASS),
        ("completions bash", &short, PASS),
    ];
    for (words, scenario, code) in commands {
        let both = Some((nobody_reads(), nobody_reads()));
        let running = oversold(words).reading(scenario).start_with_output(both);
        assert_eq!(running.ends().code, Some(code), "{words}");
    }
}

#[test]
fn a_log_on_a_full_disk_does_not_end_a_long_run() {
    // Long enough for a line of progress.
    let busy = long_with(&[(r#"duration = "60s""#, r#"duration = "11s""#)], "");
    let running = oversold("run -")
        .reading(&busy)
        .start_with_output(Some((Stdio::null(), full())));
    running.ends().exits(PASS);
    let short = long_with(&[("stock = 1000000", "stock = 20")], "");
    let running = oversold("run - --redis-server /bin/true")
        .reading(&short)
        .start_with_output(Some((full(), full())));
    running.ends().exits(ENVIRONMENT);
}

#[test]
fn files_of_an_interrupted_run_are_all_there() {
    let (running, _) = mid_run(oversold("run -").reading(LONG));
    running.signal(Signal::SIGINT);
    let ended = running.ends();
    for file in [
        "plan.json",
        "history.jsonl",
        "ledger.sqlite",
        "report.json",
        "junit.xml",
    ] {
        assert_eq!(files_named(file, &ended.reports).len(), 1, "{file}");
    }
}
