//! Reports: the published schema, what CI reads, and what a person reads.

use std::collections::BTreeMap;
use std::path::Path;

use oversold::check::{Cause, Coverage, Expected, FaultCoverage, Finding, Judgement, Line};
use oversold::check::{Property, Role, Side, Witness};
use oversold::clock::Time;
use oversold::history::event::Stop;
use oversold::lock;
use oversold::plan::{Overrides, Plan};
use oversold::report::json::{self, SCHEMA_VERSION};
use oversold::report::{Report, Trial, junit, matrix, terminal};
use oversold::scenario::{Expect, Often, Scenario, Vocabulary};
use oversold::store::Ledger;
use oversold::summary::{Counts, Quantiles, Summary};
use oversold::verdict::{Exit, Signal, Verdict};
use serde_json::Value;

// A report to look at.

const SCENARIO: &str = r#"name = "flash"
title = "a sale"
time_scale = 0.05
[load]
instances = 6
workers = 200
duration = "90s"
[workload]
kind = "flash-sale"
stock = 100
[section]
uniform = ["6s", "8s"]
[lock]
kind = "setnx-expire-del"
ttl = "5s"
"#;

fn plan(lock: &str, seed: u64) -> Plan {
    let known = Vocabulary {
        locks: lock::names(),
        properties: Property::words(),
    };
    let scenario = Scenario::parse("flash.toml", SCENARIO, &known).expect("a valid scenario");
    Plan::resolve(&scenario, &Overrides::default(), lock, seed)
}

fn violation() -> Expect {
    Expect::Violation {
        properties: vec!["overlap".to_owned(), "oversell".to_owned()],
        never: vec!["foreign-release".to_owned()],
        often: Often::Each,
    }
}

fn witness(op: u64, role: Role) -> Witness {
    Witness {
        op,
        instance: op as u32,
        worker: op as u32 * 10,
        role,
        at_ns: Time(op * 1_000_000_000),
    }
}

fn overlap() -> Finding {
    Finding {
        property: Property::Overlap,
        cause: Cause::LeaseExpired,
        at_ns: Time(600_000_000),
        summary: "operation 2 entered while operation 1 was in the section".to_owned(),
        witnesses: vec![witness(1, Role::Holder), witness(2, Role::Intruder)],
    }
}

fn oversell(units: i64) -> Finding {
    Finding {
        property: Property::Oversell,
        cause: Cause::LeaseExpired,
        at_ns: Time(4_000_000_000),
        summary: format!("{units} units sold that were not there"),
        witnesses: vec![],
    }
}

fn line(ms: u64, text: &str) -> Line {
    Line {
        at_ns: Time(ms * 1_000_000),
        text: text.to_owned(),
    }
}

/// A trial that found nothing.
fn sound_judgement() -> Judgement {
    Judgement {
        lock: Verdict::Pass,
        business: Verdict::Pass,
        findings: vec![],
        counts: vec![],
        by_driver: vec![],
        doubts: vec![],
        coverage: Coverage {
            faults: vec![FaultCoverage {
                what: Some("froze instance 3 for 14 s".to_owned()),
                planned: Some(1),
                struck: 1,
                landed: 1,
                proof: Some("instance 3 did nothing for 14 s".to_owned()),
            }],
            denied: 120,
            sections: 100,
            stop: Some(Stop::NothingLeft),
            ..Coverage::default()
        },
        story: vec![],
    }
}

/// A trial that found two sections at a time, and an oversell.
fn broken_judgement(units: i64) -> Judgement {
    Judgement {
        lock: Verdict::Fail,
        business: Verdict::Fail,
        findings: vec![overlap(), oversell(units)],
        counts: vec![(Property::Overlap, 41), (Property::Oversell, 1)],
        story: vec![
            line(10, "A, instance 1 worker 10, is granted the lock for 5.0 s"),
            line(260, "A's lease runs out; A is still in its section"),
            line(600, "B, instance 2 worker 20, gets in beside A"),
        ],
        ..sound_judgement()
    }
}

fn doubtful_judgement() -> Judgement {
    Judgement {
        lock: Verdict::Inconclusive,
        business: Verdict::Inconclusive,
        doubts: vec!["planned fault 1 never struck".to_owned()],
        ..sound_judgement()
    }
}

fn ledger(orders: i64) -> Ledger {
    Ledger {
        stock: 100,
        orders,
        oversold: (orders - 100).max(0),
        unsold: (100 - orders).max(0),
        ..Ledger::default()
    }
}

