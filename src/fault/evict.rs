//! `evict`: a server that is also used as a cache runs out of memory and evicts its keys, a lock's
//! among them (<https://redis.io/docs/latest/develop/reference/eviction/>, policy `allkeys-lru`).

use std::time::Duration;

use super::Entry;
use super::node::{ANSWER, Blow, ask, held, info, open};
use super::settings::Settings;
use crate::client::Conn;

pub(super) const ENTRY: Entry = Entry {
    name: "evict",
    about: "a server runs out of memory and evicts all its keys",
};

/// How often it is looked whether they are gone.
const LOOK: Duration = Duration::from_millis(5);

/// Leaves it no memory until the locks' keys are gone. The proof is its own count of evictions.
pub(super) async fn strike(blow: &Blow) -> Option<String> {
    blow.began(|node| format!("{node} runs out of memory and evicts its keys"));
    let conn = open(&blow.node, ANSWER).await?;
    let before = held(&conn, &blow.faults.keys).await?;
    let evicted = evicted(&conn).await?;
    let mut settings = Settings::of(&blow.faults, &blow.node);
    let gone = until_gone(blow, &conn, &mut settings).await;
    blow.undo(settings).await;
    gone?;
    let keys: Vec<u32> = before.iter().map(|(key, _)| *key).collect();
    let (node, name) = (blow.node.address(), blow.name(&keys)?);
    let now = self::evicted(&conn).await?;
    (now > evicted).then(|| {
        format!(
            "{node} evicted {} keys, and EXISTS {name} became 0",
            now - evicted
        )
    })
}

/// Leaves it no memory, and waits until the locks' keys are gone.
async fn until_gone(blow: &Blow, conn: &Conn, settings: &mut Settings) -> Option<()> {
    settings.set("maxmemory-policy", "allkeys-lru").await?;
    settings.set("maxmemory", "1").await?;
    // One command and not a transaction, which is refused by a server without memory.
    let keys: Vec<&str> = blow.faults.keys.iter().map(String::as_str).collect();
    let exist = [&["EXISTS"], keys.as_slice()].concat();
    let gone = async {
        while ask::<u64>(conn, &exist).await != Some(0) {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(ANSWER, gone).await.ok()
}

async fn evicted(conn: &Conn) -> Option<u64> {
    info(conn, "stats", "evicted_keys").await?.parse().ok()
}
