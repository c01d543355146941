//! Perplexity and divergence: on a decoder whose distributions can be worked out by hand, and as a job.

use std::{
    io::{self, Read, Write},
    process::{Command, Output},
    sync::{Arc, Mutex},
};

use qrun::{
    generate::Scheduler,
    tools::quality::{Chunks, Comparison, QualityError, compare, perplexity},
    tools::quantize::FileType,
    tools::synth,
};
use qrun_cuda::ops::sample::SampledToken;
use qrun_models::{self as models, Batch, Entry, Forward, ForwardError, Rows};

const N_VOCAB: usize = 4;
const BOS: u32 = 3;

/// After token `t` come the logits `rows[t]`; remembers what it was fed.
struct Table {
    rows: [[f32; N_VOCAB]; N_VOCAB],
    n_ctx: usize,
    fed: Arc<Mutex<Vec<Entry>>>,
    logits: Vec<f32>,
    tokens: Vec<Option<SampledToken>>,
}

impl Table {
    fn new(rows: [[f32; N_VOCAB]; N_VOCAB]) -> Self {
        Self { rows, n_ctx: 8, fed: Arc::default(), logits: Vec::new(), tokens: Vec::new() }
    }
    /// The same distribution after every token.
    fn always(weights: [f32; N_VOCAB]) -> Self {
        Self::new([weights.map(f32::ln); N_VOCAB])
    }
}

impl Forward for Table {
    fn n_vocab(&self) -> usize {
        N_VOCAB
    }
    fn n_ctx(&self) -> usize {
        self.n_ctx
    }
    fn n_seq(&self) -> usize {
        1
    }
    fn step(&mut self, batch: &Batch) -> Result<Rows<'_>, ForwardError> {
        self.fed.lock().expect("one thread").extend_from_slice(batch.entries);
        let wanted = batch.entries.iter().filter(|e| e.output != models::Output::None);
        self.tokens = wanted.clone().map(|_| None).collect();
        self.logits = wanted.flat_map(|e| self.rows[e.token as usize]).collect();
        Ok(self.rows())
    }
    fn rows(&self) -> Rows<'_> {
        Rows::new(N_VOCAB, &self.tokens, &self.logits)
    }
    fn len(&self, _: u32) -> u32 {
        self.fed.lock().expect("one thread").last().map_or(0, |e| e.pos + 1)
    }
    fn rewind(&mut self, _: u32, pos: u32) -> u32 {
        pos
    }
    fn bytes_per_token(&self) -> u64 {
        0
    }
    fn kv_bytes(&self) -> u64 {
        0
    }
    fn save(&self, _: u32, _: &mut dyn Write) -> io::Result<()> {
        Err(io::Error::other("a table has no cache"))
    }
    fn load(&mut self, _: u32, _: &mut dyn Read) -> io::Result<()> {
        Err(io::Error::other("a table has no cache"))
    }
}

fn scheduler(table: Table) -> Scheduler {
    Scheduler::of_tokens(Box::new(table))
}

fn chunks(tokens: &[u32], size: usize) -> Chunks {
    Chunks::new(tokens.to_vec(), size, Some(BOS)).expect("a text of at least one chunk")
}

fn near(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{what}: {found}, expected {expected}");
}

#[test]
fn a_text_is_cut_as_llama_cpp_cuts_it() {
    let text = chunks(&[0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0], 6);
    assert_eq!((text.count(), text.size(), text.scored()), (2, 6, 4));
    let table = Table::always([1.0; N_VOCAB]);
    let fed = table.fed.clone();
    let mut seen = Vec::new();
    perplexity(&mut scheduler(table), &text, &mut |done, total| seen.push((done, total))).expect("a perplexity");
    let fed: Vec<_> =
        fed.lock().expect("one thread").iter().map(|e| (e.token, e.pos, e.output == models::Output::Logits)).collect();
    // BOS instead of the first token; logits from the middle on; the last token has nothing to predict.
    #[rustfmt::skip]
    assert_eq!(fed, [
        (BOS, 0, false), (1, 1, false), (2, 2, false), (0, 3, true), (1, 4, true),
        (BOS, 0, false), (1, 1, false), (2, 2, false), (0, 3, true), (1, 4, true),
    ]);
    assert!(seen.is_sorted() && seen.first() == Some(&(0, 12)) && seen.last() == Some(&(12, 12)), "{seen:?}");
    let table = Table::always([1.0; N_VOCAB]);
    let fed = table.fed.clone();
    let without = Chunks::new(vec![0, 1, 2, 0], 4, None).expect("a chunk");
    perplexity(&mut scheduler(table), &without, &mut |_, _| ()).expect("a perplexity");
    assert_eq!(fed.lock().expect("one thread")[0].token, 0, "no BOS where the model adds none");
}

