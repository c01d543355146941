//! How tokens are chosen and what ends an answer: the fields that all dialects share, under all their names.

use std::{sync::Arc, time::Duration};

use qrun_models::Salt;
use serde_json::Value;

use crate::{
    generate::{Finish, Request},
    sampler::{SamplerParams, parse_samplers},
    server::{
        body::OWNER,
        error::ApiError,
        fields::{Fields, brief},
        job::Ask,
        state::{App, Loaded},
    },
    text::tokenizer::Encode,
};

const BIG: f64 = 1e6;

/// A field that is a number, its range, and what it sets.
type Real = (&'static str, f64, f64, fn(&mut SamplerParams, f32));
/// The same of whole numbers.
type Whole = (&'static str, i64, i64, fn(&mut SamplerParams, i32));

#[rustfmt::skip]
const REALS: &[Real] = &[
    ("temperature", -BIG, BIG, |p, x| p.temperature = x),
    ("top_p", 0.0, BIG, |p, x| p.top_p = x),
    ("min_p", 0.0, 1.0, |p, x| p.min_p = x),
    ("typical_p", 0.0, BIG, |p, x| p.typical_p = x),
    ("typ_p", 0.0, BIG, |p, x| p.typical_p = x),
    ("top_n_sigma", -BIG, BIG, |p, x| p.top_n_sigma = x),
    ("repeat_penalty", 1e-6, BIG, |p, x| p.repeat_penalty = x),
    ("presence_penalty", -BIG, BIG, |p, x| p.presence_penalty = x),
    ("frequency_penalty", -BIG, BIG, |p, x| p.frequency_penalty = x),
];

#[rustfmt::skip]
const WHOLES: &[Whole] = &[
    ("top_k", i32::MIN as i64, i32::MAX as i64, |p, n| p.top_k = n),
    ("repeat_last_n", -1, i32::MAX as i64, |p, n| p.repeat_last_n = n),
];

/// Fields that would change the text and that qrun does not have, with the values that change nothing.
const NEUTRAL: &[(&str, &[f64])] = &[
    ("dry_multiplier", &[0.0]),
    ("xtc_probability", &[0.0]),
    ("mirostat", &[0.0]),
    ("dynatemp_range", &[0.0]),
    ("adaptive_target", &[-1.0]),
    ("n_keep", &[0.0, -1.0]),
    ("n_indent", &[0.0]),
    ("min_keep", &[0.0, 1.0]),
    ("n_discard", &[0.0]),
];

/// Longest `cache_salt`, in bytes.
const SALT: usize = 256;

/// Most texts that end an answer, and the longest of them in bytes.
const STOPS: (usize, usize) = (64, 1 << 10);

/// What the fields say of sampling, limits and stop texts, over the server's own settings. `most` names the field for the most
/// tokens of an answer: the first of them that is there counts.
///
/// # Errors
/// A field of a wrong type or outside of its range, or one that asks for what qrun does not have.
pub fn ask(app: &App, model: &Loaded, fields: Fields, most: &[&str]) -> Result<Ask, ApiError> {
    let mut params = model.params.clone();
    for (name, from, to, set) in REALS {
        if let Some(value) = fields.real(name, *from..=*to)? {
            set(&mut params, value);
        }
    }
    for (name, from, to, set) in WHOLES {
        if let Some(value) = fields.whole(name, *from..=*to)? {
            set(&mut params, value as i32);
        }
    }
    for (name, neutral) in NEUTRAL {
        if let Some(value) = fields.get(name).filter(|value| !value.as_f64().is_some_and(|x| neutral.contains(&x))) {
            let why = format!("qrun does not have it; found {}, and only {} is accepted", brief(value), neutral[0]);
            return Err(ApiError::unsupported(name, &why));
        }
    }
    if let Some(list) = fields.list("lora")?.filter(|list| !list.is_empty()) {
        return Err(ApiError::unsupported("lora", &format!("adapters are not implemented, found {}", list.len())));
    }
    samplers(fields, &mut params)?;
    params.logit_bias.extend(logit_bias(model, fields)?);
    params.seed = match fields.whole("seed", -1..=i64::MAX)? {
        Some(seed) if seed >= 0 => seed as u64,
        None if model.seed_said => params.seed,
        _ => app.seed().into(),
    };
    let ignore_eos = fields.flag("ignore_eos")?.unwrap_or(false);
    if ignore_eos {
        params.forbid(&model.engine.tokenizer().eog().collect::<Vec<_>>());
    }
    let request = Request {
        // The server's own limit holds for all.
        max_tokens: match (max_tokens(fields, most)?.flatten(), model.max_tokens) {
            (Some(asked), Some(most)) => Some(asked.min(most)),
            (asked, most) => asked.or(most),
        },
        stops: stops(fields, "stop")?,
        fresh: !fields.flag("cache_prompt")?.unwrap_or(app.options.cache_prompt),
        salt: salt(app, fields)?,
        slot: fields.whole("id_slot", -1..=i64::MAX)?.and_then(|slot| usize::try_from(slot).ok()),
        ..Request::default()
    };
    let time = fields.whole("t_max_predict_ms", i64::MIN..=i64::MAX)?.filter(|&ms| ms > 0);
    let time = time.map(|ms| Duration::from_millis(ms as u64));
    Ok(Ask { n: 1, params, request, time, ..Ask::default() })
}

/// `cache_salt`, and the request's key where the cache is each key's own.
///
/// # Errors
/// A salt that is no text, or too long.
pub fn salt(app: &App, fields: Fields) -> Result<Salt, ApiError> {
    let given = fields.text("cache_salt")?.unwrap_or_default();
    if given.len() > SALT {
        return Err(ApiError::field("cache_salt", &format!("at most {SALT} bytes"), given.len()));
    }
    // No header has a line break: up to the first one it is the key.
    let owner = || fields.text(OWNER).ok().flatten().unwrap_or_default();
    let salt = if app.options.cache_per_key { format!("{}\n{given}", owner()) } else { given.to_owned() };
    Ok(Some(salt).filter(|salt| !salt.is_empty()).map(Arc::from))
}

/// The most tokens of an answer, where one of the fields says so; a negative number: no limit.
fn max_tokens(fields: Fields, names: &[&str]) -> Result<Option<Option<usize>>, ApiError> {
    for name in names {
        if let Some(n) = fields.whole(name, i64::MIN..=i64::MAX)? {
            return Ok(Some(usize::try_from(n).ok()));
        }
    }
    Ok(None)
}

/// The texts that end an answer: one, or a list.
///
/// # Errors
/// 400: something else, more than 64 texts, or one of more than 1024 bytes.
pub fn stops(fields: Fields, name: &str) -> Result<Vec<String>, ApiError> {
    let wrong = |found: &Value| ApiError::field(name, "a text or a list of texts", brief(found));
    let stops = match fields.get(name) {
        None => Vec::new(),
        Some(Value::String(text)) => vec![text.clone()],
        Some(Value::Array(list)) => list
            .iter()
            .map(|item| item.as_str().map(str::to_owned).ok_or_else(|| wrong(item)))
            .collect::<Result<_, _>>()?,
        Some(other) => return Err(wrong(other)),
    };
    let stops: Vec<String> = stops.into_iter().filter(|stop| !stop.is_empty()).collect();
    if stops.len() > STOPS.0 || stops.iter().any(|stop| stop.len() > STOPS.1) {
        let found = format!("{} of up to {} bytes", stops.len(), stops.iter().map(String::len).max().unwrap_or(0));
        return Err(ApiError::field(name, &format!("at most {} texts of {} bytes", STOPS.0, STOPS.1), found));
    }
    Ok(stops)
}

/// Why an answer ended, in llama-server's words.
pub struct Stop<'a> {
    /// `none`, `eos`, `limit` or `word`.
    pub kind: &'static str,
    /// The text that ended it, or "".
    pub word: &'a str,
}

impl<'a> Stop<'a> {
    pub fn of(finish: &'a Finish) -> Self {
        match finish {
            Finish::Eos => Self { kind: "eos", word: "" },
            Finish::Limit | Finish::Context => Self { kind: "limit", word: "" },
            Finish::Stop(word) => Self { kind: "word", word },
            Finish::Interrupted => Self { kind: "none", word: "" },
        }
    }
}

/// `samplers`: a subset of them, in their order.
fn samplers(fields: Fields, params: &mut SamplerParams) -> Result<(), ApiError> {
    let Some(list) = fields.list("samplers")? else { return Ok(()) };
    let names = list.iter().map(|item| item.as_str().unwrap_or_default());
    let wrong = |expected: String| ApiError::field("samplers", &expected, Value::from(list.to_vec()));
    params.keep_samplers(&parse_samplers(names).map_err(wrong)?);
    Ok(())
}

/// `logit_bias`: pairs of a token (its id, or a text whose tokens are meant) and a number or false (never); or an object of
/// such pairs.
fn logit_bias(model: &Loaded, fields: Fields) -> Result<Vec<(u32, f32)>, ApiError> {
    let tokenizer = model.engine.tokenizer();
    let wrong = |found: &Value| ApiError::field("logit_bias", "pairs of a token and a number or false", brief(found));
    let bias = |value: &Value| match value {
        Value::Bool(false) => Some(f32::NEG_INFINITY),
        value => value.as_f64().map(|x| x as f32).filter(|x| x.is_finite()),
    };
    let tokens = |token: &Value| match token {
        Value::String(text) => tokenizer.encode(text, Encode { add_special: false, parse_special: true }).ok(),
        token => Some(vec![u32::try_from(token.as_u64()?).ok()?]),
    };
    let mut all = Vec::new();
    let mut take = |token: &Value, value: &Value| {
        let (ids, bias) = (tokens(token)?, bias(value)?);
        // A token that is not in the vocabulary cannot be chosen either.
        all.extend(ids.into_iter().filter(|&id| (id as usize) < tokenizer.n_vocab()).map(|id| (id, bias)));
        Some(())
    };
    match fields.get("logit_bias") {
        None => {}
        Some(Value::Array(pairs)) => {
            for pair in pairs {
                let found = match pair.as_array().map(Vec::as_slice) {
                    Some([token, value]) => take(token, value),
                    _ => None,
                };
                found.ok_or_else(|| wrong(pair))?;
            }
        }
        Some(Value::Object(pairs)) => {
            for (token, value) in pairs {
                let token = token.parse::<u32>().map_or_else(|_| token.as_str().into(), Value::from);
                take(&token, value).ok_or_else(|| wrong(value))?;
            }
        }
        Some(other) => return Err(wrong(other)),
    }
    Ok(all)
}
