//! What can happen in a run, as recorded. One event is one line of `history.jsonl`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::Time;
use crate::scenario::Reply;
use crate::verdict::Signal;

/// The number of an operation, unique in its run.
pub type OpId = u64;

/// One thing that happened, and when the driver saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When, on the run's monotonic clock.
    pub at_ns: Time,
    /// What.
    pub event: Kind,
}

/// How often a key's time to live must have risen after the end to be kept alive by somebody who
/// outlives everything: what was on its way when everybody stopped comes once.
pub const KEPT_ALIVE: u32 = 2;

/// The kinds of event. Calls have two, when they were asked and when they were answered, because
/// the server acted at some unknown moment between the two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", rename_all_fields = "snake_case")]
pub enum Kind {
    /// An operation begins.
    Arrived {
        /// Its number.
        op: OpId,
        /// The instance that issues it.
        instance: u32,
        /// The worker that issues it.
        worker: u32,
        /// The lock's key, an index into the header's `keys`.
        key: u32,
        /// When it was planned to begin, where starts are planned (open loop).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        planned_ns: Option<Time>,
    },
    /// It asks for the lock (once an attempt).
    Asked {
        /// The operation.
        op: OpId,
    },
    /// The server granted it.
    Granted {
        /// The operation.
        op: OpId,
        /// How long the lease lives without renewal; absent where it never ends.
        ttl_ns: Option<u64>,
        /// Whether a server was asked at all (`none` grants to itself).
        locked: bool,
        /// The fencing token, where the lock draws one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fence: Option<i64>,
    },
    /// Which server gives the answer that stands next: a grant, a renewal or a release. (Only where
    /// it may be one or another; older readers of the format do not know it.)
    AnsweredBy {
        /// The operation.
        op: OpId,
        /// The server's address.
        server: String,
    },
    /// The server refused it: somebody else holds the key.
    Denied {
        /// The operation.
        op: OpId,
    },
    /// The acquire failed, and surely changed nothing.
    AcquireFailed {
        /// The operation.
        op: OpId,
        /// The error.
        error: String,
    },
    /// The acquire was answered by nothing: it may have been applied.
    AcquireUnknown {
        /// The operation.
        op: OpId,
        /// The error.
        error: String,
    },
    /// The operation ends without having had the lock.
    GaveUp {
        /// The operation.
        op: OpId,
        /// Why.
        why: GiveUp,
    },
    /// The worker believes that it holds the lock.
    Entered {
        /// The operation.
        op: OpId,
    },
    /// The business read.
    Read {
        /// The operation.
        op: OpId,
        /// What was read, an index into the header's `items`.
        item: u32,
        /// Units in stock, or entries not yet processed.
        value: i64,
    },
    /// There is something to do, and the work on it begins.
    Working {
        /// The operation.
        op: OpId,
        /// How long it is planned to take.
        work_ns: u64,
    },
    /// The business write.
    Wrote {
        /// The operation.
        op: OpId,
        /// What was written, an index into the header's `items`.
        item: u32,
        /// What this operation had read.
        seen: i64,
        /// What the store held just before the write: other than `seen` if the write was stale.
        replaced: i64,
        /// What it holds now.
        left: i64,
        /// What became of it.
        effect: Effect,
    },
    /// The worker leaves the section.
    Left {
        /// The operation.
        op: OpId,
    },
    /// The watchdog asks for a longer lease.
    RenewalAsked {
        /// The operation.
        op: OpId,
    },
    /// The lease was extended to a full TTL from some moment since the question.
    Renewed {
        /// The operation.
        op: OpId,
    },
    /// The renewal failed or its answer never came.
    RenewalFailed {
        /// The operation.
        op: OpId,
        /// The error.
        error: String,
    },
    /// The watchdog told the section that the lease is lost.
    LeaseLost {
        /// The operation.
        op: OpId,
    },
    /// The worker asks to release; once more where the command that deletes is not the first, or a
    /// fault has held it up.
    ReleaseAsked {
        /// The operation.
        op: OpId,
    },
    /// The release was answered.
    Released {
        /// The operation.
        op: OpId,
        /// By what.
        outcome: Release,
    },
    /// The operation has come to its end: nothing of it goes on but what a mistake leaves behind.
    Done {
        /// The operation.
        op: OpId,
    },
    /// The section ended in an error of the store; the release follows.
    StoreFailed {
        /// The operation.
        op: OpId,
        /// The error.
        error: String,
    },
    /// An instance stands still, its watchdogs too.
    Frozen {
        /// The instance.
        instance: u32,
    },
    /// It goes on.
    Thawed {
        /// The instance.
        instance: u32,
    },
    /// The instance's process died, with all its connections.
    Crashed {
        /// The instance.
        instance: u32,
    },
    /// A fault was applied.
    FaultBegan {
        /// Its place in the plan.
        fault: u32,
        /// What it did, to whom.
        what: String,
        /// The instance that it strikes, if it strikes one alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instance: Option<u32>,
    },
    /// The proof that the fault had its effect.
    FaultLanded {
        /// Its place in the plan.
        fault: u32,
        /// What was observed.
        proof: String,
    },
    /// A fault was undone, or spent itself.
    FaultEnded {
        /// Its place in the plan.
        fault: u32,
    },
    /// What the server itself said of a lock's key (a keyspace notification).
    Server {
        /// The key, an index into the header's `keys`.
        key: u32,
        /// What happened to it.
        did: ServerDid,
    },
    /// A server tells nothing of its keys in this run: there will be no [`Kind::Server`]. (Older
    /// readers of the format do not know it.)
    Untold {
        /// Why, and of which server.
        why: String,
    },
    /// What a server answered a worker, as the link in front of it saw it: recorded before the worker
    /// can have heard it, whatever becomes of it on its way. (Only where there are links; older
    /// readers of the format do not know it.)
    Answered {
        /// The worker that had asked.
        worker: u32,
        /// The key that it had asked about, an index into the header's `keys`.
        key: u32,
        /// What it had asked for.
        to: Reply,
        /// When the question came to the link.
        asked_ns: Time,
        /// Whether the server has done it.
        done: bool,
        /// The number that was the answer, if it was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        number: Option<i64>,
        /// For how long it was asked for, where the request says that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lease_ns: Option<u64>,
    },
    /// A replica became the primary. (Only where there are replicas; older readers of the format
    /// do not know it.)
    Promoted {
        /// Its address.
        server: String,
        /// The keys that it held in the moment in which it was first seen as a primary, indices
        /// into the header's `keys`.
        held: Vec<u32>,
    },
    /// Two servers of one group call themselves its primary at one moment; told once more when the
    /// keys change that both hold. (Older readers of the format do not know it.)
    TwoPrimaries {
        /// Their addresses, the older primary's first.
        servers: Vec<String>,
        /// The keys that both of them hold: indices into the header's `keys`.
        both: Vec<u32>,
    },
    /// One of them has ceased to. (The same.)
    OnePrimary {
        /// The address of the one that is left.
        server: String,
    },
    /// A server was killed and is back; nobody has got in yet. (Older readers of the format do not
    /// know it.)
    Restarted {
        /// Its address.
        server: String,
        /// The keys that it held when it was killed, and should hold still, and does not: indices
        /// into the header's `keys`.
        lost: Vec<u32>,
    },
    /// A server's wall clock jumped; nobody was granted anything meanwhile. (Older readers of the
    /// format do not know it.)
    ClockJumped {
        /// Its address.
        server: String,
        /// By how much, back if it is negative.
        by_ns: i64,
        /// The keys that it held before, and should hold still, and does not: indices into the
        /// header's `keys`.
        lost: Vec<u32>,
    },
    /// The server process ended although nobody asked it to.
    ServerDied {
        /// Its exit status and the end of its log.
        why: String,
    },
    /// The driver itself was late: instances stood still for this long before now.
    DriverLag {
        /// How long.
        late_ns: u64,
        /// The only instance that did; all of them where none is named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        instance: Option<u32>,
    },
    /// The run stops issuing operations.
    Draining {
        /// Why.
        why: Stop,
    },
    /// Some instances did not come to an end within the time allowed.
    DrainCut {
        /// How many.
        instances: u32,
    },
    /// A lock's key, looked up after everyone had stopped.
    KeyAtEnd {
        /// The key, an index into the header's `keys`.
        key: u32,
        /// Time it still has to live; absent where it has none and stays for ever. None is left to one
        /// that was kept alive and then went.
        pttl_ns: Option<u64>,
        /// How long after the end of the last operation it was still there.
        after_ns: u64,
        /// How often its time to live was seen to have risen meanwhile.
        #[serde(default, skip_serializing_if = "is_zero")]
        rises: u32,
    },
    /// The locks' keys could not be looked up after everyone had stopped, so nobody knows whether
    /// one was left behind. Such a run has no [`Kind::Ended`].
    KeysUnseen {
        /// Why.
        error: String,
    },
    /// Events that were not kept (`--history window`). Such a history is to be read, and cannot be
    /// checked again. (Older readers of the format do not know it.)
    LeftOut {
        /// How many.
        events: u64,
    },
    /// The run is over. A history without this line was cut off.
    Ended {},
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Why an operation ended without the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GiveUp {
    /// Its wait policy says so.
    Policy,
    /// Its task was cancelled while it was asking.
    Cancelled,
    /// The run ended.
    RunEnded,
}

/// What became of a business write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It landed.
    Written {
        /// Orders or postings added.
        rows: u32,
        /// Rows that the store's guard refused.
        rejected: u32,
    },
    /// The section heeded the loss of its lease and did not write.
    Withheld,
}

