//! Which commands faults use that change a server for everybody, so that it can be asked before a run
//! whether they are allowed there.

use crate::plan::Plan;
use crate::scenario::{How, Means, ServerFault};

/// A command, said in such a way that it can do nothing: a server refuses it for want of permission
/// before it looks at what stands behind it.
type Harmless = &'static [&'static str];

const CONFIG_GET: Harmless = &["CONFIG", "GET", "maxmemory"];
const CONFIG_SET: Harmless = &["CONFIG", "SET", "oversold-no-such-setting", "0"];

/// The commands of the faults of some plans, each once.
pub fn commands(plans: &[&Plan]) -> Vec<Harmless> {
    let faults = plans.iter().flat_map(|plan| &plan.faults);
    let by_command = faults.filter(|fault| fault.how.means() == Means::Command);
    let mut commands: Vec<Harmless> = by_command.flat_map(|fault| of(fault.how)).collect();
    commands.sort_unstable();
    commands.dedup();
    commands
}

fn of(how: How) -> Vec<Harmless> {
    match how {
        How::Server { fault, .. } => match fault {
            ServerFault::ScriptFlush => vec![&["SCRIPT", "FLUSH", "oversold"]],
            ServerFault::ClientPause { .. } => vec![&["CLIENT", "PAUSE", "oversold"]],
            ServerFault::ReadOnly { .. } => {
                vec![CONFIG_GET, &["REPLICAOF", "oversold", "no-port"]]
            }
            ServerFault::DebugSleep { .. } => vec![&["DEBUG", "HELP"]],
            ServerFault::ClientKill => vec![&["CLIENT", "KILL", "ID", "oversold"]],
            _ => vec![CONFIG_GET, CONFIG_SET],
        },
        _ => vec![CONFIG_GET, CONFIG_SET],
    }
}
