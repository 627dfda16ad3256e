//! `ledger`: the business. Sold against stock, stock and orders against the initial stock, each
//! entry processed exactly once. The counts come from the ledger; the history says which stale
//! writes did it, and why their sections were not alone.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::{Cause, Finding, Findings, Property, Role, Witness};
use super::operation::Operation;
use super::scene::Scene;
use super::{Check, Entry, Outcome};
use crate::clock::Time;
use crate::history::event::{Effect, Event, Kind, Stop};
use crate::plan::Plan;
use crate::store::Ledger;

pub(super) const ENTRY: Entry = Entry {
    name: "ledger",
    about: "sold <= stock, stock + orders = initial stock, each entry processed exactly once",
    make: |plan| {
        Box::new(LedgerCheck {
            effect: EffectOf::new(plan),
            ..LedgerCheck::default()
        })
    },
};

/// What a write does to an item, by the kind of business.
#[derive(Debug, Clone, Copy, Default)]
pub struct EffectOf {
    /// The items are counters: their numbers grow with each write.
    counts_up: bool,
}

impl EffectOf {
    /// For a plan's business.
    pub fn new(plan: &Plan) -> EffectOf {
        EffectOf {
            counts_up: plan.workload.counts_up(),
        }
    }

    /// How far a write of so many rows that replaced one number by another shifted the sum of
    /// both: a stale one gives units back (more than 0), or makes some vanish.
    pub fn shift(self, rows: u32, replaced: i64, left: i64) -> i64 {
        let moved = match self.counts_up {
            true => left - replaced,
            false => replaced - left,
        };
        i64::from(rows) - moved
    }
}

#[derive(Default)]
struct LedgerCheck {
    effect: EffectOf,
    /// Rows that the history says were written.
    rows: i64,
    /// Stale writes that gave units back, or did entries again.
    given: Harm,
    /// Stale writes that made units vanish.
    taken: Harm,
    /// Items that an operation came for; the others had no chance to be processed.
    tried: BTreeSet<u32>,
    /// Items that were written, or seen to need nothing more.
    served: BTreeSet<u32>,
    /// Why the first section that heeded the loss of its lease had lost it.
    withheld: Option<Cause>,
    store_failed: u64,
    crashed: bool,
    stop: Option<Stop>,
}

/// What stale writes of one direction did.
#[derive(Default)]
struct Harm {
    /// Units, by cause.
    by_cause: BTreeMap<Cause, i64>,
    /// How many writes, and the one that did the most.
    writes: u64,
    worst: Option<Stale>,
}

struct Stale {
    at: Time,
    harm: i64,
    seen: i64,
    replaced: i64,
    left: i64,
    cause: Cause,
    witness: Witness,
    name: String,
}

impl Check for LedgerCheck {
    fn event(&mut self, event: &Event, scene: &mut Scene, _: &mut Findings) {
        match &event.event {
            Kind::Arrived { key, .. } => {
                self.tried.insert(*key);
            }
            Kind::Read { item, value, .. } if *value <= 0 => {
                self.served.insert(*item);
            }
            Kind::Wrote {
                op,
                item,
                seen,
                replaced,
                left,
                effect,
            } => {
                let writer = scene.op(*op);
                let Effect::Written { rows, .. } = effect else {
                    let lost = writer.and_then(|op| op.lost.or(op.overlap));
                    self.withheld
                        .get_or_insert(lost.unwrap_or(Cause::Unexplained));
                    return;
                };
                self.rows += i64::from(*rows);
                self.served.insert(*item);
                // What the guard refused did no harm.
                if let Some(writer) = writer.filter(|_| *rows > 0) {
                    let shift = self.effect.shift(*rows, *replaced, *left);
                    self.stale(event.at_ns, writer, (*seen, *replaced, *left), shift);
                }
            }
            Kind::StoreFailed { .. } => self.store_failed += 1,
            Kind::Crashed { .. } => self.crashed = true,
            Kind::Draining { why } => self.stop = Some(why.clone()),
            _ => {}
        }
    }

