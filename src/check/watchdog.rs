//! `watchdog-dead`: while a section runs its watchdog goes on asking. `untold-loss`: who has lost its
//! lease is told within a renewal interval. A frozen instance, the driver's lag and a question that is
//! on its way excuse both.

use std::collections::HashMap;
use std::time::Duration;

use super::finding::{Cause, Finding, Findings, Property, Role};
use super::operation::Operation;
use super::scene::{Scene, Window, common};
use super::{Check, Entry};
use crate::client;
use crate::clock::Time;
use crate::history::OpId;
use crate::history::event::{Event, Kind};
use crate::plan::Plan;

pub(super) const ENTRY: Entry = Entry {
    name: "watchdog",
    about: "while a section runs its watchdog asks, and tells a lost lease within an interval",
    make: |plan| Box::new(Watchdogs::new(plan)),
};

/// What a busy machine may add to an interval, at least; of a longer one as much again.
const LEAST_MARGIN: Duration = Duration::from_millis(100);

struct Watchdogs {
    /// How long a renewal may be on its way.
    patience: Duration,
    /// Those of sections in progress.
    watching: HashMap<OpId, Watching>,
}

/// The watchdog of a section in progress.
struct Watching {
    instance: u32,
    /// By when it is to ask next.
    due: Time,
    /// The question that is on its way.
    asked: Option<Time>,
    /// The last one that was answered, or came to nothing.
    last: Window,
    /// It has told that the lease is lost, and need not ask any more.
    told: bool,
}

impl Watchdogs {
    fn new(plan: &Plan) -> Watchdogs {
        Watchdogs {
            patience: client::longest_call(plan),
            watching: HashMap::new(),
        }
    }
}

impl Check for Watchdogs {
    fn event(&mut self, event: &Event, scene: &mut Scene, out: &mut Findings) {
        let Some(every) = scene.renews_every() else {
            return;
        };
        let at = event.at_ns;
        match &event.event {
            Kind::Entered { op } => self.begins(*op, at, every, scene),
            Kind::RenewalAsked { op } => {
                let dead = self.dead(*op, at, every, scene);
                if let Some(watching) = self.watching.get_mut(op) {
                    watching.asked = Some(at);
                }
                dead.into_iter().for_each(|finding| out.add(finding));
            }
            Kind::Renewed { op } | Kind::RenewalFailed { op, .. } => {
                if let Some(watching) = self.watching.get_mut(op) {
                    watching.answered(at, every);
                }
            }
            Kind::LeaseLost { op } => {
                let untold = self.untold(*op, at, every, scene);
                if let Some(watching) = self.watching.get_mut(op) {
                    watching.told = true;
                }
                untold.into_iter().for_each(|finding| out.add(finding));
            }
            Kind::Left { op } => {
                let dead = self.dead(*op, at, every, scene);
                let untold = self.untold(*op, at, every, scene);
                self.watching.remove(op);
                dead.into_iter().chain(untold).for_each(|f| out.add(f));
            }
            Kind::Crashed { instance } => {
                let lives = |watching: &Watching| watching.instance != *instance;
                self.watching.retain(|_, watching| lives(watching));
            }
            _ => {}
        }
    }
}

impl Watchdogs {
    fn begins(&mut self, op: OpId, at: Time, every: Duration, scene: &Scene) {
        let Some(operation) = scene.op(op) else {
            return;
        };
        // Without a grant there is nothing to watch.
        if operation.grant.as_ref().is_some_and(|grant| grant.locked) {
            let watching = Watching {
                instance: operation.instance,
                due: at.plus(every),
                asked: None,
                last: (at, at),
                told: false,
            };
            self.watching.insert(op, watching);
        }
    }

    /// It should have asked long ago.
    fn dead(&self, op: OpId, at: Time, every: Duration, scene: &Scene) -> Option<Finding> {
        let watching = self.watching.get(&op)?;
        if watching.told || watching.asked.is_some() {
            return None;
        }
        let late = at.since(watching.due);
        let window = (watching.due, at);
        if late <= every.max(LEAST_MARGIN) + excused(scene, watching.instance, window) {
            return None;
        }
        let what = format!(
            "was in its section for {:.0?} without a renewal being asked for; its watchdog is to \
             ask every {every:.0?}",
            late + every
        );
        let cause = Cause::Mistake;
        Some(finding(
            scene.op(op)?,
            at,
            Property::WatchdogDead,
            cause,
            &what,
        ))
    }

    /// Its lock was surely not its own any more, and it went on without being told.
    fn untold(&self, op: OpId, at: Time, every: Duration, scene: &Scene) -> Option<Finding> {
        let watching = self.watching.get(&op).filter(|watching| !watching.told)?;
        let operation = scene.op(op)?;
        let grant = operation.grant.as_ref()?;
        // What its own server can tell it.
        let gone = grant.gone(grant.by.as_deref());
        let ended = gone.into_iter().chain(grant.latest_end()).min()?;
        let since = ended.max(operation.entered?);
        let window = (since, at);
        let open = watching.asked.map_or((at, at), |asked| (asked, at));
        let on_its_way = common(watching.last, window) + common(open, window);
        let silent = at.since(since);
        let excused = excused(scene, watching.instance, window) + on_its_way.min(self.patience);
        if silent <= every + every.max(LEAST_MARGIN) + excused {
            return None;
        }
        let what = format!(
            "had lost its lease for {silent:.0?} and was not told; its watchdog is to ask every \
             {every:.0?}"
        );
        let cause = match grant.renewal_failed {
            Some(_) => Cause::RenewalFailed,
            None => Cause::Mistake,
        };
        Some(finding(operation, at, Property::UntoldLoss, cause, &what))
    }
}

impl Watching {
    fn answered(&mut self, at: Time, every: Duration) {
        if let Some(asked) = self.asked.take() {
            self.last = (asked, at);
            self.due = asked.plus(every).max(at);
        }
    }
}

/// How much of a window was not the watchdog's own. Half of a lag measured is evidence for all of
/// it: what comes between two measurements adds to it.
fn excused(scene: &Scene, instance: u32, window: Window) -> Duration {
    scene.frozen_within(instance, window) + scene.lag_within(instance, window) * 2
}

fn finding(
    operation: &Operation,
    at_ns: Time,
    property: Property,
    cause: Cause,
    what: &str,
) -> Finding {
    Finding {
        property,
        cause,
        at_ns,
        summary: format!("{} {what}", operation.name()),
        witnesses: vec![operation.witness(Role::Holder, at_ns)],
    }
}
