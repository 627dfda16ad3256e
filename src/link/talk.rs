//! What is said on one connection: who it is, which answers are still to come, and which of the
//! server's messages are no answers. Answers come in the order of their requests; messages that
//! were pushed or published come in between.

use std::collections::VecDeque;

use super::frame::Words;
use super::rule::{OURS, Peer, Who};

/// What becomes of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is passed on.
    Pass,
    /// It is lost.
    Swallow,
    /// It is passed on when a rule is gone.
    Hold,
    /// The connection is reset instead.
    Reset,
    /// What it says decides.
    Depends,
}

/// What kind of answer is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// One message.
    Answer,
    /// So many confirmations of subscriptions, or one error.
    Confirmations(u64),
    /// One or more confirmations, or one error: all channels are left.
    AllLeft { seen: bool },
    /// One message, and after it the stream of a primary.
    Stream,
    /// One message, and after it every command that the server runs.
    Monitor,
    /// The link's own.
    Ours(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Awaited {
    what: What,
    fate: Fate,
}

/// Whether requests are answered (`CLIENT REPLY`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answers {
    On,
    SkipNext,
    Off,
}

/// The state of one connection's talk.
#[derive(Debug)]
pub(super) struct Talk {
    /// Who is at the other end.
    pub(super) peer: Peer,
    /// Whether the server sends a primary's stream, in which there are no messages any more.
    pub(super) streams: bool,
    /// The answers to come; so many of each in a row, so that a long pipeline takes no memory.
    awaited: VecDeque<(Awaited, u64)>,
    answers: Answers,
    subscribed: bool,
    monitors: bool,
}

const CONFIRMATIONS: [&str; 6] = [
    "subscribe",
    "unsubscribe",
    "psubscribe",
    "punsubscribe",
    "ssubscribe",
    "sunsubscribe",
];
const MESSAGES: [&str; 3] = ["message", "pmessage", "smessage"];

impl Talk {
    pub(super) fn new() -> Talk {
        Talk {
            peer: Peer::default(),
            streams: false,
            awaited: VecDeque::new(),
            answers: Answers::On,
            subscribed: false,
            monitors: false,
        }
    }

    /// How many rows of answers are to come.
    pub(super) fn rows(&self) -> usize {
        self.awaited.len()
    }

    /// Learns from a request who sends it.
    pub(super) fn learn(&mut self, words: &Words<'_>) {
        let name = match words.count {
            3 if words.is(0, "CLIENT") && words.is(1, "SETNAME") => words.get(2),
            // Who listens has no other name to give. Libraries tell their own in the same way.
            4 if words.is(1, "SETINFO") && words.is(2, "LIB-NAME") => {
                words.get(3).filter(|name| name.starts_with(OURS))
            }
            4.. if words.is(0, "HELLO") => (1..6)
                .find(|place| words.is(*place, "SETNAME"))
                .and_then(|place| words.get(place + 1)),
            _ => None,
        };
        if let Some(name) = name {
            self.peer.named(name);
        }
        let replica = ["REPLCONF", "PSYNC", "SYNC"];
        if replica.iter().any(|name| words.is(0, name)) {
            self.peer.who = Who::Replica;
        }
    }

    /// A request goes to the server. Tells whether one message answers it.
    pub(super) fn sent(&mut self, words: &Words<'_>, fate: Fate) -> bool {
        if words.count == 0 || !self.is_answered(words) {
            return false;
        }
        let what = match words {
            _ if words.count >= 2 && CONFIRMATIONS.iter().any(|name| words.is(0, name)) => {
                What::Confirmations(words.count - 1)
            }
            _ if CONFIRMATIONS.iter().any(|name| words.is(0, name)) => {
                What::AllLeft { seen: false }
            }
            _ if words.is(0, "PSYNC") || words.is(0, "SYNC") => What::Stream,
            _ if words.is(0, "MONITOR") => What::Monitor,
            _ => What::Answer,
        };
        // Only of a single answer there is one moment to decide.
        let fate = match fate {
            Fate::Depends if what != What::Answer => Fate::Pass,
            fate => fate,
        };
        self.push(Awaited { what, fate });
        what == What::Answer
    }

    /// A request is answered by the link itself, when those before it are answered.
    pub(super) fn refused(&mut self, words: &Words<'_>, answer: &'static str) {
        if self.is_answered(words) {
            let what = What::Ours(answer);
            let fate = Fate::Pass;
            self.push(Awaited { what, fate });
        }
    }

    fn is_answered(&mut self, words: &Words<'_>) -> bool {
        if words.is(0, "CLIENT") && words.is(1, "REPLY") {
            if words.is(2, "ON") {
                self.answers = Answers::On;
                return true;
            }
            let skip = words.is(2, "SKIP") && self.answers == Answers::On;
            if skip {
                self.answers = Answers::SkipNext;
            } else if words.is(2, "OFF") {
                self.answers = Answers::Off;
            }
            return false;
        }
        let on = self.answers == Answers::On;
        if self.answers == Answers::SkipNext {
            self.answers = Answers::On;
        }
        on
    }

