//! Thresholds on what a run measures, in words that people know from k6: `acquire p(99) < 50ms`,
//! `oversold == 0`, `errors < 1%`, `rate > 1000/s`. Times and rates are the run's own, whatever the
//! time scale. Correctness needs none: it is always judged.

use serde::{Deserialize, Serialize};

use super::pace::rate;
use super::read::{Field, suggest};
use crate::clock::nanos;

/// One threshold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// As it was written.
    pub text: String,
    /// What is measured.
    pub metric: Metric,
    /// How it is compared.
    pub is: Comparison,
    /// With what, in the metric's unit: nanoseconds, operations a second, a share, a number.
    pub bound: f64,
    /// Whether crossing it ends the run.
    #[serde(default)]
    pub abort_on_fail: bool,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// How long something took, in nanoseconds.
    Latency {
        /// What.
        of: Timed,
        /// Which of its figures.
        figure: Figure,
    },
    /// Operations completed a second.
    Rate,
    /// How many there are of something.
    Count(Counted),
    /// Their share of all operations, from 0 to 1.
    Share(Counted),
}

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timed {
    /// To the grant; in an open loop from the planned start.
    Acquire,
    /// To the grant, from the actual start.
    Service,
    /// The section.
    Section,
    /// The release.
    Release,
}

/// A figure of many times.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// The mean.
    Avg,
    /// The shortest.
    Min,
    /// The longest.
    Max,
    /// A quantile, from 0 to 1.
    Quantile(f64),
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counted {
    /// Units sold beyond the stock.
    Oversold,
    /// Increments that the counters do not show.
    Lost,
    /// Entries processed more than once.
    Doubled,
    /// Violations of any property.
    Violations,
    /// Operations that ended in an error.
    Errors,
    /// Operations that ended without the lock.
    GaveUp,
    /// Operations that did what they came for.
    Completed,
    /// Operations that could not start in time (open loop).
    Late,
}

/// How a value is compared with its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `==`
    Equal,
    /// `!=`
    Other,
}

impl Comparison {
    /// Whether it holds.
    pub fn holds(self, value: f64, bound: f64) -> bool {
        match self {
            Comparison::Below => value < bound,
            Comparison::AtMost => value <= bound,
            Comparison::Above => value > bound,
            Comparison::AtLeast => value >= bound,
            Comparison::Equal => value == bound,
            Comparison::Other => value != bound,
        }
    }
}

const COMPARISONS: [(&str, Comparison); 6] = [
    // The longer ones first: the others are their beginnings.
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("==", Comparison::Equal),
    ("!=", Comparison::Other),
    ("<", Comparison::Below),
    (">", Comparison::Above),
];

const TIMED: [(&str, Timed); 4] = [
    ("acquire", Timed::Acquire),
    ("service", Timed::Service),
    ("section", Timed::Section),
    ("release", Timed::Release),
];

const COUNTED: [(&str, Counted); 8] = [
    ("oversold", Counted::Oversold),
    ("lost", Counted::Lost),
    ("doubled", Counted::Doubled),
    ("violations", Counted::Violations),
    ("errors", Counted::Errors),
    ("gave_up", Counted::GaveUp),
    ("completed", Counted::Completed),
    ("late", Counted::Late),
];

/// Reads one.
pub fn threshold(text: &str) -> Result<Threshold, String> {
    let found = COMPARISONS.iter().find_map(|(sign, is)| {
        let (left, right) = text.split_once(sign)?;
        Some((left.trim(), *is, right.trim()))
    });
    let Some((left, is, right)) = found else {
        return Err(format!(
            "\"{text}\" compares nothing; write for example \"acquire p(99) < 50ms\" or \
             \"oversold == 0\""
        ));
    };
    let (word, figure) = left.split_once(char::is_whitespace).unwrap_or((left, ""));
    let (metric, bound) = measured(word, figure.trim(), right)?;
    Ok(Threshold {
        text: text.to_owned(),
        metric,
        is,
        bound,
        abort_on_fail: false,
    })
}

