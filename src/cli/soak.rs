//! The flags of `oversold soak`, and how their values are read. Times and rates are the run's own.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::flags::{ResultFlags, StoreFlag, duration, lock_name};
use crate::app::Failure;
use crate::plan::{Keys, Overrides, Pace, SoakFlags};
use crate::scenario::{Dist, Stage, Threshold, pace, threshold};
use crate::store::StoreUrl;
use crate::topology::External;

#[derive(Debug, Args)]
pub(super) struct SoakArgs {
    /// The scenario: a name (`oversold list scenarios`), a file, or - for standard input
    #[arg(default_value = "soak")]
    pub(super) scenario: PathBuf,
    /// Workers over all instances
    #[arg(short = 'c', long = "workers", value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    workers: Option<u32>,
    /// Operations over all workers (10k, 2m); beside -z or --stages only if it is given
    #[arg(short = 'n', long = "operations", value_name = "N", value_parser = count)]
    operations: Option<u64>,
    /// How long operations are issued
    #[arg(short = 'z', long = "duration", value_name = "DURATION", value_parser = duration)]
    duration: Option<Duration>,
    /// Operations a second over all workers, planned ahead (open loop), for as long as -z says; without
    /// it until the operations are done (-n, or the scenario's own number: 10k)
    #[arg(long, value_name = "N/s", value_parser = pace::rate, conflicts_with = "stages")]
    rate: Option<f64>,
    /// Rates one after the other, all of them: "300/s for 30s, 300/s to 2600/s over 60s"
    #[arg(long, value_name = "STAGES", value_parser = stages)]
    stages: Option<Stages>,
    /// The lock to put to the test, instead of the scenario's own
    #[arg(long, value_name = "LOCK", value_parser = lock_name)]
    lock: Option<String>,
    /// How many keys, each under a lock of its own; or `own`: a key for each worker, for which nobody
    /// else asks (to measure speed: nothing is proven of the lock)
    #[arg(long, value_name = "N|own", value_parser = keys)]
    keys: Option<Keys>,
    /// How long a section's work takes: 2ms, or 0..5ms
    #[arg(long, value_name = "DURATION", value_parser = section)]
    section: Option<Dist>,
    /// How long latencies are left out at the beginning; correctness never is
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration,
          default_value = "0s")]
    warmup: Duration,
    /// Simulated application processes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    instances: Option<u32>,
    /// The store, instead of the scenario's own
    #[arg(long, value_name = "sqlite|postgres|redis|memory")]
    store: Option<StoreFlag>,
    /// What is demanded: "acquire p(99) < 50ms", "errors < 1%", "rate > 1000/s" (may be repeated)
    #[arg(long = "threshold", value_name = "THRESHOLD", value_parser = threshold::threshold)]
    thresholds: Vec<Threshold>,
    /// Ends the run as soon as a --threshold is crossed
    #[arg(long, requires = "thresholds")]
    abort_on_fail: bool,
    /// Ends the run after so many violations
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_violations: Option<u64>,
    /// Ends the run when nobody was answered for so long, beyond what is done on purpose
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "60s")]
    max_outage: Duration,
    /// Serves OpenMetrics there while it runs: 127.0.0.1:9464
    #[arg(long, value_name = "ADDR", value_parser = loopback)]
    pub(super) metrics: Option<SocketAddr>,
    /// How often the report of the moment is left
    #[arg(long, hide = true, value_name = "DURATION", value_parser = duration,
          default_value = "60s")]
    pub(super) rolling_report: Duration,
    /// The seed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    pub(super) results: ResultFlags,
}

/// A list in one value: clap would take a bare one for several.
#[derive(Debug, Clone)]
struct Stages(Vec<Stage>);

fn stages(text: &str) -> Result<Stages, String> {
    pace::stages(text).map(Stages)
}

/// Reads a number of keys, or `own`.
fn keys(text: &str) -> Result<Keys, String> {
    let number = text.parse().ok();
    match (text, number.filter(|n| (1..=1_000_000).contains(n))) {
        ("own", _) => Ok(Keys::Own),
        (_, Some(number)) => Ok(Keys::Drawn(number)),
        _ => Err("a number from 1 to 1000000, or `own`".to_owned()),
    }
}

