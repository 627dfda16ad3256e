//! Parse, hand over, return the exit code: the only place that exits.

use std::process::ExitCode;

use clap::Parser;
use oversold::app::Failure;
use oversold::cli::{self, Cli};
use oversold::verdict::{Exit, Signal};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let exit = match tokio::runtime::Runtime::new() {
        Ok(runtime) => {
            // The servers are started on this thread, which lives as long as the program.
            let ended = runtime.block_on(until_done_or_told_twice(cli));
            // After a second signal something may still hold a thread; do not wait for it.
            runtime.shutdown_background();
            ended
        }
        Err(why) => Err(Failure::environment(format!("no threads to run on: {why}"))),
    };
    let exit = exit.unwrap_or_else(|failure| {
        anstream::eprintln!("error: {failure}");
        failure.exit
    });
    ExitCode::from(exit.code())
}

/// The first signal asks the command to drain, check and write; the second one leaves at once.
async fn until_done_or_told_twice(cli: Cli) -> Result<Exit, Failure> {
    let (tell, interrupt) = watch::channel(None);
    let twice = async {
        let told = next_signal().await?;
        anstream::eprintln!("{told:?}: draining, checking and writing; once more to leave at once");
        tell.send_replace(Some(told));
        Ok(Exit::Interrupted(next_signal().await?))
    };
    tokio::select! {
        ended = cli::run(cli, interrupt) => ended,
        left = twice => left,
    }
}

async fn next_signal() -> Result<Signal, Failure> {
    let listen = |kind| signal(kind).map_err(Failure::environment);
    let (mut int, mut term) = (
        listen(SignalKind::interrupt())?,
        listen(SignalKind::terminate())?,
    );
    tokio::select! {
        _ = int.recv() => Ok(Signal::Sigint),
        _ = term.recv() => Ok(Signal::Sigterm),
    }
}
