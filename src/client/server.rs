//! Where a client's server is: at an address, or wherever Sentinels say that the primary is
//! (<https://redis.io/docs/latest/develop/reference/sentinel-clients/>). To connect is safe to
//! repeat, for nothing was asked yet; it is repeated a few times, at a pace.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSub};
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, ConnectionAddr, ErrorKind, RedisError, ServerErrorKind};

/// How often all Sentinels are asked for a primary that takes the connection.
const ROUNDS: u32 = 3;
/// The pause after the first round; each further one is twice as long.
const PACE: Duration = Duration::from_millis(20);
/// How long a Sentinel may take: there is another one.
const SENTINEL: Duration = Duration::from_millis(500);
/// How often it is looked whether the primary is another one, by those who only listen.
const LOOK: Duration = Duration::from_millis(250);

/// Where a server is.
#[derive(Debug, Clone)]
pub enum Server {
    /// At this address, for good.
    At(SocketAddr),
    /// Where these Sentinels say that the primary is.
    Primary(Arc<Sentinels>),
}

impl From<SocketAddr> for Server {
    fn from(address: SocketAddr) -> Server {
        Server::At(address)
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Server::At(address) => write!(f, "{address}"),
            Server::Primary(sentinels) => write!(f, "the primary of \"{}\"", sentinels.name),
        }
    }
}

/// Some Sentinels that watch a primary.
#[derive(Debug)]
pub struct Sentinels {
    /// The name under which they know it.
    pub name: String,
    /// Where they listen.
    pub addresses: Vec<SocketAddr>,
}

impl Sentinels {
    /// What the first Sentinel that answers says.
    async fn primary(&self) -> Option<SocketAddr> {
        for sentinel in &self.addresses {
            if let Some(primary) = self.ask(*sentinel).await {
                return Some(primary);
            }
        }
        None
    }

    /// Where a Sentinel says that the primary is.
    async fn ask(&self, sentinel: SocketAddr) -> Option<SocketAddr> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(SENTINEL))
            .set_response_timeout(Some(SENTINEL));
        let mut conn = connect(sentinel, &config).await.ok()?;
        let mut ask = redis::cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        let (ip, port): (String, u16) = ask.query_async(&mut conn).await.ok()?;
        Some(SocketAddr::new(ip.parse::<IpAddr>().ok()?, port))
    }

    /// Connects to the primary: one that takes the connection, and says itself that it is one.
    async fn connect(
        &self,
        config: &AsyncConnectionConfig,
    ) -> Result<(MultiplexedConnection, SocketAddr), RedisError> {
        let mut last = none("no Sentinel answers");
        for round in 0..ROUNDS {
            if round > 0 {
                tokio::time::sleep(PACE * 2u32.pow(round - 1)).await;
            }
            let mut tried = Vec::new();
            for sentinel in &self.addresses {
                let Some(primary) = self.ask(*sentinel).await else {
                    continue;
                };
                if tried.contains(&primary) {
                    continue;
                }
                tried.push(primary);
                match connect_to_primary(primary, config).await {
                    Ok(conn) => return Ok((conn, primary)),
                    Err(why) => last = why,
                }
            }
        }
        Err(last)
    }
}

fn none(what: &'static str) -> RedisError {
    RedisError::from((ErrorKind::Io, what))
}

fn client(address: SocketAddr) -> Result<redis::Client, RedisError> {
    let address = ConnectionAddr::Tcp(address.ip().to_string(), address.port());
    // No-delay, for a lock's commands are small and each waits for its answer; no CLIENT SETINFO,
    // which would count as a command of the lock's.
    let info = redis::IntoConnectionInfo::into_connection_info(address)?
        .set_tcp_settings(TcpSettings::default().set_nodelay(true))
        .set_redis_settings(redis::RedisConnectionInfo::default().set_skip_set_lib_name());
    redis::Client::open(info)
}

async fn connect(
    address: SocketAddr,
    config: &AsyncConnectionConfig,
) -> Result<MultiplexedConnection, RedisError> {
    let client = client(address)?;
    client
        .get_multiplexed_async_connection_with_config(config)
        .await
}

async fn connect_to_primary(
    address: SocketAddr,
    config: &AsyncConnectionConfig,
) -> Result<MultiplexedConnection, RedisError> {
    let mut conn = connect(address, config).await?;
    let role: Vec<redis::Value> = redis::cmd("ROLE").query_async(&mut conn).await?;
    match role.first() {
        Some(redis::Value::BulkString(role)) if role == b"master" => Ok(conn),
        _ => Err(none("a Sentinel names a primary that is none")),
    }
}

impl Server {
    /// Connects, and tells to whom where that may be one or another.
    pub(super) async fn connect(
        &self,
        config: &AsyncConnectionConfig,
    ) -> Result<(MultiplexedConnection, Option<SocketAddr>), RedisError> {
        match self {
            Server::At(address) => Ok((connect(*address, config).await?, None)),
            Server::Primary(sentinels) => {
                let (conn, primary) = sentinels.connect(config).await?;
                Ok((conn, Some(primary)))
            }
        }
    }

    /// A connection to listen on.
    pub(super) async fn pubsub(&self) -> Result<PubSub, RedisError> {
        let address = match self {
            Server::At(address) => *address,
            Server::Primary(sentinels) => {
                let primary = sentinels.primary().await;
                primary.ok_or_else(|| none("no Sentinel answers"))?
            }
        };
        client(address)?.get_async_pubsub().await
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
        let first = sentinels.primary().await;
        loop {
            tokio::time::sleep(LOOK).await;
            let now = sentinels.primary().await;
            if now.is_some() && now != first {
                return;
            }
        }
    }
}
