//! The story of the first violation: who held the lock, when its lease ended, who came in, whose
//! lock was removed, and what that did to the ledger. Told from the events of the operations
//! concerned; each next victim joins the cast.

use std::collections::BTreeSet;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::finding::{Cause, Finding, Property, Side};
use super::scene::{Operation, Scene};
use crate::clock::Time;
use crate::history::OpId;
use crate::history::event::{Effect, Event, Kind, Release};
use crate::plan::Plan;

/// How many lines a story has at most.
const LONGEST: usize = 14;
/// How many operations are in its cast at most: A, B, C and their next.
const CAST: usize = 4;

/// One sentence of a story.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// When, in nanoseconds of the run.
    #[schemars(with = "u64")]
    pub at_ns: Time,
    /// What happened.
    pub text: String,
}

/// A story in the making.
#[derive(Debug)]
pub struct Story {
    lines: Vec<Line>,
    /// The operations in it, in the order of their appearance: A, B, C, ...
    cast: Vec<OpId>,
    gone: BTreeSet<OpId>,
    scale: f64,
}

impl Story {
    /// A story that has not begun.
    pub fn new(plan: &Plan) -> Story {
        Story {
            lines: Vec::new(),
            cast: Vec::new(),
            gone: BTreeSet::new(),
            scale: plan.time_scale,
        }
    }

    /// The story, in the order of time.
    pub fn lines(&self) -> Vec<Line> {
        let mut lines = self.lines.clone();
        lines.sort_by_key(|line| line.at_ns);
        lines
    }

    /// Takes in an event and what the checks have just found in it.
    pub fn event(&mut self, event: &Event, scene: &Scene, new: &[Finding]) {
        for finding in new {
            if finding.cause != Cause::DriverLag && finding.property.side() == Side::Lock {
                self.finding(event, scene, finding);
            }
        }
        if !self.cast.is_empty() && !self.full() {
            self.follow(event, scene, new);
        }
    }

    fn full(&self) -> bool {
        self.lines.len() >= LONGEST
    }

    fn say(&mut self, at_ns: Time, text: String) {
        self.lines.push(Line { at_ns, text });
    }

    /// A duration in the incident's own time.
    fn incident(&self, run: Duration) -> String {
        let seconds = run.as_secs_f64() / self.scale;
        match seconds {
            s if s < 1.0 => format!("{:.0} ms", s * 1e3),
            s => format!("{s:.1} s"),
        }
    }

    /// The letter of an operation in the cast.
    fn letter(&self, op: OpId) -> Option<char> {
        let place = self.cast.iter().position(|known| *known == op)?;
        char::from_u32('A' as u32 + place as u32)
    }

    fn finding(&mut self, event: &Event, scene: &Scene, finding: &Finding) {
        if self.full() {
            return;
        }
        match finding.property {
            Property::Overlap => {
                let [holder, intruder] = finding.witnesses.as_slice() else {
                    return;
                };
                let begins = self.cast.is_empty();
                let belongs = self.cast.contains(&holder.op) && !self.gone.contains(&holder.op);
                let known = self.cast.contains(&intruder.op);
                if known || !(begins || belongs) || self.cast.len() >= CAST {
                    return;
                }
                if begins && let Some(holder) = scene.op(holder.op) {
                    self.introduce(holder);
                }
                if let (Some(holder), Some(intruder)) = (scene.op(holder.op), scene.op(intruder.op))
                {
                    self.enters(event, holder, intruder, finding.cause);
                }
            }
            Property::ForeignRelease => {}
            // A key that nobody can get past has no cast.
            _ if self.cast.is_empty() && self.lines.len() < 3 => {
                self.say(finding.at_ns, finding.summary.clone());
            }
            _ => {}
        }
    }

    /// What the holder had done before anything was wrong.
    fn introduce(&mut self, holder: &Operation) {
        self.cast.push(holder.op);
        let name = format!("A, {},", holder.name());
        if let Some(grant) = &holder.grant {
            let lease = match grant.ttl {
                Some(ttl) => format!("is granted the lock for {}", self.incident(ttl)),
                None if grant.locked => "is granted the lock, without a lease".to_owned(),
                None => "takes no lock".to_owned(),
            };
            self.say(grant.answered, format!("{name} {lease}"));
        }
        if let (Some((began, work)), Some(seen)) = (holder.work, holder.seen) {
            let work = self.incident(work);
            self.say(began, format!("A reads {seen}; its work takes {work}"));
        }
    }

