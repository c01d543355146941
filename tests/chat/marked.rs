//! Calls between marks, by templates of ours: recognised, written, taken apart, constrained, and written by a model.

use std::{ops::ControlFlow, sync::Arc};

use qrun::{
    engine::Engine,
    generate::{Finish, Request, Session},
    sampler::SamplerParams,
    text::chat::{ChatRequest, Delta, Tool, ToolChoice, prepare},
};
use serde_json::{Value, json};

use super::{CALLED, admits, chat, choice, cuts, engine, harmony::with_marks, read, request, template, tools};

/// A way to write calls.
struct Way {
    /// What a template writes for the calls of a message.
    template: &'static str,
    /// Before a call, or before several where they share it.
    open: &'static str,
    shared: bool,
    /// A call with the city Rome and 2 days.
    weather: &'static str,
    /// A call without arguments.
    now: &'static str,
    close: &'static str,
    /// Marks that are control tokens of the test's model: its vocabulary has no other token for `▁`.
    controls: &'static [&'static str],
}

const DEEPSEEK: &[&str] = &[
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
];

const WAYS: &[Way] = &[
    Way {
        template: "{% for c in m.tool_calls %}<tool_call>\n<function={{ c.function.name }}>\n\
                   {% for k, v in c.function.arguments | items %}<parameter={{ k }}>\n\
                   {{ v if v is string else v | tojson }}\n</parameter>\n{% endfor %}\
                   </function>\n</tool_call>\n{% endfor %}",
        open: "<tool_call>\n",
        shared: false,
        weather: "<function=weather>\n<parameter=city>\nRome\n</parameter>\n<parameter=days>\n2\n</parameter>\n\
                  </function>\n",
        now: "<function=now>\n</function>\n",
        close: "</tool_call>",
        controls: &[],
    },
    Way {
        template: "{% for c in m.tool_calls %}<seed:tool_call>\n<function={{ c.function.name }}>\n\
                   {% for k, v in c.function.arguments | items %}<parameter={{ k }}>\
                   {{ v if v is string else v | tojson }}</parameter>\n{% endfor %}\
                   </function>\n</seed:tool_call>\n{% endfor %}",
        open: "<seed:tool_call>\n",
        shared: false,
        weather: "<function=weather>\n<parameter=city>Rome</parameter>\n<parameter=days>2</parameter>\n</function>\n",
        now: "<function=now>\n</function>\n",
        close: "</seed:tool_call>",
        controls: &[],
    },
    Way {
        template: "{% for c in m.tool_calls %}<tool_call>{{ c.function.name }}\n\
                   {% for k, v in c.function.arguments | items %}<arg_key>{{ k }}</arg_key>\n\
                   <arg_value>{{ v if v is string else v | tojson }}</arg_value>\n{% endfor %}\
                   </tool_call>\n{% endfor %}",
        open: "",
        shared: false,
        weather: "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n\
                  <arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
        now: "<tool_call>now\n</tool_call>",
        close: "",
        controls: &[],
    },
    Way {
        template: "<minimax:tool_call>\n{% for c in m.tool_calls %}<invoke name=\"{{ c.function.name }}\">\n\
                   {% for k, v in c.function.arguments | items %}<parameter name=\"{{ k }}\">\
                   {{ v if v is string else v | tojson }}</parameter>\n{% endfor %}\
                   </invoke>\n{% endfor %}</minimax:tool_call>",
        open: "<minimax:tool_call>\n",
        shared: true,
        weather: "<invoke name=\"weather\">\n<parameter name=\"city\">Rome</parameter>\n\
                  <parameter name=\"days\">2</parameter>\n</invoke>\n",
        now: "<invoke name=\"now\">\n</invoke>\n",
        close: "</minimax:tool_call>",
        controls: &[],
    },
    Way {
        template: "<｜tool▁calls▁begin｜>{% for c in m.tool_calls %}<｜tool▁call▁begin｜>function<｜tool▁sep｜>\
                   {{ c.function.name }}\n```json\n{{ c.function.arguments | tojson }}\n```<｜tool▁call▁end｜>\
                   {% endfor %}<｜tool▁calls▁end｜>",
        open: "<｜tool▁calls▁begin｜>",
        shared: true,
        weather: "<｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\": \"Rome\", \"days\": 2}\n```\
                  <｜tool▁call▁end｜>",
        now: "<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n```<｜tool▁call▁end｜>",
        close: "<｜tool▁calls▁end｜>",
        controls: DEEPSEEK,
    },
    Way {
        template: "<｜tool▁calls▁begin｜>{% for c in m.tool_calls %}<｜tool▁call▁begin｜>{{ c.function.name }}\
                   <｜tool▁sep｜>{{ c.function.arguments | tojson }}<｜tool▁call▁end｜>{% endfor %}\
                   <｜tool▁calls▁end｜>",
        open: "<｜tool▁calls▁begin｜>",
        shared: true,
        weather: "<｜tool▁call▁begin｜>weather<｜tool▁sep｜>{\"city\": \"Rome\", \"days\": 2}<｜tool▁call▁end｜>",
        now: "<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>",
        close: "<｜tool▁calls▁end｜>",
        controls: DEEPSEEK,
    },
    Way {
        template: "<|tool_calls_section_begin|>{% for c in m.tool_calls %}<|tool_call_begin|>functions.\
                   {{ c.function.name }}:{{ loop.index0 }}<|tool_call_argument_begin|>\
                   {{ c.function.arguments | tojson }}<|tool_call_end|>{% endfor %}<|tool_calls_section_end|>",
        open: "<|tool_calls_section_begin|>",
        shared: true,
        weather: "<|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>\
                  {\"city\": \"Rome\", \"days\": 2}<|tool_call_end|>",
        now: "<|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}<|tool_call_end|>",
        close: "<|tool_calls_section_end|>",
        controls: &[],
    },
];

