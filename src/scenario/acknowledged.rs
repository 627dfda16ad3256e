//! How many replicas must have a grant before it counts, as a scenario asks for it.

use serde::{Deserialize, Serialize};

use super::read::Table;
use super::times::positive;
use crate::clock::nanos;

/// Replicas that must acknowledge a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledged {
    /// How many.
    pub replicas: u32,
    /// How long they may take.
    pub bound_ns: u64,
}

impl Acknowledged {
    /// The same on another time scale.
    pub fn scaled(self, scale: f64) -> Acknowledged {
        Acknowledged {
            bound_ns: (self.bound_ns as f64 * scale).round() as u64,
            ..self
        }
    }
}

/// Reads `wait_replicas` and `wait_at_most` of the lock's table; None within where neither is there.
pub(super) fn acknowledged(table: &Table<'_>) -> Option<Option<Acknowledged>> {
    let (replicas, bound) = (table.get("wait_replicas"), table.get("wait_at_most"));
    let Some(field) = replicas else {
        if let Some(bound) = bound {
            bound.key_problem("`wait_at_most` goes with `wait_replicas`");
        }
        return Some(None);
    };
    let replicas = field.integer(1..=3);
    let Some(bound) = bound else {
        field.key_problem("`wait_replicas` needs a bound: for example `wait_at_most = \"500ms\"`");
        return None;
    };
    let bound = positive(&bound);
    Some(Some(Acknowledged {
        replicas: replicas? as u32,
        bound_ns: nanos(bound?),
    }))
}
