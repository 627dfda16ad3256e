//! The tables of the sweeps: a line for each setting, with the violated share, its interval and a
//! plot of both; then what may be said of all of them. They fit a terminal of 80 columns.

use std::time::Duration;

use anstyle::Style;

use super::experiment::{Experiment, Row, Setting};
use super::json::Trial;
use super::statistics::Share;

/// How wide a plot is.
const PLOT: usize = 31;
/// The rule that a TTL sweep looks at: a TTL of at least so many P99 of the section.
const RULE: f64 = 3.0;

/// The table of a TTL sweep.
pub fn ttl(experiment: &Experiment, p99: Duration) -> String {
    let about = format!(
        "TTLs as multiples of the section's P99, {}: of 100,000 draws under a fixed seed.",
        seconds(p99.as_secs_f64())
    );
    let mut lines = heading(experiment, &about);
    lines.push(head("x P99", "TTL", "damage"));
    lines.extend(experiment.rows.iter().map(|row| {
        let [of_p99, ttl] = ttl_of(row).map_or(["-".to_owned(), "-".to_owned()], |(of, ns)| {
            [format!("{of}"), seconds(ns as f64 / 1e9)]
        });
        line(&of_p99, &ttl, row)
    }));
    lines.extend(unsure(experiment));
    lines.push(String::new());
    let at = |row: &Row| ttl_of(row).map_or(String::new(), |(of, _)| format!("{of} x P99"));
    lines.push(match moved(&experiment.rows, Way::Falls) {
        Some((first, last)) => format!(
            "A longer TTL only lowers the probability:\n  {} at {}, {} at {}.",
            percent(first),
            at(first),
            percent(last),
            at(last)
        ),
        None => "These trials do not show that a longer TTL lowers the probability.".to_owned(),
    });
    lines.push(rule(&experiment.rows));
    lines.join("\n")
}

/// The table of a rate sweep.
pub fn rate(experiment: &Experiment) -> String {
    let mut lines = heading(
        experiment,
        "Requests a second. The load is a closed loop, where a worker asks again when it is\n\
         through: so a rate is nominal, and the measured one (of the median trial) stands\n\
         beside it.",
    );
    let scale = experiment.time_scale;
    lines.push(head("nominal", "measured", "oversold"));
    lines.extend(experiment.rows.iter().map(|row| {
        let arrivals = |trial: &Trial| (trial.arrivals_per_second * scale).round() as i64;
        let measured = row
            .median(arrivals)
            .map_or("-".to_owned(), |n| format!("{n:.0}"));
        line(&nominal(row), &measured, row)
    }));
    lines.extend(unsure(experiment));
    lines.push(String::new());
    lines.push(match moved(&experiment.rows, Way::Rises) {
        Some((first, last)) => format!(
            "With everything else the same, the rate alone raises the probability:\n  {} at {} a \
             second, {} at {} a second.",
            percent(first),
            nominal(first),
            percent(last),
            nominal(last)
        ),
        None => "These trials do not show that the rate raises the probability.".to_owned(),
    });
    lines.join("\n")
}

fn ttl_of(row: &Row) -> Option<(f64, u64)> {
    match row.setting {
        Setting::Ttl { of_p99, ttl_ns } => Some((of_p99, ttl_ns)),
        _ => None,
    }
}

fn nominal(row: &Row) -> String {
    match row.setting {
        Setting::Rate { nominal_per_second } => format!("{nominal_per_second}"),
        _ => "-".to_owned(),
    }
}

/// Seconds with three digits.
fn seconds(s: f64) -> String {
    match s {
        s if s >= 99.95 => format!("{s:.0} s"),
        s if s >= 9.995 => format!("{s:.1} s"),
        s => format!("{s:.2} s"),
    }
}

/// What was run, and in whose time it is told.
pub(super) fn heading(experiment: &Experiment, about: &str) -> Vec<String> {
    let bold = Style::new().bold();
    let Experiment {
        experiment: name,
        scenario,
        rows,
        ..
    } = experiment;
    let trials = rows.iter().map(|row| row.trials.len()).max().unwrap_or(0);
    let mut locks: Vec<&str> = rows.iter().map(|row| row.lock.as_str()).collect();
    locks.dedup();
    let mut lines = vec![
        format!("{bold}{name}: {scenario} / {}{bold:#}", locks.join(", ")),
        format!(
            "({trials} trials each from seed {}, {}, time scale {}; times are the incident's)",
            experiment.seed, experiment.server, experiment.time_scale
        ),
        about.to_owned(),
    ];
    if experiment.interrupted.is_some() {
        lines.push("Interrupted: these are the trials that had ended by then.".to_owned());
    }
    lines.push(String::new());
    lines
}

