//! When operations are to start, where nobody waits for the one before (open loop): a rate, or
//! stages of rates. Rates and stages are in the run's own time, whatever the time scale: a rate is
//! what a server sees.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::read::Field;
use crate::clock::nanos;

/// How many operations a second there may be.
const MOST: f64 = 1e6;

/// How long a rate lasts that nothing but the load's own end ends.
const FOR_EVER: Duration = Duration::from_secs(1000 * 24 * 60 * 60);

/// A rate for a while, or one that changes steadily.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Operations a second at its beginning.
    pub from_per_second: f64,
    /// And at its end.
    pub to_per_second: f64,
    /// How long it takes.
    pub for_ns: u64,
}

impl Stage {
    /// One rate for as long as the load lasts.
    pub fn steady(per_second: f64) -> Stage {
        Stage {
            from_per_second: per_second,
            to_per_second: per_second,
            for_ns: nanos(FOR_EVER),
        }
    }

    /// As a person writes it.
    pub fn words(&self) -> String {
        let (from, to) = (self.from_per_second, self.to_per_second);
        let long = humantime::format_duration(Duration::from_nanos(self.for_ns));
        match (from == to, self.for_ns == nanos(FOR_EVER)) {
            (_, true) => format!("{from}/s"),
            (true, false) => format!("{from}/s for {long}"),
            (false, false) => format!("{from}/s to {to}/s over {long}"),
        }
    }

    fn seconds(&self) -> f64 {
        self.for_ns as f64 / 1e9
    }

    /// How many starts lie in its first so many seconds.
    fn starts_within(&self, seconds: f64) -> f64 {
        let grows = (self.to_per_second - self.from_per_second) / self.seconds();
        self.from_per_second * seconds + grows * seconds * seconds / 2.0
    }

    /// After how many seconds so many starts have passed.
    fn seconds_until(&self, starts: f64) -> f64 {
        let grows = (self.to_per_second - self.from_per_second) / self.seconds();
        let from = self.from_per_second;
        if grows == 0.0 {
            return starts / from;
        }
        // The smaller root of from * t + grows * t^2 / 2 = starts, in the form that loses no digits.
        let root = (from * from + 2.0 * grows * starts).max(0.0).sqrt();
        2.0 * starts / (from + root)
    }
}

/// The planned starts of a run, numbered from 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    stages: Vec<Stage>,
    /// How many starts, and nanoseconds, lie before each stage.
    before: Vec<(f64, u64)>,
    starts: f64,
    long_ns: u64,
}

impl Schedule {
    /// The starts of some stages, one after the other; none without a stage (closed loop).
    pub fn new(stages: &[Stage]) -> Option<Schedule> {
        let (mut before, mut starts, mut long_ns) = (Vec::new(), 0.0, 0);
        for stage in stages {
            before.push((starts, long_ns));
            starts += stage.starts_within(stage.seconds());
            long_ns += stage.for_ns;
        }
        (!stages.is_empty()).then(|| Schedule {
            stages: stages.to_vec(),
            before,
            starts,
            long_ns,
        })
    }

    /// How many there are in all.
    pub fn len(&self) -> u64 {
        // A sum of fractions may come out a little below the whole number that it is.
        (self.starts + 1e-6).floor() as u64
    }

    /// Whether there is none at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When the start of that number is due, from the beginning; the end, for those beyond.
    pub fn due(&self, number: u64) -> Duration {
        let number = number as f64;
        let place = self.before.partition_point(|(starts, _)| *starts <= number);
        let Some(place) = place.checked_sub(1).filter(|_| number < self.starts) else {
            return Duration::from_nanos(self.long_ns);
        };
        let (starts, from_ns) = self.before[place];
        let within = self.stages[place].seconds_until(number - starts);
        Duration::from_nanos(from_ns) + Duration::from_secs_f64(within.max(0.0))
    }

    /// How many are due by that time since the beginning.
    pub fn due_by(&self, since: Duration) -> u64 {
        let since_ns = nanos(since);
        if since_ns >= self.long_ns {
            return self.len();
        }
        let place = self.before.partition_point(|(_, from)| *from <= since_ns);
        let Some(place) = place.checked_sub(1) else {
            return 0;
        };
        let (starts, from_ns) = self.before[place];
        let within = (since_ns - from_ns) as f64 / 1e9;
        let passed = starts + self.stages[place].starts_within(within);
        // The first one starts at once: number 0 is due when 0 have passed.
        ((passed + 1e-6).floor() as u64 + 1).min(self.len())
    }

    /// How long all of it takes.
    pub fn long(&self) -> Duration {
        Duration::from_nanos(self.long_ns)
    }
}

// Reading it.

