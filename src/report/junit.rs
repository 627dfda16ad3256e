//! `junit.xml`: a suite for each scenario and lock, a case for each property, one for what the run
//! could not answer and one for the expectation as a whole. A suite is red exactly when its report
//! does not pass, so that a test report and an exit code never contradict each other.

use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};

use super::json::{Report, Trial};
use crate::check::Property;
use crate::scenario::{Expect, Often};
use crate::verdict::Verdict;

/// The document.
pub fn render(reports: &[Report]) -> String {
    let mut document = quick_junit::Report::new("oversold");
    document.add_test_suites(reports.iter().map(suite));
    // Names and texts are plain; the writer goes to memory.
    document.to_string().unwrap_or_default()
}

fn suite(report: &Report) -> TestSuite {
    let mut suite = TestSuite::new(format!("{} / {}", report.scenario, report.lock));
    for property in Property::ALL {
        suite.add_test_case(case(
            report,
            property.word(),
            property_status(report, property),
        ));
    }
    suite.add_test_case(case(report, "conclusive", conclusive(report)));
    suite.add_test_case(case(report, "as-expected", as_expected(report)));
    if report.thresholds.is_some() {
        suite.add_test_case(case(report, "thresholds", thresholds(report)));
    }
    suite
}

fn case(report: &Report, name: &str, status: TestCaseStatus) -> TestCase {
    let mut case = TestCase::new(name, status);
    case.set_classname(format!("oversold.{}.{}", report.scenario, report.lock));
    case
}

fn property_status(report: &Report, property: Property) -> TestCaseStatus {
    let word = property.word();
    let (with, without): (Vec<&Trial>, Vec<&Trial>) = report
        .trials
        .iter()
        .partition(|trial| trial.count(word) > 0);
    let wrong = match demand(&report.expected, word) {
        Demand::Never => with,
        Demand::Each => without,
        Demand::Some if with.is_empty() => without,
        Demand::Some | Demand::Any => vec![],
    };
    let [first, ..] = wrong.as_slice() else {
        return TestCaseStatus::success();
    };
    let found = first.findings.iter().find(|f| f.property == property);
    let what = found.map_or_else(
        || format!("expected {word}, and did not find it"),
        |finding| format!("{} (cause: {})", finding.summary, finding.cause.word()),
    );
    let seeds: Vec<_> = wrong.iter().map(|trial| trial.seed.to_string()).collect();
    // A trial that could not answer did not fail to reproduce.
    let conclusive = |trial: &&Trial| trial.doubts.is_empty();
    let kind = match found.is_some() || wrong.iter().any(conclusive) {
        true => NonSuccessKind::Failure,
        false => NonSuccessKind::Error,
    };
    let mut status = TestCaseStatus::non_success(kind);
    status
        .set_type(word)
        .set_message(what.clone())
        .set_description(format!(
            "{what}\nseeds: {}\nreplay: {}",
            seeds.join(", "),
            replay(first)
        ));
    status
}

/// All thresholds of all trials.
fn thresholds(report: &Report) -> TestCaseStatus {
    let held = report.trials.iter().flat_map(|trial| &trial.thresholds);
    let missed: Vec<_> = held.filter(|held| held.verdict != Verdict::Pass).collect();
    let Some(first) = missed.first() else {
        return TestCaseStatus::success();
    };
    // One without samples has not failed.
    let kind = match missed.iter().any(|held| held.verdict == Verdict::Fail) {
        true => NonSuccessKind::Failure,
        false => NonSuccessKind::Error,
    };
    let all: Vec<_> = missed.iter().map(|held| held.words()).collect();
    let mut status = TestCaseStatus::non_success(kind);
    status
        .set_type("thresholds")
        .set_message(first.words())
        .set_description(all.join("\n"));
    status
}

/// The expectation as a whole: an expected violation may have any name, and then no property's
/// case can miss it.
fn as_expected(report: &Report) -> TestCaseStatus {
    if report.verdict != Verdict::Fail {
        return TestCaseStatus::success();
    }
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    let what = match report.missed.as_slice() {
        [] => "not as expected".to_owned(),
        missed => missed.join("\n"),
    };
    let replay = report.trials.first().map(replay).unwrap_or_default();
    status
        .set_type("as-expected")
        .set_message(what.lines().next().unwrap_or_default())
        .set_description(format!("{what}\nseed: {}\nreplay: {replay}", report.seed));
    status
}

fn conclusive(report: &Report) -> TestCaseStatus {
    let doubtful = report.trials.iter().find(|trial| !trial.doubts.is_empty());
    // A doubt beside an expected violation that was found took nothing from it.
    let Some(trial) = doubtful.filter(|_| report.verdict != Verdict::Pass) else {
        return TestCaseStatus::success();
    };
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
    let why = trial.doubts.join("; ");
    status
        .set_type("inconclusive")
        .set_message(why.clone())
        .set_description(format!(
            "seed {}: {why}\nreplay: {}",
            trial.seed,
            replay(trial)
        ));
    status
}

/// The command that runs a trial's plan again, as a shell takes it.
pub(super) fn replay(trial: &Trial) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    match trial.folder.chars().all(plain) {
        true => format!("oversold replay {}", trial.folder),
        false => {
            let quoted = trial.folder.replace('\'', r"'\''");
            format!("oversold replay '{quoted}'")
        }
    }
}

/// In how many trials a property must be violated.
enum Demand {
    Never,
    Some,
    Each,
    Any,
}

fn demand(expect: &Expect, word: &str) -> Demand {
    match expect {
        Expect::Pass => Demand::Never,
        Expect::Violation { never, .. } if never.iter().any(|name| name == word) => Demand::Never,
        Expect::Violation {
            properties, often, ..
        } if properties.iter().any(|name| name == word) => match often {
            Often::Each => Demand::Each,
            Often::Some { .. } => Demand::Some,
        },
        Expect::Violation { .. } => Demand::Any,
    }
}
