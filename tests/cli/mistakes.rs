//! What people type who come from elsewhere, or in haste: it is understood, or it is said what was meant.

use super::{assert_fails, model, piped, qrun, run, text, tiny};

#[test]
fn a_wrong_first_word_is_guessed() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["inof", "q4.gguf"], &["inof", "did you mean qrun info?"]),
        (&["bnech"], &["did you mean qrun bench?"]),
        (&["run", "llama3"], &["neither a job nor a file", "qrun MODEL.gguf chats"]),
        (&["server"], &["qrun serve"]),
        (&["pull", "llama3"], &["expected a model's name"]),
        (&["list"], &["qrun models"]),
        (&["What is qrun"], &["a prompt goes behind -p"]),
        (&["frobnicate", "other"], &["neither a job nor a file", "qrun --help"]),
    ];
    for (words, parts) in cases {
        assert_fails(&qrun().args(*words).output().expect("qrun ends"), 2, parts);
    }
    // A path is a path.
    assert_fails(&run("missing.gguf -p x"), 3, &["error: missing.gguf: No such file or directory\n"]);
    assert_fails(&run("./inof -p x"), 3, &["./inof"]);
}

#[test]
fn switches_take_llama_cpps_words_for_yes_and_no() {
    for flag in ["-fa 1", "-fa 0", "-fa true", "-fa enabled", "-fa -1", "-fa auto", "--color 1", "-rea 0", "-fit off"] {
        let output = run(&format!("missing.gguf -p x {flag}"));
        assert_eq!(output.status.code(), Some(3), "{flag}: {}", text(&output.stderr));
    }
    let output = run(&format!("-m {} -p hi -ngl 0 -fa 1 -n 1", model("tiny-llama").display()));
    assert!(output.status.success(), "{}", text(&output.stderr));
    for flag in ["--mlock 1", "--perf 0", "-cnv off", "--jinja true", "--no-repack disabled"] {
        let name = flag.split(' ').next().unwrap_or_default();
        assert_fails(&tiny(&format!("-p x {flag}")), 2, &[&format!("error: {name} takes no value, found ")]);
        let said = run(&format!("missing.gguf -p x {}", flag.replace(' ', "=")));
        assert_eq!(said.status.code(), Some(3), "{flag}: {}", text(&said.stderr));
    }
    // What qrun does in any case cannot be switched off, and that is said.
    for flag in ["--jinja=0", "--jinja=false", "--jinja=OFF", "--jinja=no", "--mmap=disabled", "-fa off", "-kvo=off"] {
        let note = format!("note: {}=off has no effect: ", flag.split(['=', ' ']).next().unwrap_or_default());
        let said = run(&format!("missing.gguf -p x {flag}"));
        assert_eq!(said.status.code(), Some(3), "{flag}: {}", text(&said.stderr));
        assert!(text(&said.stderr).contains(&note), "{flag}: {}", text(&said.stderr));
    }
    for flag in ["--jinja", "--jinja=1", "-fa on", "-fa"] {
        let said = text(&run(&format!("missing.gguf -p x {flag}")).stderr);
        assert!(!said.contains("has no effect"), "{flag}: {said}");
    }
    // A model may be called so.
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::copy(model("tiny-llama"), folder.path().join("1")).expect("a model");
    for line in ["1 -p hi -n 1", "-p hi -n 1 --mlock 1"] {
        let output = qrun().current_dir(&folder).args(line.split(' ')).output().expect("qrun ends");
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
    }
}

#[test]
fn samplers_that_are_left_out_are_off() {
    let output = tiny("-p hi -n 1 --json --samplers top_k;temperature --top-p 0.5 --temp 0.3");
    let start: serde_json::Value =
        serde_json::from_str(text(&output.stdout).lines().next().expect("an event")).expect("JSON");
    assert_eq!(start["sampling"]["top_p"], 1.0);
    assert_eq!(start["sampling"]["min_p"], 0.0);
    assert_eq!(start["sampling"]["top_k"], 40);
    assert_eq!(start["sampling"]["temperature"].to_string(), "0.3");
}

#[test]
fn the_embedded_model_says_that_it_answers() {
    let output = run("-p hi -n 1");
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("no model named"), "{}", text(&output.stderr));
}

