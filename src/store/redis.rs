//! Redis: the business as keys under a prefix of the run's own, on the Redis that holds the locks.
//! An item is a hash, its orders or postings a list, and what must be unique a hash of names. A
//! write is one script, which the server runs alone; under the guard `optimistic` it is WATCH,
//! MULTI and EXEC on a connection that nobody else uses meanwhile.

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, FromRedisValue};

use super::jobs::{self, Connect, Jobs};
use super::shape::{Shape, beginning};
use super::{Boxed, Ledger, Seen, Store, StoreError, Write, Written};
use crate::client::{Conn, Outcome, Patience, Script, Server};
use crate::scenario::{Guard, Workload};

const PATIENCE: Patience = Patience {
    connect: Duration::from_secs(5),
    response: Duration::from_secs(10),
};

/// A ledger in the keys of a Redis.
#[derive(Debug)]
pub struct Redis {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    jobs: Jobs<Conn>,
    server: Server,
    /// An item's key is this and its number.
    prefix: String,
    shape: Shape,
    items: u32,
    /// How many entries an account has.
    each: u32,
    guard: Guard,
    step: Script,
    post: Script,
}

impl Redis {
    /// Writes the business as it is before the run. Keys that are there already are an error and
    /// are left alone.
    pub async fn create(
        server: impl Into<Server>,
        prefix: &str,
        workload: &Workload,
        guard: Guard,
    ) -> Result<Redis, StoreError> {
        let (items, each) = beginning(workload);
        let shape = Shape::of(workload);
        let prefix = format!("{prefix}:{}:", shape.table().0);
        let inner = Inner {
            jobs: Jobs::new(),
            server: server.into(),
            prefix,
            shape,
            items,
            each,
            guard,
            step: Script::new(include_str!("redis/step.lua")),
            post: Script::new(include_str!("redis/post.lua")),
        };
        let begin = Script::new(include_str!("redis/begin.lua"));
        let arguments = [field(shape), &each.to_string()];
        inner.about_all::<i64>(&begin, &arguments).await?;
        Ok(Redis {
            inner: Arc::new(inner),
        })
    }

    /// Removes the keys, once all writes have ended.
    pub async fn remove_keys(&self) -> Result<(), StoreError> {
        jobs::all_ended(&self.inner).await;
        let clear = Script::new(include_str!("redis/clear.lua"));
        self.inner.about_all::<i64>(&clear, &[]).await.map(drop)
    }
}

/// The field in which an item's number stands.
fn field(shape: Shape) -> &'static str {
    match shape {
        Shape::Stock => "units",
        Shape::Entries => "open",
        Shape::Counter => "value",
    }
}

fn answered<T>(outcome: Outcome<T>) -> Result<T, StoreError> {
    match outcome {
        Outcome::Done(answer) => Ok(answer),
        Outcome::Refused(error) | Outcome::Unknown(error) => {
            Err(StoreError(format!("Redis: {error}")))
        }
    }
}

async fn call<T: FromRedisValue>(conn: &Conn, command: &Cmd) -> Result<T, StoreError> {
    answered(conn.call(command).await)
}

/// The row of a write; the list that it is in says of which item.
fn row(write: &Write, name: Option<i64>) -> String {
    let name = name.map_or(String::new(), |name| format!("\"seen\":{name},"));
    format!(
        "{{{name}\"operation\":{},\"instance\":{},\"worker\":{},\"at_ns\":{}}}",
        write.op, write.instance, write.worker, write.at.0
    )
}

impl Connect for Inner {
    type Connection = Conn;

    async fn connect(&self) -> Result<Conn, StoreError> {
        let opened = Conn::open(self.server.clone(), PATIENCE).await;
        opened.map_err(|why| StoreError(format!("Redis at {}: {why}", self.server)))
    }
}

impl Inner {
    /// A script about all items, on a connection of its own.
    async fn about_all<T: FromRedisValue>(
        &self,
        script: &Script,
        arguments: &[&str],
    ) -> Result<T, StoreError> {
        let conn = self.connect().await?;
        let items = self.items.to_string();
        let arguments = [&[self.prefix.as_str(), &items], arguments].concat();
        answered(conn.eval(script, &[], &arguments).await)
    }

    /// The keys of an item: itself, its rows, their names.
    fn keys(&self, item: u32) -> [String; 3] {
        let key = format!("{}{item}", self.prefix);
        [key.clone(), format!("{key}:rows"), format!("{key}:names")]
    }

    async fn seen(&self, conn: &Conn, item: u32) -> Result<Seen, StoreError> {
        let [key, ..] = self.keys(item);
        let mut read = redis::cmd("HMGET");
        read.arg(&key).arg(field(self.shape)).arg("version");
        match call(conn, &read).await? {
            (Some(value), Some(version)) => Ok(Seen { value, version }),
            _ => Err(StoreError(format!("Redis: the key {key} is gone"))),
        }
    }

