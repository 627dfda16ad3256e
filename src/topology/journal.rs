//! What a fault changes on a user's own Redis is written down here before it is changed, so that it
//! can be restored even when this process is killed. One file a server in the user's state folder
//! (`XDG_STATE_HOME/oversold/heal`, by default `~/.local/state/oversold/heal`): a line that names the
//! server, and one for each setting with its old value and the one that it was set to. There is never a password in it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A setting of a server that is to be restored, and its old value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Was {
    /// Its name.
    pub setting: String,
    /// What it was before.
    pub was: String,
    /// What it was set to, as the server tells it, if that is known.
    pub set: Option<String>,
}

/// What a line says of a setting.
#[derive(Serialize, Deserialize)]
struct Line {
    setting: String,
    /// Its old value; none when it was restored.
    was: Option<String>,
    /// What it was set to; none while that is being done, and before that was written down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    set: Option<String>,
}

/// Whose settings they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whose {
    /// Where the server is, `HOST:PORT`.
    pub server: String,
    /// How it was named, without user and password.
    pub url: String,
}

/// The file of one server, which nobody else may write to while this lives. It is removed in the end
/// if nothing is left in it.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    whose: Whose,
}

/// A file that was found, and what is in it.
#[derive(Debug)]
pub struct Entry {
    /// The file, which is this process's as long as this lives.
    pub journal: Journal,
    /// What is to be restored, the last change last.
    pub settings: Vec<Was>,
}

/// Why there is no journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be had.
    #[error("{0}: {1}\n  XDG_STATE_HOME=FOLDER names another place")]
    Io(PathBuf, io::Error),
    /// There is no place for it.
    #[error(
        "neither XDG_STATE_HOME nor HOME is set: there is no place to write down what is changed"
    )]
    NoPlace,
    /// Another process has it.
    #[error("another run changes settings there at present: wait for its end")]
    Taken,
    /// What an earlier one has changed was not restored.
    #[error("a run that was killed has left changed settings there")]
    Left,
}

/// The folder with all journals.
fn folder() -> Result<PathBuf, JournalError> {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let state = match (named("XDG_STATE_HOME"), named("HOME")) {
        (Some(state), _) => PathBuf::from(state),
        (None, Some(home)) => PathBuf::from(home).join(".local/state"),
        (None, None) => return Err(JournalError::NoPlace),
    };
    Ok(state.join("oversold/heal"))
}

/// The file of a server: its name may hold what a file's may not.
fn file_of(server: &str) -> Result<PathBuf, JournalError> {
    let plain = |c: char| match c.is_ascii_alphanumeric() || ".-".contains(c) {
        true => c,
        false => '_',
    };
    let name: String = server.chars().map(plain).collect();
    Ok(folder()?.join(format!("{name}.jsonl")))
}

/// All journals that nobody writes to, and that have something in them.
pub fn left() -> Vec<Entry> {
    let entries = folder()
        .ok()
        .and_then(|folder| std::fs::read_dir(folder).ok());
    let paths = entries.into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = paths.map(|entry| entry.path()).collect();
    paths.sort();
    let entries = paths.iter().filter_map(|path| open(path).ok().flatten());
    entries.collect()
}

/// Whether there is something to restore on a server.
pub fn is_left(server: &str) -> bool {
    let path = file_of(server).ok();
    path.is_some_and(|path| matches!(open(&path), Ok(Some(_))))
}

/// What is in a file, if there is something in it.
fn open(path: &Path) -> Result<Option<Entry>, JournalError> {
    let io = |why| JournalError::Io(path.to_owned(), why);
    let mut options = File::options();
    let mut file = options.read(true).append(true).open(path).map_err(io)?;
    lock(&file, path)?;
    let (whose, settings) = read(&mut file).map_err(io)?;
    Ok(whose.filter(|_| !settings.is_empty()).map(|whose| Entry {
        journal: Journal {
            path: path.to_owned(),
            file,
            whose,
        },
        settings,
    }))
}

/// Whose settings a file is about, and which are to be restored.
fn read(file: &mut File) -> io::Result<(Option<Whose>, Vec<Was>)> {
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let mut lines = text.lines();
    let whose = lines
        .next()
        .and_then(|line| serde_json::from_str(line).ok());
    let mut settings: Vec<Was> = Vec::new();
    // A line that is not whole was being written down, and what it says not yet changed.
    for line in lines.filter_map(|line| serde_json::from_str::<Line>(line).ok()) {
        let Line { setting, was, set } = line;
        let Some(was) = was else {
            settings.retain(|was| was.setting != setting);
            continue;
        };
        match settings.iter_mut().find(|was| was.setting == setting) {
            Some(known) => (known.was, known.set) = (was, set),
            None => settings.push(Was { setting, was, set }),
        }
    }
    Ok((whose, settings))
}

