//! How models write calls: a row for each way, known by marks in the template's source.

use super::{
    head::{Head, members},
    marked::Form,
    marks,
    scan::{beginning, skip},
};

/// A way to write calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// `<tool_call>{"name": …, "arguments": …}</tool_call>`: Hermes, Qwen 2.5 and 3.
    Hermes,
    /// `{"name": …, "parameters": …}` as the whole answer, or after `<|python_tag|>`: Llama 3.1 to 3.3.
    Llama3,
    /// `[TOOL_CALLS][{"name": …, "arguments": …}, …]`: Mistral up to its tokenizer of version 7.
    MistralList,
    /// `[TOOL_CALLS]name[ARGS]{…}`: Mistral from version 11 on. `id`: with `[CALL_ID]` before the arguments.
    MistralArgs {
        /// Whether the template writes ids.
        id: bool,
    },
    /// Messages in channels, calls among them: gpt-oss.
    Harmony,
    /// A name and arguments between marks: Qwen3-Coder, GLM, MiniMax, DeepSeek, Kimi.
    Marked(&'static Form),
    /// `{"tool_call": {"name": …, "arguments": …}}`: asked of models whose template knows no tools, in the system message.
    Generic,
}

/// Where a call begins in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// At this byte.
    At(usize),
    /// Not before here, and here only if more text says so.
    Maybe(usize),
}

impl Syntax {
    /// The way of a template.
    pub fn of(source: &str) -> Self {
        let has = |mark: &str| source.contains(mark);
        if let Some(form) = Form::of(source) {
            return Self::Marked(form);
        }
        // Others have such marks too, with XML in them.
        let xml = ["<function=", "<arg_key>", "<parameter=", "<invoke"].into_iter().any(has);
        match () {
            () if marks::HARMONY[..3].iter().all(|mark| has(mark)) => Self::Harmony,
            () if has("[TOOL_CALLS]") && has("[ARGS]") => Self::MistralArgs { id: has("[CALL_ID]") },
            () if has("[TOOL_CALLS]") => Self::MistralList,
            () if has("<tool_call>") && !xml => Self::Hermes,
            () if has("<|start_header_id|>") && !xml && (has("<|python_tag|>") || has("\"parameters\"")) => {
                Self::Llama3
            }
            () => Self::Generic,
        }
    }

    /// Whether the template itself describes tools.
    pub fn is_native(self) -> bool {
        self != Self::Generic
    }

    /// The texts that only calls have; control tokens where the vocabulary has them as such.
    pub fn marks(self) -> Vec<&'static str> {
        let marks: &[&str] = match self {
            Self::Marked(form) => return form.marks(),
            Self::Hermes => &["<tool_call>", "</tool_call>"],
            Self::Llama3 => &["<|python_tag|>"],
            Self::MistralList => &["[TOOL_CALLS]"],
            Self::MistralArgs { .. } => &["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"],
            Self::Harmony => marks::HARMONY,
            Self::Generic => &[],
        };
        marks.to_vec()
    }

    /// The mark that begins a call.
    pub fn mark(self) -> &'static str {
        self.marks().first().copied().unwrap_or_default()
    }

    /// Whether a call may begin with its object alone.
    fn is_bare(self) -> bool {
        matches!(self, Self::Llama3 | Self::Generic | Self::MistralList)
    }

    /// What may stand behind a call.
    pub fn closes(self) -> Vec<&'static str> {
        match self {
            Self::Hermes => vec!["</tool_call>"],
            Self::MistralList => vec![",", "]"],
            Self::Llama3 => vec![";"],
            Self::Marked(form) => form.closes(),
            Self::MistralArgs { .. } | Self::Harmony | Self::Generic => Vec::new(),
        }
    }

    /// A call, to be shown to models whose template does not say how one is written.
    pub fn example(self) -> String {
        match self {
            Self::Marked(form) => form.example(),
            _ => r#"{"tool_call": {"name": NAME, "arguments": ARGUMENTS}}"#.into(),
        }
    }

    /// The member that holds the arguments.
    pub fn key(self) -> &'static str {
        if self == Self::Llama3 { "parameters" } else { "arguments" }
    }

    /// Objects that are open around the arguments.
    pub fn depth(self) -> u32 {
        match self {
            Self::MistralArgs { .. } | Self::Harmony | Self::Marked(_) => 0,
            Self::Generic => 2,
            Self::Hermes | Self::Llama3 | Self::MistralList => 1,
        }
    }

    /// The first place where a call begins. `fresh`: the text is the beginning of an answer, or follows a call.
    pub fn begins(self, text: &str, fresh: bool) -> Begin {
        let blank = text.len() - text.trim_start().len();
        if fresh && self.is_bare() && text[blank..].starts_with('{') {
            return Begin::At(blank);
        }
        let marks = match self {
            Self::Marked(form) => form.starts(),
            _ => [self.mark(), ""],
        };
        match marks.into_iter().filter(|mark| !mark.is_empty()).filter_map(|mark| text.find(mark)).min() {
            Some(at) => Begin::At(at),
            None => Begin::Maybe(text.len() - marks.map(|mark| beginning(text, mark)).into_iter().max().unwrap_or(0)),
        }
    }

    /// The beginning of a call up to its arguments, in a text that [`Syntax::begins`] found one in.
    pub fn head(self, text: &str) -> Head {
        if let Self::Marked(form) = self {
            return form.head(text);
        }
        let after = text.strip_prefix(self.mark()).unwrap_or(text);
        let start = text.len() - after.len();
        if let Self::MistralArgs { .. } = self {
            return named(after).shifted(start);
        }
        let mut at = skip(text, start);
        if self == Self::MistralList && text[at..].starts_with('[') {
            at = skip(text, at + 1);
        }
        if self == Self::Generic {
            match wrapper(&text[at..]) {
                Some(Some(inner)) => at += inner,
                Some(None) => return Head::More,
                None => return Head::None,
            }
        }
        members(&text[at..], self.key()).shifted(at)
    }

    /// The id of a call: the same for the same prompt. Mistral's templates want nine letters and digits.
    pub fn id(self, salt: u64, index: usize) -> String {
        let number = crate::checksum::fnv1a([&salt.to_le_bytes()[..], &index.to_le_bytes()[..]]);
        match self {
            Self::MistralList | Self::MistralArgs { .. } => {
                let digits = b"0123456789abcdefghijklmnopqrstuvwxyz";
                let digit = |place: u32| char::from(digits[(number / 36u64.pow(place) % 36) as usize]);
                (0..9).map(digit).collect()
            }
            _ => format!("call_{index}_{number:016x}"),
        }
    }
}

/// `{"tool_call":` with white space: where it ends; `None`: something else; `Some(None)`: there may be more of it.
fn wrapper(text: &str) -> Option<Option<usize>> {
    let mut at = 0;
    for part in ["{", "\"tool_call\"", ":"] {
        at = skip(text, at);
        let rest = &text[at..];
        if !rest.starts_with(part) {
            return part.starts_with(rest).then_some(None);
        }
        at += part.len();
    }
    Some(Some(skip(text, at)))
}

/// `name[ARGS]{`, perhaps with an id.
fn named(text: &str) -> Head {
    let Some(open) = text.find('{') else {
        return if text.len() < 512 { Head::More } else { Head::None };
    };
    let before = text[..open].trim();
    let before = before.strip_suffix("[ARGS]").unwrap_or(before);
    let name = before.split_once("[CALL_ID]").map_or(before, |(name, _)| name);
    Head::Call { name: name.trim().into(), arguments: None, end: open }
}
