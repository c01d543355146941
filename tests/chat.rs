//! Chats: what the model reads, what it may answer, and what becomes of the answer.

mod harmony;
mod marked;

use std::sync::Arc;

use qrun::{
    embedded,
    engine::{DevicePreference, Engine, EngineOptions},
    sampler::TokenMask,
    text::chat::{
        ChatError, ChatRequest, Delta, Parser, Prepared, ReasoningFormat, Tool, ToolChoice, mark, message, prepare,
    },
    text::grammar::GrammarSpec,
    text::template::Message,
    text::tokenizer::{Encode, Tokenizer},
};
use qrun_quant::{Bytes, Gguf};
use serde_json::{Value, json};

/// The demo model with a template of ours; a template's comments choose the way in which calls are written.
pub fn engine(template: &str) -> Arc<Engine> {
    let model = Gguf::from_bytes("demo", Bytes::new(embedded::model().expect("a model").to_vec())).expect("a model");
    let options =
        EngineOptions { template: Some(template.into()), device: DevicePreference::Cpu, ..EngineOptions::default() };
    Arc::new(Engine::open(model, options).expect("an engine"))
}

/// A template that writes roles and contents, tools and calls, with `marks` in a comment.
fn template(marks: &str) -> String {
    let body = "{% if tools %}<tools>{{ tools | tojson }}</tools>{% endif %}{% for m in messages %}<{{ m.role }}>\
                {{ m.content }}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}</{{ m.role }}>{% endfor %}\
                {% if add_generation_prompt %}<assistant>{% endif %}";
    format!("{{# {marks} #}}{body}")
}

const HERMES: &str = "<tool_call>";
const LLAMA3: &str = "<|start_header_id|> <|python_tag|>";
const LIST: &str = "[TOOL_CALLS]";
const ARGS: &str = "[TOOL_CALLS] [ARGS]";
const ARGS_ID: &str = "[TOOL_CALLS] [CALL_ID] [ARGS]";
const GENERIC: &str = "";
const THINK: &str = "<tool_call> <think> </think>";

fn tools() -> Vec<Tool> {
    let tool = |name: &str, parameters: Value| Tool { name: name.into(), description: None, parameters };
    vec![
        tool(
            "weather",
            json!({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                   "required": ["city"], "additionalProperties": false}),
        ),
        tool("now", json!({"type": "object", "properties": {}, "additionalProperties": false})),
    ]
}

fn request() -> ChatRequest {
    ChatRequest { messages: vec![Message::new("user", "Weather?")], tools: tools(), ..ChatRequest::default() }
}

fn prepared(marks: &str, request: &ChatRequest) -> Prepared {
    prepare(&engine(&template(marks)), request).expect(marks)
}

/// The deltas of a text in pieces, those of one kind put together, ids left out: `C:` content, `R:` thoughts, `0 name`
/// a call, `0=` its arguments.
fn read<'a>(parser: &Parser, pieces: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut parser = parser.clone();
    let mut deltas: Vec<Delta> = pieces.into_iter().flat_map(|piece| parser.push(piece)).collect();
    deltas.extend(parser.finish());
    let mut out: Vec<String> = Vec::new();
    for delta in deltas {
        let (head, text) = match delta {
            Delta::Content(text) => ("C:".to_owned(), text),
            Delta::Reasoning(text) => ("R:".to_owned(), text),
            Delta::ToolCall { index, name, .. } => (format!("{index} "), name),
            Delta::Arguments { index, text } => (format!("{index}="), text),
        };
        assert!(!text.is_empty(), "no delta is empty");
        match out.last_mut() {
            Some(last) if last.starts_with(&head) && !head.ends_with(' ') => last.push_str(&text),
            _ => out.push(head + &text),
        }
    }
    out
}