fn trial(plan: &Plan, folder: &str, judged: Judgement, orders: i64) -> Trial {
    let quantiles = |p50_ns, p99_ns, max_ns| Quantiles {
        count: 100,
        p50_ns,
        p99_ns: Some(p99_ns),
        max_ns,
    };
    let folder = folder.to_owned();
    Trial {
        counts: Counts {
            operations: 220,
            attempts: 340,
            granted: 100,
            denied: 120,
            released: 100,
            gave_up: 120,
            ..Counts::default()
        },
        lock_wait: quantiles(340_000_000, 1_100_000_000, 12_345_678_900),
        section: quantiles(20_000_000, 395_000_000, 400_000_000),
        release: quantiles(150_000, 1_200_000, 2_500_000),
        operations_per_second: 41.7,
        elapsed_ns: 4_500_000_000,
        ..Trial::new(
            plan,
            folder,
            judged,
            Ok(ledger(orders)),
            &Summary::default(),
        )
    }
}

fn report_of(plan: &Plan, trials: Vec<Trial>, verdict: Verdict, missed: &[&str]) -> Report {
    let missed = missed.iter().map(|text| (*text).to_owned()).collect();
    let expected = Expected { verdict, missed };
    Report {
        tool: "oversold 0.1.0".to_owned(),
        ..Report::new(plan, "Redis 7.0.15", trials, expected)
    }
}

/// The lock broke, and must not.
fn failed() -> Report {
    let plan = plan("setnx-expire-del", 1);
    let trial = trial(&plan, "reports/flash/t-1", broken_judgement(37), 137);
    let missed = ["seed 1: overlap (41)", "seed 1: oversell (1)"];
    report_of(&plan, vec![trial], Verdict::Fail, &missed)
}

fn passed() -> Report {
    let plan = plan("token-lua-watchdog", 1);
    let trial = trial(&plan, "reports/flash/t-1", sound_judgement(), 100);
    report_of(&plan, vec![trial], Verdict::Pass, &[])
}

fn inconclusive() -> Report {
    let plan = plan("token-lua", 1);
    let trial = trial(&plan, "reports/flash/t-1", doubtful_judgement(), 100);
    report_of(&plan, vec![trial], Verdict::Inconclusive, &[])
}

/// A reproduction of three trials that found what it expects.
fn reproduced() -> Report {
    let mut plan = plan("set-nx-ex-del", 5);
    plan.expect = violation();
    let trials = [(5, 12), (6, 37), (7, 41)].map(|(seed, units)| {
        let plan = Plan {
            seed,
            ..plan.clone()
        };
        let folder = format!("reports/flash/t-5/seed-{seed}");
        trial(&plan, &folder, broken_judgement(units), 100 + units)
    });
    report_of(&plan, trials.to_vec(), Verdict::Pass, &[])
}

/// Any violation was expected, and there was none.
fn not_reproduced() -> Report {
    let mut plan = plan("token-lua", 1);
    plan.expect = Expect::any_violation();
    let trial = trial(&plan, "reports/flash/t-1", sound_judgement(), 100);
    let missed = ["seed 1: expected a violation, and did not find it"];
    report_of(&plan, vec![trial], Verdict::Fail, &missed)
}

fn all() -> Vec<Report> {
    vec![
        failed(),
        passed(),
        inconclusive(),
        reproduced(),
        not_reproduced(),
    ]
}

/// Text as it is piped.
fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

#[track_caller]
fn assert_text(found: &str, expected: &str) {
    assert!(
        found == expected,
        "\n--- expected\n{expected}\n--- found\n{found}\n---"
    );
}

// JSON.

/// The variable that makes this test write the schema instead of comparing it.
const REGENERATE: &str = "OVERSOLD_WRITE_SCHEMA";

#[test]
fn the_published_schema_is_that_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/report.schema.json");
    let schema = json::schema();
    if std::env::var_os(REGENERATE).is_some() {
        std::fs::write(&path, &schema).expect("docs/ can be written");
    }
    let published = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        published == schema,
        "docs/report.schema.json is not the schema of the code. If the change is meant, write it \
         anew with `{REGENERATE}=1 cargo test --test reports`, and raise \
         report::json::SCHEMA_VERSION if a field went or changed its meaning"
    );
}

fn validator() -> jsonschema::Validator {
    let schema: Value = serde_json::from_str(&json::schema()).expect("the schema is JSON");
    jsonschema::validator_for(&schema).expect("the schema is a schema")
}

fn document(reports: &[Report]) -> Value {
    serde_json::from_str(&json::render(reports)).expect("a report is JSON")
}

#[test]
fn every_document_is_valid_by_the_schema() {
    let validator = validator();
    let each = all().into_iter().map(|report| vec![report]);
    for reports in each.chain([all(), vec![]]) {
        let document = document(&reports);
        let errors: Vec<String> = validator
            .iter_errors(&document)
            .map(|e| e.to_string())
            .collect();
        assert!(errors.is_empty(), "{errors:?}\n{document:#}");
    }
}

