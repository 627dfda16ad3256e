//! The look at a user's own Redis before anything is done there: who it is, whether it takes writes
//! and so many clients, whether it lets us do what a run does, whether it tells of its keys.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use futures_util::StreamExt;
use tokio::net::TcpStream;

use super::journal::{self, JournalError};
use super::rights::{let_in, refused};
use super::stay::own_name;
use crate::client::{Conn, Outcome, Patience, Place, RedisUrl, Server, key_events};

/// How long a look may take in all.
const LOOK: Duration = Duration::from_secs(4);
/// How long one of several addresses may take to be reached.
const TRY: Duration = Duration::from_millis(1000);
/// How long the server may take to tell that a key has expired.
const TOLD: Duration = Duration::from_secs(1);
/// Connections that a run has beside its workers'.
const SPARE: u64 = 16;

pub(super) const PATIENCE: Patience = Patience {
    connect: Duration::from_secs(3),
    response: Duration::from_secs(3),
};

/// Why a user's own Redis cannot be used, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}\n  {next}")]
pub struct ExternalError {
    /// The host and port, or hosts and ports.
    pub place: String,
    /// What is wrong there.
    pub what: String,
    /// What to do next.
    pub next: String,
}

/// What a run will do there.
#[derive(Debug, Clone, Copy)]
pub struct Need<'a> {
    /// What its keys begin with.
    pub prefix: &'a str,
    /// The connections of its workers.
    pub connections: u32,
}

/// What was seen of one server.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// How clients connect.
    pub(super) server: Server,
    /// Where it is now: of a primary with Sentinels where that one is.
    pub(super) place: Place,
    /// The same as an address.
    pub(super) own: SocketAddr,
    /// How it is reached there.
    pub(super) itself: Server,
    /// Its kind and version.
    pub(super) version: String,
    /// By what it is told from another server, and from itself before a restart.
    pub(super) run_id: String,
}

/// Looks at the server of a URL.
pub(super) async fn look(url: &RedisUrl, need: Need<'_>) -> Result<Seen, ExternalError> {
    match tokio::time::timeout(LOOK, look_now(url, need)).await {
        Ok(seen) => seen,
        Err(_) => Err(ExternalError {
            place: at(url),
            what: format!("no answer within {LOOK:?}"),
            next: "is the address right, and does a firewall let us through?".to_owned(),
        }),
    }
}

async fn look_now(url: &RedisUrl, need: Need<'_>) -> Result<Seen, ExternalError> {
    let server = url.server();
    let place = place(&server, url).await?;
    let here = place.to_string();
    let unknown = |why: String| ExternalError {
        place: here.clone(),
        what: format!("no such host: {why}"),
        next: "name it as this machine knows it: `--url redis://HOST:PORT`".to_owned(),
    };
    let own = address(&place).await.map_err(unknown)?;
    let itself = Server::At(place.clone(), server.access().clone());
    if journal::is_left(&here) {
        return Err(ExternalError {
            what: JournalError::Left.to_string(),
            next: heal(url),
            place: here,
        });
    }
    let conn = Conn::open(itself.clone(), PATIENCE).await;
    let conn = conn.map_err(|why| unreachable(&here, url, &why.to_string()))?;
    let why_not = |why: String| refused(&here, url, need.prefix, &why);
    let info: String = done(conn.call(&redis::cmd("INFO")).await).map_err(why_not)?;
    let info = Info(&info);
    info.is_fit(&here, need)?;
    may(&conn, need.prefix).await.map_err(why_not)?;
    Ok(Seen {
        server,
        place,
        own,
        itself,
        version: info.version(),
        run_id: info.field("run_id").to_owned(),
    })
}

/// Whether a server tells when it evicts a key, as far as it says (`A` is all of the events:
/// <https://redis.io/docs/latest/develop/pubsub/keyspace-notifications/>).
pub(super) async fn tells_of_evictions(server: &Server) -> Result<(), String> {
    let conn = Conn::open(server.clone(), PATIENCE).await;
    let conn = conn.map_err(|why| why.to_string())?;
    let mut get = redis::cmd("CONFIG");
    get.arg("GET").arg("notify-keyspace-events");
    match conn.call::<Vec<String>>(&get).await {
        Outcome::Done(told) if told.get(1).is_some_and(|told| !told.contains(['e', 'A'])) => {
            Err("`notify-keyspace-events` is without `e` there".to_owned())
        }
        // Who may not ask may not evict either.
        _ => Ok(()),
    }
}

/// The address of a place. A Unix socket has none, and nobody needs it: no link stands before one.
async fn address(place: &Place) -> Result<SocketAddr, String> {
    if place.socket().is_some() {
        return Ok(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)));
    }
    let found = tokio::net::lookup_host((place.host.as_str(), place.port)).await;
    let found: Vec<SocketAddr> = found.map_err(|why| why.to_string())?.collect();
    // A name may have several, at not all of which it listens: `localhost` is `::1`, too.
    for address in &found {
        let reached = tokio::time::timeout(TRY, TcpStream::connect(address)).await;
        if matches!(reached, Ok(Ok(_))) {
            return Ok(*address);
        }
    }
    found
        .first()
        .copied()
        .ok_or_else(|| "no address".to_owned())
}

/// Where the server is at present.
async fn place(server: &Server, url: &RedisUrl) -> Result<Place, ExternalError> {
    let sentinels = match server {
        Server::At(place, _) => return Ok(place.clone()),
        Server::Primary(sentinels) => sentinels,
    };
    sentinels.primary(None).await.ok_or_else(|| ExternalError {
        place: at(url),
        what: "no Sentinel there names a primary of that name".to_owned(),
        next: "`redis-cli -h HOST -p PORT SENTINEL MASTERS` tells the names; the URL is \
               `redis+sentinel://HOST:PORT,HOST:PORT/NAME`"
            .to_owned(),
    })
}

