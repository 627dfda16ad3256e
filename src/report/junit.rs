//! `junit.xml`: a suite for each scenario and lock, a case for each property and one for what the
//! run could not answer. A case fails when the property is not as expected.

use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};

use super::json::{Report, Trial};
use crate::check::Property;
use crate::scenario::{Expect, Often};

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
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
    status
        .set_type(word)
        .set_message(what.clone())
        .set_description(format!(
            "{what}\nseeds: {}\n{}",
            seeds.join(", "),
            replay(first)
        ));
    status
}

fn conclusive(report: &Report) -> TestCaseStatus {
    let doubtful = report.trials.iter().find(|trial| !trial.doubts.is_empty());
    let Some(trial) = doubtful else {
        return TestCaseStatus::success();
    };
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
    let why = trial.doubts.join("; ");
    status
        .set_type("inconclusive")
        .set_message(why.clone())
        .set_description(format!("seed {}: {why}\n{}", trial.seed, replay(trial)));
    status
}

fn replay(trial: &Trial) -> String {
    format!("replay: oversold replay {}", trial.folder)
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
            Often::Some => Demand::Some,
        },
        Expect::Violation { .. } => Demand::Any,
    }
}
