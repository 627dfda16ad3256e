//! What a check finds: which property was violated, by whom, when, and why.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::Time;
use crate::history::OpId;

/// What can be violated.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Property {
    /// Two sections at one time.
    Overlap,
    /// A release that removed another's lock.
    ForeignRelease,
    /// A section entered without the lock.
    EntryWithoutGrant,
    /// A key left behind: without a TTL, or alive longer than a TTL after everyone had stopped, or
    /// kept by who was not answered and gave up.
    OrphanKey,
    /// A worker refused although nobody alive had held the lock for longer than a lease.
    Starved,
    /// After a fault had ended, whoever asked got nothing but errors for longer than a lease.
    NotAgain,
    /// Units left although customers asked for them to the end and could not get in.
    Unsold,
    /// A release by who had not acquired.
    ReleaseUnacquired,
    /// An acquire by who holds the lock already, and was refused it.
    NestedAcquire,
    /// A lease of another length than planned.
    WrongTtl,
    /// A renewal that extended another's lease.
    ForeignRenewal,
    /// A renewal after the release.
    RenewalAfterRelease,
    /// A section in progress whose watchdog has ceased to ask.
    WatchdogDead,
    /// A lease that was lost, and its holder not told of it.
    UntoldLoss,
    /// An answer of a lock that is not what the server had said.
    FalseAnswer,
    /// A waiter that asks over and over again.
    BusySpinning,
    /// A write after the release.
    EffectAfterRelease,
    /// A write although the watchdog had told that the lease was lost.
    UnheededLoss,
    /// More orders than stock.
    Oversell,
    /// Stock and orders do not add up to the initial stock: a stale write undid others.
    LostUpdate,
    /// An entry processed more than once.
    DoubleProcessing,
    /// An entry not processed although every operation came to its end.
    NeverProcessed,
}

/// Whose promise a property is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The lock's.
    Lock,
    /// The business's.
    Business,
}

impl Property {
    /// All of them.
    pub const ALL: [Property; 22] = [
        Property::Overlap,
        Property::ForeignRelease,
        Property::EntryWithoutGrant,
        Property::OrphanKey,
        Property::Starved,
        Property::NotAgain,
        Property::Unsold,
        Property::ReleaseUnacquired,
        Property::NestedAcquire,
        Property::WrongTtl,
        Property::ForeignRenewal,
        Property::RenewalAfterRelease,
        Property::WatchdogDead,
        Property::UntoldLoss,
        Property::FalseAnswer,
        Property::BusySpinning,
        Property::EffectAfterRelease,
        Property::UnheededLoss,
        Property::Oversell,
        Property::LostUpdate,
        Property::DoubleProcessing,
        Property::NeverProcessed,
    ];

    /// The word for it in scenarios and reports.
    pub fn word(self) -> &'static str {
        match self {
            Property::Overlap => "overlap",
            Property::ForeignRelease => "foreign-release",
            Property::EntryWithoutGrant => "entry-without-grant",
            Property::OrphanKey => "orphan-key",
            Property::Starved => "starved",
            Property::NotAgain => "not-again",
            Property::Unsold => "unsold",
            Property::ReleaseUnacquired => "release-unacquired",
            Property::NestedAcquire => "nested-acquire",
            Property::WrongTtl => "wrong-ttl",
            Property::ForeignRenewal => "foreign-renewal",
            Property::RenewalAfterRelease => "renewal-after-release",
            Property::WatchdogDead => "watchdog-dead",
            Property::UntoldLoss => "untold-loss",
            Property::FalseAnswer => "false-answer",
            Property::BusySpinning => "busy-spinning",
            Property::EffectAfterRelease => "effect-after-release",
            Property::UnheededLoss => "unheeded-loss",
            Property::Oversell => "oversell",
            Property::LostUpdate => "lost-update",
            Property::DoubleProcessing => "double-processing",
            Property::NeverProcessed => "never-processed",
        }
    }

    /// Whose promise it is. Unsold units are the lock's: the ledger is right about them.
    pub fn side(self) -> Side {
        match self {
            Property::Oversell
            | Property::LostUpdate
            | Property::DoubleProcessing
            | Property::NeverProcessed
            | Property::EffectAfterRelease
            | Property::UnheededLoss => Side::Business,
            _ => Side::Lock,
        }
    }

    /// The words of all properties.
    pub fn words() -> Vec<&'static str> {
        Property::ALL.map(Property::word).to_vec()
    }
}

