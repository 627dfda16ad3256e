//! The story of the first violation: who held the lock, when its lease ended, who came in, whose
//! lock was removed, and what that did to the ledger. Told from the events of the operations
//! concerned; each next victim joins the cast.

use std::collections::BTreeSet;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::finding::{Cause, Finding, Property, Side};
use super::operation::Operation;
use super::scene::Scene;
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
    /// Operations that got in beside one of the cast and are not in it.
    others: u32,
    scale: f64,
}

impl Story {
    /// A story that has not begun.
    pub fn new(plan: &Plan) -> Story {
        Story {
            lines: Vec::new(),
            cast: Vec::new(),
            gone: BTreeSet::new(),
            others: 0,
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
        match finding.property {
            Property::Overlap => self.overlap(event, scene, finding),
            Property::ForeignRelease => {}
            // A key that nobody can get past has no cast.
            _ if self.cast.is_empty() && self.lines.len() < 3 => {
                self.say(finding.at_ns, finding.summary.clone());
            }
            _ => {}
        }
    }

    /// The first one who gets in beside A is B. Later ones join only by way of a removed lock:
    /// that is the chain.
    fn overlap(&mut self, event: &Event, scene: &Scene, finding: &Finding) {
        let [holder, intruder] = finding.witnesses.as_slice() else {
            return;
        };
        let (Some(holder), Some(intruder)) = (scene.op(holder.op), scene.op(intruder.op)) else {
            return;
        };
        if self.cast.is_empty() {
            self.introduce(holder);
            return self.enters(event, scene, holder, intruder, finding.cause);
        }
        let beside = self.cast.contains(&holder.op) && !self.gone.contains(&holder.op);
        if !beside || self.cast.contains(&intruder.op) {
            return;
        }
        match finding.cause == Cause::ForeignRelease && self.cast.len() < CAST && !self.full() {
            true => self.enters(event, scene, holder, intruder, finding.cause),
            false => self.others += 1,
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

    fn enters(
        &mut self,
        event: &Event,
        scene: &Scene,
        holder: &Operation,
        intruder: &Operation,
        cause: Cause,
    ) {
        let held = self.letter(holder.op).unwrap_or('A');
        let end = holder.grant.as_ref().and_then(|grant| grant.nominal_end());
        let how = match cause {
            Cause::LeaseExpired => Some(format!("{held} is still at work")),
            Cause::FrozenHolder => Some("its instance stands still, its watchdog too".to_owned()),
            Cause::RenewalFailed => Some("its renewals came to nothing".to_owned()),
            _ => None,
        };
        if let (Some(end), Some(how)) = (end.filter(|end| *end <= event.at_ns), how) {
            self.say(end, format!("{held}'s lease runs out; {how}"));
        }
        if cause == Cause::PromotionLostGrant
            && let Some(grant) = &holder.grant
            && let Some(at) = scene.lost_in_promotion(holder.key, (grant.answered, event.at_ns))
        {
            let text = format!("a replica is promoted that does not know of {held}'s lock");
            self.say(at, text);
        }
        if cause == Cause::SplitBrain
            && let Some((held, got)) = holder.grant.as_ref().zip(intruder.grant.as_ref())
            && let Some(servers) = held.by.as_deref().zip(got.by.as_deref())
            && let Some(at) = scene.split_between(servers, (held.asked, event.at_ns))
        {
            let (one, other) = servers;
            self.say(at, format!("{one} and {other} are both the primary"));
        }
        if let Some(grant) = &holder.grant
            && let window = (grant.answered, event.at_ns)
            && let Some((at, why)) = scene.lost_by_server(holder.key, window)
            && why == cause
        {
            let how = match cause {
                Cause::ServerClock => "a server's clock jumps",
                _ => "a server restarts without its data",
            };
            self.say(at, format!("{how}, and {held}'s lock is gone"));
        }
        let letter = self.joins(intruder.op);
        let name = intruder.name();
        self.say(
            event.at_ns,
            format!("{letter}, {name}, gets in beside {held}"),
        );
    }

    /// The letter of an operation, which joins the cast if it is not in it.
    fn joins(&mut self, op: OpId) -> char {
        if self.letter(op).is_none() {
            self.cast.push(op);
        }
        self.letter(op).unwrap_or('?')
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
                who.map(|who| {
                    self.gone.insert(*op);
                    self.released(who, outcome, scene, new)
                })
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

    fn released(&mut self, who: char, outcome: &Release, scene: &Scene, new: &[Finding]) -> String {
        let foreign = new.iter().find(|f| f.property == Property::ForeignRelease);
        let victim = foreign.and_then(|finding| finding.witnesses.get(1));
        let victim = victim.and_then(|victim| scene.op(victim.op));
        if let Some(victim) = victim {
            let new = self.letter(victim.op).is_none();
            let letter = self.joins(victim.op);
            return match new {
                true => {
                    let name = victim.name();
                    format!("{who}'s release removes the lock of {letter}, {name}")
                }
                false => format!("{who}'s release removes {letter}'s lock"),
            };
        }
        match outcome {
            Release::Removed => format!("{who} releases the lock"),
            Release::Gone => format!("{who} releases, and there is no lock"),
            Release::NotMine => {
                format!("{who} releases, and its token does not match: nothing is removed")
            }
            Release::Nothing => format!("{who} is through"),
            Release::StillHeld(holds) => format!("{who} gives one hold back; {holds} are left"),
            Release::Failed(error) => format!("{who}'s release fails: {error}"),
            Release::Unknown(error) => format!("{who}'s release is not answered: {error}"),
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
        Effect::Written { rows, .. } if seen > replaced => format!(
            "{who} writes as if there were still {seen}; there are {replaced} ({rows} added): \
             {} too many",
            seen - replaced
        ),
        Effect::Written { rows, .. } => format!(
            "{who} writes as if there were only {seen}; there are {replaced} ({rows} added)"
        ),
    }
}
