//! The KV cache: how much it holds, in which precision, and what it survives.

use qrun_models::{CpuDecoder, Forward, KvType, Options, memory};

use super::{assert_same, models, options, runs};
use crate::tiny::{TINY, Tiny, decoder, logits, prompt};

#[test]
fn never_more_than_planned() {
    for tiny in models() {
        let model = tiny.model();
        for (n_ctx, n_ubatch, n_seq) in [(200, 512, 1), (200, 33, 3), (129, 1, 1), (64, 64, 2), (1, 1, 1)] {
            let [_, common] = options();
            let o = Options { n_ctx, n_ubatch, n_seq, ..common };
            let plan = memory::kv_bytes(&model.config, &o);
            let mut d = decoder(&model, o);
            let tokens = prompt("plan", n_ctx, tiny.n_vocab);
            for seq in 0..n_seq {
                for (i, part) in tokens.chunks(50).enumerate() {
                    logits(&mut d, part, i * 50, seq as u32);
                }
            }
            let held = d.kv_peak_bytes();
            assert!(0 < held && held <= plan, "{}: {held} bytes held, {plan} planned for {n_ctx}", tiny.arch);
            assert!(d.kv_bytes() <= held);
            (0..n_seq).for_each(|seq| assert_eq!(d.rewind(seq as u32, 0), 0));
            assert_eq!(d.kv_bytes(), 0, "an empty sequence holds nothing");
        }
    }
}

/// The cache of gemma-3-1b (26 layers, every sixth global, one head of 256, window 512) on a narrow model.
const GEMMA_3_1B_CACHE: Tiny = Tiny {
    arch: "gemma3",
    tied: true,
    n_layer: 26,
    n_embd: 16,
    n_ff: 16,
    n_vocab: 20,
    n_head: 1,
    n_head_kv: 1,
    head_dim: 256,
    window: 512,
    n_ctx: 2048,
    ..TINY
};

#[test]
fn gemma_3_1b_holds_its_windows_and_little_more() {
    let tiny = GEMMA_3_1B_CACHE;
    let model = tiny.model();
    let tokens = prompt("gemma", 2048, tiny.n_vocab);
    let mut d = decoder(&model, Options { n_ctx: 2048, ..Options::default() });
    logits(&mut d, &tokens[..1980], 0, 0);
    // All phases of a page: the window's first page comes free once in 64 tokens.
    let step = |(i, t): (usize, &u32)| {
        logits(&mut d, &[*t], 1980 + i, 0);
        d.kv_bytes()
    };
    let most = tokens[1980..].iter().enumerate().map(step).max().unwrap();
    assert!((19_900_000..=21_500_000).contains(&most), "{most} bytes");
    let full = Options { swa_full: true, n_ctx: 2048, ..Options::default() };
    assert_eq!(memory::kv_bytes(&model.config, &full), 26 * 2048 * 256 * 2 * 2);
}

/// Windows of whole pages, of others, of one token, and as long as the context or longer.
const WINDOWS: [usize; 7] = [1, 2, 63, 64, 65, 200, 1000];

#[test]
fn pages_beyond_a_window_are_not_missed() {
    for window in WINDOWS {
        for options in options() {
            let tiny = Tiny { arch: "gemma2", tied: true, window, ..TINY };
            let model = tiny.model();
            let tokens = prompt("windows", 200, tiny.n_vocab);
            let run = |swa_full, chunk: usize| {
                let mut d = decoder(&model, Options { swa_full, ..options.clone() });
                let parts = tokens.chunks(chunk).enumerate();
                let out: Vec<f32> = parts.flat_map(|(i, part)| logits(&mut d, part, i * chunk, 0)).collect();
                (out, d.kv_bytes())
            };
            let (want, all) = run(true, 200);
            for chunk in [1, 40, 200] {
                let (out, held) = run(false, chunk);
                assert_same(&want, &out, format_args!("window {window}, {chunk} at a time"));
                assert!(if window < 100 { held < all } else { held == all }, "window {window}: {held} of {all} bytes");
            }
        }
    }
}

#[test]
fn a_window_longer_than_the_context_is_none() {
    let tokens = prompt("long windows", 150, TINY.n_vocab);
    for options in options() {
        let run = |window| {
            let tiny = Tiny { arch: "gemma2", tied: true, window, ..TINY };
            logits(&mut decoder(&tiny.model(), options.clone()), &tokens, 0, 0)
        };
        assert_same(&run(150), &run(1 << 20), format_args!("150 of 150"));
        assert!(run(149) != run(150), "the last token no longer sees the first");
    }
}

