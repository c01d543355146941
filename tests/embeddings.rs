//! Embeddings beside those of transformers, and that a text's vector is its own: alone, among others, on any number of
//! threads.
//!
//! The numbers in `tests/data/golden/embeddings` were made by `tests/golden/embeddings.py`, which gets its models from here:
//! `QRUN_GOLDEN_DIR=DIR cargo test embeddings::writes_the_models_for_embeddings_py -- --ignored` puts them into `DIR`.

use std::{
    env, fs,
    panic::{self, AssertUnwindSafe},
    path::Path,
    sync::Arc,
};

use qrun::{
    embed::{EmbedError, Embedder, Pooling},
    engine::{DevicePreference, Engine, EngineOptions, LoadCause, Stage},
};
use qrun_models::{Entry, Forward, ForwardError, Gives, Options, Output, memory::Plan, spec::Mask};
use qrun_quant::{Bytes, Gguf};

use crate::{
    golden::relative_l2,
    tiny::{self, ENCODERS, Mix, TINY, Tiny},
};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/golden/embeddings");

/// Largest relative L2 distance of a vector from that of transformers.
const EXACT: f64 = 1e-4;
/// The same of fast arithmetic, which rounds activations to 8 bits where weights are quantized.
const ROUNDED: f64 = 0.05;

struct Case {
    name: &'static str,
    tiny: Tiny,
    prompt: usize,
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { name: "qwen3-F32", prompt: 100, tiny: Tiny { arch: "qwen3", n_embd: 160, n_head: 5, n_head_kv: 1, head_dim: 80, tied: true,
        pooling: 3, ..TINY } },
    Case { name: "qwen3-Q4_K_M", prompt: 70, tiny: Tiny { arch: "qwen3", mix: Mix::Q4_K_M, n_embd: 256, pooling: 3, ..TINY } },
    // Longer than a step of 512 tokens, and than a split of 8 pages.
    Case { name: "bert-F32", prompt: 600, tiny: Tiny { arch: "bert", tied: true, n_embd: 192, n_head: 6, n_head_kv: 6, head_dim: 32,
        biases: true, n_ctx: 640, pooling: 2, ..TINY } },
    Case { name: "bert-Q8_0", prompt: 130, tiny: Tiny { arch: "bert", mix: Mix::Q8_0, tied: true, n_head_kv: 4, head_dim: 32,
        biases: true, pooling: 1, ..TINY } },
    Case { name: "nomic-bert-F32", prompt: 130, tiny: Tiny { arch: "nomic-bert", tied: true, n_embd: 160, n_head: 5, n_head_kv: 5,
        head_dim: 32, fused_qkv: true, rope_base: 1000.0, pooling: 1, ..TINY } },
    Case { name: "nomic-bert-Q4_K_M", prompt: 100, tiny: Tiny { arch: "nomic-bert", mix: Mix::Q4_K_M, tied: true, n_embd: 256,
        n_head_kv: 4, rope_base: 1000.0, pooling: 1, ..TINY } },
    // Windows of odd and even size, several pages wide and less than one.
    Case { name: "gemma-embedding-F32", prompt: 150, tiny: Tiny { arch: "gemma-embedding", tied: true, n_embd: 160, n_head: 4,
        n_head_kv: 1, window: 41, pattern: 3, n_layer: 4, rope_base: 1e6, dense: [224, 96], ..TINY } },
    Case { name: "gemma-embedding-Q8_0", prompt: 330, tiny: Tiny { arch: "gemma-embedding", mix: Mix::Q8_0, tied: true, n_head: 2,
        n_head_kv: 1, head_dim: 128, window: 260, n_layer: 7, rope_base: 1e6, ..TINY } },
    Case { name: "modern-bert-F32", prompt: 150, tiny: Tiny { arch: "modern-bert", tied: true, n_embd: 160, n_head: 5, n_head_kv: 5,
        head_dim: 32, window: 40, n_layer: 5, fused_qkv: true, fused_gate_up: true, rope_base: 160_000.0, ..TINY } },
    Case { name: "modern-bert-Q4_K_M", prompt: 330, tiny: Tiny { arch: "modern-bert", mix: Mix::Q4_K_M, tied: true, n_embd: 256,
        n_head_kv: 4, window: 128, n_layer: 4, fused_qkv: true, fused_gate_up: true, rope_base: 160_000.0, ..TINY } },
];

