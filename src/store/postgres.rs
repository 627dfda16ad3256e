//! PostgreSQL: the tables of `docs/ledger.md` in a schema of the run's own. Each read is one
//! statement, each write one transaction (READ COMMITTED) that locks its item's row only for
//! itself: nothing is held between the two.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Config, IsolationLevel, NoTls, Statement, Transaction};

use super::jobs::{self, Connect, Jobs};
use super::shape::{Shape, beginning};
use super::{Boxed, Ledger, Seen, Store, StoreError, Write, Written};
use crate::scenario::{Guard, Workload};

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(5);

/// See `docs/ledger.md`; as in SQLite.
const SCHEMA: &str = "
CREATE TABLE stock (
  sku bigint PRIMARY KEY, initial bigint NOT NULL, units bigint NOT NULL,
  version bigint NOT NULL DEFAULT 0, fence bigint NOT NULL DEFAULT 0);
CREATE TABLE orders (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  sku bigint NOT NULL REFERENCES stock, unit bigint NOT NULL,
  operation bigint NOT NULL, instance bigint NOT NULL, worker bigint NOT NULL,
  at_ns bigint NOT NULL);
CREATE INDEX orders_of_sku ON orders (sku);
CREATE TABLE accounts (
  id bigint PRIMARY KEY,
  version bigint NOT NULL DEFAULT 0, fence bigint NOT NULL DEFAULT 0);
CREATE TABLE entries (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  account bigint NOT NULL REFERENCES accounts, processed bigint NOT NULL DEFAULT 0);
CREATE INDEX entries_of_account ON entries (account);
CREATE TABLE postings (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, entry bigint NOT NULL REFERENCES entries,
  operation bigint NOT NULL, instance bigint NOT NULL, worker bigint NOT NULL,
  at_ns bigint NOT NULL);
CREATE TABLE counters (
  id bigint PRIMARY KEY, value bigint NOT NULL DEFAULT 0,
  version bigint NOT NULL DEFAULT 0, fence bigint NOT NULL DEFAULT 0);
CREATE TABLE increments (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  counter bigint NOT NULL REFERENCES counters, seen bigint NOT NULL,
  operation bigint NOT NULL, instance bigint NOT NULL, worker bigint NOT NULL,
  at_ns bigint NOT NULL);
";

/// Guard `unique`: the idempotency keys.
const UNIQUE: &str = "
CREATE UNIQUE INDEX one_order_a_unit ON orders (sku, unit);
CREATE UNIQUE INDEX one_posting_an_entry ON postings (entry);
CREATE UNIQUE INDEX one_increment_a_value ON increments (counter, seen);
";

/// Oversold is counted SKU by SKU: what one has too many does not make up for another.
const LEDGER: &str = "
WITH beyond AS (
  SELECT (SELECT count(*) FROM orders WHERE orders.sku = stock.sku) - initial AS n FROM stock)
SELECT
  (SELECT coalesce(sum(initial), 0) FROM stock)::bigint,
  (SELECT coalesce(sum(units), 0) FROM stock)::bigint,
  (SELECT count(*) FROM orders),
  (SELECT coalesce(sum(greatest(n, 0)), 0) FROM beyond)::bigint,
  (SELECT coalesce(sum(greatest(-n, 0)), 0) FROM beyond)::bigint,
  (SELECT count(*) FROM entries),
  (SELECT count(*) FROM postings),
  (SELECT count(*) FROM (SELECT 1 FROM postings GROUP BY entry HAVING count(*) > 1) AS twice),
  (SELECT count(*) FROM entries
    WHERE NOT EXISTS (SELECT 1 FROM postings WHERE postings.entry = entries.id)),
  (SELECT count(*) FROM increments),
  (SELECT coalesce(sum(value), 0) FROM counters)::bigint";

/// A ledger in a schema of a PostgreSQL.
#[derive(Debug)]
pub struct Postgres {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    jobs: Jobs<Session>,
    // It prints itself without its password.
    config: Config,
    schema: String,
    shape: Shape,
    guard: Guard,
}

/// A connection with its statements.
#[derive(Debug)]
struct Session {
    client: Client,
    /// The item's value and version.
    read: Statement,
    /// Locks the item's row until the transaction ends.
    hold: Statement,
    /// Changes the item, if the guard's condition lets it: item, seen, what the guard compares.
    change: Statement,
    /// Adds the rows; a constraint may refuse some.
    add: Statement,
    /// What goes with new postings: marks, and the number of entries.
    after: Option<[Statement; 2]>,
}

impl Postgres {
    /// Creates the schema, its tables, and the business as it is before the run. A schema of that
    /// name that is there already is an error and is left alone.
    pub async fn create(
        mut config: Config,
        schema: &str,
        workload: &Workload,
        guard: Guard,
    ) -> Result<Postgres, StoreError> {
        config.connect_timeout(CONNECT);
        let inner = Inner {
            jobs: Jobs::new(),
            config,
            schema: schema.to_owned(),
            shape: Shape::of(workload),
            guard,
        };
        let client = inner.client().await?;
        let create = format!("CREATE SCHEMA {schema}");
        client.batch_execute(&create).await.map_err(failed)?;
        let store = Postgres {
            inner: Arc::new(inner),
        };
        let filled = client.batch_execute(&script(workload, guard)).await;
        match filled {
            Ok(()) => Ok(store),
            Err(why) => {
                let _ = store.drop_schema().await;
                Err(failed(why))
            }
        }
    }

