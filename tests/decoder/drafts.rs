//! The draft head against its definition, and steps with guesses against steps without: what is accepted is there to the bit,
//! and what is not was never there.

use std::sync::{Arc, Mutex};

use qrun_models::{CpuDecoder, DraftRequest, Entry, Forward, Model, Options, Output, memory};
use qrun_quant::{Bytes, GgmlType, Gguf};

use super::{assert_same, options, refusals::Parts, runs};
use crate::tiny::{Mix, Rng, TINY, Tiny, decoder, logits, prompt};

const QWEN35: Tiny = Tiny { arch: "qwen35", n_rot: 16, n_layer: 4, draft_head: true, ..TINY };
const QWEN35MOE: Tiny = Tiny { arch: "qwen35moe", experts: [12, 3, 64, 96], ..QWEN35 };

fn with_head(tiny: Tiny) -> Model {
    Model::load_with_draft_head(&Gguf::from_bytes("tiny", Bytes::new(tiny.bytes())).unwrap()).unwrap()
}

fn drafting(o: Options) -> Options {
    Options { n_draft: 4, draft_head: true, ..o }
}

/// What a decoder gives to its taps under a name.
fn tapped(d: &mut CpuDecoder, name: &'static str) -> Arc<Mutex<Vec<f64>>> {
    let values: Arc<Mutex<Vec<f64>>> = Arc::default();
    let given = values.clone();
    let tap = move |_, of: &'static str, values: &[f32]| {
        if of == name {
            given.lock().unwrap().extend(values.iter().map(|&x| f64::from(x)));
        }
    };
    assert!(d.set_tap(Some(Box::new(tap))));
    values
}

/// The head as it is defined, with loops and in f64.
struct Reference {
    tiny: Tiny,
    file: Gguf,
    /// Keys and values of the block, `[position][n_head_kv · head_dim]`.
    keys: Vec<Vec<f64>>,
    values: Vec<Vec<f64>>,
}

impl Reference {
    fn tensor(&self, name: &str) -> Vec<f64> {
        let t = self.file.tensor(name).unwrap_or_else(|| panic!("{name}"));
        let mut out = vec![0.0; t.shape.iter().product::<u64>() as usize];
        (t.ty.format().dequantize)(&t.data, &mut out);
        out.into_iter().map(f64::from).collect()
    }

    fn of_block(&self, part: &str) -> Vec<f64> {
        self.tensor(&format!("blk.{}.{part}.weight", self.tiny.n_layer))
    }

    fn product(&self, part: &str, x: &[f64]) -> Vec<f64> {
        self.of_block(part).chunks(x.len()).map(|row| row.iter().zip(x).map(|(w, x)| w * x).sum()).collect()
    }

    /// `x / √(mean x² + eps) · w` of each row as long as `w`.
    fn norm(x: &[f64], w: &[f64]) -> Vec<f64> {
        let row = |x: &[f64]| {
            let root = (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64 + 1e-6).sqrt();
            x.iter().zip(w).map(|(x, w)| x / root * w).collect::<Vec<_>>()
        };
        x.chunks(w.len()).flat_map(row).collect()
    }

    /// Pairs `(i, i + n_rot / 2)` of each head turn.
    fn turn(&self, x: &mut [f64], pos: usize) {
        let half = self.tiny.n_rot / 2;
        for head in x.chunks_mut(self.tiny.head_dim) {
            for i in 0..half {
                let base = f64::from(self.tiny.rope_base);
                let angle = pos as f64 * base.powf(-2.0 * i as f64 / self.tiny.n_rot as f64);
                let (a, b) = (head[i], head[i + half]);
                head[i] = a * angle.cos() - b * angle.sin();
                head[i + half] = a * angle.sin() + b * angle.cos();
            }
        }
    }

