//! Which template is used: the one asked for, the model file's own, or a built-in one that fits its vocabulary.

use std::path::Path;

use super::TemplateError;

/// Name and Jinja text of the templates that come with the engine.
pub const BUILTINS: &[(&str, &str)] = &[
    ("chatml", include_str!("builtin/chatml.jinja")),
    ("gemma", include_str!("builtin/gemma.jinja")),
    ("gemma4", include_str!("builtin/gemma4.jinja")),
    ("glm4", include_str!("builtin/glm4.jinja")),
    ("granite", include_str!("builtin/granite.jinja")),
    ("harmony", include_str!("builtin/harmony.jinja")),
    ("lfm2", include_str!("builtin/chatml.jinja")),
    ("llama2", include_str!("builtin/llama2.jinja")),
    ("llama3", include_str!("builtin/llama3.jinja")),
    ("mistral", include_str!("builtin/mistral.jinja")),
    ("phi3", include_str!("builtin/phi3.jinja")),
    ("qwen3", include_str!("builtin/qwen3.jinja")),
    ("zephyr", include_str!("builtin/zephyr.jinja")),
];

/// A token that only one family has, and the family's template. The first that a vocabulary has wins.
const MARKS: &[(&str, &str)] = &[
    ("<|turn>", "gemma4"),
    ("<start_of_turn>", "gemma"),
    ("<|channel|>", "harmony"),
    ("<|start_of_role|>", "granite"),
    ("[gMASK]", "glm4"),
    ("<|start_header_id|>", "llama3"),
    ("<think>", "qwen3"),
    ("<|im_start|>", "chatml"),
    ("[INST]", "mistral"),
    ("<|assistant|>", "phi3"),
];

/// The built-in template of that name.
pub fn builtin(name: &str) -> Option<&'static str> {
    BUILTINS.iter().find(|(known, _)| *known == name).map(|(_, source)| *source)
}

/// The names of the built-in templates.
pub fn builtin_names() -> Vec<&'static str> {
    BUILTINS.iter().map(|(name, _)| *name).collect()
}

/// A template and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// A built-in name, a path, `--chat-template` or `tokenizer.chat_template`.
    pub name: String,
    /// The Jinja text.
    pub source: String,
}

/// Chooses the template: `argument` (a built-in name, else a file, else Jinja text) before `from_file` (the
/// model's `tokenizer.chat_template`) before a built-in one by the special tokens that `has_token` knows.
/// `None`: nothing says that this model can chat.
///
/// # Errors
/// An argument that is nothing of the above, or a file that cannot be read.
pub fn choose(
    argument: Option<&str>,
    from_file: Option<&str>,
    has_token: impl Fn(&str) -> bool,
) -> Result<Option<Chosen>, TemplateError> {
    if let Some(argument) = argument {
        return by_argument(argument).map(Some);
    }
    let by_file = from_file
        .filter(|source| !source.trim().is_empty())
        .map(|source| Chosen { name: "tokenizer.chat_template".into(), source: source.into() });
    Ok(by_file.or_else(|| {
        let (_, name) = MARKS.iter().find(|(token, _)| has_token(token))?;
        Some(Chosen { name: (*name).into(), source: builtin(name)?.into() })
    }))
}

fn by_argument(argument: &str) -> Result<Chosen, TemplateError> {
    let chosen = |name: &str, source: &str| Ok(Chosen { name: name.into(), source: source.into() });
    if let Some(source) = builtin(argument) {
        return chosen(argument, source);
    }
    // A Jinja text is not a file name, and asking the system for one of 20 KB is an error of its own.
    if argument.len() < 4096 && Path::new(argument).is_file() {
        return match std::fs::read_to_string(argument) {
            Ok(source) => chosen(argument, &source),
            Err(error) => Err(TemplateError::Unreadable { path: argument.into(), reason: error.to_string() }),
        };
    }
    if argument.contains("{%") || argument.contains("{{") {
        return chosen("--chat-template", argument);
    }
    Err(TemplateError::Unknown { argument: argument.into() })
}