    /// Removes the schema, once all writes have ended.
    pub async fn drop_schema(&self) -> Result<(), StoreError> {
        jobs::all_ended(&self.inner).await;
        let drop = format!("DROP SCHEMA {} CASCADE", self.inner.schema);
        jobs::in_time(async {
            let client = self.inner.client().await?;
            client.batch_execute(&drop).await.map_err(failed)
        })
        .await
    }
}

fn script(workload: &Workload, guard: Guard) -> String {
    let unique = match guard {
        Guard::Unique => UNIQUE,
        _ => "",
    };
    let (items, each) = beginning(workload);
    let items = format!("generate_series(0, {items} - 1) AS item");
    let fill = match Shape::of(workload) {
        Shape::Stock => format!(
            "INSERT INTO stock (sku, initial, units) SELECT item, {each}, {each} FROM {items};"
        ),
        Shape::Entries => format!(
            "INSERT INTO accounts (id) SELECT item FROM {items};
             INSERT INTO entries (account)
             SELECT item FROM {items}, generate_series(1, {each}) ORDER BY item;"
        ),
        Shape::Counter => format!("INSERT INTO counters (id) SELECT item FROM {items};"),
    };
    format!("{SCHEMA}{unique}{fill}")
}

fn failed(error: tokio_postgres::Error) -> StoreError {
    // The library's own words are few; the server's stand behind them.
    StoreError(match error.as_db_error() {
        Some(said) => format!("PostgreSQL: {}", said.message()),
        None => match std::error::Error::source(&error) {
            Some(why) => format!("PostgreSQL: {error}: {why}"),
            None => format!("PostgreSQL: {error}"),
        },
    })
}

impl Inner {
    async fn client(&self) -> Result<Client, StoreError> {
        let connecting = tokio::time::timeout(CONNECT, self.config.connect(NoTls)).await;
        let in_time = |_| StoreError(format!("PostgreSQL: no connection within {CONNECT:?}"));
        let (client, connection) = connecting.map_err(in_time)?.map_err(failed)?;
        // Ends with its client.
        tokio::spawn(connection);
        let settings = format!(
            "SET search_path TO {}; SET statement_timeout TO '10s'",
            self.schema
        );
        client.batch_execute(&settings).await.map_err(failed)?;
        Ok(client)
    }
}

impl Connect for Inner {
    type Connection = Session;

    async fn connect(&self) -> Result<Session, StoreError> {
        let client = self.client().await?;
        let prepare = async |sql: &str, parameters: usize| {
            // With types given, a guard need not use all of them.
            let types = vec![Type::INT8; parameters];
            client.prepare_typed(sql, &types).await.map_err(failed)
        };
        let (table, id) = self.shape.table();
        let hold = format!("SELECT version FROM {table} WHERE {id} = $1 FOR UPDATE");
        let after = match self.shape {
            Shape::Entries => Some([
                prepare(
                    "UPDATE entries SET processed = 1 WHERE account = $1 AND processed = 0",
                    1,
                )
                .await?,
                prepare("SELECT count(*) FROM entries WHERE account = $1", 1).await?,
            ]),
            _ => None,
        };
        Ok(Session {
            read: prepare(read(self.shape), 1).await?,
            hold: prepare(&hold, 1).await?,
            change: prepare(&change(self.shape, self.guard), 3).await?,
            add: prepare(add(self.shape, self.guard), 6).await?,
            after,
            client,
        })
    }
}

fn read(shape: Shape) -> &'static str {
    match shape {
        Shape::Stock => "SELECT units, version FROM stock WHERE sku = $1",
        Shape::Entries => {
            "SELECT (SELECT count(*) FROM entries WHERE account = $1 AND processed = 0), version
             FROM accounts WHERE id = $1"
        }
        Shape::Counter => "SELECT value, version FROM counters WHERE id = $1",
    }
}

/// The statement that changes an item, with the guard's condition in it.
fn change(shape: Shape, guard: Guard) -> String {
    let (table, id) = shape.table();
    let change = match (shape, guard) {
        (Shape::Stock, Guard::Conditional) => ", units = units - 1",
        (Shape::Stock, _) => ", units = $2 - 1",
        (Shape::Counter, Guard::Conditional) => ", value = value + 1",
        (Shape::Counter, _) => ", value = $2 + 1",
        (Shape::Entries, _) => "",
    };
    let (fence, only_if) = match (shape, guard) {
        (_, Guard::Fence) => (", fence = $3", " AND fence <= $3"),
        (_, Guard::Optimistic) => ("", " AND version = $3"),
        (Shape::Stock, Guard::Conditional) => ("", " AND units > 0"),
        _ => ("", ""),
    };
    format!("UPDATE {table} SET version = version + 1{change}{fence} WHERE {id} = $1{only_if}")
}

