//! The link: a relay in this process in front of one server. It understands the protocol, so that a
//! rule can name a command; it forwards bytes unchanged and in their order, and holds no more of
//! them than two buffers a connection: who is slow is waited for.

mod connection;
mod cut;
mod frame;
mod lane;
mod rule;
mod rules;
mod talk;
mod watch;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

pub use cut::{Cut, cut};
pub use rule::{Action, Answer, Chance, Command, Filter, Refusal, Rule, Ways, Who, Window};
pub use rules::Guard;
pub use watch::{Heard, Request, Watch};

use rules::Rules;

/// How long to wait when the process has no file left for a connection.
const NO_FILES: Duration = Duration::from_millis(10);

/// A link's address before it leads anywhere. Who connects already has to wait.
#[derive(Debug)]
pub struct Door {
    listener: TcpListener,
    address: SocketAddr,
}

impl Door {
    /// Takes a free port.
    pub async fn open() -> io::Result<Door> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        Ok(Door { listener, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Has it lead to a server.
    pub fn lead_to(self, server: SocketAddr) -> Link {
        let rules = Arc::new(Rules::default());
        let accepting = accept(self.listener, server, Arc::clone(&rules));
        Link {
            address: self.address,
            server,
            rules,
            accepting: tokio::spawn(accepting),
        }
    }
}

/// A relay in front of a server. Dropping it ends all its connections.
#[derive(Debug)]
pub struct Link {
    address: SocketAddr,
    server: SocketAddr,
    rules: Arc<Rules>,
    accepting: JoinHandle<()>,
}

impl Link {
    /// Starts a relay in front of a server, on a free port.
    pub async fn start(server: SocketAddr) -> io::Result<Link> {
        Ok(Door::open().await?.lead_to(server))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The server behind it.
    pub fn server(&self) -> SocketAddr {
        self.server
    }

    /// Adds a rule behind those that are there. It is gone when its guard is dropped.
    pub fn add(&self, rule: Rule) -> Guard {
        Rules::add(&self.rules, rule)
    }

    /// Has the server's answers told. Only the first who asks for it is told.
    pub fn watch(&self, watch: Watch) {
        self.rules.set_watch(watch);
    }

    /// Closes it as its server's machine does when it dies: nobody gets in any more, and what was
    /// on its way is lost.
    pub fn close(&self) {
        self.rules.close();
        self.accepting.abort();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
    }
}

async fn accept(listener: TcpListener, server: SocketAddr, rules: Arc<Rules>) {
    // All of them end with this future.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) if rules.refuse() => {
                    let _ = client.set_zero_linger();
                }
                Ok((client, _)) => {
                    connections.spawn(connect(client, server, Arc::clone(&rules)));
                }
                Err(_) => tokio::time::sleep(NO_FILES).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connect(client: TcpStream, server: SocketAddr, rules: Arc<Rules>) {
    match TcpStream::connect(server).await {
        Ok(server) => connection::relay(client, server, &rules).await,
        // The nearest to a refusal that is left when the client's connection stands.
        Err(_) => {
            let _ = client.set_zero_linger();
        }
    }
}
