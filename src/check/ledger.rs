//! `ledger`: the business. Sold against stock, stock and orders against the initial stock, each
//! entry processed exactly once. The counts come from the ledger; the history says which stale
//! writes did it, and why their sections were not alone.

use std::collections::BTreeMap;

use super::finding::{Cause, Finding, Findings, Property, Role, Witness};
use super::scene::Scene;
use super::{Check, Entry, Outcome};
use crate::clock::Time;
use crate::history::event::{Effect, Event, Kind, Stop};

pub(super) const ENTRY: Entry = Entry {
    name: "ledger",
    about: "sold <= stock, stock + orders = initial stock, each entry processed exactly once",
    make: |_| Box::new(LedgerCheck::default()),
};

#[derive(Default)]
struct LedgerCheck {
    /// Rows that the history says were written.
    rows: i64,
    /// Units given back, or entries done again, by stale writes, by cause.
    harm: BTreeMap<Cause, i64>,
    /// How many stale writes there were, and the one that did the most.
    stale: u64,
    worst: Option<Stale>,
    store_failed: u64,
    crashed: bool,
    stop: Option<Stop>,
}

struct Stale {
    at: Time,
    harm: i64,
    seen: i64,
    replaced: i64,
    cause: Cause,
    witness: Witness,
    name: String,
}

impl Check for LedgerCheck {
    fn event(&mut self, event: &Event, scene: &mut Scene, _: &mut Findings) {
        match &event.event {
            Kind::Wrote {
                op,
                seen,
                replaced,
                effect: Effect::Written { rows, .. },
                ..
            } => {
                self.rows += i64::from(*rows);
                let harm = seen - replaced;
                // What the guard refused did no harm.
                if harm != 0
                    && *rows > 0
                    && let Some(writer) = scene.op(*op)
                {
                    let cause = writer.overlap.unwrap_or(Cause::Unexplained);
                    self.stale += 1;
                    *self.harm.entry(cause).or_default() += harm;
                    if self.worst.as_ref().is_none_or(|worst| harm > worst.harm) {
                        self.worst = Some(Stale {
                            at: event.at_ns,
                            harm,
                            seen: *seen,
                            replaced: *replaced,
                            cause,
                            witness: writer.witness(Role::Writer, event.at_ns),
                            name: writer.name(),
                        });
                    }
                }
            }
            Kind::StoreFailed { .. } => self.store_failed += 1,
            Kind::Crashed { .. } => self.crashed = true,
            Kind::Draining { why } => self.stop = Some(why.clone()),
            _ => {}
        }
    }

    fn end(&mut self, end: &Outcome<'_>, _: &Scene, out: &mut Findings) {
        let ledger = end.ledger;
        if ledger.oversold > 0 {
            let what = format!(
                "{} orders for {} units: {} oversold",
                ledger.orders, ledger.stock, ledger.oversold
            );
            out.add(self.finding(Property::Oversell, what));
        }
        let astray = ledger.remaining + ledger.orders - ledger.stock;
        if astray != 0 {
            let what = format!(
                "{} orders and {} units left do not make {}: stale writes shifted the stock by {}",
                ledger.orders, ledger.remaining, ledger.stock, astray
            );
            out.add(self.finding(Property::LostUpdate, what));
        }
        if ledger.double_processed > 0 {
            let what = format!(
                "{} of {} entries were processed more than once",
                ledger.double_processed, ledger.entries
            );
            out.add(self.finding(Property::DoubleProcessing, what));
        }
        if ledger.never_processed > 0 {
            self.never_processed(end, out);
        }
        if self.store_failed > 0 {
            out.doubt(format!("the store failed {} times", self.store_failed));
        }
        let landed = ledger.orders + ledger.postings;
        if landed != self.rows && !self.crashed {
            out.doubt(format!(
                "history and ledger disagree: {} rows recorded, {landed} in the ledger",
                self.rows
            ));
        }
    }
}

impl LedgerCheck {
    /// A ledger finding with the stale write that did the most as its witness. Its cause is that
    /// of most of the harm.
    fn finding(&self, property: Property, what: String) -> Finding {
        let most = self
            .harm
            .iter()
            .filter(|(cause, _)| **cause != Cause::DriverLag);
        let most = most.max_by_key(|(_, harm)| **harm).map(|(cause, _)| *cause);
        let cause = most.unwrap_or(match self.harm.is_empty() {
            true => Cause::Unexplained,
            false => Cause::DriverLag,
        });
        let Some(worst) = &self.worst else {
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
                worst.name,
                worst.seen,
                worst.seen - 1,
                worst.replaced
            ),
        };
        Finding {
            property,
            cause,
            at_ns: worst.at,
            summary: format!(
                "{what}; {} stale writes, the worst: {how} ({})",
                self.stale,
                worst.cause.word()
            ),
            witnesses: vec![worst.witness.clone()],
        }
    }

    /// Entries that nobody processed are a violation only when the run came to its own end.
    fn never_processed(&self, end: &Outcome<'_>, out: &mut Findings) {
        let what = format!(
            "{} of {} entries were never processed",
            end.ledger.never_processed, end.ledger.entries
        );
        match self.stop {
            Some(Stop::OperationsDone | Stop::NothingLeft | Stop::NobodyLeft) => {
                out.add(self.finding(Property::NeverProcessed, what));
            }
            _ => out.doubt(format!(
                "{what} before the run ended: give it longer (`-z`)"
            )),
        }
    }
}