fn at(url: &RedisUrl) -> String {
    let url = url.to_string();
    url.split_once("://")
        .map_or(url.clone(), |(_, rest)| rest.to_owned())
}

fn done<T>(outcome: Outcome<T>) -> Result<T, String> {
    match outcome {
        Outcome::Done(answer) => Ok(answer),
        Outcome::Refused(why) | Outcome::Unknown(why) => Err(why),
    }
}

/// What a server says of itself (<https://redis.io/docs/latest/commands/info/>).
struct Info<'a>(&'a str);

impl Info<'_> {
    /// A field; empty if there is none.
    fn field(&self, name: &str) -> &str {
        let mut lines = self.0.lines().filter_map(|line| line.split_once(':'));
        lines
            .find(|(field, _)| *field == name)
            .map_or("", |(_, value)| value.trim())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.field(name).parse().ok()
    }

    fn version(&self) -> String {
        match self.field("valkey_version") {
            "" => format!("Redis {}", self.field("redis_version")),
            version => format!("Valkey {version}"),
        }
    }

    fn is_fit(&self, place: &str, need: Need<'_>) -> Result<(), ExternalError> {
        let unfit = |what: String, next: &str| {
            Err(ExternalError {
                place: place.to_owned(),
                what,
                next: next.to_owned(),
            })
        };
        if self.field("role") == "slave" {
            let (host, port) = (self.field("master_host"), self.field("master_port"));
            return unfit(
                format!("this is a replica of {host}:{port}, and takes no writes"),
                "name the primary, or the Sentinels that know it (`redis+sentinel://`)",
            );
        }
        if self.field("cluster_enabled") == "1" {
            return unfit(
                "this is a node of a cluster, and keys are sent on to others".to_owned(),
                "name a server that is none",
            );
        }
        if self.field("loading") == "1" {
            return unfit("it is still loading its data".to_owned(), "try again later");
        }
        let needed = u64::from(need.connections) + SPARE;
        let (most, there) = (self.number("maxclients"), self.number("connected_clients"));
        if let (Some(most), Some(there)) = (most, there)
            && there + needed > most
        {
            return unfit(
                format!("it takes {most} clients, {there} are there, and this run needs {needed}"),
                "ask for fewer workers (`-c`), or raise `maxclients` there",
            );
        }
        Ok(())
    }
}

/// What to say to have changed settings restored.
pub(super) fn heal(url: &RedisUrl) -> String {
    format!(
        "restore them first: `oversold doctor --heal {url}` (with user and password, if it needs \
         some)"
    )
}

/// Why a server cannot be connected to, and what to do.
fn unreachable(place: &str, url: &RedisUrl, why: &str) -> ExternalError {
    let next = if let Some(next) = let_in(url, "", why) {
        next
    } else if why.contains("certificate") || why.contains("UnknownIssuer") {
        "name the certificate of whom to trust: `--tls-ca FILE`; it must be valid for the host in \
         the URL"
            .to_owned()
    } else if url.has_tls() {
        "does it listen there, and for TLS? `redis-cli --tls -h HOST -p PORT PING` tells".to_owned()
    } else {
        "does it listen there, and without TLS? `redis-cli -h HOST -p PORT PING` tells; for TLS \
         write `rediss://`"
            .to_owned()
    };
    ExternalError {
        place: place.to_owned(),
        what: why.to_owned(),
        next,
    }
}

/// Tries what every run does, on a key of its own. The error is the server's.
async fn may(conn: &Conn, prefix: &str) -> Result<(), String> {
    let key = format!("{prefix}look_{}", own_name(0));
    let mut set = redis::cmd("SET");
    set.arg(&key).arg(1).arg("PX").arg(1000);
    done::<()>(conn.call(&set).await)?;
    done::<i64>(conn.call(redis::cmd("PTTL").arg(&key)).await)?;
    let mut scan = redis::cmd("SCAN");
    scan.arg(0).arg("MATCH").arg(&key).arg("COUNT").arg(1);
    done::<redis::Value>(conn.call(&scan).await)?;
    done::<i64>(conn.call(redis::cmd("UNLINK").arg(&key)).await)?;
    Ok(())
}

/// Whether a server tells when a key expires; if not, why.
pub(super) async fn tells(server: &Server, prefix: &str) -> Result<(), String> {
    let io = |why: redis::RedisError| why.to_string();
    let mut heard = key_events(server).await.map_err(io)?;
    let conn = Conn::open(server.clone(), PATIENCE).await.map_err(io)?;
    let key = format!("{prefix}look_{}", own_name(0));
    let mut set = redis::cmd("SET");
    set.arg(&key).arg(1).arg("PX").arg(1);
    done::<()>(conn.call(&set).await)?;
    let told = async {
        let mut messages = heard.on_message();
        loop {
            tokio::select! {
                message = messages.next() => {
                    let Some(message) = message else { return false };
                    let expired = message.get_channel_name().ends_with(":expired");
                    if expired && message.get_payload::<String>().is_ok_and(|name| name == key) {
                        return true;
                    }
                }
                // Asked for, it is found to have expired at once.
                () = tokio::time::sleep(Duration::from_millis(5)) => {
                    let _: Outcome<Option<String>> = conn.call(redis::cmd("GET").arg(&key)).await;
                }
            }
        }
    };
    match tokio::time::timeout(TOLD, told).await {
        Ok(true) => Ok(()),
        _ => Err("`notify-keyspace-events` is without `Ex` there".to_owned()),
    }
}