/// Why it could happen. Read off the history, never off the scenario.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// There is no lock.
    NoLock,
    /// The section outlived its lease.
    LeaseExpired,
    /// The holder stood still, its watchdog too, until its lease ran out.
    FrozenHolder,
    /// Another operation's release removed the lock.
    ForeignRelease,
    /// The lease ran out because renewals failed or were not answered.
    RenewalFailed,
    /// The holder's process died.
    HolderCrashed,
    /// The answer to an acquire was lost; the server may have applied it.
    ReplyLost,
    /// The server evicted the key.
    Evicted,
    /// A replica was promoted that did not know of the grant.
    PromotionLostGrant,
    /// Two servers were the primary at once, and each granted the lock.
    SplitBrain,
    /// A server restarted without the data that it had.
    ServerLostData,
    /// A server's wall clock jumped, and ended the lease.
    ServerClock,
    /// A refused acquire was taken for a granted one.
    DenialIgnored,
    /// An acquire failed and the section was entered all the same.
    FailOpen,
    /// The effect came after the release.
    EffectAfterRelease,
    /// The code around the lock makes a mistake.
    Mistake,
    /// What a fault had done was not overcome when it had ended.
    AfterFault,
    /// The driver itself was late. Not the lock's fault: such a finding is no violation, and makes
    /// the run inconclusive.
    DriverLag,
    /// The history does not tell.
    Unexplained,
}

impl Cause {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Cause::NoLock => "no-lock",
            Cause::LeaseExpired => "lease-expired",
            Cause::FrozenHolder => "frozen-holder",
            Cause::ForeignRelease => "foreign-release",
            Cause::RenewalFailed => "renewal-failed",
            Cause::HolderCrashed => "holder-crashed",
            Cause::ReplyLost => "reply-lost",
            Cause::Evicted => "evicted",
            Cause::PromotionLostGrant => "promotion-lost-grant",
            Cause::SplitBrain => "split-brain",
            Cause::ServerLostData => "server-lost-data",
            Cause::ServerClock => "server-clock",
            Cause::DenialIgnored => "denial-ignored",
            Cause::FailOpen => "fail-open",
            Cause::EffectAfterRelease => "effect-after-release",
            Cause::Mistake => "mistake",
            Cause::AfterFault => "after-fault",
            Cause::DriverLag => "driver-lag",
            Cause::Unexplained => "unexplained",
        }
    }
}

/// One violated property with its witnesses and its cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// What was violated.
    pub property: Property,
    /// Why.
    pub cause: Cause,
    /// When it was seen, in nanoseconds of the run.
    #[schemars(with = "u64")]
    pub at_ns: Time,
    /// One sentence.
    pub summary: String,
    /// The operations concerned, the first one first.
    pub witnesses: Vec<Witness>,
}

/// An operation that a finding is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Witness {
    /// The operation.
    pub op: OpId,
    /// Its instance.
    pub instance: u32,
    /// Its worker.
    pub worker: u32,
    /// Its part in it.
    pub role: Role,
    /// The moment that makes it a witness, in nanoseconds of the run.
    #[schemars(with = "u64")]
    pub at_ns: Time,
}

/// A witness's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// It was in the section first.
    Holder,
    /// It came in beside the holder.
    Intruder,
    /// It removed another's lock.
    Releaser,
    /// Its lock was removed.
    Victim,
    /// It wrote what others had changed.
    Writer,
    /// It was refused.
    Refused,
    /// It waits for the lock.
    Waiter,
}

/// How many findings of a property are kept; all are counted.
const KEPT: usize = 50;

/// The findings so far.
#[derive(Debug, Default)]
pub struct Findings {
    kept: Vec<Finding>,
    /// Violations by property, kept or not.
    counts: [u64; Property::ALL.len()],
    /// Findings that only the driver's lag explains, by property.
    driver_counts: [u64; Property::ALL.len()],
    /// Reasons why the run cannot answer the question.
    doubts: Vec<String>,
}

impl Findings {
    /// Adds a finding.
    pub fn add(&mut self, finding: Finding) {
        let counts = match finding.cause {
            Cause::DriverLag => &mut self.driver_counts,
            _ => &mut self.counts,
        };
        let count = &mut counts[finding.property as usize];
        *count += 1;
        if *count as usize <= KEPT {
            self.kept.push(finding);
        }
    }

    /// Adds a reason for not knowing.
    pub fn doubt(&mut self, why: String) {
        self.doubts.push(why);
    }

    /// How often a property was violated.
    pub fn count(&self, property: Property) -> u64 {
        self.counts[property as usize]
    }

    /// How often a property looked violated by the driver's own lag.
    pub fn driver_count(&self, property: Property) -> u64 {
        self.driver_counts[property as usize]
    }

    /// The findings that were kept so far.
    pub fn kept(&self) -> &[Finding] {
        &self.kept
    }

    /// The doubts.
    pub fn take_doubts(&mut self) -> Vec<String> {
        std::mem::take(&mut self.doubts)
    }
}