fn head(what: &str, more: &str, damage: &str) -> String {
    let axis = format!("0 %{:>width$}", "100 %", width = PLOT - 3);
    columns(what, more, "violated", "95 %", damage, &axis)
}

fn columns(
    what: &str,
    more: &str,
    violated: &str,
    interval: &str,
    damage: &str,
    plot: &str,
) -> String {
    let text = format!("{what:>7} {more:>8} {violated:>9} {interval:>10} {damage:>8}  {plot}");
    text.trim_end().to_owned()
}

fn line(what: &str, more: &str, row: &Row) -> String {
    let Share { count, of, .. } = row.violated;
    let damage = (row.median(Trial::damage)).map_or("-".to_owned(), |median| format!("{median}"));
    columns(
        what,
        more,
        &format!("{count}/{of}"),
        &interval(&row.violated),
        &damage,
        &plot(row),
    )
}

fn interval(share: &Share) -> String {
    match share.of {
        0 => "-".to_owned(),
        _ => format!("{:.0}-{:.0} %", share.low * 100.0, share.high * 100.0),
    }
}

/// A bar up to the interval's lower end, the interval from `|` to `|`, and the share itself, `o`.
fn plot(row: &Row) -> String {
    let Some(estimate) = row.estimate() else {
        return "?".to_owned();
    };
    let place = |part: f64| (part * (PLOT - 1) as f64).round() as usize;
    let (low, high) = (place(row.violated.low), place(row.violated.high));
    let estimate = place(estimate);
    let mark = |at: usize| match at {
        at if at == estimate => 'o',
        at if at == low || at == high => '|',
        at if at < low => '=',
        at if at < high => '-',
        _ => ' ',
    };
    let bar: String = (0..PLOT).map(mark).collect();
    bar.trim_end().to_owned()
}

/// Trials that could not be judged are left out of the shares, and told.
pub(super) fn unsure(experiment: &Experiment) -> Vec<String> {
    let rows = experiment.rows.iter();
    let left_out: u64 = rows.clone().map(|row| row.unsure).sum();
    let mut doubts = rows
        .flat_map(|row| &row.trials)
        .filter(|trial| !trial.violated())
        .flat_map(|trial| &trial.doubts);
    match doubts.next() {
        Some(doubt) if left_out > 0 => vec![
            String::new(),
            format!("unsure    {left_out} trials could not be judged and are left out, the first:"),
            format!("          {doubt}"),
        ],
        _ => vec![],
    }
}

fn percent(row: &Row) -> String {
    let part = row.estimate().unwrap_or(f64::NAN) * 100.0;
    match row.violated.count {
        0 => format!("0 % (up to {:.0} %)", row.violated.high * 100.0),
        _ => format!("{part:.0} %"),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Falls,
    Rises,
}

/// The first and the last row, if the probability moves that way from one to the other, and no pair
/// of rows between them moves against it beyond its intervals.
fn moved(rows: &[Row], way: Way) -> Option<(&Row, &Row)> {
    let judged: Vec<&Row> = rows.iter().filter(|row| row.violated.of > 0).collect();
    let (first, last) = (*judged.first()?, *judged.last()?);
    let higher = |a: &Row, b: &Row| match way {
        Way::Falls => (a.estimate(), a.violated, b.estimate(), b.violated),
        Way::Rises => (b.estimate(), b.violated, a.estimate(), a.violated),
    };
    let (above, _, below, _) = higher(first, last);
    let pairs = judged.iter().enumerate();
    let against = pairs
        .flat_map(|(at, earlier)| judged[at + 1..].iter().map(move |later| (earlier, later)))
        .any(|(earlier, later)| {
            let (_, above, _, below) = higher(earlier, later);
            below.low > above.high
        });
    (above > below && !against).then_some((first, last))
}

/// Whether the rule of three P99 holds for this distribution.
fn rule(rows: &[Row]) -> String {
    let at_rule = rows
        .iter()
        .find(|row| ttl_of(row).is_some_and(|(of, _)| of == RULE));
    let Some(row) = at_rule.filter(|row| row.violated.of > 0) else {
        return format!("The rule \"at least {RULE} x P99\" was not put to the test.");
    };
    let share = &row.violated;
    let holds = match share.count {
        0 => format!(
            "holds here as far as {} trials can tell (up to {:.0} %)",
            share.of,
            share.high * 100.0
        ),
        _ => "does not hold for this distribution".to_owned(),
    };
    format!(
        "The rule \"at least {RULE} x P99\" {holds}:\n  {} violated.",
        share.sentence()
    )
}
