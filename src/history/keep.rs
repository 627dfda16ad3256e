//! How much of a history is kept, and how it is written: all of it, all of it compressed, what lies
//! around each finding, or nothing. What is kept has no bearing on what is judged.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use super::event::{Event, Kind};
use super::file::{Header, HistoryError};
use crate::clock::Time;

/// The name of a history's file.
pub const HISTORY: &str = "history.jsonl";
/// The name of a compressed one.
pub const COMPRESSED: &str = "history.jsonl.gz";

/// How many of the last events wait for a finding: some 25 MB of them.
const RECENT: usize = 1 << 18;
/// How many events are written around findings: some 200 MB. A run that finds so much needs no more.
const MOST: u64 = 3_000_000;
/// How often what is compressed so far is made readable.
const FLUSH: Duration = Duration::from_secs(1);

/// How much of a history is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// All of it.
    #[default]
    Full,
    /// All of it, in gzip's format.
    Gzip,
    /// What lies around each finding.
    Window,
    /// Nothing.
    Off,
}

impl Kept {
    /// All of them.
    pub const ALL: [Kept; 4] = [Kept::Full, Kept::Gzip, Kept::Window, Kept::Off];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Kept::Full => "full",
            Kept::Gzip => "gzip",
            Kept::Window => "window",
            Kept::Off => "off",
        }
    }

    /// The name of its file.
    pub fn file(self) -> &'static str {
        match self {
            Kept::Gzip => COMPRESSED,
            Kept::Full | Kept::Window | Kept::Off => HISTORY,
        }
    }

    /// Whether all events are there to be checked again.
    pub fn is_whole(self) -> bool {
        matches!(self, Kept::Full | Kept::Gzip)
    }
}

impl std::str::FromStr for Kept {
    type Err = String;

    fn from_str(text: &str) -> Result<Kept, String> {
        let found = Kept::ALL.into_iter().find(|kept| kept.word() == text);
        found.ok_or_else(|| "one of full, gzip, window, off".to_owned())
    }
}

/// Writes a history line by line.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    lines: Lines,
    broken: Option<std::io::Error>,
    window: Option<Window>,
}

#[derive(Debug)]
enum Lines {
    Plain(BufWriter<File>),
    Compressed {
        out: Box<GzEncoder<BufWriter<File>>>,
        flushed: Time,
    },
    None,
}

/// The last events, and whether what comes is written at once.
#[derive(Debug)]
struct Window {
    /// How far around a finding is kept.
    around: Duration,
    recent: VecDeque<Event>,
    /// Until when events are written because of the last finding.
    until: Option<Time>,
    left_out: u64,
    written: u64,
}

impl Writer {
    /// Creates the file, if there is to be one, and writes its header. Around a finding so much is
    /// kept as is given.
    pub fn create<P: Serialize>(
        path: &Path,
        header: &Header<P>,
        around: Duration,
    ) -> Result<Writer, HistoryError> {
        let io = |source| HistoryError::Io {
            path: path.to_owned(),
            source,
        };
        let file = || File::create(path).map(BufWriter::new).map_err(io);
        let lines = match header.kept {
            Kept::Full | Kept::Window => Lines::Plain(file()?),
            Kept::Gzip => Lines::Compressed {
                out: Box::new(GzEncoder::new(file()?, Compression::fast())),
                flushed: Time::default(),
            },
            Kept::Off => Lines::None,
        };
        let window = (header.kept == Kept::Window).then(|| Window {
            around,
            recent: VecDeque::new(),
            until: None,
            left_out: 0,
            written: 0,
        });
        let mut writer = Writer {
            path: path.to_owned(),
            lines,
            broken: None,
            window,
        };
        writer.line(header).map_err(io)?;
        Ok(writer)
    }

    fn line(&mut self, line: &impl Serialize) -> std::io::Result<()> {
        let out: &mut dyn Write = match &mut self.lines {
            Lines::Plain(out) => out,
            Lines::Compressed { out, .. } => out,
            Lines::None => return Ok(()),
        };
        let mut written = serde_json::to_vec(line)?;
        written.push(b'\n');
        out.write_all(&written)
    }

    /// Appends events, in which something was found or not. The first failure (a full disk, say) is
    /// kept for [`Writer::finish`]; after it nothing more is written, so that what is there stays
    /// readable.
    pub fn append(&mut self, events: &[Event], found: bool) {
        if matches!(self.lines, Lines::None) || self.broken.is_some() {
            return;
        }
        let written = match self.window.take() {
            None => self.write(events),
            Some(mut window) => {
                let written = self.write_around(&mut window, events, found);
                self.window = Some(window);
                written
            }
        };
        self.broken = written.and_then(|()| self.flush(events)).err();
    }

