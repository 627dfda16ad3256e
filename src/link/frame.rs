//! Where one message of the Redis protocol ends and what its first words are, given the bytes in
//! any pieces (<https://redis.io/docs/latest/develop/reference/protocol-spec/>). Nothing is copied:
//! a frame knows where its words lie, and who wants one hands the bytes in again.

/// How many words of a message are located: a script of three keys has its second argument last.
pub(super) const WORDS: usize = 8;
/// How deep answers may be nested; a server nests them ten deep at most.
const DEPTH: usize = 256;
/// The length of a word that ends with its line.
const UNKNOWN: u64 = u64::MAX;
/// How long the line of a length may be: a sign, and 64 bits.
const LENGTH: u32 = 20;

/// Which way messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// From a client: arrays of bulk strings, and inline commands.
    Requests,
    /// From a server: any type of RESP2 and RESP3.
    Replies,
}

/// How far a framer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The message is not complete; all bytes belong to it.
    More,
    /// It ended after so many of the bytes.
    Ended(usize),
    /// This is not the protocol: nothing can be told of the bytes from here on.
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A type byte comes next.
    Type,
    /// A line, to its end.
    Line,
    /// The digits of a length, of this type.
    Length {
        kind: u8,
        value: u64,
        null: bool,
        digits: u32,
    },
    /// So many bytes of a string, its line end included.
    Body { left: u64 },
    /// Not the protocol.
    Lost,
}

/// An aggregate whose end has not come.
#[derive(Debug, Clone, Copy)]
struct Level {
    left: u64,
    /// Attributes stand before the value that they are about, and are none themselves.
    attribute: bool,
}

/// Where a word lies in its message.
#[derive(Debug, Clone, Copy, Default)]
struct Span {
    from: u64,
    length: u64,
}

/// Finds the ends of the messages of one direction.
#[derive(Debug)]
pub(super) struct Framer {
    side: Side,
    state: State,
    open: Vec<Level>,
    /// Whether the next byte begins a message.
    fresh: bool,
    /// Bytes of the message so far.
    length: u64,
    /// Its first byte.
    kind: u8,
    /// The elements of the outermost aggregate.
    count: u64,
    spans: [Span; WORDS],
    located: usize,
}

impl Framer {
    pub(super) fn new(side: Side) -> Framer {
        Framer {
            side,
            state: State::Type,
            open: Vec::new(),
            fresh: true,
            length: 0,
            kind: 0,
            count: 0,
            spans: [Span::default(); WORDS],
            located: 0,
        }
    }

    /// Takes the next bytes, up to the end of the message. After an end the next one begins.
    pub(super) fn advance(&mut self, bytes: &[u8]) -> Step {
        if self.fresh && !bytes.is_empty() {
            self.fresh = false;
            self.length = 0;
            self.count = 0;
            self.located = 0;
        }
        let mut at = 0;
        while at < bytes.len() {
            let before = at;
            let ended = match self.state {
                State::Type => {
                    at += 1;
                    self.typed(bytes[before])
                }
                State::Line => match bytes[at..].iter().position(|byte| *byte == b'\n') {
                    None => {
                        at = bytes.len();
                        false
                    }
                    Some(length) => {
                        at += length + 1;
                        self.line_ended(length as u64 + 1)
                    }
                },
                State::Length { .. } => {
                    at += 1;
                    self.digit(bytes[before])
                }
                State::Body { left } => {
                    let here = left.min((bytes.len() - at) as u64);
                    at += here as usize;
                    self.state = State::Body { left: left - here };
                    here == left && self.value_ended()
                }
                State::Lost => return Step::Lost,
            };
            self.length += (at - before) as u64;
            if self.state == State::Lost {
                return Step::Lost;
            }
            if ended {
                self.fresh = true;
                return Step::Ended(at);
            }
        }
        Step::More
    }

