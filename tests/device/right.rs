//! Every architecture in every mix computes what the exact forward pass on the CPU does.

use qrun_models::{Entry, Forward, GpuDecoder, KvType, Model, Options, Output};
use qrun_quant::GgmlType;

use super::{Device, assert_near, distance, fast_bound, in_k_quants, int8_bound, options, sm};
use crate::{
    decoder::latent,
    each_format,
    tiny::{EACH_ARCH, Mix, TINY, Tiny, UNEVEN, decoder, logits, prompt},
};

fn has_kernels(tiny: &Tiny) -> Result<(), String> {
    GpuDecoder::supports(&tiny.model(), &options())
}

#[test]
fn what_has_no_kernels_is_refused_by_name() {
    for tiny in EACH_ARCH {
        let tiny = Tiny { mix: Mix::Q4_K_M, ..tiny };
        assert_eq!(has_kernels(&tiny), Ok(()), "{}", tiny.arch);
    }
    let latent = EACH_ARCH.into_iter().find(|t| t.latent[0] > 0 && t.experts[0] == 0).expect("one without experts");
    let [rank, q_rank, n_nope, _] = latent.latent;
    let refused = [
        (Tiny { latent: [rank, q_rank, n_nope, 24], mix: Mix::Q8_0, ..latent }, "latent attention of these sizes"),
        (Tiny { experts: [8, 2, 72, 0], mix: Mix::F32, ..EACH_ARCH[0] }, "experts of these sizes"),
    ];
    for (tiny, part) in refused {
        let reason = has_kernels(&tiny).expect_err(part);
        assert!(reason.contains(part), "{part}: {reason}");
    }
}

/// Shapes with and without K-quants, in each mix of formats; all rows that are not a multiple of anything in particular.
/// Of the other architectures one shape, dense and quantized.
fn shapes() -> impl Iterator<Item = Tiny> {
    let wide = |t: Tiny| Tiny { n_embd: 256, n_ff: 512, n_vocab: 301, ..t };
    let each = EACH_ARCH.into_iter().take(6).chain(UNEVEN).flat_map(move |t| [t, wide(t)]);
    let mixes = [Mix::F32, Mix::BF16, Mix::Q8_0, Mix::Q4_K_M];
    let mixtral = Tiny { experts: [8, 2, 96, 0], ..EACH_ARCH[0] };
    let alike = EACH_ARCH.into_iter().skip(6).chain([mixtral]).map(wide);
    // Of Gemma 4 two layers: in four a row's choice of experts is within the noise.
    let certain = |t: Tiny| if t.arch == "gemma4" { Tiny { n_layer: 2, ..t } } else { t };
    let alike = alike.flat_map(move |t| {
        let mix = if t.n_layer % 2 == 0 { Mix::F32 } else { Mix::BF16 };
        let more = (t.experts[0] > 0 || t.latent[0] > 0).then_some(Mix::Q8_0);
        let quantized = [Mix::Q4_K_M].into_iter().chain(more).map(move |mix| Tiny { mix, ..t });
        [if t.experts[0] > 0 { certain(t) } else { t }].map(|t| Tiny { mix, ..t }).into_iter().chain(quantized)
    });
    let grids = [[0; 4], [8, 2, 256, 0]].map(|experts| Tiny { mix: Mix::IQ2_M, experts, ..wide(EACH_ARCH[0]) });
    let others = each_format::models().into_iter().map(move |(_, t)| certain(t));
    each.flat_map(move |t| mixes.map(|mix| Tiny { mix, ..t })).chain(alike).chain(grids).chain(others)
}

fn is_quantized(tiny: &Tiny) -> bool {
    matches!(tiny.mix, Mix::Q8_0 | Mix::Q4_K_M | Mix::IQ2_M | Mix::Only(_))
}

/// How far the logits are from those of the exact CPU.
#[track_caller]
fn near_the_exact_cpu(tiny: &Tiny, sm_of: u32, what: &str) -> f64 {
    let model = tiny.model();
    let tokens = prompt("right", 90, tiny.n_vocab);
    let want = logits(&mut decoder(&model, Options { n_ctx: 256, ..Options::exact() }), &tokens, 0, 0);
    // Into the second page and past the windows, of up to 70, token by token; what is before and behind as prompts.
    let mut device = Device::new(&model, &options(), sm(sm_of));
    let (begin, rest) = tokens.split_at(62);
    let (single, end) = rest.split_at(14);
    let mut found = device.logits(begin, 0, 0);
    for (i, token) in single.iter().enumerate() {
        found.extend(device.logits(&[*token], 62 + i, 0));
    }
    found.extend(device.logits(end, 76, 0));
    let bound = if is_quantized(tiny) { int8_bound(tiny) } else { 4e-3 };
    assert_near(&found, &want, bound, format_args!("{what}"));
    let fast = logits(&mut decoder(&model, Options { n_ctx: 256, ..Options::default() }), &tokens, 0, 0);
    let near = 1.1 * distance(&fast, &want) + 1e-4;
    assert_near(&found, &want, near, format_args!("{what}, as near as the CPU's fast arithmetic is"));
    println!("{what}: {:.3e}, the CPU's fast arithmetic {:.3e}", distance(&found, &want), distance(&fast, &want));
    distance(&found, &want)
}

