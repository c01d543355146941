//! Steps with guesses beside steps without, and drafts of a head: what they take, and how much faster a text comes of it where so many
//! of a hundred guesses are right. Guesses are the text as it came token by token, so all are right.

use std::{fs, time::Instant};

use anyhow::{Context, Result, ensure};
use qrun::{
    sampler::SamplerParams,
    tools::{quantize::FileType, synth},
};
use qrun_cuda::Gpu;
use qrun_models::{DraftRequest, Entry, Forward, GpuDecoder, Model, Options, Output, Row, SamplingRequest};
use qrun_quant::Gguf;
use serde_json::{Value, json};

use crate::{Setup, machine::rounded, models};

/// Guesses of a step.
const GUESSES: [usize; 4] = [1, 2, 3, 7];
/// Tokens of the prompt, and of the text that follows it.
const PROMPT: u32 = 64;
const TOKENS: usize = 96;
/// Of a hundred guesses behind right ones these are right.
const RIGHT: [u32; 3] = [80, 65, 50];

/// A row for steps without guesses, and one for each number of them.
pub fn speed(setup: &Setup) -> Result<Value> {
    let (name, tokens) = if setup.dry { ("tiny-qwen35-mtp", 17) } else { ("qwen3.5-9b-mtp", TOKENS) };
    let folder = setup.out.join(models::FOLDER);
    fs::create_dir_all(&folder)?;
    let path = folder.join("model.gguf");
    let mix = FileType::from_name("Q4_K_M").context("a mix of the table")?;
    synth::synth(name, mix, 0, &path, &mut |_, _| {})?;
    let model = Model::load_with_draft_head(&Gguf::open(&path)?)?;
    let n_ctx = PROMPT as usize + tokens + 64;
    let options = Options { n_ctx, n_draft: GUESSES[3], draft_head: true, ..Options::default() };
    let mut decoder = GpuDecoder::new(&Gpu::open(0)?, &model, &options)?;
    let (text, plain) = one_by_one(&mut decoder, tokens)?;
    let mut rows = vec![json!({ "model": name, "guesses": 0, "step ms": rounded(plain) })];
    for n in GUESSES {
        let [draft, step] = in_guesses(&mut decoder, &text, n)?;
        let mut row = json!({ "model": name, "guesses": n, "step ms": rounded(step), "draft ms": rounded(draft) });
        for right in RIGHT {
            row[format!("times as fast at {right} %")] =
                rounded(tokens_of_step(n, right) * plain / (draft + step)).into();
        }
        rows.push(row);
    }
    fs::remove_dir_all(folder)?;
    Ok(rows.into())
}

/// Tokens that a step with so many guesses gives on average.
fn tokens_of_step(n: usize, right: u32) -> f64 {
    (0..=n).map(|i| (f64::from(right) / 100.0).powi(i as i32)).sum()
}

/// Begins the text anew, the likeliest tokens: the first one behind the prompt.
fn begin(decoder: &mut GpuDecoder) -> Result<u32> {
    decoder.rewind(0, 0);
    let prompt: Vec<u32> = (1..=PROMPT).collect();
    let params = SamplerParams { temperature: 0.0, ..SamplerParams::default() };
    let sampling = params.on_device(prompt.len() as u64).context("a sampler that the device has")?;
    decoder.set_sampling(0, &SamplingRequest { sampling, bias: Vec::new(), history: prompt.clone(), masked: false })?;
    Ok(step(decoder, &prompt, 0, |i| (i + 1 == prompt.len(), false))?[0])
}

/// Tokens that a step gives; of each of `tokens`, from position `first` on, whether one is wanted behind it and whether it is a guess.
fn step(decoder: &mut GpuDecoder, tokens: &[u32], first: u32, of: impl Fn(usize) -> (bool, bool)) -> Result<Vec<u32>> {
    let entry = |(i, &token): (usize, &u32)| {
        let (wanted, drafted) = of(i);
        let output = if wanted { Output::Token } else { Output::None };
        Entry { token, pos: first + i as u32, seq: 0, output, drafted }
    };
    let batch: Vec<Entry> = tokens.iter().enumerate().map(entry).collect();
    let rows = decoder.step(&batch[..].into())?;
    rows.iter().map(|row| if let Row::Token(t) = row { Ok(t.token()) } else { anyhow::bail!("no token") }).collect()
}

/// A text, and the milliseconds of a step.
fn one_by_one(decoder: &mut GpuDecoder, tokens: usize) -> Result<(Vec<u32>, f64)> {
    let mut text = vec![begin(decoder)?];
    let mut began = Instant::now();
    for i in 0..tokens {
        text.extend(step(decoder, &text[i..], PROMPT + i as u32, |_| (true, false))?);
        if i == 0 {
            // It was recorded.
            began = Instant::now();
        }
    }
    Ok((text, began.elapsed().as_secs_f64() * 1e3 / (tokens - 1) as f64))
}

/// Milliseconds of a draft and of a step with as many guesses, all right.
fn in_guesses(decoder: &mut GpuDecoder, text: &[u32], n: usize) -> Result<[f64; 2]> {
    ensure!(begin(decoder)? == text[0], "another text");
    let (mut ms, mut steps) = ([0.0; 2], 0);
    for (round, from) in (0..text.len() - n - 1).step_by(n + 1).enumerate() {
        let began = Instant::now();
        let drafts = decoder.draft(&[DraftRequest { seq: 0, token: text[from], most: n }], 0.0);
        let drafted = began.elapsed();
        let found = step(decoder, &text[from..=from + n], PROMPT + from as u32, |i| (true, i > 0))?;
        decoder.accept(0, n);
        ensure!(drafts[0].len() == n && found == text[from + 1..][..=n], "another text with {n} guesses");
        // The first ones were recorded.
        if round > 0 {
            let all = began.elapsed();
            [drafted, all - drafted].iter().zip(&mut ms).for_each(|(time, ms)| *ms += time.as_secs_f64() * 1e3);
            steps += 1;
        }
    }
    Ok(ms.map(|ms| ms / f64::from(steps.max(1))))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_step_gives_its_token_and_guesses_as_far_as_they_are_right() {
        assert_eq!(super::tokens_of_step(0, 80), 1.0);
        assert!((super::tokens_of_step(3, 50) - 1.875).abs() < 1e-12);
    }
}
