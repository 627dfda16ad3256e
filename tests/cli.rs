//! The command line as a shell sees it: the real binary, what it says, where it says it, and its
//! exit code. No test here needs a Redis.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use assert_cmd::Command;
use oversold::clock::Time;
use oversold::history::event::{Effect, Event, Kind, Release, Stop};
use oversold::history::file::{Header, SCHEMA_VERSION};
use oversold::history::keep::{Kept, Writer};
use oversold::plan::{Overrides, Plan};
use oversold::scenario::{Mistake, Scenario, Vocabulary};
use oversold::store::sqlite::Sqlite;
use oversold::store::{Seen, Store, Write};
use oversold::{check, fault, lock, workload};
use tempfile::TempDir;

const COMMANDS: [&str; 13] = [
    "run",
    "compare",
    "matrix",
    "ttl-sweep",
    "rate-sweep",
    "granularity",
    "soak",
    "check",
    "replay",
    "validate",
    "list",
    "doctor",
    "completions",
];

/// What tells a user how to get a server.
const INSTALL: &str = "apt-get install redis-server";

const GOOD: &str = r#"name = "good"
[load]
workers = 2
duration = "10s"
[workload]
kind = "flash-sale"
stock = 2
[section]
constant = "1s"
[lock]
kind = "token-lua"
ttl = "5s"
"#;

/// A folder of its own, in which commands run.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn with(self, name: &str, text: impl AsRef<[u8]>) -> Place {
        let path = self.path(name);
        let folder = path.parent().expect("a file is in a folder");
        std::fs::create_dir_all(folder).expect("a folder");
        std::fs::write(path, text).expect("a file");
        self
    }

    /// The program, with nothing of this machine's environment that could change what it says.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_oversold"));
        command.current_dir(self.0.path()).args(arguments);
        for variable in [
            "OVERSOLD_REDIS_SERVER",
            "NO_COLOR",
            "CLICOLOR",
            "CLICOLOR_FORCE",
        ] {
            command.env_remove(variable);
        }
        command
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        Ended::from(self.command(arguments).output())
    }

    fn run_with_input(&self, arguments: &[&str], input: impl Into<Vec<u8>>) -> Ended {
        Ended::from(self.command(arguments).write_stdin(input).output())
    }
}

