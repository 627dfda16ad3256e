//! What a scenario expects of each lock.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::read::{Field, suggest};
use super::shape::Vocabulary;

/// What is expected of a lock in this scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Expect {
    /// No violation.
    Pass,
    /// These properties are violated.
    Violation {
        /// Each of these must be found; when empty, any violation will do.
        properties: Vec<String>,
        /// None of these may be found.
        never: Vec<String>,
        /// In how many of the trials.
        often: Often,
    },
}

/// In how many trials a violation is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Often {
    /// In every one.
    Each,
    /// In at least one.
    Some {
        /// Of so many: of fewer it may well be found in none.
        of: u32,
    },
}

impl Expect {
    /// Some violation or other, in each trial.
    pub fn any_violation() -> Expect {
        Expect::Violation {
            properties: vec![],
            never: vec![],
            often: Often::Each,
        }
    }
}

// Reading it.

/// What is expected of each lock, in a scenario of so many trials.
pub(super) fn expectations(
    field: &Field<'_>,
    of: u32,
    known: &Vocabulary,
) -> Option<BTreeMap<String, Expect>> {
    let table = field.table()?;
    let mut expect = Some(BTreeMap::new());
    for entry in table.entries() {
        if !known.locks.contains(&entry.key()) {
            let help = suggest(entry.key(), &known.locks);
            entry.key_problem(format!("unknown lock `{}`; {help}", entry.key()));
        }
        match expectation(entry, of, known) {
            Some(one) => {
                if let Some(map) = expect.as_mut() {
                    map.insert(entry.key().to_owned(), one);
                }
            }
            None => expect = None,
        }
    }
    expect
}

fn expectation(field: &Field<'_>, of: u32, known: &Vocabulary) -> Option<Expect> {
    if field.is_str() {
        return match field.word(&["pass", "violation"])? {
            "pass" => Some(Expect::Pass),
            _ => Some(Expect::any_violation()),
        };
    }
    if !field.is_table() {
        return field.wrong("\"pass\", \"violation\" or a table that names the violations");
    }
    let table = field.table()?;
    let properties = table.need("violation", "[\"oversell\"]");
    let properties = properties.and_then(|field| field.words(&known.properties));
    let never_field = table.get("never");
    let never = never_field
        .as_ref()
        .map(|field| field.words(&known.properties));
    if let (Some(field), Some(must), Some(Some(never))) = (&never_field, &properties, &never) {
        for word in never.iter().filter(|word| must.contains(word)) {
            field.problem(format!("\"{word}\" is expected above, and never here"));
        }
    }
    let often = table.get("trials").map(|f| f.word(&["each", "some"]));
    table.finish();
    Some(Expect::Violation {
        properties: properties?,
        never: never.unwrap_or(Some(vec![]))?,
        often: match often.unwrap_or(Some("each"))? {
            "some" => Often::Some { of },
            _ => Often::Each,
        },
    })
}
