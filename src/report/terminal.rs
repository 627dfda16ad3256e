//! The summary that a person reads in ten seconds: verdicts first, then counts, then the story of
//! the first violation, then latency, then files. And the table that compares locks.

use std::fmt::Write;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

use super::json::{Report, Trial};
use super::statistics::spread;
use crate::check::{Property, Side};
use crate::scenario::Expect;
use crate::summary::Quantiles;
use crate::verdict::Verdict;

/// The colour of a verdict. Whether colours are shown is decided where the text is printed.
fn style(verdict: Verdict) -> Style {
    let colour = match verdict {
        Verdict::Pass => AnsiColor::Green,
        Verdict::Inconclusive => AnsiColor::Yellow,
        Verdict::Fail => AnsiColor::Red,
    };
    Style::new().bold().fg_color(Some(colour.into()))
}

fn painted(verdict: Verdict) -> String {
    let style = style(verdict);
    format!("{style}{}{style:#}", verdict.word().to_uppercase())
}

/// The summary of one lock in one scenario.
pub fn summary(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = write_summary(&mut text, report);
    text
}

fn write_summary(out: &mut String, report: &Report) -> std::fmt::Result {
    let bold = Style::new().bold();
    let seeds = match report.trials.as_slice() {
        [] | [_] => format!("seed {}", report.seed),
        many => format!("{} trials from seed {}", many.len(), report.seed),
    };
    writeln!(
        out,
        "{bold}{} / {}{bold:#}  ({seeds}, {}, time scale {})",
        report.scenario, report.lock, report.server, report.time_scale
    )?;
    let lock = painted(report.lock_verdict);
    writeln!(out, "  lock      {lock}  {}", broken(report, Side::Lock))?;
    let business = painted(report.business_verdict);
    writeln!(
        out,
        "  business  {business}  {}",
        broken(report, Side::Business)
    )?;
    writeln!(
        out,
        "  expected  {}  {}",
        painted(report.verdict),
        expectation(report)
    )?;
    for missed in report.missed.iter().take(5) {
        writeln!(out, "            {missed}")?;
    }
    if report.trials.len() > 1 {
        write_trials(out, report)?;
    }
    if let Some(trial) = told(report) {
        write_trial(out, report, trial)?;
    }
    Ok(())
}

/// The trial whose story is told: the first with a violation, or else with a doubt.
fn told(report: &Report) -> Option<&Trial> {
    let trials = &report.trials;
    let violated = trials.iter().find(|trial| trial.violated());
    let doubtful = trials.iter().find(|trial| !trial.doubts.is_empty());
    violated.or(doubtful).or(trials.first())
}

/// What was violated of one side's promise, over all trials.
fn broken(report: &Report, side: Side) -> String {
    let properties = Property::ALL.into_iter().filter(|p| p.side() == side);
    let counted = properties.map(|property| {
        let word = property.word();
        let n: u64 = report.trials.iter().map(|trial| trial.count(word)).sum();
        (word, n)
    });
    let words: Vec<_> = counted
        .filter(|(_, n)| *n > 0)
        .map(|(word, n)| match side {
            Side::Lock => format!("{word} {n}"),
            Side::Business => word.to_owned(),
        })
        .collect();
    match (words.is_empty(), side) {
        (true, Side::Lock) => "one section at a time, each released by its owner".to_owned(),
        (true, Side::Business) => "the ledger is right".to_owned(),
        (false, _) => words.join(", "),
    }
}

fn expectation(report: &Report) -> String {
    let met = report.verdict == Verdict::Pass;
    let what = match &report.expected {
        Expect::Pass => "no violation",
        Expect::Violation { .. } => "the violation that the scenario reproduces",
    };
    match (met, report.verdict) {
        (true, _) => format!("{what}: as expected"),
        (false, Verdict::Inconclusive) => format!("{what}: this run cannot tell"),
        (false, _) => format!("{what}: not so"),
    }
}

fn write_trials(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(out, "  violated  {}", report.violated.sentence())?;
    let unsure = report
        .trials
        .iter()
        .filter(|trial| !trial.doubts.is_empty());
    let unsure = unsure.count();
    if unsure > 0 {
        writeln!(
            out,
            "  unsure    {unsure} of {} trials",
            report.trials.len()
        )?;
    }
    let damage: Vec<i64> = report.trials.iter().map(Trial::damage).collect();
    let Some([least, low, middle, high, most]) = spread(&damage) else {
        return Ok(());
    };
    let what = match report.trials.iter().any(|trial| trial.ledger.entries > 0) {
        true => "doubled ",
        false => "oversold",
    };
    let each: Vec<_> = damage.iter().map(i64::to_string).collect();
    writeln!(
        out,
        "  {what}  least {least}, quartiles {low} / {middle} / {high}, most {most}"
    )?;
    writeln!(out, "            {}", each.join(" "))
}

