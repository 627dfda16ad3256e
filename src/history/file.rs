//! `history.jsonl`: the first line is the [`Header`], each further line one [`Event`].

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::event::Event;

/// The version of the format; readers refuse a newer one.
pub const SCHEMA_VERSION: u32 = 1;

/// The first line: what the numbers in the events mean. The plan stands in `plan.json` too; here
/// it makes a history file complete on its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Header<P> {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
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

/// Writes a history line by line.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    out: BufWriter<File>,
    broken: Option<std::io::Error>,
}

impl Writer {
    /// Creates the file and writes its header.
    pub fn create<P: Serialize>(path: &Path, header: &Header<P>) -> Result<Writer, HistoryError> {
        let io = |source| HistoryError::Io {
            path: path.to_owned(),
            source,
        };
        let mut out = BufWriter::new(File::create(path).map_err(io)?);
        let line = serde_json::to_string(header).map_err(|e| io(e.into()))?;
        writeln!(out, "{line}").map_err(io)?;
        Ok(Writer {
            path: path.to_owned(),
            out,
            broken: None,
        })
    }

    /// Appends events. The first failure (a full disk, say) is kept for [`Writer::finish`]; after
    /// it nothing more is written, so that what is there stays readable.
    pub fn append(&mut self, events: &[Event]) {
        for event in events {
            if self.broken.is_some() {
                return;
            }
            let written = serde_json::to_writer(&mut self.out, event)
                .map_err(std::io::Error::from)
                .and_then(|()| self.out.write_all(b"\n"));
            self.broken = written.err();
        }
        if self.broken.is_none() {
            self.broken = self.out.flush().err();
        }
    }

    /// Flushes, and tells the first failure if there was one.
    pub fn finish(mut self) -> Result<(), HistoryError> {
        let failed = self.broken.take().or_else(|| self.out.flush().err());
        failed.map_or(Ok(()), |source| {
            Err(HistoryError::Io {
                path: self.path,
                source,
            })
        })
    }
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
    let mut reader = BufReader::with_capacity(1 << 16, File::open(path).map_err(io)?);
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

#[derive(Deserialize)]
struct Version {
    schema_version: u32,
}

fn events(
    path: PathBuf,
    mut reader: BufReader<File>,
) -> impl Iterator<Item = Result<Event, HistoryError>> {
    let mut number = 1;
    let mut line = String::new();
    std::iter::from_fn(move || {
        line.clear();
        number += 1;
        match reader.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) if !line.ends_with('\n') => None,
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
