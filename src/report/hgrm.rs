//! `latency.hgrm`: the percentile distribution of the lock wait, in milliseconds, in the text form
//! that HdrHistogram's own tools plot.

use std::fmt::Write;

use hdrhistogram::Histogram;

/// Nanoseconds in the unit of the file.
const MILLISECOND: f64 = 1e6;

/// The file's text.
pub fn render(histogram: &Histogram<u64>) -> String {
    let mut text = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let mut total = 0;
    for step in histogram.iter_quantiles(5) {
        total += step.count_since_last_iteration();
        let value = step.value_iterated_to() as f64 / MILLISECOND;
        let quantile = step.quantile_iterated_to();
        // Writing to a string cannot fail.
        let _ = match quantile < 1.0 {
            true => writeln!(
                text,
                "{value:12.3} {quantile:14.12} {total:10} {:14.2}",
                1.0 / (1.0 - quantile)
            ),
            false => writeln!(text, "{value:12.3} {quantile:14.12} {total:10}"),
        };
    }
    let _ = writeln!(
        text,
        "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]\n\
         #[Max     = {:12.3}, Total count    = {:12}]\n\
         #[Buckets = {:12}, SubBuckets     = {:12}]",
        histogram.mean() / MILLISECOND,
        histogram.stdev() / MILLISECOND,
        histogram.max() as f64 / MILLISECOND,
        histogram.len(),
        histogram.buckets(),
        2048
    );
    text
}
