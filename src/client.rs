//! The one border where it is decided what became of a call to Redis: done, refused, or unknown.
//! Everything above works with that answer and never sees a library's error. When in doubt the
//! answer is unknown, for a time-out says nothing about what the server did.

mod access;
mod server;
mod url;

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use futures_util::StreamExt;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ErrorKind, FromRedisValue, RedisError, ServerErrorKind};

use crate::history::event::ServerDid;
use crate::plan::Plan;
use crate::scenario::Topology;

pub use access::{Access, Place, Secret};
pub use server::{Sentinels, Server};
pub use url::{NoRedisUrl, RedisUrl};

/// What became of one call.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome<T> {
    /// The server did it and answered.
    Done(T),
    /// It surely had no effect: the server said no, or it was never sent.
    Refused(String),
    /// It may have had its effect: the answer never came.
    Unknown(String),
}

impl<T> Outcome<T> {
    /// The same outcome with another answer.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Outcome<U> {
        match self {
            Outcome::Done(answer) => Outcome::Done(change(answer)),
            Outcome::Refused(error) => Outcome::Refused(error),
            Outcome::Unknown(error) => Outcome::Unknown(error),
        }
    }
}

/// How long a client is patient.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For a connection.
    pub connect: Duration,
    /// For the answer to a command.
    pub response: Duration,
}

/// How long a connection of a worker may take.
pub const CONNECT: Duration = Duration::from_secs(5);

/// How long one call of a worker may take at most: to connect anew, perhaps to wherever Sentinels say,
/// to give its name, to ask, and to ask once more.
pub fn longest_call(plan: &Plan) -> Duration {
    let response = Duration::from_nanos(plan.lock.response_timeout_ns);
    let connect = match plan.topology {
        Topology::Single | Topology::Quorum { .. } => CONNECT,
        // A user's own may have some.
        Topology::Sentinel { .. } | Topology::External { .. } => {
            server::longest_search(CONNECT + response)
        }
    };
    connect + 3 * response
}

/// A Lua script and its SHA1, by which the server knows it.
#[derive(Debug)]
pub struct Script {
    body: &'static str,
    sha: String,
}

impl Script {
    /// Prepares a script; nothing is sent.
    pub fn new(body: &'static str) -> Script {
        Script {
            body,
            sha: redis::Script::new(body).get_hash().to_owned(),
        }
    }

    /// Its SHA1, in hexadecimal.
    pub fn sha(&self) -> &str {
        &self.sha
    }
}

/// One worker's own connection. It reconnects, once a call, after it was lost; it never resends.
/// Where Sentinels say who the primary is, it asks them again whenever it connects, and connects
/// anew after all that may mean that the primary is another one by now.
#[derive(Debug)]
pub struct Conn {
    server: Server,
    /// How it calls itself, so that the server and a link can tell whose it is.
    name: Option<String>,
    config: AsyncConnectionConfig,
    // A std mutex and not tokio's: it is held to clone a handle, never across an await.
    live: Mutex<Option<Live>>,
}

/// A connection that stands, and to whom where that may be one or another.
type Live = (MultiplexedConnection, Option<Place>);

impl Conn {
    /// Connects.
    pub async fn open(server: impl Into<Server>, patience: Patience) -> Result<Conn, RedisError> {
        Conn::open_as(None, server, patience).await
    }

    /// Connects, and gives the connection a name (<https://redis.io/docs/latest/commands/client-setname/>).
    pub async fn open_as(
        name: Option<String>,
        server: impl Into<Server>,
        patience: Patience,
    ) -> Result<Conn, RedisError> {
        let conn = Conn {
            server: server.into(),
            name,
            config: AsyncConnectionConfig::new()
                .set_connection_timeout(Some(patience.connect))
                .set_response_timeout(Some(patience.response)),
            live: Mutex::default(),
        };
        conn.connect().await?;
        Ok(conn)
    }

    async fn connect(&self) -> Result<MultiplexedConnection, RedisError> {
        let made = self.connect_with(&self.config).await?;
        self.set_live(Some(made.clone()));
        Ok(made.0)
    }

