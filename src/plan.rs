//! A scenario with every choice made: lock, seed, flags and scale resolved, durations in the run's
//! own time. Equal scenarios, flags and seeds give equal plans; a stored plan can be run again.

mod external;
mod soak;

pub use external::ExternalShape;
pub use soak::{Keys, Pace, Soak, SoakFlags};

use std::time::Duration;

use rand::{Rng, RngExt};
use serde::{Deserialize, Serialize};

use crate::clock::nanos;
use crate::scenario::{
    Acknowledged, At, Dist, Expect, Fault, Guard, How, Load, Means, Mistake, Moment, Repeat,
    Scenario, Store, Threshold, Topology, Wait, Workload,
};
use crate::seed::Seed;

/// The version of `plan.json`.
pub const SCHEMA_VERSION: u32 = 1;

/// The shortest response time-out that a plan sets by itself. Shorter ones would, on a busy
/// machine, make unknown outcomes out of the driver's own lag.
const LEAST_RESPONSE_TIMEOUT: Duration = Duration::from_millis(200);

/// What one trial does, decided to the last choice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The scenario's name.
    pub scenario: String,
    /// The scenario's title.
    pub title: String,
    /// The seed of all random choices.
    pub seed: u64,
    /// The factor by which durations were scaled.
    pub time_scale: f64,
    /// The servers.
    pub topology: Topology,
    /// Who issues how much.
    pub load: Load,
    /// The business.
    pub workload: Workload,
    /// How long the section's work takes.
    pub section: Dist,
    /// Whether a section that is told of its lost lease withholds its write.
    pub heeds_lost_lease: bool,
    /// The lock.
    pub lock: LockPlan,
    /// The database.
    pub store: Store,
    /// Its backstop.
    pub guard: Guard,
    /// What is done on purpose.
    pub faults: Vec<Fault>,
    /// What is expected of this lock.
    pub expect: Expect,
    /// What is demanded of what is measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<Threshold>,
    /// What it has beyond a trial if it is a soak.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soak: Option<Soak>,
}

/// Which lock, and its parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LockPlan {
    /// Its name in the registry.
    pub kind: String,
    /// How long a lease lives without renewal.
    pub ttl_ns: u64,
    /// What a denied worker does.
    pub wait: Wait,
    /// How many replicas must have a grant before it counts, if any must.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Acknowledged>,
    /// A mistake that is made around it, if one is.
    pub mistake: Option<Mistake>,
    /// How long a client waits for an answer.
    pub response_timeout_ns: u64,
}

/// What flags change in every scenario of a command.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    /// `--lock`
    pub lock: Option<String>,
    /// `--seed`
    pub seed: Option<u64>,
    /// `--trials`
    pub trials: Option<u32>,
    /// `--time-scale`
    pub time_scale: Option<f64>,
    /// `-c`
    pub workers: Option<u32>,
    /// `-n`
    pub operations: Option<u64>,
    /// `-z`
    pub duration: Option<Duration>,
    /// `--mistake`
    pub mistake: Option<Mistake>,
    /// `--expect`
    pub expect: Option<Expect>,
    /// `--store`
    pub store: Option<Store>,
    /// `--url`
    pub external: Option<ExternalShape>,
    /// What `oversold soak` asks for.
    pub soak: Option<SoakFlags>,
}

impl Overrides {
    /// The seeds of all trials, in order.
    pub fn seeds(&self, scenario: &Scenario) -> Vec<u64> {
        let first = self.seed.unwrap_or(scenario.seed);
        let trials = self.trials.unwrap_or(scenario.trials);
        (0..u64::from(trials))
            .map(|trial| first.wrapping_add(trial))
            .collect()
    }

    /// The lock that a run without `--locks` uses.
    pub fn lock<'a>(&'a self, scenario: &'a Scenario) -> &'a str {
        self.lock.as_deref().unwrap_or(&scenario.lock)
    }
}

