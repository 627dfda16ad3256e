//! The link's framing, coverage-guided: any bytes, in any chunks, are forwarded unchanged and in
//! their order, and are cut into the same messages as when they arrive all at once.
//!
//! An input's first byte chooses the way, the second tells how many of the next bytes are the
//! lengths of the chunks (used over and over), and the rest is what arrives.

#![no_main]

use libfuzzer_sys::fuzz_target;
use oversold::link::{Ways, cut};

fuzz_target!(|input: &[u8]| {
    let [way, lengths, rest @ ..] = input else {
        return;
    };
    let way = match way % 2 {
        0 => Ways::ToServer,
        _ => Ways::ToClient,
    };
    let (lengths, bytes) = rest.split_at(usize::from(lengths % 16).min(rest.len()));
    let whole = cut(way, [bytes]);
    assert_eq!(whole.forwarded, bytes, "at once");
    let (messages, rest) = (whole.messages.iter().sum::<usize>(), whole.rest);
    assert_eq!(messages + rest, bytes.len(), "nothing counts twice");
    assert_eq!(cut(way, chunks(bytes, lengths)), whole, "in chunks of {lengths:?}");
});

fn chunks<'a>(mut bytes: &'a [u8], lengths: &[u8]) -> Vec<&'a [u8]> {
    let mut chunks = Vec::new();
    for length in lengths.iter().chain(&[1]).cycle() {
        if bytes.is_empty() {
            break;
        }
        let (chunk, after) = bytes.split_at(usize::from(*length).clamp(1, bytes.len()));
        chunks.push(chunk);
        bytes = after;
    }
    chunks
}
