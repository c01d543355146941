//! `qrun embed`: what comes out in each form, from where texts come, and how mistakes end.

use std::{fs, path::PathBuf, sync::OnceLock};

use super::{assert_fails, model, models, piped, qrun, run, text};
use crate::tiny::{ENCODERS, Tiny};

/// A tiny BERT.
fn bert() -> &'static str {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let path = models().join("tiny-bert.gguf");
        fs::write(&path, ENCODERS[0].bytes()).expect("a tiny model");
        path
    });
    file.to_str().expect("a plain path")
}

/// What `qrun embed` writes for these words.
fn embed(words: &[&str]) -> String {
    let output = qrun().args(["embed", bert()]).args(words).output().expect("qrun ends");
    assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "{words:?}");
    text(&output.stdout)
}

fn numbers(line: &str) -> Vec<f32> {
    line.split(' ').map(|number| number.parse().expect("a number")).collect()
}

const TWO: &str = "w300 w301\\nw302";

#[test]
fn vectors_have_llama_embeddings_forms() {
    let raw = embed(&["-p", TWO, "--embd-output-format", "raw"]);
    let rows: Vec<Vec<f32>> = raw.lines().map(numbers).collect();
    assert_eq!(rows.iter().map(Vec::len).collect::<Vec<_>>(), [128, 128]);
    for row in &rows {
        let length = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        assert!((length - 1.0).abs() < 1e-5, "length {length}");
    }
    let array: Vec<Vec<f32>> =
        serde_json::from_str(&embed(&["-p", TWO, "--embd-output-format", "array"])).expect("JSON");
    assert_eq!(array, rows);
    let json: serde_json::Value =
        serde_json::from_str(&embed(&["-p", TWO, "--embd-output-format", "json"])).expect("JSON");
    assert_eq!(
        (&json["object"], &json["data"][1]["index"], &json["data"][1]["object"]),
        (&"list".into(), &1.into(), &"embedding".into())
    );
    assert_eq!(serde_json::from_value::<Vec<f32>>(json["data"][1]["embedding"].clone()).expect("numbers"), rows[1]);
    assert!(json.get("cosineSimilarity").is_none());
    let json: serde_json::Value =
        serde_json::from_str(&embed(&["-p", TWO, "--embd-output-format", "json+"])).expect("JSON");
    assert_eq!(json["cosineSimilarity"][0][0], 1.0);
    assert_eq!(json["cosineSimilarity"][0][1], json["cosineSimilarity"][1][0]);
    // For people: 16 numbers of each where there are several, and the similarities; all of a single one.
    let plain = embed(&["-p", TWO]);
    let lines: Vec<&str> = plain.lines().collect();
    assert!(lines[0].starts_with("embedding 0: ") && lines[1].starts_with("embedding 1: "), "{plain}");
    assert_eq!(lines[0].split_whitespace().count(), 2 + 16, "{plain}");
    assert_eq!(lines[3], "cosine similarity matrix:", "{plain}");
    assert!(lines[6].starts_with("  1.00 ") && lines[6].ends_with("w300 w301"), "{plain}");
    assert_eq!(embed(&["-p", "w300"]).split_whitespace().count(), 2 + 128);
    let whole = embed(&["-p", "w300", "--embd-normalize", "0", "--embd-output-format", "raw"]);
    assert_eq!(numbers(whole.trim()).iter().map(|x| x.abs()).fold(0.0, f32::max), 32760.0);
    let tokens = embed(&["-p", TWO, "--pooling", "none"]);
    let ids = |prompt: &str| text(&output_of(qrun().args(["tokenize", bert(), "--ids", "-p", prompt])).stdout);
    let n = ids("w300 w301").split_whitespace().count() + ids("w302").split_whitespace().count();
    assert_eq!(tokens.lines().count(), n, "{tokens}");
    assert!(tokens.lines().all(|line| line.contains(" ... ")), "{tokens}");
}

