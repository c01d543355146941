//! Who is let in, what connections may do, and how the server ends.

use std::{
    io::{Read, Write},
    time::{Duration, Instant},
};

use serde_json::json;

use super::{Answer, Server, until};

/// A DNS name that leads here, a page from elsewhere: refused. (Requests have no other protection without a key.)
#[test]
fn strangers_hosts_and_origins_are_refused() {
    let server = Server::start(&["--allowed-hosts", "chat.example", "--cors-origins", "https://page.example"]);
    for (host, status) in [
        ("localhost", 200),
        ("LOCALHOST:8080", 200),
        ("127.0.0.1", 200),
        ("[::1]:80", 200),
        ("10.0.0.7:80", 200),
        ("chat.example", 200),
        ("Chat.EXAMPLE:80", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("chat.example.evil", 403),
    ] {
        let answer =
            server.raw(format!("GET /v1/models HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes());
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {answer}");
    }
    for (origin, status) in [
        ("http://localhost:3000", 200),
        ("http://127.0.0.1", 200),
        ("https://page.example", 200),
        ("https://evil.example", 403),
        ("https://localhost.evil.example", 403),
        ("null", 403),
    ] {
        let answer = server.get_with("/v1/models", &[("origin", origin)]);
        assert_eq!(answer.status, status, "{origin}");
        let allowed = answer.headers.get("access-control-allow-origin").map(|value| value.to_str().expect("text"));
        assert_eq!(allowed, (status == 200).then_some(origin));
    }
}

#[test]
fn keys_are_asked_for() {
    let server = Server::start(&["--api-key", "first,second"]);
    for (headers, status) in [
        (vec![], 401),
        (vec![("authorization", "Bearer wrong")], 401),
        (vec![("authorization", "Bearer firstx")], 401),
        (vec![("authorization", "first")], 401),
        (vec![("authorization", "Bearer first")], 200),
        (vec![("authorization", "Bearer second")], 200),
        (vec![("x-api-key", "second")], 200),
    ] {
        assert_eq!(server.get_with("/v1/models", &headers).status, status, "{headers:?}");
        for open in ["/health", "/openapi.json"] {
            assert_eq!(server.get_with(open, &headers).status, 200, "{open}");
        }
    }
    let answer = server.get("/v1/models");
    assert_eq!(answer.json()["error"]["type"], "authentication_error");
    assert!(!answer.text.contains("first"), "keys are not told: {}", answer.text);
}

/// A request is one line in the log, which has nothing of what people said, not even where they said it wrongly.
#[cfg(unix)]
#[test]
fn the_log_tells_no_prompts() {
    let server = Server::start(&["-n", "1"]);
    let user = |content: &str| json!([{ "role": "user", "content": content }]);
    let (chat, secret) = ("/v1/chat/completions", "a\nsecret");
    let cases = [
        (chat, json!({ "messages": user(secret) }), 200),
        (chat, json!({ "messages": [{ "content": secret }] }), 400),
        (chat, json!({ "messages": [secret] }), 400),
        (chat, json!({ "messages": [{ "role": "user", "content": { "text": secret } }] }), 400),
        (chat, json!({ "messages": [{ "role": secret, "content": "a" }] }), 400),
        (chat, json!({ "messages": user("a"), "tool_choice": secret }), 400),
        (chat, json!({ "messages": user("a"), "samplers": [secret] }), 400),
        (chat, json!({ "messages": user("a"), "response_format": { "type": secret } }), 400),
        (chat, json!({ "messages": user("a"), "json_schema": { "type": secret } }), 400),
        ("/completion", json!({ "prompt": "a", "temperature": secret }), 400),
        ("/v1/responses", json!({ "input": [{ "type": secret }] }), 400),
        ("/v1/messages", json!({ "messages": user("a"), "max_tokens": secret }), 400),
        ("/api/generate", json!({ "prompt": "a", "format": secret }), 400),
    ];
    for (path, body, status) in &cases {
        let answer = server.post(path, body);
        assert_eq!(answer.status, *status, "{path} {body}: {}", answer.text);
    }
    // What the router refuses by itself comes in the dialect of its path too.
    for (path, message) in [("/v1/models/%ff", "/error/message"), ("/v1/models/%00%ff", "/error/message")] {
        let answer = server.get(path);
        assert_eq!((answer.status, answer.json().pointer(message).is_some()), (400, true), "{path}: {}", answer.text);
    }
    server.signal(nix::sys::signal::Signal::SIGTERM);
    let (_, _, log) = server.wait();
    assert!(!log.contains("secret"), "{log}");
    assert!(log.lines().all(|line| line.starts_with("note: ")), "{log}");
    assert_eq!(log.lines().filter(|line| line.contains("req_")).count(), cases.len() + 2, "{log}");
}

/// What is wrong with the flags is told before anything is served.
#[test]
fn a_server_that_must_not_start_does_not() {
    for (words, part) in [
        (&["--host", "0.0.0.0"], "--api-key"),
        (&["--slot-save-path", "/nowhere/to/be/found"], "expected a folder that exists"),
        (&["--step-ms", "0"], "expected a whole number from 1"),
        (&["--reasoning-format", "legacy"], "expected auto, deepseek, none"),
        (&["--deterministic", "--device=cuda"], "--deterministic"),
    ] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_qrun"))
            .args([&["serve", "--port", "0"], &words[..]].concat())
            .stdin(std::process::Stdio::null())
            .output()
            .expect("qrun starts");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), said.contains(part)), (Some(2), true), "{said}");
        assert!(output.stdout.is_empty());
    }
}

