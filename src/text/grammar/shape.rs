//! Schemas without the rules that no mask can express, beside those that llguidance passes over by itself: patterns that look
//! around or at word boundaries, and references to other documents.

use llguidance::derivre::RegexBuilder;
use serde_json::Value;

/// Fields whose values are data, whatever they look like.
const DATA: [&str; 4] = ["const", "default", "enum", "examples"];

/// Takes such rules out of a schema: what they would have ruled out may come.
pub fn relax(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.retain(|name, value| match (name.as_str(), &*value) {
                ("pattern", Value::String(pattern)) => RegexBuilder::new().mk_regex(pattern).is_ok(),
                ("$ref", Value::String(to)) => to.starts_with('#'),
                _ => true,
            });
            let rules = fields.iter_mut().filter(|(name, _)| !DATA.contains(&name.as_str()));
            rules.for_each(|(_, value)| relax(value));
        }
        Value::Array(items) => items.iter_mut().for_each(relax),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_no_mask_can_express_goes() {
        for (schema, expected) in [
            (json!({ "pattern": "^a+$" }), json!({ "pattern": "^a+$" })),
            (json!({ "type": "string", "pattern": "^(?!-)[a-z]+$" }), json!({ "type": "string" })),
            (json!({ "items": [{ "pattern": "\\bword\\b" }] }), json!({ "items": [{}] })),
            (json!({ "$ref": "#/$defs/a" }), json!({ "$ref": "#/$defs/a" })),
            (json!({ "$ref": "https://example.org/schema.json", "type": "object" }), json!({ "type": "object" })),
            // A field may have such a name, and a value may be such a text.
            (
                json!({ "properties": { "pattern": { "type": "string" }, "$ref": { "type": "string" } } }),
                json!({ "properties": { "pattern": { "type": "string" }, "$ref": { "type": "string" } } }),
            ),
            (json!({ "const": { "pattern": "(?=a)" } }), json!({ "const": { "pattern": "(?=a)" } })),
            (json!(true), json!(true)),
        ] {
            let mut found = schema.clone();
            relax(&mut found);
            assert_eq!(found, expected, "{schema}");
        }
    }
}
