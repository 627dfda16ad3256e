//! A rule of a link: when it holds, what it is about, and what is done then. Rules are values; the
//! first one that fits is the one that acts.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::ChaCha8Rng;

use super::frame::Words;
use crate::seed::Seed;

/// What is done on purpose, when, and to what.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// When.
    pub window: Window,
    /// To what.
    pub filter: Filter,
    /// What.
    pub action: Action,
}

impl Rule {
    /// Does it to all that passes from now on.
    pub fn new(action: Action) -> Rule {
        Rule {
            window: Window::default(),
            filter: Filter::default(),
            action,
        }
    }

    /// The same rule about less.
    pub fn about(mut self, filter: Filter) -> Rule {
        self.filter = filter;
        self
    }
}

/// When a rule holds, from the moment that it is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Window {
    /// It begins so much later.
    pub after: Duration,
    /// It ends so long after that; without it, when its guard is dropped.
    pub long: Option<Duration>,
}

impl Window {
    /// Whether it is open so long after the rule was added.
    pub(super) fn holds(&self, age: Duration) -> bool {
        age >= self.after && self.long.is_none_or(|long| age < self.after + long)
    }
}

/// Who is at the other end of a connection. One that has not told is a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Who {
    /// An application.
    #[default]
    Client,
    /// A replica.
    Replica,
    /// A Sentinel.
    Sentinel,
}

/// What a rule is about: all that is set must fit.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Filter {
    /// Connections of these.
    pub who: Option<Who>,
    /// Connections of this instance.
    pub instance: Option<u32>,
    /// Connections of this worker.
    pub worker: Option<u32>,
    /// Requests with this command.
    pub command: Option<Command>,
    /// Requests about this key, by their first key.
    pub key: Option<String>,
    /// Requests that the server answers so. Only [`Action::Swallow`], [`Action::ResetAfter`] and
    /// [`Action::HoldAnswer`] come late enough to heed it.
    pub answer: Option<Answer>,
    /// The n-th of all these only, from 1.
    pub nth: Option<u64>,
    /// Each of these with this probability.
    pub chance: Option<Chance>,
}

impl Filter {
    /// All connections of these.
    pub fn who(who: Who) -> Filter {
        Filter {
            who: Some(who),
            ..Filter::default()
        }
    }

    /// All connections of an instance.
    pub fn instance(instance: u32) -> Filter {
        Filter {
            who: Some(Who::Client),
            instance: Some(instance),
            ..Filter::default()
        }
    }

    /// All requests with this command.
    pub fn command(name: &str) -> Filter {
        Filter {
            command: Some(Command::Name(name.to_owned())),
            ..Filter::default()
        }
    }
}

/// A command, or a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A command by its name, in upper or lower case. `EVAL` means the scripts that are sent whole.
    Name(String),
    /// A script, sent whole or by its hash.
    Script {
        /// All of it.
        body: String,
        /// Its SHA1, in hexadecimal.
        sha: String,
    },
}

impl Command {
    pub(super) fn fits(&self, words: &Words<'_>) -> bool {
        match self {
            Command::Name(name) => words.is(0, name),
            Command::Script { body, sha } => {
                words.is(0, "EVALSHA") && words.is(1, sha)
                    || words.is(0, "EVAL") && words.get(1) == Some(body.as_bytes())
            }
        }
    }
}

/// An answer that is no error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// This word, or this number.
    Word(&'static str),
    /// A number above zero.
    Positive,
}

impl Answer {
    pub(super) fn fits(self, kind: u8, words: &Words<'_>) -> bool {
        let number = || str::from_utf8(words.get(0)?).ok()?.parse::<i64>().ok();
        match self {
            Answer::Word(word) => kind != b'-' && words.is(0, word),
            Answer::Positive => kind == b':' && number().is_some_and(|number| number > 0),
        }
    }
}

/// A probability, drawn from a stream of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Chance {
    /// From 0 to 1.
    pub of: f64,
    /// The run's seed.
    pub seed: u64,
    /// The stream's purpose.
    pub stream: String,
}

impl Chance {
    pub(super) fn stream(&self) -> ChaCha8Rng {
        Seed(self.seed).stream(&self.stream, 0)
    }

    pub(super) fn draw(&self, stream: &mut ChaCha8Rng) -> bool {
        stream.random_bool(self.of.clamp(0.0, 1.0))
    }
}

