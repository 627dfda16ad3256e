//! `latency.hlog`: the latencies interval by interval, in HdrHistogram's own log format (V2,
//! compressed), which its tools read and plot. One line an interval and a part, tagged by its name;
//! values are nanoseconds, the readable maximum is in milliseconds.

use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use super::json::TOOL;
use crate::summary::{Latencies, Part};

/// Nanoseconds in the unit of the readable maximum.
const MILLISECOND: f64 = 1e6;

/// What stands at the top of the file.
pub fn header(began: SystemTime) -> Vec<u8> {
    let since = began
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    format!(
        "#[Logged with {TOOL}]\n\
         #[Histogram log format version 1.3]\n\
         #[StartTime: {0:.3} (seconds since epoch)]\n\
         #[BaseTime: {0:.3} (seconds since epoch)]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
        since.as_secs_f64()
    )
    .into_bytes()
}

/// The lines of one interval that began so long after the beginning. A part of which nothing was
/// measured has one, too: silence is to be seen.
pub fn interval(latencies: &Latencies, since: Duration, long: Duration) -> Vec<u8> {
    let mut lines = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    for part in Part::ALL {
        let mut line = Vec::new();
        let writing = IntervalLogWriterBuilder::new()
            .with_max_value_divisor(MILLISECOND)
            .begin_log_with(&mut line, &mut serializer)
            .map(|mut log| {
                log.write_histogram(latencies.of(part), since, long, Tag::new(part.word()))
            });
        // To memory, and of histograms that are in order: there is nothing that could fail.
        if let Ok(Ok(())) = writing {
            // The divisor is told again with each line, and needs to be told once at most.
            let text = line.split_inclusive(|byte| *byte == b'\n');
            let said = text.filter(|line| !line.starts_with(b"#"));
            lines.extend(said.flatten());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    /// Base64, as RFC 4648 has it.
    fn unpacked(text: &str) -> Vec<u8> {
        let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let bits = text.bytes().filter(|byte| *byte != b'=').flat_map(|byte| {
            let value = alphabet
                .bytes()
                .position(|known| known == byte)
                .expect("base64");
            (0..6).rev().map(move |bit| (value >> bit & 1) as u8)
        });
        let bits: Vec<u8> = bits.collect();
        let bytes = bits.chunks_exact(8);
        bytes
            .map(|byte| byte.iter().fold(0, |sum, bit| sum << 1 | bit))
            .collect()
    }

    #[test]
    fn a_log_is_read_back_by_the_format_s_own_reader() {
        let began = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let mut text = header(began);
        let second = Duration::from_secs(1);
        text.extend(interval(&Latencies::default(), second * 3, second));
        let entries: Result<Vec<_>, _> = IntervalLogIterator::new(&text).collect();
        let entries = entries.expect("a log");
        let intervals = entries.iter().filter_map(|entry| match entry {
            LogEntry::Interval(interval) => Some(interval),
            _ => None,
        });
        let tags: Vec<_> = intervals
            .map(|interval| {
                assert_eq!(interval.start_timestamp(), second * 3);
                assert_eq!(interval.duration(), second);
                let packed = unpacked(interval.encoded_histogram());
                let read: Histogram<u64> = Deserializer::new()
                    .deserialize(&mut packed.as_slice())
                    .expect("a histogram");
                assert_eq!(read.len(), 0);
                interval.tag().map(|tag| tag.as_str().to_owned())
            })
            .collect();
        let words = Part::ALL.map(|part| Some(part.word().to_owned()));
        assert_eq!(tags, words);
    }
}