    /// A value begins. True if it has ended with that, and with it the message.
    fn typed(&mut self, kind: u8) -> bool {
        let first = self.length == 0;
        if self.open.is_empty() {
            self.kind = kind;
        }
        let length = State::Length {
            kind,
            value: 0,
            null: false,
            digits: 0,
        };
        self.state = match (self.side, kind) {
            (Side::Requests, b'*') if first => length,
            (Side::Requests, b'$') if !first => length,
            // An inline command is one line.
            (Side::Requests, b'\n') if first => return true,
            (Side::Requests, _) if first => State::Line,
            (Side::Requests, _) => State::Lost,
            (Side::Replies, b'+' | b'-' | b':' | b',' | b'#' | b'_' | b'(') => {
                self.locate(self.length + 1, UNKNOWN);
                State::Line
            }
            (Side::Replies, b'$' | b'=' | b'!' | b'*' | b'~' | b'>' | b'%' | b'|') => length,
            // What a primary sends to a replica that it keeps waiting.
            (Side::Replies, b'\n') if first => return true,
            (Side::Replies, _) => State::Lost,
        };
        false
    }

    fn digit(&mut self, byte: u8) -> bool {
        let State::Length {
            kind,
            value,
            null,
            digits,
        } = self.state
        else {
            return false;
        };
        let (mut value, mut null) = (value, null);
        match byte {
            b'0'..=b'9' => {
                value = value
                    .saturating_mul(10)
                    .saturating_add((byte - b'0').into())
            }
            b'-' if digits == 0 => null = true,
            b'\r' => {}
            b'\n' => return self.sized(kind, (!null).then_some(value)),
            _ => {
                self.state = State::Lost;
                return false;
            }
        }
        let digits = digits + 1;
        self.state = match digits > LENGTH {
            true => State::Lost,
            false => State::Length {
                kind,
                value,
                null,
                digits,
            },
        };
        false
    }

    /// The length of a string or an aggregate is known; it has none if it is null.
    fn sized(&mut self, kind: u8, length: Option<u64>) -> bool {
        let Some(length) = length else {
            if self.side == Side::Requests && kind == b'$' {
                self.state = State::Lost;
                return false;
            }
            return self.value_ended();
        };
        if matches!(kind, b'$' | b'=' | b'!') {
            self.locate(self.length + 1, length);
            self.state = State::Body {
                left: length.saturating_add(2),
            };
            return false;
        }
        let left = match kind {
            b'%' | b'|' => length.saturating_mul(2),
            _ => length,
        };
        let attribute = kind == b'|';
        if self.open.is_empty() {
            self.count = left;
        }
        self.state = State::Type;
        match left {
            0 if attribute => false,
            0 => self.value_ended(),
            _ if self.open.len() == DEPTH => {
                self.state = State::Lost;
                false
            }
            _ => {
                self.open.push(Level { left, attribute });
                false
            }
        }
    }

    /// A line has ended after so many more bytes.
    fn line_ended(&mut self, more: u64) -> bool {
        let length = self.length + more;
        if self.side == Side::Replies
            && self.open.len() <= 1
            && let Some(span) = self.spans[..self.located].last_mut()
            && span.length == UNKNOWN
        {
            span.length = length.saturating_sub(span.from + 2);
        }
        self.value_ended()
    }

    /// A value has ended. True if the message has ended with it.
    fn value_ended(&mut self) -> bool {
        self.state = State::Type;
        while let Some(level) = self.open.last_mut() {
            level.left -= 1;
            if level.left > 0 {
                return false;
            }
            let attribute = level.attribute;
            self.open.pop();
            if attribute {
                // The value that it is about is still to come.
                if self.open.is_empty() {
                    self.located = 0;
                }
                return false;
            }
        }
        true
    }

    fn locate(&mut self, from: u64, length: u64) {
        if self.open.len() <= 1 && self.located < WORDS {
            self.spans[self.located] = Span { from, length };
            self.located += 1;
        }
    }

