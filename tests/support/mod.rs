//! What the end-to-end tests share: the real program started as a user would start it, with its
//! reports in a folder of the test's own; the JSON document as a reader sees it; and a look at the
//! processes that a run leaves behind. Every wait is bounded.

#![allow(dead_code)] // Each test file uses its own part.

pub mod told;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::Value;
use tempfile::TempDir;

/// Longer than any run of these tests: a run that takes longer hangs.
pub const FOREVER: Duration = Duration::from_secs(120);
/// How often something that is waited for is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// The exit codes.
pub const PASS: i32 = 0;
pub const USAGE: i32 = 2;
pub const ENVIRONMENT: i32 = 3;
pub const INCONCLUSIVE: i32 = 4;
pub const VIOLATED: i32 = 10;
pub const SIGINT: i32 = 130;
pub const SIGTERM: i32 = 143;

/// The older locks: none, the broken ones, and the two that are right.
pub const LOCKS: [&str; 6] = [
    "none",
    "setnx-expire-del",
    "set-nx-ex-del",
    "token-get-del",
    "token-lua",
    "token-lua-watchdog",
];

/// A path below the package's root.
pub fn package(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The program with some words as its command line, split at blanks.
pub fn oversold(words: &str) -> Oversold {
    Oversold {
        words: words.split_whitespace().map(str::to_owned).collect(),
        stdin: String::new(),
        out: tempfile::tempdir().expect("a temporary folder"),
        at: None,
        holds_stdin: false,
        open_files: None,
        variables: vec![],
    }
}

/// The program before it runs.
pub struct Oversold {
    words: Vec<String>,
    stdin: String,
    out: TempDir,
    at: Option<PathBuf>,
    holds_stdin: bool,
    /// The soft limit, and the hard one if it is to change.
    open_files: Option<(u64, Option<u64>)>,
    variables: Vec<(&'static str, String)>,
}

impl Oversold {
    /// One more word of the command line, blanks and all.
    pub fn word(mut self, word: impl AsRef<Path>) -> Oversold {
        let word = word.as_ref().to_str().expect("a path that is text");
        self.words.push(word.to_owned());
        self
    }

    /// What it reads from standard input (`-`).
    pub fn reading(mut self, scenario: &str) -> Oversold {
        self.stdin = scenario.to_owned();
        self
    }

    /// Its standard input stays open, as at a terminal where nobody types.
    pub fn waiting_for_input(mut self) -> Oversold {
        self.holds_stdin = true;
        self
    }

    /// The limit of open files that it starts with, which it may raise as far as it likes.
    pub fn with_soft_open_files(mut self, soft: u64) -> Oversold {
        self.open_files = Some((soft, None));
        self
    }

    /// The limit of open files that it cannot raise.
    pub fn with_open_files(mut self, hard: u64) -> Oversold {
        self.open_files = Some((hard, Some(hard)));
        self
    }

    /// A variable of its environment.
    pub fn variable(mut self, name: &'static str, value: &str) -> Oversold {
        self.variables.push((name, value.to_owned()));
        self
    }

    /// Reports go below this folder instead of one of the test's own.
    pub fn reports_at(mut self, folder: &Path) -> Oversold {
        self.at = Some(folder.to_owned());
        self
    }

    /// Starts it and waits for its end.
    pub fn run(self) -> Ended {
        self.start().ends()
    }

    /// Starts it.
    pub fn start(self) -> Running {
        self.start_with_output(None)
    }

    /// Starts it with its standard output and error going elsewhere.
    pub fn start_with_output(self, elsewhere: Option<(Stdio, Stdio)>) -> Running {
        let file = |name: &str| File::create(self.out.path().join(name)).expect("a file");
        let (stdout, stderr) =
            elsewhere.unwrap_or_else(|| (file("stdout").into(), file("stderr").into()));
        let reports = self.at.unwrap_or_else(|| self.out.path().join("reports"));
        let json = self.out.path().join("report.json");
        let temporary = self.out.path().join("temporary");
        std::fs::create_dir(&temporary).expect("a folder");
        let mut command = Command::new(env!("CARGO_BIN_EXE_oversold"));
        command
            .args(&self.words)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env_remove("OVERSOLD_REDIS_SERVER")
            .env("TMPDIR", &temporary)
            .envs(self.variables)
            .stdin(Stdio::piped())
            .stdout(stdout)
            .stderr(stderr);
        if let Some((soft, hard)) = self.open_files {
            limit_open_files(&mut command, soft, hard);
        }
        let runs = [
            "run",
            "compare",
            "replay",
            "matrix",
            "ttl-sweep",
            "rate-sweep",
            "granularity",
            "soak",
        ];
        if runs.contains(&self.words[0].as_str()) {
            command.arg("--out").arg(&reports);
        }
        let judges = self.words[0] == "check" || runs.contains(&self.words[0].as_str());
        if judges && !self.words.iter().any(|word| word == "--json") {
            command.arg("--json").arg(&json);
        }
        let mut child = command.spawn().expect("the program starts");
        let mut stdin = child.stdin.take().expect("it was asked for");
        // A command that does not read it may have ended.
        let _ = stdin.write_all(self.stdin.as_bytes());
        Running {
            child,
            _stdin: self.holds_stdin.then_some(stdin),
            began: Instant::now(),
            out: self.out,
            reports,
        }
    }
}

fn limit_open_files(command: &mut Command, soft: u64, hard: Option<u64>) {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    let hard = hard.unwrap_or(most);
    let limit = move || Ok(setrlimit(Resource::RLIMIT_NOFILE, soft, hard)?);
    // SAFETY: setrlimit is async-signal-safe and nothing is allocated between fork and exec.
    unsafe {
        command.pre_exec(limit);
    }
}

/// The program while it runs. Dropping it kills it, so that a failed test leaves nothing.
pub struct Running {
    pub child: Child,
    _stdin: Option<ChildStdin>,
    began: Instant,
    out: TempDir,
    reports: PathBuf,
}

impl Running {
    /// Waits until a history below its report folder tells of this (`"entered"`).
    pub fn until_history_tells(&mut self, event: &str) -> PathBuf {
        let word = format!("{{\"{event}\":");
        let told = |path: &PathBuf| {
            std::fs::read_to_string(path).is_ok_and(|history| history.contains(&word))
        };
        loop {
            let histories = files_named("history.jsonl", &self.reports);
            if let Some(history) = histories.into_iter().find(told) {
                return history;
            }
            let ended = self.child.try_wait().expect("it can be asked");
            assert!(ended.is_none(), "it ended before a history told of {event}");
            self.not_for_ever(event);
            std::thread::sleep(LOOK);
        }
    }

    /// Waits until it has begun a history.
    pub fn until_history_exists(&mut self) {
        while files_named("history.jsonl", &self.reports).is_empty() {
            self.not_for_ever("history");
            std::thread::sleep(LOOK);
        }
    }

    /// Waits until it handles a signal itself.
    pub fn until_it_catches(&mut self, signal: nix::sys::signal::Signal) {
        let bit = 1u64 << (signal as i32 - 1);
        let status = format!("/proc/{}/status", self.child.id());
        let catches = || {
            let text = std::fs::read_to_string(&status).ok()?;
            let mask = text.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
            Some(u64::from_str_radix(mask.trim(), 16).ok()? & bit != 0)
        };
        while catches() != Some(true) {
            self.not_for_ever("handler of its own");
            std::thread::sleep(LOOK);
        }
    }

    /// Waits until it has said this on standard error.
    pub fn until_it_says(&mut self, words: &str) {
        let stderr = self.out.path().join("stderr");
        while !std::fs::read_to_string(&stderr).is_ok_and(|said| said.contains(words)) {
            self.not_for_ever(words);
            std::thread::sleep(LOOK);
        }
    }

    /// What it has said on standard error so far.
    pub fn said(&self) -> String {
        std::fs::read_to_string(self.out.path().join("stderr")).unwrap_or_default()
    }

    /// Its servers: processes that it started and that still run.
    pub fn servers(&self) -> Vec<Process> {
        children_of(self.child.id())
    }

    /// Waits until it has started a process.
    pub fn until_it_has_a_child(&mut self) -> Vec<Process> {
        loop {
            let children = self.servers();
            if !children.is_empty() {
                return children;
            }
            self.not_for_ever("a child process");
            std::thread::sleep(LOOK);
        }
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        send(self.child.id(), signal);
    }

    /// Waits for its end.
    pub fn ends(mut self) -> Ended {
        let code = loop {
            if let Some(status) = self.child.try_wait().expect("it can be asked") {
                break status.code();
            }
            self.not_for_ever("its end");
            std::thread::sleep(LOOK);
        };
        let text =
            |name: &str| std::fs::read_to_string(self.out.path().join(name)).unwrap_or_default();
        Ended {
            code,
            took: self.began.elapsed(),
            stdout: text("stdout"),
            stderr: text("stderr"),
            document: serde_json::from_str(&text("report.json")).ok(),
            reports: self.reports.clone(),
            running: self,
        }
    }

    fn not_for_ever(&mut self, what: &str) {
        if self.began.elapsed() > FOREVER {
            let said = std::fs::read_to_string(self.out.path().join("stderr"));
            let _ = self.child.kill();
            panic!("still no {what} after {FOREVER:?}; it said {said:?}");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is left of the program when it has ended.
pub struct Ended {
    pub code: Option<i32>,
    pub took: Duration,
    pub stdout: String,
    pub stderr: String,
    document: Option<Value>,
    pub reports: PathBuf,
    /// Keeps the folder.
    running: Running,
}

impl Ended {
    /// Its exit code is this one.
    #[track_caller]
    pub fn exits(&self, code: i32) -> &Ended {
        self.exits_with_one_of(&[code])
    }

    /// Its exit code is one of these; it did not panic, and nothing of its servers is left.
    #[track_caller]
    pub fn exits_with_one_of(&self, codes: &[i32]) -> &Ended {
        assert!(
            self.code.is_some_and(|code| codes.contains(&code)),
            "exit {:?} instead of {codes:?}\n{}\n{}",
            self.code,
            self.stdout,
            self.stderr
        );
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        let left = std::fs::read_dir(self.running.out.path().join("temporary"));
        let left: Vec<_> = left.expect("a folder").flatten().collect();
        assert!(left.is_empty(), "left behind: {left:?}");
        self
    }

    /// It took no longer than this.
    #[track_caller]
    pub fn within(&self, limit: Duration) -> &Ended {
        assert!(
            self.took <= limit,
            "it took {:?}: {}",
            self.took,
            self.stderr
        );
        self
    }

    /// The document that `--json` wrote.
    #[track_caller]
    pub fn document(&self) -> &Value {
        self.document.as_ref().unwrap_or_else(|| {
            panic!("no JSON document\n{}\n{}", self.stdout, self.stderr);
        })
    }

    /// The reports in the document. In none of a scenario of ours anything is left unexplained.
    #[track_caller]
    pub fn all(&self) -> Vec<Lock<'_>> {
        let all: Vec<_> = match self.document().get("reports") {
            Some(reports) => list(reports).iter().map(Lock).collect(),
            None => vec![Lock(self.document())],
        };
        for report in &all {
            let file = format!("scenarios/{}.toml", report.word("scenario"));
            let unexplained = report.causes().contains("unexplained");
            assert!(!(unexplained && package(&file).exists()), "{report:?}");
        }
        all
    }

    /// The report of the only lock.
    #[track_caller]
    pub fn report(&self) -> Lock<'_> {
        let all = self.all();
        assert_eq!(all.len(), 1, "one report");
        all[0]
    }

    /// The report of one lock.
    #[track_caller]
    pub fn lock(&self, name: &str) -> Lock<'_> {
        let found = self.all().into_iter().find(|report| report.name() == name);
        found.unwrap_or_else(|| panic!("no report of {name}"))
    }

    /// The folder of the only run below the report folder.
    #[track_caller]
    pub fn run_folder(&self) -> PathBuf {
        let below = |folder: &Path| {
            let entries = std::fs::read_dir(folder).expect("a folder");
            let paths: Vec<_> = entries
                .map(|entry| entry.expect("an entry").path())
                .collect();
            let [only] = paths.as_slice() else {
                panic!("not one but {paths:?}");
            };
            only.clone()
        };
        below(&below(&self.reports))
    }
}

/// The report of one lock, as a reader of the JSON sees it.
#[derive(Clone, Copy)]
pub struct Lock<'a>(pub &'a Value);

impl<'a> Lock<'a> {
    pub fn name(self) -> &'a str {
        self.word("lock")
    }

    /// Whether all was as expected.
    pub fn verdict(self) -> &'a str {
        self.word("verdict")
    }

    pub fn lock_verdict(self) -> &'a str {
        self.word("lock_verdict")
    }

    pub fn business_verdict(self) -> &'a str {
        self.word("business_verdict")
    }

    pub fn word(self, field: &str) -> &'a str {
        self.0[field].as_str().expect("a word")
    }

    pub fn trials(self) -> &'a [Value] {
        list(&self.0["trials"])
    }

    /// The violated properties of all trials.
    pub fn violated(self) -> BTreeSet<&'a str> {
        let trials = self.trials().iter();
        let counts = trials.map(|trial| trial["violations"].as_object().expect("a table"));
        counts
            .flat_map(|counts| counts.keys().map(String::as_str))
            .collect()
    }

    /// The findings of all trials.
    pub fn findings(self) -> impl Iterator<Item = &'a Value> {
        self.trials()
            .iter()
            .flat_map(|trial| list(&trial["findings"]))
    }

    /// All causes that were found.
    pub fn causes(self) -> BTreeSet<&'a str> {
        self.findings()
            .map(|finding| str_of(&finding["cause"]))
            .collect()
    }

    /// The causes of one property.
    pub fn causes_of(self, property: &str) -> BTreeSet<&'a str> {
        let of = self
            .findings()
            .filter(|finding| finding["property"] == property);
        of.map(|finding| str_of(&finding["cause"])).collect()
    }

    /// One number of each trial's ledger.
    pub fn ledger(self, field: &str) -> Vec<i64> {
        let trials = self.trials().iter();
        trials
            .map(|trial| trial["ledger"][field].as_i64().expect("a number"))
            .collect()
    }

    /// Why its trials cannot answer.
    pub fn doubts(self) -> Vec<&'a str> {
        let trials = self.trials().iter();
        trials
            .flat_map(|trial| list(&trial["doubts"]))
            .map(str_of)
            .collect()
    }
}

