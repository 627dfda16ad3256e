//! Shows that work goes on: a bar to a person at a terminal, a line now and then to a log. All of
//! it goes to stderr.

pub mod board;

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How often a log hears of it, at most.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// The progress of a number of trials.
#[derive(Debug)]
pub struct Progress {
    label: String,
    bar: ProgressBar,
    trials: u64,
    done: u64,
    began: Instant,
    told: Instant,
    to_log: bool,
    violations: Arc<AtomicU64>,
}

impl Progress {
    /// Begins to show `trials` trials of something, or only counts them.
    pub fn start(label: String, trials: usize, shown: bool) -> Progress {
        let trials = trials as u64;
        let bar = match shown {
            true => ProgressBar::new(trials),
            false => ProgressBar::hidden(),
        };
        let template = "{msg} [{bar:24}] {pos}/{len} {elapsed}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        Progress {
            label,
            bar,
            trials,
            done: 0,
            began: Instant::now(),
            told: Instant::now(),
            to_log: shown && !std::io::stderr().is_terminal(),
            violations: Arc::default(),
        }
    }

    /// Where a running trial counts its violations.
    pub fn violations(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.violations)
    }

    /// Shows how far it is. To be called often.
    pub fn tick(&mut self) {
        let violations = self.violations.load(Ordering::Relaxed);
        if self.to_log {
            if self.told.elapsed() >= LOG_EVERY {
                self.told = Instant::now();
                // Nobody may listen any more, which is no reason to panic.
                let _ = writeln!(
                    anstream::stderr(),
                    "{}: {} of {} trials, {violations} violations so far, {:.0?}{}",
                    self.label,
                    self.done,
                    self.trials,
                    self.began.elapsed(),
                    self.left()
                );
            }
            return;
        }
        self.bar
            .set_message(format!("{}: {violations} violations", self.label));
        self.bar.tick();
    }

    /// An estimate of the time left, once there is one.
    fn left(&self) -> String {
        if self.done == 0 {
            return String::new();
        }
        let each = self.began.elapsed().as_secs_f64() / self.done as f64;
        let left = Duration::from_secs_f64(each * self.trials.saturating_sub(self.done) as f64);
        format!(", some {left:.0?} left")
    }

    /// One trial is done.
    pub fn step(&mut self) {
        self.done += 1;
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
