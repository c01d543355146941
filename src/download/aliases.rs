//! Short names of models.
//!
//! To add one: a row. `seen` stays empty until someone ran `qrun pull --check` with a network.

/// A short name and what it stands for.
#[derive(Debug, Clone, Copy)]
pub struct Alias {
    /// As typed; case does not count.
    pub name: &'static str,
    /// `USER/REPO` on the hub.
    pub repo: &'static str,
    /// The tag that it stands for where none is typed.
    pub tag: &'static str,
    /// `general.architecture` of its files.
    pub arch: &'static str,
    /// Day on which the hub was seen to have it, or "".
    pub seen: &'static str,
}

const fn row(name: &'static str, repo: &'static str, tag: &'static str, arch: &'static str) -> Alias {
    Alias { name, repo, tag, arch, seen: "" }
}

const PHI: &str = "microsoft/Phi-3-mini-4k-instruct-gguf";

/// All short names: the ten of llcuda first.
#[rustfmt::skip]
pub const ALIASES: &[Alias] = &[
    row("gemma-3-1b-Q4_K_M", "unsloth/gemma-3-1b-it-GGUF", "Q4_K_M", "gemma3"),
    row("gemma-3-1b-Q5_K_M", "unsloth/gemma-3-1b-it-GGUF", "Q5_K_M", "gemma3"),
    row("gemma-2-2b-Q4_K_M", "bartowski/gemma-2-2b-it-GGUF", "Q4_K_M", "gemma2"),
    row("llama-3.1-8b-Q4_K_M", "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF", "Q4_K_M", "llama"),
    row("llama-3.1-8b-Q5_K_M", "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF", "Q5_K_M", "llama"),
    row("phi-3-mini-Q4_K_M", PHI, "Q4_K_M", "phi3"),
    row("phi-3-mini-Q5_K_M", PHI, "Q5_K_M", "phi3"),
    row("mistral-7b-Q4_K_M", "TheBloke/Mistral-7B-Instruct-v0.2-GGUF", "Q4_K_M", "llama"),
    row("mistral-7b-Q5_K_M", "TheBloke/Mistral-7B-Instruct-v0.2-GGUF", "Q5_K_M", "llama"),
    row("tinyllama-1.1b-Q5_K_M", "TheBloke/TinyLlama-1.1B-Chat-v1.0-GGUF", "Q5_K_M", "llama"),

    row("gemma-3-270m-it", "unsloth/gemma-3-270m-it-GGUF", "Q8_0", "gemma3"),
    row("gemma-3-1b-it", "unsloth/gemma-3-1b-it-GGUF", "Q4_K_M", "gemma3"),
    row("gemma-3-4b-it", "unsloth/gemma-3-4b-it-GGUF", "Q4_K_M", "gemma3"),
    row("gemma-3-12b-it", "unsloth/gemma-3-12b-it-GGUF", "Q4_K_M", "gemma3"),
    row("gemma-2-2b-it", "bartowski/gemma-2-2b-it-GGUF", "Q4_K_M", "gemma2"),
    row("llama-3.2-1b", "bartowski/Llama-3.2-1B-Instruct-GGUF", "Q4_K_M", "llama"),
    row("llama-3.2-3b", "bartowski/Llama-3.2-3B-Instruct-GGUF", "Q4_K_M", "llama"),
    row("llama-3.1-8b", "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF", "Q4_K_M", "llama"),
    row("mistral-7b", "TheBloke/Mistral-7B-Instruct-v0.2-GGUF", "Q4_K_M", "llama"),
    row("tinyllama-1.1b", "TheBloke/TinyLlama-1.1B-Chat-v1.0-GGUF", "Q4_K_M", "llama"),
    row("smollm3-3b", "unsloth/SmolLM3-3B-GGUF", "Q4_K_M", "smollm3"),
    row("qwen2.5-0.5b", "Qwen/Qwen2.5-0.5B-Instruct-GGUF", "Q4_K_M", "qwen2"),
    row("qwen2.5-1.5b", "Qwen/Qwen2.5-1.5B-Instruct-GGUF", "Q4_K_M", "qwen2"),
    row("qwen3-0.6b", "unsloth/Qwen3-0.6B-GGUF", "Q4_K_M", "qwen3"),
    row("qwen3-1.7b", "unsloth/Qwen3-1.7B-GGUF", "Q4_K_M", "qwen3"),
    row("qwen3-4b", "unsloth/Qwen3-4B-GGUF", "Q4_K_M", "qwen3"),
    row("qwen3-8b", "unsloth/Qwen3-8B-GGUF", "Q4_K_M", "qwen3"),
];

/// The row of a short name, in any case.
pub fn find(name: &str) -> Option<&'static Alias> {
    ALIASES.iter().find(|alias| alias.name.eq_ignore_ascii_case(name))
}

/// The short name with the longest common beginning, if that is at least half of the word; else one that differs by a slip.
pub fn nearest(word: &str) -> Option<&'static str> {
    let common = |name: &str| word.bytes().zip(name.bytes()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
    let best =
        ALIASES.iter().rev().map(|alias| alias.name).max_by_key(|name| (common(name), usize::MAX - name.len()))?;
    if common(best) * 2 >= word.len().max(6) {
        return Some(best);
    }
    crate::nearest::of(ALIASES.iter().map(|alias| alias.name), word, |name| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_name_of_its_own() {
        for (i, alias) in ALIASES.iter().enumerate() {
            assert!(ALIASES[..i].iter().all(|other| !other.name.eq_ignore_ascii_case(alias.name)), "{}", alias.name);
            assert_eq!(alias.repo.matches('/').count(), 1, "{}", alias.name);
            assert!(!alias.name.contains(['/', ':']), "{}", alias.name);
        }
    }

    /// What the loader would refuse has no row but those that llcuda's users type.
    #[test]
    fn aliases_run_but_for_phi() {
        for alias in ALIASES {
            let runs = qrun_models::arch::find(alias.arch).is_some();
            assert!(runs, "{}", alias.name);
        }
    }

    #[test]
    fn the_nearest_short_name_begins_like_the_word() {
        assert_eq!(nearest("gemma-3-1b"), Some("gemma-3-1b-it"));
        assert_eq!(nearest("llama-3.2"), Some("llama-3.2-1b"));
        assert_eq!(nearest("gema-3-1b-it"), Some("gemma-3-1b-it"));
        assert_eq!(nearest("frobnicate"), None);
    }
}
