//! The table of lock granularities: what each lets through, and how that compares with one lock for
//! everything.

use super::comparison::brief;
use super::experiment::{Experiment, Row, Setting};
use super::json::Trial;
use super::sweep::{heading, unsure};
use super::terminal::rounded;
use crate::verdict::Verdict;

/// A number of each trial.
type OfTrial = fn(&Trial) -> f64;

const SECTIONS: OfTrial = |trial| trial.operations_per_second;
const SOLD: OfTrial = |trial| match trial.elapsed().as_secs_f64() {
    seconds if seconds > 0.0 => trial.ledger.orders as f64 / seconds,
    _ => 0.0,
};

/// The table: a line for each lock and granularity.
pub fn table(experiment: &Experiment) -> String {
    let mut lines = heading(
        experiment,
        "Sections and units sold a second, and what a worker waits for its lock: the\n\
         median trial's, in run time.",
    );
    lines.push(format!(
        "{:18} {:8} {:>10} {:>6} {:>7} {:>8} {:>7}  {}",
        "lock", "one for", "sections/s", "ratio", "sold/s", "wait p50", "p99", "verdict"
    ));
    lines.extend(experiment.rows.iter().map(|row| line(row, experiment)));
    lines.extend(unsure(experiment));
    lines.push(String::new());
    lines.extend(conclusion(experiment));
    lines.join("\n")
}

fn word(row: &Row) -> &str {
    match &row.setting {
        Setting::Granularity { granularity } => granularity,
        _ => "-",
    }
}

/// The median of a rate that may be small.
fn median(row: &Row, of: OfTrial) -> f64 {
    let thousandths = row.median(|trial| (of(trial) * 1e3).round() as i64);
    thousandths.unwrap_or(0.0) / 1e3
}

/// How many times as many sections as with one lock for everything.
fn ratio(row: &Row, experiment: &Experiment) -> Option<f64> {
    let mut rows = experiment.rows.iter();
    let coarse = rows.find(|other| other.lock == row.lock && word(other) == "all")?;
    let coarse = median(coarse, SECTIONS);
    (coarse > 0.0).then(|| median(row, SECTIONS) / coarse)
}

fn verdict(row: &Row) -> Verdict {
    let trials = row.trials.iter();
    let verdicts = trials.map(|trial| trial.lock_verdict.and(trial.business_verdict));
    match row.trials.is_empty() {
        true => Verdict::Inconclusive,
        false => Verdict::worst(verdicts),
    }
}

fn line(row: &Row, experiment: &Experiment) -> String {
    let wait = |of: fn(&Trial) -> Option<u64>| {
        let all_told = row.trials.iter().all(|trial| of(trial).is_some());
        let waited = row.median(|trial| of(trial).unwrap_or(0) as i64);
        (waited.filter(|_| all_told)).map_or("-".to_owned(), |ns| rounded(ns as u64))
    };
    format!(
        "{:18} {:8} {:>10.0} {:>6} {:>7.0} {:>8} {:>7}  {}",
        row.lock,
        word(row),
        median(row, SECTIONS),
        ratio(row, experiment).map_or("-".to_owned(), |ratio| format!("{ratio:.1}")),
        median(row, SOLD),
        wait(|trial| Some(trial.lock_wait.p50_ns)),
        wait(|trial| trial.lock_wait.p99_ns),
        brief(verdict(row))
    )
}

/// What follows for each lock that held.
fn conclusion(experiment: &Experiment) -> Vec<String> {
    let rows = &experiment.rows;
    let broken = |lock: &str| rows.iter().any(|r| r.lock == lock && r.violated.count > 0);
    let mut lines = Vec::new();
    if rows.iter().any(|row| row.violated.count > 0) {
        lines.push("A lock that did not hold has no throughput: see the verdicts.".to_owned());
    }
    for row in rows.iter().filter(|row| !broken(&row.lock)) {
        lines.extend(match (word(row), ratio(row, experiment)) {
            ("all", Some(_)) => Some(format!(
                "{}: one lock for everything lets in one at a time.",
                row.lock
            )),
            (finer, Some(ratio)) => Some(format!(
                "  {ratio:.1} times as many with one for each {finer}"
            )),
            (_, None) => None,
        });
    }
    lines
}
