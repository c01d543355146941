//! Requests for what cannot be had, for more than there is, and for which a template has to be stopped.

use serde_json::{Value, json};

use super::Server;

#[test]
fn a_template_that_was_stopped_too_often_is_unavailable_and_counted() {
    // Doubles a text for as long as there is memory, where the user asks for that.
    let template = "{% set ns = namespace(s='xx') %}{% for i in range(60 if messages[0].content == 'grow' else 0) %}\
                    {% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ messages[0].content }}";
    let server = Server::start(&["--chat-template", template, "--metrics"]);
    let ask = |text: &str| {
        let body = json!({ "messages": [{ "role": "user", "content": text }], "max_tokens": 1 });
        server.post("/v1/chat/completions", &body)
    };
    for _ in 0..8 {
        let [good, stopped] = ["hi", "grow"].map(ask);
        assert_eq!((good.status, stopped.status), (200, 400), "{} {}", good.text, stopped.text);
    }
    for answer in ["hi", "grow"].map(ask) {
        assert_eq!(answer.status, 503, "{}", answer.text);
        assert!(
            answer.text.contains("stopped 8 times") && answer.headers.contains_key("retry-after"),
            "{}",
            answer.text
        );
    }
    let metrics = server.get("/metrics").text;
    assert!(metrics.contains("qrun:shed_total{reason=\"template given up\"} 2"), "{metrics}");
    let plain = server.post("/completion", &json!({ "prompt": "hi", "n_predict": 1 }));
    assert_eq!(plain.status, 200, "without a template all goes on: {}", plain.text);
}

/// A request as its dialect has it, and more.
fn body(path: &str, more: &Value) -> Value {
    let mut body = match path {
        "/v1/responses" => json!({ "input": "Hi" }),
        "/v1/completions" | "/completion" | "/api/generate" => json!({ "prompt": "Hi" }),
        _ => json!({ "messages": [{ "role": "user", "content": "Hi" }], "max_tokens": 4 }),
    };
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    body
}

/// Whatever says what an answer has to be, and a tool, is named where it cannot be had.
#[test]
fn a_schema_that_does_not_compile_is_named() {
    let server = Server::start(&[]);
    let wrong = json!({ "type": "hiccup" });
    let good = json!({ "type": "object", "additionalProperties": false });
    let of_schema = |schema: &Value| json!({ "type": "json_schema", "json_schema": { "schema": schema } });
    let tool = |schema: &Value| json!([{ "type": "function", "function": { "name": "f", "parameters": schema } }]);
    // Rules that no mask can express do not stand in the way of a call.
    let mut two = tool(&json!({ "type": "object", "propertyNames": { "pattern": "^a" } }));
    two[0]["function"]["name"] = "g".into();
    two.as_array_mut().expect("a list").extend(tool(&wrong).as_array().expect("a list").clone());
    let flat = json!([{ "type": "function", "name": "f", "parameters": wrong }]);
    let shown = json!([{ "name": "f", "input_schema": wrong }]);
    let of_config = json!({ "format": { "type": "json_schema", "schema": wrong } });
    for (path, more, field) in [
        ("/v1/chat/completions", json!({ "response_format": of_schema(&wrong) }), "response_format"),
        ("/v1/chat/completions", json!({ "json_schema": wrong }), "json_schema"),
        ("/v1/chat/completions", json!({ "response_format": { "type": "text" }, "grammar": "root ::= (" }), "grammar"),
        ("/v1/chat/completions", json!({ "tools": tool(&wrong) }), "tools"),
        ("/v1/chat/completions", json!({ "tools": tool(&wrong), "response_format": of_schema(&good) }), "tools"),
        ("/v1/chat/completions", json!({ "tools": two }), "tools: \"f\""),
        ("/v1/chat/completions", json!({ "tools": tool(&good), "json_schema": wrong }), "json_schema"),
        ("/apply-template", json!({ "json_schema": wrong }), "json_schema"),
        ("/v1/completions", json!({ "response_format": of_schema(&wrong) }), "response_format"),
        ("/completion", json!({ "json_schema": wrong }), "json_schema"),
        ("/completion", json!({ "grammar": "root ::= (" }), "grammar"),
        ("/v1/responses", json!({ "text": of_config }), "text.format"),
        ("/v1/responses", json!({ "tools": flat }), "tools"),
        ("/v1/messages", json!({ "output_config": of_config }), "output_config.format"),
        ("/v1/messages", json!({ "tools": shown }), "tools"),
        ("/api/chat", json!({ "format": wrong }), "format"),
        ("/api/chat", json!({ "tools": tool(&wrong) }), "tools"),
        ("/api/generate", json!({ "format": wrong, "raw": true }), "format"),
    ] {
        let answer = server.post(path, &body(path, &more));
        let error = answer.json()["error"].clone();
        let message = error["message"].as_str().or(error.as_str()).unwrap_or_default();
        assert_eq!((answer.status, message.starts_with(field)), (400, true), "{path} {more}: {}", answer.text);
        assert!(field == "grammar" || message.ends_with("Invalid type: hiccup"), "{path} {more}: {message}");
        if error.get("code").is_some() {
            assert_eq!(error["param"].as_str(), field.split(':').next(), "{path} {more}: {error}");
        }
    }
}

/// More than a server is good for, in all dialects: the field and the most of it are named.
#[test]
fn lists_have_an_end() {
    let server = Server::start(&[]);
    let schema = json!({ "type": "object" });
    let function = |i: usize| json!({ "name": format!("f{i}"), "parameters": schema });
    let many = |tool: &dyn Fn(usize) -> Value| (0..129).map(tool).collect::<Value>();
    let nested = many(&|i| json!({ "type": "function", "function": function(i) }));
    let shown = many(&|i| json!({ "name": format!("f{i}"), "input_schema": schema }));
    let flat = many(&|i| json!({ "type": "function", "name": format!("f{i}"), "parameters": schema }));
    let turns: Value = (0..10_001).map(|_| json!({ "role": "user", "content": "a" })).collect();
    let (texts, long) = (vec!["x"; 65], ["x".repeat(1025)]);
    for (path, more, field, most) in [
        ("/v1/chat/completions", json!({ "tools": nested }), "tools", "128"),
        ("/v1/responses", json!({ "tools": flat }), "tools", "128"),
        ("/v1/messages", json!({ "tools": shown }), "tools", "128"),
        ("/api/chat", json!({ "tools": nested }), "tools", "128"),
        ("/v1/chat/completions", json!({ "messages": turns }), "messages", "10000"),
        ("/v1/responses", json!({ "input": turns }), "input", "10000"),
        ("/v1/messages", json!({ "messages": turns }), "messages", "10000"),
        ("/api/chat", json!({ "messages": turns }), "messages", "10000"),
        ("/v1/chat/completions", json!({ "stop": texts }), "stop", "64"),
        ("/v1/completions", json!({ "stop": long }), "stop", "1024"),
        ("/completion", json!({ "stop": long[0] }), "stop", "1024"),
        ("/v1/messages", json!({ "stop_sequences": texts }), "stop_sequences", "64"),
        ("/v1/messages", json!({ "stop_sequences": long }), "stop_sequences", "1024"),
        ("/api/chat", json!({ "options": { "stop": texts } }), "stop", "64"),
    ] {
        let answer = server.post(path, &body(path, &more));
        let error = &answer.json()["error"];
        let message = error["message"].as_str().or(error.as_str()).unwrap_or_default();
        let named = message.starts_with(&format!("{field}: ")) && message.contains(most);
        assert_eq!((answer.status, named), (400, true), "{path} {field}: {}", answer.text);
    }
}
