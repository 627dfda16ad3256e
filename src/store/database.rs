//! Which database a run has: raised before the trials, opened for each of them, read and tidied
//! at a trial's end; and where the ledger of a finished trial lies.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use tokio_postgres::Config;

use super::jobs::CONNECTIONS;
use super::memory::Memory;
use super::postgres::Postgres;
use super::redis::Redis;
use super::sqlite::{self, Sqlite};
use super::{Ledger, Store, StoreError};
use crate::client::Server;
use crate::plan::Plan;
use crate::scenario;
use crate::topology;

/// Connections of a PostgreSQL beside the workers': set-up, ledger, and its own reserve.
const SPARE: usize = 12;

/// Where a PostgreSQL is. It is never printed whole, for there may be a password in it.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl(Config);

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreUrl(..)")
    }
}

impl FromStr for StoreUrl {
    type Err = StoreError;

    /// Reads `postgres://USER[:PASSWORD]@HOST[:PORT]/DATABASE`. The error does not repeat it.
    fn from_str(text: &str) -> Result<StoreUrl, StoreError> {
        const WANTED: &str = "write `postgres://USER@HOST:PORT/DATABASE`, and a password there or \
                              in PGPASSWORD";
        if !["postgres://", "postgresql://"]
            .iter()
            .any(|scheme| text.starts_with(scheme))
        {
            return Err(StoreError(format!(
                "`--store-url` is no such URL: {WANTED}"
            )));
        }
        let config = Config::from_str(text);
        let config = config.map_err(|_| StoreError(format!("`--store-url`: {WANTED}")))?;
        Ok(StoreUrl(config))
    }
}

/// The database of some trials.
#[derive(Debug)]
pub enum Database {
    /// A file in each trial's folder.
    Sqlite,
    /// The Redis of each trial.
    Redis,
    /// This process.
    Memory,
    /// A PostgreSQL: the run's own, or a user's.
    Postgres {
        /// The run's own.
        own: Option<Box<topology::Postgres>>,
        /// How it is reached.
        at: Box<StoreUrl>,
    },
}

impl Database {
    /// Has the database ready that a plan asks for.
    pub async fn raise(
        kind: scenario::Store,
        named: Option<&StoreUrl>,
    ) -> Result<Database, StoreError> {
        match (kind, named) {
            (scenario::Store::Sqlite, _) => Ok(Database::Sqlite),
            (scenario::Store::Redis, _) => Ok(Database::Redis),
            (scenario::Store::Memory, _) => Ok(Database::Memory),
            (scenario::Store::Postgres, Some(url)) => {
                let mut at = url.clone();
                if at.0.get_password().is_none()
                    && let Ok(password) = std::env::var("PGPASSWORD")
                {
                    at.0.password(password);
                }
                Ok(Database::Postgres {
                    own: None,
                    at: Box::new(at),
                })
            }
            (scenario::Store::Postgres, None) => {
                let own = topology::Postgres::start(CONNECTIONS + SPARE).await;
                let own = own.map_err(|why| StoreError(why.to_string()))?;
                let mut at = Config::new();
                at.host_path(own.socket())
                    .user(topology::Postgres::USER)
                    .dbname(topology::Postgres::DATABASE);
                Ok(Database::Postgres {
                    own: Some(Box::new(own)),
                    at: Box::new(StoreUrl(at)),
                })
            }
        }
    }

    /// Opens the business of one trial, as it is before it. Keys in Redis begin with `prefix`.
    pub async fn open(
        &self,
        plan: &Plan,
        folder: &Path,
        redis: Option<Server>,
        prefix: &str,
    ) -> Result<Opened, StoreError> {
        let (workload, guard) = (&plan.workload, plan.guard);
        match self {
            Database::Sqlite => {
                let path = folder.join(ledger_file(scenario::Store::Sqlite));
                let store = Sqlite::create(&path, workload, guard);
                let at = |why| StoreError(format!("{}: {why}", path.display()));
                Ok(Opened::Sqlite(Arc::new(store.map_err(at)?)))
            }
            Database::Redis => {
                let nowhere = || StoreError("the run has no Redis to hold the store".to_owned());
                let server = redis.ok_or_else(nowhere)?;
                let prefix = format!("{prefix}oversold:store:{}", topology::own_name(plan.seed));
                let store = Redis::create(server, &prefix, workload, guard).await?;
                Ok(Opened::Redis(Arc::new(store)))
            }
            Database::Memory => {
                let store = Memory::create(workload, guard);
                Ok(Opened::Memory(Arc::new(store)))
            }
            Database::Postgres { at, .. } => {
                let schema = format!("oversold_{}", topology::own_name(plan.seed));
                let store = Postgres::create(at.0.clone(), &schema, workload, guard).await;
                let help = |why| match self {
                    Database::Postgres { own: None, .. } => StoreError(format!(
                        "{why}\n  `--store-url` names a user who may connect and create a schema \
                         (without TLS)"
                    )),
                    _ => why,
                };
                Ok(Opened::Postgres(Arc::new(store.map_err(help)?)))
            }
        }
    }

