//! A pseudo-terminal with `qrun` in it.

use std::{
    fs::File,
    io::{Read, Write},
    os::{fd::OwnedFd, unix::process::CommandExt},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

/// Longest wait for an expected text; builds for tests are slow, and machines are busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program at a terminal.
pub struct Terminal {
    child: Child,
    keys: File,
    screen: Receiver<Vec<u8>>,
    seen: String,
}

impl Terminal {
    pub fn start(mut command: Command) -> Self {
        let pty = nix::pty::openpty(None, None).expect("a pseudo-terminal");
        let side = || Stdio::from(pty.slave.try_clone().expect("another handle"));
        command.stdin(side()).stdout(side()).stderr(side()).env("TERM", "xterm");
        // SAFETY: between fork and exec only async-signal-safe calls are made: setsid and ioctl.
        unsafe {
            command.pre_exec(|| {
                nix::unistd::setsid()?;
                // The terminal becomes the controlling one, so that Ctrl-C in it is a signal.
                nix::libc::ioctl(0, nix::libc::TIOCSCTTY as _, 0);
                Ok(())
            });
        }
        let child = command.spawn().expect("qrun starts");
        drop(pty.slave);
        let keys = File::from(pty.master.try_clone().expect("another handle"));
        Self { child, keys, screen: follow(pty.master), seen: String::new() }
    }

    /// Types.
    pub fn keys(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// Sends a signal to the program, not to its terminal.
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.child.id() as i32), signal).expect("a signal is sent");
    }

    /// Waits for the line editor: it says that pasted text is to be marked when it takes over the keys.
    pub fn prompt(&mut self) {
        self.expect("\x1b[?2004h");
    }

    /// Waits until the screen shows `text` behind what was expected before; returns all up to its end.
    pub fn expect(&mut self, text: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.seen.find(text) {
                let rest = self.seen.split_off(at + text.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            let left = end.saturating_duration_since(Instant::now());
            match self.screen.recv_timeout(left) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(_) => panic!("{text:?} does not appear; the screen shows {:?}", self.seen),
            }
        }
    }

    /// Waits for the end of the program; its exit code, and what the screen still showed.
    pub fn end(mut self) -> (Option<i32>, String) {
        let end = Instant::now() + PATIENCE;
        while self.child.try_wait().expect("a child").is_none() {
            if Instant::now() > end {
                let _ = self.child.kill();
                panic!("the program does not end; the screen shows {:?}", self.seen);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let code = self.child.wait().expect("a child").code();
        while let Ok(bytes) = self.screen.recv_timeout(Duration::from_millis(200)) {
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
        (code, self.seen)
    }
}

/// Reads the screen on a thread of its own, for reading has no time limit.
fn follow(master: OwnedFd) -> Receiver<Vec<u8>> {
    let (send, receive) = channel();
    let mut screen = File::from(master);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(n) = screen.read(&mut buffer) {
            if n == 0 || send.send(buffer[..n].to_vec()).is_err() {
                break;
            }
        }
    });
    receive
}