#[test]
fn jobs_answer_the_flags_of_llama_cpps_tools() {
    let file = model("tiny-llama").display().to_string();
    for (line, part) in [
        (format!("quantize --imatrix x.dat {file} out.gguf Q4_0"), "importance matrices"),
        (format!("quantize --pure {file} out.gguf Q4_0"), "recipe"),
        (format!("perplexity {file} -f README.md --ppl-stride 4"), "overlap"),
        (format!("perplexity {file} -f README.md --kl-divergence"), "--kl-base"),
    ] {
        assert_fails(&run(&line), 2, &[part]);
    }
    let unknown = run(&format!("quantize --frobnicate {file} out.gguf Q4_0"));
    assert_fails(&unknown, 2, &["--frobnicate"]);
    assert!(!text(&unknown.stderr).contains("as a value"), "{}", text(&unknown.stderr));
    let folder = tempfile::tempdir().expect("a folder");
    let sample = folder.path().join("text.txt");
    std::fs::write(&sample, "some words to predict ".repeat(40)).expect("a file");
    let line =
        format!("perplexity {file} -f {} -c 32 -b 512 -ngl 99 -fa 1 -ctk f16 --chunks 2 --json", sample.display());
    let output = run(&line);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["chunks"], 2, "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("note: -b has no effect"), "{}", text(&output.stderr));
    let plain = run(&format!("tokenize {file} --ids --parse-special -p hello"));
    assert_eq!(plain.stdout, run(&format!("tokenize {file} --ids -p hello")).stdout);
}

#[test]
fn usage_lines_name_the_program() {
    assert!(text(&run("info --help").stdout).contains("Usage: qrun info "));
    assert!(text(&run("help quantize").stdout).contains("Usage: qrun quantize "));
    assert_fails(&run("info"), 2, &["Usage: qrun info "]);
    assert_eq!(run("help").stdout, run("--help").stdout);
    let help = text(&run("--help").stdout);
    for part in ["< /dev/null", "1 failure", "--drop-oldest"] {
        assert!(help.contains(part), "{part:?} is not in {help}");
    }
    assert!(text(&run("completions bash").stdout).contains("Q4_K_M"));
    assert!(text(&run("completions fish").stdout).contains("ngl"));
}

#[test]
fn quantize_says_each_kind_of_note_once_and_sizes_as_info_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (full, small) = (file("full.gguf"), file("small.gguf"));
    assert!(run(&format!("synth tiny-qwen3 {full} --type BF16")).status.success());
    let output = run(&format!("quantize {full} {small} Q4_K_M"));
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let notes: Vec<&str> = said.lines().filter(|l| l.starts_with("note: ")).collect();
    assert!(notes.len() <= 3, "{notes:?}");
    let size = |name: &str| {
        let info = text(&run(&format!("info {name}")).stdout);
        info.lines().next().and_then(|l| l.rsplit(", ").next()).map(|s| s.trim_end_matches(')').to_owned())
    };
    let sizes = format!("({} → {})", size(&full).expect("a size"), size(&small).expect("a size"));
    assert!(said.contains(&sizes), "{sizes} is not in {said}");
}

#[cfg(target_os = "linux")]
#[test]
fn the_limit_of_the_address_space_counts_as_memory() {
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "ulimit -v 3000000; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_qrun")]);
    command.arg(model("tiny-llama")).args("-p x -n 1 -v --device cpu".split(' '));
    let output = piped(command, b"");
    let said = text(&output.stderr);
    let available = said.split(" of ").nth(1).and_then(|s| s.split(' ').next()?.parse::<u64>().ok());
    assert!(available.is_some_and(|bytes| bytes < 3_000_000 * 1024), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn memory_that_ends_anywhere_is_exit_code_4() {
    let folder = tempfile::tempdir().expect("a folder");
    let long = folder.path().join("long.txt");
    std::fs::write(&long, "What is a page table? ".repeat(1 << 20)).expect("a text of 22 MB");
    // While the text is read, cut into tokens, counted: wherever it ends, it is said.
    let mut ended = 0;
    for limit in [80_000, 100_000, 150_000, 200_000, 300_000] {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &format!("ulimit -v {limit}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_qrun"), "tokenize"]);
        command.arg(model("tiny-llama")).arg("-f").arg(&long).args(["--show-count", "--ids"]);
        let output = piped(command, b"");
        let (code, said) = (output.status.code(), text(&output.stderr));
        assert!(code == Some(0) || (code == Some(4) && said.contains("memory")), "{limit}: {code:?}: {said}");
        ended += usize::from(code == Some(4));
    }
    assert!(ended > 1, "{ended} of five limits were too low");
}

#[test]
fn a_type_of_values_that_are_a_part_of_keys_is_noted() {
    let file = model("tiny-deepseek2").display().to_string();
    let noted = |flags: &str| {
        let output = run(&format!("{file} -p hello -n 1 {flags}"));
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        text(&output.stderr).contains("note: -ctv has no effect")
    };
    assert!(noted("-ctv q8_0") && noted("-ctk q8_0 -ctv f16"));
    assert!(!noted("") && !noted("-ctk q8_0") && !noted("-ctk q8_0 -ctv q8_0"));
}
