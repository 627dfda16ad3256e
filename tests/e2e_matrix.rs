//! `oversold matrix` against real servers: the table of the incidents, cell by cell, held against
//! `data/incidents.txt`; what it keeps, and how it goes on after an interruption.

mod support;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use support::{Ended, Lock, PASS, Running, SIGINT, USAGE, files_named, oversold, package};

// The table of the incidents.

/// A scenario's line of the table: each lock with what must break.
fn row(scenario: &str) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(package("tests/data/incidents.txt")).expect("the table");
    let mut lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    let words = |line: &str| {
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let header = words(lines.next().expect("a header"));
    let line = lines
        .map(words)
        .find(|line| line[0] == scenario)
        .expect("a line");
    assert_eq!(line.len(), header.len(), "{line:?}");
    let cells = header.into_iter().zip(line).skip(1);
    cells.filter(|(_, cell)| cell != ".").collect()
}

/// Ten trials of each cell of a line.
fn as_in_the_incidents(scenario: &str) {
    let expected = row(scenario);
    let locks: Vec<&str> = expected.iter().map(|(lock, _)| lock.as_str()).collect();
    let words = format!(
        "matrix --scenarios {scenario} --trials 10 --jobs 9 --locks {}",
        locks.join(",")
    );
    let ended = oversold(&words).run();
    tell_time(scenario, ended.took);
    for (lock, cell) in &expected {
        let report = ended.lock(lock);
        assert_eq!(printed(&ended, lock), told(cell), "{report:?}");
        assert_eq!(report.trials().len(), 10);
        assert!(!report.causes().contains("unexplained"), "{report:?}");
        let foreign = report.trials().iter().filter(|trial| {
            let violations = &trial["violations"];
            violations["foreign-release"].is_number()
        });
        match (cell.contains('f'), cell.contains('n')) {
            (true, _) => assert_eq!(foreign.count(), 10, "{report:?}"),
            (_, true) => assert_eq!(foreign.count(), 0, "{report:?}"),
            _ => {}
        }
    }
    ended.exits(PASS);
}

/// Prints how long a line took, and how long all lines of this test run have taken so far. (Each may
/// be tested by a process of its own.)
fn tell_time(scenario: &str, took: Duration) {
    let run = std::os::unix::process::parent_id();
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("matrix-times-{run}"));
    let mut times = std::fs::read_to_string(&file).unwrap_or_default();
    times += &format!("{} {scenario}\n", took.as_secs_f64());
    std::fs::write(&file, &times).expect("the times can be kept");
    let seconds = times.lines().filter_map(|line| line.split(' ').next());
    let all: f64 = seconds.filter_map(|took| took.parse::<f64>().ok()).sum();
    let lines = times.lines().count();
    let told = format!("{scenario}: {took:.1?}; {lines} lines of the table so far: {all:.0} s");
    // Not by a macro, whose words are kept from who looks at a test that passes.
    writeln!(std::io::stdout(), "{told}").expect("somebody listens");
}

/// What the matrix prints for a lock.
fn printed<'a>(ended: &'a Ended, lock: &str) -> &'a str {
    let lines = ended.stdout.lines();
    let mut cells = lines.filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        (words.next()? == lock).then(|| words.next())?
    });
    cells.next().expect("a line for each lock")
}

/// The letters of a cell that the matrix prints.
fn told(cell: &str) -> &str {
    cell.trim_end_matches(['f', 'n'])
}

#[test]
fn without_a_fault_nothing_breaks() {
    as_in_the_incidents("calm");
}

#[test]
fn a_section_longer_than_the_ttl() {
    as_in_the_incidents("release-by-other");
}

#[test]
fn a_lease_that_runs_out_between_get_and_del() {
    as_in_the_incidents("check-then-delete");
}

#[test]
fn an_instance_frozen_longer_than_the_ttl() {
    as_in_the_incidents("gc-pause");
}

#[test]
fn a_crash_between_setnx_and_expire() {
    as_in_the_incidents("crash-between");
}

#[test]
fn a_crash_inside_the_section() {
    as_in_the_incidents("crash-inside");
}

#[test]
fn a_unique_constraint_at_the_store() {
    as_in_the_incidents("gc-pause-unique");
}

#[test]
fn a_conditional_statement_at_the_store() {
    as_in_the_incidents("gc-pause-conditional");
}

