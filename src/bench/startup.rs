//! The start of a run as its user lives it: from the shell's `exec` to the first token, step by step.
//!
//! The program starts itself with an ordinary command line. The child says what its own steps took; what is missing to
//! the parent's clock is the system's work before the child's first line.

use std::{
    ffi::OsString,
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Instant,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    machine::{self, Machine},
    statistics::{extremes, median},
};
use crate::engine::Step;

/// RunInfo 16 tokens in most vocabularies. A text, so that the model's file is not touched before the clock starts.
const PROMPT: &str = "The quick brown fox jumps over the lazy dog. The quick brown fox jumps";

/// What a process holds, in bytes; `None` where the system does not say.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// The most it ever held, mapped files included.
    pub peak: Option<u64>,
    /// Of mapped files, now: what was touched and not let go of since.
    pub files: Option<u64>,
    /// How often it waited for a page from the disk: 0 where the file lay in the page cache.
    pub major_faults: Option<u64>,
}

impl Memory {
    /// Of this process.
    pub fn now() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let kilobytes = status.lines().find_map(|l| l.strip_prefix("RssFile:")?.trim().strip_suffix("kB"));
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The fields after the name, which may hold anything, in brackets.
        let faults = stat.rsplit(") ").next().and_then(|fields| fields.split(' ').nth(9));
        Self {
            peak: machine::peak_memory(),
            files: kilobytes.and_then(|n| n.trim().parse::<u64>().ok()).map(|n| n << 10),
            major_faults: faults.and_then(|n| n.parse().ok()),
        }
    }
}

/// What is started.
#[derive(Debug, Clone)]
pub struct Job {
    /// The program.
    pub program: PathBuf,
    /// The model.
    pub model: PathBuf,
    /// Further flags: device, threads, cache ….
    pub flags: Vec<OsString>,
}

/// One start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The steps, from `exec` to `first token`.
    pub timeline: Vec<Step>,
    /// From the start of the process to its first token, in milliseconds, by the parent's clock.
    pub total_ms: f64,
    /// The step after the first token; on a GPU it records the graph that later steps repeat.
    pub next_step_ms: f64,
    /// What the child held at its end.
    pub memory: Memory,
    /// Where it ran.
    pub device: String,
    /// Tokens of its prompt.
    pub n_prompt: u64,
}

/// Several starts of one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Startup {
    /// The model's file.
    pub model: String,
    /// Its size in bytes, all shards.
    pub file_bytes: u64,
    /// Where and when.
    pub machine: Machine,
    /// The first start, whatever lay in the page cache.
    pub first: Run,
    /// Those after it.
    pub runs: Vec<Run>,
}

