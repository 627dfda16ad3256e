//! The command line: clap's types, turned into requests. clap is named nowhere else.

mod help;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use tokio::sync::watch;

use crate::app::{
    self, Failure, MatrixRequest, Output, RateSweepRequest, Registry, Session, TtlSweepRequest,
};
use crate::lock;
use crate::plan::Overrides;
use crate::scenario::{Expect, Mistake, Store};
use crate::store::StoreUrl;
use crate::verdict::{Exit, Signal};

/// Does this Redis lock hold, and if it does not, what does it cost the business?
///
/// Drives hundreds of simulated application instances at a real Redis, breaks things on purpose,
/// records what happens, and judges the ledger afterwards.
#[derive(Debug, Parser)]
#[command(name = "oversold", version, max_term_width = 100, after_help = help::PROGRAM)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// The redis-server (or valkey-server) to start, instead of the first one on PATH
    #[arg(
        long,
        global = true,
        value_name = "PATH",
        env = "OVERSOLD_REDIS_SERVER"
    )]
    redis_server: Option<PathBuf>,
    /// The PostgreSQL to keep the store in (implies --store postgres), instead of one that the run
    /// starts; the password may stand in PGPASSWORD
    #[arg(long, global = true, value_name = "postgres://USER@HOST/DATABASE")]
    store_url: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run scenarios, each through the whole flow: the command for CI
    #[command(after_help = help::RUN)]
    Run {
        /// Scenarios: names (`oversold list scenarios`), files, folders, or - for standard input
        #[arg(required = true, value_name = "SCENARIO")]
        scenarios: Vec<PathBuf>,
        /// The lock to put to the test, instead of the scenario's own
        #[arg(long, value_name = "LOCK", value_parser = lock_name)]
        lock: Option<String>,
        /// What to expect, instead of what the scenario says
        #[arg(long, value_name = "pass|violation")]
        expect: Option<ExpectFlag>,
        #[command(flatten)]
        plan: PlanFlags,
        #[command(flatten)]
        results: ResultFlags,
    },
    /// Run one scenario under several locks, and print one table
    #[command(after_help = help::COMPARE)]
    Compare {
        /// The scenario: a name (`oversold list scenarios`), a file, or - for standard input
        scenario: PathBuf,
        /// The locks, separated by commas; all of them by default
        #[arg(long, value_name = "a,b,...", value_delimiter = ',', value_parser = lock_name)]
        locks: Vec<String>,
        #[command(flatten)]
        plan: PlanFlags,
        #[command(flatten)]
        results: ResultFlags,
    },
    /// Run locks against scenarios, and print what broke in each cell
    #[command(after_help = help::MATRIX)]
    Matrix {
        /// The scenarios: names, files, or folders of them; all that come with the program by default
        #[arg(long, value_name = "SCENARIO,...", value_delimiter = ',')]
        scenarios: Vec<PathBuf>,
        /// The locks, separated by commas; all of them by default
        #[arg(long, value_name = "a,b,...", value_delimiter = ',', value_parser = lock_name)]
        locks: Vec<String>,
        /// How many cells run at a time
        #[arg(long, value_name = "N", default_value_t = 2)]
        jobs: usize,
        /// The folder of an interrupted matrix, to go on where it was
        #[arg(long, value_name = "DIR")]
        resume: Option<PathBuf>,
        #[command(flatten)]
        plan: PlanFlags,
        #[command(flatten)]
        results: ResultFlags,
    },
    /// How probable a violation is at each TTL, as a multiple of the section's P99
    #[command(after_help = help::TTL_SWEEP)]
    TtlSweep {
        /// The scenario file, or - for standard input
        #[arg(default_value = "ttl-sweep")]
        scenario: PathBuf,
        /// The lock, instead of the scenario's own
        #[arg(long, value_name = "LOCK", value_parser = lock_name)]
        lock: Option<String>,
        /// The TTLs, as multiples of the P99
        #[arg(long, value_name = "a,b,...", value_delimiter = ',', value_parser = multiple,
              default_value = "0.5,1,1.5,2,3,4,5")]
        multiples: Vec<f64>,
        /// How many trials run at a time
        #[arg(long, value_name = "N", default_value_t = 4)]
        jobs: usize,
        #[command(flatten)]
        plan: PlanFlags,
        #[command(flatten)]
        results: ExperimentFlags,
    },
    /// How probable a violation is at each rate of requests
    #[command(after_help = help::RATE_SWEEP)]
    RateSweep {
        /// The scenario file, or - for standard input
        #[arg(default_value = "rate-sweep")]
        scenario: PathBuf,
        /// The lock, instead of the scenario's own
        #[arg(long, value_name = "LOCK", value_parser = lock_name)]
        lock: Option<String>,
        /// Requests a second, in the scenario's own time
        #[arg(long, value_name = "a,b,...", value_delimiter = ',',
              value_parser = clap::value_parser!(u32).range(1..=1_000_000),
              default_value = "300,600,1200,1800,2600")]
        rates: Vec<u32>,
        /// How many trials run at a time
        #[arg(long, value_name = "N", default_value_t = 4)]
        jobs: usize,
        #[command(flatten)]
        plan: PlanFlags,
        #[command(flatten)]
        results: ExperimentFlags,
    },
    /// What one lock for everything costs, against one for each SKU and each unit
    #[command(after_help = help::GRANULARITY)]
    Granularity {
        /// The scenario file, or - for standard input
        #[arg(default_value = "coarse-lock")]
        scenario: PathBuf,
        /// The locks, separated by commas; the scenario's own by default
        #[arg(long, value_name = "a,b,...", value_delimiter = ',', value_parser = lock_name)]
        locks: Vec<String>,
        #[command(flatten)]
        plan: PlanFlags,
        #[command(flatten)]
        results: ExperimentFlags,
    },
    /// Judge a stored run again, from its history and ledger, without Redis
    #[command(after_help = help::CHECK)]
    Check {
        /// A run's folder, or a history file
        #[arg(value_name = "RUN_DIR|HISTORY")]
        stored: PathBuf,
        #[command(flatten)]
        documents: DocumentFlags,
    },
    /// Run a stored plan again (a seed replays the plan, not the interleaving)
    #[command(after_help = help::REPLAY)]
    Replay {
        /// A run's folder, or a plan file
        #[arg(value_name = "RUN_DIR")]
        stored: PathBuf,
        #[command(flatten)]
        results: ResultFlags,
    },
    /// Tell everything that is wrong with scenarios, without running them
    #[command(after_help = help::VALIDATE)]
    Validate {
        /// Scenario files, folders of them, or - for standard input
        #[arg(required = true, value_name = "SCENARIO")]
        scenarios: Vec<PathBuf>,
    },
    /// List what there is
    #[command(after_help = help::LIST)]
    List {
        /// What to list; everything by default
        which: Option<ListFlag>,
    },
    /// Look whether this machine has what a run needs
    #[command(after_help = help::DOCTOR)]
    Doctor,
    /// Print a completion script for a shell
    #[command(after_help = help::COMPLETIONS)]
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Debug, Args)]
struct PlanFlags {
    /// The first trial's seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// How many trials, each under the next seed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    trials: Option<u32>,
    /// The factor from the scenario's seconds to the run's
    #[arg(long, value_name = "FACTOR", value_parser = time_scale)]
    time_scale: Option<f64>,
    /// Workers over all instances
    #[arg(short = 'c', long = "workers", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    workers: Option<u32>,
    /// Operations over all workers
    #[arg(short = 'n', long = "operations", value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..))]
    operations: Option<u64>,
    /// How long operations are issued, in the scenario's own time
    #[arg(short = 'z', long = "duration", value_name = "DURATION", value_parser = duration)]
    duration: Option<Duration>,
    /// The store, instead of the scenario's own
    #[arg(long, value_name = "sqlite|postgres|redis")]
    store: Option<StoreFlag>,
    /// A mistake around the lock (`oversold list mistakes`)
    #[arg(long, value_name = "MISTAKE", value_parser = mistake)]
    mistake: Option<Mistake>,
}

