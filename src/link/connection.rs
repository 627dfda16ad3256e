//! One connection through a link: requests one way, answers the other, each at its own pace. What
//! is held back is not read, so that who sends it has to wait.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::Notify;

use super::frame::{Side, Words};
use super::lane::{Lane, Piece};
use super::rule::{Action, Ways};
use super::rules::{Active, Rules};
use super::talk::{Fate, Talk};
use super::watch::Undecided;

/// How many rows of answers may be awaited; nothing more is asked before some have come.
const ROWS: usize = 8 * 1024;
/// How many times a second a limited connection may send.
const SLICES: u64 = 20;

/// How a connection ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The client has nothing more to say, and may still hear.
    Half,
    /// In order.
    Closed,
    /// At once, and what was on its way is lost.
    Reset,
}

/// Relays until either end, or a rule, ends it.
pub(super) async fn relay(mut client: TcpStream, mut server: TcpStream, rules: &Rules) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let relay = Relay {
        rules,
        talk: Mutex::new(Talk::new()),
        undecided: Mutex::default(),
        held: Mutex::default(),
        ours: Notify::new(),
        answered: Notify::new(),
    };
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let requests = async {
        match relay.requests(from_client, to_server).await {
            End::Half => std::future::pending().await,
            end => end,
        }
    };
    let end = tokio::select! {
        end = requests => end,
        end = relay.replies(from_server, to_client) => end,
        () = relay.cut() => End::Reset,
    };
    if end == End::Reset {
        let _ = (client.set_zero_linger(), server.set_zero_linger());
    }
}

struct Relay<'a> {
    rules: &'a Rules,
    // A std mutex and not tokio's: it is held for one message, never across an await.
    talk: Mutex<Talk>,
    /// The answers that are waited for, in their order.
    undecided: Mutex<VecDeque<Undecided>>,
    /// The rule that holds the answer which has come.
    held: Mutex<Option<Arc<Active>>>,
    /// There may be an answer of the link's own to send.
    ours: Notify,
    /// An answer has come.
    answered: Notify,
}

/// The end of one way, and what goes out there next.
struct Out<'a> {
    to: WriteHalf<'a>,
    /// What is due: bytes of the lane that pass and were not sent yet.
    due: Range<usize>,
    /// Whether the message in progress passes.
    passes: bool,
    /// Nothing passes any more.
    lost: bool,
}

impl<'a> Out<'a> {
    fn new(to: WriteHalf<'a>) -> Out<'a> {
        Out {
            to,
            due: 0..0,
            passes: true,
            lost: false,
        }
    }
}

/// What a request has to wait for, and what becomes of it then.
enum Next {
    Pass,
    PassAfter(Duration),
    PassWithout(Arc<Active>),
    Skip,
    SkipAll,
    End(End),
}

impl Relay<'_> {
    fn talk(&self) -> MutexGuard<'_, Talk> {
        self.talk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn undecided(&self) -> MutexGuard<'_, VecDeque<Undecided>> {
        self.undecided
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn requests(&self, mut from: ReadHalf<'_>, to: WriteHalf<'_>) -> End {
        let (mut lane, mut out) = (Lane::new(Side::Requests), Out::new(to));
        loop {
            self.room().await;
            let read = from.read(lane.room()).await;
            let end = match self.taken(read, &mut lane, End::Half).await {
                Some(End::Reset) => return End::Reset,
                end => end,
            };
            if self.talk().streams {
                lane.lose();
            }
            out.due = lane.due();
            while let Some(piece) = lane.piece(end.is_some()) {
                if piece.first && !out.lost {
                    let next = self.decide(&lane.words(&piece.bytes));
                    if !matches!(next, Next::Pass) && self.send(&mut out, &lane).await {
                        return End::Reset;
                    }
                    match next {
                        Next::End(end) => return end,
                        Next::SkipAll => out.lost = true,
                        next => out.passes = self.wait(next).await,
                    }
                }
                if self.put(&mut out, &lane, &piece).await {
                    return End::Reset;
                }
            }
            if self.send(&mut out, &lane).await {
                return End::Reset;
            }
            if let Some(end) = end {
                let _ = out.to.shutdown().await;
                return end;
            }
        }
    }