    async fn connect_with(&self, config: &AsyncConnectionConfig) -> Result<Live, RedisError> {
        let name = self.name.as_deref();
        let (mut made, to) = self.server.connect(config, name).await?;
        if let Some(name) = name {
            let mut set = redis::cmd("CLIENT");
            set.arg("SETNAME").arg(name);
            set.query_async::<()>(&mut made).await?;
        }
        Ok((made, to))
    }

    fn live(&self) -> Option<MultiplexedConnection> {
        let live = self.live.lock();
        let live = live.unwrap_or_else(PoisonError::into_inner).clone();
        live.map(|(conn, _)| conn)
    }

    /// Who has answered the last call, where that may be one server or another.
    pub fn answered_by(&self) -> Option<Place> {
        let live = self.live.lock();
        let live = live.unwrap_or_else(PoisonError::into_inner);
        live.as_ref()?.1.clone()
    }

    fn set_live(&self, to: Option<Live>) {
        *self.live.lock().unwrap_or_else(PoisonError::into_inner) = to;
    }

    /// Sends a command and waits for its answer.
    pub async fn call<T: FromRedisValue>(&self, command: &Cmd) -> Outcome<T> {
        self.ask(async |live: &mut MultiplexedConnection| command.query_async(live).await)
            .await
    }

    async fn ask<T>(
        &self,
        ask: impl AsyncFnOnce(&mut MultiplexedConnection) -> Result<T, RedisError>,
    ) -> Outcome<T> {
        let mut live = match self.live() {
            Some(live) => live,
            // Boxed, for it is seldom and large: every call's future would have room for it.
            None => match Box::pin(self.connect()).await {
                Ok(live) => live,
                Err(error) => return Outcome::Refused(format!("not connected: {error}")),
            },
        };
        match ask(&mut live).await {
            Ok(answer) => Outcome::Done(answer),
            Err(error) => {
                let lost = error.is_unrecoverable_error()
                    || error.is_io_error() && !error.is_timeout()
                    || self.server.may_have_moved(&error);
                if lost {
                    self.set_live(None);
                }
                classify(&error)
            }
        }
    }

    /// Sends commands as one transaction and waits for their answers: nothing comes in between.
    pub async fn transaction<T: FromRedisValue>(&self, commands: &[Cmd]) -> Outcome<T> {
        let mut pipe = redis::pipe();
        pipe.atomic();
        for command in commands {
            pipe.add_command(command.clone());
        }
        self.ask(async |live: &mut MultiplexedConnection| pipe.query_async(live).await)
            .await
    }

    /// Runs a script by its hash, and once more in full if the server does not know it (any more):
    /// a `NOSCRIPT` is an error before anything was run, so this is no resend.
    pub async fn eval<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[&str],
        args: &[&str],
    ) -> Outcome<T> {
        let command = |name: &str, code: &str| {
            let mut command = redis::cmd(name);
            command.arg(code).arg(keys.len()).arg(keys).arg(args);
            command
        };
        match self.call(&command("EVALSHA", &script.sha)).await {
            Outcome::Refused(error) if error.starts_with(NO_SCRIPT) => {
                self.call(&command("EVAL", script.body)).await
            }
            answer => answer,
        }
    }
}

/// Messages on one channel.
pub struct Subscription {
    pubsub: redis::aio::PubSub,
}

impl Subscription {
    /// Waits for the next message; for ever if the connection is lost.
    pub async fn message(&mut self) {
        let next = self.pubsub.on_message().next().await;
        if next.is_none() {
            std::future::pending().await
        }
    }
}

impl Conn {
    /// Listens to a channel, on a connection of its own.
    pub async fn subscribe(&self, channel: &str) -> Result<Subscription, RedisError> {
        let subscribe = async |pubsub: &mut redis::aio::PubSub| pubsub.subscribe(channel).await;
        let pubsub = self.server.pubsub(self.name.as_deref(), subscribe).await?;
        Ok(Subscription { pubsub })
    }
}

/// A list whose values one waiter pops, on a connection of its own: a command that blocks would keep
/// back all others on a shared one.
pub struct BlockingPop {
    live: MultiplexedConnection,
    list: String,
    patience: Duration,
}

