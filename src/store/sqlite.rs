//! SQLite, embedded: the tables of `docs/ledger.md` in `ledger.sqlite`. One thread owns the
//! connection; SQLite would serialise writers in any case.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, params, params_from_iter};
use tokio::sync::oneshot;

use super::shape::{Shape, beginning};
use super::{Boxed, Ledger, Seen, Store, StoreError, Write, Written};
use crate::scenario::{Guard, Workload};

/// The tables. `orders.unit` is the number that the stock showed when the order was decided, so
/// that each unit has a name and a constraint can hold two orders for one unit apart; likewise
/// `increments.seen`.
const SCHEMA: &str = "
PRAGMA journal_mode = WAL;
-- The driver may be killed, the machine will not be: no waiting for the disk.
PRAGMA synchronous = OFF;
CREATE TABLE stock (
  sku INTEGER PRIMARY KEY, initial INTEGER NOT NULL, units INTEGER NOT NULL,
  version INTEGER NOT NULL DEFAULT 0, fence INTEGER NOT NULL DEFAULT 0);
CREATE TABLE orders (
  id INTEGER PRIMARY KEY, sku INTEGER NOT NULL REFERENCES stock, unit INTEGER NOT NULL,
  operation INTEGER NOT NULL, instance INTEGER NOT NULL, worker INTEGER NOT NULL,
  at_ns INTEGER NOT NULL);
CREATE INDEX orders_of_sku ON orders (sku);
CREATE TABLE accounts (
  id INTEGER PRIMARY KEY,
  version INTEGER NOT NULL DEFAULT 0, fence INTEGER NOT NULL DEFAULT 0);
CREATE TABLE entries (
  id INTEGER PRIMARY KEY, account INTEGER NOT NULL REFERENCES accounts,
  processed INTEGER NOT NULL DEFAULT 0);
CREATE INDEX entries_of_account ON entries (account);
CREATE TABLE postings (
  id INTEGER PRIMARY KEY, entry INTEGER NOT NULL REFERENCES entries,
  operation INTEGER NOT NULL, instance INTEGER NOT NULL, worker INTEGER NOT NULL,
  at_ns INTEGER NOT NULL);
CREATE TABLE counters (
  id INTEGER PRIMARY KEY, value INTEGER NOT NULL DEFAULT 0,
  version INTEGER NOT NULL DEFAULT 0, fence INTEGER NOT NULL DEFAULT 0);
CREATE TABLE increments (
  id INTEGER PRIMARY KEY, counter INTEGER NOT NULL REFERENCES counters, seen INTEGER NOT NULL,
  operation INTEGER NOT NULL, instance INTEGER NOT NULL, worker INTEGER NOT NULL,
  at_ns INTEGER NOT NULL);
";

/// Guard `unique`: the idempotency keys.
const UNIQUE: &str = "
CREATE UNIQUE INDEX one_order_a_unit ON orders (sku, unit);
CREATE UNIQUE INDEX one_posting_an_entry ON postings (entry);
CREATE UNIQUE INDEX one_increment_a_value ON increments (counter, seen);
";

type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// A ledger in a SQLite file.
#[derive(Debug)]
pub struct Sqlite {
    path: PathBuf,
    /// Present until it is dropped.
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    shape: Shape,
    guard: Guard,
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
            path: path.to_owned(),
            jobs: Some(jobs),
            thread: Some(thread),
            shape: Shape::of(workload),
            guard,
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
    let (items, each) = beginning(workload);
    match Shape::of(workload) {
        Shape::Stock => {
            let insert = "INSERT INTO stock (sku, initial, units) VALUES (?1, ?2, ?2)";
            let mut insert = tx.prepare(insert)?;
            for item in 0..items {
                insert.execute([item, each])?;
            }
        }
        Shape::Entries => add_accounts(&tx, items, each)?,
        Shape::Counter => {
            let mut insert = tx.prepare("INSERT INTO counters (id) VALUES (?1)")?;
            for item in 0..items {
                insert.execute([item])?;
            }
        }
    }
    tx.commit()
}

fn add_accounts(tx: &Transaction<'_>, accounts: u32, entries: u32) -> rusqlite::Result<()> {
    for account in 0..accounts {
        tx.execute("INSERT INTO accounts (id) VALUES (?1)", [account])?;
        for _ in 0..entries {
            tx.execute("INSERT INTO entries (account) VALUES (?1)", [account])?;
        }
    }
    Ok(())
}

