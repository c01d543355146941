//! The parameters of sampling: llama.cpp's names, defaults and ranges.

use std::fmt;

use qrun_quant::Gguf;
use serde::{Deserialize, Serialize};

use super::SamplerError;

/// How tokens are chosen. The default is llama.cpp's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SamplerParams {
    /// Same seed, same text.
    pub seed: u64,
    /// 0 or less: always the most probable token.
    pub temperature: f32,
    /// Only tokens whose logit is at most this many standard deviations below the best one; 0 or less: all.
    pub top_n_sigma: f32,
    /// Only the k most probable tokens; 0 or less: all.
    pub top_k: i32,
    /// Only the most probable tokens that hold this share together; 1: all.
    pub top_p: f32,
    /// Only tokens at least this probable, relative to the most probable one; 0: all.
    pub min_p: f32,
    /// Only the tokens of most usual surprise that hold this share together; 1: all.
    pub typical_p: f32,
    /// Divides (or multiplies, below 0) the logits of recent tokens; 1: off.
    pub repeat_penalty: f32,
    /// How many tokens are recent; -1: the whole context, 0: none.
    pub repeat_last_n: i32,
    /// Subtracted from the logit for each recent occurrence.
    pub frequency_penalty: f32,
    /// Subtracted from the logits of all recent tokens.
    pub presence_penalty: f32,
    /// Added to the logits of single tokens; `-inf` forbids one.
    pub logit_bias: Vec<(u32, f32)>,
}

impl Default for SamplerParams {
    fn default() -> Self {
        Self {
            seed: 0,
            temperature: 0.8,
            top_n_sigma: -1.0,
            top_k: 40,
            top_p: 0.95,
            min_p: 0.05,
            typical_p: 1.0,
            repeat_penalty: 1.0,
            repeat_last_n: 64,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            logit_bias: Vec::new(),
        }
    }
}

/// What a model file's `general.sampling.*` did to the parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A default was replaced.
    Set {
        /// The key of the file.
        key: &'static str,
        /// The value before.
        from: String,
        /// The value now.
        to: String,
    },
    /// The file asks for something that is not implemented and is left out.
    Ignored {
        /// The key of the file.
        key: &'static str,
        /// What it asks for.
        value: String,
    },
}

type SwitchOff = fn(&mut SamplerParams);

/// llama.cpp's samplers in its order, and how each is switched off; those that qrun does not have are off in any case.
const SAMPLERS: &[(&str, SwitchOff)] = &[
    ("penalties", |p| p.repeat_last_n = 0),
    ("dry", |_| {}),
    ("top_n_sigma", |p| p.top_n_sigma = 0.0),
    ("top_k", |p| p.top_k = 0),
    ("typ_p", |p| p.typical_p = 1.0),
    ("top_p", |p| p.top_p = 1.0),
    ("min_p", |p| p.min_p = 0.0),
    ("xtc", |_| {}),
    ("temperature", |p| p.temperature = 1.0),
];

/// llama.cpp's names of its samplers, in the order in which they are applied.
pub fn sampler_names() -> Vec<&'static str> {
    SAMPLERS.iter().map(|row| row.0).collect()
}

/// The samplers to apply, by llama.cpp's names (`-` is as good as `_`, `typical_p` as `typ_p`).
///
/// # Errors
/// What was expected: a name that is none of [`sampler_names`], or not in their order.
pub fn parse_samplers<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Vec<&'static str>, String> {
    let mut rest = SAMPLERS.iter().map(|row| row.0);
    let find = |name: &str| {
        let name = name.trim().replace('-', "_");
        let name = if name == "typical_p" { "typ_p" } else { name.as_str() };
        let found = rest.find(|known| *known == name);
        found.ok_or_else(|| format!("names of {} in this order", sampler_names().join(", ")))
    };
    names.into_iter().map(find).collect()
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set { key, from, to } => write!(f, "{key}: {to} (instead of {from})"),
            Self::Ignored { key, value } => write!(f, "{key}: {value} is not supported, ignored"),
        }
    }
}

impl SamplerParams {
    /// Whether the penalties do anything.
    pub fn penalises(&self) -> bool {
        let neutral = self.repeat_penalty == 1.0 && self.frequency_penalty == 0.0 && self.presence_penalty == 0.0;
        self.repeat_last_n != 0 && !neutral
    }

    /// Forbids tokens, for example those that end a text (`--ignore-eos`).
    pub fn forbid(&mut self, tokens: &[u32]) {
        self.logit_bias.extend(tokens.iter().map(|&token| (token, f32::NEG_INFINITY)));
    }

    /// Switches off the samplers that are not among these, by their [`sampler_names`].
    pub fn keep_samplers(&mut self, kept: &[&str]) {
        SAMPLERS.iter().filter(|(name, _)| !kept.contains(name)).for_each(|(_, switch_off)| switch_off(self));
    }

