//! Words to names. Nothing here asks the network or, but for [`is_name`], the disk.

use std::path::Path;

use super::aliases::{self, Alias};

/// Who has the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The hub, or what stands for it (`HF_ENDPOINT`).
    Hub,
    /// modelscope.cn, or what [`Settings::modelscope`](super::Settings) says.
    ModelScope,
    /// Ollama's registry, or its store on this machine.
    Ollama,
    /// A server that only has files.
    Url,
}

/// A model's name, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// Who has it.
    pub source: Source,
    /// `USER/REPO`; Ollama: `library/NAME`; of a URL all of it.
    pub repo: String,
    /// What the file's name has, as `Q8_0`; Ollama's tag.
    pub tag: Option<String>,
    /// Path of the file in the repository, where the name says it.
    pub file: Option<String>,
    /// Branch, tag or commit, where the name says it.
    pub revision: Option<String>,
    /// Of an alias: what the table says that it is.
    pub arch: Option<&'static str>,
}

/// Whether a word names a model and not a file. A path that exists is never a name, nor is a path below a folder that
/// exists: `hf:USER/REPO` is, wherever it is typed. No network is used.
pub fn is_name(word: &str) -> bool {
    let path = Path::new(word);
    let Some(name) = Name::parse(word) else { return false };
    let bare = name.source == Source::Hub && name.arch.is_none() && !has_scheme(word);
    let below = || path.parent().is_some_and(|folder| !folder.as_os_str().is_empty() && folder.exists());
    path.symlink_metadata().is_err() && !(bare && below())
}

/// Prefixes that say who has the model; the first of a row that fits counts.
const SCHEMES: &[(&str, Source)] = &[
    ("hf://", Source::Hub),
    ("hf:", Source::Hub),
    ("hf.co/", Source::Hub),
    ("huggingface.co/", Source::Hub),
    ("modelscope://", Source::ModelScope),
    ("ms://", Source::ModelScope),
    ("ms:", Source::ModelScope),
    ("ollama://", Source::Ollama),
];

/// Hosts of the hub: a URL of theirs names a repository.
const HUB_HOSTS: [&str; 3] = ["huggingface.co", "www.huggingface.co", "hf.co"];

fn after<'a>(word: &'a str, prefix: &str) -> Option<&'a str> {
    let (head, rest) = word.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

fn has_scheme(word: &str) -> bool {
    word.contains("://") || SCHEMES.iter().any(|(prefix, _)| after(word, prefix).is_some())
}

impl Name {
    /// Takes a word apart; `None` where it cannot be a model's name.
    pub fn parse(word: &str) -> Option<Name> {
        if after(word, "https://").or_else(|| after(word, "http://")).is_some() {
            return url(word);
        }
        match SCHEMES.iter().find_map(|(prefix, source)| Some((after(word, prefix)?, *source))) {
            Some((rest, Source::Ollama)) => ollama(rest),
            Some((rest, source)) => {
                repository(rest, source).or_else(|| of_alias(rest).filter(|_| source == Source::Hub))
            }
            None => repository(word, Source::Hub).or_else(|| of_alias(word)),
        }
    }

    /// The repository as people type it.
    pub fn shown(&self) -> String {
        match self.source {
            Source::Hub | Source::Url => self.repo.clone(),
            Source::ModelScope => format!("ms:{}", self.repo),
            Source::Ollama => format!("ollama://{}", self.repo.trim_start_matches("library/")),
        }
    }

    fn new(source: Source, repo: impl Into<String>) -> Self {
        Name { source, repo: repo.into(), tag: None, file: None, revision: None, arch: None }
    }
}

/// `USER/REPO`, `USER/REPO:TAG` or `USER/REPO:path/file.gguf`.
fn repository(word: &str, source: Source) -> Option<Name> {
    let (repo, rest) = word.split_once(':').map_or((word, None), |(repo, rest)| (repo, Some(rest)));
    if !is_repository(repo) {
        return None;
    }
    // Without a colon it is how a path looks that does not exist.
    if rest.is_none() && is_gguf(repo) {
        return None;
    }
    let name = Name::new(source, repo);
    match rest {
        None => Some(name),
        Some(file) if is_gguf(file) => is_inside(file).then(|| Name { file: Some(file.into()), ..name }),
        Some(tag) => is_tag(tag).then(|| Name { tag: tag_of(tag), ..name }),
    }
}