/// Why a start was not measured.
#[derive(Debug, thiserror::Error)]
pub enum StartupError {
    /// The system.
    #[error("{program}: {source}")]
    Io {
        /// What was started.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The child failed: its exit code and what it said.
    #[error("{message}")]
    Failed {
        /// Its exit code.
        code: Option<i32>,
        /// Its last words.
        message: String,
    },
    /// The child's events lack something.
    #[error("expected {0} among the events of the program that was started")]
    Silent(&'static str),
}

impl Job {
    fn spawn(&self) -> std::io::Result<Child> {
        Command::new(&self.program)
            .arg(&self.model)
            .args(["-no-cnv", "-p", PROMPT, "-n", "2", "--temp", "0", "--ignore-eos", "--json"])
            .args(&self.flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    }

    /// Starts the program once and waits for its end.
    ///
    /// # Errors
    /// It cannot be started, fails, or does not say what it should.
    pub fn run(&self) -> Result<Run, StartupError> {
        let io = |source| StartupError::Io { program: self.program.display().to_string(), source };
        let started = Instant::now();
        let mut child = self.spawn().map_err(io)?;
        let (mut start, mut end, mut total_ms) = (Value::Null, Value::Null, None);
        for line in BufReader::new(child.stdout.take().ok_or(StartupError::Silent("a pipe"))?).lines() {
            let elapsed = started.elapsed().as_secs_f64() * 1e3;
            let event: Value = serde_json::from_str(&line.map_err(io)?).unwrap_or_default();
            match event["type"].as_str() {
                Some("start") => start = event,
                Some("token") => total_ms = total_ms.or(Some(elapsed)),
                Some("end") => end = event,
                _ => {}
            }
        }
        let mut message = String::new();
        if let Some(mut said) = child.stderr.take() {
            let _ = said.read_to_string(&mut message);
        }
        let status = child.wait().map_err(io)?;
        if !status.success() {
            let message = message.trim().trim_start_matches("error: ").to_owned();
            return Err(StartupError::Failed { code: status.code(), message });
        }
        Run::new(&start, &end, total_ms.ok_or(StartupError::Silent("a token"))?)
    }
}

impl Run {
    fn new(start: &Value, end: &Value, total_ms: f64) -> Result<Self, StartupError> {
        let its: Vec<Step> =
            serde_json::from_value(end["timeline"].clone()).map_err(|_| StartupError::Silent("a timeline"))?;
        // The child's last step ends after its line is written: by then the parent may have read it.
        let before = (total_ms - its.iter().map(|step| step.ms).sum::<f64>()).max(0.0);
        let exec = Step { step: "exec".into(), ms: before };
        Ok(Self {
            timeline: [exec].into_iter().chain(its).collect(),
            total_ms,
            next_step_ms: end["timings"]["predicted_ms"].as_f64().ok_or(StartupError::Silent("timings"))?,
            memory: serde_json::from_value(end["memory"].clone()).map_err(|_| StartupError::Silent("memory"))?,
            device: start["device"].as_str().ok_or(StartupError::Silent("a device"))?.into(),
            n_prompt: start["tokens_prompt"].as_u64().ok_or(StartupError::Silent("tokens_prompt"))?,
        })
    }

    /// A step by its name, 0 where it was not taken.
    fn ms(&self, step: &str) -> f64 {
        self.timeline.iter().filter(|s| s.step == step).map(|s| s.ms).sum()
    }
}

impl Startup {
    /// The results of a first start and of some after it.
    pub fn new((model, file_bytes): (&Path, u64), threads: usize, first: Run, runs: Vec<Run>) -> Self {
        let device = if first.device.starts_with("GPU") { "cuda" } else { "cpu" };
        let machine = Machine { device: device.into(), ..Machine::processor(threads) };
        Self { model: model.display().to_string(), file_bytes, machine, first, runs }
    }

    /// The time line in Markdown.
    pub fn markdown(&self) -> String {
        let of = |f: &dyn Fn(&Run) -> f64| self.runs.iter().map(f).collect::<Vec<_>>();
        let total = median(&of(&|run| run.total_ms));
        let row = |name: &str, f: &dyn Fn(&Run) -> f64, share: bool| {
            let (all, (min, max)) = (median(&of(f)), extremes(&of(f)));
            let share = if share && total > 0.0 { format!("{:.1} %", 100.0 * all / total) } else { String::new() };
            format!("| {name} | {:.1} | {all:.1} | {min:.1} | {max:.1} | {share} |\n", f(&self.first))
        };
        let mut out = format!(
            "- **{}** on {} ({}), prompt of {} tokens, greedy; {}; qrun {} ({}), {}\n\n",
            self.model,
            self.first.device,
            self.machine.cpu,
            self.first.n_prompt,
            self.describe_memory(),
            self.machine.qrun,
            self.machine.commit,
            self.machine.timestamp
        );
        out += &format!("| Step (ms) | first run | median of {} | min | max | share |\n", self.runs.len());
        out += "|---|--:|--:|--:|--:|--:|\n";
        for Step { step, .. } in &self.first.timeline {
            out += &row(step, &|run| run.ms(step), true);
        }
        out += &row("**total to the first token**", &|run| run.total_ms, true);
        let after =
            if self.first.device.starts_with("GPU") { "then: graph (first recorded step)" } else { "then: first step" };
        out + &row(after, &|run| run.next_step_ms, false)
    }

    fn describe_memory(&self) -> String {
        let mb = |bytes: Option<u64>| bytes.map_or("unknown".into(), |b| format!("{:.0} MB", b as f64 / 1e6));
        let last = self.runs.last().unwrap_or(&self.first);
        let waited = |run: &Run| run.memory.major_faults.map_or("unknown".into(), |n| n.to_string());
        format!(
            "file {}, peak memory {}, of it mapped files at the end {}; waits for the disk: first run {}, last run {}",
            mb(Some(self.file_bytes)),
            mb(last.memory.peak),
            mb(last.memory.files),
            waited(&self.first),
            waited(last)
        )
    }
}
