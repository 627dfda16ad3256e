//! The matrix of locks and scenarios: what broke in each cell, in a table that fits a terminal.

use std::fmt::Write;

use super::comparison::brief;
use super::json::{Report, Trial};
use super::statistics::spread;
use crate::check::{Property, Side};
use crate::verdict::Verdict;

/// What a cell's letters mean.
const LEGEND: &str =
    "  L lock broken, B ledger broken, O key left behind or nobody let in, - nothing,
  ? inconclusive; in small letters: not in every trial; ! not as expected";

/// What broke: `L`, `B`, `O`, or `-`; in small letters where not in every trial.
pub fn code(report: &Report) -> String {
    let letters = [
        ('L', broke(report, &|trial| side(trial, Side::Lock))),
        ('B', broke(report, &|trial| side(trial, Side::Business))),
        ('O', broke(report, &shut_out)),
    ];
    let letters: String = letters
        .into_iter()
        .filter_map(|(letter, often)| match often {
            Often::Never => None,
            Often::Always => Some(letter),
            Often::Sometimes => Some(letter.to_ascii_lowercase()),
        })
        .collect();
    let unsure = report.lock_verdict.and(report.business_verdict) == Verdict::Inconclusive;
    match (letters.is_empty(), unsure) {
        (true, true) => "?".to_owned(),
        (true, false) => "-".to_owned(),
        (false, _) => letters,
    }
}

enum Often {
    Never,
    Sometimes,
    Always,
}

fn broke(report: &Report, how: &dyn Fn(&Trial) -> bool) -> Often {
    match report.trials.iter().filter(|trial| how(trial)).count() {
        0 => Often::Never,
        n if n == report.trials.len() => Often::Always,
        _ => Often::Sometimes,
    }
}

/// A key that nobody can get past, and what follows from it: an `O` of its own.
const SHUT_OUT: [Property; 3] = [Property::OrphanKey, Property::Starved, Property::Unsold];

fn shut_out(trial: &Trial) -> bool {
    SHUT_OUT.iter().any(|p| trial.count(p.word()) > 0)
}

/// Whether a side's promise was broken otherwise.
fn side(trial: &Trial, side: Side) -> bool {
    let properties = Property::ALL.into_iter().filter(|p| p.side() == side);
    let mut counted = properties.filter(|property| !SHUT_OUT.contains(property));
    counted.any(|property| trial.count(property.word()) > 0)
}

/// The table: a block for each scenario, a line for each lock.
pub fn table(reports: &[Report]) -> String {
    let mut text = format!(
        "{:30} {:18} {:>5} {:>8} {:>6} {:>6} {:>8} {:>5}\n",
        "scenario", "lock", "broke", "violated", "damage", "lock", "business", "price"
    );
    for report in reports {
        let unlocked = reports
            .iter()
            .find(|other| other.lock == "none" && other.scenario == report.scenario);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", line(report, unlocked));
    }
    text + LEGEND
}

fn line(report: &Report, unlocked: Option<&Report>) -> String {
    let damage: Vec<i64> = report.trials.iter().map(Trial::damage).collect();
    let damage = spread(&damage).map_or("-".to_owned(), |[_, _, median, _, _]| format!("{median}"));
    let expected = match report.verdict {
        Verdict::Fail => "!",
        _ => "",
    };
    let price = unlocked.map_or("-".to_owned(), |none| price(report, none));
    format!(
        "{:30} {:18} {:>5} {:>8} {:>6} {:>6} {:>8} {:>5}",
        report.scenario,
        report.lock,
        code(report) + expected,
        format!("{}/{}", report.violated.count, report.violated.of),
        damage,
        brief(report.lock_verdict),
        brief(report.business_verdict),
        price
    )
}

/// Sections a second, relative to no lock at all.
fn price(report: &Report, none: &Report) -> String {
    let rate = |report: &Report| {
        let rates = report
            .trials
            .iter()
            .map(|trial| trial.operations_per_second as i64);
        spread(&rates.collect::<Vec<_>>()).map_or(0.0, |[_, _, median, _, _]| median)
    };
    match rate(none) {
        none if none > 0.0 => format!("{:.2}", rate(report) / none),
        _ => "-".to_owned(),
    }
}
