//! SQLite, embedded: the tables `stock`, `orders`, `accounts`, `entries` and `postings` in
//! `ledger.sqlite`. One thread owns the connection; SQLite would serialise writers in any case.

use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, params};
use tokio::sync::oneshot;

use super::{Boxed, Ledger, Store, StoreError, Write, Written};
use crate::scenario::{Guard, Workload};

/// The tables. `orders.unit` is the number that the stock showed when the order was decided, so
/// that each unit has a name and a constraint can hold two orders for one unit apart.
const SCHEMA: &str = "
PRAGMA journal_mode = WAL;
-- The driver may be killed, the machine will not be: no waiting for the disk.
PRAGMA synchronous = OFF;
CREATE TABLE stock (
  sku INTEGER PRIMARY KEY, initial INTEGER NOT NULL, units INTEGER NOT NULL);
CREATE TABLE orders (
  id INTEGER PRIMARY KEY, sku INTEGER NOT NULL REFERENCES stock, unit INTEGER NOT NULL,
  operation INTEGER NOT NULL, instance INTEGER NOT NULL, worker INTEGER NOT NULL,
  at_ns INTEGER NOT NULL);
CREATE TABLE accounts (id INTEGER PRIMARY KEY);
CREATE TABLE entries (
  id INTEGER PRIMARY KEY, account INTEGER NOT NULL REFERENCES accounts,
  processed INTEGER NOT NULL DEFAULT 0);
CREATE INDEX entries_of_account ON entries (account);
CREATE TABLE postings (
  id INTEGER PRIMARY KEY, entry INTEGER NOT NULL REFERENCES entries,
  operation INTEGER NOT NULL, instance INTEGER NOT NULL, worker INTEGER NOT NULL,
  at_ns INTEGER NOT NULL);
";

/// Guard `unique`: the idempotency keys.
const UNIQUE: &str = "
CREATE UNIQUE INDEX one_order_a_unit ON orders (sku, unit);
CREATE UNIQUE INDEX one_posting_an_entry ON postings (entry);
";

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// A ledger in a SQLite file.
#[derive(Debug)]
pub struct Sqlite {
    /// Present until it is dropped.
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    workload: Workload,
}

impl Sqlite {
    /// Creates the file, its tables, and the business as it is before the run.
    pub fn create(path: &Path, workload: &Workload, guard: Guard) -> Result<Sqlite, StoreError> {
        let mut connection = Connection::open(path).map_err(failed)?;
        set_up(&mut connection, workload, guard).map_err(failed)?;
        let (jobs, todo) = channel::<Job>();
        let thread = std::thread::spawn(move || {
            for job in todo {
                job(&mut connection);
            }
        });
        Ok(Sqlite {
            jobs: Some(jobs),
            thread: Some(thread),
            workload: workload.clone(),
        })
    }

    /// Has the connection's thread do something, and waits for it.
    async fn ask<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            // Nobody listens any more when the instance has crashed; the write stands.
            let _ = answer.send(job(connection).map_err(failed));
        });
        let gone = |()| StoreError("the ledger's thread has ended".to_owned());
        let jobs = self.jobs.as_ref().ok_or_else(|| gone(()))?;
        jobs.send(job).map_err(|_| gone(()))?;
        answered.await.map_err(|_| gone(()))?
    }
}

/// Waits until everything that was asked for is in the file.
impl Drop for Sqlite {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has already answered its caller with an error.
            let _ = thread.join();
        }
    }
}

fn failed(error: rusqlite::Error) -> StoreError {
    StoreError(format!("ledger: {error}"))
}

fn set_up(connection: &mut Connection, workload: &Workload, guard: Guard) -> rusqlite::Result<()> {
    connection.execute_batch(SCHEMA)?;
    if guard == Guard::Unique {
        connection.execute_batch(UNIQUE)?;
    }
    let tx = connection.transaction()?;
    match workload {
        Workload::FlashSale { stock } => {
            tx.execute("INSERT INTO stock VALUES (0, ?1, ?1)", [stock])?;
        }
        Workload::Reconcile { accounts, entries } => {
            for account in 0..*accounts {
                tx.execute("INSERT INTO accounts VALUES (?1)", [account])?;
                for _ in 0..*entries {
                    tx.execute("INSERT INTO entries (account) VALUES (?1)", [account])?;
                }
            }
        }
    }
    tx.commit()
}

