//! The endpoint of `--metrics`: one short answer a connection, by hand. A library for HTTP would be
//! the largest part of a program that answers one question on the machine's own address.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::session::Failure;
use crate::report::openmetrics::CONTENT_TYPE;

/// How long a client may take for its question, and for reading the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How many clients are answered at a time.
const AT_A_TIME: usize = 16;
/// How long a question may be.
const LONGEST: usize = 8 * 1024;
/// How long to wait after a connection could not be taken (no files left, say).
const PAUSE: Duration = Duration::from_millis(100);

/// Listens, before anything is run.
pub(super) async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    let listening = TcpListener::bind(address).await;
    listening.map_err(|why| Failure::environment(format!("--metrics {address}: {why}")))
}

/// Answers whoever asks, for ever. Who is silent holds up nobody else.
pub(super) async fn serve(listener: &TcpListener, look: impl Fn() -> String) {
    let mut answering = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(_) = answering.next() => {}
            taken = listener.accept(), if answering.len() < AT_A_TIME => match taken {
                // Who asks wrongly or goes away loses his own answer only.
                Ok((asking, _)) => {
                    answering.push(tokio::time::timeout(PATIENCE, answer(asking, &look)));
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }
}

async fn answer(mut asking: TcpStream, look: &impl Fn() -> String) -> std::io::Result<()> {
    let question = question(&mut asking).await?;
    let mut words = question
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace();
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let path = path.split('?').next().unwrap_or("");
    let host = question.lines().find_map(host_of);
    let (status, kind, body) = match (method, path) {
        _ if !host.is_none_or(is_this_machine) => (
            "403 Forbidden",
            "text/plain",
            "ask for 127.0.0.1, [::1] or localhost\n".to_owned(),
        ),
        ("GET" | "HEAD", "/metrics" | "/") => ("200 OK", CONTENT_TYPE, look()),
        ("GET" | "HEAD", _) => ("404 Not Found", "text/plain", "see /metrics\n".to_owned()),
        _ => (
            "405 Method Not Allowed",
            "text/plain",
            "GET /metrics\n".to_owned(),
        ),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    asking.write_all(head.as_bytes()).await?;
    if method != "HEAD" {
        asking.write_all(body.as_bytes()).await?;
    }
    asking.shutdown().await
}

/// The host that a header names, without its port.
fn host_of(header: &str) -> Option<&str> {
    let (name, host) = header.split_once(':')?;
    let host = host.trim();
    let named = host.rsplit_once(':').filter(|(_, port)| {
        let mut digits = port.chars();
        digits.all(|c| c.is_ascii_digit())
    });
    (name.eq_ignore_ascii_case("host")).then_some(named.map_or(host, |(host, _)| host))
}

/// Whether a host is this machine by its own name or address. A page in a browser may have its own name
/// lead here (DNS rebinding) and would then read what is answered.
fn is_this_machine(host: &str) -> bool {
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let address = bare.unwrap_or(host).parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// The question's head, once all of it has come: who closes before that loses it.
async fn question(asking: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while head.len() < LONGEST && !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match asking.read(&mut part).await? {
            0 => break,
            n => head.extend_from_slice(&part[..n]),
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_asks_this_machine_by_its_own_name_is_answered() {
        for own in [
            "localhost",
            "LOCALHOST:80",
            "127.0.0.1:9464",
            "[::1]:9464",
            "[::1]",
        ] {
            let header = format!("Host: {own}");
            assert!(is_this_machine(host_of(&header).expect("a host")), "{own}");
        }
        for foreign in [
            "evil.example:9464",
            "10.0.0.1",
            "localhost.evil.example",
            "[::2]:80",
            "",
        ] {
            let header = format!("host:{foreign}");
            assert!(
                !is_this_machine(host_of(&header).expect("a host")),
                "{foreign}"
            );
        }
        assert_eq!(host_of("Accept: x"), None);
    }
}
