//! Reads TOML values one by one and gathers what is wrong with them, instead of stopping at the
//! first mistake as a derived reader would. Knows TOML, not scenarios.

use std::cell::RefCell;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::Problem;

/// The mistakes found so far.
#[derive(Debug, Default)]
pub(super) struct Problems(RefCell<Vec<Problem>>);

impl Problems {
    pub(super) fn add(&self, span: Range<usize>, message: impl Into<String>) {
        let message = message.into();
        self.0.borrow_mut().push(Problem { span, message });
    }

    /// The mistakes, in the order of the text.
    pub(super) fn sorted(self) -> Vec<Problem> {
        let mut problems = self.0.into_inner();
        problems.sort_by_key(|problem| problem.span.start);
        problems
    }
}

/// `word`, or the known name that it was probably meant to be.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(word, name), name));
    let (distance, name) = scored.min()?;
    (distance <= name.len().max(word.len()) / 2).then_some(name)
}

/// A known name that was meant, or all of them.
pub(super) fn suggest<'a>(word: &str, known: &[&'a str]) -> String {
    match nearest(word, known.iter().copied()) {
        Some(name) => format!("did you mean \"{name}\"?"),
        None => format!("known: {}", known.join(", ")),
    }
}

/// A table being read. Keys that nobody asked for are mistakes, told by [`Table::finish`].
pub(super) struct Table<'a> {
    name: String,
    span: Range<usize>,
    entries: Vec<Field<'a>>,
    asked: RefCell<Vec<&'static str>>,
    problems: &'a Problems,
}

/// A key with its value.
#[derive(Clone)]
pub(super) struct Field<'a> {
    key: String,
    key_span: Range<usize>,
    /// The name with that of its table, for messages.
    pub(super) path: String,
    value: &'a Spanned<DeValue<'a>>,
    problems: &'a Problems,
}