impl Store for Sqlite {
    fn read(&self, item: u32) -> Boxed<'_, Result<Seen, StoreError>> {
        let shape = self.shape;
        Box::pin(self.ask(move |connection| {
            Ok(Seen {
                value: value(connection, shape, item)?,
                version: version(connection, shape, item)?,
            })
        }))
    }

    fn write(&self, write: Write) -> Boxed<'_, Result<Written, StoreError>> {
        let (shape, guard) = (self.shape, self.guard);
        Box::pin(self.ask(move |connection| {
            let tx = connection.transaction()?;
            let written = match shape {
                Shape::Stock | Shape::Counter => step(&tx, shape, &write, guard)?,
                Shape::Entries => post(&tx, &write, guard)?,
            };
            // A refused row takes back what came with it.
            match written.rows {
                0 => tx.rollback()?,
                _ => tx.commit()?,
            }
            Ok(written)
        }))
    }

    fn ledger(&self) -> Boxed<'_, Result<Ledger, StoreError>> {
        Box::pin(self.ask(|connection| count(connection)))
    }

    /// On a connection of its own, whose reading holds up no writer (write-ahead log:
    /// <https://www.sqlite.org/wal.html>).
    fn ledger_meanwhile(&self) -> Boxed<'_, Result<Option<Ledger>, StoreError>> {
        let path = self.path.clone();
        Box::pin(async move {
            let counting = tokio::task::spawn_blocking(move || meanwhile(&path));
            let counted = counting.await.map_err(|why| StoreError(why.to_string()))?;
            counted.map(Some).map_err(failed)
        })
    }
}

fn value(connection: &Connection, shape: Shape, item: u32) -> rusqlite::Result<i64> {
    let query = match shape {
        Shape::Stock => "SELECT units FROM stock WHERE sku = ?1",
        Shape::Entries => "SELECT count(*) FROM entries WHERE account = ?1 AND processed = 0",
        Shape::Counter => "SELECT value FROM counters WHERE id = ?1",
    };
    let mut query = connection.prepare_cached(query)?;
    query.query_row([item], |row| row.get(0))
}

fn version(connection: &Connection, shape: Shape, item: u32) -> rusqlite::Result<i64> {
    let (table, id) = shape.table();
    let mut query =
        connection.prepare_cached(&format!("SELECT version FROM {table} WHERE {id} = ?1"))?;
    query.query_row([item], |row| row.get(0))
}

/// The statement that changes an item, with the guard's condition in it. ?1 is the item, ?2 what
/// was seen, ?3 what the guard compares.
fn update(shape: Shape, guard: Guard) -> String {
    let (table, id) = shape.table();
    let change = match (shape, guard) {
        (Shape::Stock, Guard::Conditional) => ", units = units - 1",
        (Shape::Stock, _) => ", units = ?2 - 1",
        (Shape::Counter, Guard::Conditional) => ", value = value + 1",
        (Shape::Counter, _) => ", value = ?2 + 1",
        (Shape::Entries, _) => "",
    };
    let (fence, only_if) = match (shape, guard) {
        // Written with the number of its grant, and never over a younger one.
        (_, Guard::Fence) => (", fence = ?3", " AND fence <= ?3"),
        (_, Guard::Optimistic) => ("", " AND version = ?3"),
        (Shape::Stock, Guard::Conditional) => ("", " AND units > 0"),
        _ => ("", ""),
    };
    format!("UPDATE {table} SET version = version + 1{change}{fence} WHERE {id} = ?1{only_if}")
}

/// Changes an item: true if the database let it.
fn set(tx: &Transaction<'_>, shape: Shape, write: &Write, guard: Guard) -> rusqlite::Result<bool> {
    let compared = match guard {
        Guard::Fence => write.fence.unwrap_or(0),
        _ => write.seen.version,
    };
    let values = [i64::from(write.item), write.seen.value, compared];
    let mut update = tx.prepare_cached(&update(shape, guard))?;
    let used = update.parameter_count();
    Ok(update.execute(params_from_iter(values.into_iter().take(used)))? > 0)
}