/// Template's marks, the answer, what it becomes.
#[rustfmt::skip]
const ANSWERS: &[(&str, &str, &[&str])] = &[
    // Plain text.
    (HERMES, "Hello,\n world \n", &["C:Hello,\n world \n"]),
    (HERMES, "  indented", &["C:  indented"]),
    (HERMES, "", &[]),
    (HERMES, " \n", &["C: \n"]),
    // Calls.
    (HERMES, "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>",
        &["0 weather", "0={\"city\": \"Rome\"}"]),
    (HERMES, "Let me see.\n\n<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>\n",
        &["C:Let me see.", "0 now", "0={}"]),
    (HERMES, "<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"weather\",\"arguments\":{\"city\":\"}\\\"{\"}}</tool_call>",
        &["0 now", "0={}", "1 weather", "1={\"city\":\"}\\\"{\"}"]),
    (HERMES, "<tool_call>{\"arguments\":{\"city\":\"x\"},\"name\":\"weather\"}</tool_call>", &["0 weather", "0={\"city\":\"x\"}"]),
    (HERMES, "<tool_call>{\"name\":\"now\"}</tool_call>", &["0 now", "0={}"]),
    (HERMES, "<tool_call>{\"id\": [1, \"]\"], \"name\":\"now\", \"arguments\": {} , \"x\": {\"y\": 1}} </tool_call> done",
        &["0 now", "0={}", "C:done"]),
    (HERMES, "<tool_call>{\"name\":\"w\\u0065ather\",\"arguments\":{\"city\":\"é☃𝄞\"}}</tool_call>", &["0 weather", "0={\"city\":\"é☃𝄞\"}"]),
    // Not calls.
    (HERMES, "a <tool_call> is a tag", &["C:a <tool_call> is a tag"]),
    (HERMES, "a < b, <tool, <tool_call", &["C:a < b, <tool, <tool_call"]),
    (HERMES, "<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>", &["C:<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>"]),
    (HERMES, "<tool_call>{\"name\": \"now\", \"arguments\": 1}", &["C:<tool_call>{\"name\": \"now\", \"arguments\": 1}"]),
    (HERMES, "<tool_call><tool_call>{\"name\":\"now\",\"arguments\":{}}", &["C:<tool_call>", "0 now", "0={}"]),
    (HERMES, "{\"name\":\"now\",\"arguments\":{}}", &["C:{\"name\":\"now\",\"arguments\":{}}"]),
    // Cut by the limit.
    (HERMES, "<tool_call>{\"name\":\"weather\",\"arguments\":{\"city\":\"Ro", &["0 weather", "0={\"city\":\"Ro"]),
    (HERMES, "<tool_call>{\"name\":\"weather\",\"arguments\":{\"city\":\"Ro\"}", &["0 weather", "0={\"city\":\"Ro\"}"]),
    (HERMES, "Hm <tool_call>{\"name\":\"wea", &["C:Hm <tool_call>{\"name\":\"wea"]),
    (HERMES, "<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_c", &["0 now", "0={}", "C:</tool_c"]),
    // Llama 3.
    (LLAMA3, "{\"name\": \"weather\", \"parameters\": {\"city\": \"Rome\"}}", &["0 weather", "0={\"city\": \"Rome\"}"]),
    (LLAMA3, "<|python_tag|>{\"name\": \"now\", \"parameters\": {}}", &["0 now", "0={}"]),
    (LLAMA3, "{\"type\": \"function\", \"name\": \"now\", \"parameters\": {}}", &["0 now", "0={}"]),
    (LLAMA3, "{\"name\": \"now\", \"parameters\": {}}; {\"name\": \"now\", \"parameters\": {}}", &["0 now", "0={}", "1 now", "1={}"]),
    (LLAMA3, "So: {\"name\": \"now\", \"parameters\": {}}", &["C:So: {\"name\": \"now\", \"parameters\": {}}"]),
    (LLAMA3, "{\"title\": \"x\"}", &["C:{\"title\": \"x\"}"]),
    (LLAMA3, "<|python_tag|>print(1)", &["C:<|python_tag|>print(1)"]),
    // Mistral.
    (LIST, "[TOOL_CALLS][{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}]", &["0 weather", "0={\"city\": \"Rome\"}"]),
    (LIST, "[TOOL_CALLS] [{\"name\": \"now\", \"arguments\": {}, \"id\": \"abcdefgh1\"}, {\"name\": \"now\", \"arguments\": {}}]",
        &["0 now", "0={}", "1 now", "1={}"]),
    (LIST, "See [TOOL_CALLS]", &["C:See [TOOL_CALLS]"]),
    (ARGS, "[TOOL_CALLS]weather[ARGS]{\"city\": \"Rome\"}[TOOL_CALLS]now[ARGS]{}", &["0 weather", "0={\"city\": \"Rome\"}", "1 now", "1={}"]),
    (ARGS_ID, "Wait.[TOOL_CALLS]now[CALL_ID]abcdefgh1[ARGS]{}", &["C:Wait.", "0 now", "0={}"]),
    (ARGS, "[TOOL_CALLS]later[ARGS]{}", &["C:[TOOL_CALLS]later[ARGS]{}"]),
    // Others.
    (GENERIC, "{\"tool_call\": {\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}}", &["0 weather", "0={\"city\": \"Rome\"}"]),
    (GENERIC, "{\"tool_call\":{\"name\":\"now\",\"arguments\":{}}}\n{\"tool_call\":{\"name\":\"now\",\"arguments\":{}}}", &["0 now", "0={}", "1 now", "1={}"]),
    (GENERIC, "{\"tool_calls\": 1}", &["C:{\"tool_calls\": 1}"]),
    (GENERIC, "{}", &["C:{}"]),
    (GENERIC, "{", &["C:{"]),
    // Thoughts.
    (THINK, "<think>\nHm. \n</think>\n\nYes.", &["R:Hm.", "C:Yes."]),
    (THINK, "\n <think>a < b </thin k></think>Yes", &["R:a < b </thin k>", "C:Yes"]),
    (THINK, "<think></think>Yes", &["C:Yes"]),
    (THINK, "<think> \n ", &[]),
    (THINK, "<think>cut </thi", &["R:cut </thi"]),
    (THINK, "<thinking>", &["C:<thinking>"]),
    (THINK, "Yes <think>no</think>", &["C:Yes <think>no</think>"]),
    (THINK, "<think><tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call></think><tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>",
        &["R:<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>", "0 now", "0={}"]),
    ("[TOOL_CALLS] [THINK] [/THINK]", "[THINK]Hm[/THINK]Yes", &["R:Hm", "C:Yes"]),
];

