//! llama.cpp's grammars (GBNF), translated to Lark.

use super::GrammarError;

/// The same grammar in Lark.
///
/// # Errors
/// A text that is no GBNF, with the line.
pub fn to_lark(_text: &str) -> Result<String, GrammarError> {
    Err(GrammarError::Gbnf { line: 1, detail: "GBNF is not translated yet".into() })
}