impl std::fmt::Debug for Lock<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counts: Vec<_> = self
            .trials()
            .iter()
            .map(|trial| &trial["violations"])
            .collect();
        let summaries: BTreeSet<_> = self.findings().map(|f| str_of(&f["summary"])).collect();
        write!(
            f,
            "{}: lock {}, business {}, {counts:?}, causes {:?}, doubts {:?}, e.g. {:?}",
            self.name(),
            self.lock_verdict(),
            self.business_verdict(),
            self.causes(),
            self.doubts(),
            summaries.iter().take(5).collect::<Vec<_>>()
        )
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn str_of(value: &Value) -> &str {
    value.as_str().expect("a word")
}

/// Every file of that name in a folder and below, sorted.
pub fn files_named(name: &str, folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else {
        return found;
    };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(files_named(name, &path));
        } else if path.file_name().is_some_and(|file| file == name) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A process, told from a later one with its number by when it was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: u32,
    started: String,
}

impl Process {
    fn look(pid: u32) -> Option<(Process, Stat)> {
        let stat = Stat::read(pid)?;
        let started = stat.started.clone();
        Some((Process { pid, started }, stat))
    }

    /// Whether it still runs. One that only waits to be collected does not.
    pub fn runs(&self) -> bool {
        let now = Process::look(self.pid);
        now.is_some_and(|(process, stat)| process == *self && !"ZX".contains(&stat.state))
    }

