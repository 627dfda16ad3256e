//! What a lock says on its connections, and what the server answers when it has done it. A fault on
//! the way between them tells by this which answer is which.

use super::{COMPARE_AND_DELETE, COMPARE_AND_EXTEND};
use crate::client;
use crate::link::{Answer, Command};
use crate::scenario::Reply;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// A command.
    Command(&'static str),
    /// A script.
    Script(&'static str),
}

/// A request, and the answer to it.
#[derive(Debug, Clone, Copy)]
pub struct Exchange {
    /// What is asked.
    pub request: Request,
    /// The answer that says: done.
    pub done: Answer,
    /// Which of its words says how long the lease is, in milliseconds.
    pub lease: Option<usize>,
}

impl Exchange {
    pub(super) const fn new(request: Request, done: Answer) -> Exchange {
        Exchange {
            request,
            done,
            lease: None,
        }
    }

    /// The same one, in which that word says how long the lease is.
    pub(super) const fn with_lease(self, word: usize) -> Exchange {
        Exchange {
            lease: Some(word),
            ..self
        }
    }
}

/// The exchanges of a lock that change whose it is.
#[derive(Debug, Clone, Copy)]
pub struct Wire {
    /// Takes the key.
    pub acquire: Exchange,
    /// Gives it a longer lease.
    pub renewal: Exchange,
    /// Gives it back.
    pub release: Exchange,
}

/// `SET key token NX PX milliseconds`.
pub(super) const SET: Exchange =
    Exchange::new(Request::Command("SET"), Answer::Word("OK")).with_lease(5);
/// `DEL`, and there was one.
pub(super) const DEL: Exchange = Exchange::new(Request::Command("DEL"), Answer::Positive);

impl Wire {
    /// `SET NX`, and scripts that compare the token.
    pub(super) const TOKEN: Wire = Wire {
        acquire: SET,
        // EVALSHA sha 1 key token milliseconds
        renewal: Exchange::new(Request::Script(COMPARE_AND_EXTEND), Answer::Positive).with_lease(5),
        release: Exchange::new(Request::Script(COMPARE_AND_DELETE), Answer::Positive),
    };

    /// The exchange whose answer that is.
    pub fn of(&self, reply: Reply) -> Exchange {
        match reply {
            Reply::Acquire => self.acquire,
            Reply::Renewal => self.renewal,
            Reply::Release => self.release,
        }
    }
}

impl Request {
    /// As a link tells it.
    pub fn command(self) -> Command {
        match self {
            Request::Command(name) => Command::Name(name.to_owned()),
            Request::Script(body) => {
                let sha = client::Script::new(body).sha().to_owned();
                let body = body.to_owned();
                Command::Script { body, sha }
            }
        }
    }
}
