//! The servers that take turns: processes of their own, on the same file.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use qrun::bench::peers::QRUN;

use super::{Args, client::Client};

/// A running server; dropping it ends the process.
pub struct Server {
    process: Child,
    pub client: Client,
    pub port: u16,
}

/// How many requests a server takes at once, and tokens of each with its prompt.
#[derive(Clone, Copy)]
pub struct Room {
    pub requests: usize,
    pub tokens: usize,
}

impl Server {
    /// Starts a server on a file and waits until it is healthy.
    pub fn start(name: &str, args: &Args, file: &Path, room: Room) -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = if name == QRUN {
            let mut command = Command::new(&args.qrun);
            command.args(["serve", "--device", "cpu"]);
            command
        } else {
            let mut command = Command::new(args.llama_server.as_ref().context("--llama-server FILE is needed")?);
            command.arg("--no-webui");
            command
        };
        command.arg("-m").arg(file).args(["--port", &port.to_string()]);
        let [tokens, requests, threads] = [room.tokens * room.requests, room.requests, args.threads];
        command.args(["-c", &tokens.to_string(), "-np", &requests.to_string(), "-t", &threads.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        // A pipe that nobody reads would stop it.
        command.stderr(if args.verbose { Stdio::inherit() } else { Stdio::null() });
        let process = command.spawn().with_context(|| command.get_program().display().to_string())?;
        let mut server = Self { process, client: Client::new(format!("http://127.0.0.1:{port}")), port };
        let started = Instant::now();
        while !matches!(server.client.health(), Ok(200)) {
            if let Some(status) = server.process.try_wait()? {
                bail!("{name} ended with {status} before it was ready; --verbose shows what it says");
            }
            if started.elapsed() > Duration::from_secs(args.limit) {
                bail!("{name} was not ready after {} s", args.limit);
            }
            sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// A field of `/proc/PID/status`, in bytes: `VmRSS` is what it holds, `VmHWM` the most that it held.
    pub fn memory(&self, field: &str) -> Result<u64> {
        let path = format!("/proc/{}/status", self.process.id());
        let status = fs::read_to_string(&path).context(path)?;
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
        Ok(kib.with_context(|| format!("no {field}"))? << 10)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails where it has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