impl Way {
    fn engine(&self) -> Arc<Engine> {
        let source = format!(
            "{{% if tools %}}<tools>{{{{ tools | tojson }}}}</tools>{{% endif %}}{{% for m in messages %}}\
             [{{{{ m.role }}}}]{{{{ m.content }}}}{{% if m.tool_calls %}}{}{{% endif %}}{{% endfor %}}",
            self.template
        );
        if self.controls.is_empty() { engine(&source) } else { with_marks(self.controls, Some(&source)) }
    }

    fn weather(&self) -> String {
        [self.open, self.weather, self.close].concat()
    }

    fn now(&self) -> String {
        [self.open, self.now, self.close].concat()
    }

    fn both(&self) -> String {
        match self.shared {
            true => [self.open, self.weather, self.now, self.close].concat(),
            false => format!("{}\n{}", self.weather(), self.now()),
        }
    }

    /// The first mark.
    fn mark(&self) -> &'static str {
        if self.open.is_empty() { "<tool_call>" } else { self.open }
    }
}

#[test]
fn templates_are_recognised_and_their_answers_taken_apart() {
    let asked_for = "{\"city\": \"Rome\", \"days\": 2}";
    let calls = json!([
        {"id": "a", "type": "function", "function": {"name": "weather", "arguments": asked_for}},
        {"id": "b", "type": "function", "function": {"name": "now", "arguments": "{}"}},
    ]);
    let messages = json!([
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": null, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": "fair"},
        {"role": "tool", "tool_call_id": "b", "content": "9"},
    ]);
    for way in WAYS {
        let engine = way.engine();
        let asked = ChatRequest { tools: tools(), ..chat(messages.clone()) };
        let prepared = prepare(&engine, &asked).unwrap_or_else(|_| panic!("{}", way.mark()));
        let (one, both) = (way.weather(), way.both());
        assert!(prepared.prompt.starts_with("<tools>[{") && prepared.prompt.contains(&both), "{}", prepared.prompt);

        let rome = ["0 weather", "0={\"city\": \"Rome\", \"days\": 2}"];
        let also = ["1 now", "1={}"];
        let (said, done) = (["C:Let me see."], ["C:done"]);
        // In the name; in the first argument, of which there is as much as has been given.
        let [in_name, in_value] = ["ther", "ome"].map(|rest| one[..one.find(rest).expect("it is there")].to_owned());
        let begun = if way.weather.contains('{') { "0={\"city\": \"R" } else { "0={" };
        let other = one.replace("weather", "later");
        let tag = format!("a {} is a tag", way.mark());
        let content = |text: &str| vec![format!("C:{text}")];
        let owned = |parts: &[&[&str]]| parts.concat().iter().map(|part| (*part).to_owned()).collect::<Vec<String>>();
        let cases = [
            (one.clone(), owned(&[&rome])),
            (both.clone(), owned(&[&rome, &also])),
            (format!("Let me see.\n\n{both}"), owned(&[&said, &rome, &also])),
            (format!("{one}\n done"), owned(&[&rome, &done])),
            // Without what stands around it.
            (way.weather.to_owned(), owned(&[&rome])),
            // Not calls.
            (other.clone(), content(&other)),
            (tag.clone(), content(&tag)),
            (in_name.clone(), content(&in_name)),
            (in_value, owned(&[&["0 weather", begun]])),
        ];
        for (answer, expected) in cases {
            for pieces in cuts(&answer) {
                assert_eq!(read(&prepared.parser, pieces.iter().copied()), expected, "{answer:?} as {pieces:?}");
            }
        }
    }
}