/// Makes a file this process's own, until it is closed, however this process ends.
fn lock(file: &File, path: &Path) -> Result<(), JournalError> {
    let io = |why| JournalError::Io(path.to_owned(), why);
    file.try_lock().map_err(|why| match why {
        TryLockError::WouldBlock => JournalError::Taken,
        TryLockError::Error(why) => io(why),
    })?;
    // Its last owner may have removed it meanwhile.
    let own = file.metadata().map_err(io)?;
    match std::fs::metadata(path) {
        Ok(named) if named.ino() == own.ino() => Ok(()),
        _ => Err(JournalError::Taken),
    }
}

impl Journal {
    /// Begins the journal of a server, in which there is nothing yet.
    pub(super) fn begin(whose: Whose) -> Result<Journal, JournalError> {
        let path = file_of(&whose.server)?;
        let io = |why| JournalError::Io(path.clone(), why);
        let folder = folder()?;
        std::fs::create_dir_all(&folder).map_err(io)?;
        let mut options = OpenOptions::new();
        let options = options.create(true).read(true).append(true).mode(0o600);
        let mut file = options.open(&path).map_err(io)?;
        lock(&file, &path)?;
        if !read(&mut file).map_err(io)?.1.is_empty() {
            return Err(JournalError::Left);
        }
        let begun = file.set_len(0).and_then(|()| append(&file, &whose));
        // The name of the file is to be found after a crash of the machine, too.
        let named = begun.and_then(|()| File::open(&folder)?.sync_all());
        named.map_err(io)?;
        Ok(Journal { path, file, whose })
    }

    /// Whose settings are in it.
    pub fn whose(&self) -> &Whose {
        &self.whose
    }

    /// Adds a setting, or what is known of it now. It may be changed when this has returned.
    pub(super) fn add(&self, was: &Was) -> io::Result<()> {
        let line = Line {
            setting: was.setting.clone(),
            was: Some(was.was.clone()),
            set: was.set.clone(),
        };
        append(&self.file, &line)
    }

    /// A setting was restored.
    pub(super) fn strike_out(&self, setting: &str) -> io::Result<()> {
        let line = Line {
            setting: setting.to_owned(),
            was: None,
            set: None,
        };
        append(&self.file, &line)
    }

    /// Removes the file: everything is as it was.
    pub(super) fn remove(&self) {
        // What is left of it says that there is nothing to do.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Writes a line that is there even after a crash of the machine.
fn append(mut file: &File, line: &impl Serialize) -> io::Result<()> {
    let line = serde_json::to_string(line)? + "\n";
    file.write_all(line.as_bytes())?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is to be restored by some lines of a journal.
    fn read_lines(lines: &[&str]) -> Vec<Was> {
        let mut file = tempfile::tempfile().expect("a file");
        let whose = r#"{"server":"a:1","url":"redis://a:1"}"#;
        let text = [&[whose], lines].concat().join("\n");
        file.write_all(text.as_bytes()).expect("written");
        std::io::Seek::rewind(&mut file).expect("rewound");
        read(&mut file).expect("read").1
    }

    fn was(set: Option<&str>) -> Was {
        let set = set.map(str::to_owned);
        let (setting, was) = ("maxmemory".to_owned(), "7".to_owned());
        Was { setting, was, set }
    }

    #[test]
    fn what_a_setting_was_first_is_to_be_restored_and_what_it_was_set_to_last_is_known() {
        let first = r#"{"setting":"maxmemory","was":"7"}"#;
        let set = r#"{"setting":"maxmemory","was":"7","set":"1"}"#;
        let again = r#"{"setting":"maxmemory","was":"7","set":"2"}"#;
        let restored = r#"{"setting":"maxmemory","was":null}"#;
        assert_eq!(read_lines(&[first]), [was(None)]);
        assert_eq!(read_lines(&[first, set]), [was(Some("1"))]);
        assert_eq!(read_lines(&[first, set, first]), [was(None)]);
        assert_eq!(read_lines(&[first, set, first, again]), [was(Some("2"))]);
        assert_eq!(read_lines(&[first, set, restored]), []);
    }
}
