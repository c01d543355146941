//! What calls of given tools look like, as a grammar, and what starts it.

use serde_json::{Map, Value, json};

use super::{
    ChatError, Tool,
    marked::{self, Form},
    marks,
    syntax::Syntax,
};
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
    let [mark, close] = match syntax {
        Syntax::Marked(form) => [form.open, form.close].map(|text| pattern(text, grammars)),
        _ => [0, 1].map(|i| syntax.marks().get(i).map(|mark| grammars.mark(mark)).unwrap_or_default()),
    };
    let (all, wrap): (String, [&str; 2]) = match (syntax, many) {
        (Syntax::Marked(Form { section: true, .. }), true) => {
            (format!("{mark} WS? call (WS? call)* WS? {close}"), ["", ""])
        }
        (Syntax::Hermes | Syntax::Marked(_), true) => ("call (WS? call)*".into(), [&mark, &close]),
        (Syntax::Hermes | Syntax::Marked(_), false) => ("call".into(), [&mark, &close]),
        // The mark after a call ends the answer.
        (Syntax::Harmony, _) => ("call".into(), ["", ""]),
        (Syntax::Llama3, _) => (format!("({mark} WS?)? call"), ["", ""]),
        (Syntax::MistralList, true) => (format!("{mark} WS? \"[\" WS? call (WS? \",\" WS? call)* WS? \"]\""), ["", ""]),
        (Syntax::MistralList, false) => (format!("{mark} WS? \"[\" WS? call WS? \"]\""), ["", ""]),
        (Syntax::MistralArgs { .. } | Syntax::Generic, true) => ("call (WS? call)*".into(), ["", ""]),
        (Syntax::MistralArgs { .. } | Syntax::Generic, false) => ("call".into(), ["", ""]),
    };
    let mut lark = format!("start: {all}\ncall: {call}\nWS: /[ \\t\\r\\n]{{1,8}}/\n");
    if let Syntax::Marked(Form { parameter: Some([.., after]), .. }) = syntax {
        let after = pattern(after, grammars);
        lark.push_str(&match after.starts_with("<[") {
            // A control token ends any text.
            true => format!("text: TEXT? {after}\nTEXT: /(?s:.+)/\n"),
            false => format!("text[suffix={after}]: /(?s:.*)/\n"),
        });
    }
    for (tool, rule) in tools.iter().zip(&names) {
        let arguments = format!("%json {}", schema(&parameters(tool)?, Strictness::Shape)?);
        let body = match syntax {
            Syntax::MistralArgs { id } => {
                let id =
                    if id { format!("({} /[a-zA-Z0-9]{{9}}/)?", grammars.mark("[CALL_ID]")) } else { String::new() };
                format!("{mark} {} {id} {} {SPACE} {arguments}", quoted(&tool.name), grammars.mark("[ARGS]"))
            }
            Syntax::Harmony => format!("{} {SPACE} {arguments}", header(&tool.name, grammars)),
            Syntax::Marked(form) => between_marks(form, tool, arguments, grammars)?,
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

/// A mark of a [`Form`].
fn pattern(mark: &str, grammars: &Grammars) -> String {
    marked::pieces(mark).map(|piece| grammars.mark(piece)).collect::<Vec<_>>().join(" WS? ")
}

/// A call of a [`Form`], without what may be around several.
fn between_marks(form: &Form, tool: &Tool, object: String, grammars: &Grammars) -> Result<String, ChatError> {
    let name = match form.numbered {
        true => format!("{} /[0-9]{{1,4}}/", quoted(&format!("functions.{}:", tool.name))),
        false => quoted(&tool.name),
    };
    let arguments = match form.parameter {
        Some(marks) => each_parameter(marks, &parameters(tool)?, grammars)?,
        None => object,
    };
    let [before, then, end] = [form.name, form.then, form.end].map(|mark| pattern(mark, grammars));
    let parts = [format!("{before} {name}"), then, arguments, end];
    Ok(parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" WS? "))
}

/// The parameters of a tool between marks, in the order of its schema, as JSON objects have them elsewhere.
fn each_parameter(marks: [&str; 3], root: &Value, grammars: &Grammars) -> Result<String, ChatError> {
    let [before, between, after] = marks.map(|mark| pattern(mark, grammars));
    let line = if marks[1].ends_with('\n') { r#""\n"?"# } else { "" };
    let mut all = String::new();
    for (key, own) in root["properties"].as_object().into_iter().flatten() {
        let value = if !marked::fits(own, root, "string") {
            let mut own = marked::resolved(own, root).clone();
            // What its own references lead to.
            for word in ["$defs", "definitions"] {
                if let (Some(fields), Some(defined)) = (own.as_object_mut(), root.get(word)) {
                    fields.entry(word).or_insert_with(|| defined.clone());
                }
            }
            format!("WS? %json {} WS? {after}", schema(&own, Strictness::Shape)?)
        } else if let Some(texts) = marked::choices(own, root) {
            let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
            format!("{line} ({}) {line} {after}", texts.join(" | "))
        } else {
            "text".to_owned()
        };
        let required = root["required"].as_array().is_some_and(|names| names.iter().any(|name| name == key));
        let times = if required { "" } else { "?" };
        all.push_str(&format!("({before} {} {between} {value} WS?){times} ", quoted(key)));
    }
    let others = match &root["additionalProperties"] {
        Value::Null => !root["properties"].is_object(),
        others => *others != json!(false),
    };
    if others {
        all.push_str(&format!("({before} /[^<>\"\\n]{{1,64}}/ {between} text WS?)*"));
    }
    Ok(all)
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
        Syntax::Marked(form) => form.starts().into_iter().filter(|mark| !mark.is_empty()).take(1).map(word).collect(),
        Syntax::Hermes | Syntax::MistralList | Syntax::MistralArgs { .. } => vec![word(syntax.mark())],
    }
}
