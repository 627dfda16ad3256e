//! Who may issue the next operation, and when nothing is left to do.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::history::OpId;
use crate::history::event::Stop;

/// The shared bookkeeping of a run's load.
#[derive(Debug)]
pub struct Load {
    issued: AtomicU64,
    most: u64,
    stop: watch::Sender<Option<Stop>>,
    /// The same as `stop`, for those who ask before each operation.
    stopping: AtomicBool,
    /// None where there is always more to do: then nobody need look.
    items: Option<Mutex<Vec<Item>>>,
}

/// What is known of an item's reads, to tell when it is used up for good.
#[derive(Debug, Default)]
struct Item {
    /// Number of the next read.
    next: u64,
    /// Reads that have not come back.
    reading: BTreeSet<u64>,
    /// Operations that saw something left and have not finished with it.
    pending: u64,
    /// Set when a read saw nothing left while nobody was pending: the number of the first read
    /// that began afterwards. If all earlier reads see nothing left either, nobody can write.
    empty_from: Option<u64>,
    done: bool,
}

impl Load {
    /// A load of at most so many operations on so many items, or on items that are never used up.
    pub fn new(operations: Option<u64>, items: Option<u32>) -> Load {
        Load {
            issued: AtomicU64::new(0),
            most: operations.unwrap_or(u64::MAX),
            stop: watch::Sender::new(None),
            stopping: AtomicBool::new(false),
            items: items.map(|n| Mutex::new((0..n).map(|_| Item::default()).collect())),
        }
    }

    /// The number of the next operation, unless all were issued or the run stops.
    pub fn next(&self) -> Option<OpId> {
        if self.stopping() {
            return None;
        }
        let op = self.issued.fetch_add(1, Ordering::Relaxed);
        (op < self.most).then_some(op)
    }

    /// Has everyone stop, for the first reason that is given.
    pub fn stop(&self, why: Stop) {
        self.stop.send_if_modified(|stop| {
            let first = stop.is_none();
            stop.get_or_insert(why);
            first
        });
        self.stopping.store(true, Ordering::Release);
    }

    /// Whether the run stops.
    pub fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Waits until the run stops, and tells why.
    pub async fn stopped(&self) -> Stop {
        let mut stop = self.stop.subscribe();
        let why = stop.wait_for(Option::is_some).await.map(|why| why.clone());
        match why {
            Ok(why) => why.unwrap_or(Stop::OperationsDone),
            // The sender is a field of ours and outlives this borrow.
            Err(_) => std::future::pending().await,
        }
    }

    fn items(&self) -> Option<MutexGuard<'_, Vec<Item>>> {
        let items = self.items.as_ref()?.lock();
        Some(items.unwrap_or_else(PoisonError::into_inner))
    }

    /// An operation is about to read an item. To be kept until it is through with the item.
    pub fn reading(&self, item: u32) -> Interest<'_> {
        let state = match self.items() {
            None => Stage::Through,
            Some(mut items) => {
                let state = &mut items[item as usize];
                let number = state.next;
                state.next += 1;
                state.reading.insert(number);
                Stage::Reading(number)
            }
        };
        Interest {
            load: self,
            item,
            state,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Reading(u64),
    Pending,
    Through,
}

/// An operation's interest in an item: from before its read until after its write. Dropping it
/// (a crash) ends it.
#[derive(Debug)]
pub struct Interest<'a> {
    load: &'a Load,
    item: u32,
    state: Stage,
}

impl Interest<'_> {
    /// The read came back. When it proves that nothing is left of any item, the run stops.
    pub fn read(&mut self, value: i64) {
        self.turn(if value > 0 {
            Stage::Pending
        } else {
            Stage::Through
        });
    }

    fn turn(&mut self, to: Stage) {
        if self.state == Stage::Through {
            return;
        }
        let Some(mut items) = self.load.items() else {
            return;
        };
        let state = &mut items[self.item as usize];
        let saw_nothing = matches!(self.state, Stage::Reading(_)) && to == Stage::Through;
        match self.state {
            Stage::Reading(number) => {
                state.reading.remove(&number);
            }
            Stage::Pending => state.pending -= 1,
            Stage::Through => return,
        }
        if to == Stage::Pending {
            state.pending += 1;
            state.empty_from = None;
        }
        if saw_nothing && state.pending == 0 {
            state.empty_from.get_or_insert(state.next);
        }
        self.state = to;
        let earlier = state.reading.first().copied().unwrap_or(u64::MAX);
        state.done = state.pending == 0 && state.empty_from.is_some_and(|from| earlier >= from);
        if items.iter().all(|item| item.done) {
            self.load.stop(Stop::NothingLeft);
        }
    }
}

impl Drop for Interest<'_> {
    fn drop(&mut self) {
        // A read that was cut off saw nothing, but neither did it see nothing left.
        if let Stage::Reading(number) = self.state {
            if let Some(mut items) = self.load.items() {
                items[self.item as usize].reading.remove(&number);
            }
        } else {
            self.turn(Stage::Through);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_only_when_no_earlier_reader_can_still_write() {
        let load = Load::new(None, Some(1));
        let mut slow = load.reading(0);
        let mut fast = load.reading(0);
        fast.read(0);
        assert!(!load.stopping(), "the slow one may have seen a unit");
        slow.read(1);
        drop(fast);
        assert!(!load.stopping(), "and it did");
        drop(slow);
        load.reading(0).read(0);
        assert!(load.stopping());
    }

    #[test]
    fn every_item_must_be_used_up() {
        let load = Load::new(None, Some(2));
        load.reading(0).read(0);
        assert!(!load.stopping());
        load.reading(1).read(0);
        assert!(load.stopping());
    }

    #[test]
    fn no_operation_is_issued_beyond_the_last() {
        let load = Load::new(Some(2), None);
        assert_eq!(
            [load.next(), load.next(), load.next()],
            [Some(0), Some(1), None]
        );
    }
}
