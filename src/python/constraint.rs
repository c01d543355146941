//! What an answer may be: a grammar, a schema, any JSON object.

use pyo3::prelude::*;
use qrun::{engine::Engine, sampler::TokenMask, text::grammar::GrammarSpec};
use serde_json::Value;

use crate::errors::usage;

/// The constraint that Python has put into one value: `{"gbnf": text}`, `{"json_schema": schema}` or `{"json_object": true}`.
///
/// # Errors
/// Another value.
pub fn spec(value: &Value) -> PyResult<GrammarSpec> {
    if let Some(text) = value.get("gbnf").and_then(Value::as_str) {
        return Ok(GrammarSpec::Gbnf(text.to_owned()));
    }
    match (value.get("json_schema"), value.get("json_object")) {
        (Some(schema), _) => Ok(GrammarSpec::JsonSchema(schema.clone())),
        (None, Some(_)) => Ok(GrammarSpec::JsonObject),
        (None, None) => Err(usage(format!("a constraint: expected a grammar or a schema, found {value}"))),
    }
}

/// The mask of an answer to tokens; `text` is the constraint as JSON. The first one of a model sorts its vocabulary.
///
/// # Errors
/// A grammar or a schema that is wrong.
pub fn mask(engine: &Engine, text: &str) -> PyResult<TokenMask> {
    let spec = spec(&serde_json::from_str(text).map_err(usage)?)?;
    engine.grammars().and_then(|grammars| grammars.compile(&spec)).map_err(usage)
}
