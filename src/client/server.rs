//! Where a client's server is: at an address, or wherever Sentinels say that the primary is
//! (<https://redis.io/docs/latest/develop/reference/sentinel-clients/>). To connect is safe to
//! repeat, for nothing was asked yet; it is repeated a few times, at a pace.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, ErrorKind, RedisError, ServerErrorKind};

use super::access::{Access, Place};

/// How often all Sentinels are asked for a primary that takes the connection.
const ROUNDS: u32 = 3;
/// The pause after the first round; each further one is twice as long.
const PACE: Duration = Duration::from_millis(20);
/// How long a Sentinel may take: there is another one.
const SENTINEL: Duration = Duration::from_millis(500);
/// How long it may take until a server tells what it was asked to tell.
const LISTEN: Duration = Duration::from_secs(5);
/// How often it is looked whether the primary is another one, by those who only listen.
const LOOK: Duration = Duration::from_millis(250);

/// How long the search for a primary may take, where each that is found may take so long: in each round
/// three Sentinels are asked, each as it lets one in.
pub(super) fn longest_search(primary: Duration) -> Duration {
    (SENTINEL * 2 * 3 + primary) * ROUNDS + PACE * 2u32.pow(ROUNDS)
}

/// Where a server is.
#[derive(Debug, Clone)]
pub enum Server {
    /// At this place, for good, and how one gets in there.
    At(Place, Arc<Access>),
    /// Where these Sentinels say that the primary is.
    Primary(Arc<Sentinels>),
}

impl From<SocketAddr> for Server {
    fn from(address: SocketAddr) -> Server {
        Server::At(address.into(), Arc::default())
    }
}

impl From<Place> for Server {
    fn from(place: Place) -> Server {
        Server::At(place, Arc::default())
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Server::At(place, _) => write!(f, "{place}"),
            Server::Primary(sentinels) => write!(f, "the primary of \"{}\"", sentinels.name),
        }
    }
}

/// Some Sentinels that watch a primary.
#[derive(Debug)]
pub struct Sentinels {
    /// The name under which they know it.
    name: String,
    /// Where they listen.
    places: Vec<Place>,
    /// How one gets in to the primary, and to them if they ask for it.
    access: Arc<Access>,
    /// Whether they let everybody in, as far as is known.
    open: AtomicBool,
}

impl Sentinels {
    /// Sentinels at these places that know a primary by this name. How one gets in to it they need
    /// not ask for themselves.
    pub fn new(name: &str, places: Vec<Place>, access: Arc<Access>) -> Sentinels {
        Sentinels {
            name: name.to_owned(),
            places,
            access,
            open: AtomicBool::new(true),
        }
    }

    /// The name under which they know the primary.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where they listen.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// What the first Sentinel that answers says to who calls itself so.
    pub async fn primary(&self, name: Option<&str>) -> Option<Place> {
        for sentinel in &self.places {
            if let Some(primary) = self.ask(sentinel, name).await {
                return Some(primary);
            }
        }
        None
    }

    /// Where a Sentinel says that the primary is. Most let everybody in; one that does not is asked
    /// again as one asks the primary.
    async fn ask(&self, sentinel: &Place, name: Option<&str>) -> Option<Place> {
        let was_open = self.open.load(Ordering::Relaxed);
        for open in [was_open, !was_open] {
            match self.ask_as(sentinel, open, name).await {
                Ok(primary) => {
                    self.open.store(open, Ordering::Relaxed);
                    return primary;
                }
                Err(why) if why.is_io_error() || !self.access.has_password() => return None,
                Err(_) => {}
            }
        }
        None
    }

    async fn ask_as(
        &self,
        sentinel: &Place,
        open: bool,
        name: Option<&str>,
    ) -> Result<Option<Place>, RedisError> {
        let access = self.access.to_a_sentinel(open);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(SENTINEL))
            .set_response_timeout(Some(SENTINEL));
        let mut conn = connect(sentinel, &access, &config, name).await?;
        let mut ask = redis::cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        let told: Option<(String, u16)> = ask.query_async(&mut conn).await?;
        Ok(told.map(|(host, port)| Place { host, port }))
    }

    /// Which of some keys a primary holds, as far as it answers.
    pub async fn held(&self, primary: &Place, keys: &[String]) -> Vec<u32> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(SENTINEL))
            .set_response_timeout(Some(SENTINEL));
        let Ok(mut conn) = connect(primary, &self.access, &config, None).await else {
            return Vec::new();
        };
        let mut ask = redis::pipe();
        for key in keys {
            ask.exists(key);
        }
        let held: Vec<bool> = ask.query_async(&mut conn).await.unwrap_or_default();
        let held = held.into_iter().zip(0u32..);
        held.filter_map(|(held, key)| held.then_some(key)).collect()
    }

    /// Connects to the primary: one that takes the connection, and says itself that it is one.
    async fn connect(
        &self,
        config: &AsyncConnectionConfig,
        name: Option<&str>,
    ) -> Result<(MultiplexedConnection, Place), RedisError> {
        let mut last = none("no Sentinel answers");
        for round in 0..ROUNDS {
            if round > 0 {
                tokio::time::sleep(PACE * 2u32.pow(round - 1)).await;
            }
            let mut tried = Vec::new();
            for sentinel in &self.places {
                let Some(primary) = self.ask(sentinel, name).await else {
                    continue;
                };
                if tried.contains(&primary) {
                    continue;
                }
                match connect_to_primary(&primary, &self.access, config).await {
                    Ok(conn) => return Ok((conn, primary)),
                    Err(why) => last = why,
                }
                tried.push(primary);
            }
        }
        Err(last)
    }
}