#[test]
fn calls_obey_their_grammar() {
    for way in WAYS {
        let engine = way.engine();
        let (one, now, both) = (way.weather(), way.now(), way.both());
        let changed = |from: &str, to: &str| one.replace(from, to);
        let wrong = [
            changed("weather", "later"),
            changed("city", "town"),
            changed("2", "two"),
            one[..one.len() - 1].to_owned(),
            format!("{one} and text"),
        ];
        let (text, first) = ([String::new(), "Hello".into()], format!("Well. {one}"));
        let cases = [
            ("required", true, vec![&one, &now, &both], wrong.iter().chain(&text).collect::<Vec<_>>()),
            ("required", false, vec![&one, &now], vec![&both]),
            ("now", true, vec![&now], vec![&one, &text[1]]),
            ("auto", true, vec![&one, &both, &first, &text[0], &text[1]], wrong.iter().collect()),
        ];
        for (how, parallel_tool_calls, good, bad) in cases {
            let request = ChatRequest { tool_choice: choice(how), parallel_tool_calls, ..request() };
            let mask = prepare(&engine, &request).expect(how).mask.expect("a mask");
            for text in good {
                assert_eq!(admits(&mask, engine.tokenizer(), text), Ok(()), "{how}: {text:?}");
            }
            for text in bad {
                assert!(admits(&mask, engine.tokenizer(), text).is_err(), "{how}: {text:?}");
            }
        }
    }
}

/// Marks of a template; a call of `set` up to a parameter's name, from there to its value, what ends the parameter, and
/// what ends the call.
const TYPED: &[(&str, [&str; 4])] = &[
    (
        "<tool_call> <function= <parameter=",
        ["<tool_call>\n<function=set>\n<parameter=", ">\n", "\n</parameter>", "\n</function>\n</tool_call>"],
    ),
    (
        "<tool_call> <arg_key> <arg_value>",
        ["<tool_call>set<arg_key>", "</arg_key><arg_value>", "</arg_value>", "</tool_call>"],
    ),
    (
        "<minimax:tool_call> <invoke name=",
        [
            "<minimax:tool_call><invoke name=\"set\"><parameter name=\"",
            "\">",
            "</parameter>",
            "</invoke></minimax:tool_call>",
        ],
    ),
];