    /// Ends a server of the run's own.
    pub async fn stop(self) {
        if let Database::Postgres { own: Some(own), .. } = self {
            own.stop().await;
        }
    }
}

/// The store of one trial.
#[derive(Debug)]
pub enum Opened {
    /// In its file.
    Sqlite(Arc<Sqlite>),
    /// In its keys.
    Redis(Arc<Redis>),
    /// In its schema.
    Postgres(Arc<Postgres>),
    /// In this process.
    Memory(Arc<Memory>),
}

impl Opened {
    /// The store, for those who read and write.
    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            Opened::Sqlite(store) => Arc::clone(store) as Arc<dyn Store>,
            Opened::Redis(store) => Arc::clone(store) as Arc<dyn Store>,
            Opened::Postgres(store) => Arc::clone(store) as Arc<dyn Store>,
            Opened::Memory(store) => Arc::clone(store) as Arc<dyn Store>,
        }
    }

    /// The ledger at the trial's end.
    pub async fn ledger(&self) -> Result<Ledger, StoreError> {
        let store = self.store();
        store.settled().await;
        store.ledger().await
    }

    /// Writes a ledger that is in no file yet to one in `folder`.
    pub fn keep(&self, folder: &Path, ledger: &Ledger) -> Result<(), StoreError> {
        let file = match self {
            Opened::Sqlite(_) => return Ok(()),
            Opened::Redis(_) => ledger_file(scenario::Store::Redis),
            Opened::Postgres(_) => ledger_file(scenario::Store::Postgres),
            Opened::Memory(_) => ledger_file(scenario::Store::Memory),
        };
        let path = folder.join(file);
        let at = |why: String| StoreError(format!("{}: {why}", path.display()));
        let text = serde_json::to_string_pretty(ledger).map_err(|why| at(why.to_string()))?;
        std::fs::write(&path, text + "\n").map_err(|why| at(why.to_string()))
    }

    /// Takes away what must not stay: the run's schema, the run's keys.
    pub async fn close(self) -> Result<(), StoreError> {
        match self {
            Opened::Sqlite(_) | Opened::Memory(_) => Ok(()),
            Opened::Redis(store) => store.remove_keys().await,
            Opened::Postgres(store) => store.drop_schema().await,
        }
    }
}

/// The file in a trial's folder that holds the ledger of such a store.
pub fn ledger_file(kind: scenario::Store) -> &'static str {
    match kind {
        scenario::Store::Sqlite => "ledger.sqlite",
        scenario::Store::Postgres | scenario::Store::Redis | scenario::Store::Memory => {
            "ledger.json"
        }
    }
}

/// Reads the ledger of a finished trial from its folder.
pub fn stored_ledger(folder: &Path, kind: scenario::Store) -> Result<Ledger, StoreError> {
    let path: PathBuf = folder.join(ledger_file(kind));
    let at = |why: String| StoreError(format!("{}: {why}", path.display()));
    if !path.is_file() {
        return Err(at("the history's ledger is not beside it".to_owned()));
    }
    if kind == scenario::Store::Sqlite {
        return sqlite::ledger(&path);
    }
    let text = std::fs::read_to_string(&path).map_err(|why| at(why.to_string()))?;
    serde_json::from_str(&text).map_err(|why| at(format!("not a ledger: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_in_no_message() {
        let url = "postgres://me:hush@127.0.0.1/shop";
        let read: StoreUrl = url.parse().expect("a URL");
        assert!(!format!("{read:?}").contains("hush"));
        for bad in ["mysql://me:hush@host/db", "postgres://me:hush@host:port/db"] {
            let why = bad.parse::<StoreUrl>().expect_err("no URL of ours");
            assert!(!why.to_string().contains("hush"), "{why}");
            assert!(why.to_string().contains("postgres://USER@HOST"), "{why}");
        }
    }
}