/// What a rule does. The first nine concern one request and its answer, the others connections
/// as a whole: those heed the filter's `who` and `instance` only.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// The request goes on later, and all that follows it on its connection.
    Delay(Duration),
    /// The request goes on when the rule is gone, and all that follows it on its connection.
    Hold,
    /// The request is applied, and its answer goes on when the rule is gone, with all that follows it
    /// on its connection.
    HoldAnswer,
    /// The request never arrives, and neither does what follows it on its connection: a stream
    /// loses nothing from its middle, and an answer would be taken for another request's.
    Drop,
    /// The request is applied and its answer is lost, with all that would come after it on its
    /// connection. Both ends stay connected.
    Swallow,
    /// The connection is reset, and the request never arrives.
    ResetBefore,
    /// The connection is reset when the request has been applied and answered.
    ResetAfter,
    /// The connection is closed, and the request never arrives.
    Close,
    /// The request never arrives, and is answered with an error.
    Answer(Refusal),
    /// Nothing passes on these ways; both ends stay connected.
    BlackHole(Ways),
    /// So many bytes a second pass, each way.
    Bandwidth(u64),
    /// All connections are reset, old and new ones.
    Cut,
    /// New connections are reset before anybody can tell who they are.
    Refuse,
}

impl Action {
    pub(super) fn is_about_requests(&self) -> bool {
        !matches!(
            self,
            Action::BlackHole(_) | Action::Bandwidth(_) | Action::Cut | Action::Refuse
        )
    }
}

/// On which ways of a connection nothing passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ways {
    /// From the client.
    ToServer,
    /// To the client.
    ToClient,
    /// Both.
    Both,
}

impl Ways {
    pub(super) fn include(self, way: Ways) -> bool {
        self == Ways::Both || self == way
    }
}

/// An error that a server may answer with instead of doing what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It is a replica.
    ReadOnly,
    /// It is loading its data.
    Loading,
    /// It has no memory left.
    OutOfMemory,
    /// It does not know the script.
    NoScript,
    /// Its cluster is down.
    ClusterDown,
    /// It cannot save its data.
    Misconf,
}

impl Refusal {
    /// The answer, as servers word it.
    pub(super) fn answer(self) -> &'static str {
        match self {
            Refusal::ReadOnly => "-READONLY You can't write against a read only replica.\r\n",
            Refusal::Loading => "-LOADING Redis is loading the dataset in memory\r\n",
            Refusal::OutOfMemory => "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
            Refusal::NoScript => "-NOSCRIPT No matching script. Please use EVAL.\r\n",
            Refusal::ClusterDown => "-CLUSTERDOWN The cluster is down\r\n",
            Refusal::Misconf => {
                "-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to \
                 persist to disk. Commands that may modify the data set are disabled.\r\n"
            }
        }
    }
}

/// What a connection has told of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Peer {
    pub(super) who: Who,
    pub(super) instance: Option<u32>,
    pub(super) worker: Option<u32>,
}

/// What the names of our own connections begin with; their instance and worker follow.
pub(super) const OURS: &[u8] = b"oversold-";

impl Peer {
    /// Takes in a name that the connection gives itself.
    pub(super) fn named(&mut self, name: &[u8]) {
        if name.starts_with(b"sentinel-") {
            self.who = Who::Sentinel;
        }
        let ours = name.strip_prefix(OURS);
        let ours = ours.and_then(|rest| str::from_utf8(rest).ok());
        let mut numbers = ours.into_iter().flat_map(|rest| rest.split('-'));
        let mut number = || numbers.next().and_then(|number| number.parse().ok());
        (self.instance, self.worker) = (number(), number());
    }
}

impl Filter {
    /// Whether a connection is meant, as far as it can be told by its peer.
    pub(super) fn fits_peer(&self, peer: &Peer) -> bool {
        self.who.is_none_or(|who| who == peer.who)
            && (self.instance).is_none_or(|instance| Some(instance) == peer.instance)
            && (self.worker).is_none_or(|worker| Some(worker) == peer.worker)
    }

    /// Whether a request is meant, before counting and chance.
    pub(super) fn fits_request(&self, peer: &Peer, words: &Words<'_>) -> bool {
        let key = || key(words);
        self.fits_peer(peer)
            && (self.command.as_ref()).is_none_or(|command| command.fits(words))
            && (self.key.as_ref()).is_none_or(|wanted| key() == Some(wanted.as_bytes()))
    }
}

/// The first key of a request: its second word, or a script's fourth.
pub(super) fn key<'a>(words: &Words<'a>) -> Option<&'a [u8]> {
    let scripts = [
        "EVAL",
        "EVALSHA",
        "FCALL",
        "EVAL_RO",
        "EVALSHA_RO",
        "FCALL_RO",
    ];
    match scripts.iter().any(|name| words.is(0, name)) {
        true if words.is(2, "0") => None,
        true => words.get(3),
        false => words.get(1),
    }
}
