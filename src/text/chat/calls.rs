//! What calls of given tools look like, as a grammar, and what starts it.

use serde_json::{Map, Value, json};

use super::{ChatError, Tool, marks, syntax::Syntax};
use crate::text::grammar::{GrammarSpec, Grammars, Strictness, Trigger, quoted, schema};

/// White space between the parts of a call.
const SPACE: &str = "WS?";

/// The grammar of one call or of several.
///
/// # Errors
/// A schema that is none.
pub fn grammar(syntax: Syntax, tools: &[&Tool], many: bool, grammars: &Grammars) -> Result<GrammarSpec, ChatError> {
    let names: Vec<String> = (0..tools.len()).map(|i| format!("call_{i}")).collect();
    let call = names.join(" | ");
    let [mark, close] = [0, 1].map(|i| syntax.marks().get(i).map(|mark| grammars.mark(mark)).unwrap_or_default());
    let (all, wrap): (String, [&str; 2]) = match (syntax, many) {
        (Syntax::Hermes, true) => ("call (WS? call)*".into(), [&mark, &close]),
        (Syntax::Hermes, false) => ("call".into(), [&mark, &close]),
        // The mark after a call ends the answer.
        (Syntax::Harmony, _) => ("call".into(), ["", ""]),
        (Syntax::Llama3, _) => (format!("({mark} WS?)? call"), ["", ""]),
        (Syntax::MistralList, true) => (format!("{mark} WS? \"[\" WS? call (WS? \",\" WS? call)* WS? \"]\""), ["", ""]),
        (Syntax::MistralList, false) => (format!("{mark} WS? \"[\" WS? call WS? \"]\""), ["", ""]),
        (Syntax::MistralArgs { .. } | Syntax::Generic, true) => ("call (WS? call)*".into(), ["", ""]),
        (Syntax::MistralArgs { .. } | Syntax::Generic, false) => ("call".into(), ["", ""]),
    };
    let mut lark = format!("start: {all}\ncall: {call}\nWS: /[ \\t\\r\\n]{{1,8}}/\n");
    for (tool, rule) in tools.iter().zip(&names) {
        let arguments = format!("%json {}", schema(&parameters(tool)?, Strictness::Shape)?);
        let body = match syntax {
            Syntax::MistralArgs { id } => {
                let id =
                    if id { format!("({} /[a-zA-Z0-9]{{9}}/)?", grammars.mark("[CALL_ID]")) } else { String::new() };
                format!("{mark} {} {id} {} {SPACE} {arguments}", quoted(&tool.name), grammars.mark("[ARGS]"))
            }
            Syntax::Harmony => format!("{} {SPACE} {arguments}", header(&tool.name, grammars)),
            _ => object(syntax, &tool.name, &arguments),
        };
        let parts: Vec<&str> = [wrap[0], &body, wrap[1]].into_iter().filter(|part| !part.is_empty()).collect();
        lark.push_str(&format!("{rule}: {}\n", parts.join(&format!(" {SPACE} "))));
    }
    Ok(GrammarSpec::Lark(lark))
}

/// What stands before the arguments of a call in [`Syntax::Harmony`]: the recipient behind the channel, or before it.
fn header(name: &str, grammars: &Grammars) -> String {
    let mark = |text| grammars.mark(text);
    let (channel, to) = (mark(marks::CHANNEL), format!("to=functions.{name}"));
    format!(
        "({channel} {} | ({} \"assistant\")? \" \"? {} {channel} \"commentary\") \" \"? ({}? \"json\")? {}",
        quoted(&format!("commentary {to}")),
        mark(marks::START),
        quoted(&to),
        mark(marks::CONSTRAIN),
        mark(marks::MESSAGE),
    )
}

/// The object of a call, white space between its parts.
fn object(syntax: Syntax, name: &str, arguments: &str) -> String {
    let name = quoted(&quoted(name));
    let key = quoted(&quoted(syntax.key()));
    let kind = if syntax == Syntax::Llama3 { r#"("\"type\"" WS? ":" WS? "\"function\"" WS? "," WS?)?"# } else { "" };
    let [before, after] = match syntax {
        Syntax::Generic => [r#""{" WS? "\"tool_call\"" WS? ":" WS?"#, r#"WS? "}" WS? "}""#],
        _ => ["", r#"WS? "}""#],
    };
    let id =
        if syntax == Syntax::MistralList { r#"(WS? "," WS? "\"id\"" WS? ":" WS? /"[a-zA-Z0-9]{9}"/)?"# } else { "" };
    let parts = ["\"{\"", kind, r#""\"name\"""#, "\":\"", &name, "\",\"", &key, "\":\"", arguments];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("{before} {} {id} {after}", parts.join(" WS? "))
}

/// The schema of a tool's arguments: always an object.
fn parameters(tool: &Tool) -> Result<Value, ChatError> {
    let mut fields = match &tool.parameters {
        Value::Null => Map::new(),
        Value::Object(fields) => fields.clone(),
        other => {
            let detail = format!("the parameters of {:?} are {other}; expected a JSON schema, an object", tool.name);
            return Err(ChatError::Field { field: "tools", detail });
        }
    };
    fields.entry("type").or_insert_with(|| json!("object"));
    Ok(Value::Object(fields))
}

/// What starts the grammar where tools may be called or not.
pub fn triggers(syntax: Syntax) -> Vec<Trigger> {
    let start = |text: &str| Trigger::Start(text.into());
    let word = |text: &str| Trigger::Word(text.into());
    match syntax {
        Syntax::Llama3 => vec![word(syntax.mark()), start("{\"name\":"), start("{\"type\":\"function\",\"name\":")],
        Syntax::Harmony => {
            let to = |before: &str| word(&format!("{before} to=functions."));
            vec![to("<|channel|>commentary"), to("<|start|>assistant"), start("to=functions.")]
        }
        Syntax::Generic => vec![start("{\"tool_call\":")],
        Syntax::Hermes | Syntax::MistralList | Syntax::MistralArgs { .. } => vec![word(syntax.mark())],
    }
}