fn set(parameters: Value) -> ChatRequest {
    let tools = vec![Tool { name: "set".into(), description: None, parameters }];
    ChatRequest { tools, tool_choice: ToolChoice::Required, ..request() }
}

#[test]
fn values_have_the_types_of_the_schema() {
    let values = set(json!({
        "properties": {
            "text": {"type": "string"}, "count": {"type": "integer"}, "on": {"type": "boolean"}, "any": {},
            "maybe": {"type": ["string", "null"]}, "kind": {"$ref": "#/$defs/kind"}, "list": {"type": "array"},
            "either": {"anyOf": [{"type": "integer"}, {"$ref": "#/$defs/kind"}]}, "round": {"$ref": "#/$defs/round"},
        },
        // One that leads to itself says nothing.
        "$defs": {"kind": {"enum": ["a", "b"]}, "round": {"anyOf": [{"$ref": "#/$defs/round"}]}},
    }));
    #[rustfmt::skip]
    let cases = [
        ("text", "12", "\"12\""), ("text", "", "\"\""),
        ("text", "\n a \"b\" \\ <i>é</i>\n", "\"\\n a \\\"b\\\" \\\\ <i>é</i>\\n\""),
        ("count", "12", "12"), ("count", " 12\n", "12"), ("count", "twelve", "\"twelve\""), ("on", "true", "true"),
        ("any", "{\"a\": [1]}", "{\"a\": [1]}"), ("any", "plain", "\"plain\""), ("any", "1", "1"),
        ("maybe", "null", "null"), ("maybe", "12", "\"12\""),
        ("either", "3", "3"), ("either", "b", "\"b\""), ("either", "null", "\"null\""),
        ("kind", "a", "\"a\""), ("list", "[1,\n 2]", "[1,\n 2]"), ("round", "1", "1"), ("unknown", "false", "false"),
    ];
    for (marks, [before, between, after, end]) in TYPED {
        let parser = prepare(&engine(&template(marks)), &values).expect(marks).parser;
        for (key, written, expected) in cases {
            let answer = format!("{before}{key}{between}{written}{after}{end}");
            let expected = ["0 set".to_owned(), format!("0={{\"{key}\": {expected}}}")];
            for pieces in cuts(&answer) {
                assert_eq!(read(&parser, pieces.iter().copied()), expected, "{answer:?} as {pieces:?}");
            }
        }
        let next = before.rsplit_once('<').expect("a mark").1;
        let two = format!("{before}count{between}1{after}<{next}on{between}true{after}");
        // A call without its end; text in its place.
        assert_eq!(read(&parser, [&*two]), ["0 set", "0={\"count\": 1, \"on\": true}"]);
        assert_eq!(read(&parser, [&*two, " or so"]), ["0 set", "0={\"count\": 1, \"on\": true}", "C:or so"]);
        assert_eq!(read(&parser, [&*two, "<", next, "any"]), ["0 set", "0={\"count\": 1, \"on\": true"]);
    }
}