#[test]
fn logits_are_those_of_the_exact_cpu() {
    let mut worst = [(0.0, String::new()), (0.0, String::new())];
    for (i, tiny) in shapes().enumerate() {
        let what = format!("{} {:?} n_embd {}", tiny.arch, tiny.mix, tiny.n_embd);
        // The builds in turn.
        let d = near_the_exact_cpu(&tiny, [75, 80, 86, 120][i / 4 % 4], &what);
        let worst = &mut worst[usize::from(is_quantized(&tiny))];
        if d > worst.0 {
            *worst = (d, what);
        }
    }
    println!("largest relative L2 distance from the exact CPU: dense {:?}, quantized {:?}", worst[0], worst[1]);
}

/// Recorded steps of every size, with idle rows in the larger ones.
#[test]
fn steps_of_every_architecture_and_size() {
    for (tiny, sm_of) in EACH_ARCH.into_iter().map(in_k_quants).flat_map(|tiny| [(tiny, 75), (tiny, 80)]) {
        let model = tiny.model();
        let o = Options { n_ctx: 64, n_seq: 31, ..options() };
        let texts: Vec<_> = (0..o.n_seq).map(|s| prompt(&format!("text {s}"), 6, tiny.n_vocab)).collect();
        let (mut device, mut cpu) = (Device::new(&model, &o, sm(sm_of)), decoder(&model, o));
        for (pos, n) in [31, 13, 7, 4, 2, 1].into_iter().enumerate() {
            let entry = |seq: usize| Entry {
                token: texts[seq][pos],
                pos: pos as u32,
                seq: seq as u32,
                output: Output::Logits,
                drafted: false,
            };
            let batch: Vec<_> = (0..n).map(entry).collect();
            let (found, want) = (device.forward(&batch).unwrap(), cpu.forward(&batch).unwrap());
            let bound = if tiny.experts[0] > 0 { int8_bound(&tiny) } else { fast_bound(&tiny) };
            assert_near(found, want, bound, format_args!("{} on sm_{sm_of}, {n} sequences", tiny.arch));
        }
    }
}

/// Those of Gemma 4 in layers that see everything; the others' have 256.
#[test]
fn heads_of_512_elements() {
    let gemma4 = Tiny {
        arch: "gemma4",
        tied: true,
        window: 40,
        pattern: 2,
        head_dim: 512,
        head_dim_swa: 256,
        keys_as_values: true,
        rope_freqs: true,
        n_embd: 256,
        ..TINY
    };
    for (mix, sm_of) in [(Mix::F32, 75), (Mix::Q4_K_M, 80)] {
        near_the_exact_cpu(&Tiny { mix, ..gemma4 }, sm_of, &format!("{mix:?} on sm_{sm_of}"));
    }
}

/// Matrices of heads in f32 beside quantized ones.
#[test]
fn latent_attention_of_old_files() {
    for tiny in latent::models() {
        let tokens = prompt("old", 70, tiny.n_vocab);
        let run = |model: &Model| {
            assert_eq!(GpuDecoder::supports(model, &options()), Ok(()));
            Device::new(model, &options(), sm(80)).logits(&tokens, 0, 0)
        };
        let [old, new] = latent::old_and_new(Tiny { mix: Mix::Q8_0, ..tiny }, GgmlType::Q8_0);
        let want = logits(&mut decoder(&old, Options { n_ctx: 256, ..Options::exact() }), &tokens, 0, 0);
        let found = run(&old);
        assert_near(&found, &want, int8_bound(&tiny), format_args!("{}", tiny.arch));
        assert!(found == run(&new), "{}: not the bits of a file of today", tiny.arch);
    }
}

#[test]
fn a_q8_0_cache_stays_close() {
    for tiny in super::models() {
        let model = tiny.model();
        let tokens = prompt("q8_0", 100, tiny.n_vocab);
        let q8 = Options { type_k: KvType::Q8_0, type_v: KvType::Q8_0, ..options() };
        let want = logits(&mut decoder(&model, Options { repack: false, ..q8.clone() }), &tokens, 0, 0);
        let found = Device::new(&model, &q8, sm(80)).logits(&tokens, 0, 0);
        assert_near(&found, &want, fast_bound(&tiny), format_args!("{}", tiny.arch));
    }
}
