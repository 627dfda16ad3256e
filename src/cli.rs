//! The command line: clap's types, turned into requests. clap is named nowhere else.

mod external;
mod flags;
mod help;
mod soak;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use tokio::sync::watch;

use external::ExternalFlags;
use flags::{
    DocumentFlags, ExpectFlag, ExperimentFlags, ListFlag, PlanFlags, ResultFlags, lock_name,
    multiple,
};

use crate::app::{
    self, Failure, MatrixRequest, RateSweepRequest, Registry, Session, TtlSweepRequest,
};
use crate::client::Secret;
use crate::history::keep::Kept;
use crate::plan::Overrides;
use crate::scenario::Expect;
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
    #[command(flatten)]
    external: ExternalFlags,
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
        /// The scenario: a name (`oversold list scenarios`), a file, or - for standard input
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
        /// The scenario: a name (`oversold list scenarios`), a file, or - for standard input
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
        /// The scenario: a name (`oversold list scenarios`), a file, or - for standard input
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
    /// One long run under load, checked while it goes on: `-c 200 -n 100k`, as with hey
    #[command(after_help = help::SOAK)]
    Soak(Box<soak::SoakArgs>),
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
    Doctor {
        /// Restore what a run that was killed has left changed on a Redis of yours; the URL may stand
        /// in --url or OVERSOLD_URL, too
        #[arg(long, value_name = "URL", num_args = 0..=1)]
        heal: Option<Option<Secret>>,
    },
    /// Print a completion script for a shell
    #[command(after_help = help::COMPLETIONS)]
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// How often a soak leaves the report of the moment.
const ROLLING: Duration = Duration::from_secs(60);

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
    let external = cli.external.read()?;
    let overrides = |plan: PlanFlags| plan.overrides(store_url.as_ref(), external.as_ref());
    let session = |out: PathBuf, documents: DocumentFlags| {
        documents.check()?;
        Ok(Session {
            redis_server: redis_server.clone(),
            store_url: store_url.clone(),
            external: external.clone(),
            out,
            json: documents.json,
            junit: documents.junit,
            history: Kept::default(),
            metrics: None,
            rolling: ROLLING,
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
                ..overrides(plan)?
            };
            let session = Session {
                history: results.history.unwrap_or_default(),
                ..session(results.out, results.documents)?
            };
            app::run(&scenarios, &flags, &session).await
        }
        Command::Compare {
            scenario,
            locks,
            plan,
            results,
        } => {
            let session = Session {
                history: results.history.unwrap_or_default(),
                ..session(results.out, results.documents)?
            };
            let flags = overrides(plan)?;
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
            let session = Session {
                history: results.history.unwrap_or_default(),
                ..session(results.out, results.documents)?
            };
            let flags = overrides(plan)?;
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
            let (out, history, documents) = results.parts();
            let session = Session {
                history,
                ..session(out, documents)?
            };
            let flags = Overrides {
                lock,
                ..overrides(plan)?
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
            let (out, history, documents) = results.parts();
            let session = Session {
                history,
                ..session(out, documents)?
            };
            let flags = Overrides {
                lock,
                ..overrides(plan)?
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
            let (out, history, documents) = results.parts();
            let session = Session {
                history,
                ..session(out, documents)?
            };
            let flags = overrides(plan)?;
            app::granularity(&scenario, &distinct(locks), &flags, &session).await
        }
        Command::Soak(args) => {
            let flags = args.overrides(store_url.as_ref(), external.as_ref())?;
            let session = Session {
                history: args.results.history.unwrap_or(Kept::Window),
                rolling: args.rolling_report,
                ..session(args.results.out, args.results.documents)?
            };
            app::soak(&args.scenario, args.metrics, &flags, &session).await
        }
        Command::Check { stored, documents } => {
            app::check(&stored, &session(PathBuf::new(), documents)?)
        }
        Command::Replay { stored, results } => {
            let session = Session {
                history: results.history.unwrap_or_default(),
                ..session(results.out, results.documents)?
            };
            app::replay(&stored, &session).await
        }
        Command::Validate { scenarios } => app::validate(&scenarios, &plain()?),
        Command::List { which } => app::list(which.map(registry), &plain()?),
        Command::Doctor { heal: None } => app::doctor(&plain()?).await,
        Command::Doctor { heal: Some(named) } => {
            let named = named.map(|url| cli.external.url(&url)).transpose()?;
            app::heal(named, &plain()?).await
        }
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
