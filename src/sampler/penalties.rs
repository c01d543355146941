//! Penalties for tokens that were said lately.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::SamplerParams;

/// The last tokens and how often each of them occurs.
#[derive(Clone, Debug)]
pub struct Penalties {
    repeat: f32,
    frequency: f32,
    presence: f32,
    /// How many tokens are looked at; `None`: all.
    window: Option<usize>,
    recent: VecDeque<u32>,
    counts: FxHashMap<u32, u32>,
}

impl Penalties {
    pub fn new(params: &SamplerParams) -> Self {
        let window = usize::try_from(params.repeat_last_n).ok();
        let mut penalties = Self {
            repeat: params.repeat_penalty,
            frequency: params.frequency_penalty,
            presence: params.presence_penalty,
            window,
            recent: VecDeque::new(),
            counts: FxHashMap::default(),
        };
        if !penalties.are_off() {
            // One more than the window is held for a moment in `accept`.
            let room = window.unwrap_or(0).min(1 << 20) + 1;
            penalties.recent.reserve(room);
            penalties.counts.reserve(room);
        }
        penalties
    }

    pub fn are_off(&self) -> bool {
        self.window == Some(0) || (self.repeat == 1.0 && self.frequency == 0.0 && self.presence == 0.0)
    }

    pub fn accept(&mut self, token: u32) {
        if self.are_off() {
            return;
        }
        self.recent.push_back(token);
        *self.counts.entry(token).or_default() += 1;
        if self.window.is_some_and(|window| self.recent.len() > window)
            && let Some(oldest) = self.recent.pop_front()
            && let Some(count) = self.counts.get_mut(&oldest)
        {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&oldest);
            }
        }
    }

    pub fn reset(&mut self, history: &[u32]) {
        self.recent.clear();
        self.counts.clear();
        let start = self.window.map_or(0, |window| history.len().saturating_sub(window));
        for &token in &history[start..] {
            self.accept(token);
        }
    }

    /// Step 2. Tokens outside of the vocabulary are passed over.
    pub fn apply(&self, logits: &mut [f32]) {
        if self.are_off() {
            return;
        }
        for (&token, &count) in &self.counts {
            if let Some(logit) = logits.get_mut(token as usize) {
                let repeated = if *logit > 0.0 { *logit / self.repeat } else { *logit * self.repeat };
                *logit = repeated - (count as f32 * self.frequency + self.presence);
            }
        }
    }
}
