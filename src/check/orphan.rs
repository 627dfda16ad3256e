//! `orphan-key`: nobody leaves a key behind. `starved`: who asks gets in, at the latest one lease
//! after the last living holder; what stayed unsold for that reason is told with it.

use std::time::Duration;

use super::finding::{Cause, Finding, Findings, Property, Role};
use super::scene::Scene;
use super::{Check, Entry, Outcome};
use crate::clock::Time;
use crate::history::event::{Event, Kind};

pub(super) const ENTRY: Entry = Entry {
    name: "orphan",
    about: "no key is left behind; who asks gets in within a lease of the last living holder",
    make: |plan| {
        Box::new(Orphan {
            longest_vacancy: plan.longest_vacancy(),
            starving: Vec::new(),
        })
    },
};

struct Orphan {
    longest_vacancy: Duration,
    /// For each key: the vacancy (by its start) that was already told, and its cause.
    starving: Vec<(u32, Time, Cause)>,
}

impl Check for Orphan {
    fn event(&mut self, event: &Event, scene: &mut Scene, out: &mut Findings) {
        match event.event {
            Kind::Denied { op } => self.denied(event, op, scene, out),
            Kind::Granted { op, .. } => {
                if let Some(op) = scene.op(op) {
                    self.starving.retain(|(key, ..)| *key != op.key);
                }
            }
            Kind::KeyAtEnd {
                key,
                pttl_ns,
                after_ns,
            } => out.add(self.left_behind(event, scene, key, pttl_ns, after_ns)),
            _ => {}
        }
    }

    fn end(&mut self, end: &Outcome<'_>, _: &Scene, out: &mut Findings) {
        let Some((_, since, cause)) = self.starving.first() else {
            return;
        };
        if end.ledger.unsold > 0 {
            out.add(Finding {
                property: Property::Unsold,
                cause: *cause,
                at_ns: *since,
                summary: format!(
                    "{} of {} units stayed unsold: to the end customers asked and nobody got in",
                    end.ledger.unsold, end.ledger.stock
                ),
                witnesses: vec![],
            });
        }
    }
}

impl Orphan {
    fn denied(&mut self, event: &Event, op: u64, scene: &Scene, out: &mut Findings) {
        let Some(refused) = scene.op(op) else {
            return;
        };
        let Some(key) = scene.key(refused.key) else {
            return;
        };
        let Some(since) = key.vacant_since else {
            return;
        };
        let told = self.starving.iter().any(|(key, ..)| *key == refused.key);
        let vacant = event.at_ns.since(since);
        // Somebody whose question was never answered (its instance stands still, say) may be the
        // holder.
        let long_ago = Time(
            event
                .at_ns
                .0
                .saturating_sub(self.longest_vacancy.as_nanos() as u64),
        );
        if told || vacant <= self.longest_vacancy || scene.asking_since(refused.key, long_ago) {
            return;
        }
        let cause = key.vacant_cause.unwrap_or(Cause::Unexplained);
        self.starving.push((refused.key, since, cause));
        out.add(Finding {
            property: Property::Starved,
            cause,
            at_ns: event.at_ns,
            summary: format!(
                "{} was refused the lock although nobody alive had held it for {vacant:.0?}, \
                 longer than a lease",
                refused.name()
            ),
            witnesses: vec![refused.witness(Role::Refused, event.at_ns)],
        });
    }

    fn left_behind(
        &self,
        event: &Event,
        scene: &Scene,
        key: u32,
        pttl_ns: Option<u64>,
        after_ns: u64,
    ) -> Finding {
        let after = Duration::from_nanos(after_ns);
        let what = match pttl_ns {
            None => "has no TTL: it stays for ever, and nobody gets in again".to_owned(),
            Some(_) => format!("still lives {after:.0?} after the last operation"),
        };
        let cause = scene.key(key).and_then(|key| key.vacant_cause);
        Finding {
            property: Property::OrphanKey,
            cause: cause.unwrap_or(Cause::Unexplained),
            at_ns: event.at_ns,
            summary: format!("the lock's key was left behind and {what}"),
            witnesses: vec![],
        }
    }
}