    fn write<'a>(&mut self, events: impl IntoIterator<Item = &'a Event>) -> std::io::Result<()> {
        events.into_iter().try_for_each(|event| self.line(event))
    }

    fn write_around(
        &mut self,
        window: &mut Window,
        events: &[Event],
        found: bool,
    ) -> std::io::Result<()> {
        let Some(last) = events.last() else {
            return Ok(());
        };
        if found {
            window.until = Some(last.at_ns.plus(window.around));
        }
        let open = window.until.is_some_and(|until| last.at_ns <= until) && window.written < MOST;
        if !open {
            window.keep(events);
            return Ok(());
        }
        window.written += (window.recent.len() + events.len()) as u64;
        self.gap(window, last.at_ns)?;
        let recent = std::mem::take(&mut window.recent);
        self.write(recent.iter().chain(events))
    }

    /// Tells what was left out before what is written next.
    fn gap(&mut self, window: &mut Window, now: Time) -> std::io::Result<()> {
        let events = std::mem::take(&mut window.left_out);
        if events == 0 {
            return Ok(());
        }
        let next = window.recent.front().map_or(now, |event| event.at_ns);
        self.line(&Event {
            at_ns: next,
            event: Kind::LeftOut { events },
        })
    }

    fn flush(&mut self, events: &[Event]) -> std::io::Result<()> {
        match &mut self.lines {
            Lines::Plain(out) => out.flush(),
            Lines::Compressed { out, flushed } => {
                let now = events.last().map_or(*flushed, |event| event.at_ns);
                if now.since(*flushed) < FLUSH {
                    return Ok(());
                }
                *flushed = now;
                out.flush()
            }
            Lines::None => Ok(()),
        }
    }

    /// Why nothing more is written, if nothing is.
    pub fn broken(&self) -> Option<String> {
        let why = self.broken.as_ref()?;
        Some(format!("{}: {why}", self.path.display()))
    }

    /// Flushes, and tells the first failure if there was one.
    pub fn finish(mut self) -> Result<(), HistoryError> {
        let ended = match self.broken.take() {
            Some(broken) => Err(broken),
            None => self.end(),
        };
        let path = self.path;
        ended.map_err(|source| HistoryError::Io { path, source })
    }

    fn end(&mut self) -> std::io::Result<()> {
        if let Some(mut window) = self.window.take() {
            let last = window.recent.back().map(|event| event.at_ns);
            window.left_out += window.recent.len() as u64;
            window.recent.clear();
            self.gap(&mut window, last.unwrap_or_default())?;
        }
        match std::mem::replace(&mut self.lines, Lines::None) {
            Lines::Plain(mut out) => out.flush(),
            Lines::Compressed { out, .. } => out.finish()?.flush(),
            Lines::None => Ok(()),
        }
    }
}

impl Window {
    /// Keeps the last events in case something is found in them.
    fn keep(&mut self, events: &[Event]) {
        self.recent.extend(events.iter().cloned());
        let now = self.recent.back().map(|event| event.at_ns);
        let old = |first: &Event| now.is_some_and(|now| now.since(first.at_ns) > self.around);
        while self.recent.len() > RECENT || self.recent.front().is_some_and(old) {
            self.recent.pop_front();
            self.left_out += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::file;

    fn event(at: u64) -> Event {
        Event {
            at_ns: Time(at),
            event: Kind::Asked { op: at },
        }
    }

    /// What is in the file after events at 0, 1, 2, ... ns, a batch each, of which some found
    /// something.
    fn written(kept: Kept, events: u64, finds: &[u64]) -> Vec<Event> {
        let folder = tempfile::tempdir().expect("a folder");
        let header = Header {
            schema_version: file::SCHEMA_VERSION,
            kept,
            server: String::new(),
            keys: vec![],
            items: vec![],
            plan: (),
        };
        let (path, around) = (folder.path().join(kept.file()), Duration::from_nanos(3));
        let mut writer = Writer::create(&path, &header, around).expect("created");
        for at in 0..events {
            writer.append(&[event(at)], finds.contains(&at));
        }
        writer.finish().expect("written");
        let (_, events) = file::read::<()>(&path).expect("readable");
        events.map(|event| event.expect("an event")).collect()
    }

    fn left_out(at: u64, events: u64) -> Event {
        Event {
            at_ns: Time(at),
            event: Kind::LeftOut { events },
        }
    }

    #[test]
    fn all_of_a_history_is_kept_in_either_format() {
        let all: Vec<Event> = (0..9).map(event).collect();
        assert_eq!(written(Kept::Full, 9, &[]), all);
        assert_eq!(written(Kept::Gzip, 9, &[]), all);
    }

    #[test]
    fn a_window_keeps_what_lies_around_a_finding_and_tells_what_it_leaves_out() {
        let around = (6..=13).map(event);
        let mut expected = vec![left_out(6, 6)];
        expected.extend(around);
        expected.push(left_out(19, 6));
        assert_eq!(written(Kept::Window, 20, &[10]), expected);
        assert_eq!(written(Kept::Window, 20, &[]), [left_out(19, 20)]);
    }

    #[test]
    fn nothing_is_written_where_nothing_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let header = Header {
            schema_version: file::SCHEMA_VERSION,
            kept: Kept::Off,
            server: String::new(),
            keys: vec![],
            items: vec![],
            plan: (),
        };
        let path = folder.path().join(Kept::Off.file());
        let mut writer = Writer::create(&path, &header, FLUSH).expect("created");
        writer.append(&[event(1)], true);
        writer.finish().expect("nothing to do");
        assert_eq!(
            std::fs::read_dir(folder.path()).expect("a folder").count(),
            0
        );
    }
}
