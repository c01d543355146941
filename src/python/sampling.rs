//! From keywords to a request and its sampler. The names are checked in Python, the ranges by the sampler.

use std::sync::{Arc, PoisonError};

use pyo3::{prelude::*, types::PyByteArray};
use qrun::{
    engine::Engine,
    generate::Request,
    sampler::{LogitsProcessor, SamplerParams},
};

use crate::{answer::Raised, errors::usage, fields::Fields, work};

/// Most texts that end an answer.
const STOPS: usize = 256;

/// What the keywords say over `base`, which is llama.cpp's and the file's. The request has no prompt yet.
///
/// # Errors
/// A value of a wrong type.
pub fn read(engine: &Engine, base: &SamplerParams, fields: &Fields) -> PyResult<(Request, SamplerParams)> {
    let mut params = base.clone();
    let reals: [(&str, &mut f32); 8] = [
        ("temperature", &mut params.temperature),
        ("top_p", &mut params.top_p),
        ("min_p", &mut params.min_p),
        ("typical_p", &mut params.typical_p),
        ("top_n_sigma", &mut params.top_n_sigma),
        ("repeat_penalty", &mut params.repeat_penalty),
        ("presence_penalty", &mut params.presence_penalty),
        ("frequency_penalty", &mut params.frequency_penalty),
    ];
    for (name, field) in reals {
        if let Some(value) = fields.real(name)? {
            *field = value;
        }
    }
    for (name, field) in [("top_k", &mut params.top_k), ("repeat_last_n", &mut params.repeat_last_n)] {
        if let Some(value) = fields.whole(name)? {
            *field = value.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        }
    }
    params.seed = match fields.whole("seed")? {
        Some(seed) if seed >= 0 => seed as u64,
        _ => random_seed().into(),
    };
    if let Some(pairs) = fields.get::<Vec<(u32, f32)>>("logit_bias", "pairs of a token and a number")? {
        params.logit_bias.extend(pairs);
    }
    let ignore_eos = fields.flag("ignore_eos")?;
    if ignore_eos {
        params.forbid(&engine.tokenizer().eog().collect::<Vec<_>>());
    }
    let stops = fields.get::<Vec<String>>("stop", "a list of texts")?.unwrap_or_default();
    if stops.len() > STOPS {
        return Err(usage(format!("stop: expected at most {STOPS} texts, found {}", stops.len())));
    }
    let request = Request {
        max_tokens: fields.whole("max_tokens")?.and_then(|n| usize::try_from(n).ok()),
        stops: stops.into_iter().filter(|stop| !stop.is_empty()).collect(),
        special: fields.flag("special")?,
        n_probs: fields.whole("logprobs")?.map(|n| usize::try_from(n).unwrap_or(0)),
        ..Request::default()
    };
    Ok((request, params))
}

/// Another number each time, from the randomness that the standard library takes from the system.
fn random_seed() -> u32 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish() as u32
}

/// The keyword `logits_processor`: called on the thread of the scheduler with the tokens so far and a bytearray of the
/// logits (f32 in the machine's order), which it changes in place. What it raises ends the answer.
///
/// # Errors
/// `TypeError`: it cannot be called.
pub fn processor(fields: &Fields, raised: &Raised) -> PyResult<Option<LogitsProcessor>> {
    let Some(call) = fields.raw("logits_processor")?.map(Bound::unbind) else { return Ok(None) };
    let raised = raised.clone();
    let process = move |tokens: &[u32], logits: &mut [f32]| {
        let done = work::in_python(|py| -> PyResult<()> {
            let bytes: Vec<u8> = logits.iter().flat_map(|logit| logit.to_ne_bytes()).collect();
            let buffer = PyByteArray::new(py, &bytes);
            call.call1(py, (tokens, &buffer))?;
            let bytes = buffer.to_vec();
            if bytes.len() != 4 * logits.len() {
                return Err(usage("logits_processor: the number of logits has changed"));
            }
            let words = bytes.as_chunks::<4>().0.iter().map(|word| f32::from_ne_bytes(*word));
            logits.iter_mut().zip(words).for_each(|(logit, word)| *logit = word);
            Ok(())
        });
        match done {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => {
                let text = error.to_string();
                *raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                Err(text)
            }
            None => Err("the interpreter is ending".into()),
        }
    };
    Ok(Some(LogitsProcessor(Arc::new(process))))
}
