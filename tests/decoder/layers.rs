//! Models whose layers differ in heads, elements per head, feed-forward and window.

use std::f64::consts::PI;

use qrun_models::{KvType, Model, Options, memory};
use qrun_quant::{
    Bytes, GgmlType, Gguf,
    gguf::{
        Tensor,
        write::{Entry, Header},
    },
};

use super::{assert_same, options, refusals::Parts};
use crate::tiny::{TINY, Tiny, UNEVEN, decoder, logits, prompt};

type Rows = Vec<Vec<f64>>;

/// The forward pass from the definitions, in f64: one position after the other, no cache.
struct Reference {
    tiny: Tiny,
    file: Gguf,
}

impl Reference {
    fn tensor(&self, name: &str) -> Option<Vec<f64>> {
        let tensor = self.file.tensor(name)?;
        let mut values = vec![0f32; tensor.len()];
        (tensor.ty.format().dequantize)(&tensor.data, &mut values);
        Some(values.into_iter().map(f64::from).collect())
    }

    fn multiply(&self, name: &str, x: &Rows) -> Rows {
        let w = self.tensor(name).unwrap();
        let dot = |row: &[f64], x: &[f64]| row.iter().zip(x).map(|(a, b)| a * b).sum();
        x.iter().map(|x| w.chunks(x.len()).map(|row| dot(row, x)).collect()).collect()
    }

    /// RMSNorm of every stretch as long as the weight; nothing where there is no such tensor.
    fn norm(&self, name: &str, x: &Rows) -> Rows {
        let Some(weight) = self.tensor(name) else { return x.clone() };
        let one = |x: &[f64]| -> Vec<f64> {
            let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
            x.iter().zip(&weight).map(|(x, w)| x / (mean + 1e-5).sqrt() * w).collect()
        };
        x.iter().map(|x| x.chunks(weight.len()).flat_map(one).collect()).collect()
    }

    fn turn(&self, il: usize, x: &mut Rows) {
        let ([head_dim, n_rot], slides) = (self.tiny.head(il), self.tiny.slides(il));
        let factors = self.tensor("rope_freqs.weight").filter(|_| !slides);
        let stretch = if self.tiny.rope_scale > 0.0 && !slides { f64::from(self.tiny.rope_scale) } else { 1.0 };
        for (pos, row) in x.iter_mut().enumerate() {
            for head in row.chunks_mut(head_dim) {
                for i in 0..n_rot / 2 {
                    let frequency = 10_000f64.powf(-2.0 * i as f64 / n_rot as f64);
                    let (sin, cos) =
                        (pos as f64 * frequency / stretch / factors.as_ref().map_or(1.0, |f| f[i])).sin_cos();
                    let (a, b) = if self.tiny.arch == "llama" { (2 * i, 2 * i + 1) } else { (i, i + n_rot / 2) };
                    (head[a], head[b]) = (head[a] * cos - head[b] * sin, head[a] * sin + head[b] * cos);
                }
            }
        }
    }

    fn attention(&self, il: usize, [q, k, v]: [&Rows; 3]) -> Rows {
        let ([n_head, n_head_kv, _], [n, _]) = (self.tiny.layer(il), self.tiny.head(il));
        let of_head = |pos: usize, head: usize| {
            let kv = head / (n_head / n_head_kv) * n;
            let first = if self.tiny.slides(il) { (pos + 1).saturating_sub(self.tiny.window) } else { 0 };
            let score =
                |at: usize| (0..n).map(|i| q[pos][head * n + i] * k[at][kv + i]).sum::<f64>() / (n as f64).sqrt();
            let weights: Vec<f64> = (first..=pos).map(|at| score(at).exp()).collect();
            let sum: f64 = weights.iter().sum();
            (0..n)
                .map(|i| weights.iter().zip(&v[first..]).map(|(w, v)| w / sum * v[kv + i]).sum())
                .collect::<Vec<f64>>()
        };
        (0..q.len()).map(|pos| (0..n_head).flat_map(|head| of_head(pos, head)).collect()).collect()
    }

