//! The settings of a server that are other than they were, for a while: each is restored to what it
//! was, whatever that is. On a user's own Redis they are in a [`Journal`] meanwhile.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::journal::{Journal, Was};
use crate::client::{Conn, Outcome, Patience, Server};

/// The setting that says whose replica a server is, empty where it is a primary. It is set by a command
/// of its own (<https://redis.io/docs/latest/commands/replicaof/>).
pub const REPLICA_OF: &str = "replicaof";

const PATIENCE: Patience = Patience {
    connect: Duration::from_secs(2),
    response: Duration::from_secs(5),
};

/// The changed settings of one server.
#[derive(Debug)]
pub struct Settings {
    server: Server,
    // A std mutex and not tokio's: it is held for a line in a file, never across an await.
    changed: Mutex<Changed>,
}

#[derive(Debug)]
struct Changed {
    /// What is to be restored, the last change last.
    settings: Vec<Was>,
    /// Where that is written down, too.
    journal: Option<Journal>,
}

impl Settings {
    /// Those of a server, all of which are as they were.
    pub(super) fn of(server: Server, journal: Option<Journal>) -> Settings {
        Settings::left(server, Vec::new(), journal)
    }

    /// Those that an earlier process has changed.
    pub(super) fn left(server: Server, settings: Vec<Was>, journal: Option<Journal>) -> Settings {
        let changed = Changed { settings, journal };
        Settings {
            server,
            changed: Mutex::new(changed),
        }
    }

    fn changed(&self) -> MutexGuard<'_, Changed> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a setting is at present.
    pub async fn value(&self, setting: &str) -> Result<String, String> {
        get(&self.connect().await?, setting).await
    }

    /// Changes a setting until it is restored. The error says why not; then it is as it was.
    pub async fn change(&self, setting: &str, to: &str) -> Result<(), String> {
        let conn = self.connect().await?;
        let was = get(&conn, setting).await?;
        self.note(setting, was)?;
        match set(&conn, setting, to).await {
            Outcome::Done(()) => Ok(()),
            Outcome::Refused(why) => self.forget(setting).and(Err(why)),
            // It may be changed.
            Outcome::Unknown(why) => Err(why),
        }
    }

    /// Notes what a setting was, if it was not changed before.
    fn note(&self, setting: &str, was: String) -> Result<(), String> {
        let mut changed = self.changed();
        if changed.settings.iter().any(|was| was.setting == setting) {
            return Ok(());
        }
        let setting = setting.to_owned();
        let was = Was { setting, was };
        if let Some(journal) = &changed.journal {
            journal.add(&was).map_err(|why| why.to_string())?;
        }
        changed.settings.push(was);
        Ok(())
    }

    /// Restores a setting, if it was changed.
    pub async fn restore(&self, setting: &str) -> Result<(), String> {
        let was = self
            .changed()
            .settings
            .iter()
            .find(|was| was.setting == setting)
            .cloned();
        let Some(was) = was else { return Ok(()) };
        match set(&self.connect().await?, setting, &was.was).await {
            Outcome::Done(()) => self.forget(setting),
            Outcome::Refused(why) | Outcome::Unknown(why) => Err(why),
        }
    }

    /// A setting is what it was.
    fn forget(&self, setting: &str) -> Result<(), String> {
        let mut changed = self.changed();
        changed.settings.retain(|was| was.setting != setting);
        match &changed.journal {
            Some(journal) => journal.strike_out(setting).map_err(|why| why.to_string()),
            None => Ok(()),
        }
    }

    /// Restores all, the last change first, and tells what was restored. The error tells what was
    /// not, which stays written down.
    pub(super) async fn restore_all(&self) -> Result<Vec<Was>, String> {
        let mut settings = self.changed().settings.clone();
        settings.reverse();
        for was in &settings {
            let restored = self.restore(&was.setting).await;
            restored.map_err(|why| format!("`{}` was \"{}\": {why}", was.setting, was.was))?;
        }
        Ok(settings)
    }

    /// Nothing is to be changed any more: the journal goes, if nothing is left in it.
    pub(super) fn close(&self) {
        let changed = self.changed();
        if let Some(journal) = changed
            .journal
            .as_ref()
            .filter(|_| changed.settings.is_empty())
        {
            journal.remove();
        }
    }

    async fn connect(&self) -> Result<Conn, String> {
        let conn = Conn::open(self.server.clone(), PATIENCE).await;
        conn.map_err(|why| why.to_string())
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        self.close();
    }
}

/// The value of a setting (<https://redis.io/docs/latest/commands/config-get/>).
async fn get(conn: &Conn, setting: &str) -> Result<String, String> {
    let mut get = redis::cmd("CONFIG");
    get.arg("GET").arg(setting);
    match conn.call::<Vec<String>>(&get).await {
        Outcome::Done(told) => (told.into_iter().nth(1))
            .ok_or_else(|| format!("the server has no setting `{setting}`")),
        Outcome::Refused(why) | Outcome::Unknown(why) => Err(why),
    }
}

async fn set(conn: &Conn, setting: &str, to: &str) -> Outcome<()> {
    let set = match (setting, to.split_once(' ')) {
        (REPLICA_OF, primary) => {
            let (host, port) = primary.unwrap_or(("NO", "ONE"));
            let mut replica_of = redis::cmd("REPLICAOF");
            replica_of.arg(host).arg(port);
            replica_of
        }
        _ => {
            let mut set = redis::cmd("CONFIG");
            set.arg("SET").arg(setting).arg(to);
            set
        }
    };
    conn.call(&set).await
}