    fn push(&mut self, awaited: Awaited) {
        match self.awaited.back_mut() {
            Some((last, times)) if *last == awaited && awaited.what == What::Answer => *times += 1,
            _ => self.awaited.push_back((awaited, 1)),
        }
    }

    fn pop(&mut self) {
        match self.awaited.front_mut() {
            Some((_, times)) if *times > 1 => *times -= 1,
            _ => {
                self.awaited.pop_front();
            }
        }
    }

    /// The link's own answer, if it is its turn.
    pub(super) fn ours(&mut self) -> Option<&'static str> {
        let left_all = |awaited: &Awaited| awaited.what == What::AllLeft { seen: true };
        while (self.awaited.front()).is_some_and(|(first, _)| left_all(first)) {
            let (next, _) = self.awaited.get(1)?;
            if !matches!(next.what, What::Ours(_)) {
                return None;
            }
            self.pop();
        }
        let (Awaited { what, .. }, _) = self.awaited.front()?;
        let What::Ours(answer) = *what else {
            return None;
        };
        self.pop();
        Some(answer)
    }

    /// The server sends a message, of this type and with these first words. Tells what becomes of
    /// it.
    pub(super) fn heard(&mut self, kind: u8, words: &Words<'_>) -> Fate {
        let confirms = is_one_of(kind, words, &CONFIRMATIONS);
        loop {
            let Some((first, _)) = self.awaited.front_mut() else {
                self.note(kind, words, confirms);
                return Fate::Pass;
            };
            let fate = first.fate;
            match (&mut first.what, confirms) {
                (What::Confirmations(left), true) => {
                    *left -= 1;
                    if *left == 0 {
                        self.pop();
                    }
                    self.note(kind, words, confirms);
                    return fate;
                }
                (What::AllLeft { seen }, true) => {
                    *seen = true;
                    self.note(kind, words, confirms);
                    return fate;
                }
                _ => {}
            }
            let what = first.what;
            if self.is_no_answer(kind, words, confirms) {
                return Fate::Pass;
            }
            self.pop();
            match what {
                // Its last confirmation has come before this.
                What::AllLeft { seen: true } => continue,
                What::Stream => self.streams = kind != b'-',
                What::Monitor => self.monitors = kind == b'+',
                _ => {}
            }
            if kind == b'+' && words.is(0, "RESET") {
                (self.subscribed, self.monitors) = (false, false);
            }
            return fate;
        }
    }

    /// A confirmation says how many channels are subscribed to now.
    fn note(&mut self, kind: u8, words: &Words<'_>, confirms: bool) {
        if confirms && kind == b'*' {
            self.subscribed = words.get(2) != Some(b"0");
        }
    }

    fn is_no_answer(&mut self, kind: u8, words: &Words<'_>, confirms: bool) -> bool {
        let published = confirms || is_one_of(kind, words, &MESSAGES);
        let watched = || {
            let word = words.get(0).and_then(|word| word.first().copied());
            word.is_some_and(|first| first.is_ascii_digit())
        };
        match kind {
            b'>' | b'\n' => true,
            b'*' => self.subscribed && published,
            b'+' => self.monitors && watched(),
            _ => false,
        }
    }
}

