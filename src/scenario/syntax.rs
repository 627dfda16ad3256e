//! What is wrong with a file as TOML. The parser goes on after a mistake and then tells its
//! consequences too; here each mistake is told once, where it was made.

use std::collections::BTreeSet;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue, Error};

use super::read::Problems;

/// The one error that leaves all else as it was read. The parser tells it by its words only.
const DUPLICATE: &str = "duplicate key";

/// Tells the syntax errors, and gives the place up to which the file was understood if it was not
/// understood to its end.
pub(super) fn tell(
    text: &str,
    table: &Spanned<DeTable<'_>>,
    errors: Vec<Error>,
    problems: &Problems,
) -> Option<usize> {
    let (duplicates, errors): (Vec<_>, Vec<_>) = errors
        .into_iter()
        .partition(|error| error.message() == DUPLICATE);
    let mut mistakes = Mistakes::new(text);
    for span in unclosed(text, table.get_ref()) {
        let bracket = span.start..span.start + 1;
        let (open, close) = match &text[bracket.clone()] {
            "[" => ("[", "]"),
            _ => ("{", "}"),
        };
        let message = format!("this `{open}` is not closed: its `{close}` is missing");
        mistakes.add(bracket, message);
        mistakes.covered.push(span);
    }
    let mut errors: Vec<(Range<usize>, &Error)> = errors
        .iter()
        .map(|error| (error.span().unwrap_or_default(), error))
        .collect();
    errors.sort_by_key(|(span, _)| span.start);
    for (span, error) in errors {
        if mistakes.is_new(&span) {
            let message = better(text, &span).unwrap_or_else(|| {
                let message = error.message();
                message.trim_end_matches(", expected nothing").to_owned()
            });
            mistakes.add(span, message);
        }
    }
    let end = mistakes.found.iter().map(|(span, _)| span.start).min();
    for (span, message) in mistakes.found {
        problems.add_syntax(span, message);
    }
    for duplicate in duplicates {
        let span = duplicate.span().unwrap_or_default();
        if end.is_none_or(|end| span.start < end) {
            let key = text.get(span.clone()).unwrap_or("this");
            problems.add_syntax(
                span,
                format!("`{key}` is given twice: it stands above already"),
            );
        }
    }
    end
}

/// The mistakes so far: one a line, and one in a bracket that is not closed.
struct Mistakes {
    ends_of_lines: Vec<usize>,
    found: Vec<(Range<usize>, String)>,
    lines: BTreeSet<usize>,
    covered: Vec<Range<usize>>,
}

impl Mistakes {
    fn new(text: &str) -> Mistakes {
        Mistakes {
            ends_of_lines: text.match_indices('\n').map(|(at, _)| at).collect(),
            found: vec![],
            lines: BTreeSet::new(),
            covered: vec![],
        }
    }

    fn line(&self, span: &Range<usize>) -> usize {
        self.ends_of_lines.partition_point(|end| *end < span.start)
    }

    fn is_new(&self, span: &Range<usize>) -> bool {
        let covers = |by: &Range<usize>| by.start <= span.start && span.start <= by.end;
        !self.covered.iter().any(covers) && !self.lines.contains(&self.line(span))
    }

    fn add(&mut self, span: Range<usize>, message: String) {
        self.lines.insert(self.line(&span));
        // Never `0..0`, which is the file as a whole.
        let end = span.end.max(span.start + 1);
        self.found.push((span.start..end, message));
    }
}

/// What the parser's words do not say: that a word needs quotes, or that nothing stands there.
fn better(text: &str, span: &Range<usize>) -> Option<String> {
    let before = text.get(..span.start)?.trim_end_matches([' ', '\t']);
    if !before.ends_with(['=', '[', ',']) {
        return None;
    }
    let rest = text.get(span.start..)?.trim_start_matches([' ', '\t']);
    if before.ends_with('=') && (rest.is_empty() || rest.starts_with(['\n', '\r', '#'])) {
        return Some("the value is missing".to_owned());
    }
    let word = text.get(span.clone())?.trim();
    if word.eq_ignore_ascii_case("true") || word.eq_ignore_ascii_case("false") {
        let small = word.to_ascii_lowercase();
        return Some(format!("written in small letters: `{small}`"));
    }
    let letters = word.chars().any(char::is_alphabetic);
    let plain = |c: char| c.is_alphanumeric() || "-_. ".contains(c);
    (letters && word.chars().all(plain)).then(|| format!("needs quotes: `\"{word}\"`"))
}

/// The spans of the outermost lists and inline tables that have no end.
fn unclosed(text: &str, table: &DeTable<'_>) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut open: Vec<&Spanned<DeValue<'_>>> = table.iter().map(|(_, value)| value).collect();
    while let Some(value) = open.pop() {
        let span = value.span();
        let whole = text.get(span.clone()).unwrap_or("");
        let inner: Vec<&Spanned<DeValue<'_>>> = match value.get_ref() {
            DeValue::Array(list) => list.iter().collect(),
            DeValue::Table(table) => table.iter().map(|(_, value)| value).collect(),
            _ => continue,
        };
        let (list, table) = (value.get_ref().is_array(), value.get_ref().is_table());
        let without_end = (list && whole.starts_with('[') && !whole.ends_with(']'))
            || (table && whole.starts_with('{') && !whole.ends_with('}'));
        match without_end {
            true => found.push(span),
            false => open.extend(inner),
        }
    }
    found.sort_by_key(|span| span.start);
    found
}
