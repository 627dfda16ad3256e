//! The summary that a person reads in ten seconds: verdicts first, then counts, then the story of
//! the first violation, then latency, then files.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};

use super::json::{Business, Report, Trial};
use super::statistics::spread;
use crate::check::{Property, Side};
use crate::lock;
use crate::scenario::Expect;
use crate::summary::Quantiles;
use crate::verdict::Verdict;

pub use super::comparison::comparison;

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
    let name = format!("{} / {}", report.scenario, report.lock);
    writeln!(out, "{}", heading(&name, report))?;
    verdicts(out, report)?;
    if report.trials.len() > 1 {
        write_trials(out, report)?;
    }
    if let Some(trial) = told(report) {
        write_trial(out, report, trial)?;
    }
    Ok(())
}

/// Both verdicts, and whether they were expected.
pub(super) fn verdicts(out: &mut String, report: &Report) -> std::fmt::Result {
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
    write_thresholds(out, report)
}

/// All thresholds of one trial; of several those that did not hold.
fn write_thresholds(out: &mut String, report: &Report) -> std::fmt::Result {
    let alone = report.trials.len() == 1;
    let held = report.trials.iter().flat_map(|trial| &trial.thresholds);
    for held in held
        .filter(|held| alone || held.verdict != Verdict::Pass)
        .take(20)
    {
        let verdict = painted(held.verdict);
        writeln!(out, "  threshold {verdict}  {}", held.words())?;
    }
    Ok(())
}

pub(super) fn heading(name: &str, report: &Report) -> String {
    let bold = Style::new().bold();
    let seeds = match report.trials.as_slice() {
        [] | [_] => format!("seed {}", report.seed),
        many => format!("{} trials from seed {}", many.len(), report.seed),
    };
    let (server, scale) = (&report.server, report.time_scale);
    format!("{bold}{name}{bold:#}  ({seeds}, {server}, time scale {scale})")
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
    let verdict = match side {
        Side::Lock => report.lock_verdict,
        Side::Business => report.business_verdict,
    };
    match (words.is_empty(), side) {
        (true, _) if verdict == Verdict::Inconclusive => {
            "nothing wrong was seen, and not enough to tell".to_owned()
        }
        (true, Side::Lock) => kept(&report.lock).to_owned(),
        (true, Side::Business) => "the ledger is right".to_owned(),
        (false, _) => words.join(", "),
    }
}

/// The promise that a lock kept.
fn kept(lock: &str) -> &'static str {
    match lock::find(lock).is_none_or(|lock| lock.excludes) {
        true => "one section at a time, each released by its owner",
        false => "it promises no exclusion, and broke nothing else",
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
    let known = report
        .trials
        .iter()
        .filter(|trial| trial.ledger_unknown.is_none());
    let damage: Vec<i64> = known.map(Trial::damage).collect();
    let Some([least, low, middle, high, most]) = spread(&damage) else {
        return Ok(());
    };
    let first = report.trials.first();
    let what = match first.map_or(Business::Sale, Trial::business) {
        Business::Sale => "oversold",
        Business::Entries => "doubled ",
        Business::Counter => "lost    ",
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
    if let Some(vacancy) = &trial.vacancy {
        writeln!(
            out,
            "  leader    nobody acted for {} in all, {} at a time (run time)",
            rounded(vacancy.total_ns),
            rounded(vacancy.longest_ns)
        )?;
    }
    evidence(out, report, trial)?;
    for warning in &trial.warnings {
        writeln!(out, "  warning   {warning}")?;
    }
    let (wait, section, release) = (&trial.lock_wait, &trial.section, &trial.release);
    const WHAT: &str = "(p50 / p99 / max, run time)";
    match &trial.lock_wait_corrected {
        None => writeln!(out, "  latency   lock wait {}  {WHAT}", times(wait))?,
        // Where starts are planned the wait from the actual start leaves out what came too late.
        Some(corrected) => {
            writeln!(out, "  latency   lock wait {}  {WHAT}", times(corrected))?;
            writeln!(out, "            from the actual start {}", times(wait))?;
        }
    }
    writeln!(out, "            section   {}", times(section))?;
    writeln!(out, "            release   {}", times(release))?;
    writeln!(out, "  files     {}", trial.folder)
}

/// What a verdict rests on: doubts, faults, and how the first violation came about.
pub(super) fn evidence(out: &mut String, report: &Report, trial: &Trial) -> std::fmt::Result {
    for doubt in &trial.doubts {
        writeln!(out, "  unsure    {doubt}")?;
    }
    for fault in &trial.coverage.faults {
        if let Some(proof) = &fault.proof {
            let times = fault.times().map(|times| format!("{times}: "));
            writeln!(out, "  fault     {}{proof}", times.unwrap_or_default())?;
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
    Ok(())
}

fn ledger(trial: &Trial) -> String {
    if let Some(why) = &trial.ledger_unknown {
        return format!("not known: {why}");
    }
    let ledger = &trial.ledger;
    match trial.business() {
        Business::Sale => format!(
            "{} orders for {} units: {} oversold, {} unsold",
            ledger.orders, ledger.stock, ledger.oversold, ledger.unsold
        ),
        Business::Entries => format!(
            "{} postings for {} entries: {} processed more than once, {} never",
            ledger.postings, ledger.entries, ledger.double_processed, ledger.never_processed
        ),
        Business::Counter => format!(
            "{} increments, and the counter shows {}: {} lost",
            ledger.increments,
            ledger.counted,
            trial.damage()
        ),
    }
}

fn times(quantiles: &Quantiles) -> String {
    if quantiles.count == 0 {
        return "-".to_owned();
    }
    let [p50, max] = [quantiles.p50_ns, quantiles.max_ns].map(rounded);
    let p99 = quantiles.p99_ns.map_or("-".to_owned(), rounded);
    format!("{p50} / {p99} / {max}")
}

/// A duration in two digits and its unit.
pub(super) fn rounded(ns: u64) -> String {
    let (number, unit) = match ns as f64 {
        ns if ns >= 0.9995e9 => (ns / 1e9, "s"),
        ns if ns >= 0.9995e6 => (ns / 1e6, "ms"),
        ns => (ns / 1e3, "us"),
    };
    match number {
        n if n >= 9.95 => format!("{n:.0} {unit}"),
        n => format!("{n:.1} {unit}"),
    }
}

/// One line for each of several reports, aligned.
pub fn overview(reports: &[Report]) -> String {
    let names: Vec<String> = reports
        .iter()
        .map(|report| format!("{} / {}", report.scenario, report.lock))
        .collect();
    let width = names.iter().map(String::len).max().unwrap_or(0);
    let lines = reports.iter().zip(&names).map(|(report, name)| {
        let gap = " ".repeat("inconclusive".len() - report.verdict.word().len());
        format!(
            "{name:width$}  {}{gap}  lock {}, business {}, violated {} of {}",
            painted(report.verdict),
            report.lock_verdict.word(),
            report.business_verdict.word(),
            report.violated.count,
            report.violated.of
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}
