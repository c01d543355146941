//! What clients send, changed until no client would send it: no answer says that it is our fault, nothing panics, the server
//! goes on, and its memory does not grow.
//!
//! `QRUN_FUZZ=100000` runs so many, `QRUN_FUZZ=4711..4712` those numbers; `QRUN_FUZZ_PROGRAM` another build of qrun.

mod client;
mod mutate;

use std::{
    collections::BTreeMap,
    fmt::Write,
    ops::Range,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use serde_json::Value;

use super::Server;
use client::{Client, Got};
use mutate::{Case, case};

/// Requests where nobody says how many: with those of the warm-up they take some ten seconds.
const FEW: usize = 700;
/// Clients that ask at once.
const CLIENTS: usize = 4;
/// Requests after which the server has the memory that it needs: they are sent once more with all the others.
const WARM: usize = 5000;
/// Bytes by which it may still grow, however many come: what bodies of a megabyte leave in the heap, which all clients send at
/// once, is given back every ten seconds.
const GROWTH: u64 = 32 << 20;
/// Seconds of silence after which that has been done.
const SETTLED: u64 = 12;
/// What a wrong request may be answered with, and a right one where the queue is full.
const STATUSES: &[u16] = &[200, 400, 403, 404, 405, 408, 413, 414, 431, 501, 503];

/// The requests that are asked for, by their numbers.
fn wanted() -> Range<usize> {
    let Ok(text) = std::env::var("QRUN_FUZZ") else { return 0..FEW };
    let (from, to) = text.split_once("..").unwrap_or(("0", &text));
    let number = |text: &str| text.parse().unwrap_or_else(|_| panic!("QRUN_FUZZ: a number or a range, not {text:?}"));
    number(from)..number(to)
}

/// Bodies that clients send, each with its path.
fn bodies() -> Vec<Value> {
    let lines = include_str!("fuzz/bodies.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

/// What is wrong with an answer.
fn fault(case: &Case, got: &Got) -> Option<String> {
    if !STATUSES.contains(&got.status) {
        return Some(format!("status {}", got.status));
    }
    let text = String::from_utf8_lossy(&got.body);
    // An error in the middle of a stream has the status of its beginning.
    let marks = ["\"type\":\"server_error\"", "\"type\":\"api_error\"", "\"code\":\"server_error\""];
    if marks.iter().any(|mark| text.contains(mark))
        || (got.content_type.contains("ndjson") && text.contains("{\"error\":"))
    {
        return Some("an error of the server in a stream".into());
    }
    // What is no HTTP is not answered by us.
    let ours = got.has_id && case.method != "HEAD";
    if !ours || got.status == 200 && got.content_type != "application/json" {
        return None;
    }
    let Ok(value) = serde_json::from_slice::<Value>(&got.body) else { return Some("it is not JSON".into()) };
    let error = &value["error"];
    let said = error.as_str().or(error["message"].as_str()).is_some_and(|message| !message.is_empty());
    (got.status != 200 && !said).then(|| "an error without a message".into())
}

/// Bytes that the server has in memory; `None` where the system does not tell.
fn resident(server: &Server) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{}/status", server.process.id())).ok()?;
    let kilobytes: u64 =
        text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().split(' ').next()?.parse().ok()?;
    Some(kilobytes << 10)
}

/// Sends requests by their numbers; counts the statuses, and tells of answers that are wrong.
fn send(server: &Server, bodies: &[Value], numbers: Range<usize>, statuses: &mut BTreeMap<u16, usize>) -> String {
    let next = AtomicUsize::new(numbers.start);
    let all = Mutex::new((statuses, String::new()));
    let ask = || {
        let mut client = Client::new(server.port);
        loop {
            let i = next.fetch_add(1, Relaxed);
            if i >= numbers.end {
                return;
            }
            let case = case(bodies, i);
            let got = client.ask(&case);
            let mut all = all.lock().expect("no client panics");
            let wrong = match &got {
                Ok(got) => {
                    *all.0.entry(got.status).or_default() += 1;
                    fault(&case, got)
                }
                Err(error) => Some(format!("no answer: {error}")),
            };
            if let Some(wrong) = wrong {
                let start = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(600)]).into_owned();
                let said = got.map(|got| start(&got.body)).unwrap_or_default();
                let (method, path, body) = (&case.method, &case.path, start(&case.body));
                let _ = writeln!(all.1, "QRUN_FUZZ={i}..{}: {wrong}\n  {method} {path} {body}\n  {said}", i + 1);
            }
        }
    };
    thread::scope(|scope| (0..CLIENTS).for_each(|_| drop(scope.spawn(ask))));
    all.into_inner().expect("no client panics").1
}

#[test]
fn no_request_is_the_servers_fault() {
    let (bodies, numbers) = (bodies(), wanted());
    let program = std::env::var("QRUN_FUZZ_PROGRAM").unwrap_or_else(|_| env!("CARGO_BIN_EXE_qrun").to_owned());
    let server = Server::of(&program, None, &["-n", "2", "-np", "8", "--metrics"]);
    let warm = numbers.start..numbers.end.min(numbers.start + WARM);
    let mut statuses = BTreeMap::new();
    let started = resident(&server);
    let mut wrong = send(&server, &bodies, warm, &mut statuses);
    let settled = || {
        thread::sleep(Duration::from_secs(if numbers.len() > WARM { SETTLED } else { 0 }));
        resident(&server)
    };
    let before = settled();
    wrong += &send(&server, &bodies, numbers.clone(), &mut statuses);
    let after = settled();
    assert_eq!(server.get("/health").status, 200, "it does not answer any more");
    server.signal(nix::sys::signal::Signal::SIGTERM);
    let (code, out, log) = server.wait();
    let mib = |bytes: Option<u64>| bytes.unwrap_or_default() >> 20;
    eprintln!(
        "{} requests: {statuses:?}; MiB at first {}, warm {}, at last {}",
        statuses.values().sum::<usize>(),
        mib(started),
        mib(before),
        mib(after)
    );
    assert!(wrong.is_empty(), "{wrong}");
    let panics: Vec<&str> = log.lines().filter(|line| line.contains("panicked")).collect();
    assert!(panics.is_empty(), "{panics:#?}");
    let odd: Vec<&str> = log.lines().filter(|line| !line.starts_with("note: ")).collect();
    assert!(odd.is_empty(), "lines that are none of the log's: {odd:#?}");
    assert_eq!((code, out.as_str()), (Some(0), ""));
    if numbers.len() >= FEW {
        assert!(statuses[&200] > numbers.len() / 10, "too few were understood: {statuses:?}");
        assert!(statuses[&400] > numbers.len() / 10, "too few were wrong: {statuses:?}");
    }
    if let (Some(before), Some(after)) = (before, after) {
        assert!(after.saturating_sub(before) < GROWTH, "memory grew by {} bytes", after - before);
    }
}

/// The same number is the same request, on any machine: a failure can be looked at again.
#[test]
fn requests_are_told_by_their_numbers() {
    let bodies = bodies();
    assert!(bodies.len() >= 60, "{}", bodies.len());
    let mut kinds = std::collections::BTreeSet::new();
    for i in 0..300 {
        let request = case(&bodies, i);
        assert_eq!(request, case(&bodies, i));
        kinds.insert((request.method, request.path, request.body));
    }
    assert!(kinds.len() > 250, "{}", kinds.len());
}