#[test]
fn texts_come_from_the_line_a_file_or_stdin() {
    let wanted = embed(&["-p", TWO, "--embd-output-format", "raw"]);
    let file = models().join("texts.txt");
    fs::write(&file, "w300 w301\nw302\n").expect("a file");
    assert_eq!(embed(&["-f", file.to_str().expect("a plain path"), "--embd-output-format", "raw"]), wanted);
    for words in [&["--embd-output-format", "raw"][..], &["-f", "-", "--embd-output-format", "raw"]] {
        let mut command = qrun();
        command.args(["embed", bert()]).args(words);
        let output = piped(command, b"w300 w301\nw302\n");
        assert_eq!((text(&output.stdout), text(&output.stderr)), (wanted.clone(), String::new()));
    }
    let separated = ["-p", "w300 w301<#sep#>w302", "--embd-separator", "<#sep#>", "--embd-output-format", "raw"];
    assert_eq!(embed(&separated), wanted);
    assert_eq!(embed(&["-p", TWO, "--no-escape", "--embd-output-format", "raw"]).lines().count(), 1);
    // llama-embedding's other words for what is so anyway.
    let mut command = qrun();
    command.args(["embed", "-m", bert(), "-p", TWO, "--embd-output-format=raw", "-t", "1", "--embedding"]);
    let output = output_of(&mut command);
    assert_eq!((text(&output.stdout), text(&output.stderr)), (wanted, String::new()));
}

fn output_of(command: &mut std::process::Command) -> std::process::Output {
    command.output().expect("qrun ends")
}

#[test]
fn the_pooling_is_the_files_or_the_flags() {
    let first = embed(&["-p", "w300 w301", "--embd-output-format", "raw"]);
    assert_eq!(embed(&["-p", "w300 w301", "--pooling", "cls", "--embd-output-format", "raw"]), first);
    let mean = embed(&["-p", "w300 w301", "--pooling", "mean", "--embd-output-format", "raw"]);
    let last = embed(&["-p", "w300 w301", "--pooling", "last", "--embd-output-format", "raw"]);
    assert!(first != mean && first != last && mean != last);
    let llama = model("tiny-llama");
    let line = format!("embed {} -p hi", llama.display());
    assert_fails(&run(&line), 2, &["llama.pooling_type", "--pooling mean, cls or last"]);
    let output = run(&format!("{line} --pooling last --embd-output-format raw"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    // A file of a reranker.
    let rank = models().join("rank.gguf");
    fs::write(&rank, Tiny { pooling: 4, ..ENCODERS[0] }.bytes()).expect("a tiny model");
    assert_fails(&run(&format!("embed {} -p x", rank.display())), 2, &["rank", "not implemented"]);
}

#[test]
fn synthetic_models_embed() {
    for name in ["tiny-bert", "tiny-nomic-bert", "tiny-gemma-embedding", "tiny-modern-bert"] {
        let file = models().join(format!("synthetic-{name}.gguf")).display().to_string();
        assert!(run(&format!("synth {name} {file}")).status.success(), "{name}");
        let output = run(&format!("embed {file} -p Hello --embd-output-format raw"));
        assert_eq!(numbers(text(&output.stdout).trim()).len(), 256, "{name}: {}", text(&output.stderr));
    }
}

#[test]
fn mistakes_end_with_their_codes() {
    let long = vec!["w300"; 600].join(" ");
    let words: [(&[&str], i32, &[&str]); 8] = [
        (&["-p", &long], 2, &["text 0 has ", "more than the context of 512; shorten it\n"]),
        (&["-p", "a b", "-c", "2"], 2, &["context of 2; shorten it or enlarge it (-c)"]),
        (&["-p", "x", "--pooling", "rank"], 2, &["not implemented"]),
        (&["-p", "x", "--pooling", "max"], 2, &["expected none, mean, cls or last"]),
        (&["-p", "x", "--embd-normalize", "-2"], 2, &["from -1 to 1024"]),
        (&["-p", "x", "--embd-output-format", "yaml"], 2, &["expected json, json+, array, raw"]),
        (&["-f", "/no/such/file"], 2, &["-f /no/such/file: No such file"]),
        (&["-p", "x", "--device", "cuda7"], 5, &["--device cuda"]),
    ];
    for (words, code, parts) in words {
        assert_fails(&output_of(qrun().args(["embed", bert()]).args(words)), code, parts);
    }
    assert_fails(&run("embed missing.gguf -p x"), 3, &["missing.gguf: No such file"]);
    // It writes no text.
    assert_fails(
        &run(&format!("{} -p hi", bert())),
        2,
        &["tiny-bert.gguf: a model for embeddings (bert)", "qrun embed"],
    );
    assert_fails(&run(&format!("perplexity {} -f Cargo.toml", bert())), 2, &["a model for embeddings"]);
}