impl Case {
    fn tokens(&self) -> Vec<u32> {
        tiny::prompt(self.name, self.prompt, self.tiny.n_vocab)
    }
    /// Tokens whose own vectors are compared.
    fn at(&self) -> Vec<usize> {
        (0..4).map(|i| i * (self.prompt - 1) / 3).collect()
    }
    fn width(&self) -> usize {
        self.tiny.dense.into_iter().rfind(|&n| n > 0).unwrap_or(self.tiny.n_embd)
    }
    /// Those of tokens, then mean, first and last: `[7][width]` f32 of transformers.
    fn golden(&self) -> Vec<f32> {
        let bytes = fs::read(Path::new(DATA).join(format!("{}.bin", self.name))).unwrap();
        assert_eq!(bytes.len(), 4 * 7 * self.width(), "{}", self.name);
        bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }
    /// The same of qrun.
    fn ours(&self, options: &Options) -> Vec<f32> {
        let vectors = |pooling| embed(&self.tiny, options, Some(pooling), &[self.tokens()]).remove(0);
        let tokens = vectors(Pooling::None);
        let width = self.width();
        assert_eq!(tokens.len(), self.prompt * width);
        let mut out: Vec<f32> = self.at().iter().flat_map(|at| tokens[at * width..][..width].to_vec()).collect();
        [Pooling::Mean, Pooling::First, Pooling::Last].into_iter().for_each(|pooling| out.extend(vectors(pooling)));
        out
    }
}

fn gguf(tiny: &Tiny) -> Gguf {
    Gguf::from_bytes("tiny", Bytes::new(tiny.bytes())).unwrap()
}

fn engine(tiny: &Tiny, options: &Options) -> Arc<Engine> {
    let options = Options { n_ctx: 0, ..options.clone() };
    // Other tests of this process bring an emulated GPU.
    let options = EngineOptions { options, template: None, device: DevicePreference::Cpu };
    Arc::new(Embedder::engine(gguf(tiny), options).unwrap())
}

fn embedder(tiny: &Tiny, options: &Options, pooling: Option<Pooling>) -> Embedder {
    Embedder::new(engine(tiny, options), pooling, Box::new(|_| ())).unwrap()
}

fn embed(tiny: &Tiny, options: &Options, pooling: Option<Pooling>, texts: &[Vec<u32>]) -> Vec<Vec<f32>> {
    embedder(tiny, options, pooling).embed_tokens(texts, &mut |_| ()).unwrap()
}

fn distance(case: &Case, options: &Options) -> f64 {
    let (golden, ours) = (case.golden(), case.ours(options));
    let rows = ours.chunks_exact(case.width()).zip(golden.chunks_exact(case.width()));
    let worst = rows.map(|(ours, golden)| relative_l2(ours, golden));
    worst.fold(0.0, |worst, d| if d.is_nan() { d } else { worst.max(d) })
}

#[test]
fn the_models_are_those_of_the_golden_vectors() {
    let known = fs::read_to_string(Path::new(DATA).join("models.txt")).unwrap();
    let made: String = CASES.iter().map(|c| format!("{} {:016x}\n", c.name, tiny::fnv1a(&c.tiny.bytes()))).collect();
    assert_eq!(known, made, "other models than the golden vectors are for: run tests/golden/embeddings.py");
}

#[test]
fn exact_vectors_are_those_of_transformers() {
    for case in CASES {
        let worst = distance(case, &Options::exact());
        println!("{:20} relative L2 {worst:.2e}", case.name);
        assert!(worst <= EXACT, "{}: relative L2 {worst:.2e}, at most {EXACT:.0e}", case.name);
    }
}

#[test]
fn fast_vectors_are_near_those_of_transformers() {
    for case in CASES {
        let worst = distance(case, &Options::default());
        println!("{:20} relative L2 {worst:.2e}", case.name);
        assert!(worst <= ROUNDED, "{}: relative L2 {worst:.2e}, at most {ROUNDED:.0e}", case.name);
    }
}

#[test]
fn every_architecture_without_a_mask_has_golden_vectors() {
    for arch in qrun_models::arch::ARCHITECTURES.iter().filter(|arch| arch.mask == Mask::None) {
        assert!(CASES.iter().any(|case| case.tiny.arch == arch.name), "{} has no case", arch.name);
    }
}

