//! Verdicts, how they merge, and the exit code that follows: the only place that decides either.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What may be said after looking. Ordered by weight: the worst one wins a merge, and not knowing
/// outranks a pass but never a found violation.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Looked, with proof that looking was worth something, and nothing was wrong.
    Pass,
    /// The run cannot answer the question.
    Inconclusive,
    /// A violation was found.
    Fail,
}

impl Verdict {
    /// The worse of two.
    pub fn and(self, other: Verdict) -> Verdict {
        self.max(other)
    }

    /// The worst of many; a pass when there are none.
    pub fn worst(verdicts: impl IntoIterator<Item = Verdict>) -> Verdict {
        verdicts.into_iter().fold(Verdict::Pass, Verdict::and)
    }

    /// The word in every output.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Pass => "pass",
            Verdict::Inconclusive => "inconclusive",
            Verdict::Fail => "fail",
        }
    }
}

/// How a command ended, as a shell sees it. 1 and 101 stay free, so that a shell's or Rust's own
/// failure is never read as a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: as expected.
    Pass,
    /// 2: wrong usage or an invalid scenario.
    Usage,
    /// 3: no server, no port, no permission, no disk.
    Environment,
    /// 4: the run cannot answer the question.
    Inconclusive,
    /// 99: a threshold was crossed, and nothing was violated.
    Threshold,
    /// 10: correctness violated, or an expected violation not found.
    Violated,
    /// 130 or 143: ended by SIGINT or SIGTERM, after the partial reports were written.
    Interrupted(Signal),
}

/// The signals that end a run early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Signal {
    /// Ctrl-C.
    Sigint,
    /// What a supervisor sends.
    Sigterm,
}

impl Exit {
    /// The number.
    pub fn code(self) -> u8 {
        match self {
            Exit::Pass => 0,
            Exit::Usage => 2,
            Exit::Environment => 3,
            Exit::Inconclusive => 4,
            Exit::Violated => 10,
            Exit::Threshold => 99,
            Exit::Interrupted(Signal::Sigint) => 130,
            Exit::Interrupted(Signal::Sigterm) => 143,
        }
    }
}

impl From<Verdict> for Exit {
    fn from(verdict: Verdict) -> Exit {
        match verdict {
            Verdict::Pass => Exit::Pass,
            Verdict::Inconclusive => Exit::Inconclusive,
            Verdict::Fail => Exit::Violated,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Verdict::{Fail, Inconclusive, Pass};
    use super::*;

    #[test]
    fn the_worst_verdict_wins_and_a_violation_outranks_not_knowing() {
        assert_eq!(Verdict::worst([]), Pass);
        assert_eq!(Verdict::worst([Pass, Inconclusive, Pass]), Inconclusive);
        assert_eq!(Verdict::worst([Inconclusive, Fail]), Fail);
    }
}