#[derive(Debug, Args)]
struct ResultFlags {
    /// The folder for reports
    #[arg(long, value_name = "DIR", default_value = "reports")]
    out: PathBuf,
    #[command(flatten)]
    documents: DocumentFlags,
}

#[derive(Debug, Args)]
struct ExperimentFlags {
    /// The folder for reports
    #[arg(long, value_name = "DIR", default_value = "reports")]
    out: PathBuf,
    /// Also write the JSON document to this file (- is standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<Output>,
}

#[derive(Debug, Default, Args)]
struct DocumentFlags {
    /// Also write the JSON report to this file (- is standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<Output>,
    /// Also write the JUnit report to this file (- is standard output)
    #[arg(long, value_name = "FILE")]
    junit: Option<Output>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ExpectFlag {
    Pass,
    Violation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StoreFlag {
    Sqlite,
    Postgres,
    Redis,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ListFlag {
    Locks,
    Faults,
    Checks,
    Workloads,
    Mistakes,
    Scenarios,
    Traps,
}

fn mistake(text: &str) -> Result<Mistake, String> {
    let found = Mistake::ALL.into_iter().find(|known| known.word() == text);
    found.ok_or_else(|| format!("there are {}", Mistake::ALL.map(Mistake::word).join(", ")))
}

fn lock_name(text: &str) -> Result<String, String> {
    match lock::find(text) {
        Some(_) => Ok(text.to_owned()),
        None => Err(format!(
            "no such lock; there are {}",
            lock::names().join(", ")
        )),
    }
}

fn multiple(text: &str) -> Result<f64, String> {
    let multiple = text.parse().ok();
    multiple
        .filter(|multiple| (0.01..=100.0).contains(multiple))
        .ok_or_else(|| "a multiple of the P99 between 0.01 and 100".to_owned())
}

fn time_scale(text: &str) -> Result<f64, String> {
    let scale = text.parse().ok();
    scale
        .filter(|scale| (0.001..=10.0).contains(scale))
        .ok_or_else(|| "a factor between 0.001 and 10".to_owned())
}

/// As long as a scenario may say.
fn duration(text: &str) -> Result<Duration, String> {
    let day = Duration::from_secs(24 * 60 * 60);
    let duration = humantime::parse_duration(text).map_err(|why| why.to_string())?;
    match duration > Duration::ZERO && duration <= day {
        true => Ok(duration),
        false => Err("a duration longer than 0 and up to a day".to_owned()),
    }
}

impl PlanFlags {
    /// What is overridden, where a store was named by its URL, too.
    fn overrides(self, named: Option<&StoreUrl>) -> Result<Overrides, Failure> {
        let store = self.store.map(|flag| match flag {
            StoreFlag::Sqlite => Store::Sqlite,
            StoreFlag::Postgres => Store::Postgres,
            StoreFlag::Redis => Store::Redis,
        });
        let store = store.or(named.map(|_| Store::Postgres));
        if named.is_some() && store != Some(Store::Postgres) {
            return Err(Failure::usage(
                "`--store-url` names a PostgreSQL: leave it out, or use `--store postgres`",
            ));
        }
        Ok(Overrides {
            seed: self.seed,
            trials: self.trials,
            time_scale: self.time_scale,
            workers: self.workers,
            mistake: self.mistake,
            operations: self.operations,
            duration: self.duration,
            store,
            ..Overrides::default()
        })
    }
}

impl ExperimentFlags {
    fn parts(self) -> (PathBuf, DocumentFlags) {
        let documents = DocumentFlags {
            json: self.json,
            junit: None,
        };
        (self.out, documents)
    }
}

impl DocumentFlags {
    /// Two documents on standard output would be none.
    fn check(&self) -> Result<(), Failure> {
        let stdout = Some(Output::Stdout);
        match self.json == stdout && self.junit == stdout {
            true => Err(Failure::usage(
                "`--json -` and `--junit -`: one of the two can go to standard output; name a file \
                 for the other",
            )),
            false => Ok(()),
        }
    }
}

/// The same locks, each once.
fn distinct(locks: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let first = |lock: &String| seen.insert(lock.clone());
    locks.into_iter().filter(first).collect()
}

/// Does what the command line says.
pub async fn run(cli: Cli, interrupt: watch::Receiver<Option<Signal>>) -> Result<Exit, Failure> {
    let redis_server = cli.redis_server;
    // Read here and not by clap, which repeats what it cannot read: there may be a password in it.
    let store_url: Option<StoreUrl> = (cli.store_url.as_deref())
        .map(str::parse)
        .transpose()
        .map_err(Failure::usage)?;
    let session = |out: PathBuf, documents: DocumentFlags| {
        documents.check()?;
        Ok(Session {
            redis_server: redis_server.clone(),
            store_url: store_url.clone(),
            out,
            json: documents.json,
            junit: documents.junit,
            progress: true,
            interrupt: interrupt.clone(),
        })
    };
    let plain = || session(PathBuf::new(), DocumentFlags::default());
    match cli.command {
        Command::Run {
            scenarios,
            lock,
            expect,
            plan,
            results,
        } => {
            let flags = Overrides {
                lock,
                expect: expect.map(|expect| match expect {
                    ExpectFlag::Pass => Expect::Pass,
                    ExpectFlag::Violation => Expect::any_violation(),
                }),
                ..plan.overrides(store_url.as_ref())?
            };
            let session = session(results.out, results.documents)?;
            app::run(&scenarios, &flags, &session).await
        }
        Command::Compare {
            scenario,
            locks,
            plan,
            results,
        } => {
            let session = session(results.out, results.documents)?;
            let flags = plan.overrides(store_url.as_ref())?;
            app::compare(scenario, &distinct(locks), &flags, &session).await
        }
        Command::Matrix {
            scenarios,
            locks,
            jobs,
            resume,
            plan,
            results,
        } => {
            let session = session(results.out, results.documents)?;
            let flags = plan.overrides(store_url.as_ref())?;
            let request = MatrixRequest {
                scenarios,
                locks: distinct(locks),
                jobs,
                resume,
            };
            app::matrix(&request, &flags, &session).await
        }
        Command::TtlSweep {
            scenario,
            lock,
            multiples,
            jobs,
            plan,
            results,
        } => {
            let (out, documents) = results.parts();
            let session = session(out, documents)?;
            let flags = Overrides {
                lock,
                ..plan.overrides(store_url.as_ref())?
            };
            let request = TtlSweepRequest {
                scenario,
                multiples,
                jobs,
            };
            app::ttl_sweep(&request, &flags, &session).await
        }
        Command::RateSweep {
            scenario,
            lock,
            rates,
            jobs,
            plan,
            results,
        } => {
            let (out, documents) = results.parts();
            let session = session(out, documents)?;
            let flags = Overrides {
                lock,
                ..plan.overrides(store_url.as_ref())?
            };
            let request = RateSweepRequest {
                scenario,
                rates,
                jobs,
            };
            app::rate_sweep(&request, &flags, &session).await
        }
        Command::Granularity {
            scenario,
            locks,
            plan,
            results,
        } => {
            let (out, documents) = results.parts();
            let session = session(out, documents)?;
            let flags = plan.overrides(store_url.as_ref())?;
            app::granularity(&scenario, &distinct(locks), &flags, &session).await
        }
        Command::Check { stored, documents } => {
            app::check(&stored, &session(PathBuf::new(), documents)?)
        }
        Command::Replay { stored, results } => {
            app::replay(&stored, &session(results.out, results.documents)?).await
        }
        Command::Validate { scenarios } => app::validate(&scenarios, &plain()?),
        Command::List { which } => app::list(which.map(registry), &plain()?),
        Command::Doctor => app::doctor(&plain()?).await,
        Command::Completions { shell } => {
            // To memory first: a closed pipe is the reader's choice, and no reason to panic.
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "oversold", &mut script);
            let _ = std::io::stdout().write_all(&script);
            Ok(Exit::Pass)
        }
    }
}

fn registry(flag: ListFlag) -> Registry {
    match flag {
        ListFlag::Locks => Registry::Locks,
        ListFlag::Faults => Registry::Faults,
        ListFlag::Checks => Registry::Checks,
        ListFlag::Workloads => Registry::Workloads,
        ListFlag::Mistakes => Registry::Mistakes,
        ListFlag::Scenarios => Registry::Scenarios,
        ListFlag::Traps => Registry::Traps,
    }
}