/// Every way to cut a text in two, all characters by themselves, and all of it at once.
fn cuts(text: &str) -> Vec<Vec<&str>> {
    let inner = text.char_indices().map(|(at, _)| at);
    let mut cuts: Vec<Vec<&str>> = inner.map(|at| vec![&text[..at], &text[at..]]).collect();
    cuts.push(text.split("").collect());
    cuts.push(vec![text]);
    cuts
}

#[test]
fn answers_are_taken_apart_however_they_are_cut() {
    for (marks, answer, expected) in ANSWERS {
        let parser = prepared(marks, &request()).parser;
        for pieces in cuts(answer) {
            assert_eq!(read(&parser, pieces.iter().copied()), *expected, "{marks:?}: {answer:?} as {pieces:?}");
        }
    }
}

#[test]
fn thoughts_go_where_they_are_wanted() {
    let opened = template(THINK).replace("<assistant>", "<assistant><think>\n");
    let opened = engine(&opened);
    #[rustfmt::skip]
    let cases: &[(&str, ReasoningFormat, &[&str])] = &[
        ("Hm\n</think>\n\nYes", ReasoningFormat::Auto, &["R:Hm", "C:Yes"]),
        ("Hm\n</think>\n\nYes", ReasoningFormat::Deepseek, &["R:Hm", "C:Yes"]),
        ("Hm\n</think>\n\nYes", ReasoningFormat::None, &["C:Hm\n</think>\n\nYes"]),
        ("Hm", ReasoningFormat::Auto, &["R:Hm"]),
        ("Hm</think><tool_call>{\"name\":\"now\",\"arguments\":{}}", ReasoningFormat::None, &["C:Hm</think>", "0 now", "0={}"]),
    ];
    for (answer, reasoning_format, expected) in cases {
        let request = ChatRequest { reasoning_format: *reasoning_format, ..request() };
        let parser = prepare(&opened, &request).expect("a chat").parser;
        for pieces in cuts(answer) {
            assert_eq!(read(&parser, pieces.iter().copied()), *expected, "{answer:?} as {pieces:?}");
        }
    }
    // A template that closes the thought itself leaves none to the model.
    let closed = engine(&template(THINK).replace("<assistant>", "<assistant><think>\n\n</think>\n\n"));
    let parser = prepare(&closed, &request()).expect("a chat").parser;
    assert_eq!(read(&parser, ["<think>no</think>"]), ["C:<think>no</think>"]);
}

