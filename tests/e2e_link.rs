//! The link in front of a real server: ordinary traffic passes unharmed, and each action is seen
//! by a real client.

use std::io;
use std::process::Stdio;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use oversold::link::{
    Action, Answer, Chance, Command, Filter, Guard, Link, Refusal, Rule, Ways, Window,
};
use oversold::topology::{self, Servers};
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longer than anything here takes.
const FOREVER: Duration = Duration::from_secs(30);
/// Long enough to see that nothing comes.
const A_WHILE: Duration = Duration::from_millis(150);

struct Linked {
    servers: Servers,
    link: Link,
}

async fn linked() -> Linked {
    let binary = topology::find(None).expect("a redis-server on PATH");
    let servers = Servers::start(&binary, 1, 400).await.expect("a server");
    let link = Link::start(servers.addresses()[0]).await;
    let link = link.expect("a link");
    Linked { servers, link }
}

impl Linked {
    /// A client through the link.
    async fn client(&self) -> MultiplexedConnection {
        client_at(&self.link.address().to_string()).await
    }

    /// A client past the link.
    async fn direct(&self) -> MultiplexedConnection {
        client_at(&self.servers.addresses()[0].to_string()).await
    }

    /// A socket through the link.
    async fn socket(&self) -> TcpStream {
        let socket = TcpStream::connect(self.link.address()).await;
        socket.expect("a connection")
    }

    /// Does this to every request with this command.
    fn to(&self, command: &str, action: Action) -> Guard {
        let filter = Filter::command(command);
        self.link.add(Rule::new(action).about(filter))
    }
}

async fn client_at(address: &str) -> MultiplexedConnection {
    let client = redis::Client::open(format!("redis://{address}")).expect("an address");
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(FOREVER))
        .set_response_timeout(Some(FOREVER));
    let conn = client.get_multiplexed_async_connection_with_config(&config);
    conn.await.expect("a connection")
}

/// Writes to a socket and reads until this much has come back.
async fn exchange(socket: &mut TcpStream, request: &[u8], length: usize) -> Vec<u8> {
    socket.write_all(request).await.expect("it is sent");
    let mut answer = vec![0; length];
    let read = tokio::time::timeout(FOREVER, socket.read_exact(&mut answer)).await;
    read.expect("an answer in time").expect("an answer");
    answer
}

/// Whether nothing comes for a while.
async fn is_silent(socket: &mut TcpStream) -> bool {
    let mut byte = [0];
    let read = tokio::time::timeout(A_WHILE, socket.read(&mut byte));
    read.await.is_err()
}

/// How the connection ends: None in order, or the error.
async fn end_of(socket: &mut TcpStream) -> Option<io::ErrorKind> {
    let mut rest = Vec::new();
    let read = tokio::time::timeout(FOREVER, socket.read_to_end(&mut rest)).await;
    read.expect("an end in time").err().map(|why| why.kind())
}

async fn get(conn: &mut MultiplexedConnection, key: &str) -> Option<String> {
    let value = redis::cmd("GET").arg(key).query_async(conn).await;
    value.expect("an answer")
}

// Ordinary traffic.

