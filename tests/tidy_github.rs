//! What stands in `.github` and in the README about installing: workflows call scripts, and documents say what is true.

use std::{fs, path::Path};

use super::tidy::files;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Text of a file below the root.
fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What a line of a workflow runs, if it is one that runs something.
fn value<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.trim_start().trim_start_matches("- ").strip_prefix(key)?.strip_prefix(':').map(str::trim)
}

/// Whether a step runs a script of `.ci/`, with plain words behind it, and nothing else.
fn is_script(run: &str) -> bool {
    let mut words = run.split(' ');
    let script = words.next().and_then(|word| word.strip_prefix(".ci/"));
    let plain = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    script.is_some_and(|name| plain(name) && Path::new(ROOT).join(".ci").join(name).is_file()) && words.all(plain)
}

#[test]
fn workflows_call_scripts_and_nothing_else() {
    let workflows: Vec<_> = files().into_iter().filter(|(path, _)| path.starts_with(".github/workflows/")).collect();
    assert!(workflows.iter().any(|(path, _)| path.ends_with("ci.yml")), "there is a ci.yml");
    let mut wrong = Vec::new();
    for (path, text) in &workflows {
        let runs: Vec<&str> =
            text.lines().filter_map(|line| value(line, "run")).filter(|run| !run.is_empty()).collect();
        assert!(!runs.is_empty(), "{path} runs something");
        wrong.extend(runs.iter().filter(|run| !is_script(run)).map(|run| format!("{path}: {run}")));
        let actions = text.lines().filter_map(|line| value(line, "uses"));
        wrong.extend(actions.filter(|a| !a.starts_with("actions/checkout@")).map(|a| format!("{path}: {a}")));
    }
    assert!(
        wrong.is_empty(),
        "workflows check out and call scripts of .ci/, so that a machine at home runs the same:\n{wrong:#?}"
    );
}

#[test]
fn only_scripts_pass() {
    for (run, passes) in [
        (".ci/run", true),
        (".ci/release target/files", true),
        (".ci/nothing-there", false),
        (".ci/run && rm x", false),
        ("cargo test", false),
        ("|", false),
    ] {
        assert_eq!(is_script(run), passes, "{run}");
    }
}

#[test]
fn scripts_of_ci_can_be_run() {
    for entry in fs::read_dir(Path::new(ROOT).join(".ci")).expect("a folder") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("a text");
        let program = text.starts_with("#!");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(&path).expect("a file").permissions().mode();
            assert_eq!(mode & 0o111 != 0, program, "{}: executable and begins with #!, or neither", path.display());
        }
        assert!(program || path.ends_with("Dockerfile"), "{}", path.display());
    }
}

#[test]
fn the_version_is_the_same_everywhere() {
    let version = env!("CARGO_PKG_VERSION");
    let changelog = read(".github/CHANGELOG.md");
    let newest = changelog.lines().find_map(|line| line.strip_prefix("## ")).expect("a version in the changelog");
    assert!(newest.split(' ').next() == Some(version), "CHANGELOG.md begins with {newest}, Cargo.toml has {version}");
    let cargo = read("Cargo.toml");
    for name in ["qrun-quant", "qrun-cuda", "qrun-models"] {
        let line = cargo.lines().find(|line| line.starts_with(&format!("{name} = "))).expect(name);
        assert!(line.contains(&format!("version = \"{version}\"")), "expected {version} in {line}");
    }
}

/// The name `qrun` on the Python index belongs to another project.
#[test]
fn nobody_is_told_to_install_another_project() {
    let command = ["pip install", "qrun"].join(" ");
    let told = |text: &str| text.match_indices(&command).any(|(at, _)| !text[at + command.len()..].starts_with("-llm"));
    assert!(told(&format!("{command}\n")) && !told(&format!("{command}-llm")));
    // Tests say the words that they look for.
    let documents = files().into_iter().filter(|(path, _)| !path.starts_with("tests/"));
    let wrong: Vec<String> = documents.filter(|(_, text)| told(text)).map(|(path, _)| path).collect();
    assert!(wrong.is_empty(), "the Python package is qrun-llm: {wrong:?}");
}
