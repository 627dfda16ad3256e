//! Errors by what they say, in bounded memory.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many different ones are told apart; the others are counted together.
const KINDS: usize = 40;
/// How long a text may be.
const LONGEST: usize = 200;
/// What the others are called.
const OTHERS: &str = "others";

/// One kind of error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorKind {
    /// What was asked: `acquire`, `renewal`, `release` or `store`.
    pub during: String,
    /// Whether it may have been applied all the same.
    pub unknown: bool,
    /// What it said.
    pub error: String,
    /// How often.
    pub count: u64,
}

/// All errors so far.
#[derive(Debug, Clone, Default)]
pub struct Errors(BTreeMap<(&'static str, bool, String), u64>);

impl Errors {
    pub(super) fn add(&mut self, during: &'static str, unknown: bool, error: &str) {
        let text: String = error
            .lines()
            .next()
            .unwrap_or_default()
            .chars()
            .take(LONGEST)
            .collect();
        let key = (during, unknown, text);
        let key = match self.0.contains_key(&key) || self.0.len() < KINDS {
            true => key,
            false => (during, unknown, OTHERS.to_owned()),
        };
        *self.0.entry(key).or_default() += 1;
    }

    /// The most frequent first.
    pub fn by_kind(&self) -> Vec<ErrorKind> {
        let kinds = self
            .0
            .iter()
            .map(|((during, unknown, error), count)| ErrorKind {
                during: (*during).to_owned(),
                unknown: *unknown,
                error: error.clone(),
                count: *count,
            });
        let mut kinds: Vec<_> = kinds.collect();
        kinds.sort_by_key(|kind| std::cmp::Reverse(kind.count));
        kinds
    }
}