    fn activation(&self, x: f64) -> f64 {
        match self.tiny.arch {
            "llama" => x / (1.0 + (-x).exp()),
            _ => 0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh()),
        }
    }

    /// Logits of all positions.
    fn logits(tiny: Tiny, tokens: &[u32]) -> Vec<f32> {
        // Tensors of a file in which nothing is fused.
        let tiny = Tiny { fused_qkv: false, fused_gate_up: false, ..tiny };
        let this = Self { tiny, file: Gguf::from_bytes("tiny", Bytes::new(tiny.bytes())).unwrap() };
        let embedding = this.tensor("token_embd.weight").unwrap();
        let scale = if tiny.arch == "llama" { 1.0 } else { f64::from((tiny.n_embd as f32).sqrt()) };
        let row = |t: &u32| embedding[*t as usize * tiny.n_embd..][..tiny.n_embd].iter().map(|x| x * scale).collect();
        let mut x: Rows = tokens.iter().map(row).collect();
        let add = |x: &mut Rows, y: Rows| x.iter_mut().flatten().zip(y.iter().flatten()).for_each(|(x, y)| *x += y);
        for il in 0..tiny.n_layer {
            let name = |part: &str| format!("blk.{il}.{part}.weight");
            let h = this.norm(&name("attn_norm"), &x);
            let [mut q, mut k, v] = ["attn_q", "attn_k", "attn_v"].map(|part| this.multiply(&name(part), &h));
            q = this.norm(&name("attn_q_norm"), &q);
            k = this.norm(&name("attn_k_norm"), &k);
            this.turn(il, &mut q);
            this.turn(il, &mut k);
            let out = this.multiply(&name("attn_output"), &this.attention(il, [&q, &k, &v]));
            add(&mut x, this.norm(&name("post_attention_norm"), &out));
            let h = this.norm(&name("ffn_norm"), &x);
            let [mut gate, up] = ["ffn_gate", "ffn_up"].map(|part| this.multiply(&name(part), &h));
            let pairs = gate.iter_mut().flatten().zip(up.iter().flatten());
            pairs.for_each(|(gate, up)| *gate = this.activation(*gate) * up);
            let out = this.multiply(&name("ffn_down"), &gate);
            add(&mut x, this.norm(&name("post_ffw_norm"), &out));
        }
        let head = if tiny.tied { "token_embd.weight" } else { "output.weight" };
        let logits = this.multiply(head, &this.norm("output_norm.weight", &x));
        logits.into_iter().flatten().map(|x| x as f32).collect()
    }
}

#[test]
fn layers_that_differ_are_what_the_definitions_say() {
    for tiny in UNEVEN {
        let tokens = prompt("uneven", 100, tiny.n_vocab);
        let [exact, _] = options();
        let found = logits(&mut decoder(&tiny.model(), exact), &tokens, 0, 0);
        let want = Reference::logits(tiny, &tokens);
        let square = |x: f64| x * x;
        let error: f64 = want.iter().zip(&found).map(|(a, b)| square(f64::from(*a) - f64::from(*b))).sum();
        let size: f64 = want.iter().map(|x| square(f64::from(*x))).sum();
        let distance = (error / size).sqrt();
        assert!(distance <= 2e-6, "{}: relative L2 {distance:.1e}", tiny.arch);
    }
}

/// A tensor in a larger shape, zeros behind its rows and columns.
fn padded(from: &Tensor, to: &Tensor) -> Vec<u8> {
    assert_eq!((from.ty, to.ty), (GgmlType::F32, GgmlType::F32));
    let mut out = vec![0; to.data.len()];
    for (from, to) in from.data.chunks(4 * from.cols()).zip(out.chunks_mut(4 * to.cols())) {
        to[..from.len()].copy_from_slice(from);
    }
    out
}