fn none(what: &'static str) -> RedisError {
    RedisError::from((ErrorKind::Io, what))
}

async fn connect(
    place: &Place,
    access: &Access,
    config: &AsyncConnectionConfig,
    name: Option<&str>,
) -> Result<MultiplexedConnection, RedisError> {
    let client = access.client(place, name)?;
    client
        .get_multiplexed_async_connection_with_config(config)
        .await
}

async fn connect_to_primary(
    place: &Place,
    access: &Access,
    config: &AsyncConnectionConfig,
) -> Result<MultiplexedConnection, RedisError> {
    let mut conn = connect(place, access, config, None).await?;
    let role: Vec<redis::Value> = redis::cmd("ROLE").query_async(&mut conn).await?;
    match role.first() {
        Some(redis::Value::BulkString(role)) if role == b"master" => Ok(conn),
        _ => Err(none("a Sentinel names a primary that is none")),
    }
}

impl Server {
    /// How one gets in.
    pub fn access(&self) -> &Arc<Access> {
        match self {
            Server::At(_, access) => access,
            Server::Primary(sentinels) => &sentinels.access,
        }
    }

    /// The same behind a link at this address.
    pub fn behind(&self, link: SocketAddr) -> Server {
        Server::At(link.into(), Arc::new(self.access().in_the_clear()))
    }

    /// Connects, and tells to whom where that may be one or another. Sentinels are asked under this
    /// name; the connection itself has none yet.
    pub(super) async fn connect(
        &self,
        config: &AsyncConnectionConfig,
        name: Option<&str>,
    ) -> Result<(MultiplexedConnection, Option<Place>), RedisError> {
        match self {
            Server::At(place, access) => Ok((connect(place, access, config, None).await?, None)),
            Server::Primary(sentinels) => {
                let (conn, primary) = sentinels.connect(config, name).await?;
                Ok((conn, Some(primary)))
            }
        }
    }

    /// A connection to listen on, on which something was asked to be heard. The library would wait for
    /// ever for a server that has fallen silent.
    pub(super) async fn pubsub(
        &self,
        name: Option<&str>,
        subscribe: impl AsyncFnOnce(&mut PubSub) -> Result<(), RedisError>,
    ) -> Result<PubSub, RedisError> {
        let listening = async {
            let mut pubsub = self.silent_pubsub(name).await?;
            subscribe(&mut pubsub).await?;
            Ok(pubsub)
        };
        match tokio::time::timeout(LISTEN, listening).await {
            Ok(listening) => listening,
            Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
        }
    }

    async fn silent_pubsub(&self, name: Option<&str>) -> Result<PubSub, RedisError> {
        let place = match self {
            Server::At(place, _) => place.clone(),
            Server::Primary(sentinels) => {
                let primary = sentinels.primary(name).await;
                primary.ok_or_else(|| none("no Sentinel answers"))?
            }
        };
        self.access().client(&place, name)?.get_async_pubsub().await
    }

    /// Whether an error may mean that the primary is another one by now. (What it says of the
    /// command that it answers is another question.)
    pub(super) fn may_have_moved(&self, error: &RedisError) -> bool {
        let read_only = ErrorKind::Server(ServerErrorKind::ReadOnly);
        matches!(self, Server::Primary(_)) && (error.is_timeout() || error.kind() == read_only)
    }

    /// Waits until the primary is another one; for ever where it cannot be.
    pub(super) async fn moved(&self) {
        let Server::Primary(sentinels) = self else {
            return std::future::pending().await;
        };
        let first = sentinels.primary(None).await;
        loop {
            tokio::time::sleep(LOOK).await;
            let now = sentinels.primary(None).await;
            if now.is_some() && now != first {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_listens_to_a_server_that_says_nothing_is_told_so() {
        let silent = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let server = Server::from(silent.local_addr().expect("an address"));
        let began = std::time::Instant::now();
        let heard = super::super::key_events(&server).await;
        assert!(heard.is_err_and(|why| why.is_timeout()));
        assert!(began.elapsed() < LISTEN * 2);
    }
}