#[test]
fn a_fence_at_the_store() {
    as_in_the_incidents("gc-pause-fence");
}

#[test]
fn an_acquire_whose_answer_is_lost() {
    as_in_the_incidents("reply-lost");
}

#[test]
fn an_instance_cut_off_from_the_servers() {
    as_in_the_incidents("cut-off");
}

#[test]
fn a_server_clock_that_jumps_past_the_ttl() {
    as_in_the_incidents("clock-jump");
}

#[test]
fn a_server_that_restarts_without_its_data() {
    as_in_the_incidents("restart-empty");
}

#[test]
fn a_promotion_of_a_replica_that_never_saw_the_grant() {
    as_in_the_incidents("promotion-lost-grant");
}

#[test]
fn a_clock_that_jumps_under_a_grant_on_just_a_majority() {
    as_in_the_incidents("quorum-clock");
}

#[test]
fn a_restart_without_data_under_a_grant_on_just_a_majority() {
    as_in_the_incidents("quorum-restart");
}

// What it keeps.

/// Two scenarios by three locks.
const MATRIX: &str = "matrix --scenarios scenarios/calm.toml,scenarios/crash-inside.toml \
                      --locks none,token-lua,redlock --jobs 2";

/// The stored results of a matrix's cells.
fn cells(reports: &Path) -> Vec<PathBuf> {
    files_named("report.json", reports)
}

/// The folder of the only matrix below a report folder.
fn matrix_folder(reports: &Path) -> PathBuf {
    let cell = cells(reports).remove(0);
    let folder = cell.ancestors().nth(3).expect("matrix, scenario, lock");
    folder.to_owned()
}

fn until_a_cell_is_done(running: &mut Running) {
    running.until_it_says("1 of 6");
}

#[test]
fn a_matrix_has_a_result_for_each_cell_and_resumed_runs_none_again() {
    let ended = oversold(MATRIX).run();
    ended.exits(PASS);
    let names: Vec<&str> = ended.all().into_iter().map(Lock::name).collect();
    let locks = ["none", "token-lua", "redlock"];
    assert_eq!(names, [locks, locks].concat());
    for lock in ended.all() {
        let broken = lock.violated().contains("oversell");
        assert_eq!(broken, lock.name() == "none", "{lock:?}");
    }
    assert_eq!(cells(&ended.reports).len(), 6);
    let began = Instant::now();
    let resume = format!("{MATRIX} --resume");
    let again = oversold(&resume).word(matrix_folder(&ended.reports)).run();
    again.exits(PASS).within(Duration::from_secs(5));
    assert!(began.elapsed() < ended.took, "nothing is run again");
    assert_eq!(again.document(), ended.document());
}

#[test]
fn a_matrix_resumed_with_another_plan_removes_no_result() {
    let one = "matrix --scenarios scenarios/calm.toml --locks token-lua";
    let ended = oversold(one).run();
    ended.exits(PASS);
    let before = std::fs::read(cells(&ended.reports).remove(0)).expect("a report");
    for other in ["--seed 2", "-n 50"] {
        let again = oversold(&format!("{one} {other} --resume"))
            .word(matrix_folder(&ended.reports))
            .run();
        again.exits(USAGE);
        assert!(again.stderr.contains("another plan"), "{}", again.stderr);
    }
    let now = std::fs::read(cells(&ended.reports).remove(0)).expect("a report");
    assert!(now == before);
}

#[test]
fn an_interrupted_matrix_keeps_the_cells_that_are_done_and_goes_on_from_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut running = oversold(MATRIX).reports_at(folder.path()).start();
    until_a_cell_is_done(&mut running);
    let kept: Vec<_> = cells(folder.path())
        .into_iter()
        .map(|cell| (std::fs::read(&cell).expect("a report"), cell))
        .collect();
    assert!(!kept.is_empty());
    running.signal(Signal::SIGINT);
    running.ends().exits(SIGINT);
    let resume = format!("{MATRIX} --resume");
    let again = oversold(&resume).word(matrix_folder(folder.path())).run();
    again.exits(PASS);
    assert_eq!(again.all().len(), 6);
    for (report, cell) in kept {
        let now = std::fs::read(&cell).expect("a report");
        assert!(now == report, "{} was run again", cell.display());
    }
}