/// Whether a mask lets a text through, token by token, and then the end of the turn.
pub fn admits(mask: &TokenMask, tokenizer: &Tokenizer, text: &str) -> Result<(), String> {
    let mut mask = mask.clone();
    let written = Encode { parse_special: true, ..Encode::PLAIN };
    let mut tokens = tokenizer.encode(text, written).expect("tokens");
    tokens.push(tokenizer.eog().next().expect("a token that ends a turn"));
    for (i, &token) in tokens.iter().enumerate() {
        let allowed = mask.allowed()?.get(token as usize / 32).is_some_and(|word| word >> (token % 32) & 1 == 1);
        if !allowed {
            return Err(format!("{:?} after {:?}", tokenizer.text(token), tokenizer.decode(&tokens[..i])));
        }
        mask.accept(token)?;
    }
    Ok(())
}

const NOW: &str = "<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>";
const ROME: &str = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>";

type May = (&'static str, &'static str, bool, &'static [&'static str], &'static [&'static str]);

/// Marks, choice, whether several calls may come; answers that may be given, and answers that may not.
#[rustfmt::skip]
const MAY: &[May] = &[
    (HERMES, "required", true, &[NOW, ROME, "<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>"],
        &["Hello", "", "<tool_call>", "<tool_call>{\"name\":\"other\",\"arguments\":{}}</tool_call>", "<tool_call>{\"name\":\"weather\",\"arguments\":{}}</tool_call>",
          "<tool_call>{\"name\":\"now\",\"arguments\":{\"a\":1}}</tool_call>", "<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call> and text"]),
    (HERMES, "required", false, &[NOW], &["<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>"]),
    (HERMES, "now", true, &[NOW], &[ROME, "text"]),
    (HERMES, "auto", true, &[NOW, ROME, "text", "", "Well. <tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>", "<tool_cal"],
        &["<tool_call>{\"name\":\"other\",\"arguments\":{}}</tool_call>", "Well <tool_call>{\"name\":\"weather\",\"arguments\":{\"city\":1}}</tool_call>", "<tool_call>"]),
    (LLAMA3, "required", true, &["{\"name\": \"now\", \"parameters\": {}}", "<|python_tag|>{\"name\": \"now\", \"parameters\": {}}",
        "{\"type\": \"function\", \"name\": \"now\", \"parameters\": {}}"], &["x", "{\"name\": \"now\", \"arguments\": {}}", "{}"]),
    (LLAMA3, "auto", true, &["{\"name\": \"now\", \"parameters\": {}}", "x", "{\"title\": 1}", "x {\"name\": \"other\"}"],
        &["{\"name\": \"other\", \"parameters\": {}}", "{\"name\": \"now\", \"parameters\": []}"]),
    (LIST, "required", true, &["[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}]", "[TOOL_CALLS] [{\"name\": \"now\", \"arguments\": {}, \"id\": \"abcdefgh1\"}, {\"name\": \"now\", \"arguments\": {}}]"],
        &["[TOOL_CALLS][]", "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}"]),
    (LIST, "auto", false, &["[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}]", "no"],
        &["[TOOL_CALLS] [{\"name\": \"now\", \"arguments\": {}}, {\"name\": \"now\", \"arguments\": {}}]"]),
    (ARGS, "required", true, &["[TOOL_CALLS]now[ARGS]{}", "[TOOL_CALLS]weather[ARGS]{\"city\": \"Rome\"}[TOOL_CALLS]now[ARGS]{}"],
        &["[TOOL_CALLS]weather[ARGS]{}", "[TOOL_CALLS]now{}", "[TOOL_CALLS]now[CALL_ID]abcdefgh1[ARGS]{}"]),
    (ARGS_ID, "required", false, &["[TOOL_CALLS]now[ARGS]{}", "[TOOL_CALLS]now[CALL_ID]abcdefgh1[ARGS]{}"], &["[TOOL_CALLS]now[CALL_ID]a[ARGS]{}"]),
    (GENERIC, "required", true, &["{\"tool_call\": {\"name\": \"now\", \"arguments\": {}}}", "{\"tool_call\": {\"name\": \"now\", \"arguments\": {}}}\n{\"tool_call\": {\"name\": \"now\", \"arguments\": {}}}"],
        &["now", "{\"tool_call\": {\"name\": \"now\"}}"]),
    (GENERIC, "auto", true, &["{\"tool_call\": {\"name\": \"now\", \"arguments\": {}}}", "now", "{\"tool_calls\": 1", "{ \"tool_call\" : {\"name\": \"now\", \"arguments\": {}}}"],
        &["{\"tool_call\": {\"name\": \"other\", \"arguments\": {}}}", "{\"tool_call\": 1"]),
    (THINK, "required", true, &[NOW, "<think>Hm, <tool_call>?</think>\n\n<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>"], &["<think>Hm</think>", "<think>Hm", "Hm"]),
    (THINK, "auto", true, &["<think>Hm <tool_call> x</think>Yes", "<think>Hm</think><tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>"],
        &["<think>Hm</think><tool_call> x"]),
];