#[tokio::test(flavor = "multi_thread")]
async fn a_clients_ordinary_traffic_passes_unharmed() {
    let linked = linked().await;
    let mut conn = linked.client().await;
    // Pipelines of 100, on one connection from several tasks at once.
    let tasks = (0..8).map(|task| {
        let mut conn = conn.clone();
        async move {
            for round in 0..5 {
                let mut pipe = redis::pipe();
                for number in 0..100 {
                    pipe.cmd("SET")
                        .arg(format!("{task}:{number}"))
                        .arg(round)
                        .ignore();
                    pipe.cmd("GET").arg(format!("{task}:{number}"));
                }
                let read: Vec<u32> = pipe.query_async(&mut conn).await.expect("answers");
                assert_eq!(read, vec![round; 100]);
            }
        }
    });
    futures_util::future::join_all(tasks).await;
    // A transaction, and a script whole and by its hash.
    let mut pipe = redis::pipe();
    pipe.atomic()
        .cmd("SET")
        .arg("a")
        .arg(1)
        .ignore()
        .cmd("INCR")
        .arg("a");
    let transaction: (i64,) = pipe.query_async(&mut conn).await.expect("a transaction");
    assert_eq!(transaction, (2,));
    let script = redis::Script::new("return {1, {'a', {2}}, redis.call('get', KEYS[1])}");
    for _ in 0..2 {
        let invocation = script.key("a");
        let answer: (i64, (String, (i64,)), String) =
            invocation.invoke_async(&mut conn).await.expect("an answer");
        assert_eq!(answer, (1, ("a".to_owned(), (2,)), "2".to_owned()));
    }
    // An error is the request's own.
    let wrong: Result<i64, _> = redis::cmd("LPUSH")
        .arg("a")
        .arg(1)
        .query_async(&mut conn)
        .await;
    assert!(
        wrong
            .expect_err("a string is no list")
            .to_string()
            .contains("WRONGTYPE")
    );
    assert_eq!(get(&mut conn, "a").await.as_deref(), Some("2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn large_values_pass_byte_by_byte_also_beside_a_rule() {
    let linked = linked().await;
    let mut conn = linked.client().await;
    let value: Vec<u8> = (0..(1 << 20))
        .map(|at: u32| (at * 31 % 251) as u8)
        .collect();
    let mut rules = Vec::new();
    for _ in 0..2 {
        let mut pipe = redis::pipe();
        for number in 0..8 {
            pipe.cmd("SET").arg(number).arg(&value).ignore();
            pipe.cmd("GET").arg(number);
        }
        let read: Vec<Vec<u8>> = pipe.query_async(&mut conn).await.expect("answers");
        assert!(read.iter().all(|read| *read == value), "unchanged");
        rules.push(linked.to("GET", Action::Delay(Duration::from_millis(1))));
    }
    assert_eq!(rules[0].hits(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_nothing_while_it_writes_is_served() {
    let linked = linked().await;
    let mut direct = linked.direct().await;
    let value = vec![b'x'; 100_000];
    let set: Result<(), _> = redis::cmd("SET")
        .arg("a")
        .arg(&value)
        .query_async(&mut direct)
        .await;
    set.expect("it is set");
    let mut socket = linked.socket().await;
    // 100 MB of answers, more than all buffers on the way; then 2 MB of requests.
    let request = [b"GET a\r\n".repeat(1000), b"PING\r\n".repeat(300_000)].concat();
    let written = tokio::time::timeout(FOREVER, socket.write_all(&request)).await;
    written
        .expect("the requests are taken")
        .expect("they are sent");
    let answer = 1000 * (value.len() + "$100000\r\n\r\n".len()) + 300_000 * "+PONG\r\n".len();
    let mut left = answer;
    let mut buffer = vec![0; 1 << 20];
    while left > 0 {
        let read = tokio::time::timeout(FOREVER, socket.read(&mut buffer)).await;
        left -= read.expect("more in time").expect("more");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocking_pop_waits_and_a_subscriber_hears() {
    let linked = linked().await;
    let client = redis::Client::open(format!("redis://{}", linked.link.address()));
    let client = client.expect("an address");
    let mut pubsub = client.get_async_pubsub().await.expect("a connection");
    pubsub.subscribe(&["one", "two"]).await.expect("subscribed");
    let (mut popper, mut conn) = (linked.client().await, linked.client().await);
    let popping = tokio::spawn(async move {
        let mut pop = redis::cmd("BLPOP");
        let popped = pop.arg("list").arg(0).query_async(&mut popper).await;
        let popped: (String, String) = popped.expect("an element");
        popped.1
    });
    tokio::time::sleep(A_WHILE).await;
    assert!(!popping.is_finished(), "there is nothing to pop");
    let pushed: i64 = redis::cmd("RPUSH")
        .arg("list")
        .arg("element")
        .query_async(&mut conn)
        .await
        .expect("pushed");
    assert_eq!(
        (pushed, popping.await.expect("it pops").as_str()),
        (1, "element")
    );
    let heard: i64 = redis::cmd("PUBLISH")
        .arg("two")
        .arg("news")
        .query_async(&mut conn)
        .await
        .expect("published");
    assert_eq!(heard, 1);
    let message = pubsub.on_message().next().await.expect("a message");
    let payload: String = message.get_payload().expect("text");
    assert_eq!(
        (message.get_channel_name(), payload.as_str()),
        ("two", "news")
    );
    pubsub.unsubscribe("one").await.expect("unsubscribed");
}

#[tokio::test(flavor = "multi_thread")]
async fn inline_commands_and_the_third_protocol_pass() {
    let linked = linked().await;
    let mut socket = linked.socket().await;
    assert_eq!(
        exchange(&mut socket, b"\r\nPING\r\n", 7).await,
        b"+PONG\r\n"
    );
    let greeting = exchange(
        &mut socket,
        b"HELLO 3\r\nCLIENT TRACKING on\r\nGET a\r\n",
        4,
    )
    .await;
    assert_eq!(greeting[0], b'%');
    let mut direct = linked.direct().await;
    let rule = linked.to("ECHO", Action::Swallow);
    tokio::time::sleep(A_WHILE).await;
    let set: Result<(), _> = redis::cmd("SET")
        .arg("a")
        .arg(1)
        .query_async(&mut direct)
        .await;
    set.expect("it is set");
    socket
        .write_all(b"PING kept\r\nECHO lost\r\n")
        .await
        .expect("sent");
    // The push is no answer: what is swallowed is the echo.
    let mut heard = Vec::new();
    while !heard.ends_with(b"$4\r\nkept\r\n") {
        heard.extend(exchange(&mut socket, b"", 1).await);
    }
    let heard = String::from_utf8_lossy(&heard);
    assert!(heard.contains(">2\r\n$10\r\ninvalidate"), "{heard}");
    assert!(is_silent(&mut socket).await);
    assert_eq!(rule.hits(), 1);
}

#[allow(clippy::print_stdout)] // The rates are there to be read, and judge nothing.
#[tokio::test(flavor = "multi_thread")]
async fn another_client_passes_its_whole_benchmark() {
    let linked = linked().await;
    let rate = async |port: u16, pipeline: &str| {
        let mut benchmark = tokio::process::Command::new("redis-benchmark");
        benchmark.args([
            "-p",
            &port.to_string(),
            "-c",
            "200",
            "-n",
            "20000",
            "-P",
            pipeline,
        ]);
        benchmark.args([
            "-q",
            "--csv",
            "-t",
            "ping,set,get,incr,lpush,mset,lrange_100",
        ]);
        benchmark
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let ended = tokio::time::timeout(2 * FOREVER, benchmark.output()).await;
        let output = ended.expect("it ends in time").expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}");
        let rates = text.lines().filter_map(|line| {
            let mut fields = line.split(',').map(|field| field.trim_matches('"'));
            Some((
                fields.next()?.to_owned(),
                fields.next()?.parse::<f64>().ok()?,
            ))
        });
        rates.collect::<Vec<_>>()
    };
    let (server, link) = (
        linked.servers.addresses()[0].port(),
        linked.link.address().port(),
    );
    for pipeline in ["1", "16"] {
        let (direct, through) = (rate(server, pipeline).await, rate(link, pipeline).await);
        assert_eq!(direct.len(), through.len());
        for ((name, direct), (_, through)) in direct.iter().zip(&through) {
            let share = through / direct;
            println!("-P {pipeline} {name}: {direct:.0}/s direct, {through:.0}/s ({share:.2})");
        }
    }
}

// Each action.

#[tokio::test(flavor = "multi_thread")]
async fn a_delay_and_a_hold_keep_the_order() {
    let linked = linked().await;
    let mut socket = linked.socket().await;
    let delay = linked.to("SET", Action::Delay(A_WHILE));
    let began = Instant::now();
    let answer = exchange(&mut socket, b"PING\r\nSET a 1\r\nGET a\r\n", 19).await;
    assert_eq!(answer, b"+PONG\r\n+OK\r\n$1\r\n1\r\n");
    assert!(began.elapsed() >= A_WHILE);
    assert_eq!(delay.hits(), 1);
    drop(delay);
    let hold = linked.to("SET", Action::Hold);
    assert_eq!(
        exchange(&mut socket, b"GET a\r\nSET a 2\r\nGET a\r\n", 7).await,
        b"$1\r\n1\r\n"
    );
    assert!(is_silent(&mut socket).await);
    assert_eq!(
        get(&mut linked.direct().await, "a").await.as_deref(),
        Some("1")
    );
    drop(hold);
    assert_eq!(exchange(&mut socket, b"", 12).await, b"+OK\r\n$1\r\n2\r\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_request_is_not_applied_and_a_swallowed_answer_is() {
    let linked = linked().await;
    let mut direct = linked.direct().await;
    for (action, applied) in [(Action::Drop, None), (Action::Swallow, Some("1"))] {
        let mut socket = linked.socket().await;
        let rule = linked.to("SET", action);
        let answer = exchange(&mut socket, b"PING\r\nSET a 1\r\nINCR b\r\n", 7).await;
        assert_eq!(answer, b"+PONG\r\n", "what came before has its answer");
        assert!(is_silent(&mut socket).await);
        assert_eq!(get(&mut direct, "a").await.as_deref(), applied);
        assert_eq!(
            get(&mut direct, "b").await.as_deref(),
            applied,
            "nor what follows"
        );
        assert_eq!(rule.hits(), 1);
        drop(rule);
        // A stream loses nothing from its middle: later answers would be taken for this one.
        socket.write_all(b"PING\r\n").await.expect("both ends stay");
        assert!(is_silent(&mut socket).await);
        let mut another = linked.socket().await;
        assert_eq!(exchange(&mut another, b"PING\r\n", 7).await, b"+PONG\r\n");
    }
    // Also where request and answer are larger than what the link holds.
    let value = "x".repeat(300_000);
    let _drop = linked.to("SET", Action::Drop);
    let _swallow = linked.to("ECHO", Action::Swallow);
    let set = format!("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$300000\r\n{value}\r\n");
    let echo = format!("*2\r\n$4\r\nECHO\r\n$300000\r\n{value}\r\n");
    for request in [set, echo] {
        let mut socket = linked.socket().await;
        let request = format!("PING\r\n{request}PING\r\n");
        let answer = exchange(&mut socket, request.as_bytes(), 7).await;
        assert_eq!(answer, b"+PONG\r\n");
        assert!(is_silent(&mut socket).await);
    }
    assert_eq!(get(&mut direct, "a").await.as_deref(), Some("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_comes_before_or_after_the_request_is_applied() {
    let linked = linked().await;
    let mut direct = linked.direct().await;
    for (action, applied) in [(Action::ResetBefore, None), (Action::ResetAfter, Some("1"))] {
        let rule = linked.to("SET", action);
        let mut socket = linked.socket().await;
        socket.write_all(b"SET a 1\r\n").await.expect("sent");
        assert_eq!(
            end_of(&mut socket).await,
            Some(io::ErrorKind::ConnectionReset)
        );
        assert_eq!(get(&mut direct, "a").await.as_deref(), applied);
        assert_eq!(rule.hits(), 1);
    }
    let _close = linked.to("SET", Action::Close);
    let mut socket = linked.socket().await;
    socket.write_all(b"SET a 2\r\n").await.expect("sent");
    assert_eq!(end_of(&mut socket).await, None, "closed in order");
    assert_eq!(get(&mut direct, "a").await.as_deref(), Some("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_comes_in_the_place_of_the_answer() {
    let linked = linked().await;
    let refusals = [
        (Refusal::ReadOnly, "READONLY"),
        (Refusal::Loading, "LOADING"),
        (Refusal::OutOfMemory, "OOM"),
        (Refusal::NoScript, "NOSCRIPT"),
        (Refusal::ClusterDown, "CLUSTERDOWN"),
        (Refusal::Misconf, "MISCONF"),
    ];
    let mut conn = linked.client().await;
    for (refusal, word) in refusals {
        let rule = linked.to("SET", Action::Answer(refusal));
        let mut pipe = redis::pipe();
        pipe.ignore_errors();
        pipe.cmd("GET")
            .arg("a")
            .cmd("SET")
            .arg("a")
            .arg(1)
            .cmd("GET")
            .arg("a");
        let answers: Vec<redis::RedisResult<Option<String>>> =
            pipe.query_async(&mut conn).await.expect("answers");
        let [Ok(None), Err(error), Ok(None)] = answers.as_slice() else {
            panic!("{word}: {answers:?}");
        };
        assert_eq!(error.code(), Some(word), "{error}");
        assert_eq!(rule.hits(), 1);
    }
    // A script is known by its hash and by its text.
    let script = redis::Script::new("return redis.call('incr', KEYS[1])");
    let command = Command::Script {
        body: "return redis.call('incr', KEYS[1])".to_owned(),
        sha: script.get_hash().to_owned(),
    };
    let filter = Filter {
        command: Some(command),
        key: Some("b".to_owned()),
        ..Filter::default()
    };
    let rule = Rule::new(Action::Answer(Refusal::NoScript)).about(filter);
    let rule = linked.link.add(rule);
    for key in ["a", "b"] {
        let answer: Result<i64, _> = script.key(key).invoke_async(&mut conn).await;
        assert_eq!(answer.is_ok(), key == "a", "{answer:?}");
    }
    assert_eq!(rule.hits(), 2, "by its hash, and then whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_passes_a_black_hole_and_both_ends_stay() {
    let linked = linked().await;
    let mut direct = linked.direct().await;
    let mut socket = linked.socket().await;
    for (ways, applied) in [
        (Ways::Both, false),
        (Ways::ToServer, false),
        (Ways::ToClient, true),
    ] {
        let hole = linked.link.add(Rule::new(Action::BlackHole(ways)));
        socket.write_all(b"INCR a\r\n").await.expect("sent");
        assert!(is_silent(&mut socket).await, "{ways:?}");
        assert_eq!(get(&mut direct, "a").await.is_some(), applied, "{ways:?}");
        assert!(hole.hits() > 0);
        drop(hole);
        assert_eq!(
            exchange(&mut socket, b"DEL a\r\n", 8).await,
            b":1\r\n:1\r\n"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_black_hole_keeps_is_lost_with_its_link() {
    let linked = linked().await;
    let mut direct = linked.direct().await;
    for round in 0..50 {
        let link = Link::start(linked.link.server()).await.expect("a link");
        let mut socket = TcpStream::connect(link.address())
            .await
            .expect("a connection");
        assert_eq!(exchange(&mut socket, b"PING\r\n", 7).await, b"+PONG\r\n");
        let hole = link.add(Rule::new(Action::BlackHole(Ways::Both)));
        socket.write_all(b"INCR a\r\n").await.expect("sent");
        while hole.hits() == 0 {
            tokio::task::yield_now().await;
        }
        link.close();
        drop(hole);
        end_of(&mut socket).await;
        assert_eq!(get(&mut direct, "a").await, None, "in round {round}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_refused_or_cut() {
    let linked = linked().await;
    let mut old = linked.socket().await;
    assert_eq!(exchange(&mut old, b"PING\r\n", 7).await, b"+PONG\r\n");
    let refuse = linked.link.add(Rule::new(Action::Refuse));
    let new = match TcpStream::connect(linked.link.address()).await {
        Ok(mut new) => end_of(&mut new).await,
        // The reset may come before the client hears that it is connected.
        Err(why) => Some(why.kind()),
    };
    assert_eq!(new, Some(io::ErrorKind::ConnectionReset));
    assert_eq!(exchange(&mut old, b"PING\r\n", 7).await, b"+PONG\r\n");
    assert_eq!(refuse.hits(), 1);
    drop(refuse);
    // Only the connections of one instance are cut, by the name that they give themselves.
    let mut theirs = linked.socket().await;
    let named = b"CLIENT SETNAME oversold-3-14\r\n";
    assert_eq!(exchange(&mut theirs, named, 5).await, b"+OK\r\n");
    let filter = Filter {
        instance: Some(3),
        ..Filter::default()
    };
    let cut = linked.link.add(Rule::new(Action::Cut).about(filter));
    assert_eq!(
        end_of(&mut theirs).await,
        Some(io::ErrorKind::ConnectionReset)
    );
    assert_eq!(exchange(&mut old, b"PING\r\n", 7).await, b"+PONG\r\n");
    assert_eq!(cut.hits(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn bandwidth_is_limited() {
    let linked = linked().await;
    let mut socket = linked.socket().await;
    let rule = linked.link.add(Rule::new(Action::Bandwidth(10_000)));
    let began = Instant::now();
    let request = format!("*2\r\n$4\r\nECHO\r\n$4000\r\n{}\r\n", "x".repeat(4000));
    exchange(&mut socket, request.as_bytes(), 4000).await;
    // 4000 bytes each way, of which the first slice comes back while the last is sent.
    assert!(
        began.elapsed() >= Duration::from_millis(600),
        "{:?}",
        began.elapsed()
    );
    assert!(rule.hits() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_rule_that_fits_acts_on_the_nth_match_in_its_window() {
    let linked = linked().await;
    let mut socket = linked.socket().await;
    let nth = Filter {
        nth: Some(2),
        key: Some("a".to_owned()),
        ..Filter::command("GET")
    };
    let first = linked
        .link
        .add(Rule::new(Action::Answer(Refusal::Loading)).about(nth));
    let rest = linked.to("GET", Action::Answer(Refusal::OutOfMemory));
    let mut later = Rule::new(Action::Answer(Refusal::Misconf)).about(Filter::command("PING"));
    later.window = Window {
        after: Duration::from_secs(3600),
        long: None,
    };
    let later = linked.link.add(later);
    let mut codes = Vec::new();
    for request in ["GET a", "GET b", "GET a", "GET a", "PING"] {
        socket
            .write_all(format!("{request}\r\n").as_bytes())
            .await
            .expect("sent");
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.extend(exchange(&mut socket, b"", 1).await);
        }
        let line = String::from_utf8_lossy(&line).into_owned();
        codes.push(
            line.split([' ', '\r'])
                .next()
                .unwrap_or_default()
                .to_owned(),
        );
    }
    assert_eq!(codes, ["-OOM", "-OOM", "-LOADING", "-OOM", "+PONG"]);
    assert_eq!((first.hits(), rest.hits(), later.hits()), (1, 3, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn chance_is_drawn_from_a_named_stream() {
    let linked = linked().await;
    let mut socket = linked.socket().await;
    let mut draws = Vec::new();
    for stream in ["one", "one", "two"] {
        let chance = Chance {
            of: 0.5,
            seed: 7,
            stream: stream.to_owned(),
        };
        let filter = Filter {
            chance: Some(chance),
            ..Filter::command("GET")
        };
        let action = Action::Answer(Refusal::Loading);
        let _rule = linked.link.add(Rule::new(action).about(filter));
        let mut request = Vec::new();
        for number in 0..40 {
            let name = format!("{number:02}");
            request.extend(format!("SET a {name}\r\nGET a\r\n").bytes());
        }
        socket
            .write_all(&[request, b"ECHO end\r\n".to_vec()].concat())
            .await
            .expect("sent");
        let mut heard = Vec::new();
        while !heard.ends_with(b"end\r\n") {
            heard.extend(exchange(&mut socket, b"", 1).await);
        }
        draws.push(String::from_utf8_lossy(&heard).into_owned());
    }
    assert_eq!(draws[0], draws[1]);
    assert_ne!(draws[0], draws[2]);
}

#[tokio::test]
async fn an_answer_may_decide_whether_it_is_lost() {
    let linked = linked().await;
    let (mut client, mut direct) = (linked.client().await, linked.direct().await);
    let set = |key: &str| {
        let mut set = redis::cmd("SET");
        set.arg(key).arg("mine").arg("NX");
        set
    };
    let _: () = redis::cmd("SET")
        .arg("taken")
        .arg("theirs")
        .query_async(&mut direct)
        .await
        .expect("done");
    let granted = Filter {
        answer: Some(Answer::Word("OK")),
        nth: Some(1),
        ..Filter::command("SET")
    };
    let rule = linked
        .link
        .add(Rule::new(Action::ResetAfter).about(granted));
    let refused: Option<String> = set("taken")
        .query_async(&mut client)
        .await
        .expect("an answer");
    assert_eq!((refused, rule.hits()), (None, 0));
    let lost = set("free").query_async::<Option<String>>(&mut client).await;
    assert!(lost.is_err(), "{lost:?}");
    assert_eq!(rule.hits(), 1);
    let kept: String = redis::cmd("GET")
        .arg("free")
        .query_async(&mut direct)
        .await
        .expect("done");
    assert_eq!(kept, "mine", "it was applied");
    // The first one only.
    let mut client = linked.client().await;
    let second: Option<String> = set("other")
        .query_async(&mut client)
        .await
        .expect("an answer");
    assert_eq!((second.as_deref(), rule.hits()), (Some("OK"), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_may_be_held_until_its_rule_is_gone() {
    let linked = linked().await;
    let mut socket = linked.socket().await;
    let granted = Filter {
        answer: Some(Answer::Word("OK")),
        ..Filter::command("SET")
    };
    let hold = Rule::new(Action::HoldAnswer).about(granted);
    let rule = linked.link.add(hold);
    let requests = b"PING\r\nSET a 1 NX\r\nSET a 2 NX\r\nGET a\r\n";
    assert_eq!(exchange(&mut socket, requests, 7).await, b"+PONG\r\n");
    assert!(is_silent(&mut socket).await);
    let applied = get(&mut linked.direct().await, "a").await;
    assert_eq!((applied.as_deref(), rule.hits()), (Some("1"), 1));
    drop(rule);
    let answers = exchange(&mut socket, b"", 17).await;
    assert_eq!(answers, b"+OK\r\n$-1\r\n$1\r\n1\r\n");
    // Any answer, where none is named.
    let rule = linked.to("GET", Action::HoldAnswer);
    socket.write_all(b"GET a\r\n").await.expect("it is sent");
    assert!(is_silent(&mut socket).await);
    assert_eq!(rule.hits(), 1);
    drop(rule);
    assert_eq!(exchange(&mut socket, b"", 7).await, b"$1\r\n1\r\n");
}

#[tokio::test]
async fn a_rule_may_be_about_one_worker() {
    let linked = linked().await;
    let of_worker = Filter {
        worker: Some(3),
        ..Filter::command("GET")
    };
    let rule = linked
        .link
        .add(Rule::new(Action::ResetBefore).about(of_worker));
    for (name, meant) in [
        ("oversold-1-2", false),
        ("oversold-1-3", true),
        ("other", false),
    ] {
        let mut client = linked.client().await;
        let mut set = redis::cmd("CLIENT");
        set.arg("SETNAME").arg(name);
        set.query_async::<()>(&mut client).await.expect("done");
        let got = redis::cmd("GET")
            .arg("a")
            .query_async::<Option<String>>(&mut client)
            .await;
        assert_eq!(got.is_err(), meant, "{name}: {got:?}");
    }
    assert_eq!(rule.hits(), 1);
}
