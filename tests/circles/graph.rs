//! Which file of a crate uses which, and the circles in that.

use std::collections::{BTreeMap, BTreeSet};

use super::modules::{Import, Module};

/// What a path leads to.
#[derive(Clone, Copy)]
enum Target {
    Module(usize),
    /// An item of this module.
    Item(usize),
}

/// Files, and the files whose items each of them uses. A parent that declares a module or passes its names on does not
/// use it; the test code inside a file is left out.
pub fn uses(all: &[Module]) -> BTreeMap<String, BTreeSet<String>> {
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (id, module) in all.iter().enumerate() {
        let used = targets(all, id).into_iter().map(|target| all[target].file.clone());
        let used = used.filter(|file| *file != module.file).collect::<Vec<_>>();
        graph.entry(module.file.clone()).or_default().extend(used);
    }
    graph
}

/// Modules whose items this one uses.
fn targets(all: &[Module], id: usize) -> Vec<usize> {
    let module = &all[id];
    let mut found = Vec::new();
    for import in &module.imports {
        if import.name == "*" {
            if let Some(Target::Module(from)) = resolve(all, id, &import.path, 0) {
                found.extend(module.names.iter().filter_map(|name| member(all, from, name, 0)));
            }
        } else if !import.public || module.names.contains(&import.name) {
            found.extend(resolve(all, id, &import.path, 0));
        }
    }
    found.extend(module.paths.iter().filter_map(|path| resolve(all, id, path, 0)));
    let mut items: Vec<usize> = found
        .into_iter()
        .filter_map(|target| match target {
            Target::Item(module) => Some(module),
            Target::Module(_) => None,
        })
        .collect();
    // Macros of the modules that this one is declared in need no path.
    let mut above = id;
    while above != 0 {
        above = all[above].parent;
        items.extend(all[above].macros.iter().any(|name| module.names.contains(name)).then_some(above));
    }
    items
}

/// Imports that lead to imports end somewhere; more than this is a name that leads to itself.
const DEPTH: usize = 6;

/// What a path in module `id` leads to; `None` for other crates.
fn resolve(all: &[Module], id: usize, path: &[String], depth: usize) -> Option<Target> {
    let (first, rest) = path.split_first()?;
    let mut target = match first.as_str() {
        "crate" => Target::Module(0),
        "self" => Target::Module(id),
        "super" => Target::Module(all[id].parent),
        name => known(all, id, name, depth)?,
    };
    for (i, name) in rest.iter().enumerate() {
        target = match target {
            Target::Module(id) if name == "super" => Target::Module(all[id].parent),
            // A method may have a module's name; only the module has names of its own.
            Target::Module(id) if i + 1 < rest.len() && all[id].children.contains_key(name) => {
                Target::Module(all[id].children[name])
            }
            // What is not written there was made by a macro there.
            Target::Module(id) => member(all, id, name, depth).unwrap_or(Target::Item(id)),
            item => return Some(item),
        };
    }
    Some(target)
}

/// A name of module `id`, seen from inside or outside.
fn member(all: &[Module], id: usize, name: &str, depth: usize) -> Option<Target> {
    if all[id].items.contains(name) { Some(Target::Item(id)) } else { known(all, id, name, depth) }
}

/// A module declared in `id`, or what an import there leads to.
fn known(all: &[Module], id: usize, name: &str, depth: usize) -> Option<Target> {
    if let Some(child) = all[id].children.get(name) {
        return Some(Target::Module(*child));
    }
    if depth > DEPTH {
        return None;
    }
    let itself = |import: &&Import| import.path.len() > 1 || import.path[0] != import.name;
    if let Some(import) = all[id].imports.iter().filter(itself).find(|import| import.name == name) {
        return resolve(all, id, &import.path, depth + 1);
    }
    // All names of a module; those of an enum or of another crate lead nowhere.
    let of_module =
        |first: &String| ["crate", "self", "super"].contains(&first.as_str()) || all[id].children.contains_key(first);
    let globs = all[id].imports.iter().filter(|import| import.name == "*" && of_module(&import.path[0]));
    globs.into_iter().find_map(|import| match resolve(all, id, &import.path, depth + 1) {
        Some(Target::Module(from)) if from != id => member(all, from, name, depth + 1),
        _ => None,
    })
}

/// Sets of files each of which uses all others of the set, directly or through others.
pub fn circles(graph: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<BTreeSet<String>> {
    let reach = |start: &String| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![start.clone()]);
        while let Some(file) = open.pop() {
            open.extend(graph.get(&file).into_iter().flatten().filter(|next| seen.insert((*next).clone())).cloned());
        }
        seen
    };
    let reached: BTreeMap<&String, BTreeSet<String>> = graph.keys().map(|file| (file, reach(file))).collect();
    let circle = |file: &String| -> BTreeSet<String> {
        reached[file]
            .iter()
            .filter(|other| reached.get(other).is_some_and(|back| back.contains(file)))
            .cloned()
            .collect()
    };
    graph.keys().map(circle).filter(|circle| circle.len() > 1).collect()
}
