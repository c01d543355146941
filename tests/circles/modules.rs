//! The modules of a crate: what each declares, imports and names.

use std::collections::{BTreeMap, BTreeSet};

use super::lexer::{Token, tokens};

/// A module, in a file of its own or inside another one's braces.
#[derive(Default)]
pub struct Module {
    /// Its file, or the file that it stands in.
    pub file: String,
    /// The module that it is declared in.
    pub parent: usize,
    pub children: BTreeMap<String, usize>,
    pub imports: Vec<Import>,
    /// Paths outside of imports, `a::b::c`.
    pub paths: BTreeSet<Vec<String>>,
    /// All names outside of imports.
    pub names: BTreeSet<String>,
    /// Names of items that are written here.
    pub items: BTreeSet<String>,
    /// Macros among them, which modules declared below see without a path.
    pub macros: BTreeSet<String>,
}

/// One name of a `use`.
pub struct Import {
    pub path: Vec<String>,
    /// What it is called here; `*` for all names of a module.
    pub name: String,
    /// `pub use`: passes a name on.
    pub public: bool,
}

/// The modules of a crate, the root first. `read` gives the text of a file.
pub fn modules(root: &str, read: &dyn Fn(&str) -> Option<String>) -> Vec<Module> {
    let mut all = vec![Module { file: root.to_owned(), ..Module::default() }];
    let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    Reader { all: &mut all, read }.file(0, &folder);
    all
}

struct Reader<'a> {
    all: &'a mut Vec<Module>,
    read: &'a dyn Fn(&str) -> Option<String>,
}

impl Reader<'_> {
    /// Reads the file of a module; those that it declares lie in `folder`.
    fn file(&mut self, module: usize, folder: &str) {
        let file = self.all[module].file.clone();
        let text = (self.read)(&file).unwrap_or_else(|| panic!("{file}: declared, and not there"));
        self.body(module, folder, &tokens(&text));
    }

    fn body(&mut self, module: usize, folder: &str, t: &[Token]) {
        let (mut i, mut path) = (0, None);
        while i < t.len() {
            let name = t[i].ident();
            if t[i].is('#') && t.get(i + 1).is_some_and(|t| t.is('[')) {
                let end = close(t, i + 1);
                let attribute = &t[i + 2..end];
                i = end + 1;
                if is_test(attribute) {
                    i = item_end(t, i);
                } else if let [Token::Ident(key), _, Token::Text(value)] = attribute
                    && key == "path"
                {
                    path = Some(value.clone());
                }
            } else if name == Some("mod")
                && let Some(Token::Ident(child)) = t.get(i + 1)
            {
                i = self.declare(module, folder, (child, path.take()), t, i + 2);
            } else if name == Some("use") && !t.get(i + 1).is_some_and(|t| t.is('<')) {
                let end = i + t[i..].iter().take_while(|t| !t.is(';')).count();
                let public = i > 0 && (t[i - 1].ident() == Some("pub") || t[i - 1].is(')'));
                imports(&mut t[i + 1..end].iter().peekable(), Vec::new(), public, &mut self.all[module].imports);
                i = end + 1;
            } else {
                i = self.name(module, t, i);
            }
        }
    }

    /// A `mod`, whose name has been read; returns the place behind it.
    fn declare(
        &mut self,
        module: usize,
        folder: &str,
        (name, path): (&str, Option<String>),
        t: &[Token],
        i: usize,
    ) -> usize {
        let own = self.all[module].file.clone();
        let child = self.all.len();
        self.all[module].children.insert(name.to_owned(), child);
        self.all.push(Module { file: own.clone(), parent: module, ..Module::default() });
        let inside = format!("{folder}/{name}");
        if t.get(i).is_some_and(|t| t.is('{')) {
            let end = close(t, i);
            self.body(child, &inside, &t[i + 1..end]);
            return end + 1;
        }
        let beside = own.rsplit_once('/').map_or("", |(folder, _)| folder);
        // A module with a path of its own looks for others beside itself, as a root does.
        let (file, inside) = match path {
            Some(path) => {
                let file = normal(&format!("{beside}/{path}"));
                let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
                (file, folder)
            }
            None => (format!("{inside}.rs"), inside),
        };
        self.all[child].file = file;
        self.file(child, &inside);
        i + 1
    }

    /// Any other token; paths and the names of items are noted.
    fn name(&mut self, module: usize, t: &[Token], i: usize) -> usize {
        const ITEMS: [&str; 9] = ["fn", "struct", "enum", "trait", "type", "const", "static", "union", "macro_rules"];
        let Some(name) = t[i].ident() else { return i + 1 };
        let module = &mut self.all[module];
        if ITEMS.contains(&name) {
            let item = t[i + 1..].iter().take(2).find_map(Token::ident);
            module.items.extend(item.map(str::to_owned));
            module.macros.extend(item.filter(|_| name == "macro_rules").map(str::to_owned));
        }
        let mut path = vec![name.to_owned()];
        let mut end = i + 1;
        while t.get(end) == Some(&Token::Sep)
            && let Some(next) = t.get(end + 1).and_then(Token::ident)
        {
            path.push(next.to_owned());
            end += 2;
        }
        let inner = i > 0 && (t[i - 1] == Token::Sep || t[i - 1].is('.'));
        if !inner {
            module.names.insert(name.to_owned());
            module.paths.extend((path.len() > 1).then_some(path));
        }
        end
    }
}

/// `a/b/../c` as `a/c`.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            ".." => _ = parts.pop(),
            "" | "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Whether an attribute leaves its item to tests.
fn is_test(attribute: &[Token]) -> bool {
    let has = |name: &str| attribute.iter().any(|t| t.ident() == Some(name));
    has("cfg") && has("test") && !has("not")
}

/// The bracket that closes the one at `open`.
fn close(t: &[Token], open: usize) -> usize {
    let mut depth = 0;
    for (i, token) in t.iter().enumerate().skip(open) {
        match token {
            Token::Punct('(' | '[' | '{') => depth += 1,
            Token::Punct(')' | ']' | '}') => depth -= 1,
            _ => {}
        }
        // The first token opens, so that depth 0 is met where it closes.
        if depth == 0 {
            return i;
        }
    }
    t.len()
}

/// The place behind the item that begins at `i`.
fn item_end(t: &[Token], mut i: usize) -> usize {
    while i < t.len() {
        match t[i] {
            Token::Punct(';') => return i + 1,
            Token::Punct('{') => return close(t, i) + 1,
            Token::Punct('(' | '[') => i = close(t, i) + 1,
            _ => i += 1,
        }
    }
    i
}

type Tokens<'a> = std::iter::Peekable<std::slice::Iter<'a, Token>>;

/// A tree of imports, up to its end or the comma behind it.
fn imports(t: &mut Tokens, mut path: Vec<String>, public: bool, out: &mut Vec<Import>) {
    let mut name = None;
    while let Some(token) = t.next_if(|t| !t.is(',') && !t.is('}')) {
        match token {
            Token::Ident(word) if word == "as" => name = t.next().and_then(Token::ident).map(str::to_owned),
            Token::Ident(word) => path.push(word.clone()),
            Token::Punct('*') => name = Some("*".to_owned()),
            Token::Punct('{') => {
                while t.next_if(|t| t.is('}')).is_none() && t.peek().is_some() {
                    imports(t, path.clone(), public, out);
                    t.next_if(|t| t.is(','));
                }
                return;
            }
            _ => {}
        }
    }
    if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    if let Some(name) = name.or_else(|| path.last().cloned()) {
        out.push(Import { path, name, public });
    }
}
