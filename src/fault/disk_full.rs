//! `disk-full`: a server cannot save its data, as on a full disk, and by `stop-writes-on-bgsave-error`
//! answers writes with `MISCONF`
//! (<https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/>). Its folder is one
//! that has been removed: no file can be made there, whoever the server runs as.

use std::time::Duration;

use super::Entry;
use super::node::{ANSWER, Blow, ask, info, open};
use super::settings::{Settings, refusal};
use crate::client::Conn;

pub(super) const ENTRY: Entry = Entry {
    name: "disk-full",
    about: "a server cannot save its data and refuses writes, MISCONF (`for = \"8s\"`)",
};

/// How often it is looked whether it has tried to save.
const LOOK: Duration = Duration::from_millis(10);

/// Lets it fail to save, and be able to again later. The proof is the error.
pub(super) async fn strike(blow: &Blow, for_ns: u64) -> Option<String> {
    let long = Duration::from_nanos(for_ns);
    blow.began(|node| format!("{node} cannot save its data for {long:?}"));
    let conn = open(&blow.node, ANSWER).await?;
    let mut settings = Settings::of(&blow.faults, &blow.node);
    let error = fail_to_save(blow, &conn, &mut settings).await;
    if error.is_some() {
        tokio::time::sleep(long).await;
    }
    blow.undo(settings).await;
    // Where it saves by itself, it would refuse writes until it next does.
    let saved = save(&conn, "ok").await;
    if saved.is_none() {
        blow.stays();
    }
    let error = error.filter(|error| error.to_uppercase().contains("MISCONF"))?;
    let node = blow.node.address();
    saved?;
    Some(format!(
        "{node} failed to save and answered a write with: {error}"
    ))
}

/// Has it fail to. Tells the error that a write is answered with then.
async fn fail_to_save(blow: &Blow, conn: &Conn, settings: &mut Settings) -> Option<String> {
    settings.set("stop-writes-on-bgsave-error", "yes").await?;
    // Without any rule when to save, a failure to stops no writes.
    settings.set("save", "3600 1").await?;
    let folder = tempfile::tempdir().ok()?;
    settings.set("dir", folder.path().to_str()?).await?;
    folder.close().ok()?;
    save(conn, "err").await?;
    refusal(conn, &blow.faults.reach.probe()).await
}

/// Has it save, until that ends so.
async fn save(conn: &Conn, end: &str) -> Option<()> {
    let saved = async {
        while info(conn, "persistence", "rdb_last_bgsave_status").await? != end {
            // Refused while it is at it.
            let _: Option<String> = ask(conn, &["BGSAVE"]).await;
            tokio::time::sleep(LOOK).await;
        }
        Some(())
    };
    tokio::time::timeout(ANSWER, saved).await.ok()?
}
