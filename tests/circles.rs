//! Inside of each crate, files use each other one way: a file can be read, moved and tested without those above it.
//!
//! A file that declares modules (`mod x;`) or passes their names on (`pub use x::Y`) does not use them; one that uses
//! the items of another file does. What a child takes from the files that it lies in is not counted: a module and the
//! files below it are one room, and private items of the module are theirs too.

mod graph;
mod lexer;
mod modules;
mod open;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use open::OPEN;

use super::tidy;

/// Crates by the files that they begin with.
const ROOTS: &[&str] = &[
    "quant/lib.rs",
    "cuda/lib.rs",
    "cuda/compile/main.rs",
    "cuda/emulator/lib.rs",
    "models/lib.rs",
    "src/lib.rs",
    "src/main.rs",
    "src/python/lib.rs",
];

/// The uses between the files of a crate.
fn crate_graph(root: &str) -> BTreeMap<String, BTreeSet<String>> {
    let read = |path: &str| fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).ok();
    let mut graph = graph::uses(&modules::modules(root, &read));
    for (file, used) in &mut graph {
        used.retain(|other| other != root && !file.starts_with(&format!("{}/", other.trim_end_matches(".rs"))));
    }
    graph
}

#[test]
fn files_use_each_other_one_way() {
    let mut wrong = Vec::new();
    for root in ROOTS {
        let graph = crate_graph(root);
        let found = graph::circles(&graph);
        let open: Vec<BTreeSet<String>> =
            OPEN.iter().filter(|o| o.0 == *root).map(|o| o.1.iter().map(|f| (*f).to_owned()).collect()).collect();
        for circle in &found {
            if !open.iter().any(|open| circle.is_subset(open)) {
                let uses = circle.iter().flat_map(|file| {
                    let used = graph[file].intersection(circle).cloned().collect::<Vec<_>>().join(", ");
                    [format!("    {file} uses {used}")]
                });
                wrong.push(format!("a circle in {root}:\n{}", uses.collect::<Vec<_>>().join("\n")));
            }
        }
        for open in open.iter().filter(|open| !found.iter().any(|circle| circle.is_subset(open))) {
            wrong.push(format!("{open:?} of {root} is cut: take it off the list OPEN"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Modules that are compiled for unit tests only.
const TESTS: [&str; 4] =
    ["cuda/ops/twin.rs", "models/kv/histories.rs", "quant/gguf/memory.rs", "src/text/tokenizer/pre/tests.rs"];

#[test]
fn every_file_of_the_crates_is_looked_at() {
    let seen: BTreeSet<String> = ROOTS.iter().flat_map(|root| crate_graph(root).into_keys()).collect();
    let ours = |p: &str| ["quant/", "cuda/", "models/", "src/"].iter().any(|d| p.starts_with(d)) && p.ends_with(".rs");
    let apart =
        |p: &str| p.ends_with("build.rs") || p.contains("/fuzz/") || p.contains("/tests/") || TESTS.contains(&p);
    let missed = tidy::files().into_iter().map(|(path, _)| path).filter(|p| ours(p) && !apart(p) && !seen.contains(p));
    assert_eq!(missed.collect::<Vec<_>>(), Vec::<String>::new(), "files that no root reaches");
}

/// The circles of a crate of these files.
fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let read = |path: &str| files.iter().find(|f| f.0 == path).map(|f| f.1.to_owned());
    let graph = graph::uses(&modules::modules("a/lib.rs", &read));
    graph::circles(&graph).into_iter().map(|c| c.into_iter().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn circles_are_found_wherever_names_come_from() {
    let two =
        |x: &str, y: &str| circles_of(&[("a/lib.rs", "mod x; mod y; pub use x::X;"), ("a/x.rs", x), ("a/y.rs", y)]);
    let circle = ["a/x.rs a/y.rs"];
    assert_eq!(two("pub struct X; use crate::y::Y;", "pub struct Y; use super::x::{self, X};"), circle);
    // By a path, by a name that the parent passes on, by a module's name, by all names of a module.
    assert_eq!(two("pub struct X; fn f() { crate::y::g() }", "pub fn g() { super::X; }"), circle);
    assert_eq!(two("pub struct X; use super::y; fn f() { y::g() }", "pub fn g() {} use crate::X;"), circle);
    assert_eq!(two("pub struct X; use crate::y::*; fn f(_: Y) {}", "pub struct Y; use crate::X;"), circle);
    // Also where a method has the name of a module.
    let files = [
        ("a/lib.rs", "mod x; mod y; struct A; impl A { fn x(&self) {} }"),
        ("a/x.rs", "use super::y::Y; pub struct X(Y);"),
    ];
    assert_eq!(circles_of(&[files[0], files[1], ("a/y.rs", "pub struct Y; use super::x::X; impl X {}")]), circle);
    // Not in comments, strings and tests, and not by naming a module.
    assert_eq!(two("pub struct X; // crate::y::g()", "pub fn g() {} use crate::X;"), [""; 0]);
    assert_eq!(two("pub const X: &str = r#\"crate::y::g()\"#;", "pub fn g() {} use crate::X;"), [""; 0]);
    assert_eq!(two("pub struct X; #[cfg(test)] mod t { use crate::y::g; }", "pub fn g() {} use crate::X;"), [""; 0]);
    // A parent and its child.
    let nested = |lib: &str, x: &str| circles_of(&[("a/lib.rs", lib), ("a/x.rs", x)]);
    assert_eq!(nested("mod x; use x::X; struct A(X);", "use crate::A; pub struct X;"), ["a/lib.rs a/x.rs"]);
    assert_eq!(nested("mod x; pub use x::X; struct A;", "use crate::A; pub struct X;"), [""; 0]);
    assert_eq!(nested("macro_rules! m { () => {} } mod x; fn f() { x::f() }", "pub fn f() { m!() }").len(), 1);
}