fn measured(word: &str, figure: &str, right: &str) -> Result<(Metric, f64), String> {
    if let Some((_, of)) = TIMED.iter().find(|(known, _)| *known == word) {
        let figure = figure_of(word, figure)?;
        let bound = humantime::parse_duration(right).map_err(|_| {
            format!("\"{right}\" is not a duration; write it with its unit, such as \"50ms\"")
        })?;
        return Ok((Metric::Latency { of: *of, figure }, nanos(bound) as f64));
    }
    let counted = COUNTED.iter().find(|(known, _)| *known == word);
    if counted.is_none() && word != "rate" {
        let timed = TIMED.iter().map(|(word, _)| *word);
        let counted = COUNTED.iter().map(|(word, _)| *word);
        let known: Vec<&str> = timed.chain(["rate"]).chain(counted).collect();
        return Err(format!(
            "nothing called `{word}` is measured; {}",
            suggest(word, &known)
        ));
    }
    if !figure.is_empty() {
        return Err(format!("`{word}` is one number and has no `{figure}`"));
    }
    let Some((_, counted)) = counted else {
        return Ok((Metric::Rate, rate(right)?));
    };
    let wrong = || format!("\"{right}\" is neither a number nor a share, such as \"0\" or \"1%\"");
    let (digits, shares) = match right.strip_suffix('%') {
        Some(digits) => (digits.trim_end(), true),
        None => (right, false),
    };
    let number = digits
        .parse::<f64>()
        .ok()
        .filter(|n| n.is_finite() && *n >= 0.0);
    let number = number.ok_or_else(wrong)?;
    Ok(match shares {
        true => (Metric::Share(*counted), number / 100.0),
        false => (Metric::Count(*counted), number),
    })
}

fn figure_of(word: &str, text: &str) -> Result<Figure, String> {
    let percentile = || {
        let inner = text.strip_prefix("p(")?.strip_suffix(')')?;
        let percentile = inner.trim().parse::<f64>().ok()?;
        (percentile > 0.0 && percentile < 100.0).then_some(Figure::Quantile(percentile / 100.0))
    };
    match text {
        "avg" => Ok(Figure::Avg),
        "min" => Ok(Figure::Min),
        "med" => Ok(Figure::Quantile(0.5)),
        "max" => Ok(Figure::Max),
        _ => percentile().ok_or_else(|| {
            format!("`{word}` needs one of its figures: `p(99)`, `avg`, `min`, `med` or `max`")
        }),
    }
}

/// The `thresholds` of a file: each a string, or a table with `abort_on_fail`.
pub(super) fn thresholds_of(field: &Field<'_>) -> Option<Vec<Threshold>> {
    let read: Vec<_> = field.list()?.iter().map(one).collect();
    read.into_iter().collect()
}

fn one(field: &Field<'_>) -> Option<Threshold> {
    if field.is_str() {
        return told(field);
    }
    if !field.is_table() {
        return field.wrong("a string such as \"acquire p(99) < 50ms\", or a table with it");
    }
    let table = field.table()?;
    let text = table.need("threshold", "\"acquire p(99) < 50ms\"");
    let text = text.and_then(|field| told(&field));
    let abort = table.get("abort_on_fail").map(|field| field.boolean());
    table.finish();
    Some(Threshold {
        abort_on_fail: abort.unwrap_or(Some(false))?,
        ..text?
    })
}

fn told(field: &Field<'_>) -> Option<Threshold> {
    match threshold(&field.string()?) {
        Ok(threshold) => Some(threshold),
        Err(why) => {
            field.problem(why);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Metric, Comparison, f64) {
        let read = threshold(text).unwrap_or_else(|why| panic!("{text}: {why}"));
        (read.metric, read.is, read.bound)
    }

    #[test]
    fn thresholds_are_read_in_k6_s_words() {
        let latency = |of, figure| Metric::Latency { of, figure };
        assert_eq!(
            read("acquire p(99) < 50ms"),
            (
                latency(Timed::Acquire, Figure::Quantile(0.99)),
                Comparison::Below,
                50e6
            )
        );
        assert_eq!(
            read("release avg<=1ms"),
            (
                latency(Timed::Release, Figure::Avg),
                Comparison::AtMost,
                1e6
            )
        );
        assert_eq!(
            read("oversold == 0"),
            (Metric::Count(Counted::Oversold), Comparison::Equal, 0.0)
        );
        assert_eq!(
            read("errors < 1%"),
            (Metric::Share(Counted::Errors), Comparison::Below, 0.01)
        );
        assert_eq!(read("rate > 1k/s"), (Metric::Rate, Comparison::Above, 1e3));
    }

    #[test]
    fn what_is_no_threshold_is_told_with_what_to_write() {
        for (bad, help) in [
            ("acquire p(99)", "compares nothing"),
            ("acquire < 50ms", "`p(99)`"),
            ("acquire p(100) < 50ms", "`p(99)`"),
            ("acquire p(99) < 50", "with its unit"),
            ("aquire p(99) < 50ms", "did you mean \"acquire\"?"),
            ("oversold max == 0", "one number"),
            ("errors < x%", "1%"),
            ("errors < -1", "1%"),
            ("rate > 1000", "300/s"),
        ] {
            let told = threshold(bad).expect_err(bad);
            assert!(told.contains(help), "{bad}: {told}");
        }
    }
}