/// How a release was answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Release {
    /// The key was there and was removed.
    Removed,
    /// There was no key to remove.
    Gone,
    /// The key holds another's token and was left alone.
    NotMine,
    /// One hold was given back, and so many are left.
    StillHeld(u32),
    /// Nothing to release (`none`).
    Nothing,
    /// It failed and surely changed nothing.
    Failed(String),
    /// It was answered by nothing: it may have been applied.
    Unknown(String),
}

/// What the server said of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerDid {
    /// Its time to live ran out.
    Expired,
    /// It was deleted by a command: told in older histories only.
    Deleted,
    /// It was evicted for memory.
    Evicted,
}

/// Why a run stops issuing operations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// All operations of the plan were issued.
    OperationsDone,
    /// The planned duration is over.
    DurationOver,
    /// Sold out, or all processed, with nobody in a section: nothing more can happen.
    NothingLeft,
    /// Every instance has crashed.
    NobodyLeft,
    /// The server died.
    ServerDied,
    /// As many violations as were asked for were found.
    Violations,
    /// A threshold that ends the run was crossed.
    Threshold,
    /// Nobody who asked for the lock was answered for too long.
    Silence,
    /// Events came faster than they could be judged and written.
    Behind,
    /// A signal asked for it.
    Signal(Signal),
}