/// Reads `100000`, `10k` or `2m`.
fn count(text: &str) -> Result<u64, String> {
    let factors = [("k", 1_000), ("m", 1_000_000)];
    let suffixed = factors.into_iter().find_map(|(suffix, factor)| {
        let digits = text.strip_suffix(suffix)?;
        Some((digits, factor))
    });
    let (digits, factor) = suffixed.unwrap_or((text, 1));
    let count = digits
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(factor));
    count
        .filter(|n| (1..=1_000_000_000_000).contains(n))
        .ok_or_else(|| "a whole number above 0, or one of thousands or millions: 10k, 2m".into())
}

/// Reads `2ms` or `0..5ms`.
fn section(text: &str) -> Result<Dist, String> {
    let one = |text: &str| match text.trim() {
        "0" => Ok(Duration::ZERO),
        text => humantime::parse_duration(text)
            .ok()
            .filter(|long| *long <= Duration::from_secs(24 * 60 * 60))
            .ok_or_else(|| "a duration such as 2ms, or a range such as 0..5ms".to_owned()),
    };
    let Some((low, high)) = text.split_once("..") else {
        return one(text).map(Dist::constant);
    };
    let (low, high) = (one(low)?, one(high)?);
    match low <= high {
        true => Ok(Dist::uniform(low, high)),
        false => Err("a range runs from the shorter end to the longer one".to_owned()),
    }
}

/// Reads an address of this machine alone: whoever reads the figures reads them unasked.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address = text.parse::<SocketAddr>();
    let address = address.map_err(|_| "an address with its port, such as 127.0.0.1:9464")?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err("only on this machine's own address: 127.0.0.1 or [::1]".to_owned()),
    }
}

impl SoakArgs {
    fn demanded(&self) -> Vec<Threshold> {
        let abort_on_fail = self.abort_on_fail;
        let thresholds = self.thresholds.iter().cloned();
        thresholds
            .map(|threshold| Threshold {
                abort_on_fail,
                ..threshold
            })
            .collect()
    }

    /// What is overridden.
    pub(super) fn overrides(
        &self,
        named: Option<&StoreUrl>,
        external: Option<&External>,
    ) -> Result<Overrides, Failure> {
        let pace = match (&self.rate, &self.stages) {
            (Some(rate), _) => Some(Pace::Rate(*rate)),
            (None, stages) => stages
                .as_ref()
                .map(|Stages(stages)| Pace::Stages(stages.clone())),
        };
        Ok(Overrides {
            lock: self.lock.clone(),
            seed: self.seed,
            trials: Some(1),
            workers: self.workers,
            operations: self.operations,
            store: StoreFlag::chosen(self.store, named)?,
            soak: Some(SoakFlags {
                duration: self.duration,
                pace,
                keys: self.keys,
                section: self.section.clone(),
                instances: self.instances,
                warm_up: self.warmup,
                max_violations: self.max_violations,
                max_outage: self.max_outage,
                thresholds: self.demanded(),
            }),
            external: external.map(External::shape),
            ..Overrides::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_may_be_of_thousands_or_millions() {
        assert_eq!(count("100000"), Ok(100_000));
        assert_eq!(count("10k"), Ok(10_000));
        assert_eq!(count("2m"), Ok(2_000_000));
        for bad in ["", "0", "k", "-1", "1.5k", "10K0", "99999999999m"] {
            assert!(count(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_section_has_one_length_or_two_ends() {
        let ms = Duration::from_millis;
        assert_eq!(section("2ms"), Ok(Dist::constant(ms(2))));
        assert_eq!(section("0..5ms"), Ok(Dist::uniform(ms(0), ms(5))));
        for bad in ["", "5", "5ms..2ms", "..", "1ms..2"] {
            assert!(section(bad).is_err(), "{bad}");
        }
    }
}
