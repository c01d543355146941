//! Pre-tokenizers: how BPE vocabularies cut text into words before they merge. Rows of a table; each
//! row is a list of rules, and each rule cuts what the rules before it have left.

mod rules;
mod scan;
mod scripts;
#[cfg(test)]
mod tests;

use std::ops::Range;

/// Finds the leftmost match in a text that is not empty; what stands before a match is a word, too.
type Rule = fn(&str) -> Option<Range<usize>>;

/// One way to cut text.
pub struct PreTokenizer {
    /// Values of `tokenizer.ggml.pre` that mean this row; the first is its own name.
    names: &'static [&'static str],
    rules: &'static [Rule],
    /// A word that is a token is taken as it is, without merging.
    pub ignore_merges: bool,
    /// Whether BOS is put first where the file does not say.
    pub add_bos: bool,
    /// Whether a separator is put last where the file does not say.
    pub add_sep: bool,
}

const PLAIN: PreTokenizer =
    PreTokenizer { names: &[], rules: &[], ignore_merges: false, add_bos: false, add_sep: false };
const WHOLE_WORDS: PreTokenizer = PreTokenizer { ignore_merges: true, ..PLAIN };
const WHOLE_WORDS_AND_BOS: PreTokenizer = PreTokenizer { add_bos: true, ..WHOLE_WORDS };

static TABLE: [PreTokenizer; 24] = [
    PreTokenizer {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"],
        rules: &[rules::llama3],
        ..WHOLE_WORDS_AND_BOS
    },
    PreTokenizer { names: &["smaug-bpe", "dbrx", "chatglm-bpe"], rules: &[rules::llama3], ..PLAIN },
    PreTokenizer { names: &["glm4", "glm5"], rules: &[rules::llama3], ..WHOLE_WORDS },
    PreTokenizer {
        names: &[
            "qwen2",
            "deepseek-r1-qwen",
            "stablelm2",
            "hunyuan",
            "megrez",
            "kormo",
            "f2llmv2",
            "solar-open",
            "grok-2",
        ],
        rules: &[rules::qwen2],
        ..PLAIN
    },
    PreTokenizer { names: &["qwen35"], rules: &[rules::qwen35], ..PLAIN },
    PreTokenizer { names: &["seed-coder"], rules: &[rules::seed_coder], ..PLAIN },
    PreTokenizer { names: &["laguna"], rules: &[rules::line_feeds, rules::qwen2], ..PLAIN },
    PreTokenizer { names: &["minicpm5"], rules: &[rules::up_to_three_digits, rules::minicpm5], ..WHOLE_WORDS },
    PreTokenizer {
        names: &[
            "gpt-2",
            "gpt2",
            "phi-2",
            "mpt",
            "olmo",
            "jais",
            "gigachat",
            "mellum",
            "a.x-4.0",
            "trillion",
            "exaone4",
            "modern-bert",
            "granite-docling",
        ],
        rules: &[rules::gpt2],
        ..PLAIN
    },
    PreTokenizer { names: &["roberta-bpe", "jina-v2-code"], rules: &[rules::gpt2], add_sep: true, ..PLAIN },
    PreTokenizer { names: &["tekken"], rules: &[rules::tekken], ..WHOLE_WORDS_AND_BOS },
    PreTokenizer { names: &["gpt-4o", "llama4", "kanana2", "minimax-m2"], rules: &[rules::gpt4o], ..PLAIN },
    PreTokenizer { names: &["tiny_aya", "cohere2moe"], rules: &[rules::digits_by_three, rules::gpt4o], ..PLAIN },
    PreTokenizer { names: &["kimi-k2"], rules: &[rules::kimi_k2], ..PLAIN },
    PreTokenizer { names: &["youtu"], rules: &[rules::east_asian_scripts, rules::youtu], ..WHOLE_WORDS },
    PreTokenizer {
        names: &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"],
        rules: &[rules::digit, rules::gpt2],
        ..PLAIN
    },
    PreTokenizer {
        names: &["deepseek-llm"],
        rules: &[
            rules::line_end,
            rules::cased_letters,
            rules::wide_punctuation,
            rules::trailing_space,
            rules::cjk,
            rules::digits,
        ],
        ..PLAIN
    },
    PreTokenizer {
        names: &["deepseek-coder"],
        rules: &[rules::line_end, rules::spaced_letters, rules::spaced_punctuation, rules::cjk, rules::digit],
        ..PLAIN
    },
    PreTokenizer {
        names: &["deepseek-v3", "hunyuan-dense", "joyai-llm"],
        rules: &[rules::up_to_three_digits, rules::han_and_kana, rules::deepseek_v3],
        ..PLAIN
    },
    PreTokenizer { names: &["bloom", "poro-chat", "gpt3-finnish"], rules: &[rules::bloom], ..PLAIN },
    PreTokenizer { names: &["viking"], rules: &[rules::bloom, rules::digit], ..PLAIN },
    PreTokenizer { names: &["superbpe"], rules: &[rules::digits, rules::before_three_digits], ..PLAIN },
    PreTokenizer { names: &["falcon"], rules: &[rules::falcon_punctuation, rules::gpt2, rules::three_digits], ..PLAIN },
    PreTokenizer {
        names: &["default"],
        rules: &[rules::punctuation, rules::gpt2, rules::digits, rules::three_digits],
        ..PLAIN
    },
];

impl PreTokenizer {
    /// The row for a value of `tokenizer.ggml.pre`.
    pub fn named(name: &str) -> Option<&'static Self> {
        TABLE.iter().find(|row| row.names.contains(&name))
    }

    /// All known values of `tokenizer.ggml.pre`.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TABLE.iter().flat_map(|row| row.names).copied()
    }

    /// Calls `word` with the words of `text` in order; together they are the whole text.
    pub fn split<'t>(&self, text: &'t str, word: &mut dyn FnMut(&'t str)) {
        split(self.rules, text, word);
    }
}

fn split<'t>(rules: &[Rule], text: &'t str, word: &mut dyn FnMut(&'t str)) {
    let Some((rule, later)) = rules.split_first() else { return word(text) };
    let mut rest = text;
    while !rest.is_empty() {
        let found = rule(rest).unwrap_or(0..0);
        let (before, tail) = rest.split_at(if found.is_empty() { rest.len() } else { found.start });
        let (matched, tail) = tail.split_at(found.len());
        for part in [before, matched] {
            if !part.is_empty() {
                split(later, part, word);
            }
        }
        rest = tail;
    }
}
