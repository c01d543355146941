//! Chat templates: the text of `transformers`, and templates that mean harm.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use qrun::text::template::{
    BUILTINS, ChatTemplate, MAX_SOURCE, Message, Render, Specials, TemplateError, builtin, choose,
};
use serde_json::{Map, Value, json};

/// As in the `qrun` binary: hostile templates are bounded in memory too.
#[global_allocator]
static ALLOCATOR: qrun::text::template::SandboxAllocator = qrun::text::template::SandboxAllocator(std::alloc::System);

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn specials() -> Specials {
    Specials { bos: "<s>".into(), eos: "</s>".into() }
}

fn source(template: &str) -> String {
    let path = match template.strip_prefix("builtin/") {
        Some(name) => root("src/text/template/builtin").join(name),
        None => root("tests/data/template").join(template),
    };
    std::fs::read_to_string(path.with_extension("jinja")).expect("the template of a case")
}

fn message(value: &Value) -> Message {
    let mut fields = value.as_object().expect("a message").clone();
    let role = fields.remove("role").expect("a role");
    let mut message = Message::new(role.as_str().expect("a role"), "");
    match fields.remove("content") {
        Some(Value::String(text)) => message.content = text,
        Some(parts) => drop(fields.insert("content".into(), parts)),
        None => {}
    }
    message.extra = fields;
    message
}