    async fn replies(&self, mut from: ReadHalf<'_>, to: WriteHalf<'_>) -> End {
        let (mut lane, mut out) = (Lane::new(Side::Replies), Out::new(to));
        loop {
            if !lane.in_the_middle() && self.send_ours(&mut out, &lane).await {
                return End::Reset;
            }
            let read = tokio::select! {
                read = from.read(lane.room()) => read,
                () = self.ours.notified() => continue,
            };
            let end = match self.taken(read, &mut lane, End::Closed).await {
                Some(End::Reset) => return End::Reset,
                end => end,
            };
            out.due = lane.due();
            while let Some(piece) = lane.piece(end.is_some()) {
                let fate = piece.first.then(|| self.heard(&mut lane, &piece.bytes));
                if fate == Some(Fate::Reset) {
                    let _ = self.send(&mut out, &lane).await;
                    return End::Reset;
                }
                if fate == Some(Fate::Hold) {
                    if self.send(&mut out, &lane).await {
                        return End::Reset;
                    }
                    self.held_back().await;
                }
                out.lost |= fate == Some(Fate::Swallow);
                let gone = self.put(&mut out, &lane, &piece).await
                    || piece.last && self.send_ours(&mut out, &lane).await;
                if gone {
                    return End::Reset;
                }
            }
            if self.send(&mut out, &lane).await {
                return End::Reset;
            }
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// Takes in what was read, when no black hole swallows it any more. Tells the connection's end,
    /// if it was that.
    async fn taken(&self, read: io::Result<usize>, lane: &mut Lane, end: End) -> Option<End> {
        self.pass(lane.way()).await;
        match read {
            Ok(0) => Some(end),
            Ok(length) => {
                lane.filled(length);
                None
            }
            Err(_) => Some(End::Reset),
        }
    }

    /// Waits while too many answers are awaited.
    async fn room(&self) {
        while self.talk().rows() > ROWS {
            self.answered.notified().await;
        }
    }

    /// Waits while a black hole swallows what goes this way.
    async fn pass(&self, way: Ways) {
        let mut counted = false;
        loop {
            if self.rules.closed() {
                // Its end is near: until then it must not pass what a black hole had kept.
                return std::future::pending().await;
            }
            if !self.rules.any() {
                return;
            }
            let mut changes = self.rules.changes();
            let peer = self.talk().peer;
            let Some(hole) = self.rules.black_hole(&peer, way) else {
                return;
            };
            if !std::mem::replace(&mut counted, true) {
                hole.hit();
            }
            let _ = changes.changed().await;
        }
    }

    /// Waits until a rule cuts the connection.
    async fn cut(&self) {
        loop {
            let mut changes = self.rules.changes();
            let peer = self.talk().peer;
            if self.rules.cut(&peer) {
                return;
            }
            let _ = changes.changed().await;
        }
    }

    /// Which rule a request falls under, and what follows from it.
    fn decide(&self, words: &Words<'_>) -> Next {
        let mut talk = self.talk();
        talk.learn(words);
        // An empty line asks nothing.
        let ruled = self.rules.any() && words.count > 0;
        if ruled && self.rules.cut(&talk.peer) {
            return Next::End(End::Reset);
        }
        let rule = ruled.then(|| self.rules.of_request(&talk.peer, words));
        let watch = self.rules.watch();
        let mut awaited = Undecided {
            rule: None,
            fate: Fate::Pass,
            watched: watch.and_then(|watch| watch.sees(&talk.peer, words)),
        };
        let Some(rule) = rule.flatten() else {
            self.sent(&mut talk, words, awaited);
            return Next::Pass;
        };
        let (fate, next) = match rule.action() {
            Action::Drop => return Next::SkipAll,
            Action::ResetBefore => return Next::End(End::Reset),
            Action::Close => return Next::End(End::Closed),
            Action::Answer(refusal) => {
                talk.refused(words, refusal.answer());
                self.ours.notify_one();
                return Next::Skip;
            }
            Action::Delay(by) => (Fate::Pass, Next::PassAfter(*by)),
            Action::Hold => (Fate::Pass, Next::PassWithout(Arc::clone(&rule))),
            _ if rule.waits_for_the_answer() => {
                awaited.rule = Some(Arc::clone(&rule));
                (Fate::Depends, Next::Pass)
            }
            Action::Swallow => (Fate::Swallow, Next::Pass),
            Action::ResetAfter => (Fate::Reset, Next::Pass),
            _ => (Fate::Pass, Next::Pass),
        };
        awaited.fate = fate;
        self.sent(&mut talk, words, awaited);
        next
    }

    /// A request goes to the server; its answer may be waited for.
    fn sent(&self, talk: &mut Talk, words: &Words<'_>, awaited: Undecided) {
        let fate = match awaited.is_any() {
            true => Fate::Depends,
            false => awaited.fate,
        };
        if talk.sent(words, fate) && awaited.is_any() {
            self.undecided().push_back(awaited);
        }
    }

    /// Waits as it was decided. Tells whether the request passes.
    async fn wait(&self, next: Next) -> bool {
        match next {
            Next::Pass => {}
            Next::PassAfter(by) => tokio::time::sleep(by).await,
            Next::PassWithout(rule) => self.without(&rule).await,
            Next::Skip | Next::SkipAll | Next::End(_) => return false,
        }
        true
    }

    /// Waits until a rule is gone.
    async fn without(&self, rule: &Arc<Active>) {
        loop {
            let mut changes = self.rules.changes();
            if !self.rules.in_force(rule) {
                return;
            }
            let _ = changes.changed().await;
        }
    }

    /// Waits while the answer that has come is held.
    async fn held_back(&self) {
        let held = self.held.lock();
        let rule = held.unwrap_or_else(PoisonError::into_inner).take();
        if let Some(rule) = rule {
            self.without(&rule).await;
        }
    }

    fn heard(&self, lane: &mut Lane, bytes: &Range<usize>) -> Fate {
        let mut talk = self.talk();
        let words = lane.words(bytes);
        let mut fate = talk.heard(lane.kind(), &words);
        if fate == Fate::Depends {
            fate = self.settled(lane.kind(), &words);
        }
        self.answered.notify_one();
        if talk.streams {
            lane.lose_after_this();
        }
        fate
    }

    /// What becomes of an answer that is waited for.
    fn settled(&self, kind: u8, words: &Words<'_>) -> Fate {
        let Some(awaited) = self.undecided().pop_front() else {
            return Fate::Pass;
        };
        let rule = awaited.rule.clone();
        let fate = awaited.settle(self.rules, kind, words);
        if fate == Fate::Hold {
            *self.held.lock().unwrap_or_else(PoisonError::into_inner) = rule;
        }
        fate
    }

    /// Has a piece pass with what is due, or not at all. True if the other end is gone.
    async fn put(&self, out: &mut Out<'_>, lane: &Lane, piece: &Piece) -> bool {
        let passes = out.passes && !out.lost;
        out.passes |= piece.last;
        if passes {
            out.due.end = piece.bytes.end;
            return false;
        }
        let gone = self.send(out, lane).await;
        out.due = piece.bytes.end..piece.bytes.end;
        gone
    }

    /// Sends the link's own answers whose turn it is, after what is due. True if the client is
    /// gone.
    async fn send_ours(&self, out: &mut Out<'_>, lane: &Lane) -> bool {
        while !out.lost {
            let Some(answer) = self.talk().ours() else {
                return false;
            };
            self.pass(Ways::ToClient).await;
            let gone = self.send(out, lane).await
                || self
                    .write(&mut out.to, answer.as_bytes(), Ways::ToClient)
                    .await;
            if gone {
                return true;
            }
        }
        false
    }

    /// Sends what is due. True if the other end is gone.
    async fn send(&self, out: &mut Out<'_>, lane: &Lane) -> bool {
        let due = out.due.clone();
        out.due.start = due.end;
        self.write(&mut out.to, lane.bytes(&due), lane.way()).await
    }

    async fn write(&self, to: &mut WriteHalf<'_>, mut bytes: &[u8], way: Ways) -> bool {
        while !bytes.is_empty() {
            let peer = self.rules.any().then(|| self.talk().peer);
            let rate = peer.and_then(|peer| self.rules.bandwidth(&peer));
            let Some(rate) = rate else {
                return to.write_all(bytes).await.is_err();
            };
            let most = (rate / SLICES).max(1);
            let slice = bytes.len().min(most as usize);
            self.pass(way).await;
            if to.write_all(&bytes[..slice]).await.is_err() {
                return true;
            }
            bytes = &bytes[slice..];
            let took = slice as f64 / rate.max(1) as f64;
            tokio::time::sleep(Duration::from_secs_f64(took)).await;
        }
        false
    }
}
