//! `qrun serve` as its clients use it: the binary with the demo model, over HTTP.

mod access;
mod answers;
mod anthropic;
mod connections;
#[cfg(unix)]
mod fuzz;
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod gpu;
mod hostile;
#[cfg(unix)]
mod killed;
mod ollama;
mod options;
mod responses;
mod salts;
mod same;
mod scores;
mod slots;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
    thread::JoinHandle,
    time::Duration,
};

use serde_json::Value;

/// A running server; dropping it ends the process.
pub struct Server {
    process: Child,
    port: u16,
    /// Reads stderr to its end, so that the server never waits for a reader.
    log: Option<JoinHandle<String>>,
}

/// An answer.
pub struct Answer {
    pub status: u16,
    pub headers: ureq::http::HeaderMap,
    pub text: String,
}

impl Answer {
    /// The body as JSON; `null` where it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }
    /// The data of its events.
    pub fn events(&self) -> Vec<Value> {
        let data = self.text.split("\n\n").filter_map(|event| event.rsplit_once("data: ").map(|(_, data)| data));
        data.filter(|data| *data != "[DONE]")
            .map(|data| serde_json::from_str(data).expect("an event is JSON"))
            .collect()
    }
}

impl Server {
    /// Starts `qrun serve` with these words at a port of its own, and waits until it is ready.
    pub fn start(words: &[&str]) -> Self {
        Self::of(env!("CARGO_BIN_EXE_qrun"), None, words)
    }

    /// The same on a computer with this emulated GPU.
    pub fn start_on(machine: Option<&str>, words: &[&str]) -> Self {
        Self::of(env!("CARGO_BIN_EXE_qrun"), machine, words)
    }

    /// The same of another build of the program.
    pub fn of(program: &str, machine: Option<&str>, words: &[&str]) -> Self {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("LLAMA_") {
                command.env_remove(name);
            }
        }
        #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
        if let Some(machine) = machine {
            command.env("LD_LIBRARY_PATH", qrun_emulator::library()).env("QRUN_EMULATOR", machine);
        }
        // The machine of the tests has an emulated GPU at hand, if any: the server answers on the CPU unless it is told.
        command.arg("serve").args(["--port", "0", "-c", "4096"]).args(words);
        if !words.contains(&"--device") {
            command.args(["--device", "cpu"]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("qrun starts");
        let mut lines = BufReader::new(process.stderr.take().expect("a pipe")).lines();
        let (mut port, mut heard) = (None, String::new());
        for line in lines.by_ref().map_while(Result::ok) {
            heard.push_str(&line);
            heard.push('\n');
            if let Some((_, found)) = line.split_once("listening at http://127.0.0.1:") {
                port = found.trim().parse().ok();
            }
            if line.ends_with("ready") {
                break;
            }
        }
        let port = port.unwrap_or_else(|| panic!("the server did not start: {heard}"));
        let log = std::thread::spawn(move || {
            let rest: Vec<String> = lines.map_while(Result::ok).collect();
            heard + &rest.join("\n")
        });
        Self { process, port, log: Some(log) }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn agent() -> ureq::Agent {
        let config = ureq::Agent::config_builder();
        config.http_status_as_error(false).timeout_global(Some(Duration::from_secs(120))).proxy(None).build().into()
    }

    fn answer(response: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Answer {
        let mut response = response.expect("an answer");
        let text = response.body_mut().read_to_string().expect("a body");
        Answer { status: response.status().as_u16(), headers: response.headers().clone(), text }
    }

    /// `GET`, with headers.
    pub fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        let request = headers.iter().fold(Self::agent().get(self.url(path)), |request, (k, v)| request.header(*k, *v));
        Self::answer(request.call())
    }
    pub fn get(&self, path: &str) -> Answer {
        self.get_with(path, &[])
    }
    /// `POST` of a text, with headers.
    pub fn post_with(&self, path: &str, body: &str, headers: &[(&str, &str)]) -> Answer {
        let request = headers.iter().fold(Self::agent().post(self.url(path)), |request, (k, v)| request.header(*k, *v));
        Self::answer(request.send(body))
    }
    /// `POST` of JSON.
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_with(path, &body.to_string(), &[("content-type", "application/json")])
    }

    /// A connection of one's own, for what no HTTP library does.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
        stream
    }

    /// Sends bytes over a connection of their own and reads to its end.
    pub fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes).expect("sent");
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Sends a signal.
    #[cfg(unix)]
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        let id = nix::unistd::Pid::from_raw(self.process.id() as i32);
        nix::sys::signal::kill(id, signal).expect("the process is there");
    }

    /// Waits for its end: exit code, stdout, and what was said on stderr.
    pub fn wait(mut self) -> (Option<i32>, String, String) {
        let status = self.process.wait().expect("it ends");
        let mut out = String::new();
        let _ = self.process.stdout.take().expect("a pipe").read_to_string(&mut out);
        let log = self.log.take().and_then(|log| log.join().ok()).unwrap_or_default();
        (status.code(), out, log)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Asks until something is so; fails after half a minute.
pub fn until(what: &str, so: impl Fn() -> bool) {
    let started = std::time::Instant::now();
    while !so() {
        assert!(started.elapsed() < Duration::from_secs(30), "{what} does not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}
