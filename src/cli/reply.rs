//! One answer on its way out: text to stdout as it comes, everything else to stderr.

use std::{
    cell::Cell,
    io::{self, Write},
    ops::ControlFlow,
    time::Instant,
};

use crate::{
    bench::machine,
    engine::Timeline,
    generate::{Event, Finish, Reply, Request, Session, Timings},
    sampler::SamplerParams,
    text::{
        chat::Parser,
        template::{Message, Render},
    },
};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Map, Value, json};

use super::{
    exit::Exit,
    interrupt::Busy,
    shown::Shown,
    terminal::{Terminal, put, say},
};

/// How answers are shown.
pub struct AnswerPrinter {
    pub terminal: Terminal,
    /// Events in place of text.
    pub json: bool,
    /// `[ Prompt: … | Generation: … ]` after the answer.
    pub speeds: bool,
    /// llama.cpp's block of times after the answer.
    pub perf: bool,
    pub load_ms: f64,
    /// Takes answers apart that have more in them than what is for the reader.
    pub parser: Option<Parser>,
    /// Show thoughts that the parser tells apart.
    pub thoughts: bool,
    /// From the start of the program on; it ends with the first token.
    pub timeline: Cell<Option<Timeline>>,
}

impl AnswerPrinter {
    /// Generates and shows an answer. Its text ends with a newline on stdout, added where it has none. The reply's text is
    /// what is for the reader, without thoughts that were told apart.
    ///
    /// # Errors
    /// Exit code 2: the prompt is empty or does not fit. 3: the model's logits are not finite. 5: the device fails. 1:
    /// a step or stdout fails. 0: the reader of stdout has gone.
    pub fn answer(&self, session: &mut Session, request: &Request) -> Result<Reply, Exit> {
        let mut timeline = self.timeline.take();
        let mut lap = |step| timeline.iter_mut().for_each(|timeline| timeline.lap(step));
        lap("prompt");
        let busy = Busy::begin(&request.cancel);
        let bar = self.bar(request.prompt.len().saturating_sub(session.cached().len()));
        let mut sink = Sink { json: self.json, out: io::stdout(), last: b'\n', failed: Ok(()) };
        if self.json {
            sink.event(self.start(session, request));
        }
        let mut shown = Shown::new(self.parser.clone(), self.thoughts);
        let mut begun = false;
        let started = Instant::now();
        let reply = session.generate(request, &mut |event| {
            match event {
                Event::Prompt { done, total, .. } if done == total => {
                    bar.finish_and_clear();
                    lap("prefill");
                }
                Event::Prompt { done, total, .. } => {
                    bar.set_length(total as u64);
                    bar.set_position(done as u64);
                }
                Event::Token { id, text, .. } => {
                    sink.token(Some(id), &shown.push(text));
                    if !std::mem::replace(&mut begun, true) {
                        lap("first token");
                    }
                }
                Event::Flush { text, .. } => sink.token(None, &shown.push(text)),
                Event::Logits { .. } => {}
            }
            if busy.stopping() || sink.failed.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        bar.finish_and_clear();
        drop(busy);
        let (rest, content) = shown.finish();
        if !rest.is_empty() {
            sink.token(None, &rest);
        }
        // Also where the answer breaks off: the message that follows begins a line.
        if !self.json {
            sink.last_newline();
        }
        let wall_ms = started.elapsed().as_secs_f64() * 1e3;
        let mut reply = reply?;
        reply.text = content.unwrap_or(reply.text);
        if self.json {
            sink.event(self.end(&reply, timeline));
        }
        sink.failed?;
        self.afterwards(session, &reply, wall_ms);
        Ok(reply)
    }

    /// Progress of a prompt that is long enough to wait for.
    fn bar(&self, total: usize) -> ProgressBar {
        if !self.terminal.draws() || total < 64 {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("reading the prompt {wide_bar} {pos}/{len} tokens");
        bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }

    fn start(&self, session: &Session, request: &Request) -> Value {
        let engine = session.engine();
        let plan = engine.plan();
        json!({
            "type": "start",
            "model": engine.gguf().path().display().to_string(),
            "seed": session.params().seed,
            "device": engine.backend().name(),
            "n_ctx": session.n_ctx(),
            "tokens_prompt": request.prompt.len(),
            "sampling": exact(session.params()),
            "bytes": { "weights": plan.bytes.weights, "kv": plan.bytes.kv, "activations": plan.bytes.activations },
            "load_ms": self.load_ms,
        })
    }

    fn end(&self, reply: &Reply, timeline: Option<Timeline>) -> Value {
        let word = if let Finish::Stop(word) = &reply.finish { word.as_str() } else { "" };
        let mut event = json!({
            "type": "end",
            "content": reply.text,
            "tokens": reply.tokens,
            "stop_type": reply.finish.name(),
            "stopping_word": word,
            "timings": reply.timings,
        });
        if let Some(timeline) = timeline {
            event["timeline"] = json!(timeline.steps());
            event["memory"] = machine::memory();
        }
        event
    }

    fn afterwards(&self, session: &Session, reply: &Reply, wall_ms: f64) {
        if reply.finish == Finish::Context {
            let n = session.n_ctx();
            self.terminal.warn(&format!("context full ({n} tokens): the answer is cut off; -c enlarges the context"));
        }
        let t = &reply.timings;
        if let Some(speeds) = speeds(t).filter(|_| self.speeds) {
            // The text goes to a pipe that may end on the same screen, later than this line.
            if !self.terminal.stdout && self.terminal.stderr {
                put("\n");
            }
            self.terminal.print(&speeds);
        }
        if self.perf {
            put(&perf_block(t, self.load_ms, wall_ms));
        }
        let tokens = reply.tokens.len();
        self.terminal.debug(&format!("{tokens} tokens, ended by: {}", reply.finish.name()));
    }
}

/// As JSON with the digits of an f32 (0.95, not 0.949999988079071).
fn exact(params: &SamplerParams) -> Value {
    serde_json::to_string(params).and_then(|text| serde_json::from_str(&text)).unwrap_or_default()
}

/// Where text and events go. After a failure nothing more is written.
struct Sink {
    json: bool,
    out: io::Stdout,
    last: u8,
    failed: io::Result<()>,
}

impl Sink {
    fn token(&mut self, id: Option<u32>, text: &str) {
        if self.json {
            return self.event(json!({ "type": "token", "id": id, "text": text }));
        }
        if let Some(&last) = text.as_bytes().last() {
            self.last = last;
            self.write(text);
        }
    }
    fn event(&mut self, event: Value) {
        self.write(&format!("{event}\n"));
    }
    fn last_newline(&mut self) {
        if self.last != b'\n' {
            self.write("\n");
        }
    }
    fn write(&mut self, text: &str) {
        if self.failed.is_ok() {
            let mut out = self.out.lock();
            self.failed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        }
    }
}

/// The speeds that there are: an answer that is stopped early may have none, one of a single token has one.
fn speeds(t: &Timings) -> Option<String> {
    let speeds = [("Prompt", t.prompt_per_second()), ("Generation", t.predicted_per_second())];
    let measured = speeds.into_iter().filter(|(_, speed)| *speed > 0.0);
    let shown: Vec<String> = measured.map(|(name, speed)| format!("{name}: {speed:.1} t/s")).collect();
    let drafts = (t.draft_n > 0).then(|| format!("Drafts: {} of {} accepted", t.draft_n_accepted, t.draft_n));
    (!shown.is_empty()).then(|| format!("[ {} ]", shown.into_iter().chain(drafts).collect::<Vec<_>>().join(" | ")))
}

/// Times in the layout of llama-completion, for eyes and scripts that know it. *Runs* are decode steps where nothing is guessed:
/// one less than tokens, for the first comes out of the prompt. `wall_ms` is the time of the whole answer by the clock.
fn perf_block(t: &Timings, load_ms: f64, wall_ms: f64) -> String {
    let tokens = t.prompt_n + t.predicted_runs();
    let rest = wall_ms - t.prompt_ms - t.predicted_ms;
    // Without a token there is no speed.
    let rate = |ms: f64, n: usize| {
        let (each, per_second) = (ms / n as f64, n as f64 * 1e3 / ms);
        if n > 0 { format!(" ({each:8.2} ms per token, {per_second:8.2} tokens per second)") } else { String::new() }
    };
    let (prompt, runs) = (rate(t.prompt_ms, t.prompt_n), rate(t.predicted_ms, t.predicted_runs()));
    let lines = [
        // A GPU that chooses the tokens does so within its steps.
        (t.sample_ms > 0.0).then(|| format!("   sampling time = {:10.2} ms / {:5} tokens", t.sample_ms, t.predicted_n)),
        Some(format!("       load time = {load_ms:10.2} ms")),
        Some(format!("prompt eval time = {:10.2} ms / {:5} tokens{prompt}", t.prompt_ms, t.prompt_n)),
        Some(format!("       eval time = {:10.2} ms / {:5} runs  {runs}", t.predicted_ms, t.predicted_runs())),
        (t.draft_n > 0).then(|| {
            let (accepted, drafted) = (t.draft_n_accepted, t.draft_n);
            let rate = accepted as f64 / drafted as f64;
            format!("draft acceptance = {rate:10.5} ({accepted:5} accepted / {drafted:5} generated)")
        }),
        Some(format!("      total time = {wall_ms:10.2} ms / {tokens:5} tokens")),
        Some(format!("unaccounted time = {rest:10.2} ms / {:5.1} %", 100.0 * rest / wall_ms.max(1e-9))),
    ];
    lines.iter().flatten().map(|line| format!("common_perf_print: {}\n", line.trim_end())).collect()
}

/// The conversation in the model's own form, opened for the answer.
///
/// # Errors
/// Exit code 2: the model has no chat template. 3: the template fails, or refuses the conversation.
pub fn render(session: &Session, messages: &[Message], kwargs: &Map<String, Value>) -> Result<String, Exit> {
    let options = Render { kwargs: kwargs.clone(), ..Render::default() };
    match session.engine().render(messages, &options) {
        Some(text) => Ok(text?),
        None => Err(Exit::usage("the model has no chat template")),
    }
}

/// The prompt as the model gets it: the text, and each token on a line of its own.
pub fn verbose_prompt(session: &Session, text: &str, tokens: &[u32]) {
    say(&format!("prompt: {text:?}"));
    say(&format!("number of tokens in prompt = {}", tokens.len()));
    let tokenizer = session.engine().tokenizer();
    for &id in tokens {
        let piece = tokenizer.piece(id);
        let written = if piece.is_empty() { tokenizer.text(id).into() } else { String::from_utf8_lossy(&piece) };
        say(&format!("{id:6} -> {written:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_measured_is_shown() {
        let prompt = Timings { prompt_n: 4, prompt_ms: 8.0, predicted_n: 1, ..Timings::default() };
        let whole = Timings { predicted_n: 3, predicted_ms: 4.0, sample_ms: 1.0, ..prompt };
        let stopped = Timings { prompt_ms: 2471.42, ..Timings::default() };
        for (timings, speed, rates, samples) in [
            (stopped, None, 0, false),
            (prompt, Some("[ Prompt: 500.0 t/s ]"), 1, false),
            (whole, Some("[ Prompt: 500.0 t/s | Generation: 500.0 t/s ]"), 2, true),
        ] {
            assert_eq!(speeds(&timings).as_deref(), speed);
            let block = perf_block(&timings, 1.0, 20.0);
            let found =
                (block.matches("2.00 ms per token,   500.00 tokens per second").count(), block.contains("sampling"));
            assert_eq!(found, (rates, samples), "{block}");
            assert_eq!(block.matches("per token").count(), rates, "{block}");
            assert!(!block.contains("draft"), "{block}");
        }
        let drafts = Timings { draft_n: 12, draft_n_accepted: 9, ..whole };
        assert!(speeds(&drafts).is_some_and(|line| line.ends_with("t/s | Drafts: 9 of 12 accepted ]")));
        let block = perf_block(&drafts, 1.0, 20.0);
        assert!(block.contains("draft acceptance =    0.75000 (    9 accepted /    12 generated)"), "{block}");
    }
}
