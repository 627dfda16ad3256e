//! `history.jsonl`: the first line is the [`Header`], each further line one [`Event`]; how it is
//! read. A name that ends in `.gz` is one in gzip's format. (`keep` writes them.)

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use serde::{Deserialize, Serialize};

use super::event::Event;
use super::keep::Kept;

/// The version of the format; readers refuse a newer one.
pub const SCHEMA_VERSION: u32 = 1;

/// The first line: what the numbers in the events mean. The plan stands in `plan.json` too; here
/// it makes a history file complete on its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Header<P> {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// How much of the history is kept.
    #[serde(default)]
    pub kept: Kept,
    /// The server that was put to the test.
    pub server: String,
    /// The lock keys, in the order of their numbers.
    pub keys: Vec<String>,
    /// The business items, in the order of their numbers.
    pub items: Vec<String>,
    /// What was planned.
    pub plan: P,
}

/// What can be wrong with a history file.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// It cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line is not what it should be.
    #[error("{path}:{line}: not a history {what}: {why}")]
    Line {
        /// Where.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// `header` or `event`.
        what: &'static str,
        /// Why.
        why: String,
    },
}

/// Reads a history: its header, then its events one at a time. A last line that was cut off in
/// the middle (the driver was killed) ends the history without an error; the missing `ended` event
/// then tells the checks.
pub fn read<P: for<'de> Deserialize<'de>>(
    path: &Path,
) -> Result<(Header<P>, impl Iterator<Item = Result<Event, HistoryError>>), HistoryError> {
    let owned = path.to_owned();
    let io = |source| HistoryError::Io {
        path: path.to_owned(),
        source,
    };
    let mut reader = open(path).map_err(io)?;
    let mut first = String::new();
    reader.read_line(&mut first).map_err(io)?;
    let bad = |what, line, why: String| HistoryError::Line {
        path: path.to_owned(),
        line,
        what,
        why,
    };
    let version: Version =
        serde_json::from_str(&first).map_err(|e| bad("header", 1, e.to_string()))?;
    if version.schema_version != SCHEMA_VERSION {
        let why = format!(
            "it has schema_version {}, and this oversold reads {SCHEMA_VERSION}",
            version.schema_version
        );
        return Err(bad("header", 1, why));
    }
    let header = serde_json::from_str(&first).map_err(|e| bad("header", 1, e.to_string()))?;
    Ok((header, events(owned, reader)))
}

fn open(path: &Path) -> std::io::Result<impl BufRead + use<>> {
    let file = File::open(path)?;
    let bytes: Box<dyn Read> = match path.extension().is_some_and(|end| end == "gz") {
        true => Box::new(MultiGzDecoder::new(file)),
        false => Box::new(file),
    };
    Ok(BufReader::with_capacity(1 << 16, bytes))
}

#[derive(Deserialize)]
struct Version {
    schema_version: u32,
}

fn events(
    path: PathBuf,
    mut reader: impl BufRead,
) -> impl Iterator<Item = Result<Event, HistoryError>> {
    let mut number = 1;
    let mut line = String::new();
    std::iter::from_fn(move || {
        line.clear();
        number += 1;
        match reader.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) if !line.ends_with('\n') => None,
            // So does one whose compression was cut off.
            Err(cut) if cut.kind() == std::io::ErrorKind::UnexpectedEof => None,
            Ok(_) => Some(
                serde_json::from_str(&line).map_err(|error| HistoryError::Line {
                    path: path.clone(),
                    line: number,
                    what: "event",
                    why: error.to_string(),
                }),
            ),
            Err(source) => Some(Err(HistoryError::Io {
                path: path.clone(),
                source,
            })),
        }
    })
}
