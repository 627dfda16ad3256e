//! Shows a soak while it runs: one line that changes to a person at a terminal, a line now and then
//! to a log. What happens in between is told above it, at once.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often it is drawn at most, a second.
const DRAWN: u8 = 10;
/// After how long a log hears of it for the first time, and how often at least later on.
const FIRST: Duration = Duration::from_secs(10);
const LATER: Duration = Duration::from_secs(60);

/// How a soak stands.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Glance {
    /// Operations issued so far.
    pub issued: u64,
    /// Operations completed a second, of late.
    pub per_second: f64,
    /// The 99th percentile of the acquire, of late; absent with too few samples.
    pub p99_ns: Option<u64>,
    /// The longest acquire, of late.
    pub max_ns: u64,
    /// Operations that wait for the lock.
    pub waiting: u64,
    /// Violations so far.
    pub violations: u64,
    /// How long it still runs, if that is known.
    pub left: Option<Duration>,
    /// What is being done on purpose.
    pub faults: Vec<String>,
}

impl Glance {
    /// In one line.
    pub fn line(&self) -> String {
        let latency = match self.p99_ns {
            Some(p99) => format!("p99 {:.1?}", Duration::from_nanos(p99)),
            None if self.max_ns == 0 => "p99 -".to_owned(),
            None => format!("max {:.1?}", Duration::from_nanos(self.max_ns)),
        };
        let left = match self.left {
            Some(left) => format!(", {left:.0?} left"),
            None => String::new(),
        };
        let faults: String = (self.faults.iter())
            .map(|fault| format!(", FAULT: {fault}"))
            .collect();
        format!(
            "{} ops, {:.0}/s, {latency}, {} wait, {} violations{left}{faults}",
            self.issued, self.per_second, self.waiting, self.violations
        )
    }
}

/// Where it is shown.
#[derive(Debug)]
pub struct Board {
    label: String,
    bar: ProgressBar,
    to_log: bool,
    next: Instant,
    pause: Duration,
}

impl Board {
    /// Begins to show something, or only tells what happens.
    pub fn start(label: String, shown: bool) -> Board {
        let terminal = std::io::stderr().is_terminal();
        let bar = match shown && terminal {
            true => ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(DRAWN)),
            false => ProgressBar::hidden(),
        };
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            bar.set_style(style);
        }
        Board {
            label,
            bar,
            to_log: shown && !terminal,
            next: Instant::now() + FIRST,
            pause: FIRST,
        }
    }

    /// Shows how it stands. To be called often; `look` is asked only when it is drawn.
    pub fn show(&mut self, look: impl FnOnce() -> Glance) {
        if !self.bar.is_hidden() {
            // Without its name: a terminal is narrow.
            self.bar.set_message(look().line());
        } else if self.to_log && Instant::now() >= self.next {
            self.pause = (self.pause * 2).min(LATER);
            self.next = Instant::now() + self.pause;
            self.status(&look());
        }
    }

    /// Says at once how it stands.
    pub fn status(&self, glance: &Glance) {
        self.say(&format!("{}: {}", self.label, glance.line()));
    }

    /// Says something at once, above the line that changes.
    pub fn say(&self, text: &str) {
        self.bar.suspend(|| {
            // Nobody may listen any more, which is no reason to panic.
            let _ = writeln!(anstream::stderr(), "{text}");
        });
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_glance_is_one_line_with_all_that_matters() {
        let glance = Glance {
            issued: 123,
            per_second: 456.7,
            p99_ns: Some(1_500_000),
            waiting: 8,
            violations: 2,
            left: Some(Duration::from_secs(9)),
            faults: vec!["127.0.0.1:1 stands still for 2s".into()],
            ..Glance::default()
        };
        assert_eq!(
            glance.line(),
            "123 ops, 457/s, p99 1.5ms, 8 wait, 2 violations, 9s left, FAULT: 127.0.0.1:1 stands \
             still for 2s"
        );
        let few = Glance {
            p99_ns: None,
            max_ns: 2_000_000,
            left: None,
            ..glance
        };
        assert!(few.line().contains(", max 2.0ms, "), "{}", few.line());
    }
}