    /// Waits for its end, but not for long.
    #[track_caller]
    pub fn is_gone_within(&self, limit: Duration) {
        let began = Instant::now();
        while self.runs() {
            assert!(
                began.elapsed() <= limit,
                "{self:?} still runs after {limit:?}"
            );
            std::thread::sleep(LOOK);
        }
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        assert!(self.runs(), "{self:?} has ended already");
        send(self.pid, signal);
    }
}

/// The fields of `/proc/<pid>/stat` that matter here.
struct Stat {
    state: String,
    parent: u32,
    started: String,
}

impl Stat {
    fn read(pid: u32) -> Option<Stat> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name, in brackets, may hold blanks and brackets of its own.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        Some(Stat {
            state: (*fields.first()?).to_owned(),
            parent: fields.get(1)?.parse().ok()?,
            started: (*fields.get(19)?).to_owned(),
        })
    }
}

/// The running processes that a process has started, and those that these have started.
pub fn children_of(parent: u32) -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").expect("/proc");
    let pids = entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok());
    let all: Vec<(Process, Stat)> = pids.filter_map(Process::look).collect();
    let mut found = Vec::new();
    let mut parents = vec![parent];
    while let Some(parent) = parents.pop() {
        for (process, stat) in all.iter().filter(|(_, stat)| stat.parent == parent) {
            if process.runs() && stat.state != "Z" {
                found.push(process.clone());
            }
            parents.push(process.pid);
        }
    }
    found
}

fn send(pid: u32, signal: nix::sys::signal::Signal) {
    let pid = nix::unistd::Pid::from_raw(pid as i32);
    nix::sys::signal::kill(pid, signal).expect("a signal to a process of our own");
}
