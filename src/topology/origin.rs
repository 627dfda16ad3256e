//! Where the servers of some trials come from: they are started for each, or a user has them.

use super::external::Outside;
use super::process::{Binary, StartError};
use super::servers::Servers;
use crate::plan::Plan;

/// Where servers come from.
#[derive(Debug, Clone)]
pub enum Origin {
    /// A binary on this machine.
    Own(Binary),
    /// A user's own Redis.
    External(Outside),
}

impl Origin {
    /// What is told of their version.
    pub fn version(&self) -> &str {
        match self {
            Origin::Own(binary) => &binary.version,
            Origin::External(outside) => outside.version(),
        }
    }

    /// The same for some plans alone: a clock of their own only where a fault moves it.
    pub fn for_plans(&self, plans: &[Plan]) -> Origin {
        match self {
            Origin::Own(binary) if !plans.iter().any(Plan::moves_clocks) => {
                Origin::Own(binary.with_the_true_clock())
            }
            same => same.clone(),
        }
    }

    /// What the names of all keys of a trial are to begin with: nothing on servers of its own.
    pub fn prefix(&self, plan: &Plan) -> String {
        match self {
            Origin::Own(_) => String::new(),
            Origin::External(outside) => outside.prefix(plan.seed),
        }
    }

    /// The servers of one trial, whose keys there begin with a prefix.
    ///
    /// To be called on a thread that lives as long as the driver: on Linux the kernel ends a server
    /// when the thread that started it ends.
    pub async fn raise(&self, plan: &Plan, prefix: &str) -> Result<Servers, StartError> {
        match self {
            Origin::Own(binary) => {
                let (workers, links) = (plan.connections(), plan.needs_link());
                Servers::raise(binary, plan.topology, workers, links).await
            }
            Origin::External(outside) => outside.raise(plan, prefix).await,
        }
    }
}