#[test]
fn what_is_no_report_is_invalid_by_the_schema() {
    let validator = validator();
    let mut lacking = document(&[failed()]);
    lacking
        .as_object_mut()
        .expect("a report is an object")
        .remove("lock_verdict");
    assert!(!validator.is_valid(&lacking));
    let mut unknown = document(&[failed()]);
    unknown["verdict"] = "maybe".into();
    assert!(!validator.is_valid(&unknown));
    let mut expected = document(&[failed()]);
    expected["expected"] = "surprise".into();
    assert!(!validator.is_valid(&expected));
}

#[test]
fn a_document_says_its_version_and_has_units_in_its_names() {
    let document = document(&[failed()]);
    assert_eq!(document["schema_version"], SCHEMA_VERSION);
    let mut open = vec![("", &document)];
    while let Some((name, value)) = open.pop() {
        match value {
            Value::Object(fields) => open.extend(fields.iter().map(|(k, v)| (k.as_str(), v))),
            Value::Array(items) => open.extend(items.iter().map(|item| (name, item))),
            _ => {}
        }
        let snake = name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c));
        assert!(snake, "`{name}` is not in snake case");
    }
    assert_eq!(document["trials"][0]["lock_wait"]["p50_ns"], 340_000_000);
    assert_eq!(document["trials"][0]["findings"][0]["at_ns"], 600_000_000);
}

#[test]
fn a_report_reads_back_equal() {
    for report in all() {
        let text = json::render(std::slice::from_ref(&report));
        let read: Report = serde_json::from_str(&text).expect("a report can be read");
        assert_eq!(read, report);
    }
}

#[test]
fn several_reports_are_one_document_with_the_worst_verdict() {
    let document = document(&all());
    assert_eq!(document["verdict"], "fail");
    assert_eq!(document["reports"].as_array().map(Vec::len), Some(5));
    let without_failures = document_verdict(&[passed(), inconclusive()]);
    assert_eq!(without_failures, "inconclusive");
}

fn document_verdict(reports: &[Report]) -> Value {
    document(reports)["verdict"].clone()
}

#[test]
fn an_interruption_outranks_the_verdict() {
    let mut judged = broken_judgement(37);
    judged.coverage.stop = Some(Stop::Signal(Signal::Sigint));
    let plan = plan("token-lua", 1);
    let trial = trial(&plan, "reports/flash/t-1", judged, 137);
    let report = report_of(&plan, vec![trial], Verdict::Fail, &[]);
    assert_eq!(report.exit(), Exit::Interrupted(Signal::Sigint));
    assert_eq!(failed().exit(), Exit::Violated);
    assert_eq!(inconclusive().exit(), Exit::Inconclusive);
    assert_eq!(passed().exit(), Exit::Pass);
}

// JUnit.

/// An element of a document: its name, its attributes, what is in it.
#[derive(Debug, Default)]
struct Element {
    name: String,
    attributes: BTreeMap<String, String>,
    text: String,
    children: Vec<Element>,
}

impl Element {
    fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }

    fn all(&self, name: &str) -> Vec<&Element> {
        let deeper = self.children.iter().flat_map(|child| child.all(name));
        let here = self.children.iter().filter(|child| child.name == name);
        here.chain(deeper).collect()
    }
}

/// Reads a document, or panics because it is not well-formed. Knows as much of XML as JUnit needs.
fn xml(text: &str) -> Element {
    let body = text.trim_start();
    let body = body.strip_prefix("<?xml ").expect("an XML declaration");
    let (_, mut rest) = body.split_once("?>").expect("the end of the declaration");
    let mut open = vec![Element::default()];
    while let Some(at) = rest.find('<') {
        let (text, tag) = rest.split_at(at);
        let inner = open.last_mut().expect("an open element");
        inner.text += &unescaped(text);
        let end = tag.find('>').expect("the end of a tag");
        let (tag, after) = (&tag[1..end], &tag[end + 1..]);
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            let closed = open.pop().expect("an open element");
            assert_eq!(closed.name, name, "closed in the wrong order");
            open.last_mut().expect("a parent").children.push(closed);
            continue;
        }
        let element = element(tag.trim_end_matches('/'));
        match tag.ends_with('/') {
            true => open.last_mut().expect("a parent").children.push(element),
            false => open.push(element),
        }
    }
    assert_eq!(rest.trim(), "", "text after the document");
    assert_eq!(open.len(), 1, "{:?} is not closed", open.last());
    open.remove(0)
}

fn element(tag: &str) -> Element {
    let (name, mut rest) = tag.split_once(' ').unwrap_or((tag, ""));
    let mut attributes = BTreeMap::new();
    while let Some((key, after)) = rest.trim_start().split_once("=\"") {
        let (value, after) = after.split_once('"').expect("the end of an attribute");
        attributes.insert(key.to_owned(), unescaped(value));
        rest = after;
    }
    assert_eq!(rest.trim(), "", "not an attribute");
    Element {
        name: name.to_owned(),
        attributes,
        ..Element::default()
    }
}

