//! A store in this process: a simulation of a database, for loads that no real one keeps up with.
//! It knows the same guards, and nothing of it is left but the counts. Each item stands under a
//! mutex of its own, which the lock under test keeps nearly always free.

use std::collections::BTreeSet;
use std::future::ready;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::shape::{Shape, beginning};
use super::{Boxed, Ledger, Seen, Store, StoreError, Write, Written};
use crate::scenario::{Guard, Workload};

/// A ledger in memory.
#[derive(Debug)]
pub struct Memory {
    shape: Shape,
    guard: Guard,
    /// What each item held at the start.
    each: i64,
    // Std mutexes and not tokio's: they are held for a few loads and stores, never across an await.
    items: Box<[Mutex<Item>]>,
}

/// Numbers that were given once. One after the other as they are, they need no more memory than their
/// ends and the few in between that were left out.
#[derive(Debug, Default)]
struct Names {
    /// The lowest and the highest.
    ends: Option<(i64, i64)>,
    /// Those in between that were not given.
    free: BTreeSet<i64>,
}

impl Names {
    /// Whether it was given now for the first time.
    fn insert(&mut self, name: i64) -> bool {
        let (low, high) = *self.ends.get_or_insert((name, name - 1));
        if (low..=high).contains(&name) {
            return self.free.remove(&name);
        }
        self.free.extend(high + 1..name);
        self.free.extend(name + 1..low);
        self.ends = Some((low.min(name), high.max(name)));
        true
    }
}

#[derive(Debug, Default)]
struct Item {
    value: i64,
    version: i64,
    fence: i64,
    /// Orders or increments.
    rows: i64,
    /// What they are called, under the guard `unique` only: there is one name for each row.
    names: Names,
    /// How many postings each entry has, where there are entries.
    postings: Vec<u32>,
}

impl Memory {
    /// The business as it is before the run.
    pub fn create(workload: &Workload, guard: Guard) -> Memory {
        let (items, each) = beginning(workload);
        let shape = Shape::of(workload);
        let item = || {
            Mutex::new(Item {
                value: i64::from(each),
                postings: match shape {
                    Shape::Entries => vec![0; each as usize],
                    Shape::Stock | Shape::Counter => vec![],
                },
                ..Item::default()
            })
        };
        Memory {
            shape,
            guard,
            each: i64::from(each),
            items: (0..items).map(|_| item()).collect(),
        }
    }

    fn item(&self, item: u32) -> MutexGuard<'_, Item> {
        let item = self.items[item as usize].lock();
        item.unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self) -> Ledger {
        let mut ledger = Ledger::default();
        for place in 0..self.items.len() as u32 {
            let item = self.item(place);
            match self.shape {
                Shape::Stock => {
                    ledger.stock += self.each;
                    ledger.remaining += item.value;
                    ledger.orders += item.rows;
                    ledger.oversold += (item.rows - self.each).max(0);
                    ledger.unsold += (self.each - item.rows).max(0);
                }
                Shape::Entries => {
                    let with = |least: u32, most: u32| {
                        let postings = item.postings.iter();
                        postings.filter(|n| (least..=most).contains(n)).count() as i64
                    };
                    ledger.entries += self.each;
                    ledger.postings += item.postings.iter().map(|n| i64::from(*n)).sum::<i64>();
                    ledger.double_processed += with(2, u32::MAX);
                    ledger.never_processed += with(0, 0);
                }
                Shape::Counter => {
                    ledger.increments += item.rows;
                    ledger.counted += item.value;
                }
            }
        }
        ledger
    }
}

impl Store for Memory {
    fn read(&self, item: u32) -> Boxed<'_, Result<Seen, StoreError>> {
        let item = self.item(item);
        let seen = Seen {
            value: item.value,
            version: item.version,
        };
        Box::pin(ready(Ok(seen)))
    }

    fn write(&self, write: Write) -> Boxed<'_, Result<Written, StoreError>> {
        let mut item = self.item(write.item);
        let written = match (item.refuses(&write, self.guard), self.shape) {
            (true, _) => Written::refused(item.value),
            (false, Shape::Entries) => item.post(&write, self.guard),
            (false, Shape::Stock) => item.step(&write, self.guard, -1),
            (false, Shape::Counter) => item.step(&write, self.guard, 1),
        };
        Box::pin(ready(Ok(written)))
    }

    fn ledger(&self) -> Boxed<'_, Result<Ledger, StoreError>> {
        Box::pin(ready(Ok(self.count())))
    }

    fn ledger_meanwhile(&self) -> Boxed<'_, Result<Option<Ledger>, StoreError>> {
        Box::pin(ready(Ok(Some(self.count()))))
    }
}

impl Item {
    /// Whether the guard's condition on the item as a whole refuses a write.
    fn refuses(&self, write: &Write, guard: Guard) -> bool {
        match guard {
            Guard::Fence => self.fence > write.fence.unwrap_or(0),
            Guard::Optimistic => self.version != write.seen.version,
            Guard::None | Guard::Unique | Guard::Conditional => false,
        }
    }

    fn changed(&mut self, write: &Write, guard: Guard) {
        self.version += 1;
        if guard == Guard::Fence {
            self.fence = write.fence.unwrap_or(0);
        }
    }

    /// One unit sold, or one counted: the number and its row, both or neither.
    fn step(&mut self, write: &Write, guard: Guard, by: i64) -> Written {
        let replaced = self.value;
        let base = match guard {
            Guard::Conditional => replaced,
            _ => write.seen.value,
        };
        let sold_out = guard == Guard::Conditional && by < 0 && replaced <= 0;
        if sold_out || (guard == Guard::Unique && !self.names.insert(base)) {
            return Written::refused(replaced);
        }
        self.value = base + by;
        self.rows += 1;
        self.changed(write, guard);
        Written {
            replaced,
            left: self.value,
            rows: 1,
            rejected: 0,
        }
    }

    /// Posts every entry, as who has found all of them unprocessed does.
    fn post(&mut self, write: &Write, guard: Guard) -> Written {
        let replaced = self.value;
        let processed = replaced == 0;
        let taken = |postings: &u32| match guard {
            Guard::Conditional => processed,
            Guard::Unique => *postings > 0,
            Guard::None | Guard::Fence | Guard::Optimistic => false,
        };
        let (mut rows, mut rejected) = (0, 0);
        for postings in &mut self.postings {
            match taken(postings) {
                true => rejected += 1,
                false => {
                    *postings += 1;
                    rows += 1;
                }
            }
        }
        // Where nothing was posted, nothing was changed.
        if rows > 0 {
            self.value = 0;
            self.changed(write, guard);
        }
        Written {
            replaced,
            left: 0,
            rows,
            rejected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_given_once_and_a_million_of_them_take_no_more_room_than_ten() {
        let mut names = Names::default();
        assert!((0..1_000_000).all(|name| names.insert(name)));
        assert!((-9..0).rev().all(|name| names.insert(name)));
        assert!(!names.insert(-9) && !names.insert(0) && !names.insert(999_999));
        assert!(names.free.is_empty());
        assert!(names.insert(1_000_002));
        assert_eq!(names.free.len(), 2);
        assert!(names.insert(1_000_000) && !names.insert(1_000_000));
    }
}