    /// A token at the next position, and the hidden state before it: the head's hidden state and logits.
    fn next(&mut self, token: u32, hidden: &[f64]) -> [Vec<f64>; 2] {
        let Tiny { n_embd: d, head_dim, n_head, n_head_kv, .. } = self.tiny;
        let embedding = self.tensor("token_embd.weight")[token as usize * d..][..d].to_vec();
        let mut both = Self::norm(&embedding, &self.of_block("nextn.enorm"));
        both.extend(Self::norm(hidden, &self.of_block("nextn.hnorm")));
        let mut x = self.product("nextn.eh_proj", &both);
        let h = Self::norm(&x, &self.of_block("attn_norm"));
        let (queries, gates): (Vec<_>, Vec<_>) = {
            let both = self.product("attn_q", &h);
            let heads = both.chunks(2 * head_dim).map(|head| (head[..head_dim].to_vec(), head[head_dim..].to_vec()));
            heads.unzip()
        };
        let pos = self.keys.len();
        let mut q = Self::norm(&queries.concat(), &self.of_block("attn_q_norm"));
        let mut k = Self::norm(&self.product("attn_k", &h), &self.of_block("attn_k_norm"));
        self.turn(&mut q, pos);
        self.turn(&mut k, pos);
        self.keys.push(k);
        self.values.push(self.product("attn_v", &h));
        let mut attention = Vec::new();
        for (i, q) in q.chunks(head_dim).enumerate() {
            let of_head = i / (n_head / n_head_kv) * head_dim..(i / (n_head / n_head_kv) + 1) * head_dim;
            let score = |k: &Vec<f64>| q.iter().zip(&k[of_head.clone()]).map(|(q, k)| q * k).sum::<f64>();
            let scores: Vec<f64> = self.keys.iter().map(|k| (score(k) / (head_dim as f64).sqrt()).exp()).collect();
            let sum: f64 = scores.iter().sum();
            attention.extend(
                of_head
                    .clone()
                    .map(|at| self.values.iter().zip(&scores).map(|(v, score)| v[at] * score).sum::<f64>() / sum),
            );
        }
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        attention.iter_mut().zip(gates.concat()).for_each(|(x, gate)| *x *= sigmoid(gate));
        let out = self.product("attn_output", &attention);
        x.iter_mut().zip(out).for_each(|(x, out)| *x += out);
        let h = Self::norm(&x, &self.of_block("post_attention_norm"));
        let gate = self.product("ffn_gate", &h);
        let up = self.product("ffn_up", &h);
        let inner: Vec<f64> = gate.iter().zip(up).map(|(gate, up)| gate * sigmoid(*gate) * up).collect();
        let out = self.product("ffn_down", &inner);
        x.iter_mut().zip(out).for_each(|(x, out)| *x += out);
        let hidden = Self::norm(&x, &self.of_block("nextn.shared_head_norm"));
        let head = self.tensor("output.weight");
        let logits = head.chunks(d).map(|row| row.iter().zip(&hidden).map(|(w, x)| w * x).sum()).collect();
        [hidden, logits]
    }
}

#[test]
fn the_draft_head_is_what_its_definition_says() {
    let (file, n) = (Gguf::from_bytes("tiny", Bytes::new(QWEN35.bytes())).unwrap(), 70);
    let mut d = decoder(&with_head(QWEN35), Options { threads: 2, n_ctx: 256, ..drafting(Options::exact()) });
    let tokens = prompt("draft", n + 1, QWEN35.n_vocab);
    let hidden = tapped(&mut d, "result_norm");
    // In chunks that end anywhere.
    logits(&mut d, &tokens[..23], 0, 0);
    logits(&mut d, &tokens[23..n], 23, 0);
    let hidden = hidden.lock().unwrap().clone();
    let mut reference = Reference { tiny: QWEN35, file, keys: Vec::new(), values: Vec::new() };
    let mut before = vec![0.0; QWEN35.n_embd];
    let mut last = Vec::new();
    for (pos, &token) in tokens.iter().enumerate() {
        last = reference.next(token, &before).to_vec();
        before = hidden.chunks(QWEN35.n_embd).nth(pos).map_or(before, <[f64]>::to_vec);
    }
    let found = tapped(&mut d, "draft_output");
    let draft = d.draft(&[DraftRequest { seq: 0, token: tokens[n], most: 4 }], 0.0).remove(0);
    assert_eq!(draft.len(), 4);
    let found = found.lock().unwrap().clone();
    for (found, &token) in found.chunks(QWEN35.n_vocab).zip(&draft) {
        let [hidden, want] = [&last[0], &last[1]];
        let distance: f64 = found.iter().zip(want).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
        let length = want.iter().map(|x| x * x).sum::<f64>().sqrt();
        assert!(distance < 1e-4 * length, "{distance} of {length}");
        let best = (0..want.len()).max_by(|&a, &b| want[a].total_cmp(&want[b])).unwrap();
        assert_eq!(best as u32, token);
        last = reference.next(token, &hidden.clone()).to_vec();
    }
}

