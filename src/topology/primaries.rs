//! Who is the primary of a group: promotions, and two primaries at one moment, as they are seen by
//! asking every node itself, past all links.

use std::collections::HashMap;
use std::net::SocketAddr;

use redis::Value;
use tokio::sync::watch;

use super::machine::Machine;
use super::sentinel::{Group, LOOK, PATIENCE};
use crate::client::{Conn, Outcome};

/// A replica has become the primary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promotion {
    /// Which of the nodes.
    pub node: usize,
    /// Its address, as clients hear it.
    pub address: SocketAddr,
    /// Which of the keys that were looked for it held then.
    pub held: Vec<u32>,
}

/// Two nodes that call themselves the primary at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// Their addresses, the older primary's first.
    pub servers: [SocketAddr; 2],
    /// Which of the keys that were looked for both of them held.
    pub both: Vec<u32>,
}

/// What is seen of who is the primary.
#[derive(Debug)]
pub enum Seen<'a> {
    /// A replica has become one.
    Promoted(&'a Promotion),
    /// There are two.
    Two(&'a Split),
    /// There are two no more; this one is left.
    One(SocketAddr),
}

impl Group {
    /// Which node is the primary, as far as [`Group::watch`] has seen.
    pub fn primary(&self) -> usize {
        self.promoted.borrow().as_ref().map_or(0, |last| last.node)
    }

    /// Tells of promotions from now on.
    pub fn promotions(&self) -> watch::Receiver<Option<Promotion>> {
        let mut promotions = self.promoted.subscribe();
        promotions.mark_unchanged();
        promotions
    }

    /// Two that call themselves the primary at present, as far as [`Group::watch`] has seen.
    pub fn split(&self) -> watch::Receiver<Option<Split>> {
        self.split.subscribe()
    }

    /// Looks who is the primary for as long as it is polled, past all links. A promotion is told
    /// with those of the keys that the promoted one held in the moment in which it first called
    /// itself a primary.
    pub async fn watch(&self, keys: &[String], mut tell: impl FnMut(Seen<'_>)) {
        let mut ask = vec![redis::cmd("ROLE")];
        ask.extend(keys.iter().map(|key| {
            let mut exists = redis::cmd("EXISTS");
            exists.arg(key);
            exists
        }));
        let mut conns: Vec<Option<Conn>> = self.nodes.iter().map(|_| None).collect();
        // The nodes that call themselves primaries, in the order in which they first did.
        let mut primaries = vec![0];
        loop {
            let mut held = HashMap::new();
            for (node, conn) in conns.iter_mut().enumerate() {
                let machine = &self.nodes[node];
                if machine.is_doomed() {
                    continue;
                }
                let Some((is, holds)) = look(machine, conn, &ask).await else {
                    continue;
                };
                if is && !primaries.contains(&node) {
                    primaries.push(node);
                    let promotion = Promotion {
                        node,
                        address: machine.address(),
                        held: holds.clone(),
                    };
                    tell(Seen::Promoted(&promotion));
                    self.promoted.send_replace(Some(promotion));
                }
                match is {
                    true => drop(held.insert(node, holds)),
                    false => primaries.retain(|primary| *primary != node),
                }
            }
            let alive = primaries.iter().copied();
            let alive: Vec<_> = alive
                .filter(|node| !self.nodes[*node].is_doomed())
                .collect();
            if let [old, .., new] = alive[..] {
                // Asked once more after the other one: in between both are primaries.
                let again = look(&self.nodes[old], &mut conns[old], &ask).await;
                let both = held.remove(&old).zip(held.remove(&new)).zip(again);
                if let Some(((mut both, on_new), (true, still))) = both {
                    both.retain(|key| on_new.contains(key) && still.contains(key));
                    self.two([old, new], both, &mut tell);
                }
            } else if let [one] = alive[..]
                && self.split.send_replace(None).is_some()
            {
                tell(Seen::One(self.nodes[one].address()));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn two(&self, nodes: [usize; 2], both: Vec<u32>, tell: &mut impl FnMut(Seen<'_>)) {
        let servers = nodes.map(|node| self.nodes[node].address());
        let split = Some(Split { servers, both });
        let new = self.split.send_if_modified(|known| {
            let new = *known != split;
            known.clone_from(&split);
            new
        });
        if let Some(split) = split.filter(|_| new) {
            tell(Seen::Two(&split));
        }
    }
}

/// Whether a node calls itself a primary, and which of the keys it holds, in one moment.
async fn look(
    machine: &Machine,
    conn: &mut Option<Conn>,
    ask: &[redis::Cmd],
) -> Option<(bool, Vec<u32>)> {
    if conn.is_none() {
        *conn = Conn::open(machine.own, PATIENCE).await.ok();
    }
    match conn.as_ref()?.transaction::<Vec<Value>>(ask).await {
        Outcome::Done(answers) => role_and_keys(&answers),
        _ => None,
    }
}

/// Whether a node calls itself a primary, and which of the keys it holds.
fn role_and_keys(answers: &[Value]) -> Option<(bool, Vec<u32>)> {
    let (role, keys) = answers.split_first()?;
    let Value::Array(role) = role else {
        return None;
    };
    let primary = matches!(role.first()?, Value::BulkString(role) if role == b"master");
    let held = keys.iter().zip(0u32..);
    let held = held.filter(|(exists, _)| matches!(exists, Value::Int(1..)));
    Some((primary, held.map(|(_, key)| key).collect()))
}
