//! `script-flush`: a server forgets the scripts that it knows
//! (<https://redis.io/docs/latest/commands/script-flush/>). Who names one by its hash alone is
//! answered `NOSCRIPT`.

use super::Entry;
use super::node::{ANSWER, Blow, ask, info, open};
use crate::client::Conn;

pub(super) const ENTRY: Entry = Entry {
    name: "script-flush",
    about: "a server forgets the scripts that it knows by their hashes",
};

/// Has it forget them. The proof is that it knew some.
pub(super) async fn strike(blow: &Blow) -> Option<String> {
    blow.began(|node| format!("{node} forgets its scripts"));
    let conn = open(&blow.node, ANSWER).await?;
    let knew = known(&conn).await?;
    let _: String = ask(&conn, &["SCRIPT", "FLUSH"]).await?;
    let node = blow.node.address();
    (knew > 0).then(|| format!("{node} knew {knew} scripts, and answered OK to SCRIPT FLUSH"))
}

async fn known(conn: &Conn) -> Option<u64> {
    let known = info(conn, "memory", "number_of_cached_scripts").await?;
    known.parse().ok()
}