#[test]
#[ignore = "writes the models that embeddings.py runs with transformers, into the folder QRUN_GOLDEN_DIR"]
fn writes_the_models_for_embeddings_py() {
    let dir = env::var_os("QRUN_GOLDEN_DIR").expect("QRUN_GOLDEN_DIR names a folder");
    let list = |numbers: Vec<usize>| numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(" ");
    for case in CASES {
        let file = case.tiny.bytes();
        let tokens = case.tokens().iter().map(|&t| t as usize).collect();
        let text = format!("{:016x}\n{}\n{}\n", tiny::fnv1a(&file), list(tokens), list(case.at()));
        fs::write(Path::new(&dir).join(format!("{}.txt", case.name)), text).unwrap();
        fs::write(Path::new(&dir).join(format!("{}.gguf", case.name)), file).unwrap();
    }
}

/// Texts of ragged lengths, short ones that share steps and one that fills more than one.
fn texts(n_vocab: usize) -> Vec<Vec<u32>> {
    let lengths = [1, 3, 12, 13, 40, 2, 64, 65, 5, 100, 1];
    lengths.iter().enumerate().map(|(i, &n)| tiny::prompt(&format!("text {i}"), n, n_vocab)).collect()
}

/// Every kind of weights; with experts, with windows, and with what recurs.
fn models() -> impl Iterator<Item = Tiny> {
    let of = |arch: &str| *tiny::EACH_ARCH.iter().find(|tiny| tiny.arch == arch).unwrap();
    let decoders = ["qwen3", "gemma3", "qwen3moe", "lfm2"].map(of).map(|tiny| Tiny { pooling: 1, ..tiny });
    let tinies: Vec<Tiny> = ENCODERS.into_iter().chain(decoders).collect();
    tinies.into_iter().flat_map(|tiny| [Mix::F32, Mix::BF16, Mix::Q4_K_M].map(|mix| Tiny { mix, ..tiny }))
}

#[test]
fn a_vector_is_the_same_alone_and_among_others_on_any_number_of_threads() {
    for tiny in models() {
        let texts = texts(tiny.n_vocab);
        let options = |threads| Options { threads, n_ubatch: 96, ..Options::default() };
        let together = embed(&tiny, &options(2), None, &texts);
        let threads = embed(&tiny, &options(1), None, &texts);
        let mut alone = embedder(&tiny, &options(3), None);
        let mut reversed = texts.clone();
        reversed.reverse();
        let reversed = embed(&tiny, &options(2), None, &reversed);
        for (i, text) in texts.iter().enumerate() {
            let vector = alone.embed_tokens(std::slice::from_ref(text), &mut |_| ()).unwrap().remove(0);
            let name = format!("{} {:?}, text {i}", tiny.arch, tiny.mix);
            assert!(vector.iter().any(|x| *x != 0.0), "{name}: zeros");
            assert_eq!(together[i], vector, "{name}: among others");
            assert_eq!(threads[i], vector, "{name}: on one thread");
            assert_eq!(reversed[texts.len() - 1 - i], vector, "{name}: in another order");
        }
    }
}

/// As a binding leaves it whose caller has gone: between two steps of a text, too.
#[test]
fn a_watch_that_unwinds_leaves_nothing_behind() {
    let tiny = Tiny { arch: "qwen3", pooling: 1, ..TINY };
    let options = Options { n_ubatch: 32, ..Options::default() };
    let mut e = embedder(&tiny, &options, None);
    let texts = [3, 100, 5].map(|n| tiny::prompt("left", n, tiny.n_vocab));
    let (mut heard, expected) = (Vec::new(), embed(&tiny, &options, None, &texts));
    e.embed_tokens(&texts, &mut |done| heard.push(done)).unwrap();
    assert_eq!(heard, [3, 35, 67, 99, 103, 108]);
    for last in heard {
        let mut watch = |done| {
            if done == last {
                panic::resume_unwind(Box::new("gone"))
            }
        };
        panic::catch_unwind(AssertUnwindSafe(|| e.embed_tokens(&texts, &mut watch))).unwrap_err();
        assert_eq!(e.embed_tokens(&texts, &mut |_| ()).unwrap(), expected, "left after {last} tokens");
    }
}

