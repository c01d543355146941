//! Latent attention: what its cache holds, and files that say the same in another way.

use qrun_models::{KvType, Model, Options, layer::FeedForwardPlan, memory, spec::Gating};
use qrun_quant::{GgmlType, gguf::write::Entry};

use super::{assert_same, options, refusals::Parts};
use crate::tiny::{EACH_ARCH, Mix, Rng, Tiny, decoder, logits, prompt};

pub fn models() -> impl Iterator<Item = Tiny> {
    EACH_ARCH.into_iter().filter(|tiny| tiny.latent[0] > 0)
}

#[test]
fn the_cache_is_one_head_of_keys_for_all_heads() {
    for tiny in models() {
        let c = tiny.model().config;
        for (type_k, element) in [(KvType::F32, 4), (KvType::F16, 2)] {
            // The type of values is nobody's.
            for type_v in KvType::ALL {
                let o = Options { n_ctx: 64, type_k, type_v, ..Options::default() };
                let token = element * tiny.n_layer * (tiny.latent[0] + tiny.n_rot);
                assert_eq!(memory::kv_bytes(&c, &o), 64 * token as u64);
                assert_eq!(memory::kv_bytes_read(&c, &o, 9), 10 * token as u64);
            }
        }
    }
}

/// `x[n][rows][cols]` as `[n][cols][rows]`.
fn turned(x: &[f32], [rows, cols]: [usize; 2]) -> Vec<f32> {
    x.chunks(rows * cols).flat_map(|x| (0..rows * cols).map(|i| x[i % rows * cols + i / rows])).collect()
}

fn bytes(x: &[f32]) -> Vec<u8> {
    x.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// A file as it was before keys and values had tensors of their own, and the same model as it is now. For each head the rows
/// of its key and those of its value are one tensor.
pub fn old_and_new(tiny: Tiny, ty: GgmlType) -> [Model; 2] {
    let [rank, _, n_nope, n_value] = tiny.latent;
    let (mut old, mut new) = (Parts::of(tiny), Parts::of(tiny));
    let key = |name: &str| format!("{}.attention.{name}", tiny.arch);
    old.set(&key("head_count_kv"), tiny.n_head as u32);
    old.set(&key("key_length"), (n_nope + tiny.n_rot) as u32);
    old.set(&key("value_length"), n_value as u32);
    for part in ["key", "value"] {
        old.drop_key(&key(&format!("{part}_length_mla")));
    }
    let mut rng = Rng::new("keys and values");
    for il in 0..tiny.n_layer {
        let name = |part: &str| format!("blk.{il}.attn_{part}.weight");
        let entry = |part: &str, ty, shape: &[usize]| {
            let shape = shape.iter().map(|&n| n as u64).collect();
            Entry { name: name(part), ty, shape }
        };
        let elements = tiny.n_head * (n_nope + n_value) * rank;
        let values: Vec<f32> = (0..elements).map(|_| rng.below(2001) as f32 / 1e4 - 0.1).collect();
        let mut both = vec![0; ty.bytes_of(elements)];
        (ty.format().quantize.unwrap())(&values, &mut both);
        let mut rounded = vec![0.0; elements];
        (ty.format().dequantize)(&both, &mut rounded);
        let (mut keys, mut value_rows) = (Vec::new(), Vec::new());
        for head in 0..tiny.n_head {
            let first = head * (n_nope + n_value);
            keys.extend(turned(&rounded[first * rank..(first + n_nope) * rank], [n_nope, rank]));
            let row = ty.bytes_of(rank);
            value_rows.extend_from_slice(&both[(first + n_nope) * row..(first + n_nope + n_value) * row]);
        }
        new.put(entry("k_b", GgmlType::F32, &[n_nope, rank, tiny.n_head]), bytes(&keys));
        new.put(entry("v_b", ty, &[rank, n_value, tiny.n_head]), value_rows);
        ["k_b", "v_b"].iter().for_each(|part| old.drop_tensor(&name(part)));
        old.put(entry("kv_b", ty, &[rank, tiny.n_head * (n_nope + n_value)]), both);
    }
    [old, new].map(|parts| parts.load().unwrap())
}

#[test]
fn files_with_keys_and_values_in_one_tensor_give_the_same_bits() {
    for tiny in models() {
        for ty in [GgmlType::F32, GgmlType::Q8_0] {
            let [old, new] = old_and_new(Tiny { mix: Mix::Q8_0, ..tiny }, ty);
            let tokens = prompt("old", 70, tiny.n_vocab);
            for options in options() {
                let run = |model: &Model| logits(&mut decoder(model, options.clone()), &tokens, 0, 0);
                assert_same(&run(&new), &run(&old), format_args!("{} {ty} {:?}", tiny.arch, options.arithmetic));
            }
        }
    }
}

#[test]
fn the_gating_of_glm_4_7_flash_is_known_by_its_size() {
    let tiny = Tiny {
        n_embd: 16,
        n_ff: 16,
        experts: [4, 2, 16, 0],
        leading_dense: 0,
        groups: [0; 2],
        tied: true,
        ..models().next().unwrap()
    };
    let gating = |n_layer, n_vocab, said: Option<u32>| {
        let mut parts = Parts::of(Tiny { n_layer, n_vocab, ..tiny });
        match said {
            None => parts.drop_key("deepseek2.expert_gating_func"),
            Some(number) => parts.set("deepseek2.expert_gating_func", number),
        }
        match parts.load().unwrap().config.layers[1].feed_forward {
            FeedForwardPlan::Experts(experts) => experts.gating,
            other => panic!("{other:?} in place of experts"),
        }
    };
    for n_layer in [47, 48] {
        assert_eq!(gating(n_layer, 154_880, None), Gating::Sigmoid);
    }
    assert_eq!(gating(47, 154_880, Some(1)), Gating::Softmax);
    assert_eq!(gating(46, 154_880, None), Gating::Softmax);
    assert_eq!(gating(47, 300, None), Gating::Softmax);
}