/// A model that cannot be had is told before anybody is told where to ask.
#[test]
fn a_broken_model_is_not_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("broken.gguf");
    std::fs::write(&file, "no model").expect("a file");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_qrun"))
        .args(["serve", "--port", "0"])
        .arg(&file)
        .stdin(std::process::Stdio::null())
        .output()
        .expect("qrun starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.contains("broken.gguf")), (Some(3), true), "{said}");
    assert!(!said.contains("listening"), "{said}");
}

/// A connection serves many requests, also where a body was of no use.
#[test]
fn a_connection_outlives_bodies_that_nobody_needs() {
    let server = Server::start(&["--api-key", "key"]);
    let mut connection = server.connect();
    let cases = [
        ("/api/show", "key", 200),
        ("/nowhere", "key", 404),
        ("/health", "key", 405),
        ("/v1/embeddings", "key", 501),
        ("/v1/completions", "wrong", 401),
        ("/tokenize", "key", 200),
    ];
    for (answered, (path, key, status)) in cases.into_iter().enumerate() {
        let body = json!({ "content": "x".repeat(20_000) }).to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nx-api-key: {key}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        connection.write_all(head.as_bytes()).expect("sent");
        // The body comes later than the head.
        std::thread::sleep(Duration::from_millis(20));
        connection.write_all(body.as_bytes()).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut bytes = Vec::new();
        let text = loop {
            let mut some = [0; 4096];
            let n = connection.read(&mut some).expect("an answer");
            assert!(n > 0, "{path}: closed after {answered} answers");
            bytes.extend_from_slice(&some[..n]);
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let length = text
                .lines()
                .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse::<usize>().ok());
            if let (Some(length), Some((_, body))) = (length, text.split_once("\r\n\r\n"))
                && body.len() >= length
            {
                break text;
            }
        };
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {text}");
    }
}

#[test]
fn bodies_have_a_limit() {
    let server = Server::start(&["--max-body", "1000"]);
    let body = |n: usize| json!({ "content": "x".repeat(n) }).to_string();
    for (n, status) in [(10, 200), (900, 200), (1100, 413)] {
        let answer = server.post_with("/tokenize", &body(n), &[]);
        assert_eq!(answer.status, status, "{n}: {}", answer.text);
    }
}

/// Whoever goes away frees the sequence: in a stream, before a whole answer, in a prompt.
#[test]
fn who_goes_away_cancels() {
    let server = Server::start(&["-np", "2", "-c", "8192", "--metrics"]);
    let busy = || {
        server
            .get("/slots")
            .json()
            .as_array()
            .map_or(0, |slots| slots.iter().filter(|slot| slot["is_processing"] == true).count())
    };
    let endless = json!({ "prompt": "a", "ignore_eos": true, "max_tokens": 4000 });
    for (path, stream) in [("/v1/completions", true), ("/v1/completions", false), ("/completion", true)] {
        let mut body = endless.clone();
        body["stream"] = stream.into();
        let body = body.to_string();
        let mut connection = server.connect();
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
        connection.write_all((head + &body).as_bytes()).expect("sent");
        if stream {
            let mut some = [0; 200];
            assert!(connection.read(&mut some).expect("an answer") > 0);
        }
        until("the request runs", || busy() == 1);
        drop(connection);
        until("the sequence is free", || busy() == 0);
    }
    let counted = || server.get("/metrics").text.lines().any(|line| line == "qrun:cancelled_total 3");
    until("all are counted", counted);
}