impl BlockingPop {
    /// Waits for a value, for so long at most, and pops it. The server ends the wait; an answer is
    /// patiently waited for beyond that. After an error the connection is of no use any more.
    pub async fn pop(&mut self, at_most: Duration) -> Result<(), RedisError> {
        // BLPOP 0 would wait for ever.
        let at_most = at_most.max(Duration::from_millis(1));
        let mut blpop = redis::cmd("BLPOP");
        blpop.arg(&self.list).arg(at_most.as_secs_f64());
        let answer = blpop.query_async::<Option<(String, String)>>(&mut self.live);
        match tokio::time::timeout(at_most + self.patience, answer).await {
            Ok(answer) => answer.map(drop),
            Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
        }
    }
}

impl Conn {
    /// Prepares to pop from a list, on a connection of its own. An answer may come so much later
    /// than it is due.
    pub async fn blocking_pop(
        &self,
        list: &str,
        patience: Duration,
    ) -> Result<BlockingPop, RedisError> {
        let config = self.config.clone().set_response_timeout(None);
        let (live, _) = self.connect_with(&config).await?;
        Ok(BlockingPop {
            live,
            list: list.to_owned(),
            patience,
        })
    }
}

/// Listens to what the server says of its keys (<https://redis.io/docs/latest/develop/pubsub/keyspace-notifications/>)
/// and passes on the name of each key that expired or was evicted. (Not of those that a command
/// deleted: each release would be told, to the cost of what is measured.) Ends when the connection
/// does, or when the primary is another one.
pub async fn listen(
    server: &Server,
    mut hear: impl FnMut(&str, ServerDid),
) -> Result<(), RedisError> {
    let mut pubsub = key_events(server).await?;
    let mut messages = pubsub.on_message();
    let mut moved = std::pin::pin!(server.moved());
    loop {
        let message = tokio::select! {
            message = messages.next() => message,
            () = &mut moved => return Ok(()),
        };
        let Some(message) = message else {
            return Ok(());
        };
        let did = match message.get_channel_name().rsplit(':').next() {
            Some("expired") => ServerDid::Expired,
            Some("evicted") => ServerDid::Evicted,
            _ => continue,
        };
        if let Ok(name) = message.get_payload::<String>() {
            hear(&name, did);
        }
    }
}

/// A connection on which a server tells which keys of its database expire or are evicted.
pub async fn key_events(server: &Server) -> Result<redis::aio::PubSub, RedisError> {
    let database = server.access().database;
    let channels = ["expired", "evicted"].map(|what| format!("__keyevent@{database}__:{what}"));
    let subscribe = async |pubsub: &mut redis::aio::PubSub| pubsub.subscribe(&channels).await;
    server.pubsub(None, subscribe).await
}

/// How a refusal for an unknown script begins.
const NO_SCRIPT: &str = "NOSCRIPT";

/// Decides what an error says of the command that it answers.
fn classify<T>(error: &RedisError) -> Outcome<T> {
    match error.kind() {
        // The server's own word. (A script that fails half-way may have written before; ours
        // write last.)
        ErrorKind::Server(ServerErrorKind::NoScript) => {
            Outcome::Refused(format!("{NO_SCRIPT}: {error}"))
        }
        ErrorKind::Server(_) | ErrorKind::Extension => Outcome::Refused(error.to_string()),
        ErrorKind::InvalidClientConfig | ErrorKind::AuthenticationFailed => {
            Outcome::Refused(error.to_string())
        }
        _ if error.is_connection_refusal() => Outcome::Refused(error.to_string()),
        _ => Outcome::Unknown(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_is_unknown_and_the_servers_word_is_a_refusal() {
        let timeout = RedisError::from(std::io::Error::from(std::io::ErrorKind::TimedOut));
        assert!(matches!(classify::<()>(&timeout), Outcome::Unknown(_)));
        let reset = RedisError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        assert!(matches!(classify::<()>(&reset), Outcome::Unknown(_)));
        let refused = RedisError::from(std::io::Error::from(std::io::ErrorKind::ConnectionRefused));
        assert!(matches!(classify::<()>(&refused), Outcome::Refused(_)));
        let said = RedisError::from((ErrorKind::Server(ServerErrorKind::ReadOnly), "READONLY"));
        assert!(matches!(classify::<()>(&said), Outcome::Refused(_)));
    }
}