fn unescaped(text: &str) -> String {
    let named = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&#10;", "\n"),
    ];
    let text = named
        .iter()
        .fold(text.to_owned(), |text, (name, c)| text.replace(name, c));
    let bare = text.replace("&amp;", "");
    assert!(!bare.contains('&'), "an entity that is not known: {text}");
    text.replace("&amp;", "&")
}

#[test]
fn junit_is_well_formed_and_every_case_has_a_class() {
    let document = xml(&junit::render(&all()));
    let suites = document.all("testsuite");
    assert_eq!(suites.len(), all().len());
    for (suite, report) in suites.iter().zip(all()) {
        let name = format!("{} / {}", report.scenario, report.lock);
        assert_eq!(suite.attribute("name"), name);
        let cases = suite.all("testcase");
        assert_eq!(suite.attribute("tests"), cases.len().to_string());
        for case in &cases {
            let class = format!("oversold.{}.{}", report.scenario, report.lock);
            assert_eq!(case.attribute("classname"), class);
            assert!(!case.attribute("name").is_empty());
        }
        let names: Vec<&str> = cases.iter().map(|case| case.attribute("name")).collect();
        let mut expected = Property::words();
        expected.extend(["conclusive", "as-expected"]);
        assert_eq!(names, expected);
    }
}

#[test]
fn a_failure_says_what_under_which_seeds_and_how_to_run_it_again() {
    let document = xml(&junit::render(&[failed()]));
    let failures = document.all("failure");
    let types: Vec<&str> = failures
        .iter()
        .map(|failure| failure.attribute("type"))
        .collect();
    assert_eq!(types, ["overlap", "oversell", "as-expected"]);
    let message = "operation 2 entered while operation 1 was in the section (cause: lease-expired)";
    assert_eq!(failures[0].attribute("message"), message);
    assert_eq!(
        failures[0].text,
        format!("{message}\nseeds: 1\nreplay: oversold replay reports/flash/t-1")
    );
    for failure in failures {
        assert!(
            failure.text.contains("replay: oversold replay "),
            "{failure:?}"
        );
        assert!(failure.text.contains("seed"), "{failure:?}");
    }
}

#[test]
fn a_suite_is_red_exactly_when_its_report_does_not_pass() {
    let mut doubtful_reproduction = reproduced();
    doubtful_reproduction.trials[0].doubts = vec!["the driver was late".to_owned()];
    for report in all().into_iter().chain([doubtful_reproduction]) {
        let document = xml(&junit::render(std::slice::from_ref(&report)));
        let (failures, errors) = (document.all("failure").len(), document.all("error").len());
        let what = format!(
            "{:?} of {}: {failures}, {errors}",
            report.verdict, report.lock
        );
        match report.verdict {
            Verdict::Pass => assert_eq!((failures, errors), (0, 0), "{what}"),
            Verdict::Fail => assert!(failures > 0, "{what}"),
            Verdict::Inconclusive => assert!(failures == 0 && errors > 0, "{what}"),
        }
    }
}

#[test]
fn a_violation_that_was_not_found_in_a_doubtful_trial_is_an_error_and_no_failure() {
    let mut plan = plan("none", 1);
    plan.expect = violation();
    let trial = trial(&plan, "reports/flash/t-1", doubtful_judgement(), 100);
    let report = report_of(&plan, vec![trial], Verdict::Inconclusive, &[]);
    let document = xml(&junit::render(&[report]));
    assert_eq!(document.all("failure").len(), 0);
    let errors = document.all("error");
    let types: Vec<&str> = errors.iter().map(|error| error.attribute("type")).collect();
    assert_eq!(types, ["overlap", "oversell", "inconclusive"]);
}

#[test]
fn a_replay_command_can_be_pasted_into_a_shell_whatever_the_folder_is_called() {
    let plan = plan("none", 1);
    let trial = trial(
        &plan,
        "my reports/it's <here> & there",
        broken_judgement(1),
        101,
    );
    let report = report_of(&plan, vec![trial], Verdict::Fail, &[]);
    let document = xml(&junit::render(&[report]));
    let command = r"replay: oversold replay 'my reports/it'\''s <here> & there'";
    assert!(document.all("failure")[0].text.ends_with(command));
}

// The terminal.

