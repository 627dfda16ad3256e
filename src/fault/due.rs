//! Which faults are due: how often what each one waits for has come to pass, and its chance.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rand::RngExt;
use rand::rngs::ChaCha8Rng;

use crate::plan::Plan;
use crate::scenario::{At, Fault, Point, Seen};
use crate::seed::Seed;

/// What came to pass.
#[derive(Debug, Clone, Copy)]
pub(super) enum Passing {
    /// An operation reached a point.
    Point(Point),
    /// Something was seen of a key.
    Seen(Seen, u32),
}

impl Passing {
    /// Whether a fault waits for it, and for the how manieth one first.
    fn is_meant_by(self, at: &At) -> Option<u64> {
        match (at, self) {
            (At::Point { point, nth }, Passing::Point(reached)) if *point == reached => Some(*nth),
            (At::Seen { what, key, nth }, Passing::Seen(seen, of))
                if *what == seen && key.is_none_or(|key| key == of) =>
            {
                Some(*nth)
            }
            _ => None,
        }
    }
}

/// What has come to pass for one fault.
#[derive(Debug, Default)]
struct Count {
    passed: AtomicU64,
    struck: AtomicU64,
}

/// What a passing means for the faults, each by its place in the plan.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// These strike now.
    pub(super) now: Vec<usize>,
    /// These strike at the next one.
    pub(super) next: Vec<usize>,
}

/// The counts of all faults.
#[derive(Debug)]
pub(super) struct Counts {
    seed: Seed,
    counts: Vec<Count>,
    /// A stream for each fault and instance: what one draws does not hang on when others pass.
    // A std mutex and not tokio's: it is held for a draw.
    streams: Mutex<HashMap<(usize, u32), ChaCha8Rng>>,
}

impl Counts {
    pub(super) fn new(plan: &Plan) -> Counts {
        Counts {
            seed: Seed(plan.seed),
            counts: plan.faults.iter().map(|_| Count::default()).collect(),
            streams: Mutex::default(),
        }
    }

    /// The faults that strike when what they wait for comes to pass first.
    pub(super) fn first(plan: &[Fault]) -> Vec<usize> {
        let strikes = |fault: &Fault| match fault.at {
            At::Point { nth, .. } | At::Seen { nth, .. } => is_certain(fault, 1, nth),
            At::Time { .. } | At::Random { .. } => false,
        };
        let all = plan.iter().enumerate();
        all.filter_map(|(place, fault)| strikes(fault).then_some(place))
            .collect()
    }

    /// Something came to pass in an instance.
    pub(super) fn passed(&self, plan: &[Fault], passing: Passing, instance: u32) -> Due {
        let mut due = Due::default();
        for (place, (fault, count)) in plan.iter().zip(&self.counts).enumerate() {
            let Some(nth) = passing.is_meant_by(&fault.at) else {
                continue;
            };
            let times = count.passed.fetch_add(1, Ordering::Relaxed) + 1;
            if fault.repeat.strikes_at(times, nth) && self.has_its_chance(place, fault, instance) {
                due.now.push(place);
            }
            if is_certain(fault, times + 1, nth) {
                due.next.push(place);
            }
        }
        due
    }

    fn has_its_chance(&self, place: usize, fault: &Fault, instance: u32) -> bool {
        let Some(chance) = fault.repeat.chance else {
            return true;
        };
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        let stream = streams.entry((place, instance)).or_insert_with(|| {
            let purpose = format!("chance of fault {place}");
            self.seed.stream(&purpose, u64::from(instance))
        });
        let drawn = stream.random_bool(chance.clamp(0.0, 1.0));
        drop(streams);
        let struck = &self.counts[place].struck;
        let most = fault.repeat.times.unwrap_or(u64::MAX);
        drawn && struck.fetch_add(1, Ordering::Relaxed) < most
    }
}

/// Whether it surely strikes at a passing.
fn is_certain(fault: &Fault, passing: u64, nth: u64) -> bool {
    fault.repeat.chance.is_none() && fault.repeat.strikes_at(passing, nth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Overrides;
    use crate::scenario::{Scenario, Vocabulary};

    fn plan(seed: u64) -> Option<Plan> {
        let text = r#"
            name = "by-chance"
            load = { instances = 2, workers = 2, duration = "9s" }
            workload = { kind = "counter" }
            section = { constant = "1s" }
            lock = { kind = "token-lua", ttl = "5s" }
            fault = [{ kind = "crash", at = { when = "granted", nth = 3, chance = 0.5 } }]
        "#;
        let known = Vocabulary {
            locks: crate::lock::names(),
            properties: vec![],
        };
        let scenario = Scenario::parse("by-chance", text, &known).ok()?;
        let flags = Overrides::default();
        Some(Plan::resolve(&scenario, &flags, "token-lua", seed))
    }

    /// Whether each of these grants strikes its instance.
    fn strikes(seed: u64, instances: &[u32]) -> Vec<(u32, bool)> {
        let plan = plan(seed).expect("it is valid");
        let counts = Counts::new(&plan);
        let passed = |instance: &u32| {
            let due = counts.passed(&plan.faults, Passing::Seen(Seen::Granted, 0), *instance);
            (*instance, !due.now.is_empty())
        };
        instances.iter().map(passed).collect()
    }

    #[test]
    fn what_an_instance_draws_does_not_hang_on_when_another_one_passes() {
        let of = |all: Vec<(u32, bool)>, wanted: u32| -> Vec<bool> {
            let all = all.into_iter().skip(2).filter(|(of, _)| *of == wanted);
            all.map(|(_, strikes)| strikes).collect()
        };
        let in_turn: Vec<u32> = [0, 1].repeat(20);
        let one_after_the_other = [vec![0, 1], vec![1; 19], vec![0; 19]].concat();
        for instance in [0, 1] {
            let first = of(strikes(7, &in_turn), instance);
            assert_eq!(first, of(strikes(7, &one_after_the_other), instance));
            assert!(first.contains(&true) && first.contains(&false), "{first:?}");
            assert_ne!(first, of(strikes(8, &in_turn), instance));
        }
    }

    #[test]
    fn nothing_strikes_before_the_nth_time() {
        let early = strikes(7, &[0, 0]);
        assert_eq!(early, [(0, false), (0, false)]);
    }
}