/// The statement that adds the rows: item, the order's name, operation, instance, worker, time.
fn add(shape: Shape, guard: Guard) -> &'static str {
    match (shape, guard) {
        (Shape::Stock, _) => {
            "INSERT INTO orders (sku, unit, operation, instance, worker, at_ns)
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING"
        }
        (Shape::Counter, _) => {
            "INSERT INTO increments (counter, seen, operation, instance, worker, at_ns)
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING"
        }
        (Shape::Entries, Guard::Conditional) => {
            "INSERT INTO postings (entry, operation, instance, worker, at_ns)
             SELECT id, $3, $4, $5, $6 FROM entries WHERE account = $1 AND processed = 0"
        }
        (Shape::Entries, _) => {
            "INSERT INTO postings (entry, operation, instance, worker, at_ns)
             SELECT id, $3, $4, $5, $6 FROM entries WHERE account = $1 ON CONFLICT DO NOTHING"
        }
    }
}

impl Session {
    async fn seen(&self, item: u32) -> Result<Seen, tokio_postgres::Error> {
        let row = self
            .client
            .query_one(&self.read, &[&i64::from(item)])
            .await?;
        Ok(Seen {
            value: row.try_get(0)?,
            version: row.try_get(1)?,
        })
    }

    async fn write(
        &mut self,
        write: &Write,
        guard: Guard,
    ) -> Result<Written, tokio_postgres::Error> {
        let begin = self.client.build_transaction();
        let tx = begin.isolation_level(IsolationLevel::ReadCommitted);
        let tx = tx.start().await?;
        let item = i64::from(write.item);
        tx.query_one(&self.hold, &[&item]).await?;
        let replaced = value(&tx, &self.read, item).await?;
        let compared = match guard {
            Guard::Fence => write.fence.unwrap_or(0),
            _ => write.seen.version,
        };
        let changed = tx
            .execute(&self.change, &[&item, &write.seen.value, &compared])
            .await?;
        if changed == 0 {
            tx.rollback().await?;
            return Ok(Written::refused(replaced));
        }
        let name = match guard {
            Guard::Conditional => replaced,
            _ => write.seen.value,
        };
        let (op, at) = (write.op as i64, write.at.0 as i64);
        let (instance, worker) = (i64::from(write.instance), i64::from(write.worker));
        let row: [&(dyn ToSql + Sync); 6] = [&item, &name, &op, &instance, &worker, &at];
        let rows = tx.execute(&self.add, &row).await? as u32;
        let mut asked = 1;
        if let Some([mark, entries]) = &self.after {
            tx.execute(mark, &[&item]).await?;
            asked = value(&tx, entries, item).await? as u32;
        }
        let rejected = asked.saturating_sub(rows);
        let left = value(&tx, &self.read, item).await?;
        // A refused row takes back what came with it.
        match rows {
            0 => tx.rollback().await?,
            _ => tx.commit().await?,
        }
        Ok(Written {
            replaced,
            left: if rows == 0 { replaced } else { left },
            rows,
            rejected,
        })
    }
}

/// The first number that a statement about an item gives.
async fn value(
    tx: &Transaction<'_>,
    statement: &Statement,
    item: i64,
) -> Result<i64, tokio_postgres::Error> {
    tx.query_one(statement, &[&item]).await?.try_get(0)
}

impl Store for Postgres {
    fn read(&self, item: u32) -> Boxed<'_, Result<Seen, StoreError>> {
        Box::pin(jobs::to_the_end(&self.inner, move |store| async move {
            let job = async |session: &mut Session| session.seen(item).await.map_err(failed);
            store.jobs.run(&*store, job).await
        }))
    }

    fn write(&self, write: Write) -> Boxed<'_, Result<Written, StoreError>> {
        Box::pin(jobs::to_the_end(&self.inner, move |store| async move {
            let guard = store.guard;
            let job =
                async |session: &mut Session| session.write(&write, guard).await.map_err(failed);
            store.jobs.run(&*store, job).await
        }))
    }

    fn settled(&self) -> Boxed<'_, ()> {
        Box::pin(jobs::all_ended(&self.inner))
    }

    fn ledger(&self) -> Boxed<'_, Result<Ledger, StoreError>> {
        Box::pin(jobs::in_time(async {
            let client = self.inner.client().await?;
            let row = client.query_one(LEDGER, &[]).await.map_err(failed)?;
            let number = |column| row.try_get::<_, i64>(column).map_err(failed);
            Ok(Ledger {
                stock: number(0)?,
                remaining: number(1)?,
                orders: number(2)?,
                oversold: number(3)?,
                unsold: number(4)?,
                entries: number(5)?,
                postings: number(6)?,
                double_processed: number(7)?,
                never_processed: number(8)?,
                increments: number(9)?,
                counted: number(10)?,
            })
        }))
    }

    /// On a connection of its own, and the server has processes enough.
    fn ledger_meanwhile(&self) -> Boxed<'_, Result<Option<Ledger>, StoreError>> {
        Box::pin(async { self.ledger().await.map(Some) })
    }
}