    /// The message's first byte: of a reply its type.
    pub(super) fn kind(&self) -> u8 {
        self.kind
    }

    /// The words of the message, whose first bytes are handed in again. Words that lie beyond them
    /// are absent.
    pub(super) fn words<'a>(&self, head: &'a [u8]) -> Words<'a> {
        if self.side == Side::Requests && self.kind != b'*' {
            return Words::inline(head);
        }
        let mut words = Words {
            count: self.count,
            first: [None; WORDS],
        };
        for (word, span) in words.first.iter_mut().zip(&self.spans[..self.located]) {
            let from = usize::try_from(span.from).ok();
            let end = usize::try_from(span.from.saturating_add(span.length)).ok();
            *word = from.zip(end).and_then(|(from, end)| head.get(from..end));
        }
        words
    }
}

/// The first words of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Words<'a> {
    /// How many it has in all.
    pub(super) count: u64,
    first: [Option<&'a [u8]>; WORDS],
}

impl<'a> Words<'a> {
    fn inline(line: &'a [u8]) -> Words<'a> {
        let mut words = Words {
            count: 0,
            first: [None; WORDS],
        };
        let blank = |byte: &u8| byte.is_ascii_whitespace();
        for word in line.split(blank).filter(|word| !word.is_empty()) {
            if let Some(place) = words.first.get_mut(words.count as usize) {
                *place = Some(word);
            }
            words.count += 1;
        }
        words
    }

    /// One of them.
    pub(super) fn get(&self, place: usize) -> Option<&'a [u8]> {
        self.first.get(place).copied().flatten()
    }