impl Store for Sqlite {
    fn read(&self, item: u32) -> Boxed<'_, Result<i64, StoreError>> {
        match self.workload {
            Workload::FlashSale { .. } => Box::pin(self.ask(move |c| units(c, item))),
            Workload::Reconcile { .. } => Box::pin(self.ask(move |c| unprocessed(c, item))),
        }
    }

    fn write(&self, write: Write) -> Boxed<'_, Result<Written, StoreError>> {
        match self.workload {
            Workload::FlashSale { .. } => Box::pin(self.ask(move |c| sell(c, &write))),
            Workload::Reconcile { .. } => Box::pin(self.ask(move |c| post(c, &write))),
        }
    }
}

fn units(connection: &Connection, sku: u32) -> rusqlite::Result<i64> {
    let mut query = connection.prepare_cached("SELECT units FROM stock WHERE sku = ?1")?;
    query.query_row([sku], |row| row.get(0))
}

fn unprocessed(connection: &Connection, account: u32) -> rusqlite::Result<i64> {
    let mut query = connection
        .prepare_cached("SELECT count(*) FROM entries WHERE account = ?1 AND processed = 0")?;
    query.query_row([account], |row| row.get(0))
}

/// Sets the stock to one less than was seen and inserts an order: both or neither.
fn sell(connection: &mut Connection, write: &Write) -> rusqlite::Result<Written> {
    let tx = connection.transaction()?;
    let replaced = units(&tx, write.item)?;
    let written = |rows, rejected| Written {
        replaced,
        rows,
        rejected,
    };
    let insert = "INSERT INTO orders (sku, unit, operation, instance, worker, at_ns)
                  VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let order = params![
        write.item,
        write.seen,
        write.op as i64,
        write.instance,
        write.worker,
        write.at.0 as i64
    ];
    if refused(tx.prepare_cached(insert)?.execute(order))? {
        tx.rollback()?;
        return Ok(written(0, 1));
    }
    let update = "UPDATE stock SET units = ?2 WHERE sku = ?1";
    tx.prepare_cached(update)?
        .execute(params![write.item, write.seen - 1])?;
    tx.commit()?;
    Ok(written(1, 0))
}

/// Posts every entry of the account, which the operation had found unprocessed, and marks them.
fn post(connection: &mut Connection, write: &Write) -> rusqlite::Result<Written> {
    let tx = connection.transaction()?;
    let replaced = unprocessed(&tx, write.item)?;
    let (mut rows, mut rejected) = (0, 0);
    for entry in entries(&tx, write.item)? {
        let insert = "INSERT INTO postings (entry, operation, instance, worker, at_ns)
                      VALUES (?1, ?2, ?3, ?4, ?5)";
        let posting = params![
            entry,
            write.op as i64,
            write.instance,
            write.worker,
            write.at.0 as i64
        ];
        match refused(tx.prepare_cached(insert)?.execute(posting))? {
            true => rejected += 1,
            false => rows += 1,
        }
    }
    let update = "UPDATE entries SET processed = 1 WHERE account = ?1";
    tx.prepare_cached(update)?.execute([write.item])?;
    tx.commit()?;
    Ok(Written {
        replaced,
        rows,
        rejected,
    })
}

fn entries(tx: &Transaction<'_>, account: u32) -> rusqlite::Result<Vec<i64>> {
    let mut query = tx.prepare_cached("SELECT id FROM entries WHERE account = ?1")?;
    query.query_map([account], |row| row.get(0))?.collect()
}

/// Whether a constraint refused the row; any other error stays one.
fn refused(inserted: rusqlite::Result<usize>) -> rusqlite::Result<bool> {
    match inserted {
        Ok(_) => Ok(false),
        Err(error)
            if error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation) =>
        {
            Ok(true)
        }
        Err(error) => Err(error),
    }
}

/// Reads the ledger of a finished run.
pub fn ledger(path: &Path) -> Result<Ledger, StoreError> {
    let at = |error: rusqlite::Error| StoreError(format!("{}: {error}", path.display()));
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE);
    let connection = connection.map_err(at)?;
    connection
        .busy_timeout(Duration::from_secs(5))
        .map_err(at)?;
    let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let read = || {
        let stock = count("SELECT coalesce(sum(initial), 0) FROM stock")?;
        let orders = count("SELECT count(*) FROM orders")?;
        let posted = "SELECT count(*) FROM postings GROUP BY entry HAVING count(*) > 1";
        Ok(Ledger {
            stock,
            orders,
            remaining: count("SELECT coalesce(sum(units), 0) FROM stock")?,
            oversold: (orders - stock).max(0),
            unsold: (stock - orders).max(0),
            entries: count("SELECT count(*) FROM entries")?,
            postings: count("SELECT count(*) FROM postings")?,
            double_processed: count(&format!("SELECT count(*) FROM ({posted})"))?,
            never_processed: count(
                "SELECT count(*) FROM entries WHERE id NOT IN (SELECT entry FROM postings)",
            )?,
        })
    };
    read().map_err(at)
}