    /// Takes over the `general.sampling.*` values of a model file, except those whose key (without that prefix:
    /// `temp`, `top_k`, `top_p`, `min_p`, `penalty_last_n`, `penalty_repeat`) the user has set.
    ///
    /// # Errors
    /// A key of a wrong type.
    pub fn take_from(&mut self, gguf: &Gguf, user_set: impl Fn(&str) -> bool) -> qrun_quant::Result<Vec<Change>> {
        let mut changes = Vec::new();
        let floats: [(&'static str, &mut f32); 4] = [
            ("general.sampling.temp", &mut self.temperature),
            ("general.sampling.top_p", &mut self.top_p),
            ("general.sampling.min_p", &mut self.min_p),
            ("general.sampling.penalty_repeat", &mut self.repeat_penalty),
        ];
        for (key, field) in floats {
            if let Some(value) = gguf.f32(key)?.filter(|value| value != field && !user_set(short(key))) {
                changes.push(Change::Set { key, from: field.to_string(), to: value.to_string() });
                *field = value;
            }
        }
        let integers: [(&'static str, &mut i32); 2] =
            [("general.sampling.top_k", &mut self.top_k), ("general.sampling.penalty_last_n", &mut self.repeat_last_n)];
        for (key, field) in integers {
            let Some(found) = gguf.get(key) else { continue };
            let value = found.as_f64().filter(|value| value.fract() == 0.0 && f64::from(*value as i32) == *value);
            let value = value.ok_or_else(|| gguf.error(key, "an integer", found.describe()))? as i32;
            if value != *field && !user_set(short(key)) {
                changes.push(Change::Set { key, from: field.to_string(), to: value.to_string() });
                *field = value;
            }
        }
        for key in ["general.sampling.mirostat", "general.sampling.xtc_probability", "general.sampling.sequence"] {
            if let Some(value) = gguf.get(key).filter(|value| value.as_f64() != Some(0.0)) {
                changes.push(Change::Ignored { key, value: value.describe() });
            }
        }
        Ok(changes)
    }

    /// Checks all parameters for a vocabulary of `n_vocab` tokens.
    ///
    /// # Errors
    /// [`SamplerError::Parameter`]: the first one outside of its range, a bias of a token that is not in the
    /// vocabulary, or a vocabulary of no tokens or of more than 2^22.
    pub(super) fn check(&self, n_vocab: usize) -> Result<(), SamplerError> {
        // 2^22 tokens of weight 2^40 still have a total that 64 bits hold.
        if n_vocab == 0 || n_vocab > 1 << 22 {
            return Err(parameter("vocabulary", n_vocab, "1 to 4194304 tokens"));
        }
        let checks = [
            ("temp", self.temperature, self.temperature.is_finite(), "a finite number"),
            ("top-n-sigma", self.top_n_sigma, self.top_n_sigma.is_finite(), "a finite number (0 or less: off)"),
            ("top-p", self.top_p, self.top_p >= 0.0, "0 to 1 (1: off)"),
            ("min-p", self.min_p, (0.0..=1.0).contains(&self.min_p), "0 to 1 (0: off)"),
            ("typical", self.typical_p, self.typical_p >= 0.0, "0 to 1 (1: off)"),
            (
                "repeat-penalty",
                self.repeat_penalty,
                self.repeat_penalty > 0.0 && self.repeat_penalty.is_finite(),
                "more than 0 (1: off)",
            ),
            ("frequency-penalty", self.frequency_penalty, self.frequency_penalty.is_finite(), "a finite number"),
            ("presence-penalty", self.presence_penalty, self.presence_penalty.is_finite(), "a finite number"),
        ];
        if let Some((name, value, _, expected)) = checks.into_iter().find(|(_, _, good, _)| !good) {
            return Err(parameter(name, value, expected));
        }
        if self.repeat_last_n < -1 {
            return Err(parameter("repeat-last-n", self.repeat_last_n, "-1 (the whole context), 0 (off) or more"));
        }
        for &(token, bias) in &self.logit_bias {
            if token as usize >= n_vocab {
                return Err(parameter("logit-bias", format!("for token {token}"), "a token of the vocabulary"));
            }
            if bias.is_nan() || bias == f32::INFINITY {
                return Err(parameter("logit-bias", bias, "a finite number or -inf"));
            }
        }
        Ok(())
    }
}

fn short(key: &'static str) -> &'static str {
    key.trim_start_matches("general.sampling.")
}

fn parameter(name: &'static str, value: impl ToString, expected: &'static str) -> SamplerError {
    SamplerError::Parameter { name, value: value.to_string(), expected }
}

/// `--logit-bias`: a token id, a sign and a number (`15043+1`, `15043-0.5`) or `-inf`.
///
/// # Errors
/// Anything else.
pub fn parse_logit_bias(text: &str) -> Result<(u32, f32), SamplerError> {
    let wrong = || parameter("logit-bias", text, "TOKEN_ID followed by +BIAS or -BIAS, as 15043+1 or 15043-inf");
    let sign = text.find(['+', '-']).ok_or_else(wrong)?;
    let token = text[..sign].trim().parse().map_err(|_| wrong())?;
    let bias: f32 = text[sign..].trim().parse().map_err(|_| wrong())?;
    if bias.is_nan() || bias == f32::INFINITY { Err(wrong()) } else { Ok((token, bias)) }
}

/// The steps in their order, as far as they do something.
impl fmt::Display for SamplerParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut steps = Vec::new();
        if !self.logit_bias.is_empty() {
            steps.push(format!("logit-bias ({} tokens)", self.logit_bias.len()));
        }
        if self.penalises() {
            steps.push(format!(
                "penalties (repeat {}, frequency {}, presence {}, last {})",
                self.repeat_penalty, self.frequency_penalty, self.presence_penalty, self.repeat_last_n
            ));
        }
        let greedy = self.temperature <= 0.0;
        if self.top_n_sigma > 0.0 && !greedy {
            steps.push(format!("top-n-sigma {}", self.top_n_sigma));
        }
        if self.top_k > 0 && !greedy {
            steps.push(format!("top-k {}", self.top_k));
        }
        if self.typical_p < 1.0 {
            steps.push(format!("typical {}", self.typical_p));
        }
        if self.top_p < 1.0 && !greedy {
            steps.push(format!("top-p {}", self.top_p));
        }
        if self.min_p > 0.0 && !greedy {
            steps.push(format!("min-p {}", self.min_p));
        }
        steps.push(if greedy { "greedy".into() } else { format!("temp {}", self.temperature) });
        if !greedy {
            steps.push(format!("seed {}", self.seed));
        }
        f.write_str(&steps.join(" → "))
    }
}