/// How a command ended.
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ended {
    fn from(output: std::io::Result<Output>) -> Ended {
        let output = output.expect("the program can be run");
        let text = |bytes| String::from_utf8(bytes).expect("the program writes UTF-8");
        Ended {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    #[track_caller]
    fn code(self, expected: i32) -> Ended {
        let Ended { stdout, stderr, .. } = &self;
        assert_eq!(self.code, Some(expected), "\n{stdout}\n{stderr}");
        self
    }

    #[track_caller]
    fn says(self, words: &str) -> Ended {
        assert!(
            self.stdout.contains(words),
            "no {words:?} in\n{}",
            self.stdout
        );
        self
    }

    #[track_caller]
    fn complains(self, words: &str) -> Ended {
        assert!(
            self.stderr.contains(words),
            "no {words:?} in\n{}",
            self.stderr
        );
        self
    }

    #[track_caller]
    fn says_nothing(self) -> Ended {
        assert_eq!(self.stdout, "", "standard output is not empty");
        self
    }

    #[track_caller]
    fn complains_of_nothing(self) -> Ended {
        assert_eq!(self.stderr, "", "standard error is not empty");
        self
    }
}

// Help.

#[test]
fn help_lists_every_command_the_exit_codes_and_first_steps() {
    let help = Place::new().run(&["--help"]).code(0).complains_of_nothing();
    for command in COMMANDS {
        assert!(
            help.stdout.contains(&format!("\n  {command} ")),
            "{command} is not listed"
        );
    }
    let codes = exit_codes(&help.stdout);
    assert_eq!(codes, ["0", "10", "99", "4", "2", "3", "130"]);
    help.says("First steps:").says("oversold doctor");
}

#[test]
fn the_help_of_every_command_lists_its_exit_codes() {
    for command in COMMANDS {
        let help = Place::new()
            .run(&[command, "--help"])
            .code(0)
            .complains_of_nothing();
        let expected: &[&str] = match command {
            "run" | "compare" | "matrix" | "replay" | "soak" => {
                &["0", "10", "99", "4", "2", "3", "130"]
            }
            "granularity" => &["0", "10", "4", "2", "3", "130"],
            "ttl-sweep" | "rate-sweep" => &["0", "4", "2", "3", "130"],
            "check" => &["0", "10", "99", "4", "2", "3"],
            "doctor" => &["0", "2", "3"],
            _ => &["0", "2"],
        };
        assert_eq!(exit_codes(&help.stdout), expected, "{command}");
        let widest = help.stdout.lines().map(|line| line.chars().count()).max();
        assert!(
            widest <= Some(100),
            "the help of {command} is {widest:?} columns wide"
        );
    }
}

fn exit_codes(help: &str) -> Vec<String> {
    let codes = help
        .lines()
        .skip_while(|line| *line != "Exit codes:")
        .skip(1);
    let codes = codes.take_while(|line| line.starts_with("  "));
    codes
        .filter_map(|line| Some(line.split_whitespace().next()?.to_owned()))
        .collect()
}

#[test]
fn the_examples_in_the_help_are_commands_that_there_are() {
    for command in COMMANDS {
        let help = Place::new().run(&[command, "--help"]).stdout;
        let examples = help
            .lines()
            .filter_map(|line| line.strip_prefix("  oversold "));
        for example in examples {
            let used = example.split_whitespace().next().expect("a command");
            assert_eq!(used, command, "an example for {command}: {example}");
            let text = example.split("   ").next().expect("a command line");
            let options = text
                .split_whitespace()
                .filter(|word| word.starts_with("--"));
            for option in options {
                let takes = |value: &str| help.contains(&format!("{option} {value}"));
                assert!(takes("<") || takes("[<"), "{command} has no {option}");
            }
        }
    }
}

#[test]
fn no_command_is_wrong_usage_and_teaches() {
    let place = Place::new();
    place
        .run(&[])
        .code(2)
        .says_nothing()
        .complains("First steps:");
    place
        .run(&["frobnicate"])
        .code(2)
        .says_nothing()
        .complains("frobnicate");
    place
        .run(&["run"])
        .code(2)
        .says_nothing()
        .complains("<SCENARIO>");
}

#[test]
fn the_version_is_the_package_s() {
    let version = format!("oversold {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(Place::new().run(&["--version"]).code(0).stdout, version);
}

// Lists.

#[test]
fn a_list_has_every_lock_fault_check_workload_and_mistake_with_a_line_on_each() {
    let names = |which: &str| {
        let listed = Place::new()
            .run(&["list", which])
            .code(0)
            .complains_of_nothing();
        let mut lines = listed.stdout.lines();
        assert_eq!(lines.next(), Some(which), "the heading");
        let rows = lines.map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next().expect("a name").to_owned();
            assert!(words.count() >= 3, "{name} is not explained");
            name
        });
        rows.collect::<Vec<_>>()
    };
    assert_eq!(names("locks"), lock::names());
    assert_eq!(
        names("faults"),
        fault::ALL.iter().map(|e| e.name).collect::<Vec<_>>()
    );
    assert_eq!(
        names("checks"),
        check::ALL.iter().map(|e| e.name).collect::<Vec<_>>()
    );
    assert_eq!(
        names("workloads"),
        workload::ALL.iter().map(|e| e.name).collect::<Vec<_>>()
    );
    assert_eq!(names("mistakes"), Mistake::ALL.map(Mistake::word));
}

#[test]
fn a_full_list_has_all_of_them_under_their_headings() {
    let listed = Place::new().run(&["list"]).code(0).complains_of_nothing();
    let headings: Vec<&str> = listed
        .stdout
        .lines()
        .filter(|l| !l.starts_with(' '))
        .collect();
    assert_eq!(
        headings,
        [
            "locks",
            "faults",
            "checks",
            "workloads",
            "mistakes",
            "scenarios",
            "traps"
        ]
    );
}

#[test]
fn the_scenarios_that_come_with_the_program_are_listed_and_go_by_their_names() {
    let place = Place::new();
    let listed = place.run(&["list", "scenarios"]).code(0);
    listed.says("  calm ").says("no faults, short sections");
    place.run(&["validate", "calm"]).code(0).says("calm: valid");
    // A file of that name is meant before it.
    let place = place.with("calm", "name = 5");
    place.run(&["validate", "calm"]).code(2);
}

#[test]
fn traps_are_listed_with_the_scenario_and_the_lock_that_falls_for_them() {
    let listed = Place::new().run(&["list", "traps"]).code(0);
    listed
        .says("trap 4: a process that dies between the two leaves a lock for ever")
        .says("crash-between: falls: setnx-expire-del")
        .says("mistake-nested: falls: token-lua-watchdog with `nested`");
}

#[test]
fn an_unknown_list_is_wrong_usage_and_the_known_ones_are_told() {
    let ended = Place::new().run(&["list", "keys"]).code(2).says_nothing();
    ended.complains("locks, faults, checks, workloads, mistakes, scenarios, traps");
}

// Validate.

#[test]
fn a_valid_scenario_is_told_so() {
    let place = Place::new().with("good.toml", GOOD);
    let ended = place
        .run(&["validate", "good.toml"])
        .code(0)
        .complains_of_nothing();
    assert_eq!(ended.stdout, "good: valid\n");
}

#[test]
fn the_mistakes_of_all_files_are_told_at_once_with_line_and_column() {
    let place = Place::new()
        .with("s/one.toml", GOOD.replace("workers = 2", "workers = 0"))
        .with("s/two.toml", GOOD.replace("\"5s\"", "5"))
        .with("s/three.txt", "no scenario");
    let ended = place.run(&["validate", "s"]).code(2).says_nothing();
    assert_eq!(
        ended.stderr,
        "\
error: s/one.toml: 1 problem
s/one.toml:3:11: `load.workers` must lie between 1 and 10000
  3 | workers = 0
    |           ^

s/two.toml: 1 problem
s/two.toml:12:7: `lock.ttl` must be a duration with its unit, such as \"5s\" or \"200ms\", not an integer
  12 | ttl = 5
     |       ^
"
    );
}

#[test]
fn a_scenario_is_read_from_standard_input() {
    let place = Place::new();
    let ended = place.run_with_input(&["validate", "-"], GOOD).code(0);
    assert_eq!(ended.stdout, "good: valid\n");
    let bad = GOOD.replace("token-lua", "token-lau");
    let ended = place.run_with_input(&["validate", "-"], bad).code(2);
    ended.complains("-:11:8: unknown `lock.kind` \"token-lau\"; did you mean \"token-lua\"?");
    place
        .run_with_input(&["validate", "-"], "")
        .code(2)
        .complains("-: 5 problems");
}

#[test]
fn a_file_that_is_no_text_is_invalid() {
    let place = Place::new().with("bytes.toml", b"name = \"\xff\xfe\"\n");
    let ended = place
        .run(&["validate", "bytes.toml"])
        .code(2)
        .says_nothing();
    ended.complains("bytes.toml: ").complains("UTF-8");
    let ended = place.run_with_input(&["validate", "-"], b"\xff\xfe");
    ended.code(2).complains("standard input").complains("UTF-8");
}

#[test]
fn a_wait_policy_that_the_scenarios_own_lock_lacks_is_told_by_validate() {
    let wakes = GOOD.to_owned() + "wait = { wake_up_within = \"1s\" }\n";
    let ended = Place::new().run_with_input(&["validate", "-"], wakes);
    ended
        .code(2)
        .complains("these locks do: reentrant-watchdog, fair");
}

#[test]
fn a_missing_file_is_named_with_the_next_step() {
    for command in ["run", "compare", "validate"] {
        let ended = Place::new()
            .run(&[command, "nowhere.toml"])
            .code(2)
            .says_nothing();
        ended
            .complains("nowhere.toml: ")
            .complains("oversold list scenarios");
    }
    let ended = Place::new()
        .run(&["check", "nowhere"])
        .code(2)
        .says_nothing();
    ended.complains("nowhere: ");
    let ended = Place::new()
        .run(&["replay", "nowhere"])
        .code(2)
        .says_nothing();
    ended.complains("nowhere: ");
}

#[test]
fn a_folder_without_a_scenario_is_told_so() {
    let place = Place::new().with("empty/readme.txt", "");
    let ended = place.run(&["run", "empty"]).code(2).says_nothing();
    ended.complains("empty: no scenario (*.toml) in this folder");
}

// Flags.

#[test]
fn an_unknown_lock_is_wrong_usage_and_the_known_ones_are_told() {
    let place = Place::new().with("good.toml", GOOD);
    let ended = place.run(&["run", "good.toml", "--lock", "redlok"]).code(2);
    ended
        .says_nothing()
        .complains("no such lock")
        .complains("token-lua-watchdog");
    let ended = place
        .run(&["compare", "good.toml", "--locks", "none,redlok"])
        .code(2);
    ended.says_nothing().complains("redlok");
}

#[test]
fn a_flag_that_makes_no_sense_is_wrong_usage() {
    let place = Place::new().with("good.toml", GOOD);
    let wrong = [
        ("-c", "--workers", "0"),
        ("-c", "--workers", "10001"),
        ("-n", "--operations", "0"),
        ("-n", "--operations", "-5"),
        ("-z", "--duration", "5"),
        ("-z", "--duration", "0s"),
        ("-z", "--duration", "25h"),
        ("-z", "--duration", "18446744073709551615s"),
        ("--time-scale", "--time-scale", "0"),
        ("--time-scale", "--time-scale", "nan"),
        ("--time-scale", "--time-scale", "11"),
        ("--trials", "--trials", "0"),
        ("--seed", "--seed", "-1"),
        ("--expect", "--expect", "maybe"),
    ];
    for (flag, name, value) in wrong {
        let argument = format!("{flag}={value}");
        let ended = place.run(&["run", "good.toml", &argument]);
        assert_eq!(ended.code, Some(2), "{argument}: {}", ended.stderr);
        let named = format!("invalid value '{value}' for '{name} <");
        assert!(
            ended.stderr.contains(&named),
            "{argument}: {}",
            ended.stderr
        );
    }
}

#[test]
fn a_mistake_that_nobody_makes_is_wrong_usage_and_the_known_ones_are_told() {
    let place = Place::new().with("good.toml", GOOD);
    for command in ["run", "compare"] {
        let ended = place.run(&[command, "good.toml", "--mistake", "nonsense"]);
        let mut ended = ended.code(2).says_nothing().complains("'nonsense'");
        for mistake in Mistake::ALL {
            ended = ended.complains(mistake.word());
        }
    }
    let matrix = ["matrix", "--scenarios", "good.toml", "--mistake=nonsense"];
    place.run(&matrix).code(2).says_nothing();
}

#[test]
fn an_unknown_store_is_wrong_usage() {
    let place = Place::new().with("good.toml", GOOD);
    let ended = place.run(&["run", "good.toml", "--store", "mysql"]);
    let ended = ended.code(2).says_nothing().complains("'mysql'");
    ended.complains("sqlite").complains("postgres");
}

#[test]
fn the_url_of_a_postgres_makes_no_sense_with_another_store() {
    let place = Place::new().with("good.toml", GOOD);
    let url = "postgres://someone:s3cret@localhost/sales";
    let both = ["run", "good.toml", "--store", "redis", "--store-url", url];
    let ended = place.run(&both).code(2).says_nothing();
    let ended = ended.complains("--store postgres");
    assert!(!ended.stderr.contains("s3cret"), "{}", ended.stderr);
}

#[test]
fn a_matrix_is_of_scenarios_and_locks_that_there_are() {
    let place = Place::new().with("s/good.toml", GOOD);
    let unknown = ["matrix", "--scenarios", "s", "--locks", "none,redlok"];
    place
        .run(&unknown)
        .code(2)
        .says_nothing()
        .complains("redlok");
    let ended = place.run(&["matrix", "--scenarios", "nowhere.toml"]);
    ended.code(2).says_nothing().complains("nowhere.toml: ");
}

#[test]
fn the_help_of_the_matrix_tells_how_to_go_on_after_an_interruption() {
    let help = Place::new().run(&["matrix", "--help"]).code(0);
    let help = help.says("--resume <DIR>").says("--jobs <N>");
    help.says("the cells that are done are kept");
}

#[test]
fn a_sweep_without_a_sensible_setting_runs_nothing() {
    for (command, flag, values) in [
        (
            "ttl-sweep",
            "--multiples",
            ["0", "-1", "nan", "1,,2", "101"],
        ),
        (
            "rate-sweep",
            "--rates",
            ["0", "-1", "1.5", "300,", "1000001"],
        ),
    ] {
        for value in values {
            let flag = format!("{flag}={value}");
            let ended = Place::new().run(&[command, "s.toml", &flag]);
            ended.code(2).says_nothing().complains("invalid value");
        }
    }
}

#[test]
fn two_documents_cannot_both_go_to_standard_output() {
    let place = Place::new().with("good.toml", GOOD);
    let both = ["run", "good.toml", "--json", "-", "--junit", "-"];
    let ended = place.run(&both).code(2);
    ended.says_nothing().complains("name a file for the other");
}

// The environment.

#[test]
fn a_server_that_is_not_there_is_an_error_of_the_environment_and_tells_how_to_install_one() {
    let place = Place::new().with("good.toml", GOOD);
    let named = ["run", "good.toml", "--redis-server", "/nonexistent"];
    let ended = place.run(&named).code(3).says_nothing();
    ended.complains("/nonexistent: ").complains(INSTALL);
    let ended = Ended::from(
        place
            .command(&["run", "good.toml"])
            .env("PATH", "")
            .output(),
    );
    ended
        .code(3)
        .says_nothing()
        .complains("no redis-server found")
        .complains(INSTALL);
    let variable = ("OVERSOLD_REDIS_SERVER", "/nonexistent");
    let ended = place
        .command(&["run", "good.toml"])
        .env(variable.0, variable.1)
        .output();
    Ended::from(ended).code(3).complains("/nonexistent: ");
}

#[test]
fn a_binary_that_is_no_redis_server_is_told_so() {
    let place = Place::new().with("good.toml", GOOD);
    let ended = place
        .run(&["run", "good.toml", "--redis-server", "/bin/true"])
        .code(3);
    ended
        .says_nothing()
        .complains("/bin/true: not a redis-server");
}

#[test]
fn the_doctor_tells_what_is_missing_and_how_to_install_it() {
    let place = Place::new();
    let ended = Ended::from(place.command(&["doctor"]).env("PATH", "").output()).code(3);
    let ended = ended.says("no redis-server found").says(INSTALL);
    ended
        .says("postgres")
        .says("open files")
        .says("ports")
        .says("timers")
        .complains_of_nothing();
    let ended = place
        .run(&["doctor", "--redis-server", "/nonexistent"])
        .code(3);
    assert_eq!(ended.stdout.matches(INSTALL).count(), 1, "{}", ended.stdout);
    ended.says("/nonexistent: ");
}

#[test]
fn a_folder_that_cannot_be_written_is_named_before_anything_is_run() {
    let place = Place::new()
        .with("good.toml", GOOD)
        .with("taken", "a file in the way");
    for out in ["taken", "taken/deeper"] {
        // Even before a server is looked for.
        let run = place
            .command(&["run", "good.toml", "--out", out])
            .env("PATH", "")
            .output();
        let ended = Ended::from(run).code(3).says_nothing();
        let ended = ended
            .complains(&format!("{out}: cannot write here"))
            .complains("--out DIR");
        assert!(!ended.stderr.contains(INSTALL), "{}", ended.stderr);
    }
    let json = ["run", "good.toml", "--json", "taken/report.json"];
    let ended = Ended::from(place.command(&json).env("PATH", "").output());
    ended
        .code(3)
        .says_nothing()
        .complains("taken: cannot write here");
}

#[test]
fn an_invalid_scenario_is_told_before_the_environment_is_looked_at() {
    let place = Place::new()
        .with("bad.toml", "")
        .with("taken", "a file in the way");
    let run = place
        .command(&["run", "bad.toml", "--out", "taken"])
        .env("PATH", "")
        .output();
    Ended::from(run).code(2).complains("bad.toml: 5 problems");
}

// Completions.

#[test]
fn completions_are_a_script_for_the_shell() {
    let place = Place::new();
    let bash = place
        .run(&["completions", "bash"])
        .code(0)
        .complains_of_nothing();
    let bash = bash.says("complete -F _oversold");
    for command in COMMANDS {
        assert!(bash.stdout.contains(command), "{command} is not completed");
    }
    place
        .run(&["completions", "zsh"])
        .code(0)
        .says("#compdef oversold");
    place
        .run(&["completions", "fish"])
        .code(0)
        .says("complete -c oversold");
    place
        .run(&["completions", "tcsh"])
        .code(2)
        .says_nothing()
        .complains("tcsh");
}

// Stored runs.

/// What happened, and how long after each other.
struct Events {
    every: Duration,
    kinds: Vec<Kind>,
}

/// A history in which two customers buy two units, one after the other.
fn sound() -> Events {
    let mut kinds = vec![arrived(1), arrived(2)];
    kinds.extend(enters(1, 2));
    kinds.extend([Kind::Asked { op: 2 }, Kind::Denied { op: 2 }]);
    kinds.extend(leaves(1, 2, 2, Release::Removed));
    kinds.extend(enters(2, 1));
    kinds.extend(leaves(2, 1, 1, Release::Removed));
    kinds.extend(end());
    let every = Duration::from_millis(100);
    Events { every, kinds }
}

/// A history in which the first customer's lease of 5 s runs out and the second one comes in
/// beside the first: both buy the same unit.
fn broken() -> Events {
    let mut kinds = vec![arrived(1), arrived(2)];
    kinds.extend(enters(1, 2));
    kinds.extend([Kind::Asked { op: 2 }, Kind::Denied { op: 2 }]);
    kinds.extend(enters(2, 2));
    kinds.extend(leaves(1, 2, 2, Release::NotMine));
    kinds.extend(leaves(2, 2, 1, Release::Removed));
    kinds.extend(end());
    let every = Duration::from_secs(1);
    Events { every, kinds }
}

fn end() -> [Kind; 2] {
    let why = Stop::NothingLeft;
    [Kind::Draining { why }, Kind::Ended {}]
}

fn arrived(op: u64) -> Kind {
    Kind::Arrived {
        op,
        instance: op as u32 - 1,
        worker: op as u32 - 1,
        key: 0,
        planned_ns: None,
    }
}

fn enters(op: u64, seen: i64) -> Vec<Kind> {
    let granted = Kind::Granted {
        op,
        ttl_ns: Some(5_000_000_000),
        locked: true,
        fence: None,
    };
    let read = Kind::Read {
        op,
        item: 0,
        value: seen,
    };
    let working = Kind::Working {
        op,
        work_ns: 6_000_000_000,
    };
    vec![
        Kind::Asked { op },
        granted,
        Kind::Entered { op },
        read,
        working,
    ]
}

fn leaves(op: u64, seen: i64, replaced: i64, outcome: Release) -> Vec<Kind> {
    let wrote = Kind::Wrote {
        op,
        item: 0,
        seen,
        replaced,
        left: seen - 1,
        effect: Effect::Written {
            rows: 1,
            rejected: 0,
        },
    };
    let released = Kind::Released { op, outcome };
    vec![
        wrote,
        Kind::Left { op },
        Kind::ReleaseAsked { op },
        released,
        Kind::Done { op },
    ]
}

/// Leaves a run as `oversold run` does: history and ledger say the same.
fn store(folder: &Path, events: &Events, seed: u64) {
    std::fs::create_dir_all(folder).expect("a folder");
    let known = Vocabulary {
        locks: lock::names(),
        properties: check::Property::words(),
    };
    let scenario = Scenario::parse("good.toml", GOOD, &known).expect("a valid scenario");
    let plan = Plan::resolve(&scenario, &Overrides::default(), "token-lua", seed);
    let header = Header {
        schema_version: SCHEMA_VERSION,
        kept: Kept::Full,
        server: "Redis 7.0.15".to_owned(),
        keys: vec![workload::key_name(&plan.workload, 0)],
        items: vec![workload::item_name(&plan.workload, 0)],
        plan: plan.clone(),
    };
    let history = folder.join("history.jsonl");
    let mut writer = Writer::create(&history, &header, plan.ttl()).expect("a history");
    let times = (1..).map(|place| Time::default().plus(events.every * place));
    let events = times.zip(&events.kinds).map(|(at_ns, event)| Event {
        at_ns,
        event: event.clone(),
    });
    let events: Vec<Event> = events.collect();
    writer.append(&events, false);
    writer.finish().expect("a whole history");
    let ledger = folder.join("ledger.sqlite");
    let store = Sqlite::create(&ledger, &plan.workload, plan.guard).expect("a ledger");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    for event in &events {
        if let Kind::Wrote { op, item, seen, .. } = event.event {
            let write = Write {
                op,
                instance: 0,
                worker: 0,
                at: event.at_ns,
                item,
                seen: Seen {
                    value: seen,
                    version: 0,
                },
                fence: None,
            };
            runtime.block_on(store.write(write)).expect("a write");
        }
    }
}

#[test]
fn a_stored_run_is_judged_again_without_redis() {
    let place = Place::new();
    store(&place.path("run"), &sound(), 1);
    for stored in ["run", "run/history.jsonl", "."] {
        let ended = Ended::from(place.command(&["check", stored]).env("PATH", "").output());
        let ended = ended.code(0).complains_of_nothing();
        ended
            .says("good / token-lua")
            .says("PASS")
            .says("2 orders for 2 units");
    }
}

#[test]
fn a_stored_violation_is_found_again() {
    let place = Place::new();
    store(&place.path("run"), &broken(), 1);
    let ended = place.run(&["check", "run"]).code(10).complains_of_nothing();
    ended.says("FAIL").says("overlap");
}

#[test]
fn stored_trials_of_one_lock_are_one_report_and_the_worst_decides() {
    let place = Place::new();
    store(&place.path("run/seed-1"), &sound(), 1);
    store(&place.path("run/seed-2"), &broken(), 2);
    let ended = place.run(&["check", "run", "--json", "all.json"]).code(10);
    ended.says("2 trials from seed 1");
    let text = std::fs::read_to_string(place.path("all.json")).expect("a document");
    let report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["verdict"], "fail");
    assert_eq!(report["trials"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_history_that_was_cut_off_is_inconclusive() {
    let place = Place::new();
    let mut events = sound();
    events.kinds.pop();
    store(&place.path("run"), &events, 1);
    place
        .run(&["check", "run"])
        .code(4)
        .says("INCONCLUSIVE")
        .says("cut off");
}

#[test]
fn a_folder_with_nothing_stored_is_wrong_usage() {
    let place = Place::new().with("empty/deep/er/readme.txt", "");
    let ended = place.run(&["check", "empty"]).code(2).says_nothing();
    ended.complains("empty: no history.jsonl or history.jsonl.gz here or below");
    let ended = place.run(&["replay", "empty"]).code(2).says_nothing();
    ended.complains("no plan.json here or below");
}

#[test]
fn a_history_of_a_newer_version_is_refused() {
    let place = Place::new();
    store(&place.path("run"), &sound(), 1);
    let history = place.path("run/history.jsonl");
    let text = std::fs::read_to_string(&history).expect("a history");
    let newer = text.replacen("\"schema_version\":1", "\"schema_version\":2", 1);
    assert_ne!(newer, text);
    std::fs::write(&history, newer).expect("a newer history");
    let ended = place.run(&["check", "run"]).code(2).says_nothing();
    let ended = ended.complains("run/history.jsonl:1: ");
    ended.complains("schema_version 2, and this oversold reads 1");
}

#[test]
fn a_damaged_history_is_told_with_its_line() {
    let place = Place::new();
    store(&place.path("run"), &sound(), 1);
    let history = place.path("run/history.jsonl");
    let text = std::fs::read_to_string(&history).expect("a history");
    let mut lines: Vec<&str> = text.lines().collect();
    lines[4] = "{}";
    std::fs::write(&history, lines.join("\n") + "\n").expect("a damaged history");
    let ended = place.run(&["check", "run"]).code(2).says_nothing();
    ended.complains("run/history.jsonl:5: ");
}

#[test]
fn a_history_without_its_ledger_cannot_be_judged() {
    let place = Place::new();
    store(&place.path("run"), &sound(), 1);
    std::fs::remove_file(place.path("run/ledger.sqlite")).expect("a ledger to remove");
    place
        .run(&["check", "run"])
        .code(2)
        .says_nothing()
        .complains("ledger.sqlite: ");
}

// Where things go.

#[test]
fn a_document_on_standard_output_is_alone_there() {
    let place = Place::new();
    store(&place.path("run"), &broken(), 1);
    let ended = place.run(&["check", "run", "--json", "-"]).code(10);
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).expect("pure JSON");
    assert_eq!(report["verdict"], "fail");
    ended.complains("good / token-lua");
    let ended = place.run(&["check", "run", "--junit", "-"]).code(10);
    assert!(ended.stdout.starts_with("<?xml "), "{}", ended.stdout);
    ended.complains("good / token-lua");
}

#[test]
fn documents_go_to_the_files_that_are_named_and_the_summary_to_standard_output() {
    let place = Place::new();
    store(&place.path("run"), &sound(), 1);
    let documents = ["check", "run", "--json", "r.json", "--junit", "r.xml"];
    place
        .run(&documents)
        .code(0)
        .says("good / token-lua")
        .complains_of_nothing();
    let json = std::fs::read_to_string(place.path("r.json")).expect("a JSON document");
    assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
    let xml = std::fs::read_to_string(place.path("r.xml")).expect("a JUnit document");
    assert!(xml.starts_with("<?xml "));
}

#[test]
fn no_escape_byte_is_written_where_nobody_can_see_colours() {
    let place = Place::new().with("bad.toml", "name = 5");
    store(&place.path("run"), &broken(), 1);
    let commands: [&[&str]; 8] = [
        &["--help"],
        &["run", "--help"],
        &["frobnicate"],
        &["list"],
        &["doctor"],
        &["validate", "bad.toml"],
        &["check", "run"],
        &["check", "run", "--json", "-"],
    ];
    for arguments in commands {
        for no_color in [None, Some("1")] {
            let mut command = place.command(arguments);
            if let Some(value) = no_color {
                command.env("NO_COLOR", value);
            }
            let ended = Ended::from(command.output());
            let both = ended.stdout + &ended.stderr;
            assert!(!both.contains('\u{1b}'), "{arguments:?}: {both:?}");
        }
    }
}

// Soaks.

#[test]
fn a_soak_that_is_asked_for_wrongly_is_wrong_usage_and_says_what_to_write() {
    for (words, help) in [
        (["soak", "--rate", "2600"], "300/s"),
        (["soak", "--stages", "300/s"], "for 30s"),
        (["soak", "-n", "10x"], "10k"),
        (["soak", "--section", "5ms..2ms"], "shorter end"),
        (["soak", "--threshold", "acquire < 50ms"], "p(99)"),
        (["soak", "--metrics", "0.0.0.0:9464"], "127.0.0.1"),
        (["soak", "counter", "--keys=5"], "tally"),
    ] {
        Place::new()
            .run(&words)
            .code(2)
            .says_nothing()
            .complains(help);
    }
}
