//! The histogram of a soak, drawn as `hey` draws it: eleven bars, linear up to the 99th percentile,
//! and one for all beyond it, so that one slow operation does not press all others into one bar.

use std::fmt::Write;

use super::block::Soak;

/// How long the longest bar is.
const WIDEST: u64 = 40;

pub(super) fn write(out: &mut String, soak: &Soak) -> std::fmt::Result {
    let bars = &soak.acquire.bars;
    let Some(most) = bars
        .iter()
        .map(|bar| bar.count)
        .max()
        .filter(|most| *most > 0)
    else {
        return Ok(());
    };
    let which = match soak.acquire_service {
        Some(_) => " (corrected: from the planned start)",
        None => "",
    };
    writeln!(out, "Acquire time histogram{which}, up to so many ms:")?;
    for bar in bars {
        let long = (bar.count * WIDEST).div_ceil(most) as usize;
        writeln!(
            out,
            "  {:>10.3} [{}]\t|{}",
            bar.up_to_ns as f64 / 1e6,
            bar.count,
            "■".repeat(long)
        )?;
    }
    writeln!(out)
}
