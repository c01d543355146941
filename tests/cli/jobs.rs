//! `info`, `tokenize`, `devices`, `synth`, `quantize`.

use serde_json::Value;

use super::{assert_fails, model, piped, qrun, run, text};

#[test]
fn info_in_words_and_as_json() {
    let file = model("tiny-gemma3");
    let words = text(&run(&format!("info {}", file.display())).stdout);
    for part in [
        "gemma3",
        "Q8_0",
        "see a window of",
        "per token",
        "in the mapped file",
        "metadata",
        "general.architecture",
        "KV cache",
    ] {
        assert!(words.contains(part), "{part:?} is not in {words}");
    }
    let json: Value = serde_json::from_slice(&run(&format!("info -m {} --json", file.display())).stdout).expect("JSON");
    assert_eq!(json["metadata"]["general.architecture"], "gemma3");
    let formats = json["formats"].as_object().expect("formats");
    let bytes: u64 = formats.values().map(|f| f["bytes"].as_u64().expect("bytes")).sum();
    assert_eq!(json["tensor_bytes"], bytes);
    let memory = json["memory"].as_array().expect("sizes");
    let context = |i: usize| (memory[i]["n_ctx"].as_u64(), memory[i]["kv"].as_u64());
    assert_eq!(context(0).0, Some(512));
    assert!((1..memory.len()).all(|i| context(i) > context(i - 1)), "more context, more memory: {memory:?}");
    for row in memory {
        let sum: u64 = ["weights", "kv", "activations"].iter().map(|k| row[k].as_u64().expect("bytes")).sum();
        assert_eq!(row["total"], sum);
        assert!(row["mapped"].as_u64() <= row["weights"].as_u64(), "{row}");
    }
}

#[test]
fn tokenize_takes_text_from_anywhere() {
    let file = model("tiny-llama");
    let ids = |line: &str| text(&run(&format!("tokenize {} --ids {line}", file.display())).stdout);
    let wanted = ids("-p hello");
    assert!(wanted.ends_with('\n') && wanted.split_whitespace().all(|w| w.parse::<u32>().is_ok()), "{wanted}");
    let mut command = qrun();
    command.arg("tokenize").arg(&file).arg("--ids");
    assert_eq!(text(&piped(command, b"hello").stdout), wanted);
    let mut command = qrun();
    command.args(["tokenize", "-m"]).arg(&file).args(["--ids", "--no-bos"]);
    // Byte for byte: the newline of a pipe is a token too.
    let with_newline = text(&piped(command, b"hello\n").stdout);
    let bare = ids("--no-bos -p hello");
    assert!(with_newline.starts_with(bare.trim_end()) && with_newline.len() > bare.len(), "{with_newline} {bare}");
    assert_eq!(wanted.split(' ').count(), bare.split(' ').count() + 1);
    let special = ids("--no-bos -p <|eot_id|>");
    let literal = ids("--no-bos --no-parse-special -p <|eot_id|>");
    assert_eq!(special.split_whitespace().count(), 1);
    assert!(literal.split_whitespace().count() > 1);
    assert_eq!(ids("--no-bos -f no-such"), "");
}

#[test]
fn devices_are_listed_also_where_there_are_none() {
    for line in ["devices", "--list-devices"] {
        let output = run(line);
        assert!(output.status.success());
        let listing = text(&output.stdout);
        assert!(listing.starts_with("Available devices:\n") && listing.contains("cpu: "), "{listing}");
    }
}

#[test]
fn the_same_seed_makes_the_same_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let make = |name: &str, seed: &str| {
        let path = folder.path().join(name);
        let output = run(&format!("synth tiny-qwen3 {} --type Q8_0 --seed {seed}", path.display()));
        assert!(output.status.success() && output.stdout.is_empty(), "{}", text(&output.stderr));
        std::fs::read(path).expect("a model")
    };
    let first = make("a.gguf", "1");
    assert_eq!(first, make("b.gguf", "1"));
    assert_ne!(first, make("c.gguf", "2"));
}

#[test]
fn quantize_makes_a_smaller_model_that_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (full, small) = (file("full.gguf"), file("small.gguf"));
    assert!(run(&format!("synth tiny-llama {full} --type BF16")).status.success());
    let output = run(&format!("quantize {full} {small} q4_k_m 2"));
    assert!(output.status.success() && output.stdout.is_empty(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("Q4_K_M"), "{}", text(&output.stderr));
    let size = |name: &str| std::fs::metadata(name).expect("a file").len();
    assert!(size(&small) * 2 < size(&full));
    let json: Value = serde_json::from_slice(&run(&format!("info {small} --json")).stdout).expect("JSON");
    assert_eq!(json["file_type"], "Q4_K_M");
    assert!(run(&format!("{small} -p hi -n 3")).status.success());
    assert_fails(&run("quantize gone.gguf x.gguf Q8_0"), 3, &["error: gone.gguf: No such file or directory\n"]);
    // An existing file, the input itself, an unknown type, tensors that are quantized already.
    assert_fails(&run(&format!("quantize {full} {small} Q8_0")), 2, &["--force"]);
    assert_fails(&run(&format!("quantize {full} {full} Q8_0")), 2, &["the input"]);
    assert_fails(&run(&format!("quantize {full} {} Q9_9", file("x"))), 2, &["Q9_9", "Q4_K_M"]);
    assert_fails(&run(&format!("quantize {small} {} Q8_0", file("x"))), 3, &["requantize"]);
    assert!(run(&format!("quantize {full} {small} Q8_0 --force")).status.success());
}