impl Plan {
    /// Decides everything for one trial of `scenario` under `lock`.
    pub fn resolve(scenario: &Scenario, flags: &Overrides, lock: &str, seed: u64) -> Plan {
        let scale = flags.time_scale.unwrap_or(scenario.time_scale);
        let scaled = |duration: Duration| scaled(nanos(duration), scale);
        let workers = flags.workers.unwrap_or(scenario.load.workers);
        let duration = flags.duration.map_or(scenario.load.duration_ns, nanos);
        let soak = flags.soak.as_ref();
        let instances = soak.and_then(|soak| soak.instances);
        let mut load = Load {
            workers,
            // Fewer workers than instances would leave instances with nobody in them.
            instances: instances.unwrap_or(scenario.load.instances).min(workers),
            operations: flags.operations.or(scenario.load.operations),
            duration_ns: scaled(Duration::from_nanos(duration)),
            think: scenario.load.think.scaled(scale),
            stages: scenario.load.stages.clone(),
        };
        if let Some(soak) = soak {
            soak.change(&mut load, flags.operations);
        }
        let keys = soak.and_then(|soak| soak.keys?.of(&scenario.workload, workers));
        let workload = keys.as_ref().unwrap_or(&scenario.workload);
        let section = soak.and_then(|soak| soak.section.clone());
        let ttl_ns = whole_milliseconds(scaled(scenario.ttl));
        let response_timeout_ns = match scenario.response_timeout {
            Some(timeout) => scaled(timeout),
            None => ttl_ns.max(nanos(LEAST_RESPONSE_TIMEOUT)),
        };
        let named = scenario.expect.get(lock);
        Plan {
            schema_version: SCHEMA_VERSION,
            scenario: scenario.name.clone(),
            title: scenario.title.clone(),
            seed,
            time_scale: scale,
            topology: scenario.topology,
            workload: scaled_workload(workload, scale),
            section: section.unwrap_or_else(|| scenario.section.scaled(scale)),
            heeds_lost_lease: scenario.heeds_lost_lease,
            lock: LockPlan {
                kind: lock.to_owned(),
                ttl_ns,
                wait: scaled_wait(&scenario.wait, scale),
                acknowledged: scenario.acknowledged.map(|how| how.scaled(scale)),
                mistake: flags.mistake.or(scenario.mistake),
                response_timeout_ns,
            },
            store: flags.store.unwrap_or(scenario.store),
            guard: scenario.guard,
            faults: resolve_faults(scenario, scale, &load, seed),
            load,
            expect: (flags.expect.clone())
                .or_else(|| named.cloned())
                .unwrap_or(Expect::Pass),
            thresholds: match soak {
                Some(soak) => [&scenario.thresholds[..], &soak.thresholds].concat(),
                None => scenario.thresholds.clone(),
            },
            soak: soak.map(SoakFlags::soak),
        }
    }

    /// How long a lease lives without renewal.
    pub fn ttl(&self) -> Duration {
        Duration::from_nanos(self.lock.ttl_ns)
    }

    /// The TTL that the lock is made with: another one where the mistake is its unit.
    pub fn made_ttl(&self) -> Duration {
        match self.lock.mistake {
            Some(Mistake::TtlTooLong) => self.ttl() * 1000,
            Some(Mistake::TtlTooShort) => (self.ttl() / 1000).max(Duration::from_millis(1)),
            Some(Mistake::TtlCutToZero) => Duration::ZERO,
            _ => self.ttl(),
        }
    }

    /// How many connections the workers have to each node: one each, and one more while they wait
    /// for a wake-up.
    pub fn connections(&self) -> u32 {
        match self.lock.wait {
            Wait::WakeUp { .. } => self.load.workers.saturating_mul(2),
            Wait::FailFast | Wait::Retry { .. } => self.load.workers,
        }
    }

    /// Whether a fault needs a link in front of each server.
    pub fn needs_link(&self) -> bool {
        self.faults.iter().any(|fault| fault.how.needs_link())
    }

    /// Whether a fault is done by these means.
    pub fn has_faults_by(&self, means: Means) -> bool {
        self.faults.iter().any(|fault| fault.how.means() == means)
    }

