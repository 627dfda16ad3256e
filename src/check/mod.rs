//! The checks: each a pure fold over the history, and at the end over the ledger; one file a
//! check, one line each in [`ALL`]. The same code serves a running trial, its end, and a stored
//! history. A check reads what is going on from the `Scene` and writes findings.

mod again;
mod answers;
mod cause;
mod coverage;
mod expectation;
mod finding;
mod foreign_release;
mod grant;
mod key;
mod ledger;
mod misuse;
mod operation;
mod orphan;
mod overlap;
mod scene;
mod spinning;
mod story;
mod unheard;
mod watchdog;

pub use coverage::{Coverage, FaultCoverage};
pub use expectation::{Expected, meet};
pub use finding::{Cause, Finding, Property, Role, Side, Witness};
pub use story::Line;

use std::collections::VecDeque;

use finding::Findings;
use scene::Scene;
use story::Story;

use crate::history::Event;
use crate::plan::Plan;
use crate::store::Ledger;
use crate::verdict::Verdict;

/// A fold over a history.
pub trait Check: Send {
    /// Takes in an event. The scene has taken it in already.
    fn event(&mut self, event: &Event, scene: &mut Scene, out: &mut Findings);

    /// The history has ended; the ledger is as given.
    fn end(&mut self, _end: &Outcome<'_>, _scene: &Scene, _out: &mut Findings) {}

    /// What was put to the test so far, from the one check that keeps it.
    fn coverage(&self) -> Option<&Coverage> {
        None
    }
}

/// What is known at the end beside the history.
#[derive(Debug, Clone, Copy)]
pub struct Outcome<'a> {
    /// What the business has, or why nobody knows.
    pub ledger: Result<&'a Ledger, &'a str>,
}

/// A check as the registry knows it.
#[derive(Debug)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// One line for a list.
    pub about: &'static str,
    make: fn(&Plan) -> Box<dyn Check>,
}

/// Every check there is. The first ones give the later ones their causes.
pub static ALL: [Entry; 11] = [
    overlap::ENTRY,
    foreign_release::ENTRY,
    orphan::ENTRY,
    unheard::ENTRY,
    misuse::ENTRY,
    watchdog::ENTRY,
    answers::ENTRY,
    spinning::ENTRY,
    again::ENTRY,
    ledger::ENTRY,
    coverage::ENTRY,
];

/// All checks over one trial.
pub struct Judge {
    /// Events that wait for what may explain them.
    waiting: VecDeque<Event>,
    scene: Scene,
    checks: Vec<Box<dyn Check>>,
    findings: Findings,
    story: Story,
}

/// What the checks say of one trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// Whether the lock kept its promise.
    pub lock: Verdict,
    /// Whether the ledger is right.
    pub business: Verdict,
    /// Violations, in the order of their times; a bounded number of each property.
    pub findings: Vec<Finding>,
    /// How many of each property there are, kept or not.
    pub counts: Vec<(Property, u64)>,
    /// Findings that only the driver's own lag explains; no violations.
    pub by_driver: Vec<Finding>,
    /// Why the run cannot answer the question, if it cannot.
    pub doubts: Vec<String>,
    /// What was put to the test.
    pub coverage: Coverage,
    /// How the first violation came about.
    pub story: Vec<Line>,
}

impl Judgement {
    /// How many violations of a property there are.
    pub fn count(&self, property: Property) -> u64 {
        let counts = self.counts.iter();
        counts.filter(|(p, _)| *p == property).map(|(_, n)| n).sum()
    }
}

impl Judge {
    /// A judge that has seen nothing.
    pub fn new(plan: &Plan, keys: usize) -> Judge {
        Judge {
            waiting: VecDeque::new(),
            scene: Scene::new(plan, keys),
            checks: ALL.iter().map(|entry| (entry.make)(plan)).collect(),
            findings: Findings::default(),
            story: Story::new(plan),
        }
    }

    /// Takes in an event. It is judged when a later one shows that nothing more comes that could
    /// explain it, or at the end.
    pub fn event(&mut self, event: &Event) {
        self.scene.foresee(event);
        self.waiting.push_back(event.clone());
        let due = |first: &mut Event| event.at_ns.since(first.at_ns) >= scene::PATIENCE;
        while let Some(first) = self.waiting.pop_front_if(due) {
            self.judge(&first);
        }
    }