/// The next tokens of a sequence, the last `guessed` of them as guesses.
fn guesses(tokens: &[u32], (start, seq): (usize, u32), guessed: usize) -> Vec<Entry> {
    let certain = tokens.len() - guessed;
    let entry = |(i, &token)| {
        let pos = (start + i) as u32;
        Entry { token, pos, seq, output: Output::Logits, drafted: i >= certain }
    };
    tokens.iter().enumerate().map(entry).collect()
}

#[test]
fn guesses_that_are_accepted_are_there_and_others_never_were() {
    let heads = [QWEN35, QWEN35MOE].map(|tiny| Tiny { mix: Mix::Q4_K_M, n_embd: 256, n_ff: 96, n_vocab: 61, ..tiny });
    let heads = heads.into_iter().flat_map(|tiny| options().map(|o| (tiny, o)));
    for (tiny, options) in runs().chain(heads) {
        let model = if tiny.draft_head { with_head(tiny) } else { tiny.model() };
        let options = Options { draft_head: tiny.draft_head, ..drafting(options) };
        let mut rng = Rng::new(tiny.arch);
        let tokens = prompt("true", 192, tiny.n_vocab);
        let wrong = prompt("wrong", 200, tiny.n_vocab);
        let mut plain = decoder(&model, options.clone());
        let want = logits(&mut plain, &tokens, 0, 0);
        let mut d = decoder(&model, Options { n_ubatch: 3, ..options });
        // Another sequence has guesses in the same steps.
        let mut lens = [50, 7];
        for seq in [0, 1] {
            logits(&mut d, &tokens[..lens[seq]], 0, seq as u32);
        }
        while lens[0] < 192 {
            let (mut batch, mut right) = (Vec::new(), [0; 2]);
            for seq in [0, 1] {
                let n = rng.below(5).min(191 - lens[seq]);
                right[seq] = rng.below(n + 1);
                let true_ones = &tokens[lens[seq]..lens[seq] + 1 + right[seq]];
                let guessed = [true_ones, &wrong[lens[seq]..lens[seq] + n - right[seq]]].concat();
                batch.extend(guesses(&guessed, (lens[seq], seq as u32), n));
            }
            let found = d.forward(&batch).unwrap().to_vec();
            let mut rows = batch.iter().zip(found.chunks(tiny.n_vocab));
            for seq in [0, 1] {
                let taken = batch.iter().filter(|e| e.seq as usize == seq).count();
                let rows: Vec<_> = rows.by_ref().take(taken).collect();
                for (entry, row) in &rows[..1 + right[seq]] {
                    let at = entry.pos as usize * tiny.n_vocab;
                    assert_same(&want[at..at + tiny.n_vocab], row, format_args!("{} at {}", tiny.arch, entry.pos));
                }
                assert_eq!(d.len(seq as u32) as usize, lens[seq] + 1, "a guess is no token");
                // Where none is right nobody need say so.
                if right[seq] > 0 || rng.below(2) > 0 {
                    d.accept(seq as u32, right[seq]);
                }
                lens[seq] += 1 + right[seq];
                assert_eq!(d.len(seq as u32) as usize, lens[seq]);
            }
        }
        // The end of a page: no slot is left of a guess.
        let saved = |d: &CpuDecoder| {
            let mut bytes = Vec::new();
            d.save(0, &mut bytes).unwrap();
            bytes
        };
        assert!(saved(&plain) == saved(&d), "{}: the same keys, values and states", tiny.arch);
    }
}