    /// How long operations are issued.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.load.duration_ns)
    }

    /// The longest that an operation may take once it has the lock: its section and the pauses
    /// that the plan makes it suffer. The end of a run waits that long, and a little more.
    pub fn longest_section(&self) -> Duration {
        let held_up = self.faults.iter().map(|fault| fault.how.holds_up_ns());
        self.section.longest() + Duration::from_nanos(held_up.sum())
    }

    /// Whether a fault moves a server's wall clock.
    pub fn moves_clocks(&self) -> bool {
        let mut faults = self.faults.iter();
        faults.any(|fault| matches!(fault.how, How::Server { fault, .. } if fault.moves_clocks()))
    }

    /// The longest that a waiter pauses between two questions, by its own will.
    pub fn longest_pause(&self) -> Duration {
        match self.lock.wait {
            Wait::Retry {
                backoff,
                give_up_after_ns,
                ..
                // They grow until the waiter gives up.
            } if backoff > 1.0 => Duration::from_nanos(give_up_after_ns).max(self.first_pause()),
            _ => self.first_pause(),
        }
    }

    fn first_pause(&self) -> Duration {
        match self.lock.wait {
            // Who waits for a wake-up asks by himself after a lease at the latest.
            Wait::FailFast | Wait::WakeUp { .. } => Duration::ZERO,
            Wait::Retry {
                every_ns, jitter, ..
            } => Duration::from_nanos(every_ns).mul_f64(1.0 + jitter),
        }
    }

    /// How long nobody may get the lock while no living holder has it: a lease, as a dead holder
    /// leaves it, and one retry, with half a lease to spare for a busy machine. In a queue the next
    /// one may pause, and stand behind a dead one that is given as long.
    pub fn longest_vacancy(&self, in_a_queue: bool) -> Duration {
        let spare = (self.ttl() / 2).max(Duration::from_millis(100));
        let pauses = match in_a_queue {
            true => self.longest_pause() * 2,
            false => self.first_pause(),
        };
        self.ttl() + pauses + spare
    }
}

/// A number of nanoseconds on another scale.
fn scaled(ns: u64, scale: f64) -> u64 {
    (ns as f64 * scale).round() as u64
}

/// Redis counts leases in whole milliseconds, and none is shorter than one
/// (<https://redis.io/docs/latest/commands/set/>): what is planned is what the server gives.
fn whole_milliseconds(ns: u64) -> u64 {
    let milliseconds = (ns as f64 / 1e6).round().max(1.0) as u64;
    milliseconds.saturating_mul(1_000_000)
}

fn scaled_wait(wait: &Wait, scale: f64) -> Wait {
    match *wait {
        Wait::FailFast => Wait::FailFast,
        Wait::Retry {
            every_ns,
            jitter,
            backoff,
            give_up_after_ns,
        } => Wait::Retry {
            every_ns: scaled(every_ns, scale),
            jitter,
            backoff,
            give_up_after_ns: scaled(give_up_after_ns, scale),
        },
        Wait::WakeUp { bound_ns } => Wait::WakeUp {
            bound_ns: scaled(bound_ns, scale),
        },
    }
}

fn scaled_workload(workload: &Workload, scale: f64) -> Workload {
    match *workload {
        Workload::Cron { ticks, every_ns } => Workload::Cron {
            ticks,
            every_ns: scaled(every_ns, scale),
        },
        ref other => other.clone(),
    }
}

/// Scales the faults and draws the times and instances that the scenario leaves open.
fn resolve_faults(scenario: &Scenario, scale: f64, load: &Load, seed: u64) -> Vec<Fault> {
    let resolve = |(place, fault): (usize, &Fault)| {
        let (mut at, mut repeat) = (fault.at.clone(), fault.repeat);
        let mut rng = Seed(seed).stream("fault", place as u64);
        match &mut at {
            At::Point { .. } | At::Seen { .. } => {}
            At::Time { at_ns, instance } => {
                *at_ns = scaled(*at_ns, scale);
                repeat.every = scaled(repeat.every, scale).max(1);
                let whom = instance.unwrap_or_else(|| rng.random_range(0..load.instances));
                *instance = Some(whom.min(load.instances - 1));
            }
            At::Random {
                from_ns,
                to_ns,
                instance,
                drawn,
            } => {
                (*from_ns, *to_ns) = (scaled(*from_ns, scale), scaled(*to_ns, scale));
                *drawn = draw((*from_ns, *to_ns), *instance, repeat, load, &mut rng);
            }
        }
        Fault {
            at,
            repeat,
            how: fault.how.scaled(scale),
            again: fault.again,
        }
    };
    scenario.faults.iter().enumerate().map(resolve).collect()
}

/// Random strikes in a window, in the order of their times.
fn draw(
    (from_ns, to_ns): (u64, u64),
    instance: Option<u32>,
    repeat: Repeat,
    load: &Load,
    rng: &mut impl Rng,
) -> Vec<Moment> {
    let mut drawn: Vec<_> = (0..repeat.times.unwrap_or(1))
        .map(|_| Moment {
            at_ns: rng.random_range(from_ns..=to_ns),
            instance: instance.map_or_else(
                || rng.random_range(0..load.instances),
                |instance| instance.min(load.instances - 1),
            ),
        })
        .collect();
    drawn.sort_unstable();
    drawn
}
