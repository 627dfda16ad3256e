//! The operations that have not come to their ends.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::outcomes::{Answer, Fate};
use crate::clock::Time;
use crate::history::OpId;

/// What is known of one of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Open {
    pub(super) instance: u32,
    pub(super) worker: u32,
    /// When it was planned to begin; where nothing was planned, when it did.
    pub(super) planned: Time,
    pub(super) arrived: Time,
    pub(super) entered: Time,
    pub(super) releasing: Option<Time>,
    /// It began after the warm-up.
    pub(super) measured: bool,
    /// It has asked and was not answered yet.
    pub(super) asking: bool,
    pub(super) last: Answer,
    pub(super) granted: bool,
    pub(super) released: bool,
    pub(super) release_failed: bool,
    pub(super) fate: Fate,
}

impl Open {
    pub(super) fn new(instance: u32, worker: u32, planned: Time, arrived: Time) -> Open {
        Open {
            instance,
            worker,
            planned,
            arrived,
            entered: arrived,
            releasing: None,
            measured: true,
            asking: false,
            last: Answer::default(),
            granted: false,
            released: false,
            release_failed: false,
            fate: Fate::default(),
        }
    }

    pub(super) fn answered(&mut self, answer: Answer) {
        self.asking = false;
        self.last = answer;
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Opened(HashMap<OpId, Open, BuildHasherDefault<OfNumbers>>);

impl Opened {
    pub(super) fn begin(&mut self, op: OpId, open: Open) {
        self.0.insert(op, open);
    }

    pub(super) fn get(&self, op: OpId) -> Option<&Open> {
        self.0.get(&op)
    }

    pub(super) fn with(&mut self, op: OpId, change: impl FnOnce(&mut Open)) {
        if let Some(open) = self.0.get_mut(&op) {
            change(open);
        }
    }

    pub(super) fn close(&mut self, op: OpId) -> Option<Open> {
        self.0.remove(&op)
    }

    pub(super) fn close_all_of(&mut self, instance: u32) -> Vec<(OpId, Open)> {
        let of = |_: &OpId, open: &mut Open| open.instance == instance;
        self.0.extract_if(of).collect()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Open> {
        self.0.values()
    }
}

/// A hash of numbers that are given out one after the other: the standard one guards against who
/// chooses keys to collide, and would be a good part of the whole fold.
#[derive(Debug, Default)]
pub(super) struct OfNumbers(u64);

impl Hasher for OfNumbers {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        // An odd constant (2^64 divided by the golden ratio) spreads them over the high bits.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }
}