#[test]
fn values_obey_their_schema() {
    let typed = set(json!({
        "properties": {"kind": {"$ref": "#/$defs/kind"}, "at": {"$ref": "#/$defs/at"}, "any": {}},
        "required": ["kind"],
        "$defs": {
            "kind": {"enum": ["a", "b c"]},
            "at": {
                "type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"],
                "additionalProperties": false,
            },
        },
    }));
    let (marks, [before, between, after, end]) = TYPED[0];
    let engine = engine(&template(marks));
    let next = |key: &str| format!("{after}\n<parameter={key}{between}");
    let call = |parts: &[&str]| [&[before][..], parts, &[after, end]].concat().concat();
    let (at, any) = (next("at"), next("any"));
    let check = |request: &ChatRequest, good: &[String], bad: &[String]| {
        let mask = prepare(&engine, request).expect("a chat").mask.expect("a mask");
        for text in good {
            assert_eq!(admits(&mask, engine.tokenizer(), text), Ok(()), "{text:?}");
        }
        for text in bad {
            assert!(admits(&mask, engine.tokenizer(), text).is_err(), "{text:?}");
        }
    };
    let kind = |rest: &[&str]| call(&[&["kind", between, "b c"][..], rest].concat());
    check(
        &typed,
        &[kind(&[]), kind(&[&at, "{\"x\": 1}"]), kind(&[&any, "</p> \" {\n"]), kind(&[&at, "{\"x\": 1}", &any, "1"])],
        &[
            call(&["kind", between, "c"]),
            call(&["at", between, "{\"x\": 1}"]),
            kind(&[&at, "{\"y\": 1}"]),
            kind(&[&at, "x"]),
            kind(&[&next("other"), "x"]),
        ],
    );
    // Nothing is said of the parameters: they may be any.
    let free = [
        call(&["one", between, "x y", &next("two"), "[1]"]),
        "<tool_call><function=set></function></tool_call>".to_owned(),
    ];
    check(&set(Value::Null), &free, &[format!("{before}one{between}x"), format!("{before}{between}x{after}{end}")]);
}

#[test]
fn a_template_that_writes_calls_but_no_tools_gets_them_in_the_system_message() {
    let source = "{% for m in messages %}{% if m['content'] is none %}{% for c in m['tool_calls'] %}\
                  <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{{ c['function']['name'] + '<｜tool▁sep｜>' + \
                  c['function']['arguments'] }}<｜tool▁call▁end｜>{% endfor %}{% else %}\
                  [{{ m['role'] }}]{{ m['content'] }}{% endif %}{% endfor %}";
    let messages = serde_json::from_str(CALLED).expect("JSON");
    let prompt = prepare(&engine(source), &ChatRequest { tools: tools(), ..chat(messages) }).expect("a chat").prompt;
    for text in [
        "[system]You can call these tools",
        "but <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>NAME<｜tool▁sep｜>ARGUMENTS<｜tool▁call▁end｜><｜tool▁calls▁end｜>.",
        "[user]Weather?<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{\"b\":1,\"a\":2}<｜tool▁call▁end｜>[tool]",
    ] {
        assert!(prompt.contains(text), "{prompt:?} has {text:?}");
    }
}

#[test]
fn a_model_calls_a_tool_between_marks() {
    for way in WAYS {
        let engine = way.engine();
        let chat = ChatRequest { tool_choice: ToolChoice::Required, parallel_tool_calls: false, ..request() };
        let prepared = prepare(&engine, &chat).unwrap_or_else(|_| panic!("{}", way.mark()));
        assert!(prepared.marks.len() >= way.controls.len(), "{:?}", prepared.marks);
        let prompt = engine.prompt(&prepared.prompt).expect("tokens");
        let params = SamplerParams { seed: 1, temperature: 1.0, ..SamplerParams::default() };
        let mut session = Session::open(engine.clone(), params, Box::new(|_| ())).expect("threads");
        let request =
            Request { prompt, mask: prepared.mask, marks: prepared.marks, max_tokens: Some(300), ..Request::default() };
        let reply = session.generate(&request, &mut |_| ControlFlow::Continue(())).expect("a reply");
        let mut parser = prepared.parser;
        let mut deltas = parser.push(&reply.text);
        deltas.extend(parser.finish());
        assert!(matches!(&deltas[0], Delta::ToolCall { index: 0, .. }), "{:?}", reply.text);
        if reply.finish == Finish::Eos {
            let pieces = deltas[1..].iter().map(|delta| match delta {
                Delta::Arguments { text, .. } => text.as_str(),
                other => panic!("{other:?} in {:?}", reply.text),
            });
            let arguments: String = pieces.collect();
            let value: Value = serde_json::from_str(&arguments).expect(&arguments);
            assert!(value.is_object(), "{value}");
        }
    }
}
