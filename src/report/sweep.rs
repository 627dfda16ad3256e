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
        "The section's P99 is {} (of 100,000 draws under a fixed seed). Times are the\n\
         incident's own.",
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
        "Requests a second, in the incident's own time. The load is a closed loop, where\n\
         a worker asks again once it is through: so a rate is nominal, and the measured\n\
         one (the median trial's) stands beside it.",
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

/// What was run.
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
            "({trials} {} each from seed {}, {}, time scale {})",
            if trials == 1 { "trial" } else { "trials" },
            experiment.seed,
            experiment.server,
            experiment.time_scale
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::json::SCHEMA_VERSION;

    /// A row of which nothing but the shares is known.
    fn row(setting: Setting, count: u64, of: u64) -> Row {
        Row {
            violated: Share::new(count, of),
            ..Row::new("set-nx-ex-del", setting, vec![])
        }
    }

    fn experiment(rows: Vec<Row>) -> Experiment {
        Experiment {
            schema_version: SCHEMA_VERSION,
            tool: "oversold".to_owned(),
            experiment: "ttl-sweep".to_owned(),
            scenario: "ttl-sweep".to_owned(),
            seed: 1,
            time_scale: 0.05,
            server: "Redis 7.0.15".to_owned(),
            interrupted: None,
            rows,
        }
    }

    fn of_ttls(counts: &[(f64, u64)], of: u64) -> String {
        let rows = counts.iter().map(|(of_p99, count)| {
            let ttl_ns = (of_p99 * 6e9) as u64;
            let of_p99 = *of_p99;
            row(Setting::Ttl { of_p99, ttl_ns }, *count, of)
        });
        ttl(&experiment(rows.collect()), Duration::from_secs(6))
    }

    fn of_rates(counts: &[(u32, u64)], of: u64) -> String {
        let rows = counts.iter().map(|(rate, count)| {
            let nominal_per_second = f64::from(*rate);
            row(Setting::Rate { nominal_per_second }, *count, of)
        });
        rate(&experiment(rows.collect()))
    }

    fn bare(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn a_bar_ends_at_the_low_end_and_the_interval_stands_around_the_share() {
        let text = of_ttls(&[(0.5, 20), (1.0, 10), (3.0, 0)], 20);
        let lines: Vec<&str> = text.lines().collect();
        let plot = |line: &str| line[48..].to_owned();
        assert_eq!(plot(lines[5]), "0 %                       100 %");
        assert_eq!(plot(lines[6]), "=========================|----o");
        assert_eq!(plot(lines[7]), "========|------o------|");
        assert_eq!(plot(lines[8]), "o----|");
    }

    #[test]
    fn it_fits_a_terminal() {
        let ttls = of_ttls(&[(0.5, 100), (33.333, 50), (100.0, 0)], 100);
        let rates = of_rates(&[(300, 0), (1_000_000, 100)], 100);
        for line in bare(&ttls).lines().chain(bare(&rates).lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn a_longer_ttl_is_said_to_lower_the_probability_only_when_it_does() {
        let lowers = |counts: &[(f64, u64)]| of_ttls(counts, 20).contains("only lowers");
        assert!(lowers(&[(0.5, 20), (1.0, 9), (1.5, 11), (5.0, 0)]));
        assert!(!lowers(&[(0.5, 10), (5.0, 10)]), "it stays");
        assert!(
            !lowers(&[(0.5, 10), (1.0, 0), (1.5, 20), (5.0, 9)]),
            "it jumps up"
        );
        assert!(!lowers(&[]));
    }

    #[test]
    fn the_rule_of_three_is_judged_by_its_own_row_or_not_at_all() {
        let holds = of_ttls(&[(3.0, 0)], 20);
        let so = "holds here as far as 20 trials can tell (up to 17 %)";
        assert!(holds.contains(so), "{holds}");
        assert!(of_ttls(&[(3.0, 1)], 20).contains("does not hold for this distribution"));
        assert!(of_ttls(&[(2.0, 0), (4.0, 0)], 20).contains("not put to the test"));
        assert!(of_ttls(&[(3.0, 0)], 0).contains("not put to the test"));
    }

    #[test]
    fn a_rate_is_said_to_raise_the_probability_only_when_it_does() {
        let raises = |counts: &[(u32, u64)]| of_rates(counts, 10).contains("the rate alone raises");
        let text = of_rates(&[(300, 1), (2600, 10)], 10);
        assert!(
            text.contains("10 % at 300 a second, 100 % at 2600 a second"),
            "{text}"
        );
        assert!(raises(&[(300, 1), (600, 0), (2600, 10)]));
        assert!(!raises(&[(300, 10), (2600, 1)]));
    }
}
