//! Takes events from all workers and hands them, in one order, to a sink on a thread of its own:
//! writing a file must never make a worker wait.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::event::{Event, Kind};
use crate::clock::{Clock, Time};

/// How often the sink is handed what has gathered.
const HAND_OVER: Duration = Duration::from_millis(20);
/// How many events it is handed at a time: who looks at the sink meanwhile waits for no more of them.
const AT_A_TIME: usize = 1 << 14;
/// How long it is left alone in between, where more have gathered: a mutex is not fair.
const GIVE_WAY: Duration = Duration::from_micros(50);

#[derive(Debug, Default)]
struct Gathered {
    events: Vec<Event>,
    closed: bool,
}

/// The end of a history that workers write to. Clones write to the same history.
#[derive(Debug, Clone)]
pub struct Recorder {
    clock: Clock,
    // A std mutex and not tokio's: it is held for a push, never across an await.
    gathered: Arc<Mutex<Gathered>>,
}

impl Recorder {
    /// Records an event now and says when that was. The time is read inside the lock, so the order
    /// of events is the order of their times.
    pub fn record(&self, event: Kind) -> Time {
        let mut gathered = lock(&self.gathered);
        let at_ns = self.clock.now();
        gathered.events.push(Event { at_ns, event });
        at_ns
    }

    /// How many events have gathered that the sink has not begun to take in.
    pub fn behind(&self) -> usize {
        lock(&self.gathered).events.len()
    }

    /// The clock that times come from.
    pub fn clock(&self) -> Clock {
        self.clock
    }
}

fn lock(gathered: &Mutex<Gathered>) -> std::sync::MutexGuard<'_, Gathered> {
    gathered.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The thread that empties a recorder into a sink. [`Drain::close`] gives the sink back.
#[derive(Debug)]
pub struct Drain<S> {
    gathered: Arc<Mutex<Gathered>>,
    thread: JoinHandle<S>,
}

/// Starts a recorder whose events go to `sink`, each one once and in order, and with them the time up
/// to which there are no others.
pub fn start<S>(
    clock: Clock,
    mut sink: S,
    mut take: impl FnMut(&mut S, &[Event], Time) + Send + 'static,
) -> (Recorder, Drain<S>)
where
    S: Send + 'static,
{
    let gathered = Arc::new(Mutex::new(Gathered::default()));
    let recorder = Recorder {
        clock,
        gathered: Arc::clone(&gathered),
    };
    let source = Arc::clone(&gathered);
    let thread = std::thread::spawn(move || {
        let mut batch = Vec::new();
        loop {
            let (closed, now) = {
                let mut gathered = lock(&source);
                std::mem::swap(&mut gathered.events, &mut batch);
                (gathered.closed, clock.now())
            };
            let mut left = batch.as_slice();
            while left.len() > AT_A_TIME {
                let (part, rest) = left.split_at(AT_A_TIME);
                take(&mut sink, part, part[AT_A_TIME - 1].at_ns);
                left = rest;
                std::thread::sleep(GIVE_WAY);
            }
            take(&mut sink, left, now);
            batch.clear();
            if closed {
                return sink;
            }
            std::thread::park_timeout(HAND_OVER);
        }
    });
    (recorder, Drain { gathered, thread })
}

impl<S> Drain<S> {
    /// Hands over the rest and returns the sink. Events recorded later are lost: close last.
    pub fn close(self) -> S {
        lock(&self.gathered).closed = true;
        self.thread.thread().unpark();
        match self.thread.join() {
            Ok(sink) => sink,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_is_handed_over_in_parts_and_each_says_up_to_when_all_is_told() {
        const EVENTS: u64 = 3 * AT_A_TIME as u64 + 5;
        let (clock, parts) = (Clock::start(), Vec::new());
        let take = |parts: &mut Vec<_>, events: &[Event], told: Time| {
            let last = events.last().map(|event| event.at_ns);
            assert!(last.is_none_or(|last| last <= told), "{last:?} {told:?}");
            parts.push((events.len(), told));
            // The first one is slow, and the others gather.
            if parts.len() == 1 {
                std::thread::sleep(Duration::from_millis(200));
            }
        };
        let (recorder, drain) = start(clock, parts, take);
        for op in 0..EVENTS {
            recorder.record(Kind::Asked { op });
        }
        let recorded = recorder.clock().now();
        let parts = drain.close();
        let all: usize = parts.iter().map(|(events, _)| events).sum();
        assert_eq!(all as u64, EVENTS);
        assert!(parts.iter().all(|(events, _)| *events <= AT_A_TIME));
        assert!(parts.is_sorted_by_key(|(_, told)| *told), "{parts:?}");
        assert!(parts.last().is_some_and(|(_, told)| *told >= recorded));
        assert_eq!(recorder.behind(), 0);
    }
}