#[test]
fn perplexities_worked_out_by_hand() {
    let text = chunks(&[0, 0, 0, 1, 0, 2, 0, 0], 8);
    // Counted are the tokens at 5, 6 and 7: 2, 0, 0.
    let cases: [(&str, [f32; N_VOCAB], f64); 3] = [
        ("equal weights", [1.0; N_VOCAB], 4.0),
        ("weights", [5.0, 1.0, 2.0, 2.0], (5.0f64 * 2.0 * 2.0).cbrt()),
        ("a scale that overflows exp", [5e37, 1e37, 2e37, 2e37], (5.0f64 * 2.0 * 2.0).cbrt()),
    ];
    for (name, weights, expected) in cases {
        let found = perplexity(&mut scheduler(Table::always(weights)), &text, &mut |_, _| ()).expect(name);
        near(found.value().mean, expected, name);
        // Of ln 5, ln 2, ln 2: sqrt(mean of squared distances / (n - 1)).
        let spread = if weights[0] == weights[1] { 0.0 } else { 2.5f64.ln() * (2.0f64 / 9.0 / 2.0).sqrt() };
        near(found.nll.error, spread, name);
        near(found.value().error, spread * expected, name);
    }
    let mut shifted = Table::always([5.0, 1.0, 2.0, 2.0]);
    shifted.rows = shifted.rows.map(|row| row.map(|x| x + 1000.0));
    let found = perplexity(&mut scheduler(shifted), &text, &mut |_, _| ()).expect("shifted").value().mean;
    assert!((found - 20.0f64.cbrt()).abs() < 1e-3, "a constant added to logits changes nothing: {found}");
}

fn compared(model: [f32; N_VOCAB], base: [f32; N_VOCAB]) -> Comparison {
    let text = chunks(&[0, 0, 0, 1, 0, 2, 0, 0], 8);
    compare(&mut scheduler(Table::always(model)), &mut scheduler(Table::always(base)), &text, &mut |_, _| ())
        .expect("a comparison")
}

#[test]
fn divergences_worked_out_by_hand() {
    let same = compared([5.0, 1.0, 2.0, 2.0], [5.0, 1.0, 2.0, 2.0]);
    assert_eq!((same.kl.mean, same.kl_max, same.log_ratio.mean, same.delta().mean), (0.0, 0.0, 0.0, 0.0));
    assert_eq!((same.same_top.mean, same.delta().error), (1.0, 0.0));

    let apart = compared([1.0, 2.0, 4.0, 1.0], [4.0, 2.0, 1.0, 1.0]);
    // KL(base‖model) = 4/8 ln 4 + 1/8 ln ¼.
    let kl = 0.5 * 4.0f64.ln() - 0.125 * 4.0f64.ln();
    near(apart.kl.mean, kl, "KL");
    near(apart.kl_max, kl, "largest KL");
    assert_eq!(apart.same_top.mean, 0.0);
    // The model gives ½, ⅛, ⅛ to the counted tokens, the base ⅛, ½, ½.
    near(apart.model.value().mean, 128.0f64.cbrt(), "PPL");
    near(apart.base.value().mean, 32.0f64.cbrt(), "base PPL");
    near(apart.log_ratio.mean, 4.0f64.ln() / 3.0, "ln ratio");
    near(apart.delta().mean, 128.0f64.cbrt() - 32.0f64.cbrt(), "ΔPPL");
    // Errors of opposite sign add up.
    near(apart.delta().error, apart.model.value().error + apart.base.value().error, "error of ΔPPL");

    // Not symmetric: the base is the truth.
    let (ab, ba) = (compared([1.0; 4], [13.0, 1.0, 1.0, 1.0]), compared([13.0, 1.0, 1.0, 1.0], [1.0; 4]));
    near(ab.kl.mean, 4.0f64.ln() - 16.0f64.ln() + 13.0 / 16.0 * 13.0f64.ln(), "KL from the even distribution");
    assert!((ab.kl.mean - ba.kl.mean).abs() > 0.01, "{} {}", ab.kl.mean, ba.kl.mean);
    assert_eq!(ab.same_top.mean, 1.0, "of equal logits the first is the best");
}

#[test]
fn what_cannot_be_measured_is_an_error() {
    let tokens = [0, 1, 2, 0, 1, 2, 0, 1];
    for size in [0, 1, 3] {
        assert_eq!(Chunks::new(tokens.to_vec(), size, None), Err(QualityError::ChunkSize { size }));
    }
    for text in [&tokens[..], &[]] {
        assert_eq!(Chunks::new(text.to_vec(), 9, None), Err(QualityError::TooShort { size: 9 }));
    }
    let table = Table { n_ctx: 7, ..Table::always([1.0; 4]) };
    let refused = perplexity(&mut scheduler(table), &chunks(&tokens, 8), &mut |_, _| ());
    assert_eq!(refused, Err(QualityError::Context { size: 8, n_ctx: 7 }));
    let outside = perplexity(&mut scheduler(Table::always([1.0; 4])), &chunks(&[9; 8], 8), &mut |_, _| ());
    assert_eq!(outside, Err(QualityError::Forward(ForwardError::Token { token: 9, n_vocab: 4 })));
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let table = || {
            let mut table = Table::always([1.0; 4]);
            table.rows[2][1] = bad;
            scheduler(table)
        };
        let found = perplexity(&mut table(), &chunks(&tokens, 4), &mut |_, _| ());
        let Err(QualityError::NotFinite { token: 1, chunk: 0, pos: 2, value }) = found else { panic!("{found:?}") };
        assert_eq!(value.to_bits(), bad.to_bits());
        let found = compare(&mut scheduler(Table::always([1.0; 4])), &mut table(), &chunks(&tokens, 4), &mut |_, _| ());
        assert!(matches!(found, Err(QualityError::NotFinite { .. })), "{found:?}");
    }
}

