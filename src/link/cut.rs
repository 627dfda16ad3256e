//! How a link cuts one way of a connection into messages, for those who measure or fuzz it: the same
//! code that relays, without the sockets.

use super::frame::Side;
use super::lane::Lane;
use super::rule::Ways;

/// One way of a connection, cut.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// What would be forwarded.
    pub forwarded: Vec<u8>,
    /// The lengths of the messages that ended.
    pub messages: Vec<usize>,
    /// How many of the bytes that were forwarded belong to no message that ended.
    pub rest: usize,
}

/// Cuts bytes as they arrive, in those chunks, until the connection ends.
pub fn cut<'a>(way: Ways, chunks: impl IntoIterator<Item = &'a [u8]>) -> Cut {
    let mut lane = Lane::new(match way {
        Ways::ToServer => Side::Requests,
        _ => Side::Replies,
    });
    let mut cut = Cut::default();
    for mut chunk in chunks {
        while !chunk.is_empty() {
            let room = lane.room();
            let taken = chunk.len().min(room.len());
            room[..taken].copy_from_slice(&chunk[..taken]);
            lane.filled(taken);
            chunk = &chunk[taken..];
            cut.take(&mut lane, false);
        }
    }
    let _ = lane.room();
    cut.take(&mut lane, true);
    cut
}

impl Cut {
    fn take(&mut self, lane: &mut Lane, last_call: bool) {
        while let Some(piece) = lane.piece(last_call) {
            self.forwarded.extend_from_slice(lane.bytes(&piece.bytes));
            self.rest += piece.bytes.len();
            if piece.last {
                self.messages.push(std::mem::take(&mut self.rest));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_however_it_arrives() {
        let long = format!("*2\r\n$3\r\nGET\r\n$200000\r\n{}\r\n", "x".repeat(200_000));
        let bytes = [long.as_bytes(), b"PING\r\n*1\r\n$4\r\nPI"].concat();
        let whole = cut(Ways::ToServer, [&bytes[..]]);
        assert_eq!(whole.messages, [long.len(), 6]);
        assert_eq!((whole.rest, &whole.forwarded), (10, &bytes));
        assert_eq!(cut(Ways::ToServer, bytes.chunks(7)), whole);
    }
}
