//! Whole answers to some prompts, one after the other or several at once: the recipe of a public benchmark of four
//! engines (four prompts, greedy, at most 2048 tokens, from the start to the end, loading included).

pub mod report;

use std::{ops::ControlFlow, time::Instant};

use qrun_models::{Entry, Forward, Output};

use crate::{
    sampler::{Sampler, SamplerParams},
    session::{Answer, Engine, Finish, Reply, Request, Session, SessionError},
};

/// What is answered.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptSet {
    /// The prompts, in tokens.
    pub prompts: Vec<Vec<u32>>,
    /// Most tokens of an answer.
    pub limit: usize,
    /// Go on after a token that ends an answer.
    pub ignore_eos: bool,
}

/// The answers, and where the time went.
#[derive(Debug, Clone)]
pub struct Answers {
    /// In the order of the prompts.
    pub replies: Vec<Reply>,
    /// Milliseconds for the prompts, the choice of each first token included.
    pub prefill_ms: f64,
    /// Milliseconds for all other tokens.
    pub decode_ms: f64,
    /// Steps of decoding: each reads the weights once, for as many tokens as are in the batch.
    pub steps: usize,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tick {
    /// One more token.
    Token,
    /// An answer has ended with so many tokens less than it might have had.
    End(usize),
}

/// The prompts of a file: its lines that are not empty, or the strings of a JSON array.
///
/// # Errors
/// What is wrong with the text.
pub fn parse(text: &str) -> Result<Vec<String>, String> {
    let prompts: Vec<String> = if text.trim_start().starts_with('[') {
        serde_json::from_str(text).map_err(|e| format!("expected a JSON array of strings: {e}"))?
    } else {
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
    };
    if prompts.is_empty() {
        return Err("expected a prompt on each line, or a JSON array of strings; found none".into());
    }
    Ok(prompts)
}

impl PromptSet {
    /// Tokens of context that the longest answer may fill.
    pub fn n_ctx(&self) -> usize {
        self.prompts.iter().map(Vec::len).max().unwrap_or(0).saturating_add(self.limit)
    }

    fn request(&self, prompt: usize) -> Request {
        let prompt = self.prompts[prompt].clone();
        Request { prompt, limit: Some(self.limit), ignore_eos: self.ignore_eos, ..Request::default() }
    }

    fn unused(&self, reply: &Reply) -> usize {
        self.limit.saturating_sub(reply.tokens.len())
    }

    /// Answers one prompt after the other, each on an empty cache.
    ///
    /// # Errors
    /// As [`Session::generate`].
    pub fn run_sequential(&self, session: &mut Session, tick: &mut dyn FnMut(Tick)) -> Result<Answers, SessionError> {
        let mut answers = Answers { replies: Vec::new(), prefill_ms: 0.0, decode_ms: 0.0, steps: 0 };
        *session.params_mut() = greedy();
        for prompt in 0..self.prompts.len() {
            session.clear();
            let reply = session.generate(&self.request(prompt), &mut |event| {
                if let crate::session::Event::Token { .. } = event {
                    tick(Tick::Token);
                }
                ControlFlow::Continue(())
            })?;
            tick(Tick::End(self.unused(&reply)));
            answers.prefill_ms += reply.timings.prompt_ms;
            answers.decode_ms += reply.timings.predicted_ms;
            answers.steps += reply.timings.predicted_runs();
            answers.replies.push(reply);
        }
        Ok(answers)
    }

    /// Answers up to `n` prompts at once on a decoder that was opened for as many sequences: one batch per step. Where
    /// an answer ends, the next prompt takes its place.
    ///
    /// # Errors
    /// As [`Session::generate`].
    pub fn run_batched(
        &self,
        engine: &Engine,
        forward: &mut dyn Forward,
        n: usize,
        tick: &mut dyn FnMut(Tick),
    ) -> Result<Answers, SessionError> {
        let mut running = Running {
            work: self,
            engine,
            places: (0..n.min(self.prompts.len())).map(|_| None).collect(),
            replies: vec![None; self.prompts.len()],
            waiting: 0,
            sampler: Sampler::new(greedy(), forward.n_vocab())?,
        };
        let (mut prefill_ms, mut decode_ms, mut steps) = (0.0, 0.0, 0);
        loop {
            let started = Instant::now();
            let prompts = running.admit(forward)?;
            if !prompts.is_empty() {
                running.step(forward, &prompts, tick)?;
                prefill_ms += started.elapsed().as_secs_f64() * 1e3;
                continue;
            }
            let batch = running.batch();
            if batch.is_empty() {
                break;
            }
            running.step(forward, &batch, tick)?;
            decode_ms += started.elapsed().as_secs_f64() * 1e3;
            steps += 1;
        }
        let replies = running.replies.into_iter().flatten().collect();
        Ok(Answers { replies, prefill_ms, decode_ms, steps })
    }
}

/// Always the likeliest token.
fn greedy() -> SamplerParams {
    SamplerParams { temperature: 0.0, ..SamplerParams::default() }
}

/// Answers in the making.
struct Running<'a> {
    work: &'a PromptSet,
    engine: &'a Engine,
    /// One per sequence of the decoder.
    places: Vec<Option<Sequence>>,
    replies: Vec<Option<Reply>>,
    /// The first prompt that has no place yet.
    waiting: usize,
    /// One for all: what a greedy choice takes is in the logits.
    sampler: Sampler,
}