/// A token sees what comes behind it, as far as its window reaches.
#[test]
fn tokens_see_what_comes_behind_them() {
    for tiny in ENCODERS {
        let options = Options::exact();
        let width = tiny.dense.into_iter().rfind(|&n| n > 0).unwrap_or(tiny.n_embd);
        let tokens = tiny::prompt("behind", 30, tiny.n_vocab);
        let mut other = tokens.clone();
        *other.last_mut().unwrap() ^= 1;
        let vectors = embed(&tiny, &options, Some(Pooling::None), &[tokens, other]);
        assert_ne!(vectors[0][..width], vectors[1][..width], "{}: the first token", tiny.arch);
    }
}

#[test]
fn what_cannot_be_embedded_says_why() {
    let [bert, ..] = ENCODERS;
    let options = Options::default();
    let mut e = embedder(&bert, &options, None);
    assert_eq!(e.pooling(), Pooling::First, "as the file says");
    let too_long = tiny::prompt("x", bert.n_ctx + 1, bert.n_vocab);
    let error = e.embed_tokens(&[vec![5], too_long], &mut |_| ()).unwrap_err().to_string();
    assert_eq!(error, "text 1 has 513 tokens, more than the context of 512; shorten it");
    let error = e.embed_tokens(&[vec![5], vec![]], &mut |_| ()).unwrap_err().to_string();
    assert_eq!(error, "text 1 is empty: it has no tokens");
    let error = e.embed_tokens(&[vec![5], vec![1 << 20]], &mut |_| ()).unwrap_err().to_string();
    assert!(error.contains("expected an id below 323"), "{error}");
    // After errors texts go on.
    assert_eq!(e.embed_tokens(&[vec![5, 6]], &mut |_| ()).unwrap(), embed(&bert, &options, None, &[vec![5, 6]]));

    let llama = engine(&TINY, &options);
    let error = Embedder::new(llama.clone(), None, Box::new(|_| ())).err().unwrap();
    assert!(matches!(error, EmbedError::NoPooling { .. }), "{error}");
    assert!(error.to_string().contains("no key llama.pooling_type); give --pooling mean"), "{error}");
    assert!(Embedder::new(llama, Some(Pooling::Last), Box::new(|_| ())).is_ok());
    let rank = engine(&Tiny { pooling: 4, ..bert }, &options);
    let error = Embedder::new(rank, None, Box::new(|_| ())).err().unwrap().to_string();
    assert!(error.contains("pooling \"rank\"") && error.contains("not implemented"), "{error}");
    let error = Engine::open(gguf(&bert), EngineOptions::default()).err().unwrap();
    assert!(matches!(*error.source, LoadCause::NoText { arch: "bert", .. }) && error.stage == Stage::Model, "{error}");
    assert!(error.to_string().contains("qrun embed tiny"), "{error}");
}

#[test]
fn no_head_is_held() {
    let model = Tiny { mix: Mix::Q8_0, ..TINY }.model();
    let bytes = |repack, gives| Plan::new(&model, &Options { repack, gives, ..Options::default() }).weights;
    let head = model.weights.output.as_ref().unwrap().w.bytes() as u64;
    assert_eq!(bytes(false, Gives::Logits) - bytes(false, Gives::Hidden), head);
    assert!(bytes(true, Gives::Logits) - bytes(true, Gives::Hidden) >= head);
}

/// The decoder itself: a text that is seen whole does not go on, and shares nothing.
#[test]
fn a_text_that_is_seen_whole_goes_in_one_step() {
    for tiny in ENCODERS {
        let model = tiny.model();
        let options = Options { gives: Gives::Hidden, n_seq: 2, ..Options::exact() };
        let mut d = tiny::decoder(&model, options);
        let tokens = tiny::prompt("whole", 70, tiny.n_vocab);
        let whole = d.forward(&tiny::entries(&tokens, 0, 0)).unwrap().to_vec();
        assert_eq!(whole.len(), 70 * tiny.n_embd);
        let more = Entry { token: 5, pos: 70, seq: 0, output: Output::Logits, drafted: false };
        assert_eq!(d.forward(&[more]).unwrap_err(), ForwardError::Whole { seq: 0, held: 70 });
        d.release(0, &tokens);
        assert_eq!((d.len(0), d.attach(0, &tokens), d.kv_bytes()), (0, 0, 0), "{}: nothing is kept", tiny.arch);
        assert_eq!(d.forward(&tiny::entries(&tokens, 0, 1)).unwrap(), whole);
    }
}