    fn end(&mut self, end: &Outcome<'_>, _: &Scene, out: &mut Findings) {
        if self.store_failed > 0 {
            out.doubt(format!("the store failed {} times", self.store_failed));
        }
        let ledger = match end.ledger {
            Ok(ledger) => ledger,
            Err(why) => return out.doubt(format!("the ledger is not known: {why}")),
        };
        if ledger.oversold > 0 {
            let what = format!(
                "{} orders for {} units: {} oversold",
                ledger.orders, ledger.stock, ledger.oversold
            );
            out.add(finding(Property::Oversell, &self.given, what));
        }
        // Each stale write shifts the sum of stock and orders by its harm.
        let astray = ledger.remaining + ledger.orders - ledger.stock;
        if astray != 0 {
            let what = format!(
                "{} orders and {} units left do not make {}: stale writes shifted the stock by {}",
                ledger.orders, ledger.remaining, ledger.stock, astray
            );
            let harm = match astray > 0 {
                true => &self.given,
                false => &self.taken,
            };
            out.add(finding(Property::LostUpdate, harm, what));
        }
        if ledger.increments != ledger.counted {
            let what = format!(
                "the counter shows {} after {} increments",
                ledger.counted, ledger.increments
            );
            out.add(finding(Property::LostUpdate, &self.given, what));
        }
        if ledger.double_processed > 0 {
            let what = format!(
                "{} of {} entries were processed more than once",
                ledger.double_processed, ledger.entries
            );
            out.add(finding(Property::DoubleProcessing, &self.given, what));
        }
        if ledger.never_processed > 0 {
            self.never_processed(ledger, out);
        }
        let landed = ledger.orders + ledger.postings + ledger.increments;
        if landed != self.rows && !self.crashed {
            out.doubt(format!(
                "history and ledger disagree: {} rows recorded, {landed} in the ledger",
                self.rows
            ));
        }
    }
}

impl LedgerCheck {
    /// Notes a write if it was stale.
    fn stale(
        &mut self,
        at: Time,
        writer: &Operation,
        (seen, replaced, left): (i64, i64, i64),
        shift: i64,
    ) {
        let tally = match shift {
            0 => return,
            1.. => &mut self.given,
            _ => &mut self.taken,
        };
        tally.add(Stale {
            at,
            harm: shift.abs(),
            seen,
            replaced,
            left,
            cause: cause_of(writer),
            witness: writer.witness(Role::Writer, at),
            name: writer.name(),
        });
    }

    /// Entries that nobody processed are a violation only when the run came to its own end and
    /// somebody had come for them.
    fn never_processed(&self, ledger: &Ledger, out: &mut Findings) {
        let what = format!(
            "{} of {} entries were never processed",
            ledger.never_processed, ledger.entries
        );
        let in_vain = self.tried.difference(&self.served).next().is_some();
        match self.stop {
            _ if self.store_failed > 0 => out.doubt(format!("{what}: the store had failed")),
            Some(Stop::OperationsDone) if in_vain => out.add(self.given_up(what)),
            Some(Stop::NothingLeft) => out.add(self.given_up(what)),
            Some(Stop::OperationsDone) => out.doubt(format!(
                "{what}, and no operation came for them: more operations (`-n`)"
            )),
            Some(Stop::NobodyLeft) => out.doubt(format!("{what}: every instance had crashed")),
            _ => out.doubt(format!(
                "{what} before the run ended: give it longer (`-z`)"
            )),
        }
    }

    fn given_up(&self, summary: String) -> Finding {
        let crashed = self.crashed.then_some(Cause::HolderCrashed);
        let cause = self.withheld.or(crashed).unwrap_or(Cause::Unexplained);
        Finding {
            property: Property::NeverProcessed,
            cause,
            at_ns: Time::default(),
            summary,
            witnesses: vec![],
        }
    }
}

/// Why a write was stale.
fn cause_of(writer: &Operation) -> Cause {
    let late = writer.released.map(|_| Cause::EffectAfterRelease);
    let cause = late.filter(|_| writer.overlap.is_none());
    cause.or(writer.overlap).unwrap_or(Cause::Unexplained)
}

impl Harm {
    fn add(&mut self, stale: Stale) {
        self.writes += 1;
        *self.by_cause.entry(stale.cause).or_default() += stale.harm;
        if self.worst.as_ref().is_none_or(|w| stale.harm > w.harm) {
            self.worst = Some(stale);
        }
    }

    /// The cause of most of it. The driver's lag is the cause only where it did all of it.
    fn cause(&self) -> Cause {
        let real = self.by_cause.iter();
        let real = real.filter(|(cause, _)| **cause != Cause::DriverLag);
        let most = real.max_by_key(|(_, harm)| **harm);
        let any = most.or_else(|| self.by_cause.first_key_value());
        any.map_or(Cause::Unexplained, |(cause, _)| *cause)
    }
}

/// A ledger finding with the stale write that did the most as its witness.
fn finding(property: Property, harm: &Harm, what: String) -> Finding {
    let cause = harm.cause();
    let Some(worst) = &harm.worst else {
        return Finding {
            property,
            cause,
            at_ns: Time::default(),
            summary: what,
            witnesses: vec![],
        };
    };
    let how = match property {
        Property::DoubleProcessing => format!(
            "{} did {} entries again that another had done",
            worst.name, worst.harm
        ),
        _ => format!(
            "{} had read {} and wrote {} over {}",
            worst.name, worst.seen, worst.left, worst.replaced
        ),
    };
    Finding {
        property,
        cause,
        at_ns: worst.at,
        summary: format!(
            "{what}; {} stale writes, the worst: {how} ({})",
            harm.writes,
            worst.cause.word()
        ),
        witnesses: vec![worst.witness.clone()],
    }
}
