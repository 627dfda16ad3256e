//! Faults as a scenario asks for them: what is done on purpose, when, and to whom.

use serde::{Deserialize, Serialize};

use super::failover_fault::{self, failover_fault};
use super::instance_fault::{InstanceFault, instance_fault};
use super::link_fault::{LinkFault, link_fault};
use super::read::{Field, Table};
use super::schedule::{At, Repeat};
use super::server_fault::{ServerFault, server_fault};
use super::times::positive;
use super::when::{at_of, is_foreseen, is_time};
use crate::clock::nanos;

/// Something done on purpose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// When it strikes first, and whom.
    pub at: At,
    /// How often.
    #[serde(default)]
    pub repeat: Repeat,
    /// What it does.
    pub how: How,
    /// Whether the lock must be granted again when it is over.
    #[serde(default)]
    pub again: bool,
}

impl Fault {
    /// How often it is to strike, if that is not left to chance or to the length of the run.
    pub fn planned_strikes(&self) -> Option<u64> {
        match self.repeat.chance {
            Some(_) => None,
            None => self.repeat.times,
        }
    }
}

/// What a fault does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// An instance is struck.
    Instance {
        /// What is done to it.
        fault: InstanceFault,
    },
    /// Every server refuses writes, with an error.
    RefuseWrites {
        /// For how long.
        for_ns: u64,
    },
    /// The primary dies before it has told its replicas of a grant, and one of them is promoted.
    /// Of independent nodes one dies.
    LostGrant,
    /// The primary is cut off from its replicas and Sentinels, one is promoted elsewhere, and both
    /// grant. Of independent nodes one is out of reach for all instances but one.
    SplitBrain {
        /// For how long there are two.
        for_ns: u64,
    },
    /// The Sentinels are told to hand the primary's part over. Of independent nodes one dies.
    Graceful,
    /// Something on the way between processes.
    OnLink(LinkFault),
    /// A worker's request is applied, and its answer never arrives.
    LoseReply {
        /// Which answer.
        which: Reply,
    },
    /// Nothing passes between the instance and any server; the connections stay open.
    CutOff {
        /// For how long.
        for_ns: u64,
    },
    /// What the instance sends arrives later.
    Delay {
        /// By how much.
        by_ns: u64,
        /// For how long.
        for_ns: u64,
    },
    /// A connection of the instance to each server is reset with its next request.
    Reset {
        /// Whether the request is applied before.
        applied: bool,
    },
    /// Every server resets its clients' connections and takes no new ones.
    Refuse {
        /// For how long.
        for_ns: u64,
    },
    /// A server is struck.
    Server {
        /// Which one of those that hold data, from 0.
        node: u32,
        /// What is done to it.
        fault: ServerFault,
    },
}

impl How {
    /// How long a promotion may take, and how long what follows it may.
    pub const FAILOVER_NS: u64 = 30_000_000_000;

    /// Whether it strikes one instance, and no other one.
    pub fn strikes_an_instance(self) -> bool {
        match self {
            How::Instance { .. }
            | How::LoseReply { .. }
            | How::CutOff { .. }
            | How::Delay { .. }
            | How::Reset { .. } => true,
            How::OnLink(fault) => !matches!(fault, LinkFault::Partition { .. }),
            _ => false,
        }
    }

    /// The same on another scale of time.
    pub fn scaled(self, scale: f64) -> How {
        let scaled = |ns: u64| (ns as f64 * scale).round() as u64;
        match self {
            How::Instance { fault } => How::Instance {
                fault: fault.scaled(scale),
            },
            How::RefuseWrites { for_ns } => How::RefuseWrites {
                for_ns: scaled(for_ns),
            },
            How::CutOff { for_ns } => How::CutOff {
                for_ns: scaled(for_ns),
            },
            How::Delay { by_ns, for_ns } => How::Delay {
                by_ns: scaled(by_ns),
                for_ns: scaled(for_ns),
            },
            How::Refuse { for_ns } => How::Refuse {
                for_ns: scaled(for_ns),
            },
            How::Server { node, fault } => How::Server {
                node,
                fault: fault.scaled(scale),
            },
            How::SplitBrain { for_ns } => How::SplitBrain {
                for_ns: scaled(for_ns),
            },
            How::OnLink(fault) => How::OnLink(fault.scaled(scale)),
            How::LostGrant | How::Graceful | How::LoseReply { .. } | How::Reset { .. } => self,
        }
    }

    /// How long it may keep an operation from its end.
    pub fn holds_up_ns(self) -> u64 {
        match self {
            How::CutOff { for_ns } => for_ns,
            How::Instance { fault } => nanos(fault.standstill()),
            How::LostGrant | How::Graceful => 2 * How::FAILOVER_NS,
            How::SplitBrain { for_ns } => 2 * How::FAILOVER_NS + for_ns,
            How::OnLink(fault) => fault.for_ns(),
            How::Server { fault, .. } => nanos(fault.silence()),
            _ => 0,
        }
    }
}

/// The answers that a worker waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// "It is yours."
    Acquire,
    /// "It is yours for longer."
    Renewal,
    /// "It is yours no more."
    Release,
}

impl Reply {
    /// All of them.
    pub const ALL: [Reply; 3] = [Reply::Acquire, Reply::Renewal, Reply::Release];

    /// The word for it in a scenario.
    pub fn word(self) -> &'static str {
        match self {
            Reply::Acquire => "acquire",
            Reply::Renewal => "renewal",
            Reply::Release => "release",
        }
    }
}

// Reading them.

/// What faults may strike.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// How many instances, if that is known.
    pub(super) instances: Option<u64>,
    /// Whether there are, or may be, Sentinels.
    pub(super) sentinel: bool,
    /// Whether there are, or may be, several independent servers.
    pub(super) quorum: bool,
}