fn write_trial(out: &mut String, report: &Report, trial: &Trial) -> std::fmt::Result {
    if report.trials.len() > 1 {
        writeln!(out, "\n  seed {}", trial.seed)?;
    }
    writeln!(out, "  ledger    {}", ledger(trial))?;
    let counts = &trial.counts;
    writeln!(
        out,
        "  counts    {} operations, {} granted, {} refused, {} failed, {} unknown, {} gave up",
        counts.operations,
        counts.granted,
        counts.denied,
        counts.failed,
        counts.unknown,
        counts.gave_up
    )?;
    for doubt in &trial.doubts {
        writeln!(out, "  unsure    {doubt}")?;
    }
    for fault in &trial.coverage.faults {
        if let Some(proof) = &fault.proof {
            writeln!(out, "  fault     {proof}")?;
        }
    }
    if !trial.story.is_empty() {
        writeln!(
            out,
            "\n  the first violation, in the incident's own seconds"
        )?;
        for line in &trial.story {
            let at = line.at_ns.seconds() / report.time_scale;
            writeln!(out, "    {at:9.3}  {}", line.text)?;
        }
        writeln!(out)?;
    } else if let Some(finding) = trial.findings.first() {
        writeln!(out, "\n  the first violation\n    {}\n", finding.summary)?;
    }
    writeln!(
        out,
        "  latency   lock wait {}; section {}; release {} (p50 / p99 / max, run time)",
        times(&trial.lock_wait),
        times(&trial.section),
        times(&trial.release)
    )?;
    writeln!(out, "  files     {}", trial.folder)
}

fn ledger(trial: &Trial) -> String {
    let ledger = &trial.ledger;
    match ledger.entries {
        0 => format!(
            "{} orders for {} units: {} oversold, {} unsold",
            ledger.orders, ledger.stock, ledger.oversold, ledger.unsold
        ),
        entries => format!(
            "{} postings for {entries} entries: {} processed more than once, {} never",
            ledger.postings, ledger.double_processed, ledger.never_processed
        ),
    }
}

fn times(quantiles: &Quantiles) -> String {
    if quantiles.count == 0 {
        return "-".to_owned();
    }
    let [p50, p99, max] = [quantiles.p50_ns, quantiles.p99_ns, quantiles.max_ns].map(short);
    format!("{p50} / {p99} / {max}")
}

/// A duration in three digits.
fn short(ns: u64) -> String {
    let seconds = Duration::from_nanos(ns).as_secs_f64();
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.0} us", s * 1e6),
    }
}

/// The table of several locks in one scenario.
pub fn comparison(reports: &[Report]) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    let entries = reports.iter().flat_map(|report| &report.trials);
    let entries = entries.clone().any(|trial| trial.ledger.entries > 0);
    let (done, damage) = match entries {
        true => ("postings", "doubled"),
        false => ("orders", "oversold"),
    };
    table.set_header([
        "lock\n",
        done,
        damage,
        "overlaps",
        "foreign\nreleases",
        "keys\nleft",
        "wait\np50",
        "p99",
        "max",
        "ops/s",
        "lock\nverdict",
        "business\nverdict",
        "as\nexpected",
    ]);
    for report in reports {
        table.add_row(row(report));
    }
    for column in 1..10 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    format!("{table}\n")
}

/// Counts are those of the median trial, so that one trial and many read alike.
fn row(report: &Report) -> Vec<String> {
    let median = |count: &dyn Fn(&Trial) -> i64| {
        let counts: Vec<i64> = report.trials.iter().map(count).collect();
        spread(&counts).map_or("-".to_owned(), |[.., middle, _, _]| format!("{middle}"))
    };
    let count = |property: Property| median(&|trial| trial.count(property.word()) as i64);
    let wait = |of: fn(&Quantiles) -> u64| {
        let waits: Vec<i64> = report
            .trials
            .iter()
            .map(|trial| of(&trial.lock_wait) as i64)
            .collect();
        spread(&waits).map_or("-".to_owned(), |[.., middle, _, _]| short(middle as u64))
    };
    vec![
        report.lock.clone(),
        median(&|trial| trial.ledger.orders + trial.ledger.postings),
        median(&Trial::damage),
        count(Property::Overlap),
        count(Property::ForeignRelease),
        count(Property::OrphanKey),
        wait(|wait| wait.p50_ns),
        wait(|wait| wait.p99_ns),
        wait(|wait| wait.max_ns),
        median(&|trial| trial.operations_per_second.round() as i64),
        report.lock_verdict.word().to_owned(),
        report.business_verdict.word().to_owned(),
        match report.verdict {
            Verdict::Pass => "yes",
            Verdict::Fail => "NO",
            Verdict::Inconclusive => "unsure",
        }
        .to_owned(),
    ]
}

/// One line for each of several reports.
pub fn overview(reports: &[Report]) -> String {
    let mut text = String::new();
    for report in reports {
        let name = format!("{} / {}", report.scenario, report.lock);
        let _ = writeln!(
            text,
            "{name:44} {}  lock {}, business {}, violated {} of {}",
            painted(report.verdict),
            report.lock_verdict.word(),
            report.business_verdict.word(),
            report.violated.count,
            report.violated.of
        );
    }
    text
}