#[test]
fn smaller_types_stay_close() {
    for tiny in models() {
        let model = tiny.model();
        let tokens = prompt("types", 150, tiny.n_vocab);
        let run = |type_k, type_v| {
            let [exact, _] = options();
            let mut d = decoder(&model, Options { type_k, type_v, ..exact });
            let out = logits(&mut d, &tokens, 0, 0);
            (out, d.kv_bytes() as f64)
        };
        let (want, f32_bytes) = run(KvType::F32, KvType::F32);
        let cases = [
            (KvType::F16, KvType::F16, 0.5, 1e-3),
            (KvType::Q8_0, KvType::F16, (34.0 / 128.0 + 0.5) / 2.0, 2e-2),
            (KvType::F16, KvType::Q8_0, (34.0 / 128.0 + 0.5) / 2.0, 2e-2),
            (KvType::Q8_0, KvType::Q8_0, 34.0 / 128.0, 2e-2),
        ];
        for (k, v, size, bound) in cases {
            let (out, bytes) = run(k, v);
            let square = |x: f32| f64::from(x).powi(2);
            let distance: f64 = want.iter().zip(&out).map(|(a, b)| square(a - b)).sum();
            let distance = (distance / want.iter().map(|x| square(*x)).sum::<f64>()).sqrt();
            let what = format!("{} {} {}: relative L2 {distance:.1e}", tiny.arch, k.name(), v.name());
            // Where values are the front of keys, their type is that of keys.
            let size = match (tiny.latent[0] > 0, k) {
                (false, _) => size,
                (true, KvType::Q8_0) => 34.0 / 128.0,
                (true, _) => 0.5,
            };
            // A little noise can choose another expert.
            let bound = if tiny.experts[0] > 0 { 0.2 } else { bound };
            assert!(distance > 0.0 && distance <= bound, "{what}");
            // States are f32.
            if (0..tiny.n_layer).any(|il| !tiny.attends(il)) {
                continue;
            }
            // Heads of 80 end in half a block with a scale of its own.
            let whole = (0..tiny.n_layer).all(|il| tiny.head(il)[0].is_multiple_of(32));
            let slack = if whole { 1e-9 } else { 5e-3 };
            assert!((bytes / f32_bytes - size).abs() <= slack, "{what}: {bytes} of {f32_bytes} bytes");
        }
    }
}

/// A decoder that has run these tokens, and what it saved.
fn saved(tiny: Tiny, options: &Options, tokens: &[u32]) -> (CpuDecoder, Vec<u8>) {
    let mut d = decoder(&tiny.model(), options.clone());
    logits(&mut d, tokens, 0, 0);
    let mut file = Vec::new();
    d.save(0, &mut file).unwrap();
    (d, file)
}

#[test]
fn a_saved_sequence_goes_on_as_if_never_stopped() {
    for (tiny, options) in runs() {
        for (type_k, type_v) in [(KvType::F32, KvType::F32), (KvType::F16, KvType::Q8_0)] {
            let options = Options { type_k, type_v, ..options.clone() };
            let tokens = prompt("saved", 160, tiny.n_vocab);
            for stop in [0, 64, 150] {
                let (mut gone_on, file) = saved(tiny, &options, &tokens[..stop]);
                let want = logits(&mut gone_on, &tokens[stop..], stop, 0);
                // Into another sequence of another decoder, over what was there.
                let mut d = decoder(&tiny.model(), options.clone());
                logits(&mut d, &tokens[20..120], 0, 2);
                d.load(2, &mut file.as_slice()).unwrap();
                assert_eq!(d.len(2) as usize, stop);
                let out = logits(&mut d, &tokens[stop..], stop, 2);
                assert_same(&want, &out, format_args!("{} {:?} at {stop}", tiny.arch, options.arithmetic));
            }
        }
    }
}

#[test]
fn a_damaged_or_foreign_save_is_refused() {
    let tiny = Tiny { arch: "gemma3", tied: true, window: 64, pattern: 3, n_layer: 4, ..TINY };
    let [_, options] = options();
    let tokens = prompt("damaged", 150, tiny.n_vocab);
    let (mut d, file) = saved(tiny, &options, &tokens);
    let mut refuse = |bytes: &[u8], what: &str| {
        d.load(0, &mut &file[..]).unwrap();
        assert_eq!(d.len(0), 150);
        assert!(d.load(0, &mut &bytes[..]).is_err(), "{what}");
        assert_eq!((d.len(0), d.kv_bytes()), (0, 0), "{what}: the sequence is empty");
    };
    for n in (0..file.len()).step_by(997).chain([1, 8, 27, 31, 32, 35, file.len() - 1]) {
        refuse(&file[..n], &format!("cut at {n}"));
    }
    // Magic, shapes of the layers, length, and the page table of the first one.
    for at in 0..8 + 4 * (2 + 3 * 4 + 1 + 2) {
        let mut bytes = file.clone();
        bytes[at] ^= 0x81;
        refuse(&bytes, &format!("byte {at} changed"));
    }
    let others = [
        ("more layers", Tiny { n_layer: 5, ..tiny }, options.clone(), 150),
        ("more heads", Tiny { n_head_kv: 4, ..tiny }, options.clone(), 150),
        ("longer heads", Tiny { head_dim: 80, ..tiny }, options.clone(), 150),
        (
            "fewer heads in one layer",
            Tiny { uneven: &[[4, 2, 96], [4, 2, 96], [4, 1, 96], [4, 2, 96]], ..tiny },
            options.clone(),
            150,
        ),
        ("longer heads in some layers", Tiny { head_dim_swa: 80, ..tiny }, options.clone(), 150),
        ("another window", Tiny { window: 10, ..tiny }, options.clone(), 150),
        ("another type", tiny, Options { type_k: KvType::Q8_0, ..options.clone() }, 150),
        ("more tokens", tiny, options.clone(), 151),
    ];
    for (what, other, other_options, n) in others {
        let (_, bytes) = saved(other, &other_options, &prompt(what, n, tiny.n_vocab));
        let mut d = decoder(&tiny.model(), Options { n_ctx: 150, ..options.clone() });
        assert!(d.load(0, &mut &bytes[..]).is_err(), "{what}");
        assert_eq!((d.len(0), d.kv_bytes()), (0, 0), "{what}");
    }
}