/// `latest` means what no tag means.
fn tag_of(tag: &str) -> Option<String> {
    (!tag.eq_ignore_ascii_case("latest")).then(|| tag.to_owned())
}

fn of_alias(word: &str) -> Option<Name> {
    let (word, tag) = word.split_once(':').map_or((word, None), |(word, tag)| (word, Some(tag)));
    let Alias { repo, tag: own, arch, .. } = aliases::find(word)?;
    let tag = match tag {
        Some(tag) if !is_tag(tag) => return None,
        Some(tag) => tag_of(tag).unwrap_or_else(|| (*own).to_owned()),
        None => (*own).to_owned(),
    };
    Some(Name { tag: Some(tag), arch: Some(arch), ..Name::new(Source::Hub, *repo) })
}

/// `NAME`, `NAME:TAG`, `USER/NAME:TAG`.
fn ollama(word: &str) -> Option<Name> {
    let (repo, tag) = word.split_once(':').unwrap_or((word, "latest"));
    let repo = if repo.contains('/') { repo.to_owned() } else { format!("library/{repo}") };
    (is_repository(&repo) && is_tag(tag)).then(|| Name { tag: Some(tag.into()), ..Name::new(Source::Ollama, repo) })
}

/// A file on a server. Of the hub it is its repository's: `https://huggingface.co/USER/REPO[/resolve/REVISION/FILE]`.
fn url(word: &str) -> Option<Name> {
    let (_, rest) = word.split_once("://")?;
    let (host, path) = rest.split_once('/')?;
    let path = path.split(['?', '#']).next().unwrap_or_default();
    if word.bytes().any(|b| !b.is_ascii_graphic()) || host.is_empty() || host.contains('@') {
        return None;
    }
    if HUB_HOSTS.iter().any(|hub| host.eq_ignore_ascii_case(hub)) {
        let parts: Vec<&str> = path.trim_end_matches('/').splitn(5, '/').collect();
        let repo = format!("{}/{}", parts.first()?, parts.get(1)?);
        let name = Name::new(Source::Hub, repo.clone());
        return match parts[2..] {
            _ if !is_repository(&repo) => None,
            [] => Some(name),
            ["resolve" | "blob" | "raw", revision, file] if is_gguf(file) && is_inside(file) => {
                Some(Name { revision: Some(revision.into()), file: Some(file.into()), ..name })
            }
            _ => None,
        };
    }
    let file = path.rsplit('/').next().unwrap_or_default();
    (is_gguf(file) && is_inside(file)).then(|| Name { file: Some(file.into()), ..Name::new(Source::Url, word) })
}

fn is_gguf(word: &str) -> bool {
    word.len() > 5 && word.to_ascii_lowercase().ends_with(".gguf")
}

/// Two words of letters, digits, `_`, `-` and `.`, as the hub allows: none begins or ends with `-` or `.`, none has `--`
/// or `..`.
fn is_repository(word: &str) -> bool {
    let part = |part: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let inner = part.chars().all(|c| plain(c) || c == '-' || c == '.');
        inner && part.starts_with(plain) && part.ends_with(plain) && !part.contains("--") && !part.contains("..")
    };
    word.len() <= 96 + 42 && word.split_once('/').is_some_and(|(user, repo)| part(user) && part(repo))
}

fn is_tag(word: &str) -> bool {
    !word.is_empty()
        && word.len() <= 128
        && word.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
        && word.chars().any(|c| c.is_ascii_alphanumeric())
}

