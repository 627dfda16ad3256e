//! What is wrong with a scenario file, shown as a compiler would show it.

use std::fmt;
use std::ops::Range;

/// One mistake, where it stands, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The bytes of the text that it is about.
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
}

impl std::error::Error for Invalid {}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            let at = Place::of(&self.text, problem.span.start);
            let width = problem.span.len().clamp(1, at.text.len().max(1));
            let number = at.line.to_string();
            writeln!(
                f,
                "{}:{}:{}: {}",
                self.name, at.line, at.column, problem.message
            )?;
            writeln!(f, "  {number} | {}", at.text)?;
            let gap = " ".repeat(number.len() + at.column + 2);
            writeln!(f, "  {gap}{}", "^".repeat(width))?;
        }
        let n = self.problems.len();
        write!(
            f,
            "{}: {n} problem{}",
            self.name,
            if n == 1 { "" } else { "s" }
        )
    }
}

struct Place<'a> {
    line: usize,
    column: usize,
    text: &'a str,
}

impl<'a> Place<'a> {
    fn of(text: &'a str, offset: usize) -> Place<'a> {
        let mut offset = offset.min(text.len());
        while !text.is_char_boundary(offset) {
            offset -= 1;
        }
        let start = text[..offset].rfind('\n').map_or(0, |at| at + 1);
        let line = text[start..].lines().next().unwrap_or("");
        Place {
            line: text[..start].matches('\n').count() + 1,
            column: text[start..offset].chars().count() + 1,
            text: line,
        }
    }
}