struct Sequence {
    prompt: usize,
    /// Tokens in the cache once the present step is done.
    len: usize,
    /// The token that the next step feeds.
    token: u32,
    answer: Answer,
}

impl Running<'_> {
    /// Gives free places to waiting prompts: all their tokens, as one batch.
    fn admit(&mut self, forward: &mut dyn Forward) -> Result<Vec<Entry>, SessionError> {
        let mut batch = Vec::new();
        for (seq, place) in self.places.iter_mut().enumerate().filter(|(_, place)| place.is_none()) {
            let Some(tokens) = self.work.prompts.get(self.waiting) else { break };
            let last = tokens.len().checked_sub(1).ok_or(SessionError::EmptyPrompt)?;
            let entry = |(pos, &token): (usize, &u32)| Entry {
                token,
                pos: pos as u32,
                seq: seq as u32,
                output: Output::logits_if(pos == last),
            };
            forward.rewind(seq as u32, 0);
            batch.extend(tokens.iter().enumerate().map(entry));
            let answer = Answer::new(&self.work.request(self.waiting));
            *place = Some(Sequence { prompt: self.waiting, len: tokens.len(), token: 0, answer });
            self.waiting += 1;
        }
        Ok(batch)
    }

    /// One token of each answer that goes on.
    fn batch(&mut self) -> Vec<Entry> {
        let sequences = self.places.iter_mut().enumerate().filter_map(|(seq, place)| Some((seq, place.as_mut()?)));
        let entry = |(seq, sequence): (usize, &mut Sequence)| {
            let pos = sequence.len as u32;
            sequence.len += 1;
            Entry { token: sequence.token, pos, seq: seq as u32, output: Output::Logits }
        };
        sequences.map(entry).collect()
    }

    /// Runs a batch and takes the next token of each sequence whose logits it gives.
    fn step(
        &mut self,
        forward: &mut dyn Forward,
        batch: &[Entry],
        tick: &mut dyn FnMut(Tick),
    ) -> Result<(), SessionError> {
        let (n_vocab, n_ctx) = (forward.n_vocab(), forward.n_ctx());
        let logits = forward.forward(batch)?;
        let sequences = batch.iter().filter(|entry| entry.output != Output::None).map(|entry| entry.seq as usize);
        for (seq, logits) in sequences.zip(logits.chunks_exact(n_vocab)) {
            let Some(mut sequence) = self.places[seq].take() else { continue };
            sequence.token = self.sampler.sample(logits)?;
            tick(Tick::Token);
            match sequence.take(self.engine, n_ctx) {
                None => self.places[seq] = Some(sequence),
                Some(finish) => {
                    let reply = sequence.answer.end(finish, &mut |_| ControlFlow::Continue(()));
                    tick(Tick::End(self.work.unused(&reply)));
                    self.replies[sequence.prompt] = Some(reply);
                }
            }
        }
        Ok(())
    }
}

impl Sequence {
    /// Takes the chosen token; says why the answer ends, if it does.
    fn take(&mut self, engine: &Engine, n_ctx: usize) -> Option<Finish> {
        let finish = self.answer.take(self.token, engine, &mut |_| ControlFlow::Continue(()));
        let full = || {
            if self.answer.tokens.len() >= self.answer.limit {
                Some(Finish::Limit)
            } else {
                (self.len >= n_ctx).then_some(Finish::Context)
            }
        };
        finish.or_else(full)
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn prompts_are_lines_or_json() {
        let two = ["a b".to_owned(), "c".to_owned()];
        for text in ["a b\nc", "\n a b \r\n\n\tc\n", "[\"a b\", \"c\"]", " [\n\"a b\",\"c\"\n]\n"] {
            assert_eq!(parse(text).as_deref(), Ok(two.as_slice()), "{text:?}");
        }
        for (text, part) in
            [("", "none"), (" \n\n", "none"), ("[]", "none"), ("[1]", "JSON array"), ("[a]", "JSON array")]
        {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }
}
