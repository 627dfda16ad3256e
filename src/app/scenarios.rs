//! How scenarios are found and read.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::session::Failure;
use crate::check::Property;
use crate::lock;
use crate::scenario::{Scenario, Vocabulary, built_in};

/// The names that a scenario may use.
pub(super) fn vocabulary() -> Vocabulary {
    Vocabulary {
        locks: lock::names(),
        properties: Property::words(),
    }
}

/// The scenarios that come with the program.
pub(super) fn all_built_in() -> Result<Vec<Scenario>, Failure> {
    let texts = built_in::ALL.iter();
    parse(texts.map(|known| (known.name.to_owned(), known.text.to_owned())))
}

/// Reads every scenario that was named: a file, all files of a folder, `-` for standard input, or
/// the name of one that comes with the program. Tells the mistakes of all of them at once.
pub(super) fn scenarios(named: &[PathBuf]) -> Result<Vec<Scenario>, Failure> {
    let texts: Result<Vec<_>, _> = files(named)?.iter().map(|file| text_of(file)).collect();
    parse(texts?.into_iter())
}

/// Reads the one scenario that a command takes.
pub(super) fn one(named: &Path, command: &str) -> Result<Scenario, Failure> {
    let mut read = scenarios(&[named.to_owned()])?;
    match (read.pop(), read.is_empty()) {
        (Some(scenario), true) => Ok(scenario),
        _ => Err(Failure::usage(format!("{command} takes one scenario"))),
    }
}

fn parse(texts: impl Iterator<Item = (String, String)>) -> Result<Vec<Scenario>, Failure> {
    let known = vocabulary();
    let mut scenarios = Vec::new();
    let mut problems = Vec::new();
    for (name, text) in texts {
        match Scenario::parse(&name, &text, &known) {
            Ok(scenario) => scenarios.push(scenario),
            Err(invalid) => problems.push(invalid.to_string()),
        }
    }
    match problems.is_empty() {
        true => Ok(scenarios),
        false => Err(Failure::usage(problems.join("\n\n"))),
    }
}

fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in named {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let at = |why: std::io::Error| Failure::usage(format!("{}: {why}", path.display()));
        let entries = std::fs::read_dir(path).map_err(at)?;
        let paths: Result<Vec<PathBuf>, _> = entries.map(|e| e.map(|e| e.path())).collect();
        let mut inside = paths.map_err(at)?;
        inside.retain(|file| file.extension().is_some_and(|ending| ending == "toml"));
        inside.sort();
        if inside.is_empty() {
            let folder = path.display();
            return Err(Failure::usage(format!(
                "{folder}: no scenario (*.toml) in this folder"
            )));
        }
        files.extend(inside);
    }
    Ok(files)
}

fn text_of(file: &Path) -> Result<(String, String), Failure> {
    let name = file.display().to_string();
    if name == "-" {
        let mut text = String::new();
        let read = std::io::stdin().read_to_string(&mut text);
        return read
            .map(|_| (name, text))
            .map_err(|why| Failure::usage(format!("standard input: {why}")));
    }
    match std::fs::read_to_string(file) {
        Ok(text) => Ok((name, text)),
        Err(why) if why.kind() == ErrorKind::InvalidData => Err(Failure::usage(format!(
            "{name}: not a scenario: {why}; scenarios are UTF-8 text"
        ))),
        Err(why) => match built_in::find(&name) {
            Some(known) if why.kind() == ErrorKind::NotFound => Ok((name, known.text.to_owned())),
            _ => Err(Failure::usage(format!(
                "{name}: {why}\n  `oversold list scenarios` tells which there are"
            ))),
        },
    }
}
