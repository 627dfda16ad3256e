//! A soak's report: what it says beyond a trial's, and its summary in the layout that people know
//! from `hey`.

mod block;
mod histogram;

pub use block::{Latency, Percentile, Soak, warnings};

use std::fmt::Write;

use super::json::{Report, Trial};
use super::junit::replay;
use super::terminal::{evidence, heading, rounded, verdicts};

/// The summary of a soak; that of a trial if it was none.
pub fn summary(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail, here and below.
    let _ = match report
        .trials
        .first()
        .and_then(|trial| Some((trial, trial.soak.as_ref()?)))
    {
        Some((trial, soak)) => write_summary(&mut text, report, trial, soak),
        None => write!(text, "{}", super::terminal::summary(report)),
    };
    text
}

fn write_summary(
    out: &mut String,
    report: &Report,
    trial: &Trial,
    soak: &Soak,
) -> std::fmt::Result {
    let name = format!("{} / {}", report.scenario, report.lock);
    writeln!(out, "{}", heading(&name, report))?;
    writeln!(out, "  {}", soak.set_up())?;
    writeln!(out, "  {}\n", soak.loop_words())?;
    write_totals(out, trial, soak)?;
    histogram::write(out, soak)?;
    write_latencies(out, soak)?;
    write_outcomes(out, trial, soak)?;
    for warning in &soak.warnings {
        writeln!(out, "warning: {warning}\n")?;
    }
    verdicts(out, report)?;
    evidence(out, report, trial)?;
    writeln!(out, "  replay    {}", replay(trial))?;
    writeln!(out, "  files     {}", trial.folder)
}

fn write_totals(out: &mut String, trial: &Trial, soak: &Soak) -> std::fmt::Result {
    let acquire = &soak.acquire;
    writeln!(out, "Summary:")?;
    writeln!(
        out,
        "  Total:          {:.4} secs",
        trial.elapsed().as_secs_f64()
    )?;
    if acquire.count > 0 {
        writeln!(out, "  Slowest:        {}", rounded(acquire.max_ns))?;
        writeln!(out, "  Fastest:        {}", rounded(acquire.min_ns))?;
        writeln!(out, "  Average:        {}", rounded(acquire.mean_ns))?;
    }
    writeln!(out, "  Operations/sec: {:.4}", soak.completed_per_second)?;
    if soak.warm_up_ns > 0 {
        let warm_up = rounded(soak.warm_up_ns);
        writeln!(
            out,
            "  Warm-up:        {warm_up}, left out of latencies and of the rate"
        )?;
    }
    writeln!(out)
}

fn write_latencies(out: &mut String, soak: &Soak) -> std::fmt::Result {
    let columns = soak.columns();
    if columns.iter().all(|(_, latency)| latency.count == 0) {
        return Ok(());
    }
    writeln!(out, "Latency distribution:")?;
    let head = columns.iter().map(|(name, _)| format!("{name:>20}"));
    writeln!(out, "         {}", head.collect::<String>())?;
    let mut missing = Vec::new();
    for percentile in &block::PERCENTILES {
        let cells: Vec<Option<u64>> = (columns.iter())
            .map(|(_, latency)| latency.at(*percentile))
            .collect();
        if cells.iter().all(Option::is_none) {
            missing.push(format!("{percentile}%"));
            continue;
        }
        let cells = cells
            .into_iter()
            .map(|ns| ns.map_or("-".to_owned(), rounded));
        let cells = cells.map(|cell| format!("{cell:>20}"));
        writeln!(out, "  {:>6}%{}", percentile, cells.collect::<String>())?;
    }
    write_missing(out, soak, &missing)?;
    writeln!(out, "\nDetails (average, fastest, slowest):")?;
    for (name, latency) in columns.iter().filter(|(_, latency)| latency.count > 0) {
        let [mean, min, max] = [latency.mean_ns, latency.min_ns, latency.max_ns].map(rounded);
        writeln!(out, "  {name:20} {mean}, {min}, {max}")?;
    }
    writeln!(out)
}

/// Tells which percentiles are missing, and what is missing in those that are told.
fn write_missing(out: &mut String, soak: &Soak, missing: &[String]) -> std::fmt::Result {
    if !missing.is_empty() {
        let (missing, samples) = (missing.join(", "), soak.acquire.count);
        writeln!(
            out,
            "  not told: {missing} (ten of the {samples} samples would have to lie beyond each)"
        )?;
    }
    match soak.acquire.never {
        0 => Ok(()),
        never => writeln!(
            out,
            "  {never} operations never got the lock: the percentiles count them as slower than any, \
             and nothing else here does"
        ),
    }
}

fn write_outcomes(out: &mut String, trial: &Trial, soak: &Soak) -> std::fmt::Result {
    writeln!(out, "Outcome distribution:")?;
    let outcomes = &soak.outcomes;
    let ends = [
        ("completed", outcomes.completed),
        ("gave up, the lock being taken", outcomes.gave_up),
        ("failed", outcomes.failed),
        ("unknown", outcomes.unknown),
        ("still waiting at the end", outcomes.run_ended),
        ("refused by the store's guard", outcomes.rejected),
        ("withheld, the lease being lost", outcomes.withheld),
        ("found nothing to do", outcomes.idle),
        ("failed by the store", outcomes.store_failed),
        ("cut off", outcomes.unfinished),
    ];
    for (what, n) in ends.iter().filter(|(_, n)| *n > 0) {
        writeln!(out, "  [{n}]\t{what}")?;
    }
    if trial.counts.release_errors > 0 {
        let n = trial.counts.release_errors;
        writeln!(out, "  [{n}]\tof these had an error in their release alone")?;
    }
    let rows = trial.ledger.orders + trial.ledger.postings + trial.ledger.increments;
    let rows = match trial.ledger_unknown {
        Some(_) => "an unknown number".to_owned(),
        None => rows.to_string(),
    };
    writeln!(
        out,
        "  {} issued; {} rows recorded, {rows} in the ledger\n",
        outcomes.issued, outcomes.rows
    )?;
    if !soak.errors.is_empty() {
        writeln!(
            out,
            "Error distribution (attempts; an operation may have several):"
        )?;
        for kind in &soak.errors {
            let doubt = if kind.unknown {
                ", may have been applied"
            } else {
                ""
            };
            writeln!(
                out,
                "  [{}]\t{}{doubt}: {}",
                kind.count, kind.during, kind.error
            )?;
        }
        writeln!(out)?;
    }
    if soak.silence.count > 0 {
        writeln!(out, "Outages (nobody who asked for the lock was answered):")?;
        for outage in soak.silence.outages.iter().take(10) {
            writeln!(
                out,
                "  from {:.1} secs on for {}, {} errors",
                outage.from_ns as f64 / 1e9,
                rounded(outage.for_ns),
                outage.errors
            )?;
        }
        let (count, total) = (soak.silence.count, rounded(soak.silence.total_ns));
        writeln!(out, "  {count} in all, {total} together\n")?;
    }
    Ok(())
}
