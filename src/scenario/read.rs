//! Reads TOML values one by one and gathers what is wrong with them, instead of stopping at the
//! first mistake as a derived reader would. Knows TOML, not scenarios.

use std::cell::RefCell;
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::Problem;
use crate::clock::nanos;

/// The mistakes found so far.
#[derive(Debug, Default)]
pub(super) struct Problems {
    syntax: RefCell<Vec<Problem>>,
    certain: RefCell<Vec<Problem>>,
    /// Mistakes only if the whole file was understood: something is missing, or does not fit
    /// another part. After a syntax error they may be its consequence.
    of_the_whole: RefCell<Vec<Problem>>,
}

impl Problems {
    pub(super) fn add_syntax(&self, span: Range<usize>, message: String) {
        self.syntax.borrow_mut().push(Problem { span, message });
    }

    pub(super) fn add(&self, span: Range<usize>, message: impl Into<String>) {
        let message = message.into();
        self.certain.borrow_mut().push(Problem { span, message });
    }

    pub(super) fn add_of_the_whole(&self, span: Range<usize>, message: impl Into<String>) {
        let message = message.into();
        let problem = Problem { span, message };
        self.of_the_whole.borrow_mut().push(problem);
    }

    /// The mistakes, in the order of the text. Of a file that could be understood only up to
    /// `end`, those that are mistakes whatever follows.
    pub(super) fn sorted(self, end: Option<usize>) -> Vec<Problem> {
        let mut problems = self.certain.into_inner();
        match end {
            Some(end) => problems.retain(|Problem { span, .. }| span.end < end && !span.is_empty()),
            None => problems.extend(self.of_the_whole.into_inner()),
        }
        problems.extend(self.syntax.into_inner());
        problems.sort_by_key(|problem| problem.span.start);
        problems
    }
}

/// The known name that `word` was probably meant to be.
pub(super) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|name| (strsim::damerau_levenshtein(word, name), name))
        .filter(|(distance, name)| *distance <= name.len().max(word.len()) / 2)
        .min()
        .map(|(_, name)| name)
}

/// A known name that was meant, or all of them.
pub(super) fn suggest(word: &str, known: &[&str]) -> String {
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
    /// Keys that must be there and are not, with what to write.
    missing: RefCell<Vec<(&'static str, String)>>,
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
            missing: RefCell::default(),
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
            let missing = (key, example.to_owned());
            self.missing.borrow_mut().push(missing);
        }
        field
    }

    /// Whether a key that nobody asked for was probably meant to be one of these.
    pub(super) fn means_one_of(&self, keys: &[&str]) -> bool {
        self.strangers()
            .any(|(_, meant)| meant.is_some_and(|meant| keys.contains(&meant)))
    }

    /// The entries that nobody asked for, each with the key that it was probably meant to be.
    fn strangers(&self) -> impl Iterator<Item = (&Field<'a>, Option<&'static str>)> {
        let known = self.asked.borrow().clone();
        self.entries
            .iter()
            .filter(move |field| !self.asked.borrow().contains(&field.key.as_str()))
            .map(move |field| (field, nearest(&field.key, known.iter().copied())))
    }

    /// All entries, for a table whose keys are free.
    pub(super) fn entries(&self) -> &[Field<'a>] {
        &self.entries
    }

    /// A mistake of the table as a whole.
    pub(super) fn problem(&self, message: impl Into<String>) {
        self.problems.add_of_the_whole(self.span.clone(), message);
    }

    /// Tells which keys are missing, and which nobody asked for.
    pub(super) fn finish(self) {
        let known = self.asked.borrow().clone();
        for (field, _) in self.strangers() {
            let help = suggest(&field.key, &known);
            field.key_problem(format!("unknown key `{}`; {help}", field.path));
        }
        self.tell_missing();
    }

    /// Tells which keys are missing, where it is not known which others there may be.
    pub(super) fn finish_unsure(self) {
        let missing = self.missing.borrow().clone();
        for (field, meant) in self.strangers() {
            if let Some(meant) = meant.filter(|m| missing.iter().any(|(key, _)| key == m)) {
                let path = &field.path;
                field.key_problem(format!("unknown key `{path}`; did you mean \"{meant}\"?"));
            }
        }
        self.tell_missing();
    }

    /// A missing key that stands there misspelt is one mistake, and was told as such.
    fn tell_missing(&self) {
        let place = match self.name.as_str() {
            "" => "the file".to_owned(),
            name => format!("`{name}`"),
        };
        for (key, example) in self.missing.borrow().iter() {
            if !self.means_one_of(&[key]) {
                let example = format!("for example `{key} = {example}`");
                self.problem(format!("{place} needs `{key}`, {example}"));
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

    /// Tells a mistake that is one only beside what stands elsewhere.
    pub(super) fn misfit(&self, message: impl Into<String>) {
        self.problems.add_of_the_whole(self.value.span(), message);
    }

    /// Tells that the value is of another type.
    pub(super) fn wrong<T>(&self, wanted: &str) -> Option<T> {
        let found = match self.value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.problem(format!("`{}` must be {wanted}, not {found}", self.path));
        None
    }

    pub(super) fn is_str(&self) -> bool {
        self.value.get_ref().is_str()
    }

    pub(super) fn is_table(&self) -> bool {
        self.value.get_ref().is_table()
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

    /// A list of such words.
    pub(super) fn words(&self, known: &[&'static str]) -> Option<Vec<String>> {
        let list = self.list()?;
        let words: Vec<_> = list.iter().map(|field| field.word(known)).collect();
        words
            .into_iter()
            .map(|word| word.map(str::to_owned))
            .collect()
    }

    pub(super) fn integer(&self, range: RangeInclusive<u64>) -> Option<u64> {
        let Some(integer) = self.value.get_ref().as_integer() else {
            return self.wrong("a whole number");
        };
        let digits = integer.as_str().replace('_', "");
        let value = u64::from_str_radix(&digits, integer.radix()).ok();
        self.within(value, range)
    }

    pub(super) fn number(&self, range: RangeInclusive<f64>) -> Option<f64> {
        let value = match self.value.get_ref() {
            DeValue::Float(float) => float.as_str().replace('_', "").parse().ok(),
            DeValue::Integer(integer) => {
                let digits = integer.as_str().replace('_', "");
                let whole = i64::from_str_radix(&digits, integer.radix());
                whole.ok().map(|whole| whole as f64)
            }
            _ => return self.wrong("a number"),
        };
        self.within(value, range)
    }

    /// The value, unless it lies outside its range or is no number at all.
    fn within<T>(&self, value: Option<T>, range: RangeInclusive<T>) -> Option<T>
    where
        T: PartialOrd + Display,
    {
        let value = value.filter(|value| range.contains(value));
        if value.is_none() {
            let (path, low, high) = (&self.path, range.start(), range.end());
            self.problem(format!("`{path}` must lie between {low} and {high}"));
        }
        value
    }

    pub(super) fn duration(&self) -> Option<Duration> {
        let Some(text) = self.value.get_ref().as_str() else {
            return self.wrong("a duration with its unit, such as \"5s\" or \"200ms\"");
        };
        self.duration_in(text)
    }

    /// The nanoseconds of a duration that may have a sign (`"-5s"`).
    pub(super) fn signed_duration(&self) -> Option<i64> {
        let text = self.value.get_ref().as_str();
        match text.and_then(|text| text.strip_prefix('-')) {
            Some(text) => self.duration_in(text).map(|back| -(nanos(back) as i64)),
            None => self.duration().map(|on| nanos(on) as i64),
        }
    }

    fn duration_in(&self, text: &str) -> Option<Duration> {
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