/// Seconds after which a request may be tried again, where they are between one and two minutes.
fn retry_after(answer: &Answer) -> Option<u64> {
    answer.headers.get("retry-after")?.to_str().ok()?.parse().ok().filter(|seconds| (1..=120).contains(seconds))
}

/// The queue has an end: what is beyond is told at once to come again.
#[test]
fn a_full_queue_is_told() {
    let server = Server::start(&["-np", "1", "--queue", "1", "-c", "8192", "--metrics"]);
    let body = json!({ "prompt": "a", "ignore_eos": true, "max_tokens": 8000, "stream": true }).to_string();
    let head = format!("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
    let request = head + &body;
    let connections: Vec<_> = (0..2)
        .map(|_| {
            let mut connection = server.connect();
            connection.write_all(request.as_bytes()).expect("sent");
            connection
        })
        .collect();
    let waiting = || server.get("/metrics").text.lines().any(|line| line == "llamacpp:requests_deferred 1");
    until("one runs and one waits", waiting);
    let small = json!({ "prompt": "a", "n_predict": 1 });
    let refused = server.post("/completion", &small);
    assert_eq!((refused.status, retry_after(&refused).is_some()), (503, true), "{}", refused.text);
    assert_eq!(server.get("/health").status, 200);
    // Nothing is made ready that could not be answered: neither the template nor this schema was looked at.
    let mut chat = json!({ "messages": [{ "role": "user", "content": "a" }], "json_schema": { "type": "hiccup" } });
    let status = |path: &str, body: &serde_json::Value| server.post(path, body).status;
    assert_eq!(status("/v1/chat/completions", &chat), 503);
    assert_eq!(status("/v1/chat/completions/input_tokens", &chat), 400);
    chat["json_schema"] = json!(null);
    assert_eq!(status("/v1/chat/completions/input_tokens", &chat), 200);
    drop(connections);
    until("there is room again", || server.post("/completion", &small).status == 200);
}

/// Connections that send nothing, or half a head, stand in nobody's way.
#[test]
fn half_open_connections_do_no_harm() {
    let server = Server::start(&[]);
    let connections: Vec<_> = (0..500)
        .map(|i| {
            let mut connection = server.connect();
            if i % 2 == 0 {
                let _ = connection.write_all(b"POST /v1/completions HTTP/1.1\r\nHost: local");
            }
            connection
        })
        .collect();
    // What holds of a connection's first request holds of its others.
    let mut served = server.connect();
    served.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    let mut text = String::new();
    while !text.ends_with('}') {
        let mut some = [0; 1024];
        let n = served.read(&mut some).expect("an answer");
        assert!(n > 0, "closed: {text}");
        text.push_str(&String::from_utf8_lossy(&some[..n]));
    }
    served.write_all(b"GET /livez HTTP/1.1\r\nHost: local").expect("sent");
    for _ in 0..5 {
        assert_eq!(server.get("/health").status, 200);
    }
    let started = Instant::now();
    for mut connection in [&connections[0], &served] {
        // Closed by the server: the read ends.
        let _ = connection.read(&mut [0; 64]);
        assert!(started.elapsed() < Duration::from_secs(25), "still open");
    }
}

/// A connection with an answer that has begun.
#[cfg(unix)]
fn running(server: &Server, tokens: usize) -> std::net::TcpStream {
    let body = json!({ "prompt": "a", "ignore_eos": true, "max_tokens": tokens, "stream": true }).to_string();
    let mut connection = server.connect();
    let head = format!("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", body.len());
    connection.write_all((head + &body).as_bytes()).expect("sent");
    let mut some = [0; 100];
    assert!(connection.read(&mut some).expect("an answer") > 0);
    connection
}

/// Who waits in vain is told when to come again, too.
#[cfg(unix)]
#[test]
fn a_queue_that_does_not_move_is_told() {
    let server = Server::start(&["-np", "1", "--queue-timeout", "1", "-c", "8192"]);
    let endless = running(&server, 8000);
    let small = json!({ "prompt": "a", "n_predict": 1 });
    let late = server.post("/completion", &small);
    assert_eq!((late.status, late.text.contains("waited 1 s")), (503, true), "{}", late.text);
    assert!(retry_after(&late).is_some(), "{:?}", late.headers);
    drop(endless);
    until("there is room again", || server.post("/completion", &small).status == 200);
}

/// SIGTERM: no more requests, and whoever asks is told so; running answers end whole, exit code 0, nothing on stdout.
#[cfg(unix)]
#[test]
fn a_signal_lets_running_answers_end() {
    let server = Server::start(&["-c", "8192", "--shutdown-timeout", "120"]);
    let mut connection = running(&server, 2000);
    server.signal(nix::sys::signal::Signal::SIGTERM);
    until("the end is told", || server.get("/health").status == 503);
    let refused = server.post("/completion", &json!({ "prompt": "a", "n_predict": 1 }));
    assert_eq!((refused.status, refused.headers.contains_key("retry-after")), (503, true), "{}", refused.text);
    assert_eq!((server.get("/v1/models").status, server.get("/livez").status), (503, 200));
    let mut rest = String::new();
    connection.read_to_string(&mut rest).expect("the whole answer");
    assert!(rest.contains("data: [DONE]"), "cut: {}", &rest[rest.len().saturating_sub(300)..]);
    let (code, out, log) = server.wait();
    assert_eq!((code, out.as_str()), (Some(0), ""), "{log}");
}

/// A second one ends them where they are.
#[cfg(unix)]
#[test]
fn a_second_signal_ends_at_once() {
    use nix::sys::signal::Signal::SIGTERM;
    let server = Server::start(&["-c", "8192", "--shutdown-timeout", "120"]);
    let mut connection = running(&server, 8000);
    server.signal(SIGTERM);
    until("the end is told", || server.get("/health").status == 503);
    server.signal(SIGTERM);
    let mut rest = Vec::new();
    let _ = connection.read_to_end(&mut rest);
    assert!(!String::from_utf8_lossy(&rest).contains("[DONE]"), "whole");
    let (code, out, log) = server.wait();
    assert_eq!((code, out.as_str()), (Some(0), ""), "{log}");
}

/// One line for each request, with its tokens and without its text.
#[cfg(unix)]
#[test]
fn a_request_is_one_line_of_the_log() {
    let server = Server::start(&["--metrics"]);
    let ask = |path: &str, stream: bool| {
        let body = json!({ "prompt": "a secret of twelve words", "n_predict": 5, "temperature": 0, "stream": stream });
        let answer = server.post(path, &body);
        if stream { answer.events().pop().unwrap_or_default() } else { answer.json() }
    };
    let mut expected = vec!["GET /v1/models 200".to_owned(), "POST /tokenize 400, content".to_owned()];
    server.get("/v1/models");
    server.post("/tokenize", &json!({ "content": 5 }));
    for stream in [false, true] {
        let timings = ask("/completion", stream)["timings"].clone();
        let number = |name: &str| timings[name].as_u64().unwrap_or_else(|| panic!("{timings}"));
        let (cached, computed, generated) = (number("cache_n"), number("prompt_n"), number("predicted_n"));
        expected.push(format!(
            "POST /completion 200, prompt {} (cached {cached}), generated {generated}",
            cached + computed
        ));
    }
    server.signal(nix::sys::signal::Signal::SIGTERM);
    let (_, _, log) = server.wait();
    // Less ids and times.
    let lines =
        log.lines().filter_map(|line| line.split_once("req_")?.1.split_once(": ")).map(|(_, line)| line.to_owned());
    let lines: Vec<String> = lines.filter(|line| line.contains(" ms")).collect();
    let timeless = |line: &String| {
        let (before, after) = line.split_once(" ms").expect("a time");
        before.rsplit_once(' ').expect("a time").0.to_owned() + after
    };
    assert_eq!(lines.iter().map(timeless).collect::<Vec<_>>(), expected, "{log}");
    assert!(!log.contains("secret"), "{log}");
}