fn job(folder: &std::path::Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qrun"));
    command.current_dir(folder).arg("perplexity").args(line.split(' ')).output().expect("qrun starts")
}

#[test]
fn the_job_says_it_in_a_line_or_as_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    for (name, seed) in [("tiny-llama", 7), ("tiny-gemma3", 7), ("tiny-llama-2", 8)] {
        let path = folder.join(format!("{name}.gguf"));
        synth::synth(name.trim_end_matches("-2"), FileType::Q8_0, seed, &path, &mut |_, _| {}).expect("a tiny model");
    }
    std::fs::write(folder.join("text"), "a quick brown fox jumps over the lazy dog; ".repeat(12)).expect("a text");
    let output = job(folder, "tiny-llama.gguf -f text -c 64");
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(line.starts_with("PPL ") && line.contains(" chunks of 64; ") && line.lines().count() == 1, "{line}");

    assert!(line.ends_with(", fast arithmetic, KV f16/f16\n"), "where and how it was computed: {line}");

    let json = |line: &str| -> serde_json::Value {
        let output = job(folder, line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{line}: {e} {said}"))
    };
    let alone = json("-m tiny-llama.gguf -f text -c 64 --json");
    let ppl = alone["ppl"]["mean"].as_f64().expect("a number");
    assert!(ppl > 1.0 && line.starts_with(&format!("PPL {ppl:.4} ")), "{line} {alone}");
    assert_eq!(alone["scored"].as_u64(), alone["chunks"].as_u64().map(|n| 31 * n));

    let itself = json("tiny-llama.gguf -f text -c 64 --kl-base tiny-llama.gguf --json");
    assert_eq!((&itself["ppl"], &itself["base"]["ppl"]), (&alone["ppl"], &alone["ppl"]));
    assert_eq!((itself["kl"]["mean"].as_f64(), itself["same_top"]["mean"].as_f64()), (Some(0.0), Some(1.0)));
    let exact = json("tiny-llama.gguf -f text -c 64 --kl-base tiny-llama.gguf --kl-base-exact --device cpu --json");
    let on_cpu = |arithmetic: &str, kv: &str| serde_json::json!({ "device": "CPU", "arithmetic": arithmetic, "kv_types": [kv, kv] });
    assert_eq!((&exact["runs_on"], &exact["base_runs_on"]), (&on_cpu("fast", "f16"), &on_cpu("exact", "f32")));
    let other = json("tiny-llama.gguf -f text -c 64 --kl-base tiny-llama-2.gguf --json");
    assert!(other["kl"]["mean"].as_f64() > Some(0.01), "{other}");
    for how in ["--exact", "--kl-base-exact", "--cache-type-k q8_0 --cache-type-v q8_0"] {
        let near = json(&format!("tiny-llama.gguf -f text -c 64 --kl-base tiny-llama.gguf --json {how}"));
        let kl = near["kl"]["mean"].as_f64().expect("a number");
        assert!(kl > 0.0 && kl < 1e-2, "{how}: {kl}");
    }
}

#[test]
fn the_job_refuses_what_it_cannot_measure() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let path = folder.join("m.gguf");
    synth::synth("tiny-llama", FileType::Q8_0, 7, &path, &mut |_, _| {}).expect("a tiny model");
    synth::synth("tiny-gemma3", FileType::Q8_0, 7, &folder.join("g.gguf"), &mut |_, _| {}).expect("a tiny model");
    std::fs::write(folder.join("text"), "a quick brown fox ".repeat(20)).expect("a text");
    std::fs::write(folder.join("short"), "a").expect("a text");
    for (line, code, part) in [
        ("m.gguf -f text -c 3", 2, "expected at least 4"),
        ("m.gguf -f text -c 0", 2, "expected at least 4"),
        ("m.gguf -f short -c 64", 2, "fewer than 64 tokens"),
        ("m.gguf -f none -c 64", 2, "-f none"),
        ("none.gguf -f text", 3, "none.gguf"),
        ("m.gguf -f text -c 32 --kl-base none.gguf", 3, "none.gguf"),
        ("m.gguf -f text -c 32 --kl-base g.gguf", 2, "--kl-base g.gguf"),
        ("m.gguf -f text -c 32 --kl-base-exact", 2, "--kl-base"),
        ("m.gguf -f text -c 32 --kl-base-device cpu", 2, "--kl-base"),
        ("m.gguf -f text -c 32 --device tpu", 2, "expected auto, cuda, cpu"),
        ("m.gguf -f text -c 32 --cache-type-k q3", 2, "expected one of f32, f16, q8_0"),
        ("m.gguf", 2, "--file"),
    ] {
        let output = job(folder, line);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{line}: {said}");
        assert!(said.contains(part) && output.stdout.is_empty(), "{line}: {said}");
    }
}
