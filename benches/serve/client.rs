//! What a client sees: when its tokens arrive.

use std::{
    io::{BufRead, BufReader},
    ops::ControlFlow,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use ureq::Agent;

/// One stream of `/completion`, as it came.
pub struct Answer {
    pub status: u16,
    pub sent: Instant,
    /// When an event came, and how many tokens there were with it.
    pub events: Vec<(Instant, usize)>,
    /// When it was over, or given up.
    pub ended: Instant,
    /// Of the last event; `null` where the stream was given up.
    pub timings: Value,
}

impl Answer {
    /// From the request to its first token.
    pub fn first(&self) -> Result<Duration> {
        let (at, _) = self.events.first().with_context(|| format!("status {}: no token came", self.status))?;
        Ok(*at - self.sent)
    }

    /// Milliseconds between events of which the later one came after `from` and the earlier one before `to`.
    pub fn gaps(&self, from: Instant, to: Instant) -> impl Iterator<Item = f64> {
        let pairs = self.events.windows(2).map(|pair| (pair[0].0, pair[1].0));
        pairs.filter(move |(before, after)| *after > from && *before < to).map(|(before, after)| ms(after - before))
    }

    /// Tokens that came behind `from`, and not behind `to`.
    fn tokens_within(&self, from: Instant, to: Instant) -> usize {
        let until = |moment| self.events.iter().rev().find(|(at, _)| *at <= moment).map_or(0, |(_, tokens)| *tokens);
        until(to) - until(from)
    }
}

/// Milliseconds.
pub fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Tokens per second of answers while all of them come.
///
/// # Errors
/// There is no such time: one has ended before another began.
pub fn together(answers: &[Answer]) -> Result<f64> {
    let began = answers.iter().map(|answer| Some(answer.events.first()?.0)).collect::<Option<Vec<_>>>();
    let ended = answers.iter().map(|answer| Some(answer.events.last()?.0)).collect::<Option<Vec<_>>>();
    let begun = began.and_then(|at| at.into_iter().max()).context("an answer has no token")?;
    let ended = ended.and_then(|at| at.into_iter().min()).context("an answer has no token")?;
    ensure!(begun < ended, "the answers never came together: more tokens are needed");
    let tokens: usize = answers.iter().map(|answer| answer.tokens_within(begun, ended)).sum();
    Ok(tokens as f64 / (ended - begun).as_secs_f64())
}

/// Talks to a server, on connections that nobody else uses.
#[derive(Clone)]
pub struct Client {
    url: String,
}

impl Client {
    pub fn new(url: String) -> Self {
        Self { url }
    }

    fn agent(&self) -> Agent {
        Agent::new_with_config(Agent::config_builder().http_status_as_error(false).build())
    }

    /// The status of `GET /health`.
    pub fn health(&self) -> Result<u16> {
        Ok(self.agent().get(format!("{}/health", self.url)).call()?.status().as_u16())
    }

    /// Streams `n` tokens after a prompt, until `heard` has enough of so many. What the server has computed before serves
    /// where the prompt is `kept`, as its own does later ones.
    pub fn stream(
        &self,
        (prompt, kept): (&[u32], bool),
        n: usize,
        mut heard: impl FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Answer> {
        // Both servers take these names.
        let body = json!({
            "prompt": prompt, "n_predict": n, "stream": true, "temperature": 0, "ignore_eos": true, "cache_prompt": kept,
        });
        let sent = Instant::now();
        let answer = self.agent().post(format!("{}/completion", self.url)).send_json(&body)?;
        let status = answer.status().as_u16();
        let (mut events, mut timings) = (Vec::new(), Value::Null);
        if status == 200 {
            for line in BufReader::new(answer.into_body().into_reader()).lines() {
                let (line, at) = (line?, Instant::now());
                let Some(data) = line.strip_prefix("data: ") else { continue };
                let event: Value =
                    serde_json::from_str(data).with_context(|| format!("expected JSON, found {data}"))?;
                if event["stop"] == true {
                    timings = event["timings"].clone();
                    break;
                }
                let tokens =
                    event["tokens_predicted"].as_u64().with_context(|| format!("no count of tokens: {data}"))?;
                events.push((at, tokens as usize));
                if heard(tokens as usize).is_break() {
                    break;
                }
            }
        }
        Ok(Answer { status, sent, events, ended: Instant::now(), timings })
    }

    /// Streams several at once, to their ends.
    pub fn streams(&self, prompts: &[Vec<u32>], n: usize) -> Result<Vec<Answer>> {
        std::thread::scope(|scope| {
            let whole = |_| ControlFlow::Continue(());
            let threads: Vec<_> =
                prompts.iter().map(|prompt| scope.spawn(move || self.stream((prompt, true), n, whole))).collect();
            let answers = threads.into_iter().map(|thread| thread.join().expect("a client does not panic"));
            let answers: Vec<Answer> = answers.collect::<Result<_>>()?;
            for answer in &answers {
                ensure!(answer.status == 200, "status {}", answer.status);
            }
            Ok(answers)
        })
    }
}
