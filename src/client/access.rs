//! How one gets in to a server: where it is, as whom, through TLS or not, and to which of its
//! databases. The password is handed to the library that connects and to nobody else.

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;

use redis::io::tcp::TcpSettings;
use redis::{ConnectionAddr, IntoConnectionInfo, RedisConnectionInfo, RedisError, TlsCertificates};

/// A host and a port, or a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// A name, or an address without brackets; or the path of a Unix socket, which begins with a slash.
    pub host: String,
    /// The port; of a Unix socket 0.
    pub port: u16,
}

impl Place {
    /// The path of the Unix socket, if it is one.
    pub fn socket(&self) -> Option<&Path> {
        self.host.starts_with('/').then(|| Path::new(&self.host))
    }
}

impl From<SocketAddr> for Place {
    fn from(address: SocketAddr) -> Place {
        Place {
            host: address.ip().to_string(),
            port: address.port(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.socket().is_some() {
            return f.write_str(&self.host);
        }
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Text that must not be shown. Neither Debug nor Display shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes a text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text, for those who must have it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Secret {
        Secret(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

/// How one gets in. By default with no password, no TLS, to database 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// The ACL user, if one was named.
    pub user: Option<String>,
    /// Its password, or that of the default user.
    pub password: Option<Secret>,
    /// The database.
    pub database: i64,
    /// Whether and how the connection is encrypted.
    pub tls: Option<Tls>,
}

/// An encrypted connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// The certificates of whom to trust, instead of those of this machine (PEM).
    pub authority: Option<Vec<u8>>,
}

impl Access {
    /// Whether there is a password.
    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// The same past TLS, as a link in front of the server takes it.
    pub fn in_the_clear(&self) -> Access {
        Access {
            tls: None,
            ..self.clone()
        }
    }

    /// The same to a Sentinel, which has no databases; without a password if it lets everybody in.
    pub(super) fn to_a_sentinel(&self, open: bool) -> Access {
        let access = Access {
            database: 0,
            ..self.clone()
        };
        match open {
            true => Access {
                user: None,
                password: None,
                ..access
            },
            false => access,
        }
    }

    /// A client of a server that lets one in this way. It calls itself so, if it has a name: as its
    /// library's, for there is no other that a connection gives while it is made. (A server that does
    /// not know the command answers with an error, which is of no account; a link has learned it all
    /// the same.)
    pub(super) fn client(
        &self,
        place: &Place,
        name: Option<&str>,
    ) -> Result<redis::Client, RedisError> {
        let (host, port) = (place.host.clone(), place.port);
        let address = match (place.socket(), &self.tls) {
            (Some(path), _) => ConnectionAddr::Unix(path.to_owned()),
            (None, None) => ConnectionAddr::Tcp(host, port),
            (None, Some(_)) => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                tls_params: None,
            },
        };
        // No CLIENT SETINFO without need: it would count as a command of the lock's.
        let settings = RedisConnectionInfo::default().set_db(self.database);
        let mut settings = match name {
            Some(name) => settings.set_lib_name(name, env!("CARGO_PKG_VERSION")),
            None => settings.set_skip_set_lib_name(),
        };
        if let Some(user) = &self.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &self.password {
            settings = settings.set_password(password.reveal());
        }
        // No-delay, for a lock's commands are small and each waits for its answer.
        let info = (address.into_connection_info()?)
            .set_tcp_settings(TcpSettings::default().set_nodelay(true))
            .set_redis_settings(settings);
        match &self.tls {
            None => redis::Client::open(info),
            Some(tls) => {
                let certificates = TlsCertificates {
                    client_tls: None,
                    root_cert: tls.authority.clone(),
                };
                redis::Client::build_with_tls(info, certificates)
            }
        }
    }
}