    /// A write with its guard, in one script.
    async fn write(&self, conn: &Conn, write: &Write) -> Result<Written, StoreError> {
        let keys = self.keys(write.item);
        let keys = [keys[0].as_str(), &keys[1], &keys[2]];
        let guard = self.guard.word();
        let fence = write.fence.unwrap_or(0).to_string();
        let outcome = match self.shape {
            Shape::Entries => {
                let arguments = [guard, &fence, &row(write, None)];
                conn.eval(&self.post, &keys, &arguments).await
            }
            Shape::Stock | Shape::Counter => {
                let (step, seen) = (self.step().to_string(), write.seen.value.to_string());
                let row = row(write, Some(write.seen.value));
                let arguments = [guard, field(self.shape), &step, &seen, &fence, &row];
                conn.eval(&self.step, &keys, &arguments).await
            }
        };
        let (replaced, left, rows, rejected) = answered(outcome)?;
        Ok(Written {
            replaced,
            left,
            rows,
            rejected,
        })
    }

    /// By how much a write moves the number.
    fn step(&self) -> i64 {
        match self.shape {
            Shape::Stock => -1,
            Shape::Entries | Shape::Counter => 1,
        }
    }

    /// Compare-and-set as Redis has it (<https://redis.io/docs/latest/develop/using-commands/transactions/>):
    /// EXEC does nothing if the watched item was changed meanwhile.
    async fn compare_and_set(&self, conn: &Conn, write: &Write) -> Result<Written, StoreError> {
        let [item, ..] = self.keys(write.item);
        call::<()>(conn, redis::cmd("WATCH").arg(&item)).await?;
        let now = self.seen(conn, write.item).await?;
        if now.version != write.seen.version {
            call::<()>(conn, &redis::cmd("UNWATCH")).await?;
            return Ok(Written::refused(now.value));
        }
        let (left, rows) = match self.shape {
            Shape::Entries => (0, self.each),
            Shape::Stock | Shape::Counter => (write.seen.value + self.step(), 1),
        };
        call::<()>(conn, &redis::cmd("MULTI")).await?;
        for command in self.changes(write, left) {
            call::<redis::Value>(conn, &command).await?;
        }
        match call(conn, &redis::cmd("EXEC")).await? {
            redis::Value::Nil => Ok(Written::refused(now.value)),
            _ => Ok(Written {
                replaced: now.value,
                left,
                rows,
                rejected: 0,
            }),
        }
    }

    /// What stands between MULTI and EXEC.
    fn changes(&self, write: &Write, left: i64) -> Vec<Cmd> {
        let [item, rows, names] = self.keys(write.item);
        let mut set = redis::cmd("HSET");
        set.arg(&item).arg(field(self.shape)).arg(left);
        set.arg("version").arg(write.seen.version + 1);
        let push = |name| {
            let mut push = redis::cmd("RPUSH");
            push.arg(&rows).arg(row(write, name));
            push
        };
        if self.shape != Shape::Entries {
            return vec![set, push(Some(write.seen.value))];
        }
        let mut changes = vec![set];
        for entry in 1..=self.each {
            let mut count = redis::cmd("HINCRBY");
            count.arg(&names).arg(entry).arg(1);
            changes.extend([count, push(None)]);
        }
        changes
    }
}

impl Store for Redis {
    fn read(&self, item: u32) -> Boxed<'_, Result<Seen, StoreError>> {
        Box::pin(jobs::to_the_end(&self.inner, move |store| async move {
            let job = async |conn: &mut Conn| store.seen(conn, item).await;
            store.jobs.run(&*store, job).await
        }))
    }

    fn write(&self, write: Write) -> Boxed<'_, Result<Written, StoreError>> {
        Box::pin(jobs::to_the_end(&self.inner, move |store| async move {
            let job = async |conn: &mut Conn| match store.guard {
                Guard::Optimistic => store.compare_and_set(conn, &write).await,
                _ => store.write(conn, &write).await,
            };
            store.jobs.run(&*store, job).await
        }))
    }

    fn settled(&self) -> Boxed<'_, ()> {
        Box::pin(jobs::all_ended(&self.inner))
    }

    fn ledger(&self) -> Boxed<'_, Result<Ledger, StoreError>> {
        Box::pin(async {
            let script = Script::new(include_str!("redis/ledger.lua"));
            let arguments = [field(self.inner.shape)];
            let (initial, left, rows, beyond, short, twice, never) =
                self.inner.about_all(&script, &arguments).await?;
            let nothing = Ledger::default();
            Ok(match self.inner.shape {
                Shape::Stock => Ledger {
                    stock: initial,
                    remaining: left,
                    orders: rows,
                    oversold: beyond,
                    unsold: short,
                    ..nothing
                },
                Shape::Entries => Ledger {
                    entries: initial,
                    postings: rows,
                    double_processed: twice,
                    never_processed: never,
                    ..nothing
                },
                Shape::Counter => Ledger {
                    increments: rows,
                    counted: left,
                    ..nothing
                },
            })
        })
    }
}
