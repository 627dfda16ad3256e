//! The endpoint of `--metrics`: one short answer a connection, by hand. A library for HTTP would be
//! the largest part of a program that answers one question on the machine's own address.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::session::Failure;
use crate::report::openmetrics::CONTENT_TYPE;

/// How long a client may take for its question, and for reading the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a question may be.
const LONGEST: usize = 8 * 1024;
/// How long to wait after a connection could not be taken (no files left, say).
const PAUSE: Duration = Duration::from_millis(100);

/// Listens, before anything is run.
pub(super) async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    let listening = TcpListener::bind(address).await;
    listening.map_err(|why| Failure::environment(format!("--metrics {address}: {why}")))
}

/// Answers whoever asks, one after the other, for ever.
pub(super) async fn serve(listener: &TcpListener, look: impl Fn() -> String) {
    loop {
        match listener.accept().await {
            // Who asks wrongly or goes away loses his own answer only.
            Ok((asking, _)) => {
                let _ = tokio::time::timeout(PATIENCE, answer(asking, &look)).await;
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn answer(mut asking: TcpStream, look: &impl Fn() -> String) -> std::io::Result<()> {
    let question = question(&mut asking).await?;
    let mut words = question.split_whitespace();
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let path = path.split('?').next().unwrap_or("");
    let (status, kind, body) = match (method, path) {
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

/// The question's first line, once all of its head has come: who closes before that loses it.
async fn question(asking: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while head.len() < LONGEST && !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match asking.read(&mut part).await? {
            0 => break,
            n => head.extend_from_slice(&part[..n]),
        }
    }
    let text = String::from_utf8_lossy(&head);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
