//! Models in formats that no golden model has, beside copies of them in F32.

use qrun_models::{Forward, GpuDecoder, Model, Options, Output};
use qrun_quant::{
    Bytes,
    GgmlType::{self, *},
    Gguf,
    gguf::write::Header,
};

use crate::{
    golden::{divergence, relative_l2},
    tiny::{self, Mix, TINY, Tiny},
};

/// Largest mean KL divergence of fast arithmetic from exact arithmetic, which does not round activations to 8 bits.
const ROUNDED_KL: f64 = 5e-3;

/// Rows of these widths are whole blocks of every format.
const DENSE: Tiny = Tiny { n_embd: 256, n_ff: 512, ..TINY };

/// A model with a format in every matrix.
#[rustfmt::skip]
pub fn models() -> Vec<(String, Tiny)> {
    let only = |ty: GgmlType, tiny: Tiny| (format!("{} {ty}", tiny.arch), Tiny { mix: Mix::Only(ty), ..tiny });
    let dense = [NVFP4, Q2_0, TQ2_0, TQ1_0, Q1_0, IQ1_S, IQ1_M].map(|ty| only(ty, DENSE));
    let others = [
        // Scales of fused tensors, of experts that share, and of experts with biases.
        only(NVFP4, Tiny { tied: true, ..DENSE }),
        only(NVFP4, Tiny { arch: "qwen2moe", biases: true, experts: [6, 2, 256, 128], ..DENSE }),
        only(NVFP4, Tiny { arch: "gpt-oss", biases: true, n_head: 8, window: 48, yarn: 32.0, rope_base: 150_000.0,
            experts: [5, 2, 128, 0], ..DENSE }),
        only(NVFP4, Tiny { arch: "gemma4", tied: true, window: 40, pattern: 2, n_layer: 4, head_dim: 128, head_dim_swa: 64,
            keys_as_values: true, rope_freqs: true, experts: [6, 2, 128, 0], ..DENSE }),
        only(IQ1_M, Tiny { arch: "qwen3moe", experts: [6, 2, 256, 0], ..DENSE }),
    ];
    dense.into_iter().chain(others).collect()
}

/// The model with all tensors in F32, and what `weights` makes of them.
fn copy(g: &Gguf, keep: impl Fn(&str) -> bool, weights: impl Fn(&str, &mut [f32])) -> Gguf {
    let mut header = Header::new();
    g.metadata().iter().for_each(|(key, value)| header.set(key, value.clone()));
    let tensors: Vec<_> = g.tensors().iter().filter(|t| keep(&t.name)).collect();
    tensors.iter().for_each(|t| header.tensor(&t.name, F32, &t.shape));
    let mut file = Vec::new();
    let mut writer = header.write_to("copy".as_ref(), &mut file).unwrap();
    for t in tensors {
        let mut values = vec![f32::NAN; t.shape.iter().product::<u64>() as usize];
        (t.ty.format().dequantize)(&t.data, &mut values);
        weights(&t.name, &mut values);
        writer.write(&values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>()).unwrap();
    }
    writer.finish().unwrap();
    Gguf::from_bytes("copy", Bytes::new(file)).unwrap()
}

/// The scale beside a matrix, if there is one that is for its products.
fn scales(g: &Gguf, name: &str) -> Option<Vec<f32>> {
    let beside = name.strip_suffix(".weight").filter(|part| !part.ends_with("ffn_gate_inp"))?;
    let t = g.tensor(&format!("{beside}.scale"))?;
    Some(t.data.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
}

/// Logits of all positions of a prompt, in chunks of awkward sizes, then token by token.
fn logits(g: &Gguf, options: Options) -> Vec<f32> {
    let options = Options { n_ctx: 64, n_ubatch: 13, ..options };
    let mut decoder = tiny::decoder(&Model::load(g).unwrap(), options);
    let mut entries = tiny::entries(&tiny::prompt("each", 50, TINY.n_vocab), 0, 0);
    entries.iter_mut().for_each(|e| e.output = Output::logits_if(true));
    let (prompt, steps) = entries.split_at(44);
    let mut out = decoder.forward(prompt).unwrap().to_vec();
    steps.iter().for_each(|e| out.extend_from_slice(decoder.forward(std::slice::from_ref(e)).unwrap()));
    out
}

#[test]
fn a_format_gives_the_logits_of_its_weights_in_f32() {
    for (name, tiny) in models() {
        let g = Gguf::from_bytes("tiny", Bytes::new(tiny.bytes())).unwrap();
        let Mix::Only(ty) = tiny.mix else { unreachable!() };
        let own = g.tensors().iter().filter(|t| t.ty == ty).count();
        assert!(own >= 7 * tiny.n_layer, "{name}: {own} matrices of the format");
        let exact = logits(&g, Options::exact());
        let in_f32 = logits(&copy(&g, |_| true, |_, _| ()), Options::exact());
        let same = exact.iter().zip(&in_f32).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(same && exact.iter().all(|x| x.is_finite()), "{name}: other logits than those of the weights in F32");
        let rows = || exact.chunks_exact(tiny.n_vocab);
        for repack in [true, false] {
            let fast = logits(&g, Options { repack, ..Options::default() });
            let kl = rows().zip(fast.chunks_exact(tiny.n_vocab)).map(|(exact, fast)| divergence(exact, fast));
            let kl = kl.sum::<f64>() / rows().len() as f64;
            println!("{name:18} mean KL of fast arithmetic {kl:.2e}");
            assert!(kl <= ROUNDED_KL, "{name}: mean KL {kl:.2e}, at most {ROUNDED_KL:.0e}");
        }
    }
}

/// A scale beside a matrix is a factor on its weights.
#[test]
fn scales_are_factors_on_the_weights() {
    let mut seen = 0;
    for (name, tiny) in models().into_iter().filter(|(_, tiny)| tiny.mix == Mix::Only(NVFP4)) {
        let g = Gguf::from_bytes("tiny", Bytes::new(tiny.bytes())).unwrap();
        let is_scale = |name: &str| name.ends_with(".scale") && !name.ends_with("ffn_gate_inp.scale");
        let scaled = copy(
            &g,
            |name| !is_scale(name),
            |name, values| {
                let scales = scales(&g, name).unwrap_or_else(|| vec![1.0]);
                let each = values.len() / scales.len();
                values.chunks_exact_mut(each).zip(scales).for_each(|(w, scale)| w.iter_mut().for_each(|w| *w *= scale));
            },
        );
        seen += g.tensors().len() - scaled.tensors().len();
        let (ours, theirs) = (logits(&g, Options::exact()), logits(&scaled, Options::exact()));
        let worst = ours.chunks(tiny.n_vocab).zip(theirs.chunks(tiny.n_vocab)).map(|(a, b)| relative_l2(a, b));
        let worst = worst.fold(0.0, f64::max);
        println!("{name:18} relative L2 {worst:.2e}");
        assert!(worst <= 1e-5, "{name}: relative L2 {worst:.2e}");
    }
    assert!(seen > 80, "{seen} scales");
}

#[test]
fn a_gpu_refuses_scales_beside_weights_in_f32() {
    let (name, tiny) = models().swap_remove(0);
    let g = Gguf::from_bytes("tiny", Bytes::new(tiny.bytes())).unwrap();
    let supports = |g: &Gguf| GpuDecoder::supports(&Model::load(g).unwrap(), &Options::default());
    assert_eq!(supports(&g), Ok(()), "{name}");
    let reason = supports(&copy(&g, |_| true, |_, _| ())).unwrap_err();
    assert!(reason.contains("matrices in F32 with scales beside them"), "{name}: {reason}");
}
