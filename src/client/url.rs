//! The URL of a user's own Redis: `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, `rediss://` for
//! TLS, and `redis+sentinel://[USER:PASSWORD@]HOST:PORT,HOST:PORT/NAME[/DATABASE]` where Sentinels
//! know the primary by a name; or `unix://[USER:PASSWORD@]/PATH` for a Unix socket. No error repeats it, for there may be a password in it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

use super::access::{Access, Place, Secret, Tls};
use super::server::{Sentinels, Server};

/// What is asked for.
const WANTED: &str = "write `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`, `rediss://...` for TLS, \
    `redis+sentinel://[USER:PASSWORD@]HOST:PORT,HOST:PORT/NAME[/DATABASE]`, or \
    `unix://[USER:PASSWORD@]/PATH` for a Unix socket; what is special in a \
    password stands there as %XX";
/// Where Sentinels listen if nobody says otherwise.
const SENTINEL_PORT: u16 = 26379;

/// Where a user's own Redis is, and how one gets in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedisUrl {
    /// The server, or the Sentinels.
    places: Vec<Place>,
    /// The name by which the Sentinels know the primary.
    name: Option<String>,
    access: Access,
}

/// Why there is no such URL. It does not repeat it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`--url`: {0}: {WANTED}")]
pub struct NoRedisUrl(&'static str);

impl FromStr for RedisUrl {
    type Err = NoRedisUrl;

    fn from_str(text: &str) -> Result<RedisUrl, NoRedisUrl> {
        let (scheme, rest) = (text.split_once("://")).ok_or(NoRedisUrl("this is no URL"))?;
        let (scheme, sentinel) = match scheme.strip_suffix("+sentinel") {
            Some(scheme) => (scheme, true),
            None => (scheme, false),
        };
        if scheme == "unix" && !sentinel {
            return socket(rest);
        }
        if !["redis", "rediss"].contains(&scheme) {
            return Err(NoRedisUrl("this is no URL of a Redis"));
        }
        let (who, rest) = match rest.rsplit_once('@') {
            Some((who, rest)) => (format!("{who}@"), rest),
            None => (String::new(), rest),
        };
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        // A reader of URLs would end the host there, and take what follows for something else.
        if (who.clone() + hosts).contains(['/', '?', '#']) {
            return Err(NoRedisUrl(
                "there is a `/`, `?` or `#` before the host's end",
            ));
        }
        let (name, database) = match (sentinel, path.split_once('/')) {
            (true, Some((name, database))) => (name, database),
            (true, None) => (path, ""),
            (false, _) => ("", path),
        };
        if sentinel && name.is_empty() {
            return Err(NoRedisUrl(
                "the name is missing by which the Sentinels know the primary",
            ));
        }
        if path.contains(['?', '#']) || !sentinel && hosts.contains(',') {
            return Err(NoRedisUrl("this is no URL of a Redis"));
        }
        let mut read = None;
        let mut places = Vec::new();
        for host in hosts.split(',') {
            let port = match sentinel && !has_port(host) {
                true => format!(":{SENTINEL_PORT}"),
                false => String::new(),
            };
            let one = format!("{scheme}://{who}{host}{port}/{database}").into_connection_info();
            let one = one.map_err(|_| NoRedisUrl("this is no URL of a Redis"))?;
            places.push(place(&one)?);
            read = Some(one);
        }
        let read = read.ok_or(NoRedisUrl("there is no host"))?;
        Ok(RedisUrl {
            places,
            name: sentinel.then(|| name.to_owned()),
            access: access(&read, scheme == "rediss")?,
        })
    }
}

/// The URL of a Unix socket, without its scheme.
fn socket(rest: &str) -> Result<RedisUrl, NoRedisUrl> {
    let (who, path) = match rest.rsplit_once('@') {
        Some((who, path)) => (format!("{who}@"), path),
        None => (String::new(), rest),
    };
    if who.contains(['/', '?', '#']) {
        return Err(NoRedisUrl("there is a `/`, `?` or `#` in user or password"));
    }
    if !path.starts_with('/') || path.contains(['?', '#']) {
        return Err(NoRedisUrl("the path of a socket begins with a slash"));
    }
    // The library's own reader takes user and password apart.
    let read = format!("redis://{who}localhost").into_connection_info();
    let read = read.map_err(|_| NoRedisUrl("this is no URL of a Redis"))?;
    let (host, port) = (path.to_owned(), 0);
    Ok(RedisUrl {
        places: vec![Place { host, port }],
        name: None,
        access: access(&read, false)?,
    })
}

/// Whether a port stands behind a host, which may be an address in brackets.
fn has_port(host: &str) -> bool {
    let name = host.rsplit_once(']').map_or(host, |(_, rest)| rest);
    name.contains(':')
}

fn place(read: &ConnectionInfo) -> Result<Place, NoRedisUrl> {
    let (host, port) = match read.addr() {
        ConnectionAddr::Tcp(host, port) => (host, *port),
        ConnectionAddr::TcpTls { host, port, .. } => (host, *port),
        _ => return Err(NoRedisUrl("there is no host")),
    };
    let host = host.trim_matches(['[', ']']).to_lowercase();
    Ok(Place { host, port })
}

fn access(read: &ConnectionInfo, tls: bool) -> Result<Access, NoRedisUrl> {
    let settings = read.redis_settings();
    let (user, password) = (settings.username(), settings.password());
    // Otherwise a password that was written in the user's place would be shown as his name.
    if user.is_some() && password.is_none() {
        return Err(NoRedisUrl("there is a user and no password"));
    }
    Ok(Access {
        user: user.map(str::to_owned),
        password: password.map(Secret::new),
        database: settings.db(),
        tls: tls.then(Tls::default),
    })
}

impl fmt::Display for RedisUrl {
    /// The URL without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.access.tls {
            Some(_) => "rediss",
            None if self.is_socket() => "unix",
            None => "redis",
        };
        let places: Vec<String> = self.places.iter().map(Place::to_string).collect();
        let places = places.join(",");
        match &self.name {
            Some(name) => write!(f, "{scheme}+sentinel://{places}/{name}")?,
            None => write!(f, "{scheme}://{places}")?,
        }
        match self.access.database {
            0 => Ok(()),
            database => write!(f, "/{database}"),
        }
    }
}