fn choice(name: &str) -> ToolChoice {
    match name {
        "auto" => ToolChoice::Auto,
        "required" => ToolChoice::Required,
        name => ToolChoice::Named(name.into()),
    }
}

#[test]
fn calls_obey_their_grammar() {
    for (marks, how, many, good, bad) in MAY {
        let engine = engine(&template(marks));
        let request = ChatRequest { tool_choice: choice(how), parallel_tool_calls: *many, ..request() };
        let mask = prepare(&engine, &request).expect(marks).mask.expect("a mask");
        for text in *good {
            assert_eq!(admits(&mask, engine.tokenizer(), text), Ok(()), "{marks:?}, {how}: {text:?}");
        }
        for text in *bad {
            assert!(admits(&mask, engine.tokenizer(), text).is_err(), "{marks:?}, {how}: {text:?}");
        }
    }
}

fn chat(messages: Value) -> ChatRequest {
    let messages = messages.as_array().expect("messages").iter().map(|m| message(m).expect("a message")).collect();
    ChatRequest { messages, ..ChatRequest::default() }
}

#[test]
fn messages_are_read_as_the_api_writes_them() {
    let read = |value: Value| message(&value);
    let parts =
        json!({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "n"});
    let parts = read(parts).expect("a message");
    assert_eq!((&*parts.role, &*parts.content, parts.extra.get("name")), ("user", "a\nb", Some(&json!("n"))));
    let null =
        read(json!({"role": "assistant", "content": null, "tool_calls": [], "refusal": null})).expect("a message");
    assert_eq!((&*null.content, null.extra.len()), ("", 1));
    for (bad, word) in [
        (json!("hello"), "object"),
        (json!({"content": "x"}), "role"),
        (json!({"role": 1, "content": "x"}), "role"),
        (json!({"role": "user", "content": 1}), "content"),
        (json!({"role": "user", "content": ["x"]}), "part"),
        (json!({"role": "user", "content": [{"type": "image_url", "image_url": {}}]}), "image_url"),
        (json!({"role": "user", "content": [{"type": "text"}]}), "text"),
    ] {
        let error = read(bad.clone()).expect_err(&bad.to_string()).to_string();
        assert!(error.starts_with("messages: ") && error.contains(word), "{bad}: {error}");
    }
}

