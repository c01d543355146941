//! A process that is waited for, and stopped with all that it has started when its time is up.

use std::{
    fs::File,
    io::{Read, Result, Seek, SeekFrom},
    process::{Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread::sleep,
    time::{Duration, Instant},
};

/// How often it is looked whether it has ended.
const GLANCE: Duration = Duration::from_millis(20);
/// Bytes of the end of what it says that are kept.
const END: u64 = 64 << 10;

/// The process group that began last; 0 where none runs.
static RUNNING: AtomicU32 = AtomicU32::new(0);

/// How a process ended.
#[derive(Debug)]
pub struct Ended {
    /// `None` where it was stopped.
    pub status: Option<ExitStatus>,
    /// How long it ran.
    pub seconds: f64,
    /// The end of what it wrote to stdout.
    pub stdout: String,
    /// The same of stderr.
    pub stderr: String,
}

/// Runs a command to its end, at most for so long, with nothing on its stdin.
///
/// # Errors
/// It does not start; the system's.
pub fn run(command: &mut Command, limit: Duration) -> Result<Ended> {
    // Not pipes: what a stopped process had started may hold its end of them for ever.
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    let start = Instant::now();
    let mut child = command.spawn()?;
    RUNNING.store(child.id(), Ordering::Relaxed);
    let status = loop {
        match child.try_wait()? {
            None if start.elapsed() < limit => sleep(GLANCE.min(limit)),
            status => break status,
        }
    };
    // Whatever it leaves behind would take time from the next one.
    stop(child.id());
    RUNNING.store(0, Ordering::Relaxed);
    if status.is_none() {
        // Where there are no process groups. It fails where the process has ended meanwhile.
        let _ = child.kill();
        child.wait()?;
    }
    let seconds = start.elapsed().as_secs_f64();
    Ok(Ended { status, seconds, stdout: end(&mut stdout)?, stderr: end(&mut stderr)? })
}

/// Stops the process that [`run`] waits for, if there is one: it is a group of its own, which Ctrl-C does not reach.
pub fn stop_running() {
    stop(RUNNING.load(Ordering::Relaxed));
}

fn stop(group: u32) {
    #[cfg(unix)]
    if let Some(group) = i32::try_from(group).ok().filter(|group| *group > 0) {
        use nix::{sys::signal, unistd::Pid};
        // One that has ended cannot be stopped.
        let _ = signal::killpg(Pid::from_raw(group), signal::Signal::SIGKILL);
    }
    #[cfg(not(unix))]
    let _ = group;
}

/// The end of a file, as text.
fn end(file: &mut File) -> Result<String> {
    let len = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(len.saturating_sub(END)))?;
    let mut bytes = Vec::new();
    file.take(END).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The last line that is not empty.
pub fn last_line(text: &str) -> &str {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("nothing")
}