#[test]
fn every_case_reads_as_transformers_renders_it() {
    let text = std::fs::read_to_string(root("tests/data/template/cases.json")).expect("cases.json");
    let data: Value = serde_json::from_str(&text).expect("cases.json is JSON");
    let now = UNIX_EPOCH + Duration::from_secs(data["now"].as_u64().expect("now"));
    let mut failures = Vec::new();
    let cases = data["cases"].as_array().expect("cases");
    for case in cases {
        let (template, chat) = (case["template"].as_str().expect("a name"), case["chat"].as_str().expect("a chat"));
        let messages: Vec<Message> = data["chats"][chat].as_array().expect("messages").iter().map(message).collect();
        let options = Render {
            add_generation_prompt: case["add_generation_prompt"].as_bool().expect("a flag"),
            kwargs: case["kwargs"].as_object().cloned().unwrap_or_default(),
            tools: case.get("tools").map(|_| data["tools"].clone()),
            now,
        };
        let compiled = ChatTemplate::new(template, &source(template), specials()).expect(template);
        let got = compiled.render(&messages, &options);
        let good = match (&got, case.get("text"), case.get("raises")) {
            (Ok(text), Some(expected), None) => text == expected,
            (Err(TemplateError::Refused { message, .. }), None, Some(expected)) => message == expected,
            _ => false,
        };
        if !good {
            let expected = case.get("text").or(case.get("raises"));
            failures.push(format!("{template}, {chat}, {:?}:\n got {got:?}\nwant {expected:?}", options.kwargs));
        }
    }
    assert!(cases.len() >= 60, "{} cases", cases.len());
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

#[test]
fn a_template_is_chosen_by_name_file_text_model_and_vocabulary() {
    let none = |_: &str| false;
    let name = |argument, from_file, has: &dyn Fn(&str) -> bool| {
        choose(argument, from_file, has).expect("a choice").map(|chosen| chosen.name)
    };
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("mine.jinja");
    std::fs::write(&file, "{{ messages[0].content }} from a file").expect("written");
    let file = file.to_str().expect("a path");

    for (known, text) in BUILTINS {
        assert_eq!(name(Some(known), Some("{{ x }}"), &none).as_deref(), Some(*known));
        assert_eq!(builtin(known), Some(*text));
    }
    assert_eq!(name(Some(file), None, &none).as_deref(), Some(file));
    assert_eq!(name(Some("{{ bos_token }}"), None, &none).as_deref(), Some("--chat-template"));
    assert_eq!(name(None, Some("{{ x }}"), &none).as_deref(), Some("tokenizer.chat_template"));
    for (token, expected) in [
        ("<|turn>", "gemma4"),
        ("<start_of_turn>", "gemma"),
        ("<|channel|>", "harmony"),
        ("<|start_of_role|>", "granite"),
        ("[gMASK]", "glm4"),
        ("<|start_header_id|>", "llama3"),
        ("<|im_start|>", "chatml"),
        ("<think>", "qwen3"),
        ("[INST]", "mistral"),
        ("<|assistant|>", "phi3"),
    ] {
        assert_eq!(name(None, None, &|t| t == token).as_deref(), Some(expected));
        assert_eq!(name(None, Some(" \n"), &|t| t == token).as_deref(), Some(expected));
    }
    assert_eq!(name(None, None, &none), None);

    let error = choose(Some("chatmI"), None, none).expect_err("no such name").to_string();
    assert!(error.contains("chatmI") && error.contains("gemma") && error.contains("llama3"), "{error}");
}

#[test]
fn kwargs_win_and_now_is_what_the_caller_says() {
    let template = ChatTemplate::new("t", "{{ bos_token }}{{ flag }}{{ strftime_now('%d %b %Y') }}", specials());
    let kwargs = Map::from_iter([("flag".to_string(), json!(false)), ("bos_token".to_string(), json!("B"))]);
    let days_of = |days: u64| UNIX_EPOCH + Duration::from_secs(days * 86_400);
    let template = template.expect("it compiles");
    for (days, expected) in [(0, "01 Jan 1970"), (59, "01 Mar 1970"), (11_016, "29 Feb 2000"), (47_541, "01 Mar 2100")]
    {
        let options = Render { kwargs: kwargs.clone(), now: days_of(days), ..Render::default() };
        assert_eq!(template.render(&[], &options).expect("text"), format!("BFalse{expected}"));
    }
}

#[test]
fn errors_name_the_template_and_the_line() {
    let error = ChatTemplate::new("model.gguf", "a\n{% for %}", specials()).expect_err("no Jinja").to_string();
    assert!(error.contains("model.gguf") && error.contains("line 2"), "{error}");
    let template =
        ChatTemplate::new("mine", "\n\n{{ messages[0].content.nothing() }}", specials()).expect("it compiles");
    let error = template.render(&[Message::new("user", "x")], &Render::default()).expect_err("no method").to_string();
    assert!(error.contains("mine") && error.contains("line 3"), "{error}");
    let long = "x".repeat(MAX_SOURCE + 1);
    assert!(matches!(ChatTemplate::new("long", &long, specials()), Err(TemplateError::TooLong { .. })));
    assert!(ChatTemplate::new("long", &long[1..], specials()).is_ok());
}

/// Peak memory of this process so far, in bytes, where the system tells.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// Programs that ask for all memory, all time or all stack.
const HOSTILE: &[(&str, &str)] = &[
    ("doubling", "{% set ns = namespace(s='xx') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}"),
    ("adding", "{% set ns = namespace(s='xx') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}"),
    ("wide format", "{{ '{:1000000000000}'.format(3) }}"),
    ("wider format", "{{ '{:99999999999999999999999}'.format(3) }}"),
    ("wide %", "{{ '%1000000000000d' | format(3) }}"),
    ("precise %", "{{ '%.1000000000000f' | format(3.5) }}"),
    ("times", "{{ 'x' * 10**12 }}"),
    ("times list", "{{ ([1] * 10**9) | list | length }}"),
    (
        "many times",
        "{% set ns = namespace(l=[]) %}{% for i in range(99) %}{% set ns.l = ns.l + ['x' * 10**8] %}{% endfor %}",
    ),
    ("range", "{{ range(10**9) | list }}"),
    ("loops", "{% for a in range(9999) %}{% for b in range(9999) %}{% set x = a %}{% endfor %}{% endfor %}"),
    ("output", "{% for a in range(99999) %}{% for b in range(9) %}{{ 'x' * 9999 }}{% endfor %}{% endfor %}"),
    (
        "captures",
        "{% macro d(s) %}{{ s }}{{ s }}{% endmacro %}{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = d(ns.s) %}{% endfor %}",
    ),
    (
        "replaces",
        "{% set ns = namespace(s='xx') %}{% for i in range(60) %}{% set ns.s = ns.s.replace('x', ns.s) %}{% endfor %}",
    ),
    (
        "joins",
        "{% set ns = namespace(s='xx') %}{% for i in range(60) %}{% set ns.s = ns.s.join([ns.s, ns.s]) %}{% endfor %}",
    ),
    ("indents", "{{ 'a\nb' | indent(10**15) }}"),
    ("indents by name", "{{ 'a\nb' | indent(width=10**30) }}"),
    (
        "lists of lists",
        "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
    ),
    (
        "JSON of lists",
        "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l | tojson }}",
    ),
    (
        "long lists",
        "{% set ns = namespace(l=[1, 2]) %}{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}{{ ns.l | list | length }}",
    ),
    (
        "deep lists",
        "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}{{ raise_exception('written') }}",
    ),
    (
        "deep and dropped",
        "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = [ns.l] %}{% endfor %}{% for i in range(99999) %}{% set ns.l = {1: ns.l} %}{% endfor %}{{ raise_exception('dropped') }}",
    ),
    ("itself", "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}"),
    ("JSON of itself", "{% set ns = namespace() %}{% set ns.me = [ns] %}{{ ns | tojson }}"),
    (
        "itself equals itself",
        "{% set a = namespace() %}{% set b = namespace() %}{% set a.x = b %}{% set b.x = a %}{{ a == b }}{{ raise_exception('compared') }}",
    ),
    ("recursion", "{% macro f(n) %}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}"),
    ("recursive loop", "{% for x in [[1]] recursive %}{{ loop([x]) }}{% endfor %}"),
    ("power", "{{ 10 ** 10 ** 10 }}"),
    ("round", "{{ 3.14159 | round(2000000000) }}{{ raise_exception('rounded') }}"),
    ("centre", "{{ 'x' | center(10**12) }}"),
    ("batches", "{{ [1] | batch(10**12, 'x') | list }}"),
    ("slices", "{{ [1] | slice(10**12) | list }}"),
];

#[test]
fn a_hostile_template_ends_in_an_error_within_bounds() {
    let before = peak_memory();
    for (name, source) in HOSTILE {
        let start = Instant::now();
        let error = match ChatTemplate::new(name, source, specials()) {
            Ok(template) => {
                let error = template.render(&[Message::new("user", "hi")], &Render::default());
                error.map(|text| text.len()).expect_err(name)
            }
            Err(error) => error,
        };
        let took = start.elapsed();
        assert!(error.to_string().contains(name), "{name}: {error}");
        assert!(took < Duration::from_secs(60), "{name}: {took:?}");
    }
    if let (Some(before), Some(after)) = (before, peak_memory()) {
        // Each that is stopped keeps what it held: the bound is memory and stack once for each of them.
        let grown = after.saturating_sub(before) >> 20;
        assert!(grown < 100 * HOSTILE.len() as u64, "{grown} MiB");
    }
}

#[test]
fn a_stopped_template_renders_other_conversations_until_it_was_stopped_eight_times() {
    let source = "{% set ns = namespace(s='xx') %}{% for i in range(messages | length * 60) %}\
                  {% set ns.s = ns.s ~ ns.s %}{% endfor %}short";
    let template = ChatTemplate::new("doubling", source, specials()).expect("it compiles");
    let (long, short) = ([Message::new("user", "hi")], []);
    for _ in 0..8 {
        assert_eq!(template.render(&short, &Render::default()).as_deref(), Ok("short"));
        let error = template.render(&long, &Render::default()).expect_err("2^60 bytes").to_string();
        assert!(error.contains("too much memory"), "{error}");
    }
    let error = template.render(&short, &Render::default()).expect_err("refused");
    assert_eq!(error, TemplateError::GivenUp { name: "doubling".into() });
    // What grows by writing ends by itself, as often as it likes.
    let written = "{% for m in messages %}{% for i in range(9999) %}{{ 'x' * 99999 }}{% endfor %}{% endfor %}short";
    let template = ChatTemplate::new("written", written, specials()).expect("it compiles");
    for _ in 0..5 {
        let error = template.render(&long, &Render::default()).expect_err("a gigabyte").to_string();
        assert!(error.contains("too much memory"), "{error}");
    }
    assert_eq!(template.render(&short, &Render::default()).as_deref(), Ok("short"));
}

#[test]
fn a_long_conversation_is_no_attack() {
    let turn =
        |i: usize| Message::new(if i.is_multiple_of(2) { "user" } else { "assistant" }, format!("{i} ").repeat(500));
    let messages: Vec<Message> = (0..2001).map(turn).collect();
    for (name, source) in BUILTINS {
        let template = ChatTemplate::new(name, source, specials()).expect(name);
        let text = template.render(&messages, &Render::default()).expect(name);
        assert!(text.contains("2000 2000"), "{name}");
    }
}

#[test]
fn nested_brackets_are_an_error() {
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000));
    let blocks = "{% if 1 %}".repeat(20_000);
    for source in [deep, blocks] {
        assert!(ChatTemplate::new("deep", &source, specials()).is_err());
    }
}
