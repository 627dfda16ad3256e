//! What is wrong with a scenario file, shown as a compiler would show it.

use std::fmt;
use std::ops::Range;

use unicode_width::UnicodeWidthStr;

/// One mistake, where it stands, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The bytes of the text that it is about; `0..0` is the file as a whole.
    pub span: Range<usize>,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// All that is wrong with one scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The file's name, or `-`.
    pub name: String,
    /// The file's text.
    pub text: String,
    /// The mistakes, in the order of the text.
    pub problems: Vec<Problem>,
    /// Whether a syntax error left something unread, where there may be more mistakes.
    pub unread: bool,
}

impl std::error::Error for Invalid {}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = self.problems.len();
        let plural = if n == 1 { "" } else { "s" };
        write!(f, "{}: {n} problem{plural}", self.name)?;
        if self.unread {
            write!(f, "; what follows a syntax error is not read yet")?;
        }
        for problem in &self.problems {
            let place = Place::of(&self.text, &problem.span);
            let (name, message) = (&self.name, one_line(&problem.message));
            let (line, column) = (place.line, place.column);
            write!(f, "\n{name}:{line}:{column}: {message}")?;
            if problem.span != (0..0) {
                place.excerpt(f)?;
            }
        }
        Ok(())
    }
}

/// Where a span begins, and that line in three parts. A span that crosses lines is marked up to
/// the end of its first one.
struct Place<'a> {
    line: usize,
    column: usize,
    before: &'a str,
    marked: &'a str,
    after: &'a str,
}

impl<'a> Place<'a> {
    fn of(text: &'a str, span: &Range<usize>) -> Place<'a> {
        let start = boundary(text, span.start);
        let begin = text[..start].rfind('\n').map_or(0, |at| at + 1);
        let line = text[begin..].lines().next().unwrap_or("");
        let start_in = (start - begin).min(line.len());
        let end_in = (boundary(text, span.end) - begin).clamp(start_in, line.len());
        Place {
            line: text[..begin].matches('\n').count() + 1,
            column: line[..start_in].chars().count() + 1,
            before: &line[..start_in],
            marked: &line[start_in..end_in],
            after: &line[end_in..],
        }
    }

    fn excerpt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let (before, marked) = (printable(self.before), printable(self.marked));
        let text = format!("{before}{marked}{}", printable(self.after));
        let margin = " ".repeat(number.len());
        let gap = " ".repeat(before.width());
        let mark = "^".repeat(marked.width().max(1));
        write!(f, "\n  {number} | {}", text.trim_end())?;
        write!(f, "\n  {margin} | {gap}{mark}")
    }
}

/// The place, or the beginning of the character that it lies in.
fn boundary(text: &str, offset: usize) -> usize {
    let offset = offset.min(text.len());
    (0..=offset)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

/// A piece of a line as it can be shown with a mark below it: a tab has no width of its own, and a
/// control character would reach the terminal.
fn printable(text: &str) -> String {
    let text = text.replace('\t', "    ");
    text.replace(char::is_control, "\u{fffd}")
}

/// A message quotes the user's words, which may hold anything.
fn one_line(message: &str) -> String {
    let plain = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    message.chars().map(plain).collect()
}
