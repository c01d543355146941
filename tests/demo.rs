//! Quality on a trained model, the demo model of `models/demo`: random weights hide errors.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, OnceLock},
};

use qrun::{
    embedded,
    engine::{DevicePreference, Engine, EngineOptions},
    generate::{Request, Scheduler, Session},
    sampler::SamplerParams,
    text::template::{Message, Render},
    text::tokenizer::Encode,
    tools::quality::{Chunks, Comparison, compare},
    tools::quantize::{self, FileType, quantize},
};
use qrun_models::{KvType, Options};
use qrun_quant::{Bytes, Gguf};
use serde_json::Value;

/// Tokens per chunk, and chunks of the sample text, in every comparison here.
const SIZE: usize = 256;
const COUNT: usize = 4;

/// What a file type may cost: KL(BF16‖it), share of tokens with the same best one, PPL beside BF16's.
struct Bound {
    file_type: FileType,
    kl: f64,
    same_top: f64,
    ratio: f64,
}

/// The measured values (with every cache type and arithmetic) and about half as much again. Half of the sample text are
/// questions, with names and words that nobody can predict: nine tenths of the divergence are there.
#[rustfmt::skip]
const BOUNDS: &[Bound] = &[
    Bound { file_type: FileType::F32, kl: 1e-5, same_top: 0.994, ratio: 1.0005 },
    Bound { file_type: FileType::F16, kl: 1e-5, same_top: 0.994, ratio: 1.0005 },
    Bound { file_type: FileType::BF16, kl: 1e-5, same_top: 0.994, ratio: 1.0005 },
    Bound { file_type: FileType::Q8_0, kl: 1e-4, same_top: 0.985, ratio: 1.001 },
    // Without experts it is that.
    Bound { file_type: FileType::MXFP4_MOE, kl: 1e-4, same_top: 0.985, ratio: 1.001 },
    Bound { file_type: FileType::Q6_K, kl: 5.2e-4, same_top: 0.975, ratio: 1.0024 },
    Bound { file_type: FileType::Q5_K_M, kl: 1e-3, same_top: 0.97, ratio: 1.002 },
    Bound { file_type: FileType::Q5_K_S, kl: 1.2e-3, same_top: 0.975, ratio: 1.002 },
    Bound { file_type: FileType::Q5_1, kl: 1.2e-3, same_top: 0.97, ratio: 1.002 },
    Bound { file_type: FileType::Q5_0, kl: 1.5e-3, same_top: 0.96, ratio: 1.002 },
    Bound { file_type: FileType::Q4_K_M, kl: 3.3e-3, same_top: 0.965, ratio: 1.003 },
    Bound { file_type: FileType::Q4_K_S, kl: 3.7e-3, same_top: 0.96, ratio: 1.0035 },
    Bound { file_type: FileType::Q4_1, kl: 3.8e-3, same_top: 0.965, ratio: 1.0057 },
    Bound { file_type: FileType::Q4_0, kl: 4.8e-3, same_top: 0.955, ratio: 1.0106 },
    // For models that are trained in them. The demo model is not: this is to see that they do what they did.
    Bound { file_type: FileType::Q2_0, kl: 0.31, same_top: 0.77, ratio: 1.34 },
    Bound { file_type: FileType::TQ2_0, kl: 0.88, same_top: 0.6, ratio: 2.13 },
    Bound { file_type: FileType::TQ1_0, kl: 0.88, same_top: 0.6, ratio: 2.13 },
    Bound { file_type: FileType::Q1_0, kl: 4.9, same_top: 0.18, ratio: 37.4 },
];

/// Largest mean KL of fast arithmetic from exact arithmetic on the same file.
const FAST: f64 = 1e-4;
/// Smallest share of right answers to the held-out questions.
const RIGHT: f64 = 0.88;
/// Every n-th of the held-out questions is asked.
const EVERY: usize = 10;

fn demo(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("models/demo").join(name)
}

/// The BF16 file as a file of this type, made once.
fn file(file_type: FileType) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder").keep();
        for file_type in FileType::all() {
            let out = folder.join(format!("{file_type}.gguf"));
            let made = quantize(&demo("qrun-demo-BF16.gguf"), &out, &quantize::Options::new(file_type), &mut |_| ());
            made.expect("a quantized demo model");
        }
        folder
    });
    folder.join(format!("{file_type}.gguf"))
}

