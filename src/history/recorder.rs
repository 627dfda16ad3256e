//! Takes events from all workers and hands them, in one order, to a sink on a thread of its own:
//! writing a file must never make a worker wait.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::event::{Event, Kind};
use crate::clock::{Clock, Time};

/// How often the sink is handed what has gathered.
const HAND_OVER: Duration = Duration::from_millis(20);

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

/// Starts a recorder whose events go to `sink`, each one once and in order.
pub fn start<S>(
    clock: Clock,
    mut sink: S,
    mut take: impl FnMut(&mut S, &[Event]) + Send + 'static,
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
            let closed = {
                let mut gathered = lock(&source);
                std::mem::swap(&mut gathered.events, &mut batch);
                gathered.closed
            };
            take(&mut sink, &batch);
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
