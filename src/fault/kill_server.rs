//! `kill-server`: a server's process is killed, for good.

use std::time::Duration;

use tokio::net::TcpStream;

use super::Entry;
use super::node::{ANSWER, Blow};

pub(super) const ENTRY: Entry = Entry {
    name: "kill-server",
    about: "a server is killed and stays away",
};

/// How often it is looked whether it is gone.
const LOOK: Duration = Duration::from_millis(5);

/// Kills it. The proof is that nobody listens there any more.
pub(super) async fn strike(blow: &Blow) -> Option<String> {
    blow.began(|node| format!("{node} is killed"));
    if !blow.node.kill() {
        return None;
    }
    let gone = async {
        while TcpStream::connect(blow.node.own).await.is_ok() {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(ANSWER, gone).await.ok()?;
    Some(format!("{} refuses connections", blow.node.address()))
}
