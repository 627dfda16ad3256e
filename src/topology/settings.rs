//! The settings of a server that are other than they were, for a while: each is restored to what it
//! was, whatever that is, unless somebody else has set it since. On a user's own Redis they are in a [`Journal`] meanwhile.

use std::collections::HashMap;
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
    /// One looks at a setting and changes it at a time: who looked in between would take what another
    /// has changed for what it was.
    turn: tokio::sync::Mutex<()>,
    // A std mutex and not tokio's: it is held for a line in a file, never across an await.
    changed: Mutex<Changed>,
}

#[derive(Debug, Default)]
struct Changed {
    /// What is to be restored, the last change last.
    settings: Vec<Was>,
    /// How many want a setting to be other than it was: the last one of them restores it.
    wanted: HashMap<String, u32>,
    /// What others have changed meanwhile, and was left to them.
    theirs: Vec<String>,
    /// Where it is written down, too.
    journal: Option<Journal>,
}

impl Settings {
    /// Those of a server, all of which are as they were.
    pub(super) fn of(server: Server, journal: Option<Journal>) -> Settings {
        Settings::left(server, Vec::new(), journal)
    }

    /// Those that an earlier process has changed.
    pub(super) fn left(server: Server, settings: Vec<Was>, journal: Option<Journal>) -> Settings {
        let changed = Changed {
            settings,
            journal,
            ..Changed::default()
        };
        Settings {
            server,
            turn: tokio::sync::Mutex::default(),
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

    /// Changes a setting until it is released and restored. The error says why it could not be changed;
    /// it is to be released and restored nevertheless.
    pub async fn change(&self, setting: &str, to: &str) -> Result<(), String> {
        let setting_of = setting.to_owned();
        *self.changed().wanted.entry(setting_of).or_default() += 1;
        self.change_in_turn(setting, to).await
    }

    async fn change_in_turn(&self, setting: &str, to: &str) -> Result<(), String> {
        let _turn = self.turn.lock().await;
        let conn = self.connect().await?;
        let now = get(&conn, setting).await?;
        let first = self.note(setting, now)?;
        match set(&conn, setting, to).await {
            Outcome::Done(()) => {
                // It may say it in other words.
                let set = get(&conn, setting).await.ok();
                self.note_set(setting, set)
            }
            Outcome::Refused(why) if first => self.forget(setting).and(Err(why)),
            // It may be changed.
            Outcome::Refused(why) | Outcome::Unknown(why) => Err(why),
        }
    }

    /// Notes what a setting is, if it was not changed before: true if so. If somebody else has set it
    /// since, that is what it was. What it will be is not known until it was set.
    fn note(&self, setting: &str, now: String) -> Result<bool, String> {
        let mut changed = self.changed();
        let mut known = changed.settings.iter_mut();
        let known = known.rfind(|was| was.setting == setting);
        let first = known.is_none();
        let was = match known {
            Some(known) => {
                if known.set.is_some() && !known.is_ours(&now) {
                    known.was = now;
                }
                known.set = None;
                known.clone()
            }
            None => Was {
                setting: setting.to_owned(),
                was: now,
                set: None,
            },
        };
        changed.write_down(&was)?;
        if first {
            changed.settings.push(was);
        }
        Ok(first)
    }

    /// Notes what a setting was changed to.
    fn note_set(&self, setting: &str, set: Option<String>) -> Result<(), String> {
        let mut changed = self.changed();
        let mut known = changed.settings.iter_mut();
        let Some(known) = known.find(|was| was.setting == setting) else {
            return Ok(());
        };
        known.set = set;
        let known = known.clone();
        changed.write_down(&known)
    }

    /// Somebody who has changed a setting does not want that any more.
    pub fn release(&self, setting: &str) {
        if let Some(wanted) = self.changed().wanted.get_mut(setting) {
            *wanted = wanted.saturating_sub(1);
        }
    }

    /// Restores a setting that was changed, if nobody wants that any more. The error says why it is not
    /// what it was.
    pub async fn restore(&self, setting: &str) -> Result<(), String> {
        let _turn = self.turn.lock().await;
        // Somebody may have come to want it by now.
        let wanted = self.changed().wanted.get(setting).copied();
        match wanted {
            Some(1..) => Ok(()),
            _ => match self.put_back(setting).await? {
                true => Ok(()),
                false => Err(format!("somebody else has changed `{setting}`")),
            },
        }
    }

    /// Sets a setting as it was, unless somebody else has set it since: false then. To be called in
    /// turn.
    async fn put_back(&self, setting: &str) -> Result<bool, String> {
        let was = self
            .changed()
            .settings
            .iter()
            .find(|was| was.setting == setting)
            .cloned();
        let Some(was) = was else { return Ok(true) };
        let conn = self.connect().await?;
        if let Some(set) = &was.set {
            let now = get(&conn, setting).await?;
            if !was.is_ours(&now) {
                self.changed().theirs.push(format!(
                    "`{setting}` was \"{}\", was set to \"{set}\" for a while, and is \"{now}\" now: \
                     somebody else has changed it, and it was left so",
                    was.was
                ));
                return self.forget(setting).map(|()| false);
            }
        }
        match set(&conn, setting, &was.was).await {
            Outcome::Done(()) => self.forget(setting).map(|()| true),
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

    /// Restores all, the last change first, whoever may want it otherwise, and tells what was
    /// restored. The error tells what was not, which stays written down.
    pub(super) async fn restore_all(&self) -> Result<Vec<Was>, String> {
        let _turn = self.turn.lock().await;
        let mut settings = self.changed().settings.clone();
        settings.reverse();
        let mut restored = Vec::new();
        for was in settings {
            let back = self.put_back(&was.setting).await;
            let back = back.map_err(|why| format!("`{}` was \"{}\": {why}", was.setting, was.was));
            restored.extend(back?.then_some(was));
        }
        self.changed().wanted.clear();
        Ok(restored)
    }

    /// What others had changed, and was left to them, since this was asked last.
    pub(super) fn theirs(&self) -> Vec<String> {
        std::mem::take(&mut self.changed().theirs)
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

impl Changed {
    fn write_down(&self, was: &Was) -> Result<(), String> {
        match &self.journal {
            Some(journal) => journal.add(was).map_err(|why| why.to_string()),
            None => Ok(()),
        }
    }
}

impl Was {
    /// Whether a setting is still what it was set to, or is what it was already.
    fn is_ours(&self, now: &str) -> bool {
        let set = self.set.as_deref();
        // A folder that is gone has no name.
        let gone = self.setting == "dir" && now.is_empty();
        set == Some(now) || now == self.was || gone
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