#[test]
fn the_summary_of_a_violation_tells_its_story() {
    assert_text(
        &plain(&terminal::summary(&failed())),
        r#"flash / setnx-expire-del  (seed 1, Redis 7.0.15, time scale 0.05)
  lock      FAIL  overlap 41
  business  FAIL  oversell
  expected  FAIL  no violation: not so
            seed 1: overlap (41)
            seed 1: oversell (1)
  ledger    137 orders for 100 units: 37 oversold, 0 unsold
  counts    220 operations, 100 granted, 120 refused, 0 failed, 0 unknown, 120 gave up
  fault     instance 3 did nothing for 14 s

  the first violation, in the incident's own seconds
        0.200  A, instance 1 worker 10, is granted the lock for 5.0 s
        5.200  A's lease runs out; A is still in its section
       12.000  B, instance 2 worker 20, gets in beside A

  latency   lock wait 340 ms / 1.1 s / 12 s  (p50 / p99 / max, run time)
            section   20 ms / 395 ms / 400 ms
            release   150 us / 1.2 ms / 2.5 ms
  files     reports/flash/t-1
"#,
    );
}

#[test]
fn the_summary_of_a_pass_is_short() {
    assert_text(
        &plain(&terminal::summary(&passed())),
        r#"flash / token-lua-watchdog  (seed 1, Redis 7.0.15, time scale 0.05)
  lock      PASS  one section at a time, each released by its owner
  business  PASS  the ledger is right
  expected  PASS  no violation: as expected
  ledger    100 orders for 100 units: 0 oversold, 0 unsold
  counts    220 operations, 100 granted, 120 refused, 0 failed, 0 unknown, 120 gave up
  fault     instance 3 did nothing for 14 s
  latency   lock wait 340 ms / 1.1 s / 12 s  (p50 / p99 / max, run time)
            section   20 ms / 395 ms / 400 ms
            release   150 us / 1.2 ms / 2.5 ms
  files     reports/flash/t-1
"#,
    );
}

#[test]
fn the_summary_of_an_inconclusive_run_claims_nothing() {
    assert_text(
        &plain(&terminal::summary(&inconclusive())),
        r#"flash / token-lua  (seed 1, Redis 7.0.15, time scale 0.05)
  lock      INCONCLUSIVE  nothing wrong was seen, and not enough to tell
  business  INCONCLUSIVE  nothing wrong was seen, and not enough to tell
  expected  INCONCLUSIVE  no violation: this run cannot tell
  ledger    100 orders for 100 units: 0 oversold, 0 unsold
  counts    220 operations, 100 granted, 120 refused, 0 failed, 0 unknown, 120 gave up
  unsure    planned fault 1 never struck
  fault     instance 3 did nothing for 14 s
  latency   lock wait 340 ms / 1.1 s / 12 s  (p50 / p99 / max, run time)
            section   20 ms / 395 ms / 400 ms
            release   150 us / 1.2 ms / 2.5 ms
  files     reports/flash/t-1
"#,
    );
}

#[test]
fn the_summary_of_trials_gives_the_share_and_the_spread() {
    assert_text(
        &plain(&terminal::summary(&reproduced())),
        r#"flash / set-nx-ex-del  (3 trials from seed 5, Redis 7.0.15, time scale 0.05)
  lock      FAIL  overlap 123
  business  FAIL  oversell
  expected  PASS  the violation that the scenario reproduces: as expected
  violated  3 of 3 (100 %; 95 % interval 29 to 100 %)
  oversold  least 12, quartiles 24.5 / 37 / 39, most 41
            12 37 41

  seed 5
  ledger    112 orders for 100 units: 12 oversold, 0 unsold
  counts    220 operations, 100 granted, 120 refused, 0 failed, 0 unknown, 120 gave up
  fault     instance 3 did nothing for 14 s

  the first violation, in the incident's own seconds
        0.200  A, instance 1 worker 10, is granted the lock for 5.0 s
        5.200  A's lease runs out; A is still in its section
       12.000  B, instance 2 worker 20, gets in beside A

  latency   lock wait 340 ms / 1.1 s / 12 s  (p50 / p99 / max, run time)
            section   20 ms / 395 ms / 400 ms
            release   150 us / 1.2 ms / 2.5 ms
  files     reports/flash/t-5/seed-5
"#,
    );
}

#[test]
fn the_overview_is_one_aligned_line_a_report() {
    assert_text(
        &plain(&terminal::overview(&all())),
        r#"flash / setnx-expire-del    FAIL          lock fail, business fail, violated 1 of 1
flash / token-lua-watchdog  PASS          lock pass, business pass, violated 0 of 1
flash / token-lua           INCONCLUSIVE  lock inconclusive, business inconclusive, violated 0 of 1
flash / set-nx-ex-del       PASS          lock fail, business fail, violated 3 of 3
flash / token-lua           FAIL          lock pass, business pass, violated 0 of 1"#,
    );
}

