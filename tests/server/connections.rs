//! Connections that stay: several requests in one packet, one in many, with pauses between and within; a log that nobody reads.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Command, Stdio},
    thread::sleep,
    time::Duration,
};

use serde_json::{Value, json};

use super::Server;

fn request(path: &str, body: &str) -> String {
    let method = if body.is_empty() { "GET" } else { "POST" };
    format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// The next answer of a connection: status and body.
fn answer(reader: &mut BufReader<&TcpStream>) -> (u16, Value) {
    let mut line = String::new();
    reader.read_line(&mut line).expect("a status line");
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let (status, mut length) = (status.unwrap_or_else(|| panic!("no status: {line:?}")), 0);
    loop {
        line.clear();
        reader.read_line(&mut line).expect("a header");
        match line.trim_end().to_lowercase().split_once(": ") {
            Some(("content-length", n)) => length = n.parse().expect("a length"),
            Some(_) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    (status, serde_json::from_slice(&body).expect("JSON"))
}

#[test]
fn requests_come_together_and_in_pieces() {
    let server = Server::start(&[]);
    let texts: Vec<String> = (0..40).map(|i| format!("text number {i}")).collect();
    let expected: Vec<Value> = texts
        .iter()
        .map(|text| {
            let tokens = server.post("/tokenize", &json!({ "content": text })).json()["tokens"].clone();
            assert!(!tokens.as_array().expect("tokens").is_empty());
            tokens
        })
        .collect();
    let all: String = texts.iter().map(|t| request("/tokenize", &json!({ "content": t }).to_string())).collect();
    // All in one packet; cut at every so many bytes, a pause behind each piece; the connection is the same throughout.
    let connection = server.connect();
    connection.set_nodelay(true).expect("a socket");
    let (mut writer, mut reader) = (&connection, BufReader::new(&connection));
    for (piece, pause) in [(usize::MAX, 0), (1000, 2), (37, 1), (1, 0), (usize::MAX, 0)] {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for bytes in all.as_bytes().chunks(piece) {
                    writer.write_all(bytes).expect("sent");
                    sleep(Duration::from_millis(pause));
                }
            });
            for (text, tokens) in texts.iter().zip(&expected) {
                let (status, body) = answer(&mut reader);
                assert_eq!((status, &body["tokens"]), (200, tokens), "{text} in pieces of {piece}");
            }
        });
        sleep(Duration::from_millis(50));
    }
    // A body whose length is not told before leaves the connection in order as well.
    let body = json!({ "content": texts[0] }).to_string();
    let chunked = format!(
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    for _ in 0..3 {
        writer.write_all((chunked.clone() + &request("/livez", "")).as_bytes()).expect("sent");
        assert_eq!(answer(&mut reader).1["tokens"], expected[0]);
        assert_eq!(answer(&mut reader).0, 200);
    }
    // What is refused before its body is read to the end leaves no bytes to be taken for a request.
    let large = "x".repeat(9 << 20);
    let _ = writer.write_all(request("/tokenize", &large).as_bytes());
    let mut rest = String::new();
    let _ = reader.read_to_string(&mut rest);
    assert!(rest.starts_with("HTTP/1.1 413 ") && rest.matches("HTTP/1.1").count() == 1, "{rest}");
}

#[test]
fn a_log_that_nobody_reads_stops_nobody() {
    let mut server = Command::new(env!("CARGO_BIN_EXE_qrun"))
        .args(["serve", "--port", "0", "--device", "cpu", "-c", "1024"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("qrun starts");
    let mut log = BufReader::new(server.stderr.take().expect("a pipe"));
    let mut port = None;
    while port.is_none() {
        let mut line = String::new();
        assert!(log.read_line(&mut line).expect("a line") > 0, "the server did not start");
        port = line.split_once("127.0.0.1:").and_then(|(_, port)| port.trim().parse::<u16>().ok());
    }
    let connection = TcpStream::connect(("127.0.0.1", port.expect("a port"))).expect("a connection");
    connection.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
    let (mut writer, mut reader) = (&connection, BufReader::new(&connection));
    // Many times what a pipe holds.
    for i in 0..12_000 {
        writer.write_all(request("/livez", "").as_bytes()).expect("sent");
        assert_eq!(answer(&mut reader).0, 200, "request {i}");
    }
    #[cfg(unix)]
    {
        use nix::{sys::signal, unistd::Pid};
        signal::kill(Pid::from_raw(server.id() as i32), signal::Signal::SIGTERM).expect("the process is there");
        let ended = server.wait().expect("it ends");
        assert_eq!(ended.code(), Some(0));
    }
    let _ = server.kill();
}
