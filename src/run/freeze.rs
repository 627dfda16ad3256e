//! Life and death of an instance: a future that holds all of it, and that is not polled while the
//! instance is frozen, and dropped when it crashes.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// What an instance is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Running,
    Frozen,
    Crashed,
    Ended,
}

#[derive(Debug)]
struct State {
    mode: Mode,
    waker: Option<Waker>,
    /// How often it wanted to move while it was frozen.
    wakes: u64,
}

/// The handle by which an instance is frozen, thawed and ended.
#[derive(Debug)]
pub struct Life {
    // A std mutex and not tokio's: it is held for a few loads and stores, never across an await.
    state: Mutex<State>,
}

/// How an instance came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Its work was done.
    Done,
    /// It crashed.
    Crashed,
}

impl Life {
    /// The life of an instance that runs.
    pub fn new() -> Arc<Life> {
        Arc::new(Life {
            state: Mutex::new(State {
                mode: Mode::Running,
                waker: None,
                wakes: 0,
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From the next poll on, the instance stands still.
    pub fn freeze(&self) {
        let mut state = self.state();
        if state.mode == Mode::Running {
            state.mode = Mode::Frozen;
            state.wakes = 0;
        }
    }

    /// Lets a frozen instance go on.
    pub fn thaw(&self) {
        let mut state = self.state();
        if state.mode == Mode::Frozen {
            state.mode = Mode::Running;
            if let Some(waker) = state.waker.take() {
                waker.wake();
            }
        }
    }

    /// How often it has wanted to move since it was frozen.
    pub fn wakes(&self) -> u64 {
        self.state().wakes
    }

    /// Ends the instance at its next poll. False if it had ended before.
    pub fn crash(&self) -> bool {
        let mut state = self.state();
        let alive = matches!(state.mode, Mode::Running | Mode::Frozen);
        if alive {
            state.mode = Mode::Crashed;
            if let Some(waker) = state.waker.take() {
                waker.wake();
            }
        }
        alive
    }
}

/// All of an instance under its life.
pub struct Alive<F> {
    life: Arc<Life>,
    all: Option<Pin<Box<F>>>,
}

impl<F> Alive<F> {
    /// Puts `all` of an instance under `life`.
    pub fn new(life: Arc<Life>, all: F) -> Alive<F> {
        Alive {
            life,
            all: Some(Box::pin(all)),
        }
    }
}

impl<F: Future<Output = ()>> Future for Alive<F> {
    type Output = End;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<End> {
        let life = Arc::clone(&self.life);
        let mode = {
            let mut state = life.state();
            state.waker = Some(cx.waker().clone());
            if state.mode == Mode::Frozen {
                state.wakes += 1;
            }
            state.mode
        };
        let ended = match (mode, &mut self.all) {
            (Mode::Frozen, _) => return Poll::Pending,
            (Mode::Running, Some(all)) => match all.as_mut().poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) => End::Done,
            },
            (Mode::Crashed, _) => End::Crashed,
            (Mode::Running | Mode::Ended, _) => End::Done,
        };
        self.all = None;
        life.state().mode = Mode::Ended;
        Poll::Ready(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    async fn ticks(count: Arc<AtomicU64>) {
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn a_frozen_instance_makes_no_step_and_goes_on_when_thawed() {
        let (life, count) = (Life::new(), Arc::new(AtomicU64::new(0)));
        let instance = tokio::spawn(Alive::new(Arc::clone(&life), ticks(Arc::clone(&count))));
        life.freeze();
        let before = count.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert_eq!(count.load(Ordering::Relaxed), before);
        assert!(life.wakes() > 0, "it wanted to move");
        life.thaw();
        while count.load(Ordering::Relaxed) == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        instance.abort();
    }

    #[tokio::test]
    async fn a_crashed_instance_is_dropped_even_while_it_is_frozen() {
        let (life, count) = (Life::new(), Arc::new(AtomicU64::new(0)));
        let instance = tokio::spawn(Alive::new(Arc::clone(&life), ticks(Arc::clone(&count))));
        life.freeze();
        tokio::task::yield_now().await;
        assert!(life.crash());
        assert_eq!(instance.await.ok(), Some(End::Crashed));
        assert_eq!(Arc::strong_count(&count), 1, "all of it is gone");
        assert!(!life.crash(), "nobody dies twice");
    }
}
