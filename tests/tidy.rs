//! House rules as tests.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Files git would take, as (path relative to the root, text); binary files are left out.
pub fn files() -> Vec<(String, String)> {
    fn walk(dir: &Path, out: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).expect("a readable folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_owned();
            let skipped = ["target", ".git", "__pycache__", "reports"];
            if path.is_dir() && !skipped.contains(&name.as_str()) {
                walk(&path, out);
            } else if path.is_file() && name != ".git" {
                out.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    walk(Path::new(ROOT), &mut paths);
    paths.sort();
    let relative = |p: &PathBuf| p.strip_prefix(ROOT).expect("below the root").to_string_lossy().replace('\\', "/");
    paths.iter().filter_map(|p| Some((relative(p), fs::read_to_string(p).ok()?))).collect()
}

fn is_code(path: &str) -> bool {
    [".rs", ".py", ".cu", ".cuh", ".cpp", ".h", ".sh"].iter().any(|e| path.ends_with(e))
}

/// A line without its comment (good enough for the words looked for here).
fn code_of(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

fn refuse(rule: &str, found: Vec<String>) {
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}

#[test]
fn top_level_is_fixed() {
    let expected = [
        "Cargo.lock",
        "Cargo.toml",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "README.md",
        "benches",
        "cuda",
        "models",
        "quant",
        "rust-toolchain.toml",
        "src",
        "tests",
    ];
    let entries = fs::read_dir(ROOT).expect("the root").map(|e| e.expect("an entry").file_name());
    let names = entries.map(|n| n.to_string_lossy().into_owned());
    let odd = names.filter(|n| !n.starts_with('.') && n != "target" && !expected.contains(&n.as_str()));
    refuse("only these belong to the top level", odd.collect());
}

#[test]
fn files_fit_a_room() {
    let long = files().into_iter().filter(|(p, _)| is_code(p)).map(|(p, t)| (p, t.lines().count()));
    refuse("files of at most 500 lines", long.filter(|(_, n)| *n > 500).map(|(p, n)| format!("{p}: {n}")).collect());
}

#[test]
fn decoders_know_no_architecture() {
    let decoder = |p: &str| {
        ["models/cpu", "models/kv", "models/decoder", "models/forward", "cuda/"].iter().any(|d| p.starts_with(d))
    };
    let names = ["llama", "qwen", "gemma", "mistral", "phi3"];
    let mut found = Vec::new();
    for (path, text) in files().iter().filter(|(p, _)| decoder(p) && p.ends_with(".rs")) {
        for (i, line) in text.lines().enumerate() {
            if names.iter().any(|n| code_of(line).to_lowercase().contains(n)) {
                found.push(format!("{path}:{}: {line}", i + 1));
            }
        }
    }
    refuse("an architecture's name in a decoder", found);
}

#[test]
fn words_of_the_hardware_stand_in_one_file() {
    // What kernels may say beside the words of ptx.cuh: how functions are declared, a number as bits, half of a product.
    let plain = [
        "__global__",
        "__launch_bounds__",
        "__device__",
        "__forceinline__",
        "__float_as_int",
        "__float_as_uint",
        "__int_as_float",
        "__uint_as_float",
        "__umul64hi",
        "__VA_ARGS__",
    ];
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let of_the_hardware = |word: &str| {
        let atomic = word.strip_prefix("atomic").is_some_and(|rest| rest.starts_with(char::is_uppercase));
        word == "asm" || atomic || word.starts_with("__") && !plain.contains(&word)
    };
    let mut found = Vec::new();
    for (path, text) in files().iter().filter(|(p, _)| [".cu", ".cuh", ".cpp", ".h"].iter().any(|e| p.ends_with(e))) {
        // The emulator's half of ptx.cuh asks for the architecture too; the rest of the emulator is C++ for the CPU.
        let (halves, kernel) =
            (["ptx.cuh", "emulator.cuh"].iter().any(|f| path.ends_with(f)), path.contains("/kernels/"));
        for (i, line) in text.lines().enumerate().filter(|_| !halves) {
            let mut words = code_of(line).split(|c| !is_word(c));
            if words.any(|word| word == "__CUDA_ARCH__" || kernel && of_the_hardware(word)) {
                found.push(format!("{path}:{}: {line}", i + 1));
            }
        }
    }
    refuse("a word of the hardware outside cuda/kernels/ptx.cuh", found);
}

#[test]
fn libraries_do_not_print() {
    let prints = ["println!", "print!(", "eprintln!", "eprint!(", concat!("dbg", "!(")];
    let library = |p: &str| {
        let inside = ["quant/", "cuda/", "models/", "src/"].iter().any(|d| p.starts_with(d));
        // Build scripts talk to cargo by printing; tests say what they measure.
        let beside = ["/fuzz/", "/tests/", "/build.rs"].iter().any(|part| p.contains(part));
        let speaks = p.starts_with("src/cli") || p == "src/main.rs" || beside;
        inside && !speaks && p.ends_with(".rs")
    };
    let mut found = Vec::new();
    for (path, text) in files().iter().filter(|(p, _)| library(p)) {
        for (i, line) in text.lines().enumerate() {
            if prints.iter().any(|p| code_of(line).contains(p)) {
                found.push(format!("{path}:{}: {line}", i + 1));
            }
        }
    }
    refuse("printing from a library", found);
}

#[test]
fn nothing_unfinished_or_muted() {
    // Written in halves, so that this file does not find itself.
    let words = [("todo", "!("), ("unimplemented", "!("), ("allow(clippy::too_many", "_arguments"), ("FIX", "ME")];
    let mut found = Vec::new();
    for (path, text) in files().iter().filter(|(p, _)| is_code(p)) {
        for (i, line) in text.lines().enumerate() {
            if words.iter().any(|(a, b)| line.contains(&format!("{a}{b}"))) {
                found.push(format!("{path}:{}: {line}", i + 1));
            }
        }
    }
    refuse("unfinished or muted", found);
}

/// The files of tests, without their comments and with every white space as one space; this file aside, which holds
/// the words that are looked for.
fn tests() -> impl Iterator<Item = (String, String)> {
    let is_test = |p: &str| p.ends_with(".rs") && (p.starts_with("tests/") || p.contains("/tests/"));
    let bare = |text: String| text.lines().map(code_of).collect::<Vec<_>>().join(" ");
    let one_space = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    files()
        .into_iter()
        .filter(move |(p, _)| is_test(p) && p != "tests/tidy.rs")
        .map(move |(p, t)| (p, one_space(bare(t))))
}

#[test]
fn a_muted_test_says_why() {
    let mut found = Vec::new();
    for (path, text) in files().iter().filter(|(p, _)| is_code(p) && p != "tests/tidy.rs") {
        for (i, line) in text.lines().enumerate() {
            let muted = line.split_once("#[ignore");
            if muted.is_some_and(|(_, reason)| reason.strip_prefix(" = \"").is_none_or(|r| r.len() < 20)) {
                found.push(format!("{path}:{}: {line}", i + 1));
            }
        }
    }
    refuse("a test is ignored without its reason, as in #[ignore = \"reads …\"]", found);
}

/// A test that finds nothing to compare must not pass: what is missing is an error, or `skip("why")`, which fails in CI.
#[test]
fn tests_leave_nothing_out_in_silence() {
    // What goes on without a word where a value is missing.
    let silent = ["else { return; }", "else { return }", "else { continue; }", "else { continue }"];
    let silent = silent.into_iter().chain(["=> continue,", "=> return,"]);
    let silent: Vec<&str> = silent.collect();
    // What asks for something that another machine may not have, and how a block ends that then does nothing.
    let asks = ["env::var(", "env::var_os(", ".exists()", ".is_file()", "device::list()"];
    let leaves = |block: &str| {
        ["return;", "return", "continue;", "continue"].iter().any(|end| block.trim_end().ends_with(end))
            || ["return println!", "return eprintln!"].iter().any(|print| block.contains(print))
    };
    let mut found = Vec::new();
    for (path, text) in tests() {
        found.extend(silent.iter().filter(|s| text.contains(**s)).map(|s| format!("{path}: {s}")));
        for asked in asks {
            for (at, _) in text.match_indices(asked) {
                // The block that follows in the same statement: `if …asked… { block }`.
                let rest = &text[at..];
                let block = rest.split_once('{').filter(|(head, _)| !head.contains(';'));
                let block = block.map(|(_, block)| block.split('}').next().unwrap_or_default());
                if block.is_some_and(leaves) {
                    found.push(format!("{path}: {}", rest.split('}').next().unwrap_or_default()));
                }
            }
        }
    }
    refuse("a test that cannot run says so by `return skip(\"why\")`, and reads what it needs by `expect`", found);
}

#[test]
fn crates_point_one_way() {
    for (manifest, forbidden) in [
        ("quant/Cargo.toml", ["qrun-cuda", "qrun-models"].as_slice()),
        ("cuda/Cargo.toml", &["qrun-models"]),
        ("models/Cargo.toml", &["\"..\""]),
    ] {
        let text = fs::read_to_string(Path::new(ROOT).join(manifest)).expect("a manifest");
        let found = forbidden.iter().filter(|f| text.contains(**f)).map(|f| format!("{manifest}: {f}"));
        refuse("quant → cuda → models → qrun", found.collect());
    }
}

#[test]
fn each_crate_says_what_it_does_not_know() {
    let roots = ["quant/lib.rs", "cuda/lib.rs", "models/lib.rs", "src/lib.rs"];
    let silent = roots.into_iter().filter(|p| {
        let text = fs::read_to_string(Path::new(ROOT).join(p)).expect("a crate root");
        !text.contains("//! What this crate deliberately does not know")
    });
    refuse("lib.rs opens with what the crate does not know", silent.map(str::to_owned).collect());
}

#[test]
fn ci_runs_the_commands_of_the_readme() {
    let readme = fs::read_to_string(Path::new(ROOT).join("README.md")).expect("README.md");
    let ci = fs::read_to_string(Path::new(ROOT).join(".ci/run")).expect(".ci/run");
    for name in ["run", "test"] {
        let block = readme.split(&format!("<!-- {name} -->")).nth(1).and_then(|t| t.split("<!-- end -->").next());
        let block = block.unwrap_or_else(|| panic!("README.md has the command block {name}"));
        assert_eq!(block.lines().filter(|l| l.starts_with("cargo")).count(), 1, "one command in block {name}");
        assert!(ci.contains(&format!("command_of {name}")), ".ci/run runs the README's {name} command");
    }
}

#[test]
fn the_readme_is_short_and_its_recipes_name_files_that_exist() {
    let readme = fs::read_to_string(Path::new(ROOT).join("README.md")).expect("README.md");
    assert!(readme.lines().count() <= 150, "{} lines", readme.lines().count());
    let recipes = readme.split("<!-- recipes -->").nth(1).and_then(|t| t.split("<!-- end -->").next());
    let words = recipes.expect("README.md has the recipes").split('`').skip(1).step_by(2);
    let paths: Vec<&str> = words.filter(|word| word.contains('/')).collect();
    assert!(paths.len() > 15, "{paths:?}");
    // `x` stands for the name of what is new: its neighbours are there.
    let exists = |path: &&&str| match path.rsplit_once("/x.") {
        Some((folder, end)) => fs::read_dir(Path::new(ROOT).join(folder))
            .is_ok_and(|mut files| files.any(|file| file.is_ok_and(|f| f.path().to_string_lossy().ends_with(end)))),
        None => Path::new(ROOT).join(path).is_file(),
    };
    let missing: Vec<String> = paths.iter().filter(|path| !exists(path)).map(|path| path.to_string()).collect();
    refuse("a recipe of README.md names files that do not exist", missing);
}

#[test]
fn speeds_in_the_readme_are_the_newest_recorded_ones() {
    let readme = fs::read_to_string(Path::new(ROOT).join("README.md")).expect("README.md");
    let newest = |runs: &[Value]| qrun::bench::serve::markdown(&runs[0]);
    let peers: (_, fn(&[Value]) -> String) = ("peers", qrun::bench::peers::markdown);
    for (kind, markdown) in [peers, ("serve", newest)] {
        let files = fs::read_dir(Path::new(ROOT).join("benches/runs")).expect("benches/runs");
        let mut files: Vec<_> = files.map(|file| file.expect("an entry").path()).collect();
        files.retain(|file| file.to_string_lossy().ends_with(&format!("-{kind}.json")));
        files.sort();
        // Of each machine the last one.
        let (mut runs, mut names, mut machines) = (Vec::new(), Vec::new(), BTreeSet::new());
        for file in files.iter().rev() {
            let run: Value = serde_json::from_slice(&fs::read(file).expect("a readable run")).expect("JSON");
            if machines.insert(run["machine"]["cpu"].to_string()) {
                runs.push(run);
                names.push(file.display().to_string());
            }
        }
        assert!(!runs.is_empty(), "no recorded run of {kind}");
        let block = readme.split(&format!("<!-- {kind} -->")).nth(1).and_then(|rest| rest.split("<!-- end -->").next());
        let block = block.unwrap_or_else(|| panic!("README.md has the block {kind}"));
        let command = format!("cargo bench --bench {kind} -- --readme {}", names.join(" "));
        assert_eq!(block.trim(), markdown(&runs).trim(), "{command}");
    }
}
