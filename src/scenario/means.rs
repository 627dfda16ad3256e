//! By what means each fault is done, and so how far it reaches: what can be done to a user's own
//! Redis depends on it.

use super::fault::How;
use super::instance_fault::InstanceFault;
use super::link_fault::{Between, LinkFault};
use super::server_fault::ServerFault;

/// By what means a fault is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// Within an instance: no server takes part.
    Instance,
    /// By a link in front of each server, which reads what passes.
    Link,
    /// By commands that change a server for everybody who uses it.
    Command,
    /// By hands on a server's process, its files, its clock or its replicas.
    Process,
}

impl How {
    /// The word for it in a scenario, and by what means it is done.
    pub fn kind(self) -> (&'static str, Means) {
        match self {
            How::Instance { fault } => match fault {
                InstanceFault::Freeze { .. } => ("freeze", Means::Instance),
                InstanceFault::BlockExecutor { .. } => ("block-executor", Means::Instance),
                InstanceFault::Crash => ("crash", Means::Instance),
                InstanceFault::StallWatchdog { .. } => ("stall-watchdog", Means::Instance),
                InstanceFault::Cancel { .. } => ("cancel", Means::Link),
                InstanceFault::ClientClock { .. } => ("client-clock", Means::Instance),
            },
            How::RefuseWrites { .. } => ("refuse-writes", Means::Command),
            How::LostGrant => ("lost-grant", Means::Process),
            How::SplitBrain { .. } => ("split-brain", Means::Process),
            How::Graceful => ("graceful", Means::Process),
            How::OnLink(fault) => match fault {
                LinkFault::Partition { between, .. } => match between {
                    Between::InstancesAndServer { .. } => ("partition", Means::Link),
                    // These pass no link of ours.
                    _ => ("partition", Means::Process),
                },
                LinkFault::Bandwidth { .. } => ("bandwidth", Means::Link),
                LinkFault::AnswerError { .. } => ("answer-error", Means::Link),
            },
            How::LoseReply { .. } => ("lose-reply", Means::Link),
            How::CutOff { .. } => ("cut-off", Means::Link),
            How::Delay { .. } => ("delay", Means::Link),
            How::Reset { .. } => ("reset", Means::Link),
            How::Refuse { .. } => ("refuse", Means::Link),
            How::Server { fault, .. } => match fault {
                ServerFault::Restart { .. } => ("restart", Means::Process),
                ServerFault::Kill => ("kill-server", Means::Process),
                ServerFault::Stop { .. } => ("stop-server", Means::Process),
                ServerFault::ClockJump { .. } => ("clock-jump", Means::Process),
                ServerFault::ScriptFlush => ("script-flush", Means::Command),
                ServerFault::ClientPause { .. } => ("client-pause", Means::Command),
                ServerFault::ClientKill => ("client-kill", Means::Command),
                ServerFault::Evict => ("evict", Means::Command),
                ServerFault::ReadOnly { .. } => ("read-only", Means::Command),
                ServerFault::DiskFull { .. } => ("disk-full", Means::Process),
                ServerFault::NoMemory { .. } => ("no-memory", Means::Command),
                ServerFault::DebugSleep { .. } => ("debug-sleep", Means::Command),
                ServerFault::QuorumRestart => ("quorum-restart", Means::Process),
                ServerFault::QuorumClock { .. } => ("quorum-clock", Means::Process),
            },
        }
    }

    /// The word for it in a scenario.
    pub fn word(self) -> &'static str {
        self.kind().0
    }

    /// By what means it is done.
    pub fn means(self) -> Means {
        self.kind().1
    }

    /// Whether it needs a link in front of each server, be it not done by that alone.
    pub fn needs_link(self) -> bool {
        self.means() == Means::Link || matches!(self, How::SplitBrain { .. } | How::OnLink(_))
    }
}