/// One report for each lock that there is.
fn compared() -> Vec<Report> {
    let of = |(place, lock): (usize, &'static str)| {
        let plan = plan(lock, 1);
        let (judged, orders, verdict) = match place {
            0 => (broken_judgement(12_345), 12_445, Verdict::Pass),
            1..=3 => (broken_judgement(37), 137, Verdict::Fail),
            4 => (doubtful_judgement(), 100, Verdict::Inconclusive),
            _ => (sound_judgement(), 100, Verdict::Pass),
        };
        let trial = trial(&plan, "reports/flash/t-1", judged, orders);
        report_of(&plan, vec![trial], verdict, &[])
    };
    lock::names().into_iter().enumerate().map(of).collect()
}

#[test]
fn the_comparison_is_one_table_of_all_locks() {
    assert_text(
        &plain(&terminal::comparison(&compared())),
        r#"flash  (seed 1, Redis 7.0.15, time scale 0.05)
                           over over foreign keys    wait                          verdict  as
lock                orders sold laps release left     p50   p99  max  ops/s lock   business expected
none                   12k  12k   41       0    0  340 ms 1.1 s 12 s     42 FAIL   FAIL     yes
setnx-expire-del       137   37   41       0    0  340 ms 1.1 s 12 s     42 FAIL   FAIL     NO
set-nx-ex-del          137   37   41       0    0  340 ms 1.1 s 12 s     42 FAIL   FAIL     NO
token-get-del          137   37   41       0    0  340 ms 1.1 s 12 s     42 FAIL   FAIL     NO
fixed-token-lua        100    0    0       0    0  340 ms 1.1 s 12 s     42 unsure unsure   unsure
token-lua              100    0    0       0    0  340 ms 1.1 s 12 s     42 pass   pass     yes
token-lua-watchdog     100    0    0       0    0  340 ms 1.1 s 12 s     42 pass   pass     yes
reentrant-watchdog     100    0    0       0    0  340 ms 1.1 s 12 s     42 pass   pass     yes
fair                   100    0    0       0    0  340 ms 1.1 s 12 s     42 pass   pass     yes
fenced                 100    0    0       0    0  340 ms 1.1 s 12 s     42 pass   pass     yes
redlock                100    0    0       0    0  340 ms 1.1 s 12 s     42 pass   pass     yes
redlock-watchdog       100    0    0       0    0  340 ms 1.1 s 12 s     42 pass   pass     yes
conditional            100    0    0       0    0  340 ms 1.1 s 12 s     42 pass   pass     yes
optimistic             100    0    0       0    0  340 ms 1.1 s 12 s     42 pass   pass     yes
unique                 100    0    0       0    0  340 ms 1.1 s 12 s     42 pass   pass     yes
"#,
    );
}

#[test]
fn the_comparison_fits_a_hundred_columns_with_the_largest_numbers() {
    let mut reports = compared();
    for report in &mut reports {
        (report.lock_verdict, report.business_verdict) = (Verdict::Inconclusive, Verdict::Fail);
        report.verdict = Verdict::Inconclusive;
        for trial in &mut report.trials {
            trial.ledger.orders = 999_999;
            trial.ledger.oversold = 999_899;
            trial.operations_per_second = 123_456.7;
            for property in Property::ALL {
                trial.violations.insert(property.word().to_owned(), 9_999);
            }
            trial.lock_wait = Quantiles {
                count: 1,
                p50_ns: 123_400_000,
                p99_ns: Some(999_400_000),
                max_ns: 999_400_000,
            };
        }
    }
    let table = plain(&terminal::comparison(&reports));
    for line in table.lines() {
        let columns = line.chars().count();
        assert!(columns <= 100, "{columns} columns: {line}");
        assert!(!line.trim().is_empty(), "a blank line in\n{table}");
        assert_eq!(line, line.trim_end(), "blanks at the end of a line");
    }
}

#[test]
fn where_starts_are_planned_the_wait_counts_from_there_and_missed_ones_are_told() {
    let mut report = passed();
    let trial = &mut report.trials[0];
    trial.lock_wait_corrected = Some(Quantiles {
        count: 100,
        p50_ns: 1_000_000_000,
        p99_ns: None,
        max_ns: 2_000_000_000,
    });
    trial.warnings = vec!["7 of 100 operations could not start in time".to_owned()];
    let text = plain(&terminal::summary(&report));
    assert!(text.contains("lock wait 1.0 s / - / 2.0 s "), "{text}");
    assert!(
        text.contains("from the actual start 340 ms / 1.1 s / 12 s"),
        "{text}"
    );
    assert!(text.contains("warning   7 of 100"), "{text}");
    let table = plain(&terminal::comparison(&[report]));
    let row = table.lines().last().expect("a row");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[6..11], ["1.0", "s", "-", "2.0", "s"], "{row}");
}