impl<'a> Table<'a> {
    pub(super) fn new(
        name: &str,
        span: Range<usize>,
        table: &'a DeTable<'a>,
        problems: &'a Problems,
    ) -> Table<'a> {
        let entries = table.iter().map(|(key, value)| Field {
            key: key.get_ref().to_string(),
            key_span: key.span(),
            path: match name {
                "" => key.get_ref().to_string(),
                name => format!("{name}.{}", key.get_ref()),
            },
            value,
            problems,
        });
        Table {
            name: name.to_owned(),
            span,
            entries: entries.collect(),
            asked: RefCell::default(),
            problems,
        }
    }

    /// The value of a key, if it is there.
    pub(super) fn get(&self, key: &'static str) -> Option<Field<'a>> {
        self.asked.borrow_mut().push(key);
        self.entries.iter().find(|field| field.key == key).cloned()
    }

    /// The value of a key that must be there. `example` shows what to write.
    pub(super) fn need(&self, key: &'static str, example: &str) -> Option<Field<'a>> {
        let field = self.get(key);
        if field.is_none() {
            let place = match self.name.as_str() {
                "" => "the file".to_owned(),
                name => format!("[{name}]"),
            };
            self.problem(format!(
                "{place} needs `{key}`, for example `{key} = {example}`"
            ));
        }
        field
    }

    /// All entries, for a table whose keys are free.
    pub(super) fn entries(&self) -> &[Field<'a>] {
        &self.entries
    }

    /// A mistake of the table as a whole.
    pub(super) fn problem(&self, message: impl Into<String>) {
        let end = self.span.end.min(self.span.start + 1);
        self.problems.add(self.span.start..end, message);
    }

    /// Tells which keys nobody asked for.
    pub(super) fn finish(self) {
        let known = self.asked.into_inner();
        for field in &self.entries {
            if !known.contains(&field.key.as_str()) {
                let help = suggest(&field.key, &known);
                self.problems.add(
                    field.key_span.clone(),
                    format!("unknown key `{}`; {help}", field.path),
                );
            }
        }
    }
}

impl<'a> Field<'a> {
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Tells a mistake of this value.
    pub(super) fn problem(&self, message: impl Into<String>) {
        self.problems.add(self.value.span(), message);
    }

    /// Tells a mistake of this key.
    pub(super) fn key_problem(&self, message: impl Into<String>) {
        self.problems.add(self.key_span.clone(), message);
    }

    fn wrong<T>(&self, wanted: &str) -> Option<T> {
        let found = self.value.get_ref().type_str();
        self.problem(format!("`{}` is {wanted}, not {found}", self.path));
        None
    }

    pub(super) fn is_str(&self) -> bool {
        self.value.get_ref().is_str()
    }

    pub(super) fn string(&self) -> Option<String> {
        match self.value.get_ref().as_str() {
            Some(text) => Some(text.to_owned()),
            None => self.wrong("a string"),
        }
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        self.value
            .get_ref()
            .as_bool()
            .or_else(|| self.wrong("true or false"))
    }

    /// One of a few words.
    pub(super) fn word<'w>(&self, known: &[&'w str]) -> Option<&'w str> {
        let text = self.string()?;
        let found = known.iter().find(|word| **word == text).copied();
        if found.is_none() {
            let help = suggest(&text, known);
            self.problem(format!("unknown `{}` \"{text}\"; {help}", self.path));
        }
        found
    }

    pub(super) fn integer(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let Some(integer) = self.value.get_ref().as_integer() else {
            return self.wrong("a whole number");
        };
        let digits = integer.as_str().replace('_', "");
        let value = u64::from_str_radix(&digits, integer.radix()).ok();
        let value = value.filter(|value| range.contains(value));
        if value.is_none() {
            self.problem(format!(
                "`{}` must lie between {} and {}",
                self.path,
                range.start(),
                range.end()
            ));
        }
        value
    }

    pub(super) fn number(&self, range: RangeInclusive<f64>) -> Option<f64> {
        let value = self.value.get_ref();
        let text = (value.as_float().map(|float| float.as_str()))
            .or_else(|| value.as_integer().map(|integer| integer.as_str()));
        let Some(text) = text else {
            return self.wrong("a number");
        };
        let value = text.replace('_', "").parse().ok();
        let value = value.filter(|value| range.contains(value));
        if value.is_none() {
            self.problem(format!(
                "`{}` must lie between {} and {}",
                self.path,
                range.start(),
                range.end()
            ));
        }
        value
    }

    pub(super) fn duration(&self) -> Option<Duration> {
        let Some(text) = self.value.get_ref().as_str() else {
            return self.wrong("a duration with its unit, such as \"5s\" or \"200ms\"");
        };
        let day = Duration::from_secs(24 * 60 * 60);
        match humantime::parse_duration(text) {
            Ok(duration) if duration <= day => Some(duration),
            Ok(_) => {
                self.problem(format!("`{}` is longer than a day", self.path));
                None
            }
            Err(why) => {
                self.problem(format!(
                    "`{}` is not a duration ({why}); write it with its unit, such as \"5s\" or \"200ms\"",
                    self.path
                ));
                None
            }
        }
    }

    pub(super) fn table(&self) -> Option<Table<'a>> {
        match self.value.get_ref().as_table() {
            Some(table) => Some(Table::new(
                &self.path,
                self.value.span(),
                table,
                self.problems,
            )),
            None => self.wrong("a table"),
        }
    }

    pub(super) fn list(&self) -> Option<Vec<Field<'a>>> {
        let Some(array) = self.value.get_ref().as_array() else {
            return self.wrong("a list");
        };
        let fields = array.iter().enumerate().map(|(at, value)| Field {
            key: self.key.clone(),
            key_span: value.span(),
            path: format!("{}[{at}]", self.path),
            value,
            problems: self.problems,
        });
        Some(fields.collect())
    }
}
