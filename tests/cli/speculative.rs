//! Speculative decoding from the command line: the same text, counted guesses, and what is missing named.

use qrun::{tools::quantize::FileType, tools::synth};

use super::{assert_fails, models, run, text, tiny};

#[test]
fn guesses_change_no_text_and_are_counted() {
    let file = models().join("tiny-qwen35-mtp.gguf");
    synth::synth("tiny-qwen35-mtp", FileType::Q8_0, 7, &file, &mut |_, _| {}).expect("a tiny model");
    let file = file.display();
    for sampling in ["--temp 0", "--temp 1 --seed 5 --repeat-penalty 1.2"] {
        let line = format!("{file} -no-cnv -p Hello --device cpu -n 40 --ignore-eos {sampling}");
        let plain = run(&line);
        assert!(plain.status.success() && !plain.stdout.is_empty(), "{}", text(&plain.stderr));
        for spec in ["draft-mtp --spec-draft-n-max 5", "draft-mtp", "ngram-simple --spec-ngram-simple-size-n 1"] {
            let found = run(&format!("{line} --perf --spec-type {spec} --spec-ngram-simple-size-m 4"));
            assert_eq!(text(&plain.stdout), text(&found.stdout), "{spec}: {}", text(&found.stderr));
            let counted = text(&found.stderr).contains("draft acceptance =");
            assert!(counted || !spec.contains("mtp"), "{spec}: {}", text(&found.stderr));
        }
    }
    let info = text(&run(&format!("info {file}")).stdout);
    assert!(info.contains("draft head  --spec-type draft-mtp guesses with it"), "{info}");
    let json: serde_json::Value = serde_json::from_slice(&run(&format!("info {file} --json")).stdout).expect("JSON");
    assert!(json["draft_head"]["weights"].as_u64() > Some(0), "{json}");
}

#[test]
fn a_model_without_a_draft_head_says_what_to_do() {
    let named = ["draft head", "llama", "without --spec-type draft-mtp the model runs", "ngram-simple"];
    assert_fails(&tiny("-p x --spec-type draft-mtp"), 2, &named);
    assert_fails(&tiny("-p x --spec-type eagle"), 2, &["--spec-type", "none, draft-mtp", "eagle"]);
    assert_fails(&tiny("-p x --spec-draft-n-max 64"), 2, &["--spec-draft-n-max", "63"]);
    assert_fails(&tiny("-p x --draft-max 4"), 2, &["--draft-max", "--spec-draft-n-max"]);
}
