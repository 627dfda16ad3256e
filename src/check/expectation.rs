//! What was expected of a lock, held against what was found in its trials. A reproduction expects
//! a violation: then finding it is the pass, and not finding it the fail.

use super::{Judgement, Property};
use crate::scenario::{Expect, Often};
use crate::verdict::Verdict;

/// Whether an expectation was met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// Pass if it was.
    pub verdict: Verdict,
    /// What was not as expected, one sentence each.
    pub missed: Vec<String>,
}

/// Holds the trials of one lock, each with its seed, against what was expected of it.
pub fn meet(expect: &Expect, trials: &[(u64, &Judgement)]) -> Expected {
    match expect {
        // Nothing was tried, so nothing is known.
        _ if trials.is_empty() => Expected {
            verdict: Verdict::Inconclusive,
            missed: vec!["no trial was run".to_owned()],
        },
        Expect::Pass => expect_pass(trials),
        Expect::Violation {
            properties,
            never,
            often,
        } => expect_violation(properties, never, *often, trials),
    }
}

fn expect_pass(trials: &[(u64, &Judgement)]) -> Expected {
    let verdict = trials
        .iter()
        .map(|(_, trial)| trial.lock.and(trial.business));
    let missed = trials.iter().flat_map(|(seed, trial)| {
        let counts = trial.counts.iter();
        counts.map(move |(property, n)| format!("seed {seed}: {} ({n})", property.word()))
    });
    Expected {
        verdict: Verdict::worst(verdict),
        missed: missed.collect(),
    }
}

fn expect_violation(
    properties: &[String],
    never: &[String],
    often: Often,
    trials: &[(u64, &Judgement)],
) -> Expected {
    let mut missed = Vec::new();
    let mut verdict = Verdict::Pass;
    for (seed, trial) in trials {
        for (property, n) in trial.counts.iter().filter(|(p, _)| listed(never, *p)) {
            missed.push(format!(
                "seed {seed}: {} ({n}), never expected",
                property.word()
            ));
            verdict = Verdict::Fail;
        }
    }
    let found = |trial: &Judgement| lacking(properties, trial).is_empty();
    let lacking_trials: Vec<_> = trials.iter().filter(|(_, trial)| !found(trial)).collect();
    let enough = match often {
        Often::Each => lacking_trials.is_empty(),
        Often::Some { .. } => lacking_trials.len() < trials.len(),
    };
    let too_few = match often {
        Often::Each => false,
        Often::Some { of } => trials.len() < of as usize,
    };
    if enough {
        return Expected { verdict, missed };
    }
    for (seed, trial) in lacking_trials {
        let what = lacking(properties, trial).join(", ");
        missed.push(format!("seed {seed}: expected {what}, and did not find it"));
        // A trial that could not answer did not fail to reproduce; and what is not in each trial may
        // be in none of a few.
        verdict = verdict.and(match trial.doubts.is_empty() && !too_few {
            true => Verdict::Fail,
            false => Verdict::Inconclusive,
        });
    }
    if let (true, Often::Some { of }) = (too_few, often) {
        missed.push(format!(
            "not in each trial: {of} trials are asked for, and there were {}",
            trials.len()
        ));
    }
    Expected { verdict, missed }
}

fn listed(words: &[String], property: Property) -> bool {
    words.iter().any(|word| word == property.word())
}

/// The expected properties that a trial did not violate.
fn lacking(properties: &[String], trial: &Judgement) -> Vec<String> {
    if properties.is_empty() && trial.counts.is_empty() {
        return vec!["a violation".to_owned()];
    }
    let violated = |word: &String| trial.counts.iter().any(|(p, _)| p.word() == word);
    properties
        .iter()
        .filter(|word| !violated(word))
        .cloned()
        .collect()
}
