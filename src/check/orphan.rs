//! `orphan-key`: nobody leaves a key behind. `starved`: who asks gets in, at the latest one lease
//! after the last living holder; what stayed unsold for that reason is told with it.

use std::time::Duration;

use super::finding::{Cause, Finding, Findings, Property, Role};
use super::key::Key;
use super::scene::Scene;
use super::{Check, Entry, Outcome};
use crate::clock::Time;
use crate::history::event::{Event, KEPT_ALIVE, Kind};
use crate::lock;

pub(super) const ENTRY: Entry = Entry {
    name: "orphan",
    about: "no key is left behind; who asks gets in within a lease of the last living holder",
    make: |plan| {
        Box::new(Orphan {
            longest_vacancy: plan
                .longest_vacancy(lock::find(&plan.lock.kind).is_some_and(|lock| lock.queues)),
            suspected: Vec::new(),
            starving: Vec::new(),
        })
    },
};

struct Orphan {
    longest_vacancy: Duration,
    /// Refusals after too long a vacancy, at most one a key, that wait for the answers of those who
    /// were asking at the time: one of them may be the holder.
    suspected: Vec<Refusal>,
    /// For each key: the vacancy (by its start) that was already told, and its cause.
    starving: Vec<(u32, Time, Cause)>,
}

struct Refusal {
    key: u32,
    since: Time,
    finding: Finding,
}

impl Check for Orphan {
    fn event(&mut self, event: &Event, scene: &mut Scene, out: &mut Findings) {
        match event.event {
            Kind::Denied { op } => self.denied(event, op, scene),
            Kind::Granted { op, .. } => {
                if let Some(op) = scene.op(op) {
                    self.starving.retain(|(key, ..)| *key != op.key);
                    self.suspected.retain(|refusal| refusal.key != op.key);
                }
            }
            Kind::KeyAtEnd {
                key,
                pttl_ns,
                after_ns,
                rises,
                // Operations that the driver cut short are no proof against the lock.
            } if !scene.is_open(key) => {
                let after = Duration::from_nanos(after_ns);
                out.add(left_behind(event, scene, key, pttl_ns, after, rises));
            }
            _ => {}
        }
        if !self.suspected.is_empty() {
            self.settle(scene, out);
        }
    }

    fn end(&mut self, end: &Outcome<'_>, _: &Scene, out: &mut Findings) {
        let Some((_, since, cause)) = self.starving.first() else {
            return;
        };
        let Ok(ledger) = end.ledger else {
            return;
        };
        if ledger.unsold > 0 {
            out.add(Finding {
                property: Property::Unsold,
                cause: *cause,
                at_ns: *since,
                summary: format!(
                    "{} of {} units stayed unsold: to the end customers asked and nobody got in",
                    ledger.unsold, ledger.stock
                ),
                witnesses: vec![],
            });
        }
    }
}

impl Orphan {
    fn denied(&mut self, event: &Event, op: u64, scene: &Scene) {
        let Some(refused) = scene.op(op) else {
            return;
        };
        let since = scene.key(refused.key).and_then(|key| key.vacant_since);
        // The server refused it at some moment since it asked: its answer may be old.
        let Some((since, asked)) = since.zip(refused.asked) else {
            return;
        };
        let vacant = asked.since(since);
        let told = self.starving.iter().any(|(key, ..)| *key == refused.key);
        let suspected = self.suspected.iter().any(|r| r.key == refused.key);
        if told || suspected || vacant <= self.longest_vacancy {
            return;
        }
        let cause = scene.key(refused.key).and_then(Key::why_vacant);
        let finding = Finding {
            property: Property::Starved,
            cause: cause.unwrap_or(Cause::Unexplained),
            at_ns: event.at_ns,
            summary: format!(
                "{} was refused the lock although nobody alive had held it for {vacant:.0?}, \
                 longer than a lease",
                refused.name()
            ),
            witnesses: vec![refused.witness(Role::Refused, event.at_ns)],
        };
        self.suspected.push(Refusal {
            key: refused.key,
            since,
            finding,
        });
    }

    /// Tells each suspicion that nobody can disprove any more, and drops those that proved wrong.
    fn settle(&mut self, scene: &Scene, out: &mut Findings) {
        let starving = &mut self.starving;
        self.suspected.retain(|refusal| {
            let (key, at) = (refusal.key, refusal.finding.at_ns);
            if scene.key(key).and_then(|key| key.vacant_since) != Some(refusal.since) {
                return false;
            }
            let open = scene.asking_since(key, at);
            if !open {
                starving.push((key, refusal.since, refusal.finding.cause));
                out.add(refusal.finding.clone());
            }
            open
        });
    }
}

fn left_behind(
    event: &Event,
    scene: &Scene,
    key: u32,
    pttl_ns: Option<u64>,
    after: Duration,
    rises: u32,
) -> Finding {
    let kept_alive = rises >= KEPT_ALIVE;
    let what = match pttl_ns {
        None => "has no TTL: it stays for ever, and nobody gets in again".to_owned(),
        Some(left) if kept_alive => format!(
            "{} {after:.0?} after the last operation: its lease was extended {rises} \
             times since, by a watchdog that outlives everything",
            match left {
                0 => "lived for",
                _ => "still lives",
            }
        ),
        Some(_) => format!("still lives {after:.0?} after the last operation"),
    };
    let known = scene.key(key).and_then(Key::why_vacant);
    Finding {
        property: Property::OrphanKey,
        cause: match kept_alive {
            true => Cause::Mistake,
            false => known.unwrap_or(Cause::Unexplained),
        },
        at_ns: event.at_ns,
        summary: format!("the lock's key was left behind and {what}"),
        witnesses: vec![],
    }
}