    fn enters(&mut self, event: &Event, holder: &Operation, intruder: &Operation, cause: Cause) {
        let held = self.letter(holder.op).unwrap_or('A');
        if let Some(grant) = &holder.grant
            && let Some(end) = grant.earliest_end().filter(|end| *end <= event.at_ns)
        {
            let text = match cause {
                Cause::LeaseExpired => {
                    Some(format!("{held}'s lease runs out; {held} is still at work"))
                }
                Cause::FrozenHolder => Some(format!(
                    "{held}'s lease runs out; its instance stands still, its watchdog too"
                )),
                Cause::RenewalFailed => Some(format!(
                    "{held}'s lease runs out: its renewals came to nothing"
                )),
                _ => None,
            };
            if let Some(text) = text {
                self.say(end, text);
            }
        }
        self.cast.push(intruder.op);
        let letter = self.letter(intruder.op).unwrap_or('B');
        let name = intruder.name();
        let text = format!("{letter}, {name}, gets in beside {held}");
        self.say(event.at_ns, text);
    }

    /// What those in the cast do next.
    fn follow(&mut self, event: &Event, scene: &Scene, new: &[Finding]) {
        let text = match &event.event {
            Kind::Wrote {
                op,
                seen,
                replaced,
                effect,
                ..
            } => self
                .letter(*op)
                .map(|who| wrote(who, *seen, *replaced, effect)),
            Kind::LeaseLost { op } => {
                let who = self.letter(*op);
                who.map(|who| format!("{who}'s watchdog learns that the lease is lost"))
            }
            Kind::Thawed { instance } => self.thawed(*instance, scene),
            Kind::Released { op, outcome } => {
                let who = self.letter(*op);
                self.gone.insert(*op);
                who.map(|who| self.released(who, outcome, new))
            }
            _ => None,
        };
        if let Some(text) = text {
            self.say(event.at_ns, text);
        }
    }

    fn thawed(&self, instance: u32, scene: &Scene) -> Option<String> {
        let struck = self.cast.iter().filter_map(|op| scene.op(*op));
        let struck = struck.filter(|op| op.instance == instance);
        let who = struck.filter_map(|op| self.letter(op.op)).next()?;
        Some(format!(
            "{who}'s instance goes on; {who} believes that it holds the lock"
        ))
    }

    fn released(&self, who: char, outcome: &Release, new: &[Finding]) -> String {
        let foreign = new.iter().find(|f| f.property == Property::ForeignRelease);
        let victim = foreign.and_then(|finding| finding.witnesses.get(1));
        match (victim, outcome) {
            (Some(victim), _) => match self.letter(victim.op) {
                Some(letter) => format!("{who}'s release removes {letter}'s lock"),
                None => format!(
                    "{who}'s release removes the lock of operation {}",
                    victim.op
                ),
            },
            (None, Release::Removed) => format!("{who} releases the lock"),
            (None, Release::Gone) => format!("{who} releases, and there is no lock"),
            (None, Release::NotMine) => {
                format!("{who} releases, and its token does not match: nothing is removed")
            }
            (None, Release::Nothing) => format!("{who} is through"),
            (None, Release::Failed(error)) => format!("{who}'s release fails: {error}"),
            (None, Release::Unknown(error)) => format!("{who}'s release is not answered: {error}"),
        }
    }
}

fn wrote(who: char, seen: i64, replaced: i64, effect: &Effect) -> String {
    match effect {
        Effect::Withheld => format!("{who} heeds the loss and does not write"),
        Effect::Written { rows: 0, rejected } => {
            format!("{who} writes, and the store's guard refuses it ({rejected})")
        }
        Effect::Written { rows, .. } if seen == replaced => {
            format!("{who} writes over the {seen} that it had read ({rows} added)")
        }
        Effect::Written { rows, .. } => format!(
            "{who} writes as if there were still {seen}; there are {replaced} ({rows} added): \
             {} too many",
            seen - replaced
        ),
    }
}
