//! Parse, hand over, return the exit code: the only place that exits.

use std::io::{self, Write};
use std::num::NonZero;
use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::Duration;

use clap::Parser;
use oversold::app::Failure;
use oversold::cli::{self, Cli};
use oversold::verdict::{Exit, Signal};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{self, SignalKind};
use tokio::sync::{oneshot, watch};

/// How long leaving at once may take, before nothing more is waited for.
const LEAVE: Duration = Duration::from_secs(1);

// Events are made on one thread and given up on another: the C library's allocator makes such threads
// wait for each other.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let exit = match threads() {
        Ok(runtime) => {
            let ended = until_done_or_told_twice(&runtime, cli);
            // After a second signal something may still hold a thread; do not wait for it.
            runtime.shutdown_background();
            ended
        }
        Err(why) => Err(Failure::environment(format!("no threads to run on: {why}"))),
    };
    let exit = exit.unwrap_or_else(|failure| {
        tell(&format!("error: {failure}"));
        failure.exit
    });
    ExitCode::from(exit.code())
}

/// One fewer than there are cores: the server beside us needs one for itself.
fn threads() -> io::Result<Runtime> {
    let cores = available_parallelism().map_or(1, NonZero::get);
    let mut threads = Builder::new_multi_thread();
    threads.worker_threads((cores - 1).max(1));
    threads.enable_all().build()
}

/// The first signal asks the command to drain, check and write; the second one leaves at once.
fn until_done_or_told_twice(runtime: &Runtime, cli: Cli) -> Result<Exit, Failure> {
    let (ask, interrupt) = watch::channel(None);
    let (leave, told_twice) = oneshot::channel();
    let signals = {
        let _context = runtime.enter();
        Signals::listen()?
    };
    // On a thread of its own: this one may be held by a file that is being read.
    runtime.spawn(heed(signals, ask, leave));
    // The servers are started on this thread, which lives as long as the program.
    runtime.block_on(async {
        tokio::select! {
            ended = cli::run(cli, interrupt) => ended,
            Ok(signal) = told_twice => Ok(Exit::Interrupted(signal)),
        }
    })
}

async fn heed(
    mut signals: Signals,
    ask: watch::Sender<Option<Signal>>,
    leave: oneshot::Sender<Signal>,
) {
    let first = signals.next().await;
    tell(&format!(
        "{first:?}: draining, checking and writing; once more to leave at once"
    ));
    ask.send_replace(Some(first));
    let second = signals.next().await;
    let _ = leave.send(second);
    tokio::time::sleep(LEAVE).await;
    exit_now(Exit::Interrupted(second));
}

#[expect(
    clippy::exit,
    reason = "the main thread is held by something that does not end, and a user has asked twice"
)]
fn exit_now(exit: Exit) {
    std::process::exit(i32::from(exit.code()));
}

/// Writes a line to standard error, where nobody may listen any more: no reason to panic.
fn tell(text: &str) {
    let _ = writeln!(anstream::stderr(), "{text}");
}

/// The signals that end a run, listened to from one moment on: none is lost between two.
struct Signals {
    int: unix::Signal,
    term: unix::Signal,
}

impl Signals {
    fn listen() -> Result<Signals, Failure> {
        let listen = |kind| unix::signal(kind).map_err(Failure::environment);
        Ok(Signals {
            int: listen(SignalKind::interrupt())?,
            term: listen(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.int.recv() => Signal::Sigint,
            _ = self.term.recv() => Signal::Sigterm,
        }
    }
}