/// One unit sold, or one counted: the number and its row, both or neither.
fn step(
    tx: &Transaction<'_>,
    shape: Shape,
    write: &Write,
    guard: Guard,
) -> rusqlite::Result<Written> {
    let replaced = value(tx, shape, write.item)?;
    let insert = match shape {
        Shape::Counter => {
            "INSERT INTO increments (counter, seen, operation, instance, worker, at_ns)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
        }
        _ => {
            "INSERT INTO orders (sku, unit, operation, instance, worker, at_ns)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
        }
    };
    if !set(tx, shape, write, guard)? {
        return Ok(Written::refused(replaced));
    }
    let name = match guard {
        Guard::Conditional => replaced,
        _ => write.seen.value,
    };
    let row = params![
        write.item,
        name,
        write.op as i64,
        write.instance,
        write.worker,
        write.at.0 as i64
    ];
    if refused(tx.prepare_cached(insert)?.execute(row))? {
        return Ok(Written::refused(replaced));
    }
    Ok(Written {
        replaced,
        left: value(tx, shape, write.item)?,
        rows: 1,
        rejected: 0,
    })
}

/// Posts every entry of the account that the operation had found unprocessed, and marks them.
fn post(tx: &Transaction<'_>, write: &Write, guard: Guard) -> rusqlite::Result<Written> {
    let replaced = value(tx, Shape::Entries, write.item)?;
    if !set(tx, Shape::Entries, write, guard)? {
        return Ok(Written::refused(replaced));
    }
    let (mut rows, mut rejected) = (0, 0);
    for (entry, processed) in entries(tx, write.item)? {
        let insert = "INSERT INTO postings (entry, operation, instance, worker, at_ns)
                      VALUES (?1, ?2, ?3, ?4, ?5)";
        let posting = params![
            entry,
            write.op as i64,
            write.instance,
            write.worker,
            write.at.0 as i64
        ];
        let taken = guard == Guard::Conditional && processed;
        match taken || refused(tx.prepare_cached(insert)?.execute(posting))? {
            true => rejected += 1,
            false => rows += 1,
        }
    }
    let update = "UPDATE entries SET processed = 1 WHERE account = ?1 AND processed = 0";
    tx.prepare_cached(update)?.execute([write.item])?;
    Ok(Written {
        replaced,
        left: 0,
        rows,
        rejected,
    })
}

fn entries(tx: &Transaction<'_>, account: u32) -> rusqlite::Result<Vec<(i64, bool)>> {
    let mut query = tx.prepare_cached("SELECT id, processed FROM entries WHERE account = ?1")?;
    let rows = query.query_map([account], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
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
    count(&connection).map_err(at)
}

/// The ledger of a run that goes on, as of one moment.
fn meanwhile(path: &Path) -> rusqlite::Result<Ledger> {
    let mut connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let tx = connection.transaction()?;
    count(&tx)
}

fn count(connection: &Connection) -> rusqlite::Result<Ledger> {
    let count = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let posted = "SELECT count(*) FROM postings GROUP BY entry HAVING count(*) > 1";
    // Oversold is counted SKU by SKU: what one has too many does not make up for another.
    let beyond = "SELECT (SELECT count(*) FROM orders WHERE orders.sku = stock.sku) - initial AS n
                  FROM stock";
    Ok(Ledger {
        stock: count("SELECT coalesce(sum(initial), 0) FROM stock")?,
        orders: count("SELECT count(*) FROM orders")?,
        remaining: count("SELECT coalesce(sum(units), 0) FROM stock")?,
        oversold: count(&format!(
            "SELECT coalesce(sum(max(n, 0)), 0) FROM ({beyond})"
        ))?,
        unsold: count(&format!(
            "SELECT coalesce(sum(max(-n, 0)), 0) FROM ({beyond})"
        ))?,
        entries: count("SELECT count(*) FROM entries")?,
        postings: count("SELECT count(*) FROM postings")?,
        double_processed: count(&format!("SELECT count(*) FROM ({posted})"))?,
        never_processed: count(
            "SELECT count(*) FROM entries WHERE id NOT IN (SELECT entry FROM postings)",
        )?,
        increments: count("SELECT count(*) FROM increments")?,
        counted: count("SELECT coalesce(sum(value), 0) FROM counters")?,
    })
}
