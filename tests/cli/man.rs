//! `qrun man`: pages that `man` renders without a warning, with every flag on them.

use std::process::Command;

use super::{assert_fails, piped, run, text};
use crate::skip::skip;

const JOBS: [&str; 15] = [
    "info",
    "tokenize",
    "embed",
    "quantize",
    "perplexity",
    "compare",
    "bench",
    "serve",
    "synth",
    "pull",
    "models",
    "rm",
    "devices",
    "completions",
    "man",
];

fn page(job: &str) -> String {
    let output = run(&format!("man {job}"));
    assert!(output.status.success() && output.stderr.is_empty(), "man {job}");
    text(&output.stdout)
}

#[test]
fn pages_say_what_the_help_says() {
    let bare = |page: String| page.replace("\\-", "-");
    let program = bare(page(""));
    for part in [
        ".TH QRUN 1",
        "--ctx-size",
        "-ngl",
        "LLAMA_ARG_CTX_SIZE",
        "--no-history",
        "EXIT STATUS",
        "\\fB6\\fR",
        "\\fB130\\fR",
    ] {
        assert!(program.contains(part), "{part} is not in {program}");
    }
    // What is on the screen is on the page.
    let help = text(&run("--help").stdout);
    let flags =
        help.lines().filter_map(|line| line.strip_prefix("  -")).filter_map(|line| line.split([' ', ',']).next());
    let missing: Vec<&str> = flags.filter(|flag| !program.contains(&format!("\\fB-{flag}\\fR"))).collect();
    assert!(missing.is_empty() && help.contains("\n  -"), "{missing:?}");
    assert!(help.contains("6 not fetched"), "{help}");
    for job in JOBS {
        assert!(program.contains(&format!("qrun-{job}")), "the page names qrun-{job}(1)");
        assert!(page(job).contains(&format!(".TH QRUN-{} 1", job.to_uppercase())), "{job}");
    }
    assert!(bare(page("serve")).contains("--api-key"));
    assert!(bare(page("bench")).contains("--suite"));
    let all = text(&run("--help-all").stdout);
    assert!(all.contains("qrun man"), "{all}");
    assert_fails(&run("man nothing"), 2, &["man nothing", "info, tokenize"]);
}

#[test]
fn man_renders_the_pages_without_a_warning() {
    let groff = ["-k", "-man", "-Tutf8", "-ww", "-P-cbou"];
    if Command::new("groff").arg("--version").output().is_err() {
        return skip("there is no groff here");
    }
    for job in [""].into_iter().chain(JOBS) {
        let mut command = Command::new("groff");
        command.args(groff);
        let output = piped(command, page(job).as_bytes());
        let warnings = text(&output.stderr);
        assert!(output.status.success() && warnings.is_empty(), "{job}: {warnings}");
        assert!(text(&output.stdout).contains("NAME"), "{job}");
    }
}