/// The list of faults.
pub(super) fn faults_of(field: &Field<'_>, place: Place) -> Option<Vec<Fault>> {
    if field.is_table() {
        return field.wrong("a list, each fault under a `[[fault]]` of its own");
    }
    let list = field.list()?;
    let read: Vec<_> = list.iter().map(|field| fault(field, place)).collect();
    read.into_iter().collect()
}

fn fault(field: &Field<'_>, place: Place) -> Option<Fault> {
    let table = field.table()?;
    let kind_field = table.need("kind", "\"freeze\"");
    let mut kinds = InstanceFault::WORDS.to_vec();
    kinds.extend([
        "refuse-writes",
        "lose-reply",
        "cut-off",
        "delay",
        "reset",
        "refuse",
    ]);
    kinds.extend(failover_fault::WORDS);
    kinds.extend(LinkFault::WORDS);
    kinds.extend(ServerFault::WORDS);
    let kind = kind_field.as_ref().and_then(|field| field.word(&kinds));
    let at_field = table.need("at", "{ point = \"in-section\", nth = 20 }");
    let at = at_field.as_ref();
    let at = at.and_then(|field| at_of(field.table()?, place.instances));
    let (at, repeat) = at.unzip();
    let at_a_time = || at_field.clone().filter(|_| is_time(at.as_ref()));
    let long = || table.need("for", "\"8s\"").and_then(|f| positive(&f));
    let how = match kind {
        Some(word) if InstanceFault::WORDS.contains(&word) => {
            let fault = instance_fault(word, &table);
            let about_one = fault.is_some_and(InstanceFault::is_about_a_worker);
            if let Some(field) = at_a_time().filter(|_| about_one) {
                field.misfit(format!(
                    "`{word}` strikes at a `point`: it is about one worker"
                ));
            }
            fault.map(|fault| How::Instance { fault })
        }
        Some("refuse-writes") => long().map(|long| How::RefuseWrites {
            for_ns: nanos(long),
        }),
        Some(word) if failover_fault::WORDS.contains(&word) => {
            let unforeseen = at_field
                .clone()
                .filter(|_| !is_foreseen(at.as_ref(), repeat));
            failover_fault(word, &table, kind_field, unforeseen, place)
        }
        Some(word) if LinkFault::WORDS.contains(&word) => {
            link_fault(word, &table, place).map(How::OnLink)
        }
        Some("lose-reply") => {
            if let Some(field) = at_a_time() {
                field.misfit("`lose-reply` strikes at a `point`: it is about one worker");
            }
            reply_of(&table).map(|which| How::LoseReply { which })
        }
        Some("cut-off") => long().map(|long| How::CutOff {
            for_ns: nanos(long),
        }),
        Some("delay") => {
            let by = table.need("by", "\"200ms\"").and_then(|f| positive(&f));
            by.zip(long()).map(|(by, long)| How::Delay {
                by_ns: nanos(by),
                for_ns: nanos(long),
            })
        }
        Some("reset") => {
            let applied = table.need("applied", "true");
            let applied = applied.and_then(|field| field.boolean());
            applied.map(|applied| How::Reset { applied })
        }
        Some("refuse") => long().map(|long| How::Refuse {
            for_ns: nanos(long),
        }),
        Some(word) if ServerFault::WORDS.contains(&word) => {
            let node = table
                .get("node")
                .map_or(Some(0), |field| field.integer(0..=8));
            let fault = server_fault(word, &table);
            if fault.is_some_and(ServerFault::needs_majority) {
                let unforeseen = at_field
                    .clone()
                    .filter(|_| !is_foreseen(at.as_ref(), repeat));
                about_a_majority(word, kind_field.clone(), unforeseen, place);
            }
            node.zip(fault).map(|(node, fault)| How::Server {
                node: node as u32,
                fault,
            })
        }
        // No other word is known.
        Some(_) | None => {
            table.finish_unsure();
            return None;
        }
    };
    let again = again(&table, how, place);
    table.finish();
    Some(Fault {
        at: at?,
        repeat: repeat?,
        how: how?,
        again: again?,
    })
}

/// Whether the lock must be granted again afterwards. Where a fault takes the only server away for
/// good, it cannot.
fn again(table: &Table<'_>, how: Option<How>, place: Place) -> Option<bool> {
    let Some(field) = table.get("again") else {
        return Some(false);
    };
    let again = field.boolean()?;
    let fault = ServerFault::Kill;
    let for_good = matches!(how, Some(How::Server { fault: what, .. }) if what == fault);
    if again && for_good && !place.quorum {
        field.misfit("nobody is granted a lock again whose only server is dead");
    }
    Some(again)
}

/// Which answer is lost: the acquire's, unless it is said.
fn reply_of(table: &Table<'_>) -> Option<Reply> {
    let Some(field) = table.get("which") else {
        return Some(Reply::Acquire);
    };
    let word = field.word(&Reply::ALL.map(Reply::word))?;
    Reply::ALL.into_iter().find(|reply| reply.word() == word)
}

/// What is about a grant on just a majority needs one, and strikes when there is a grant.
fn about_a_majority(word: &str, kind: Option<Field<'_>>, at_time: Option<Field<'_>>, place: Place) {
    if let Some(field) = kind.filter(|_| !place.quorum) {
        field.misfit(format!(
            "`{word}` needs `topology = {{ kind = \"quorum\" }}`"
        ));
    }
    if let Some(field) = at_time {
        field.misfit(format!(
            "`{word}` strikes at a `point`: it is about one grant"
        ));
    }
}