fn is_one_of(kind: u8, words: &Words<'_>, names: &[&str]) -> bool {
    matches!(kind, b'*' | b'>')
        && names
            .iter()
            .any(|name| words.get(0) == Some(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::super::frame::{Framer, Side, Step};
    use super::*;

    impl Talk {
        fn send(&mut self, line: &str, fate: Fate) -> &mut Talk {
            let mut framer = Framer::new(Side::Requests);
            let line = format!("{line}\r\n");
            assert_eq!(framer.advance(line.as_bytes()), Step::Ended(line.len()));
            let words = framer.words(line.as_bytes());
            self.learn(&words);
            self.sent(&words, fate);
            self
        }

        /// The fates of some messages.
        fn hear(&mut self, bytes: &str) -> Vec<Fate> {
            let mut framer = Framer::new(Side::Replies);
            let mut rest = bytes.as_bytes();
            let mut fates = Vec::new();
            while let Step::Ended(length) = framer.advance(rest) {
                fates.push(self.heard(framer.kind(), &framer.words(rest)));
                rest = &rest[length..];
            }
            assert_eq!(rest, b"", "whole messages");
            fates
        }
    }

    use Fate::{Pass, Swallow};

    #[test]
    fn answers_come_in_the_order_of_their_requests_and_pushes_in_between() {
        let mut talk = Talk::new();
        talk.send("GET a", Pass)
            .send("GET b", Swallow)
            .send("GET c", Pass);
        let fates = talk.hear("$1\r\na\r\n>2\r\n+invalidate\r\n_\r\n$1\r\nb\r\n$1\r\nc\r\n");
        assert_eq!(fates, [Pass, Pass, Swallow, Pass]);
        assert_eq!(talk.rows(), 0);
    }

    #[test]
    fn who_listens_tells_whose_it_is_by_its_librarys_name() {
        let mut talk = Talk::new();
        talk.send("CLIENT SETINFO LIB-NAME oversold-3-7", Pass);
        assert_eq!((talk.peer.instance, talk.peer.worker), (Some(3), Some(7)));
        talk.send("CLIENT SETINFO LIB-NAME another", Pass);
        assert_eq!((talk.peer.instance, talk.peer.worker), (Some(3), Some(7)));
    }

    #[test]
    fn a_long_pipeline_takes_no_memory() {
        let mut talk = Talk::new();
        for _ in 0..100_000 {
            talk.send("PING", Pass);
        }
        assert_eq!(talk.rows(), 1);
    }

    #[test]
    fn confirmations_and_published_messages_are_no_answers_to_others() {
        let mut talk = Talk::new();
        talk.send("SUBSCRIBE a b", Pass).send("PING", Swallow);
        let confirmed = "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n\
                         *3\r\n$9\r\nsubscribe\r\n$1\r\nb\r\n:2\r\n";
        assert_eq!(talk.hear(confirmed), [Pass, Pass]);
        let message = "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nm\r\n";
        assert_eq!(talk.hear(message), [Pass]);
        assert_eq!(talk.hear("*2\r\n$4\r\npong\r\n$0\r\n\r\n"), [Swallow]);
        talk.send("UNSUBSCRIBE", Pass).send("GET a", Swallow);
        let left = "*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:1\r\n\
                    *3\r\n$11\r\nunsubscribe\r\n$1\r\nb\r\n:0\r\n";
        assert_eq!(talk.hear(left), [Pass, Pass]);
        // A list that only looks like a message.
        assert_eq!(talk.hear(message), [Swallow]);
    }

    #[test]
    fn a_subscription_that_is_refused_is_answered_once() {
        let mut talk = Talk::new();
        talk.send("SUBSCRIBE a b", Pass).send("GET a", Swallow);
        assert_eq!(talk.hear("-NOPERM no\r\n$-1\r\n"), [Pass, Swallow]);
    }

    #[test]
    fn the_third_protocol_pushes_its_confirmations() {
        let mut talk = Talk::new();
        talk.send("SUBSCRIBE a", Pass).send("GET a", Swallow);
        let heard = ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n\
                     >3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nm\r\n_\r\n";
        assert_eq!(talk.hear(heard), [Pass, Pass, Swallow]);
    }

    #[test]
    fn a_client_that_wants_no_answers_awaits_none() {
        let mut talk = Talk::new();
        talk.send("CLIENT REPLY SKIP", Pass).send("SET a 1", Pass);
        talk.send("GET a", Swallow);
        assert_eq!(talk.hear("$1\r\n1\r\n"), [Swallow]);
        talk.send("CLIENT REPLY OFF", Pass).send("SET a 1", Pass);
        talk.send("CLIENT REPLY ON", Pass).send("GET a", Swallow);
        assert_eq!(talk.hear("+OK\r\n$1\r\n1\r\n"), [Pass, Swallow]);
    }

    #[test]
    fn the_links_own_answer_waits_for_its_turn() {
        let mut talk = Talk::new();
        talk.send("GET a", Pass);
        let line = b"GET b\r\n";
        let mut framer = Framer::new(Side::Requests);
        framer.advance(line);
        talk.refused(&framer.words(line), "-LOADING\r\n");
        assert_eq!(talk.ours(), None);
        assert_eq!(talk.hear("$-1\r\n"), [Pass]);
        assert_eq!(talk.ours(), Some("-LOADING\r\n"));
        assert_eq!(talk.ours(), None);
    }

    #[test]
    fn a_monitor_is_told_what_is_no_answer() {
        let mut talk = Talk::new();
        talk.send("MONITOR", Pass).send("RESET", Swallow);
        let heard = talk.hear("+OK\r\n+1700000000.1 [0 127.0.0.1:1] \"PING\"\r\n+RESET\r\n");
        assert_eq!(heard, [Pass, Pass, Swallow]);
    }

    #[test]
    fn a_connection_tells_who_it_is() {
        let peer = |line: &str| Talk::new().send(line, Pass).peer;
        assert_eq!(peer("PING").who, Who::Client);
        assert_eq!(peer("CLIENT SETNAME oversold-3-17").instance, Some(3));
        assert_eq!(
            peer("HELLO 3 AUTH u p SETNAME oversold-4-1").instance,
            Some(4)
        );
        assert_eq!(peer("CLIENT SETNAME sentinel-0a1b-cmd").who, Who::Sentinel);
        assert_eq!(peer("REPLCONF listening-port 1").who, Who::Replica);
    }

    #[test]
    fn after_the_answer_to_a_replica_comes_a_stream() {
        let mut talk = Talk::new();
        talk.send("PSYNC ? -1", Pass);
        assert_eq!(talk.hear("\n-LOADING not yet\r\n"), [Pass, Pass]);
        assert!(!talk.streams);
        talk.send("PSYNC ? -1", Pass);
        assert_eq!(talk.hear("\n+FULLRESYNC 0 0\r\n"), [Pass, Pass]);
        assert!(talk.streams);
    }
}