const CALLED: &str = r#"[{"role": "user", "content": "Weather?"},
    {"role": "assistant", "content": null, "tool_calls": [{"id": "a", "type": "function", "function": {"name": "now", "arguments": "{\"b\": 1, \"a\": 2}"}}]},
    {"role": "tool", "tool_call_id": "a", "content": "noon"}, {"role": "tool", "name": "now", "content": "night"}]"#;

/// Marks of the template, the request, what the prompt has and has not.
#[test]
fn prompts_are_what_the_template_wants() {
    let called = || chat(serde_json::from_str(CALLED).expect("JSON"));
    let with_tools = |request: ChatRequest| ChatRequest { tools: tools(), ..request };
    let calls = "tool_calls <tool_call>";
    #[rustfmt::skip]
    let cases: Vec<(&str, ChatRequest, &[&str], &[&str])> = vec![
        // Tools are the template's, or ours.
        (calls, with_tools(called()), &["<tools>[{\"type\": \"function\", \"function\": {\"name\": \"weather\"", "\"arguments\": {\"b\": 1, \"a\": 2}", "<tool>noon</tool>"], &["You can call"]),
        (GENERIC, with_tools(called()), &["<system>You can call these tools", "{\"name\":\"weather\",\"parameters\":", "{\"tool_call\":{\"name\":\"now\",\"arguments\":{\"b\":1,\"a\":2}}}",
            "<user>{\"tool_response\":{\"content\":\"noon\"}}\n{\"tool_response\":{\"name\":\"now\",\"content\":\"night\"}}</user>"], &["<tools>", "<tool>", "\"id\""]),
        (GENERIC, with_tools(chat(json!([{"role": "system", "content": "Be good."}, {"role": "user", "content": "x"}]))), &["<system>Be good.\n\nYou can call"], &[]),
        (calls, ChatRequest { tool_choice: ToolChoice::None, ..with_tools(called()) }, &["<tool>noon"], &["<tools>"]),
        // Arguments stay a text where the template takes one.
        ("tool_calls <tool_call> arguments is string", with_tools(called()), &["\"arguments\": \"{\\\"b\\\": 1, \\\"a\\\": 2}\""], &[]),
        // Roles.
        (GENERIC, chat(json!([{"role": "developer", "content": "Be good."}])), &["<system>Be good."], &["developer"]),
        ("developer", chat(json!([{"role": "developer", "content": "Be good."}])), &["<developer>Be good."], &[]),
        // The last message goes on.
        (GENERIC, ChatRequest { continue_final_message: true, ..chat(json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": "The sky is "}])) },
            &["<assistant>The sky is "], &["</assistant>", "qrun"]),
        (GENERIC, ChatRequest { add_generation_prompt: false, ..chat(json!([{"role": "user", "content": "x"}])) }, &["<user>x</user>"], &["<assistant>"]),
    ];
    for (marks, request, has, lacks) in cases {
        let prompt = prepared(marks, &request).prompt;
        let comment = format!("{{# {marks} #}}");
        assert!(!prompt.contains(&comment));
        for text in has {
            assert!(prompt.contains(text), "{marks:?}: {prompt:?} has {text:?}");
        }
        for text in lacks {
            assert!(!prompt.contains(text), "{marks:?}: {prompt:?} does not have {text:?}");
        }
        assert!(
            !request.continue_final_message || prompt.ends_with(&request.messages[request.messages.len() - 1].content)
        );
    }
}

#[test]
fn templates_with_habits_of_their_own_are_served() {
    let asked = ChatRequest { tools: tools(), ..chat(json!([{"role": "user", "content": "x"}])) };
    // No system message: tools go into the first message of the user.
    let refuses = "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}<{{ m.role }}>{{ m.content }}{% endfor %}";
    let prompt = prepare(&engine(refuses), &asked).expect("a chat").prompt;
    assert!(prompt.starts_with("<user>You can call these tools") && prompt.ends_with("\n\nx"), "{prompt:?}");
    // Content as parts only.
    let typed = "{% for m in messages %}<{{ m.role }}>{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %}{% endfor %}";
    assert_eq!(
        prepare(&engine(typed), &chat(json!([{"role": "user", "content": "hi"}]))).expect("a chat").prompt,
        "<user>hi"
    );
    // No tools are none, and none is nothing to go through.
    let asks = "{% if tools is iterable and tools | length > 0 %}tools{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}";
    assert_eq!(prepare(&engine(asks), &chat(json!([{"role": "user", "content": "hi"}]))).expect("a chat").prompt, "hi");
    // Arguments are added to a text, so they have to be one.
    let adds = "{# <tool_call> #}{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}\
                {{ '>' + c.function.name + c.function.arguments }}{% endfor %}{% endfor %}";
    let called = chat(serde_json::from_str(CALLED).expect("JSON"));
    assert_eq!(prepare(&engine(adds), &called).expect("a chat").prompt, "Weather?>now{\"b\":1,\"a\":2}noonnight");
    // Thinking is a variable under two names; the request's own win.
    let thinks = "{{ enable_thinking }} {{ thinking }} {{ x }}{% for m in messages %}{{ m.content }}{% endfor %}";
    let kwargs = json!({"thinking": true, "x": 7}).as_object().cloned().expect("an object");
    let request = ChatRequest { thinking: Some(false), kwargs, ..chat(json!([{"role": "user", "content": "!"}])) };
    assert_eq!(prepare(&engine(thinks), &request).expect("a chat").prompt, "False True 7!");
}

#[test]
fn chats_with_one_system_message_begin_with_the_same_tokens() {
    for marks in [HERMES, GENERIC] {
        let engine = engine(&template(marks));
        let of = |user: &str| {
            let system = json!({"role": "system", "content": "Be brief, and be kind to all."});
            let said = json!({"role": "assistant", "content": "Yes."});
            let [user, other] = [user, "And now?"].map(|text| json!({"role": "user", "content": text}));
            let request = ChatRequest { tools: tools(), ..chat(json!([system, user, said, other])) };
            let prompt = prepare(&engine, &request).expect("a chat").prompt;
            let tokens = engine.prompt(&prompt).expect("tokens");
            let at = prompt.find(user["content"].as_str().expect("a text")).expect("it is there");
            let before = engine.prompt(&prompt[..at]).expect("tokens").len();
            let mark = mark(&engine, request, &prompt, &tokens);
            // The last ones may take in the text's first letters.
            assert!((before - 2..=before).contains(&mark), "{marks:?}: {mark} of {before}");
            tokens[..mark].to_vec()
        };
        let [one, two] = ["a tale of the sea", "Why is it so?"].map(of);
        let n = one.len().min(two.len());
        assert_eq!(one[..n], two[..n], "{marks:?}");
        assert_eq!(mark(&engine, ChatRequest::default(), "", &[]), 0, "nobody asks");
    }
}

#[test]
fn what_cannot_be_had_is_an_error() {
    let tool = |name: &str, parameters: Value| Tool { name: name.into(), description: None, parameters };
    let bad = |request: ChatRequest| prepare(&engine(&template(HERMES)), &request).expect_err("an error");
    let word = |request: ChatRequest, word: &str| {
        let error = bad(request).to_string();
        assert!(error.contains(word), "{error:?} says {word:?}");
    };
    word(ChatRequest { tools: Vec::new(), tool_choice: ToolChoice::Required, ..request() }, "tool_choice");
    word(ChatRequest { tool_choice: ToolChoice::Named("later".into()), ..request() }, "\"later\"");
    word(ChatRequest { tools: vec![tool("a b", json!({}))], ..request() }, "\"a b\"");
    word(ChatRequest { tools: vec![tool("a", json!([]))], ..request() }, "parameters of \"a\"");
    word(ChatRequest { tools: vec![tool("a", json!({"type": "thing"}))], ..request() }, "thing");
    word(ChatRequest { tools: vec![tool("a", json!({})); 129], ..request() }, "at most 128");
    word(ChatRequest { format: Some(GrammarSpec::Gbnf("root ::= x".into())), ..request() }, "\"x\" is not defined");
    word(ChatRequest { continue_final_message: true, ..request() }, "continue_final_message");
    let refuses = engine("{{ raise_exception('not today') }}");
    assert!(matches!(prepare(&refuses, &request()), Err(ChatError::Template(_))));
    // 128 tools are taken, and what a mask cannot express of their schemas is passed over.
    let many: Vec<Tool> = (0..128)
        .map(|i| tool(&format!("t{i}"), json!({"properties": {"a": {"type": "array", "uniqueItems": true}}})))
        .collect();
    let mask = prepared(HERMES, &ChatRequest { tools: many, tool_choice: ToolChoice::Required, ..request() }).mask;
    let engine = engine(&template(HERMES));
    let call = "<tool_call>{\"name\":\"t127\",\"arguments\":{\"a\":[1,1]}}</tool_call>";
    assert_eq!(admits(&mask.expect("a mask"), engine.tokenizer(), call), Ok(()));
}

#[test]
fn a_format_holds_for_the_content() {
    let format = GrammarSpec::JsonSchema(json!({"type": "integer"}));
    let plain = ChatRequest { tools: Vec::new(), format: Some(format.clone()), ..request() };
    let raw = ChatRequest { reasoning_format: ReasoningFormat::None, ..plain.clone() };
    let both = ChatRequest { format: Some(format), ..request() };
    #[rustfmt::skip]
    let cases: &[(&str, &ChatRequest, &[&str], &[&str])] = &[
        (HERMES, &plain, &["12"], &["x", "<think>a</think>12"]),
        (THINK, &plain, &["12", "<think>a</think>\n\n12"], &["x", "<think>a</think>x", "<think>a"]),
        (THINK, &raw, &["12"], &["<think>a</think>12"]),
        (HERMES, &both, &["12", NOW], &["x", "12 <tool_call>"]),
    ];
    for (marks, request, good, bad) in cases {
        let engine = engine(&template(marks));
        let mask = prepare(&engine, request).expect("a chat").mask.expect("a mask");
        for text in *good {
            assert_eq!(admits(&mask, engine.tokenizer(), text), Ok(()), "{marks:?}: {text:?}");
        }
        for text in *bad {
            assert!(admits(&mask, engine.tokenizer(), text).is_err(), "{marks:?}: {text:?}");
        }
    }
}

#[test]
fn ids_follow_from_the_prompt() {
    let ids = |marks: &str, request: &ChatRequest, answer: &str| -> Vec<String> {
        let mut parser = prepared(marks, request).parser;
        let deltas = parser.push(answer);
        deltas.into_iter().filter_map(|d| if let Delta::ToolCall { id, .. } = d { Some(id) } else { None }).collect()
    };
    let twice = format!("{NOW}{NOW}");
    let first = ids(HERMES, &request(), &twice);
    assert_eq!(first, ids(HERMES, &request(), &twice), "the same request, the same ids");
    assert!(first.len() == 2 && first[0] != first[1] && first[0].starts_with("call_0_"), "{first:?}");
    let other = ChatRequest { messages: vec![Message::new("user", "Else?")], ..request() };
    assert_ne!(first, ids(HERMES, &other, &twice));
    let mistral = ids(LIST, &request(), "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {}}]");
    assert!(
        mistral.len() == 1 && mistral[0].len() == 9 && mistral[0].chars().all(|c| c.is_ascii_alphanumeric()),
        "{mistral:?}"
    );
}