    /// Whether a word is this one, in upper or lower case.
    pub(super) fn is(&self, place: usize, word: &str) -> bool {
        let found = self.get(place);
        found.is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The lengths of the messages, however the bytes are cut, and the words of each.
    fn messages(side: Side, pieces: &[&[u8]]) -> (Vec<usize>, Vec<Vec<Vec<u8>>>) {
        let mut framer = Framer::new(side);
        let all = pieces.concat();
        let (mut ends, mut words, mut began, mut at) = (vec![], vec![], 0, 0);
        for piece in pieces {
            let mut used = 0;
            while used < piece.len() {
                match framer.advance(&piece[used..]) {
                    Step::More => break,
                    Step::Lost => return (ends, words),
                    Step::Ended(length) => {
                        used += length;
                        let end = at + used;
                        ends.push(end - began);
                        let found = framer.words(&all[began..end]);
                        let found = (0..WORDS).filter_map(|place| found.get(place));
                        words.push(found.map(<[u8]>::to_vec).collect());
                        began = end;
                    }
                }
            }
            at += piece.len();
        }
        (ends, words)
    }

    fn words(side: Side, bytes: &[u8]) -> Vec<Vec<String>> {
        let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
        let (_, words) = messages(side, &[bytes]);
        words.iter().map(|m| m.iter().map(text).collect()).collect()
    }

    const REQUESTS: &[u8] = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\n\r\n\r\n\r\nPING\r\n*1\r\n$4\r\nPING\r\n\
        *0\r\n\r\nset  a b\r\n*5\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n1\r\n$1\r\nk\r\n$0\r\n\r\n";
    const REPLIES: &[u8] = b"+OK\r\n-ERR no\r\n:-12\r\n$-1\r\n$5\r\nab\r\nc\r\n*-1\r\n*0\r\n\
        *3\r\n:1\r\n*2\r\n$1\r\na\r\n+b\r\n$0\r\n\r\n>3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n\
        %2\r\n+a\r\n,1.5\r\n+b\r\n#t\r\n|1\r\n+ttl\r\n:3\r\n*1\r\n_\r\n(349\r\n=7\r\ntxt:abc\r\n\
        !3\r\nERR\r\n~2\r\n:1\r\n|1\r\n+x\r\n*1\r\n+y\r\n:2\r\n*1\r\n*1\r\n*0\r\n\n+CONTINUE\r\n";

    #[test]
    fn every_type_of_answer_ends_where_it_ends() {
        let (ends, _) = messages(Side::Replies, &[REPLIES]);
        assert_eq!(ends.iter().sum::<usize>(), REPLIES.len());
        assert_eq!(ends.len(), 18, "{ends:?}");
    }

    #[test]
    fn requests_end_where_they_end_and_tell_their_words() {
        assert_eq!(
            words(Side::Requests, REQUESTS),
            [
                vec!["SET", "k", "\r\n\r\n"],
                vec!["PING"],
                vec!["PING"],
                vec![],
                vec![],
                vec!["set", "a", "b"],
                vec!["EVAL", "return 1", "1", "k", ""],
            ]
        );
    }

    #[test]
    fn a_confirmation_tells_its_words_and_an_attribute_hides_none() {
        let bytes = b"*3\r\n$9\r\nsubscribe\r\n$0\r\n\r\n:1\r\n+MONITORED\r\n\
            |1\r\n+k\r\n+v\r\n*2\r\n$4\r\npong\r\n$0\r\n\r\n";
        assert_eq!(
            words(Side::Replies, bytes),
            [
                vec!["subscribe", "", "1"],
                vec!["MONITORED"],
                vec!["pong", ""],
            ]
        );
    }

    #[test]
    fn what_is_not_the_protocol_is_told_and_not_guessed() {
        let lost = |side, bytes: &[u8]| Framer::new(side).advance(bytes) == Step::Lost;
        assert!(lost(Side::Replies, b"GET / HTTP/1.1\r\n"));
        assert!(lost(Side::Replies, b"$x\r\n"));
        assert!(lost(Side::Requests, b"*1\r\n+PING\r\n"));
        assert!(lost(Side::Requests, b"*1\r\n$-1\r\n"));
        assert!(lost(Side::Replies, &b"*1\r\n".repeat(DEPTH + 1)));
        assert!(lost(
            Side::Replies,
            &[b"$".as_slice(), &[b'1'; 40]].concat()
        ));
    }

    #[test]
    fn the_words_of_a_message_whose_rest_is_missing_are_those_that_are_there() {
        let head = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048576\r\nxxxx";
        let mut framer = Framer::new(Side::Requests);
        assert_eq!(framer.advance(head), Step::More);
        let words = framer.words(head);
        assert!(words.is(0, "set") && words.is(1, "k"));
        assert_eq!((words.get(2), words.count), (None, 3));
    }

    fn cut(bytes: &[u8], lengths: &[usize]) -> Vec<Vec<u8>> {
        let mut rest = bytes;
        let mut pieces = Vec::new();
        for length in lengths.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at((*length).clamp(1, rest.len()));
            pieces.push(piece.to_vec());
            rest = after;
        }
        pieces
    }

    proptest! {
        #[test]
        fn however_the_bytes_are_cut_the_messages_are_the_same(
            lengths in prop::collection::vec(1usize..20, 1..40),
        ) {
            for (side, bytes) in [(Side::Requests, REQUESTS), (Side::Replies, REPLIES)] {
                let pieces = cut(bytes, &lengths);
                let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
                prop_assert_eq!(messages(side, &pieces), messages(side, &[bytes]));
            }
        }

        #[test]
        fn any_bytes_at_all_are_told_alike_however_they_are_cut(
            bytes in prop::collection::vec(prop::sample::select(b"*$+:>|%-0123\r\na".to_vec()), 0..120),
            lengths in prop::collection::vec(1usize..9, 1..20),
        ) {
            for side in [Side::Requests, Side::Replies] {
                let pieces = cut(&bytes, &lengths);
                let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
                prop_assert_eq!(messages(side, &pieces), messages(side, &[&bytes]));
            }
        }
    }
}