/// Reads `2600/s`, `1k/s` or `0.5/s`.
pub fn rate(text: &str) -> Result<f64, String> {
    let wrong = || format!("\"{text}\" is not a rate; write for example \"300/s\" or \"1k/s\"");
    let number = text.trim().strip_suffix("/s").ok_or_else(wrong)?.trim_end();
    let (digits, factor) = match number.strip_suffix('k') {
        Some(digits) => (digits, 1e3),
        None => (number, 1.0),
    };
    let plain = digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    let rate = digits
        .parse::<f64>()
        .ok()
        .filter(|_| plain)
        .ok_or_else(wrong)?
        * factor;
    match rate > 0.0 && rate <= MOST {
        true => Ok(rate),
        false => Err(format!(
            "a rate lies above 0 and up to {MOST}/s, and \"{text}\" does not"
        )),
    }
}

/// Reads `300/s for 30s` or `300/s to 2600/s over 60s`, several of them separated by commas.
pub fn stages(text: &str) -> Result<Vec<Stage>, String> {
    text.split(',')
        .map(|stage| one_stage(stage.trim()))
        .collect()
}

fn one_stage(text: &str) -> Result<Stage, String> {
    let wrong = || {
        format!(
            "\"{text}\" is not a stage; write for example \"300/s for 30s\" or \"300/s to 2600/s \
             over 60s\""
        )
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let (from, to, long) = match words.as_slice() {
        [rate, "for", long @ ..] => (rate, rate, long),
        [from, "to", to, "over", long @ ..] => (from, to, long),
        _ => return Err(wrong()),
    };
    let long = humantime::parse_duration(&long.join(" ")).map_err(|_| wrong())?;
    if long.is_zero() || long > Duration::from_secs(24 * 60 * 60) {
        return Err(format!(
            "a stage lasts longer than 0 and up to a day, not as \"{text}\""
        ));
    }
    Ok(Stage {
        from_per_second: rate(from)?,
        to_per_second: rate(to)?,
        for_ns: nanos(long),
    })
}

/// `rate` of a `[load]` table, which lasts as long as the load.
pub(super) fn rate_of(field: &Field<'_>) -> Option<f64> {
    let text = field.string()?;
    told(field, rate(&text))
}

/// `stages` of a `[load]` table: one string, or a list of them.
pub(super) fn stages_of(field: &Field<'_>) -> Option<Vec<Stage>> {
    if field.is_str() {
        return told(field, stages(&field.string()?));
    }
    let list = field.list()?;
    if list.is_empty() {
        field.problem(format!(
            "`{}` needs a stage, such as \"300/s for 30s\"",
            field.path
        ));
        return None;
    }
    let read: Vec<_> = (list.iter())
        .map(|field| told(field, stages(&field.string()?)))
        .collect();
    let read: Option<Vec<Vec<Stage>>> = read.into_iter().collect();
    read.map(|stages| stages.concat())
}

fn told<T>(field: &Field<'_>, read: Result<T, String>) -> Option<T> {
    match read {
        Ok(read) => Some(read),
        Err(why) => {
            field.problem(format!("`{}`: {why}", field.path));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(text: &str) -> Schedule {
        Schedule::new(&stages(text).expect("stages")).expect("a stage")
    }

    #[test]
    fn a_steady_rate_has_its_starts_one_interval_apart_and_the_first_at_once() {
        let steady = schedule("10/s for 2s");
        assert_eq!(steady.len(), 20);
        assert_eq!(steady.due(0), Duration::ZERO);
        assert_eq!(steady.due(5), Duration::from_millis(500));
        assert_eq!(steady.due(20), Duration::from_secs(2));
    }

    #[test]
    fn a_ramp_has_the_starts_that_lie_below_its_line() {
        let ramp = schedule("100/s to 300/s over 10s");
        assert_eq!(ramp.len(), 2_000);
        // After 5 s: 100 * 5 + 20 * 25 / 2.
        assert!(ramp.due(750).abs_diff(Duration::from_secs(5)) < Duration::from_micros(1));
        let down = schedule("300/s to 100/s over 10s");
        assert!(down.due(1_250).abs_diff(Duration::from_secs(5)) < Duration::from_micros(1));
    }

    #[test]
    fn a_start_is_due_from_its_own_time_on() {
        for text in [
            "10/s for 2s",
            "300/s for 1s, 300/s to 2600/s over 2s, 10/s for 3s",
        ] {
            let schedule = schedule(text);
            for number in 0..schedule.len() {
                let due = schedule.due(number);
                let after = due + Duration::from_micros(1);
                assert!(
                    schedule.due_by(after) > number,
                    "{text}: {number} at {due:?}"
                );
                if let Some(before) = due.checked_sub(Duration::from_micros(1)) {
                    assert!(
                        schedule.due_by(before) <= number,
                        "{text}: {number} at {due:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_is_no_rate_and_no_stage_is_told() {
        for bad in ["2600", "/s", "-1/s", "0/s", "1e9/s", "inf/s", "2m/s"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
        assert_eq!(rate("1.5k/s"), Ok(1_500.0));
        for bad in [
            "",
            "300/s",
            "300/s for",
            "300/s for 30",
            "300/s to 2/s for 3s",
            "1/s for 0s",
        ] {
            assert!(stages(bad).is_err(), "{bad}");
        }
    }
}