impl RedisUrl {
    /// The same, which trusts these certificates (PEM) and no others. Without TLS there is nothing to
    /// trust.
    pub fn trusting(mut self, authority: &[u8]) -> RedisUrl {
        if let Some(tls) = &mut self.access.tls {
            tls.authority = Some(authority.to_owned());
        }
        self
    }

    /// Whether it is that of a Unix socket.
    pub fn is_socket(&self) -> bool {
        self.places.iter().any(|place| place.socket().is_some())
    }

    /// How one gets in.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// Whether the connection is encrypted.
    pub fn has_tls(&self) -> bool {
        self.access.tls.is_some()
    }

    /// Whether Sentinels say where the primary is.
    pub fn has_sentinels(&self) -> bool {
        self.name.is_some()
    }

    /// Where a client connects to.
    pub fn server(&self) -> Server {
        let access = Arc::new(self.access.clone());
        match (&self.name, self.places.first()) {
            (None, Some(place)) => Server::At(place.clone(), access),
            (name, _) => {
                let name = name.as_deref().unwrap_or_default();
                let sentinels = Sentinels::new(name, self.places.clone(), access);
                Server::Primary(Arc::new(sentinels))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> RedisUrl {
        text.parse().expect("a URL")
    }

    #[test]
    fn a_url_is_shown_without_user_and_password() {
        for (text, shown) in [
            ("redis://127.0.0.1", "redis://127.0.0.1:6379"),
            (
                "rediss://me:hush@Shop.example:7000/3",
                "rediss://shop.example:7000/3",
            ),
            ("redis://:hush@[::1]:7000", "redis://[::1]:7000"),
            (
                "redis+sentinel://me:h%40sh@a:1,b/shop/2",
                "redis+sentinel://a:1,b:26379/shop/2",
            ),
            ("unix://me:hush@/run/redis.sock", "unix:///run/redis.sock"),
        ] {
            assert_eq!(read(text).to_string(), shown);
        }
        let access = read("redis://me:h%40sh@a").access().clone();
        assert_eq!(access.user.as_deref(), Some("me"));
        assert_eq!(access.password.as_ref().map(Secret::reveal), Some("h@sh"));
    }

    #[test]
    fn a_password_is_in_no_debug_text() {
        for text in ["rediss://me:hush@a/1", "redis+sentinel://me:hush@a:1/shop"] {
            let url = read(text);
            let shown = format!("{url:?} {url} {:?} {:?}", url.server(), url.access());
            assert!(!shown.contains("hush"), "{shown}");
        }
    }

    #[test]
    fn what_is_no_url_is_refused_and_not_repeated() {
        for text in [
            "hush",
            "http://me:hush@a",
            "redis://hush@a",
            "redis://me:hush@a:port",
            "redis://me:hush@a,b",
            "redis://me:hush@a/0?hush=1",
            "redis://me:hush@a/hush",
            "redis+sentinel://me:hush@a:1",
            "redis://me:hush@",
            "unix://me:hush@run/redis.sock",
            "unix://hush@/run/redis.sock",
            "redis://me:12#hush@host",
            "redis://me:12/hush@host",
            "redis://me:12?hush@host",
            "redis://me:1#hush@a,b/0",
            "redis://host#hush",
            "redis+sentinel://me:12#hush@a:1/shop",
            "unix://me:12#hush@/run/redis.sock",
        ] {
            let why = text.parse::<RedisUrl>().expect_err(text).to_string();
            assert!(!why.contains("hush"), "{why}");
            assert!(why.contains("redis://[USER:PASSWORD@]HOST"), "{why}");
        }
    }
}
