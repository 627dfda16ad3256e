//! The table that compares the locks in one scenario.

use std::ops::Range;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

use super::json::{Business, Report, Trial};
use super::statistics::spread;
use super::terminal::{heading, rounded};
use crate::check::Property;
use crate::summary::Quantiles;
use crate::verdict::Verdict;

/// How wide the table of locks is at most.
const WIDEST: usize = 100;
/// Its columns of numbers.
const NUMBERS: Range<usize> = 1..10;
/// Its columns after which another subject begins: the counts, the waits, what came of it.
const GROUP_ENDS: [usize; 3] = [0, 5, 8];

/// The table of several locks in one scenario.
pub fn comparison(reports: &[Report]) -> String {
    let Some(first) = reports.first() else {
        return String::new();
    };
    let mut trials = reports.iter().flat_map(|report| &report.trials);
    let (done, damage) = match trials.next().map_or(Business::Sale, Trial::business) {
        Business::Sale => ("\norders", "over\nsold"),
        Business::Entries => ("\nposted", "doub\nled"),
        Business::Counter => ("incre-\nments", "\nlost"),
    };
    let header = [
        "\nlock",
        done,
        damage,
        "over\nlaps",
        "foreign\nrelease",
        "keys\nleft",
        "wait\np50",
        "\np99",
        "\nmax",
        "\nops/s",
        "\nlock",
        "verdict\nbusiness",
        "as\nexpected",
    ];
    // A wider gap between groups of columns where there is room for it.
    let rows: Vec<Vec<String>> = reports.iter().map(row).collect();
    let tables = [2, 1].map(|gap| table(&header, &rows, gap));
    let fits = |text: &&String| text.lines().all(|line| line.chars().count() <= WIDEST);
    let table = tables.iter().find(fits).unwrap_or(&tables[1]);
    format!("{}\n{table}", heading(&first.scenario, first))
}

fn table(header: &[&str], rows: &[Vec<String>], group_gap: u16) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(header.to_vec());
    table.add_rows(rows.to_vec());
    for (place, column) in table.column_iter_mut().enumerate() {
        let gap = match GROUP_ENDS.contains(&place) {
            true => group_gap,
            false => 1,
        };
        column.set_padding((0, gap));
        if NUMBERS.contains(&place) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let lines = table.lines();
    lines
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}

/// A count in at most four characters.
fn count(n: f64) -> String {
    match n {
        n if n >= 9.95e6 => format!("{:.0}M", n / 1e6),
        n if n >= 0.9995e6 => format!("{:.1}M", n / 1e6),
        n if n >= 1e4 => format!("{:.0}k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

/// A verdict in at most six characters.
pub(super) fn brief(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Fail => "FAIL",
        Verdict::Inconclusive => "unsure",
    }
}

/// Counts are those of the median trial, so that one trial and many read alike.
fn row(report: &Report) -> Vec<String> {
    let median = |of: &dyn Fn(&Trial) -> i64| {
        let numbers: Vec<i64> = report.trials.iter().map(of).collect();
        spread(&numbers).map(|[_, _, middle, _, _]| middle)
    };
    let counted = |of: &dyn Fn(&Trial) -> i64| median(of).map_or("-".to_owned(), count);
    let violated =
        |property: Property| counted(&|trial: &Trial| trial.count(property.word()) as i64);
    let of_ledgers = |of: fn(&Trial) -> i64| {
        let known = report
            .trials
            .iter()
            .filter(|trial| trial.ledger_unknown.is_none());
        let numbers: Vec<i64> = known.map(of).collect();
        spread(&numbers).map_or("-".to_owned(), |[_, _, middle, _, _]| count(middle))
    };
    // Where starts are planned the wait counts from there: what came too late has waited, too.
    let waits = |trial: &Trial| trial.lock_wait_corrected.unwrap_or(trial.lock_wait);
    let wait = |of: fn(&Quantiles) -> Option<u64>| {
        let told = report.trials.iter().map(waits).filter_map(|wait| of(&wait));
        let told: Vec<i64> = told.map(|ns| ns as i64).collect();
        spread(&told).map_or("-".to_owned(), |[_, _, middle, _, _]| {
            rounded(middle as u64)
        })
    };
    vec![
        report.lock.clone(),
        of_ledgers(|Trial { ledger, .. }| ledger.orders + ledger.postings + ledger.increments),
        of_ledgers(Trial::damage),
        violated(Property::Overlap),
        violated(Property::ForeignRelease),
        violated(Property::OrphanKey),
        wait(|wait| (wait.count > 0).then_some(wait.p50_ns)),
        wait(|wait| wait.p99_ns),
        wait(|wait| (wait.count > 0).then_some(wait.max_ns)),
        counted(&|trial| trial.operations_per_second.round() as i64),
        brief(report.lock_verdict).to_owned(),
        brief(report.business_verdict).to_owned(),
        match report.verdict {
            Verdict::Pass => "yes",
            Verdict::Fail => "NO",
            Verdict::Inconclusive => "unsure",
        }
        .to_owned(),
    ]
}