#[test]
fn a_report_that_could_not_be_written_ends_with_3_unless_something_was_violated() {
    let mut report = passed();
    report.unkept = vec!["history.jsonl: no space".to_owned()];
    assert_eq!(report.exit(), Exit::Environment);
    let mut report = failed();
    report.unkept = vec!["history.jsonl: no space".to_owned()];
    assert_eq!(report.exit(), Exit::Violated);
}

#[test]
fn a_comparison_without_a_grant_has_no_waits() {
    let mut report = passed();
    report.trials[0].lock_wait = Quantiles::default();
    let table = plain(&terminal::comparison(&[report]));
    let row = table.lines().last().expect("a row");
    assert_eq!(
        row.split_whitespace().filter(|cell| *cell == "-").count(),
        3,
        "{row}"
    );
}

#[test]
fn a_comparison_of_reconciliations_counts_postings() {
    let mut report = failed();
    report.trials[0].ledger = Ledger {
        entries: 20,
        postings: 26,
        double_processed: 6,
        ..Ledger::default()
    };
    let table = plain(&terminal::comparison(&[report]));
    assert!(table.contains("posted"), "{table}");
    let row = table.lines().last().expect("a row");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(&cells[..3], ["setnx-expire-del", "26", "6"]);
}

/// A report of a counter of which some increments were lost.
fn counted() -> Report {
    let mut report = failed();
    report.trials[0].ledger = Ledger {
        increments: 140,
        counted: 103,
        ..Ledger::default()
    };
    report
}

#[test]
fn a_counter_is_told_in_its_own_words() {
    let summary = plain(&terminal::summary(&counted()));
    let line = "  ledger    140 increments, and the counter shows 103: 37 lost\n";
    assert!(summary.contains(line), "{summary}");
    let mut trials = counted();
    trials.trials.push(trials.trials[0].clone());
    let summary = plain(&terminal::summary(&trials));
    assert!(summary.contains("  lost      least 37, "), "{summary}");
    let table = plain(&terminal::comparison(&[counted()]));
    assert!(table.contains("incre-"), "{table}");
    let row = table.lines().last().expect("a row");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(&cells[..3], ["setnx-expire-del", "140", "37"]);
}

#[test]
fn what_promises_no_exclusion_is_not_said_to_have_kept_it() {
    for lock in lock::ALL.iter() {
        let plan = plan(lock.name, 1);
        let trial = trial(&plan, "reports/flash/t-1", sound_judgement(), 100);
        let report = report_of(&plan, vec![trial], Verdict::Pass, &[]);
        let summary = plain(&terminal::summary(&report));
        let claimed = summary.contains("PASS  one section at a time");
        assert_eq!(claimed, lock.excludes, "{summary}");
    }
}

#[test]
fn verdicts_are_coloured_where_colours_are_shown() {
    let summary = terminal::summary(&failed());
    assert!(
        summary.contains("\u{1b}[1m\u{1b}[31mFAIL\u{1b}[0m"),
        "{summary:?}"
    );
}

// The matrix.

fn judged_with(lock: Verdict, business: Verdict, counts: &[(Property, u64)]) -> Judgement {
    Judgement {
        lock,
        business,
        counts: counts.to_vec(),
        ..sound_judgement()
    }
}

fn lock_broken() -> Judgement {
    judged_with(Verdict::Fail, Verdict::Pass, &[(Property::Overlap, 3)])
}

fn ledger_broken() -> Judgement {
    judged_with(Verdict::Pass, Verdict::Fail, &[(Property::Oversell, 1)])
}

fn key_left() -> Judgement {
    judged_with(Verdict::Fail, Verdict::Pass, &[(Property::OrphanKey, 1)])
}

/// A report of one trial for each judgement, as expected or not.
fn cell(lock: &str, verdict: Verdict, judged: &[Judgement]) -> Report {
    let plan = plan(lock, 1);
    let trials = judged
        .iter()
        .map(|judged| trial(&plan, "reports/matrix/t-1", judged.clone(), 100));
    report_of(&plan, trials.collect(), verdict, &[])
}

fn code(judged: &[Judgement]) -> String {
    matrix::code(&cell("token-lua", Verdict::Pass, judged))
}

#[test]
fn a_cell_says_what_broke() {
    assert_eq!(code(&[lock_broken()]), "L");
    assert_eq!(code(&[ledger_broken()]), "B");
    assert_eq!(code(&[key_left()]), "O");
    assert_eq!(code(&[broken_judgement(37)]), "LB");
    assert_eq!(code(&[sound_judgement()]), "-");
    assert_eq!(code(&[doubtful_judgement()]), "?");
}

