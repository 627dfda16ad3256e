//! Faults in which a replica is promoted, as a scenario asks for them.

use super::fault::{How, Place};
use super::read::{Field, Table};
use super::times::positive;
use crate::clock::nanos;

/// The words for them.
pub(super) const WORDS: [&str; 3] = ["lost-grant", "split-brain", "graceful"];

/// Reads one of that word. `unforeseen` is where the scenario has it strike at a moment that nobody
/// knows before.
pub(super) fn failover_fault(
    word: &str,
    table: &Table<'_>,
    kind: Option<Field<'_>>,
    unforeseen: Option<Field<'_>>,
    place: Place,
) -> Option<How> {
    if let Some(field) = kind.filter(|_| !place.sentinel) {
        field.misfit(format!(
            "`{word}` needs `topology = {{ kind = \"sentinel\" }}`"
        ));
    }
    if let Some(field) = unforeseen.filter(|_| word != "graceful") {
        field.misfit(format!(
            "`{word}` strikes at a `point`: it is about one grant"
        ));
    }
    match word {
        "split-brain" => {
            let long = table.need("for", "\"5s\"").and_then(|f| positive(&f));
            long.map(|long| How::SplitBrain {
                for_ns: nanos(long),
            })
        }
        "graceful" => Some(How::Graceful),
        _ => Some(How::LostGrant),
    }
}
