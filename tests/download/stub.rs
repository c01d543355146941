//! A hub for tests: a listener of its own that answers as the hub does, and badly where a test says so.

use std::{
    io::{BufRead, BufReader, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The commit of everything that the stub has.
pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// A request as it came, and what became of it.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// With its query.
    pub path: String,
    /// First and last byte of its `Range`.
    pub range: Option<(u64, Option<u64>)>,
    pub authorization: Option<String>,
    /// Of requests for bytes of a file: which one it is, from 0.
    pub nth: Option<usize>,
    /// First byte of the file in the answer, and how many followed.
    pub sent: (u64, u64),
}

/// What goes wrong with one request for bytes.
#[derive(Debug, Clone)]
pub enum Fault {
    /// So many bytes of the body, then the end of the connection.
    Cut(u64),
    /// The same without Content-Length.
    CutWithoutLength(u64),
    /// All of it without Content-Length.
    NoLength,
    /// Status 200 and the whole file.
    Whole,
    /// Status 206 without Content-Range.
    NoContentRange,
    /// Status 206 of the bytes from another place on.
    Elsewhere(u64),
    /// The right number of wrong bytes.
    Wrong,
    /// So many bytes, then nothing for so long.
    Silent(u64, Duration),
    /// This status with these headers and no body.
    Status(u16, Vec<(&'static str, String)>),
    /// A pause, then all of it.
    Late(Duration),
}

/// Files of one repository.
pub type Files = Vec<(String, Arc<Vec<u8>>)>;
type Script = dyn Fn(&Seen) -> Option<Fault> + Send + Sync;
type Answers = dyn Fn(&Seen) -> Option<(u16, Vec<(&'static str, String)>, String)> + Send + Sync;

/// A running hub. Its thread lives as long as the test's process.
pub struct Hub {
    pub port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// What a hub has and does.
pub struct Plan {
    pub files: Files,
    /// What is wrong with a request for bytes.
    pub fault: Box<Script>,
    /// Answers before anything else: to requests of any path.
    pub answer: Box<Answers>,
}

impl Default for Plan {
    fn default() -> Self {
        Plan { files: Vec::new(), fault: Box::new(|_| None), answer: Box::new(|_| None) }
    }
}

impl Plan {
    pub fn of(files: &[(&str, &[u8])]) -> Self {
        let files = files.iter().map(|(path, bytes)| ((*path).to_owned(), Arc::new(bytes.to_vec()))).collect();
        Plan { files, ..Plan::default() }
    }
    /// With faults by the number of the request for bytes.
    pub fn faults(self, fault: impl Fn(usize) -> Option<Fault> + Send + Sync + 'static) -> Self {
        Plan { fault: Box::new(move |seen| fault(seen.nth.unwrap_or_default())), ..self }
    }
    pub fn answers(
        self,
        answer: impl Fn(&Seen) -> Option<(u16, Vec<(&'static str, String)>, String)> + Send + Sync + 'static,
    ) -> Self {
        Plan { answer: Box::new(answer), ..self }
    }
    pub fn start(self) -> Hub {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (plan, log) = (Arc::new(self), seen.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (plan, log) = (plan.clone(), log.clone());
                thread::spawn(move || serve(stream, &plan, &log));
            }
        });
        Hub { port, seen }
    }
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Hub {
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
    /// All requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("the log").clone()
    }
    /// Requests for bytes of files.
    pub fn fetched(&self) -> Vec<Seen> {
        self.seen().into_iter().filter(|seen| seen.nth.is_some()).collect()
    }
    /// Bytes of files that were sent.
    pub fn sent(&self) -> u64 {
        self.fetched().iter().map(|seen| seen.sent.1).sum()
    }
}

/// Answers requests of one connection until it ends.
fn serve(stream: TcpStream, plan: &Plan, log: &Mutex<Vec<Seen>>) {
    let _ = stream.set_nodelay(true);
    // TLS, which it does not speak.
    let mut first = [0];
    if stream.peek(&mut first).is_ok() && first == [0x16] {
        return;
    }
    let Ok(reading) = stream.try_clone() else { return };
    let (mut reader, mut stream) = (BufReader::new(reading), stream);
    while let Some(seen) = request(&mut reader) {
        if !answer(&mut stream, seen, plan, log) {
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
    }
}

fn request(reader: &mut impl BufRead) -> Option<Seen> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        lines.push(line.trim().to_owned());
    }
    let path = lines.first()?.split(' ').nth(1)?.to_owned();
    let header = |name: &str| {
        let found = lines.iter().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        });
        found
    };
    let range = header("range").and_then(|range| {
        let (first, last) = range.strip_prefix("bytes=")?.split_once('-').map(|(a, b)| (a.to_owned(), b.to_owned()))?;
        Some((first.parse().ok()?, last.parse().ok()))
    });
    Some(Seen { path, range, authorization: header("authorization"), ..Seen::default() })
}

/// Whether the connection goes on.
fn answer(stream: &mut TcpStream, mut seen: Seen, plan: &Plan, log: &Mutex<Vec<Seen>>) -> bool {
    let path = seen.path.split('?').next().unwrap_or_default().to_owned();
    let file = plan.files.iter().find(|(name, _)| path.ends_with(&format!("/{name}")) && path.contains("/resolve/"));
    if let Some((status, headers, body)) = (plan.answer)(&seen) {
        log.lock().expect("the log").push(seen);
        return say(stream, status, &headers, body.as_bytes());
    }
    if let Some((_, bytes)) = file {
        let index = {
            let mut log = log.lock().expect("the log");
            seen.nth = Some(log.iter().filter(|other| other.nth.is_some()).count());
            log.push(seen.clone());
            log.len() - 1
        };
        let fault = (plan.fault)(&seen);
        return send(stream, &seen, bytes, fault, &mut |from, sent| {
            log.lock().expect("the log")[index].sent = (from, sent)
        });
    }
    log.lock().expect("the log").push(seen);
    match path.split('/').collect::<Vec<_>>()[..] {
        ["", "api", "models", user, repo, "revision", "main"] => {
            say(stream, 200, &[], model(&format!("{user}/{repo}"), &plan.files).to_string().as_bytes())
        }
        ["", "api", "models", ..] => {
            let code = vec![("X-Error-Code", "RevisionNotFound".to_owned())];
            say(stream, 404, &code, br#"{"error":"Invalid rev id"}"#)
        }
        _ => say(stream, 404, &[("X-Error-Code", "EntryNotFound".to_owned())], b"Entry not found"),
    }
}

/// The hub's JSON about a model.
pub fn model(repo: &str, files: &Files) -> Value {
    let sibling = |(path, bytes): &(String, Arc<Vec<u8>>)| {
        let lfs = json!({ "sha256": sha256(bytes), "size": bytes.len(), "pointerSize": 135 });
        json!({ "rfilename": path, "size": bytes.len(), "blobId": "a".repeat(40), "lfs": lfs })
    };
    let readme = json!({ "rfilename": "README.md", "size": 9, "blobId": "b".repeat(40) });
    let siblings: Vec<Value> = files.iter().map(sibling).chain([readme]).collect();
    json!({ "id": repo, "sha": COMMIT, "gated": false, "siblings": siblings })
}

fn head(stream: &mut TcpStream, status: u16, headers: &[(&str, String)]) -> bool {
    let mut text = format!("HTTP/1.1 {status} Whatever\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    stream.write_all((text + "\r\n").as_bytes()).is_ok()
}

fn say(stream: &mut TcpStream, status: u16, headers: &[(&'static str, String)], body: &[u8]) -> bool {
    let mut headers = headers.to_vec();
    headers.push(("Content-Length", body.len().to_string()));
    head(stream, status, &headers) && stream.write_all(body).is_ok()
}

/// Sends a file or a part of it; whether the connection goes on.
fn send(
    stream: &mut TcpStream,
    seen: &Seen,
    bytes: &[u8],
    fault: Option<Fault>,
    sent: &mut dyn FnMut(u64, u64),
) -> bool {
    let size = bytes.len() as u64;
    let (mut from, to) = match seen.range {
        Some((first, last)) => (first, last.map_or(size, |last| (last + 1).min(size))),
        None => (0, size),
    };
    let mut to = to;
    let mut status = if seen.range.is_some() { 206 } else { 200 };
    let (mut wrong, mut most, mut pause, mut length) = (false, u64::MAX, None, true);
    let mut content_range = status == 206;
    match fault {
        None => {}
        Some(Fault::Status(status, headers)) => return say(stream, status, &headers, b""),
        Some(Fault::Cut(n)) => most = n,
        Some(Fault::CutWithoutLength(n)) => (most, length) = (n, false),
        Some(Fault::NoLength) => length = false,
        Some(Fault::Whole) => (status, from, to, content_range) = (200, 0, size, false),
        Some(Fault::NoContentRange) => content_range = false,
        Some(Fault::Elsewhere(place)) => from = place,
        Some(Fault::Wrong) => wrong = true,
        Some(Fault::Silent(n, time)) => (most, pause) = (n, Some(time)),
        Some(Fault::Late(time)) => thread::sleep(time),
    }
    if from >= size {
        return say(stream, 416, &[("Content-Range", format!("bytes */{size}"))], b"");
    }
    let mut headers = vec![("Accept-Ranges", "bytes".to_owned()), ("ETag", format!("\"{}\"", sha256(bytes)))];
    if length {
        headers.push(("Content-Length", (to - from).to_string()));
    } else {
        headers.push(("Connection", "close".to_owned()));
    }
    if content_range {
        headers.push(("Content-Range", format!("bytes {from}-{}/{size}", to - 1)));
    }
    if !head(stream, status, &headers) {
        return false;
    }
    let body = &bytes[from as usize..to.min(from.saturating_add(most)) as usize];
    let mut done = 0;
    for block in body.chunks(16 << 10) {
        let block = if wrong { block.iter().map(|byte| byte ^ 1).collect() } else { block.to_vec() };
        if stream.write_all(&block).is_err() {
            return false;
        }
        done += block.len() as u64;
        sent(from, done);
    }
    if let Some(time) = pause {
        thread::sleep(time);
    }
    length && done == to - from
}