#[test]
fn a_cell_with_all_three_has_all_three_letters() {
    let counts = [
        (Property::Overlap, 3),
        (Property::OrphanKey, 1),
        (Property::LostUpdate, 1),
    ];
    assert_eq!(
        code(&[judged_with(Verdict::Fail, Verdict::Fail, &counts)]),
        "LBO"
    );
}

#[test]
fn every_property_has_a_letter() {
    for property in Property::ALL {
        let judged = match property.side() {
            Side::Lock => judged_with(Verdict::Fail, Verdict::Pass, &[(property, 1)]),
            Side::Business => judged_with(Verdict::Pass, Verdict::Fail, &[(property, 1)]),
        };
        let expected = match property {
            Property::OrphanKey | Property::Starved | Property::Unsold => "O",
            _ if property.side() == Side::Lock => "L",
            _ => "B",
        };
        assert_eq!(code(&[judged]), expected, "{property:?}");
    }
}

#[test]
fn what_broke_in_some_trials_only_is_told_in_small_letters() {
    let sound = sound_judgement;
    assert_eq!(code(&[lock_broken(), sound()]), "l");
    assert_eq!(code(&[sound(), ledger_broken(), sound()]), "b");
    assert_eq!(code(&[key_left(), sound()]), "o");
    assert_eq!(code(&[broken_judgement(37), lock_broken()]), "Lb");
    assert_eq!(code(&[lock_broken(), ledger_broken()]), "lb");
}

#[test]
fn a_violation_outranks_a_doubt_and_a_doubt_outranks_nothing() {
    assert_eq!(code(&[lock_broken(), doubtful_judgement()]), "l");
    assert_eq!(code(&[sound_judgement(), doubtful_judgement()]), "?");
}

/// A row of the matrix, by the words that are in it.
fn matrix_row(reports: &[Report], lock: &str) -> Vec<String> {
    let table = matrix::table(reports);
    let of_lock = |line: &&str| line.split_whitespace().nth(1) == Some(lock);
    let row = table.lines().find(of_lock).expect("a row for the lock");
    row.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_matrix_marks_what_was_not_expected() {
    let reports = [
        cell("none", Verdict::Pass, &[broken_judgement(37)]),
        cell("token-lua", Verdict::Fail, &[lock_broken()]),
        cell("set-nx-ex-del", Verdict::Fail, &[sound_judgement()]),
        cell("fenced", Verdict::Inconclusive, &[doubtful_judgement()]),
    ];
    assert_eq!(matrix_row(&reports, "none")[2], "LB");
    assert_eq!(matrix_row(&reports, "token-lua")[2], "L!");
    assert_eq!(matrix_row(&reports, "set-nx-ex-del")[2], "-!");
    assert_eq!(matrix_row(&reports, "fenced")[2], "?");
    let legend = matrix::table(&reports);
    for meant in ["L ", "B ", "O ", "- ", "? ", "small letters", "! "] {
        assert!(legend.contains(meant), "{meant:?} is not explained");
    }
}

#[test]
fn the_price_of_a_lock_is_told_beside_none_in_the_same_scenario() {
    let mut none = cell("none", Verdict::Pass, &[broken_judgement(37)]);
    none.trials[0].operations_per_second = 80.0;
    let mut lock = cell("token-lua", Verdict::Pass, &[sound_judgement()]);
    lock.trials[0].operations_per_second = 20.0;
    let alone = matrix_row(std::slice::from_ref(&lock), "token-lua");
    assert_eq!(alone.last().map(String::as_str), Some("-"));
    let reports = [none, lock];
    let price = matrix_row(&reports, "token-lua");
    assert_eq!(price.last().map(String::as_str), Some("0.25"));
}

#[test]
fn the_matrix_is_aligned_and_fits_a_hundred_columns() {
    let mut reports: Vec<Report> = lock::names()
        .into_iter()
        .map(|lock| cell(lock, Verdict::Fail, &vec![broken_judgement(37); 100]))
        .collect();
    for report in &mut reports {
        report.scenario = "mistake-watchdog-not-cancelled".to_owned();
        report.lock_verdict = Verdict::Inconclusive;
        report.business_verdict = Verdict::Inconclusive;
        for trial in &mut report.trials {
            trial.ledger.oversold = 999_899;
            for property in Property::ALL {
                trial.violations.insert(property.word().to_owned(), 9_999);
            }
        }
    }
    let table = matrix::table(&reports);
    let rows: Vec<&str> = table.lines().take(reports.len() + 1).collect();
    for line in table.lines() {
        let columns = line.chars().count();
        assert!(columns <= 100, "{columns} columns: {line}");
        assert_eq!(line, line.trim_end(), "blanks at the end of a line");
    }
    let widths: Vec<usize> = rows.iter().map(|row| row.chars().count()).collect();
    assert!(widths.iter().all(|width| *width == widths[0]), "{table}");
}
