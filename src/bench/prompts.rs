//! Whole answers to some prompts, one after the other or several at once: the recipe of a public benchmark of four
//! engines (four prompts, greedy, at most 2048 tokens, from the start to the end, loading included).

pub mod report;

use std::{ops::ControlFlow, time::Instant};

use crate::{
    generate::{Event, GenerateError, Reply, Request, Scheduler},
    sampler::SamplerParams,
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
        Request { prompt, max_tokens: Some(self.limit), ignore_eos: self.ignore_eos, fresh: true, ..Request::default() }
    }

    fn unused(&self, reply: &Reply) -> usize {
        self.limit.saturating_sub(reply.tokens.len())
    }

    /// Answers the prompts, each from its first token, as many at once as the scheduler has sequences. Where an answer
    /// ends, the next prompt takes its place.
    ///
    /// # Errors
    /// As [`Scheduler::submit`], and what ends a request.
    pub fn run(&self, scheduler: &mut Scheduler, tick: &mut dyn FnMut(Tick)) -> Result<Answers, GenerateError> {
        let ids = (0..self.prompts.len()).map(|prompt| scheduler.submit(self.request(prompt), greedy()));
        let ids = ids.collect::<Result<Vec<_>, _>>()?;
        let mut replies: Vec<Option<Reply>> = vec![None; ids.len()];
        let (mut prefill_ms, mut decode_ms, mut steps) = (0.0, 0.0, 0);
        while !scheduler.is_idle() {
            let started = Instant::now();
            let rows = scheduler.step(&mut |_, event| {
                if let Event::Token { .. } = event {
                    tick(Tick::Token);
                }
                ControlFlow::Continue(())
            });
            let ms = started.elapsed().as_secs_f64() * 1e3;
            // A step that a prompt shares with decoding counts as the prompt's.
            if rows.prompt > 0 {
                prefill_ms += ms;
            } else {
                decode_ms += ms;
                steps += 1;
            }
            while let Some(finished) = scheduler.finished() {
                let reply = finished.result?;
                tick(Tick::End(self.unused(&reply)));
                if let Some(prompt) = ids.iter().position(|id| *id == finished.id) {
                    replies[prompt] = Some(reply);
                }
            }
        }
        Ok(Answers { replies: replies.into_iter().flatten().collect(), prefill_ms, decode_ms, steps })
    }
}

/// Always the likeliest token.
fn greedy() -> SamplerParams {
    SamplerParams { temperature: 0.0, ..SamplerParams::default() }
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
