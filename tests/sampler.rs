//! Sampling: llama.cpp's survivors and probabilities, exact draws, and the distribution of many.

use std::path::Path;
use std::time::Instant;

use qrun::sampler::{Change, Sampler, SamplerError, SamplerParams, parse_logit_bias, philox4x32, weight};
use qrun_quant::{Bytes, Gguf};
use serde_json::Value;

/// A word of splitmix64.
pub fn mix(seed: u64, i: u64) -> u64 {
    let mut z = seed.wrapping_add((i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

/// The logits of `tests/data/sampler/make.py`: a bell, for "peak" with one token pushed up.
fn logits(seed: u64, n: usize, peak: bool) -> Vec<f32> {
    let one = |i: usize| {
        let z = mix(seed, i as u64);
        let bell = (0..4).map(|k| (z >> (16 * k) & 0xFFFF) as i64).sum::<i64>() - 2 * 0xFFFF;
        (bell.div_euclid(4) + if peak && i == n / 3 { 5 * 4096 } else { 0 }) as f32 / 4096.0
    };
    (0..n).map(one).collect()
}

fn params(change: impl FnOnce(&mut SamplerParams)) -> SamplerParams {
    let mut params = SamplerParams::default();
    change(&mut params);
    params
}

#[test]
fn llama_cpp_keeps_the_same_tokens_with_the_same_probabilities() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sampler/cases.json");
    let cases: Value = serde_json::from_str(&std::fs::read_to_string(path).expect("cases.json")).expect("JSON");
    let cases = cases.as_array().expect("cases");
    assert!(cases.len() > 50);
    for case in cases {
        let n = case["n"].as_u64().expect("n") as usize;
        let values = logits(case["seed"].as_u64().expect("a seed"), n, case["shape"] == "peak");
        let params: SamplerParams = serde_json::from_value(case["params"].clone()).expect("parameters");
        let mut sampler = Sampler::new(params, n).expect("a sampler");
        for token in case["history"].as_array().into_iter().flatten() {
            sampler.accept(token.as_u64().expect("a token") as u32);
        }
        let got = sampler.distribution(&values).expect("a distribution");
        let place = format!("{} of {n}, {}", case["params"], case["shape"]);
        // llama.cpp leaves greedy's losers out of the set.
        assert_eq!(got.len() as u64, case["size"].as_u64().expect("size"), "{place}");
        let expected = case["tokens"].as_array().expect("tokens").iter().zip(case["p"].as_array().expect("p"));
        // Equal logits: ours go by id, the script sorts so too.
        for ((token, p), (expected_token, expected_p)) in got.iter().zip(expected) {
            let expected_p = expected_p.as_f64().expect("p");
            assert_eq!(u64::from(*token), expected_token.as_u64().expect("a token"), "{place}");
            assert!((p - expected_p).abs() <= 2e-5 * expected_p + 1e-9, "{place}: token {token} {p} {expected_p}");
        }
        let total: f64 = got.iter().map(|(_, p)| p).sum();
        assert!((total - 1.0).abs() < 1e-9, "{place}: {total}");
    }
}

/// The 99.99 % point of chi-square with `k` degrees of freedom (Wilson and Hilferty, 1931).
fn chi_square_bound(k: f64) -> f64 {
    let z = 3.719;
    let h = 2.0 / (9.0 * k);
    k * (1.0 - h + z * h.sqrt()).powi(3)
}

#[test]
fn many_draws_have_the_distribution() {
    const DRAWS: u32 = 50_000;
    let cases = [
        params(|_| {}),
        params(|p| p.temperature = 2.5),
        params(|p| (p.top_k, p.min_p, p.top_p) = (0, 0.0, 1.0)),
        params(|p| (p.top_k, p.top_p, p.min_p, p.temperature) = (12, 1.0, 0.0, 1.0)),
        params(|p| (p.typical_p, p.min_p) = (0.6, 0.0)),
        params(|p| (p.top_n_sigma, p.min_p) = (1.5, 0.0)),
        params(|p| p.logit_bias = vec![(5, 3.0), (9, f32::NEG_INFINITY)]),
    ];
    for (number, mut params) in cases.into_iter().enumerate() {
        for seed in [1, 2, u64::MAX - 7] {
            params.seed = seed;
            let n = 60;
            let values = logits(77 + number as u64, n, false);
            let mut sampler = Sampler::new(params.clone(), n).expect("a sampler");
            let expected = sampler.distribution(&values).expect("a distribution");
            let mut counts = vec![0u32; n];
            for _ in 0..DRAWS {
                let token = sampler.sample(&values).expect("a token");
                counts[token as usize] += 1;
                sampler.accept(token);
            }
            // Rare tokens share one cell, as the test wants 5 expected draws in each.
            let (mut square, mut cells, mut rest) = (0.0, 0.0, (0.0, 0.0));
            for (token, p) in &expected {
                let (want, have) = (p * f64::from(DRAWS), f64::from(counts[*token as usize]));
                if want >= 5.0 {
                    square += (have - want).powi(2) / want;
                    cells += 1.0;
                } else {
                    rest = (rest.0 + want, rest.1 + have);
                }
                counts[*token as usize] = 0;
            }
            if rest.0 > 0.0 {
                square += (rest.1 - rest.0).powi(2) / rest.0.max(1.0);
                cells += 1.0;
            }
            let place = format!("case {number}, seed {seed}: {square} over {cells} cells");
            assert!(counts.iter().all(|&count| count == 0), "{place}: a token outside of the set was drawn");
            assert!(cells > 2.0 && square < chi_square_bound(cells - 1.0), "{place}");
        }
    }
}

#[test]
fn a_draw_depends_on_seed_and_position_alone() {
    let n = 300;
    let text = |seed: u64, prompt: &[u32]| {
        let mut sampler = Sampler::new(params(|p| (p.seed, p.repeat_penalty) = (seed, 1.1)), n).expect("a sampler");
        sampler.reset(prompt);
        let mut tokens = prompt.to_vec();
        while tokens.len() < 64 {
            let token = sampler.sample(&logits(tokens.len() as u64, n, false)).expect("a token");
            assert_eq!(sampler.sample(&logits(tokens.len() as u64, n, false)), Ok(token), "a sample changes nothing");
            sampler.accept(token);
            tokens.push(token);
        }
        tokens
    };
    let whole = text(42, &[]);
    assert_eq!(whole, text(42, &[]));
    assert_ne!(whole, text(43, &[]));
    for cut in [1, 7, 31, 63] {
        assert_eq!(whole, text(42, &whole[..cut]), "continued after {cut} tokens");
    }
}

#[test]
fn philox_gives_the_published_numbers() {
    // Known answers of Random123 for philox4x32-10.
    let known: [(u64, [u32; 4], [u32; 4]); 3] = [
        (0, [0; 4], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
        (u64::MAX, [u32::MAX; 4], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
        (
            0x299f_31d0_a409_3822,
            [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
        ),
    ];
    for (key, counter, expected) in known {
        assert_eq!(philox4x32(key, counter), expected);
    }
}

#[test]
fn weights_are_the_exponential() {
    assert_eq!(weight(0.0), 1 << 40);
    assert_eq!(weight(-0.0), 1 << 40);
    assert_eq!(weight(f32::NEG_INFINITY), 0);
    assert_eq!(weight(-28.0), 0);
    let mut last = u64::MAX;
    for step in 0..28_000 {
        let x = -(step as f32) / 1024.0;
        let (got, exact) = (weight(x), f64::from(x).exp() * 2f64.powi(40));
        assert!((got as f64 - exact).abs() <= exact * 2f64.powi(-36) + 1.0, "{x}: {got} {exact}");
        assert!(got <= last, "{x}");
        last = got;
    }
}

/// The specification word for word, by sorting everything: what `Sampler` must agree with.
fn plain(params: &SamplerParams, values: &[f32]) -> Vec<u32> {
    let mut set: Vec<(u32, f32)> = values.iter().copied().enumerate().map(|(i, l)| (i as u32, l)).collect();
    set.retain(|(_, l)| *l > f32::NEG_INFINITY);
    set.sort_by(|a, b| b.1.partial_cmp(&a.1).expect("no NaN").then(a.0.cmp(&b.0)));
    if params.top_k > 0 {
        set.truncate(params.top_k as usize);
    }
    let max = set[0].1;
    let prefix = |set: &[(u32, f32)], enough: &dyn Fn(f64, f64) -> bool| {
        let weights: Vec<u64> = set.iter().map(|(_, l)| weight(l - max)).collect();
        let total = weights.iter().sum::<u64>() as f64;
        let mut sum = 0;
        let end = weights.iter().position(|w| {
            sum += w;
            enough(sum as f64, total)
        });
        end.map_or(set.len(), |end| end + 1)
    };
    if params.top_p < 1.0 {
        set.truncate(prefix(&set, &|sum, total| sum >= f64::from(params.top_p) * total));
    }
    if params.min_p > 0.0 {
        set.retain(|(_, l)| *l >= max + params.min_p.ln());
    }
    set.iter().map(|(token, _)| *token).collect()
}

#[test]
fn fast_selection_keeps_what_sorting_keeps() {
    for trial in 0..400u64 {
        let pick = |salt: u64, among: &[f32]| among[(mix(trial, salt) % among.len() as u64) as usize];
        let n = [1, 2, 7, 64, 65, 500, 3000][(trial % 7) as usize];
        let mut values = logits(trial, n, trial % 2 == 0);
        // Coarse steps make ties, a rising or falling row is the worst case of a running threshold.
        match trial % 5 {
            0 => values.iter_mut().for_each(|l| *l = l.floor()),
            1 => values.sort_by(f32::total_cmp),
            2 => values.fill(if trial % 10 == 2 { -0.0 } else { 3.5 }),
            3 => values.iter_mut().step_by(3).for_each(|l| *l = f32::NEG_INFINITY),
            _ => {}
        }
        if values.iter().all(|l| *l == f32::NEG_INFINITY) {
            continue;
        }
        let params = params(|p| {
            p.top_k = pick(1, &[0.0, 1.0, 3.0, 40.0, 1000.0, -1.0]) as i32;
            p.top_p = pick(2, &[1.0, 0.95, 0.5, 0.999, 0.0]);
            p.min_p = pick(3, &[0.0, 0.05, 0.3]);
        });
        let mut sampler = Sampler::new(params.clone(), n).expect("a sampler");
        let drawn = sampler.sample(&values).expect("a token");
        assert!(plain(&params, &values).contains(&drawn), "trial {trial}: {drawn}");
        let got: Vec<u32> = sampler.distribution(&values).expect("a set").iter().map(|(token, _)| *token).collect();
        assert_eq!(got, plain(&params, &values), "trial {trial}: {params}, {n} tokens");
    }
}

#[test]
fn greedy_takes_the_first_of_the_best() {
    let greedy = params(|p| p.temperature = 0.0);
    for n in [1, 8, 9, 30] {
        for best in 0..n {
            let mut values = vec![f32::MIN; n];
            values[best..].fill(2.0);
            let mut sampler = Sampler::new(greedy.clone(), n).expect("a sampler");
            assert_eq!(sampler.sample(&values), Ok(best as u32));
        }
    }
}

#[test]
fn bad_logits_are_errors_not_tokens() {
    for temperature in [0.0, 0.8] {
        for top_k in [0, 2] {
            let params = params(|p| (p.temperature, p.top_k) = (temperature, top_k));
            let mut sampler = Sampler::new(params, 20).expect("a sampler");
            for at in 0..20 {
                for bad in [f32::NAN, f32::INFINITY] {
                    let mut values = logits(1, 20, true);
                    values[at] = bad;
                    let error = sampler.sample(&values).expect_err("a bad logit");
                    assert!(matches!(error, SamplerError::NotFinite { token, .. } if token as usize == at), "{error}");
                }
            }
            assert_eq!(sampler.sample(&[f32::NEG_INFINITY; 20]), Err(SamplerError::NoToken));
            assert_eq!(sampler.sample(&[0.0; 19]), Err(SamplerError::Length { expected: 20, found: 19 }));
        }
    }
}

/// What llama.cpp does: mean and standard deviation of all logits that are not excluded, before top-k.
#[test]
fn top_n_sigma_keeps_what_lies_within_the_deviation_of_all_logits() {
    for (seed, n, peak) in [(1, 60, false), (2, 1000, true), (3, 1000, false), (4, 40_000, true)] {
        let mut values = logits(seed, n, peak);
        values[n / 2] = f32::NEG_INFINITY;
        let finite = || values.iter().filter(|x| x.is_finite()).map(|&x| f64::from(x));
        let count = finite().count() as f64;
        let mean = finite().sum::<f64>() / count;
        let sigma = (finite().map(|x| (x - mean).powi(2)).sum::<f64>() / count).sqrt();
        let max = finite().fold(f64::NEG_INFINITY, f64::max);
        for wide in [0.25f32, 1.0, 2.0, 100.0] {
            for top_k in [0, 5] {
                let params = params(|p| {
                    (p.top_n_sigma, p.top_k, p.top_p, p.min_p) = (wide, top_k, 1.0, 0.0);
                });
                let mut sampler = Sampler::new(params, n).expect("a sampler");
                let kept = sampler.distribution(&values).expect("a distribution").len();
                let within = finite().filter(|&x| x >= max - f64::from(wide) * sigma).count();
                let expected = if top_k > 0 { within.min(5) } else { within };
                assert_eq!(kept, expected, "{wide} deviations of {n} logits, top-k {top_k}");
            }
        }
    }
    // Logits as far apart as f32 allows, and all the same.
    for values in [vec![f32::MAX, f32::MIN, 0.0], vec![2.5; 70]] {
        let params = params(|p| p.top_n_sigma = 1.0);
        let mut sampler = Sampler::new(params, values.len()).expect("a sampler");
        let kept = sampler.distribution(&values).expect("a distribution");
        assert!(!kept.is_empty() && kept.iter().all(|&(token, _)| values[token as usize] >= 2.5), "{kept:?}");
    }
}

#[test]
fn bad_parameters_are_named() {
    let cases: [(&str, SamplerParams); 11] = [
        ("temp", params(|p| p.temperature = f32::NAN)),
        ("top-n-sigma", params(|p| p.top_n_sigma = f32::NAN)),
        ("top-p", params(|p| p.top_p = f32::NAN)),
        ("min-p", params(|p| p.min_p = 1.5)),
        ("typical", params(|p| p.typical_p = -0.1)),
        ("repeat-penalty", params(|p| p.repeat_penalty = 0.0)),
        ("frequency-penalty", params(|p| p.frequency_penalty = f32::INFINITY)),
        ("presence-penalty", params(|p| p.presence_penalty = f32::NAN)),
        ("repeat-last-n", params(|p| p.repeat_last_n = -2)),
        ("logit-bias", params(|p| p.logit_bias = vec![(100, 1.0)])),
        ("logit-bias", params(|p| p.logit_bias = vec![(1, f32::INFINITY)])),
    ];
    for (name, params) in cases {
        let error = Sampler::new(params, 100).expect_err(name).to_string();
        assert!(error.contains(name) && error.contains("expected"), "{error}");
    }
    assert!(Sampler::new(SamplerParams::default(), 0).is_err());
}

#[test]
fn forbidden_tokens_are_never_drawn() {
    let mut params = params(|p| p.temperature = 5.0);
    params.forbid(&[2, 3]);
    let mut sampler = Sampler::new(params, 4).expect("a sampler");
    for _ in 0..500 {
        let token = sampler.sample(&[0.0, 0.0, 9.0, 9.0]).expect("a token");
        assert!(token < 2);
        sampler.accept(token);
    }
}

#[test]
fn the_window_of_the_penalties_moves() {
    let values = [1.0f32, 0.9, 0.8, 0.7];
    for (last_n, expected) in
        [(0, [0, 0, 0, 0, 0, 0]), (1, [0, 1, 0, 1, 0, 1]), (2, [0, 1, 2, 0, 1, 2]), (-1, [0, 1, 2, 3, 0, 1])]
    {
        let params = params(|p| (p.temperature, p.frequency_penalty, p.repeat_last_n) = (0.0, 2.0, last_n));
        let mut sampler = Sampler::new(params, 4).expect("a sampler");
        let mut drawn = Vec::new();
        for _ in 0..6 {
            let token = sampler.sample(&values).expect("a token");
            sampler.accept(token);
            drawn.push(token);
        }
        assert_eq!(drawn, expected, "last {last_n}");
        let next = sampler.sample(&values);
        sampler.reset(&drawn);
        assert_eq!(sampler.sample(&values), next, "reset, last {last_n}");
        // A token that is in no vocabulary (a file's own mistake) is passed over.
        sampler.accept(9999);
        assert!(sampler.sample(&values).is_ok());
    }
}

#[test]
fn logit_bias_is_read_as_llama_cpp_writes_it() {
    let good =
        [("15043+1", (15043, 1.0)), ("7-0.5", (7, -0.5)), ("0-inf", (0, f32::NEG_INFINITY)), ("3+1e2", (3, 100.0))];
    for (text, expected) in good {
        assert_eq!(parse_logit_bias(text), Ok(expected));
    }
    for text in ["", "15043", "+1", "x+1", "5+", "5+inf", "5-nan", "-1-1", "5+1x", "99999999999+1"] {
        assert!(parse_logit_bias(text).is_err(), "{text}");
    }
}

#[test]
fn the_parameters_describe_themselves() {
    assert_eq!(SamplerParams::default().to_string(), "top-k 40 → top-p 0.95 → min-p 0.05 → temp 0.8 → seed 0");
    let all = params(|p| {
        (p.temperature, p.repeat_penalty, p.typical_p) = (0.0, 1.1, 0.9);
        p.forbid(&[1]);
    });
    let wide = params(|p| p.top_n_sigma = 1.5).to_string();
    assert!(wide.starts_with("top-n-sigma 1.5 → top-k 40"), "{wide}");
    let expected =
        "logit-bias (1 tokens) → penalties (repeat 1.1, frequency 0, presence 0, last 64) → typical 0.9 → greedy";
    assert_eq!(all.to_string(), expected);
}

/// A GGUF header with these metadata entries: (key, type, little-endian bytes).
fn gguf(entries: &[(&str, u32, Vec<u8>)]) -> Gguf {
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(3u32.to_le_bytes());
    bytes.extend(0u64.to_le_bytes());
    bytes.extend((entries.len() as u64).to_le_bytes());
    for (key, kind, value) in entries {
        bytes.extend((key.len() as u64).to_le_bytes());
        bytes.extend(key.as_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(value);
    }
    Gguf::from_bytes("test.gguf", Bytes::new(bytes)).expect("a GGUF")
}

#[test]
fn a_file_s_sampling_keys_replace_defaults_and_say_so() {
    const U32: u32 = 4;
    const I32: u32 = 5;
    const F32: u32 = 6;
    let file = gguf(&[
        ("general.sampling.temp", F32, 0.3f32.to_le_bytes().to_vec()),
        ("general.sampling.top_p", F32, 0.5f32.to_le_bytes().to_vec()),
        ("general.sampling.top_k", I32, 64i32.to_le_bytes().to_vec()),
        ("general.sampling.penalty_last_n", I32, 64i32.to_le_bytes().to_vec()),
        ("general.sampling.mirostat", U32, 2u32.to_le_bytes().to_vec()),
    ]);
    let mut params = params(|p| p.top_p = 0.7);
    let changes = params.take_from(&file, |key| key == "top_p").expect("the keys are well");
    assert_eq!((params.temperature, params.top_p, params.top_k, params.repeat_last_n), (0.3, 0.7, 64, 64));
    let text: Vec<String> = changes.iter().map(ToString::to_string).collect();
    assert_eq!(text[0], "general.sampling.temp: 0.3 (instead of 0.8)");
    assert_eq!(text[1], "general.sampling.top_k: 64 (instead of 40)");
    assert!(matches!(changes[2], Change::Ignored { key: "general.sampling.mirostat", .. }), "{text:?}");
    assert_eq!(changes.len(), 3);

    let wrong = gguf(&[("general.sampling.top_k", F32, 1.5f32.to_le_bytes().to_vec())]);
    let error = params.take_from(&wrong, |_| false).expect_err("1.5 is not a k").to_string();
    assert!(error.contains("general.sampling.top_k"), "{error}");
}

#[test]
fn a_large_vocabulary_takes_a_moment() {
    let n = 262_144;
    let values = logits(5, n, true);
    let cases = [
        params(|_| {}),
        params(|p| p.temperature = 0.0),
        params(|p| p.top_k = 0),
        params(|p| (p.top_k, p.min_p) = (0, 0.0)),
        params(|p| p.repeat_penalty = 1.1),
    ];
    for params in cases {
        let mut sampler = Sampler::new(params, n).expect("a sampler");
        let mut best = f64::INFINITY;
        for _ in 0..20 {
            let start = Instant::now();
            let token = sampler.sample(&values).expect("a token");
            best = best.min(start.elapsed().as_secs_f64());
            sampler.accept(token);
        }
        // Unoptimised this is several times slower than what is promised; the bound is for accidents.
        assert!(best < 0.25, "{}: {best} s", sampler.params());
    }
}
