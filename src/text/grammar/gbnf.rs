//! llama.cpp's grammars (GBNF), translated to Lark.
//!
//! A grammar without recursion becomes one regular expression. Of a recursive one the parts without recursion become
//! lexemes, as large as is right (see [`lexemes`]), and the rest rules.

mod chars;
mod emit;
mod lexemes;
mod parse;

use super::GrammarError;
use parse::{Expr, Rules, parse};

/// The same grammar in Lark.
///
/// # Errors
/// A text that is no GBNF, with the line.
pub fn to_lark(text: &str) -> Result<String, GrammarError> {
    let Rules { rules, root } = parse(text)?;
    if !ends(&rules).into_iter().all(|ends| ends) {
        return Err(GrammarError::Compile(
            "grammar: a rule names itself in every alternative, so no text of it ends".into(),
        ));
    }
    let recursive = recursive(&rules);
    if !recursive[root] {
        return Ok(format!("start: /{}/\n", emit::regex(&Expr::Rule(root), &rules)?));
    }
    emit::lark(&rules, root, &recursive)
}

/// Which rules lead to themselves, or to one that does.
fn recursive(rules: &[Expr]) -> Vec<bool> {
    // A rule is finite once all rules that it names are.
    let mut finite = vec![false; rules.len()];
    loop {
        let next: Vec<bool> = rules.iter().map(|rule| is_finite(rule, &finite)).collect();
        if next == finite {
            return finite.into_iter().map(|finite| !finite).collect();
        }
        finite = next;
    }
}

/// Which rules have a text at all.
fn ends(rules: &[Expr]) -> Vec<bool> {
    let mut known = vec![false; rules.len()];
    loop {
        let next: Vec<bool> = rules.iter().map(|rule| has_text(rule, &known)).collect();
        if next == known {
            return known;
        }
        known = next;
    }
}

fn has_text(expr: &Expr, known: &[bool]) -> bool {
    match expr {
        Expr::Chars(_) => true,
        Expr::Rule(rule) => known[*rule],
        Expr::Seq(parts) => parts.iter().all(|part| has_text(part, known)),
        Expr::Alt(parts) => parts.iter().any(|part| has_text(part, known)),
        Expr::Repeat(part, min, _) => *min == 0 || has_text(part, known),
    }
}

/// Whether an expression names none but such rules.
fn is_finite(expr: &Expr, finite: &[bool]) -> bool {
    match expr {
        Expr::Chars(_) => true,
        Expr::Rule(rule) => finite[*rule],
        Expr::Seq(parts) | Expr::Alt(parts) => parts.iter().all(|part| is_finite(part, finite)),
        Expr::Repeat(part, ..) => is_finite(part, finite),
    }
}
