//! The bytes of one way through a connection: as many as are held at a time, cut into messages.

use std::ops::Range;

use super::frame::{Framer, Side, Step, Words};
use super::rule::Ways;

/// How many bytes of one way are held.
const BUFFER: usize = 64 * 1024;

/// A stretch of one message in a lane's buffer, or of bytes that are no messages.
pub(super) struct Piece {
    pub(super) bytes: Range<usize>,
    /// Whether it holds the message's head, by which its fate is decided.
    pub(super) first: bool,
    /// Whether the message ends with it.
    pub(super) last: bool,
}

/// The bytes of one way that are held, cut into messages.
pub(super) struct Lane {
    side: Side,
    framer: Framer,
    buffer: Vec<u8>,
    /// Where the piece begins that comes next.
    next: usize,
    /// How far the framer has read.
    parsed: usize,
    end: usize,
    /// The head of the message in progress has been handed out.
    begun: bool,
    /// What comes is no protocol: at once, or after the message in progress.
    lost: bool,
    lost_next: bool,
}

impl Lane {
    pub(super) fn new(side: Side) -> Lane {
        Lane {
            side,
            framer: Framer::new(side),
            buffer: vec![0; BUFFER],
            next: 0,
            parsed: 0,
            end: 0,
            begun: false,
            lost: false,
            lost_next: false,
        }
    }

    pub(super) fn way(&self) -> Ways {
        match self.side {
            Side::Requests => Ways::ToServer,
            Side::Replies => Ways::ToClient,
        }
    }

    /// Where the next bytes go. Less than a message is left of the last ones, and not a bufferful.
    pub(super) fn room(&mut self) -> &mut [u8] {
        self.buffer.copy_within(self.next..self.end, 0);
        self.parsed -= self.next;
        self.end -= self.next;
        self.next = 0;
        &mut self.buffer[self.end..]
    }

    pub(super) fn filled(&mut self, length: usize) {
        self.end += length;
    }

    /// An empty stretch where the next piece begins.
    pub(super) fn due(&self) -> Range<usize> {
        self.next..self.next
    }

    pub(super) fn lose(&mut self) {
        self.lost = true;
    }

    pub(super) fn lose_after_this(&mut self) {
        match self.begun {
            true => self.lost_next = true,
            false => self.lost = true,
        }
    }

    /// Whether part of a message has been handed out and its end has not.
    pub(super) fn in_the_middle(&self) -> bool {
        self.begun
    }

    pub(super) fn words(&self, bytes: &Range<usize>) -> Words<'_> {
        self.framer.words(&self.buffer[bytes.clone()])
    }

    /// The type of the message in progress, by its first byte.
    pub(super) fn kind(&self) -> u8 {
        self.framer.kind()
    }

    /// A stretch of the bytes.
    pub(super) fn bytes(&self, stretch: &Range<usize>) -> &[u8] {
        &self.buffer[stretch.clone()]
    }

    /// The next piece: a message, or as much of one as is there once its head fills the buffer, or
    /// when nothing more comes.
    pub(super) fn piece(&mut self, last_call: bool) -> Option<Piece> {
        if !self.lost && self.parsed < self.end {
            match self.framer.advance(&self.buffer[self.parsed..self.end]) {
                Step::Ended(length) => {
                    self.parsed += length;
                    self.lost |= self.lost_next;
                    let first = !std::mem::replace(&mut self.begun, false);
                    return self.take(self.parsed, first, true);
                }
                Step::More => self.parsed = self.end,
                Step::Lost => self.lost = true,
            }
        }
        if self.lost || self.begun || last_call {
            // A head without its end, when nothing more comes, asks nothing.
            return self.take(self.end, false, false);
        }
        if self.next == 0 && self.end == self.buffer.len() {
            self.begun = true;
            return self.take(self.end, true, false);
        }
        None
    }

    fn take(&mut self, to: usize, first: bool, last: bool) -> Option<Piece> {
        let bytes = self.next..to;
        self.next = to;
        self.parsed = self.parsed.max(to);
        (!bytes.is_empty()).then_some(Piece { bytes, first, last })
    }
}