#[test]
fn guesses_are_gone_where_another_sequence_goes_on_from_there() {
    for tiny in [Tiny { mix: Mix::Q8_0, ..TINY }, Tiny { mix: Mix::Q8_0, draft_head: false, ..QWEN35 }] {
        let (model, [_, o]) = (tiny.model(), options());
        let tokens = prompt("fork", 80, tiny.n_vocab);
        let mut d = decoder(&model, Options { draft_head: false, ..drafting(o) });
        let want = logits(&mut d, &tokens, 0, 2);
        logits(&mut d, &tokens[..60], 0, 0);
        d.forward(&guesses(&tokens[60..64], (60, 0), 3)).unwrap();
        assert_eq!(d.fork(0, 1, 61), 61);
        d.accept(0, 3);
        assert_eq!(d.len(0), 61);
        for seq in [0, 1] {
            let found = logits(&mut d, &tokens[61..], 61, seq);
            assert_same(&want[61 * tiny.n_vocab..], &found, format_args!("{} sequence {seq}", tiny.arch));
        }
    }
}

#[test]
fn a_draft_changes_nothing_and_does_not_depend_on_how_the_text_came() {
    let model = with_head(Tiny { mix: Mix::Q8_0, ..QWEN35 });
    let [_, o] = options();
    let tokens = prompt("ways", 131, QWEN35.n_vocab);
    let next =
        |d: &mut CpuDecoder, seq, n: usize| d.draft(&[DraftRequest { seq, token: tokens[n], most: 4 }], 0.0).remove(0);
    for n in [1, 63, 64, 65, 127, 128, 130] {
        let mut d = decoder(&model, drafting(o.clone()));
        logits(&mut d, &tokens[..n], 0, 0);
        let want = next(&mut d, 0, n);
        assert_eq!(want.len(), 4);
        assert_eq!(next(&mut d, 0, n), want, "once more");
        assert_eq!(d.len(0) as usize, n);
        let mut plain = decoder(&model, o.clone());
        logits(&mut plain, &tokens[..n], 0, 0);
        let (a, b) = (logits(&mut d, &tokens[n..n + 1], n, 0), logits(&mut plain, &tokens[n..n + 1], n, 0));
        assert_same(&a, &b, format_args!("after a draft at {n}"));
        // One by one, from another's cache, from a file, beside others.
        let mut d = decoder(&model, drafting(o.clone()));
        (0..n).for_each(|i| drop(logits(&mut d, &tokens[i..i + 1], i, 0)));
        assert_eq!(next(&mut d, 0, n), want, "token by token, {n}");
        let mut saved = Vec::new();
        d.save(0, &mut saved).unwrap();
        assert_eq!(d.fork(0, 1, n as u32) as usize, n);
        assert_eq!(next(&mut d, 1, n), want, "forked, {n}");
        d.release(0, &tokens[..n]);
        assert_eq!(d.attach(2, &tokens[..n]) as usize, n);
        d.load(3, &mut &saved[..]).unwrap();
        let both: Vec<_> = [2, 3].map(|seq| DraftRequest { seq, token: tokens[n], most: 4 }).into();
        assert_eq!(d.draft(&both, 0.0), [want.clone(), want.clone()], "attached and loaded, {n}");
        // Without a head, and where the context ends, there are none.
        assert!(next(&mut plain, 0, n).is_empty());
        assert!(d.draft(&[DraftRequest { most: 257 - n, ..both[0] }], 0.0)[0].is_empty());
        // Certain of nothing among random weights.
        assert!(d.draft(&both[..1], 1.0)[0].is_empty());
    }
}

#[test]
fn a_draft_head_costs_what_the_plan_says() {
    let tiny = Tiny { mix: Mix::Q8_0, ..QWEN35 };
    let (with, without) = (with_head(tiny), tiny.model());
    let [_, o] = options();
    let plans = [(&without, &o), (&with, &drafting(o.clone()))].map(|(model, o)| memory::Plan::new(model, o));
    assert_eq!(memory::Plan::new(&with, &o), plans[0], "a head that is not used costs nothing");
    let file = Gguf::from_bytes("tiny", Bytes::new(tiny.bytes())).unwrap();
    let of_head = file.tensors().iter().filter(|t| t.name.starts_with("blk.4.") && t.shape.len() > 1);
    let bytes: u64 = of_head.map(|t| t.data.len() as u64).sum();
    let mapped = Options { repack: false, ..o.clone() };
    let weights = |model, o: &Options| memory::Plan::new(model, o).weights;
    assert_eq!(weights(&with, &drafting(mapped.clone())) - weights(&without, &mapped), bytes);
    // Keys and values of one layer more, the hidden state, and states behind each guess.
    let states: usize = without.config.layers.iter().map(|l| l.state_len()).sum();
    let kv = 2 * 2 * tiny.n_head_kv * tiny.head_dim * o.n_seq * o.n_ctx;
    // Of pages with states there are six for a sequence.
    let more = 4 * o.n_seq * (4 * (states + tiny.n_embd) + 6 * tiny.n_embd);
    assert_eq!((plans[1].kv - plans[0].kv) as usize, kv + more);
    let mut d = decoder(&with, drafting(o));
    logits(&mut d, &prompt("cost", 100, tiny.n_vocab), 0, 0);
    assert_eq!(
        d.kv_bytes() as usize,
        2 * 4 * (states + tiny.n_embd) + 2 * (2 * 2 * 2 * 64 * tiny.n_head_kv * tiny.head_dim)
    );
}