    fn judge(&mut self, event: &Event) {
        self.scene.apply(event);
        let known = self.findings.kept().len();
        for check in &mut self.checks {
            check.event(event, &mut self.scene, &mut self.findings);
        }
        let new = &self.findings.kept()[known..];
        self.story.event(event, &self.scene, new);
        self.scene.forget(event);
    }

    /// How many violations there are so far.
    pub fn violations(&self) -> u64 {
        Property::ALL
            .iter()
            .map(|property| self.findings.count(*property))
            .sum()
    }

    /// How many findings there are so far, violations or not.
    pub fn finds(&self) -> u64 {
        let by_driver = Property::ALL
            .iter()
            .map(|property| self.findings.driver_count(*property));
        self.violations() + by_driver.sum::<u64>()
    }

    /// How many violations of a property there are so far.
    pub fn count(&self, property: Property) -> u64 {
        self.findings.count(property)
    }

    /// The findings that were kept so far, in the order in which they were found.
    pub fn found(&self) -> &[Finding] {
        self.findings.kept()
    }

    /// What can be said of a run that goes on: what was violated, and that the rest is not known.
    pub fn so_far(&self) -> Judgement {
        let findings = self.findings.kept().to_vec();
        let doubts = vec!["the run was still going on when this was written".to_owned()];
        judgement(
            &self.findings,
            findings,
            doubts,
            self.coverage(),
            self.story.lines(),
        )
    }

    fn coverage(&self) -> Coverage {
        let kept = self.checks.iter().find_map(|check| check.coverage());
        kept.cloned().unwrap_or_default()
    }

    /// There is a reason outside of the history to doubt what is said of it.
    pub fn doubt(&mut self, why: String) {
        self.findings.doubt(why);
    }

    /// The history has ended.
    pub fn end(self, ledger: &Ledger) -> Judgement {
        self.end_with(Ok(ledger))
    }

    /// The history has ended, and nobody knows what the business has.
    pub fn end_without_ledger(self, why: &str) -> Judgement {
        self.end_with(Err(why))
    }

    fn end_with(mut self, ledger: Result<&Ledger, &str>) -> Judgement {
        while let Some(event) = self.waiting.pop_front() {
            self.judge(&event);
        }
        let end = Outcome { ledger };
        for check in &mut self.checks {
            check.end(&end, &self.scene, &mut self.findings);
        }
        let lag: u64 = Property::ALL
            .iter()
            .map(|p| self.findings.driver_count(*p))
            .sum();
        if lag > 0 {
            let why = format!("{lag} findings are the driver's own lag and not the lock's doing");
            self.findings.doubt(why);
        }
        let story = self.story.lines();
        let doubts = self.findings.take_doubts();
        let kept = self.findings.kept().to_vec();
        judgement(&self.findings, kept, doubts, self.coverage(), story)
    }
}

fn judgement(
    all: &Findings,
    mut findings: Vec<Finding>,
    doubts: Vec<String>,
    coverage: Coverage,
    story: Vec<Line>,
) -> Judgement {
    let counts: Vec<_> = Property::ALL
        .iter()
        .map(|property| (*property, all.count(*property)))
        .filter(|(_, count)| *count > 0)
        .collect();
    findings.sort_by_key(|finding| finding.at_ns);
    let (by_driver, findings): (Vec<_>, Vec<_>) = findings
        .into_iter()
        .partition(|finding| finding.cause == Cause::DriverLag);
    let side = |side| {
        let violated = counts.iter().any(|(property, _)| property.side() == side);
        match (violated, doubts.is_empty()) {
            (true, _) => Verdict::Fail,
            (false, true) => Verdict::Pass,
            (false, false) => Verdict::Inconclusive,
        }
    };
    Judgement {
        lock: side(Side::Lock),
        business: side(Side::Business),
        findings,
        counts: counts.clone(),
        by_driver,
        doubts: doubts.clone(),
        coverage,
        story,
    }
}