#[test]
fn narrow_layers_are_wide_ones_full_of_zeros() {
    // Heads in the same groups: those of zeros have keys and values of zeros.
    let narrow = Tiny { n_layer: 3, uneven: &[[4, 2, 96], [6, 3, 160], [2, 1, 64]], ..TINY };
    let wide = Tiny { uneven: &[], n_head: 6, n_head_kv: 3, n_ff: 160, ..narrow };
    let [from, to] = [narrow, wide].map(|tiny| Gguf::from_bytes("tiny", Bytes::new(tiny.bytes())).unwrap());
    let mut header = Header { metadata: to.metadata().to_vec(), ..Header::new() };
    header.tensors = to.tensors().iter().map(Entry::from).collect();
    let mut file = Vec::new();
    let mut writer = header.write_to("wide".as_ref(), &mut file).unwrap();
    to.tensors().iter().for_each(|to| writer.write(&padded(from.tensor(&to.name).unwrap(), to)).unwrap());
    writer.finish().unwrap();
    let wide = Model::load(&Gguf::from_bytes("wide", Bytes::new(file)).unwrap()).unwrap();
    let tokens = prompt("padded", 150, narrow.n_vocab);
    let [exact, _] = options();
    let run = |model: &Model| logits(&mut decoder(model, exact.clone()), &tokens, 0, 0);
    let narrow = narrow.model();
    assert_same(&run(&wide), &run(&narrow), format_args!("narrow layers"));
    let bytes = |model: &Model| (model.weights.bytes_per_token(), memory::kv_bytes(&model.config, &exact));
    let (wide, narrow) = (bytes(&wide), bytes(&narrow));
    // Of 3 · 3 heads 3 are not there.
    assert!(narrow.0 < wide.0 && 3 * narrow.1 == 2 * wide.1, "{narrow:?} of {wide:?}");
}

#[test]
fn one_number_for_each_layer_is_the_number() {
    let each = Tiny { uneven: &[[4, 2, 288]; 2], ..TINY };
    let tokens = prompt("each", 70, TINY.n_vocab);
    for options in options() {
        let run = |tiny: Tiny| logits(&mut decoder(&tiny.model(), options.clone()), &tokens, 0, 0);
        assert_same(&run(TINY), &run(each), format_args!("{:?}", options.arithmetic));
    }
    assert_eq!(each.model().config.layers, TINY.model().config.layers);
}

#[test]
fn the_plan_counts_each_layer_as_it_is() {
    for tiny in UNEVEN {
        let (model, options) = (tiny.model(), Options { n_ctx: 64, ..options()[1].clone() });
        let plans = &model.config.layers;
        let heads: Vec<_> = plans.iter().map(|l| [l.n_head, l.n_head_kv, l.n_ff()]).collect();
        assert_eq!(heads, tiny.uneven);
        for (il, l) in plans.iter().enumerate() {
            assert_eq!([l.head_dim, l.rope.n_rot], tiny.head(il));
            assert_eq!(l.window.is_some(), tiny.slides(il));
            assert!((l.attention_scale - 1.0 / (l.head_dim as f32).sqrt()).abs() < 1e-7);
        }
        let token: usize = plans.iter().map(|l| 2 * 2 * l.kv_dim()).sum();
        let f16 = Options { type_k: KvType::F16, type_v: KvType::F16, n_seq: 1, ..options };
        assert_eq!(memory::kv_bytes_read(&model.config, &f16, 9), 10 * token as u64);
        let full = Options { swa_full: true, ..f16 };
        assert_eq!(memory::kv_bytes(&model.config, &full), 64 * token as u64);
    }
}

#[test]
fn blocks_that_predict_further_tokens_are_left_where_they_are() {
    let whole = TINY.model();
    let mut parts = Parts::of(TINY);
    parts.set("llama.block_count", 3u32);
    parts.set("llama.nextn_predict_layers", 1u32);
    parts.put_tensor("blk.2.nextn.eh_proj.weight", GgmlType::F32, &[256, 128]);
    parts.put_tensor("blk.2.attn_q.weight", GgmlType::F32, &[128, 256]);
    let model = parts.load().unwrap();
    let tokens = prompt("next", 70, TINY.n_vocab);
    for options in options() {
        let run = |model: &Model| logits(&mut decoder(model, options.clone()), &tokens, 0, 0);
        assert_same(&run(&whole), &run(&model), format_args!("{:?}", options.arithmetic));
        assert_eq!(memory::Plan::new(&model, &options), memory::Plan::new(&whole, &options));
    }
    // Behind them nothing may follow.
    parts.put_tensor("blk.3.attn_q.weight", GgmlType::F32, &[128, 256]);
    assert!(parts.load().is_err_and(|e| e.place == "tensor blk.3.attn_q.weight"));
}