#[test]
fn a_bad_draft_head_is_named_where_it_is_asked_for() {
    type Case = (fn(&mut Parts), &'static str, &'static str, &'static str);
    let cases: [Case; 9] = [
        (
            |p| p.drop_tensor("blk.4.nextn.eh_proj.weight"),
            "tensor blk.4.nextn.eh_proj.weight",
            "[256, 128]",
            "no such tensor",
        ),
        (|p| p.drop_tensor("blk.4.nextn.enorm.weight"), "tensor blk.4.nextn.enorm.weight", "[128]", "no such tensor"),
        (|p| p.drop_tensor("blk.4.nextn.hnorm.weight"), "tensor blk.4.nextn.hnorm.weight", "[128]", "no such tensor"),
        (|p| p.drop_tensor("blk.4.attn_k.weight"), "tensor blk.4.attn_k.weight", "[128, 128]", "no such tensor"),
        (
            |p| p.put_tensor("blk.4.nextn.eh_proj.weight", GgmlType::F32, &[128, 128]),
            "tensor blk.4.nextn.eh_proj.weight",
            "[256, 128]",
            "[128, 128]",
        ),
        (
            |p| p.put_tensor("blk.4.nextn.shared_head_head.weight", GgmlType::F32, &[128, 322]),
            "tensor blk.4.nextn.shared_head_head.weight",
            "[128, 323]",
            "[128, 322]",
        ),
        (
            |p| p.put_tensor("blk.4.ssm_a", GgmlType::F32, &[4]),
            "tensor blk.4.ssm_a",
            "only tensors that qrun's qwen35 knows",
            "a tensor without a place in the model",
        ),
        (|p| p.set("qwen35.nextn_predict_layers", 2u32), "key qwen35.nextn_predict_layers", "1 block", "2"),
        (|p| p.drop_key("qwen35.nextn_predict_layers"), "key qwen35.nextn_predict_layers", "1 block", "no such block"),
    ];
    for (change, place, expected, found) in cases {
        let mut parts = Parts::of(QWEN35);
        change(&mut parts);
        let file = parts.file().unwrap();
        let error = Model::load_with_draft_head(&file).err().unwrap_or_else(|| panic!("{place} is not missed"));
        assert_eq!(error.place, place);
        assert!(error.expected.contains(expected) && error.found.contains(found), "{error}");
    }
    let other = Gguf::from_bytes("tiny", Bytes::new(TINY.bytes())).unwrap();
    let error = Model::load_with_draft_head(&other).err().unwrap();
    assert!(error.expected.contains("qwen35moe") && error.found.contains("llama"), "{error}");
    // Tables of its own, and none of its own.
    let mut parts = Parts::of(QWEN35);
    parts.drop_tensor("blk.4.nextn.shared_head_norm.weight");
    parts.put_tensor("blk.4.nextn.embed_tokens.weight", GgmlType::F32, &[128, 323]);
    parts.put_tensor("blk.4.nextn.shared_head_head.weight", GgmlType::F32, &[128, 323]);
    let model = Model::load_with_draft_head(&parts.file().unwrap()).unwrap();
    let mut d = decoder(&model, drafting(options()[1].clone()));
    logits(&mut d, &prompt("own", 5, 323), 0, 0);
    // All logits are zero there: the first token.
    assert_eq!(d.draft(&[DraftRequest { seq: 0, token: 9, most: 2 }], 0.0), [[0, 0]]);
}
