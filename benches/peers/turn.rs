//! A turn is a process of its own: how it is started, waited for, and stopped.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// How often it is looked whether a turn has ended.
const GLANCE: Duration = Duration::from_millis(50);
/// Bytes of the end of what a turn says that are kept.
const END: u64 = 64 << 10;

/// The process group of the turn that began last; 0 where none runs.
pub static RUNNING: AtomicU32 = AtomicU32::new(0);

/// Runs a command to its end and reads the JSON of its last line. One that is not done within `limit` is stopped, with
/// all that it started. Of one that fails, what it said goes to stderr.
///
/// # Errors
/// It does not start, crashes, is not done in time, or does not end with JSON; how long it ran.
pub fn run(mut command: Command, limit: Duration) -> Result<Value> {
    // Not pipes: what a stopped turn had started may hold its end of them for ever.
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let start = Instant::now();
    let child = command.spawn().with_context(|| command.get_program().display().to_string())?;
    let ended = wait(child, limit);
    let (seconds, said) = (start.elapsed().as_secs_f64(), end(&mut stderr)?);
    let answer = ended.and_then(|status| {
        let Some(status) = status else {
            bail!("still running after {seconds:.1} s and stopped; --limit SECONDS gives it longer");
        };
        let hint = "all that it said is on stderr";
        ensure!(status.success(), "{status} after {seconds:.1} s: {}; {hint}", last(&said));
        let answer = end(&mut stdout)?;
        serde_json::from_str(last(&answer)).with_context(|| format!("expected JSON, found {}; {hint}", last(&answer)))
    });
    if answer.is_err() {
        eprint!("{said}");
    }
    answer
}

/// Stops a process group.
pub fn stop(group: u32) {
    #[cfg(unix)]
    if let Some(group) = i32::try_from(group).ok().filter(|group| *group > 0) {
        use nix::{sys::signal, unistd::Pid};
        // One that has ended cannot be stopped.
        let _ = signal::killpg(Pid::from_raw(group), signal::Signal::SIGKILL);
    }
    #[cfg(not(unix))]
    let _ = group;
}

/// How it ended; `None` where it was stopped.
fn wait(mut child: Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let (start, group) = (Instant::now(), child.id());
    RUNNING.store(group, Ordering::Relaxed);
    let status = loop {
        match child.try_wait()? {
            None if start.elapsed() < limit => sleep(GLANCE.min(limit)),
            status => break status,
        }
    };
    // Whatever it leaves behind would take time from the next one.
    stop(group);
    RUNNING.store(0, Ordering::Relaxed);
    if status.is_none() {
        // Where there are no process groups. It fails where the process has ended meanwhile.
        let _ = child.kill();
        child.wait()?;
    }
    Ok(status)
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
fn last(text: &str) -> &str {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or("nothing")
}
