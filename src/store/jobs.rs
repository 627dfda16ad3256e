//! What all clients of a database server need: a few connections that the workers share, and jobs
//! on them that end whatever becomes of the instance that asked.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

use super::StoreError;

/// Connections of a store. Few, for they are shared as a real service's pool is.
pub(super) const CONNECTIONS: usize = 12;
/// How long a read or a write may take, waiting for its connection included.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often is looked whether all jobs have ended.
const LOOK: Duration = Duration::from_millis(5);

/// A pool of connections.
#[derive(Debug)]
pub(super) struct Jobs<C> {
    idle: Mutex<Vec<C>>,
    permits: Semaphore,
}

/// How connections of a kind are made.
pub(super) trait Connect: Sync {
    /// One connection.
    type Connection: Send;

    /// Makes one.
    fn connect(&self) -> impl Future<Output = Result<Self::Connection, StoreError>> + Send;
}

impl<C: Send + 'static> Jobs<C> {
    pub(super) fn new() -> Jobs<C> {
        Jobs {
            idle: Mutex::default(),
            permits: Semaphore::new(CONNECTIONS),
        }
    }

    /// A job on a connection of its own for as long as it runs. One on which a job has failed is
    /// closed: nobody knows what is still open on it.
    pub(super) async fn run<T>(
        &self,
        connect: &impl Connect<Connection = C>,
        job: impl AsyncFnOnce(&mut C) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let closed = |_| StoreError("the store is closed".to_owned());
        let _permit = self.permits.acquire().await.map_err(closed)?;
        let idle = self.idle().pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => connect.connect().await?,
        };
        let done = job(&mut connection).await?;
        self.idle().push(connection);
        Ok(done)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<C>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a job to its end, even when nobody polls who asked for it: an instance that stands still
/// would otherwise hold the connection, and with it a row's lock that stops all others.
pub(super) async fn to_the_end<S, T, F>(
    store: &Arc<S>,
    job: impl FnOnce(Arc<S>) -> F,
) -> Result<T, StoreError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, StoreError>> + Send + 'static,
{
    let running = tokio::spawn(in_time(job(Arc::clone(store))));
    match running.await {
        Ok(done) => done,
        Err(why) => Err(StoreError(format!("a job has ended early: {why}"))),
    }
}

/// A job that the database may never answer.
pub(super) async fn in_time<T>(
    job: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let no_answer = |_| StoreError(format!("no answer within {PATIENCE:?}"));
    let done = tokio::time::timeout(PATIENCE, job).await;
    done.map_err(no_answer)?
}

/// Waits until no job holds the store any more, within bounds.
pub(super) async fn all_ended<S>(store: &Arc<S>) {
    let all = async {
        while Arc::strong_count(store) > 1 {
            tokio::time::sleep(LOOK).await;
        }
    };
    let _ = tokio::time::timeout(PATIENCE, all).await;
}