/// Whether a path, taken from a folder, stays below it, on any system.
pub fn is_inside(path: &str) -> bool {
    let part = |part: &str| !part.is_empty() && part != "." && part != "..";
    path.len() <= 1024
        && path.split('/').all(part)
        && !path.contains(['\\', ':', '\0'])
        && !path.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name in short: source, repository, then what is there of @revision, :tag, /file.
    fn short(word: &str) -> Option<String> {
        Name::parse(word).map(|n| {
            let part =
                |sign: &str, part: &Option<String>| part.as_ref().map_or(String::new(), |p| format!(" {sign}{p}"));
            format!("{:?} {}{}{}{}", n.source, n.repo, part("@", &n.revision), part(":", &n.tag), part("/", &n.file))
        })
    }

    #[test]
    fn words_are_names_or_not() {
        let cases = [
            ("unsloth/gemma-3-1b-it-GGUF", "Hub unsloth/gemma-3-1b-it-GGUF"),
            ("unsloth/gemma-3-1b-it-GGUF:Q8_0", "Hub unsloth/gemma-3-1b-it-GGUF :Q8_0"),
            ("u/r:latest", "Hub u/r"),
            ("u/r:x-Q4_K_M.gguf", "Hub u/r /x-Q4_K_M.gguf"),
            ("u/r:BF16/x-00001-of-00002.gguf", "Hub u/r /BF16/x-00001-of-00002.gguf"),
            ("hf:u/r:Q8_0", "Hub u/r :Q8_0"),
            ("HF.co/u/r", "Hub u/r"),
            ("huggingface.co/u/r:Q8_0", "Hub u/r :Q8_0"),
            ("https://huggingface.co/u/r", "Hub u/r"),
            ("https://huggingface.co/u/r/resolve/main/a/x.gguf?download=true", "Hub u/r @main /a/x.gguf"),
            ("https://hf.co/u/r/blob/v1/x.gguf", "Hub u/r @v1 /x.gguf"),
            ("ms:Qwen/Qwen3-1.7B-GGUF:Q8_0", "ModelScope Qwen/Qwen3-1.7B-GGUF :Q8_0"),
            ("modelscope://u/r", "ModelScope u/r"),
            ("ollama://llama3.2", "Ollama library/llama3.2 :latest"),
            ("ollama://llama3.2:1b-instruct-q8_0", "Ollama library/llama3.2 :1b-instruct-q8_0"),
            ("ollama://me/mine:v1", "Ollama me/mine :v1"),
            ("http://box:8000/m/x.gguf?a=b", "Url http://box:8000/m/x.gguf?a=b /x.gguf"),
            ("gemma-3-1b-Q4_K_M", "Hub unsloth/gemma-3-1b-it-GGUF :Q4_K_M"),
            ("Gemma-3-1B-IT", "Hub unsloth/gemma-3-1b-it-GGUF :Q4_K_M"),
            ("gemma-3-1b-it:Q8_0", "Hub unsloth/gemma-3-1b-it-GGUF :Q8_0"),
            ("hf:gemma-3-1b-it", "Hub unsloth/gemma-3-1b-it-GGUF :Q4_K_M"),
        ];
        for (word, wanted) in cases {
            assert_eq!(short(word).as_deref(), Some(wanted), "{word}");
        }
        for word in [
            "",
            "model",
            "model.gguf",
            "models/model.gguf",
            "./u/r",
            "../r",
            "/u/r",
            "~/r",
            "a/b/c",
            "u/",
            "/r",
            "u/r:",
            "u/r:../x.gguf",
            "u/r:/etc/x.gguf",
            "u/r:a\\x.gguf",
            "u/.r",
            "u/r.",
            "u/a--b",
            "u/a..b",
            "-u/r",
            "u r/x",
            "C:/x",
            "https://huggingface.co/u",
            "https://huggingface.co/u/r/resolve/main/x.bin",
            "https://box/x.bin",
            "https://me:secret@box/x.gguf",
            "https://",
            "http:///x.gguf",
            "ollama://",
            "ms:gemma-3-1b-it",
            "u/r:Q8 0",
            "gemma-3-1b-it:a/b",
            "hf:",
            "\u{e4}/b",
        ] {
            assert_eq!(short(word), None, "{word}");
        }
    }

    #[test]
    fn a_path_is_never_a_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let inside = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(inside("x"), "").expect("a file");
        assert!(!is_name(&inside("x")) && !is_name(&inside("missing")));
        // The crate's root: tests run there.
        assert!(!is_name("src/download") && !is_name("src/gemma"), "below a folder that exists");
        assert!(is_name("hf:src/gemma") && is_name("no-such-folder/gemma") && is_name("gemma-3-1b-it"));
        assert!(!is_name("missing.gguf") && !is_name("no-such-folder/missing.gguf"));
    }

    #[test]
    fn what_is_inside_stays_inside() {
        for good in ["x.gguf", "a/b/x.gguf", "..x.gguf"] {
            assert!(is_inside(good), "{good}");
        }
        for bad in ["", "/x", "../x", "a/../../x", "a//x", "a/./x", "C:x", "a\\x", "x\n"] {
            assert!(!is_inside(bad), "{bad}");
        }
    }
}