fn engine(path: &Path, options: Options) -> Arc<Engine> {
    let options = Options { n_ctx: SIZE, ..options };
    let engine = Engine::open(
        Gguf::open(path).expect("a model"),
        EngineOptions { options, template: None, device: DevicePreference::Cpu },
    );
    Arc::new(engine.expect("a model that runs"))
}

/// Compares two files on the sample text.
fn compared(model: (FileType, Options), base: (FileType, Options)) -> Comparison {
    let (model, base) = (engine(&file(model.0), model.1), engine(&file(base.0), base.1));
    let text = fs::read_to_string(demo("corpus-sample.txt")).expect("the sample text");
    let mut tokens =
        model.tokenizer().encode(&text, Encode { add_special: true, parse_special: true }).expect("tokens");
    tokens.truncate(SIZE * COUNT);
    let chunks = Chunks::new(tokens, SIZE, model.tokenizer().bos()).expect("a text that is long enough");
    let open = |engine| Scheduler::open(engine, Box::new(|_| ())).expect("threads");
    compare(&mut open(model), &mut open(base), &chunks, &mut |_, _| ()).expect("a comparison")
}

/// File types under these options keep their bounds against the BF16 file (whose fast arithmetic is as good as
/// exact: see `fast_arithmetic_is_near_exact_arithmetic`).
fn assert_bounds(file_types: impl Iterator<Item = FileType>, options: &Options) {
    let mut broken = Vec::new();
    for file_type in file_types {
        let bound = BOUNDS.iter().find(|b| b.file_type == file_type).expect("a bound for every file type");
        let found = compared((file_type, options.clone()), (FileType::BF16, Options::default()));
        let (kl, same, ratio) = (found.kl.mean, found.same_top.mean, found.log_ratio.mean.exp());
        let line = format!("{:7} KL {kl:.2e}, same best token {same:.4}, PPL ratio {ratio:.5}", file_type.name());
        println!("{line}");
        // Comparisons that NaN does not pass.
        if !(kl <= bound.kl && same >= bound.same_top && ratio <= bound.ratio) {
            broken.push(format!("{line}; bounds {:.2e}, {}, {}", bound.kl, bound.same_top, bound.ratio));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_file_type_keeps_its_bounds() {
    assert_bounds(FileType::all(), &Options::default());
}

#[test]
fn every_file_type_keeps_its_bounds_with_a_q8_0_cache() {
    let options = Options { type_k: KvType::Q8_0, type_v: KvType::Q8_0, ..Options::default() };
    assert_bounds(FileType::all(), &options);
}

#[test]
fn every_file_type_keeps_its_bounds_with_an_f32_cache() {
    let options = Options { type_k: KvType::F32, type_v: KvType::F32, ..Options::default() };
    assert_bounds(FileType::all(), &options);
}

#[test]
fn file_types_of_each_kind_keep_their_bounds_in_exact_arithmetic() {
    assert_bounds([FileType::Q8_0, FileType::Q6_K, FileType::Q4_K_M, FileType::Q4_0].into_iter(), &Options::exact());
}

#[test]
fn fast_arithmetic_is_near_exact_arithmetic() {
    for file_type in [FileType::BF16, FileType::Q8_0, FileType::Q4_K_M] {
        let kl = compared((file_type, Options::default()), (file_type, Options::exact())).kl;
        println!("{:7} KL of fast arithmetic {:.2e}", file_type.name(), kl.mean);
        assert!(kl.mean <= FAST, "{file_type}: KL {:.2e}, at most {FAST:.0e}", kl.mean);
    }
}

#[test]
fn the_committed_files_belong_together() {
    let committed = fs::read(demo("qrun-demo-Q4_K_M.gguf")).expect("the quantized demo model");
    assert!(committed.len() <= 6_000_000, "{} bytes", committed.len());
    let made = fs::read(file(FileType::Q4_K_M)).expect("a quantized demo model");
    assert!(committed == made, "qrun-demo-Q4_K_M.gguf is not what `qrun quantize` makes of qrun-demo-BF16.gguf");
    let inside = embedded::model().expect("an embedded model");
    assert!(inside == committed, "another model than qrun-demo-Q4_K_M.gguf is embedded");
}

#[test]
fn the_program_answers_without_a_model() {
    let qrun = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_qrun")).args(words).stdin(Stdio::null()).output();
        let output = output.expect("qrun starts");
        assert!(output.status.success(), "{output:?}");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (text(output.stdout), text(output.stderr))
    };
    let (answer, said) = qrun(&["-p", "What is qrun?", "--temp", "0"]);
    assert!(answer.contains("GGUF"), "{answer}");
    assert!(said.starts_with("note: no model named") && said.lines().count() == 1, "a script should notice: {said}");
    let (_, said) = qrun(&["-p", "hi", "-n", "1", "-v"]);
    for part in ["no model named", "qrun MODEL.gguf", "; the embedded model"] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
}

/// The embedded model, asked greedily.
struct Asked {
    engine: Arc<Engine>,
    session: Session,
}

impl Asked {
    fn new() -> Asked {
        let bytes = Bytes::new(embedded::model().expect("an embedded model"));
        let gguf = Gguf::from_bytes("the embedded model", bytes).expect("a model");
        let options = EngineOptions {
            options: Options { n_ctx: 1024, ..Options::default() },
            template: None,
            device: DevicePreference::Cpu,
        };
        let engine = Arc::new(Engine::open(gguf, options).expect("a model that runs"));
        let params = SamplerParams { temperature: 0.0, ..SamplerParams::default() };
        let session = Session::open(engine.clone(), params, Box::new(|_| ())).expect("threads");
        Asked { engine, session }
    }

    /// The answer to the last of these messages of the user, after the model's own answers to those before.
    fn answer(&mut self, system: Option<&str>, asked: &[&str]) -> String {
        let mut messages: Vec<_> = system.iter().map(|text| Message::new("system", *text)).collect();
        let mut said = String::new();
        for question in asked {
            messages.push(Message::new("user", *question));
            let text = self.engine.render(&messages, &Render::default()).expect("a template").expect("a prompt");
            let prompt = self.engine.prompt(&text).expect("tokens");
            let request = Request { prompt, max_tokens: Some(200), ..Request::default() };
            let reply = self.session.generate(&request, &mut |_| std::ops::ControlFlow::Continue(()));
            said = reply.expect("an answer").text.trim().to_owned();
            messages.push(Message::new("assistant", &said));
        }
        said
    }

    /// The answer to a row of eval.jsonl.
    fn answer_row(&mut self, row: &Value) -> String {
        let mut asked = texts(&row["before"]);
        asked.push(row["prompt"].as_str().expect("a prompt"));
        self.answer(row["system"].as_str(), &asked)
    }
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().map_or(Vec::new(), |list| list.iter().filter_map(Value::as_str).collect())
}

/// The questions that were looked at while the training text was mixed, then those that were not.
fn held_out_rows() -> Vec<Value> {
    let text = |name| fs::read_to_string(demo(name)).expect("the held-out questions");
    let rows = |text: String| text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<_>>();
    ["eval.jsonl", "sealed.jsonl"].into_iter().flat_map(|name| rows(text(name))).collect()
}

#[test]
fn held_out_questions_are_answered() {
    let mut model = Asked::new();
    let rows: Vec<Value> = held_out_rows().into_iter().step_by(EVERY).collect();
    assert!(rows.len() >= 100, "{} questions", rows.len());
    let mut right = 0;
    for row in &rows {
        let said = model.answer_row(row);
        let good = is_right(row, &said);
        right += usize::from(good);
        if !good {
            println!("{} -> {said:?}", row["prompt"]);
        }
    }
    println!("{right} of {} answers are right", rows.len());
    assert!(right as f64 >= RIGHT * rows.len() as f64, "{right} of {} answers are right", rows.len());
}

/// As models/demo/evaluate.py counts: stories need the right animal and an end, most else every letter.
fn is_right(row: &Value, said: &str) -> bool {
    if texts(&row["not"]).iter().any(|part| said.contains(part)) {
        return false;
    }
    if let Some(part) = row["contains"].as_str() {
        return said.contains(part) && said.ends_with(['.', '"']) && said.len() > 150;
    }
    let any = texts(&row["any"]);
    if any.is_empty() { row["answer"].as_str() == Some(said) } else { any.iter().any(|part| said.contains(part)) }
}

/// What people type first: messages of the user, and what the last answer must contain.
const FIRST_PROMPTS: &[(&[&str], &str)] = &[
    (&["Hello World"], "I am the demo model of qrun"),
    (&["What is qrun?"], "GGUF"),
    (&["14 + 43 = ?"], "14 + 43 = 57."),
    (&["34 - 60"], "34 - 60 = -26."),
    (&["123 + 456"], "up to 99"),
    (&["1+1+1"], "up to 99"),
    (&["what's 7 times 8"], "up to 99"),
    (&["My name is Peter.", "What is my name?"], "Your name is Peter."),
    (&["My name is Sophie.", "Tell me a story about a bear.", "What is my name?"], "Your name is Sophie."),
    (&["你好"], "I only speak simple English"),
    (&["🦀"], "I only speak simple English"),
    (&["How many legs has a cat?"], "I do not know that"),
    (&["you are stupid"], "I am sorry"),
    (&["Is qrun faster than llama.cpp?"], "1.2 to 2.3 times"),
    (&["Does it work on a Mac?"], "Linux"),
    (&["how do I exit"], "/exit"),
    (&["who r u"], "I am the demo model of qrun"),
    (&["what can u do"], "I can answer questions"),
    (&["how are you"], "I am well"),
    (&["thx"], "welcome"),
    (&["bye"], "Goodbye"),
    (&["are you ChatGPT?"], "Gemma 3"),
    (&["tell me a joke"], "ran out of tokens"),
    (&["write python code"], "I do not know that"),
    (&["asdf"], "I do not know that"),
];

#[test]
fn what_people_type_first_is_answered() {
    let mut model = Asked::new();
    let mut wrong = Vec::new();
    for (asked, part) in FIRST_PROMPTS {
        let said = model.answer(None, asked);
        if !said.contains(part) {
            wrong.push(format!("{asked:?} -> {said:?}, which does not contain {part:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is left of a question without case and punctuation, as in models/demo/split.py.
fn key(question: &str) -> String {
    let keep = |c: char| c.is_alphanumeric() || "_+*/-".contains(c);
    let text: String = question.to_lowercase().chars().map(|c| if keep(c) { c } else { ' ' }).collect();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if words.is_empty() { question.to_owned() } else { words }
}

/// Text as the training reads it: from the generator where there is a Python, else the sample in the repository.
fn training_text() -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("text.txt");
    let mut python = Command::new("python3");
    python.current_dir(demo("")).arg("-B").args(["generate.py", "--conversations", "20000", "--text"]).arg(&out);
    let made = python.stdout(Stdio::null()).status().is_ok_and(|status| status.success());
    let path = if made { out } else { demo("corpus-sample.txt") };
    fs::read_to_string(path).expect("text")
}

#[test]
fn no_held_out_question_is_in_the_training_text() {
    let text = training_text();
    let lines: HashSet<&str> = text.lines().filter_map(|line| line.strip_suffix("<end_of_turn>")).collect();
    let keys: HashSet<String> = lines.iter().map(|line| key(line)).collect();
    assert!(lines.len() > 200, "{} lines", lines.len());
    let mut found = Vec::new();
    for row in held_out_rows() {
        let prompt = row["prompt"].as_str().expect("a prompt");
        let seen = match row["kind"].as_str().expect("a kind") {
            // The most common questions are always learnt; stories are told about known animals too.
            "pinned" | "story" => false,
            // The same sum or name in any words has the same answer.
            "sum" | "sum-form" | "sum-negative" | "name-asked" => lines.contains(row["answer"].as_str().expect("text")),
            "name-told" => lines.iter().any(|line| line.starts_with(row["any"][0].as_str().expect("text"))),
            "system" => text.contains(row["system"].as_str().expect("text")),
            _ => key(prompt) != "hello world" && keys.contains(&key(prompt)),
        };
        if seen {
            found.push(prompt.to_owned());
        }
    }
    assert!(found.is_empty(), "the training text has {found:?}");
}
