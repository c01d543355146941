//! Anthropic's dialect: answers, streams, counts, and errors in its shape.

use serde_json::{Value, json};

use super::Server;

fn body(more: Value) -> Value {
    let mut body = json!({ "messages": [{ "role": "user", "content": "Hello!" }], "temperature": 0, "max_tokens": 12 });
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    body
}

fn tools() -> Value {
    let city = json!({ "type": "string", "enum": ["Rome", "Oslo"] });
    let schema = json!({ "type": "object", "properties": { "city": city }, "required": ["city"], "additionalProperties": false });
    json!([{ "name": "weather", "input_schema": schema }])
}

/// Fields, a place in the answer, and what stands there.
#[test]
fn messages_are_answered() {
    let server = Server::start(&["--metrics", "--seed", "7"]);
    let only = json!({ "type": "tool", "name": "weather", "disable_parallel_tool_use": true });
    for (more, place, expected) in [
        (json!({}), "/type", json!("message")),
        (json!({}), "/content/0/type", json!("text")),
        (json!({ "model": "any" }), "/model", json!("any")),
        (json!({ "max_tokens": 2 }), "/stop_reason", json!("max_tokens")),
        (json!({ "max_tokens": 2 }), "/usage/output_tokens", json!(2)),
        (json!({ "stop_sequences": ["!"] }), "/stop_reason", json!("stop_sequence")),
        (json!({ "stop_sequences": ["!"] }), "/stop_sequence", json!("!")),
        (json!({ "stop_sequences": ["!"] }), "/content/0/text", json!("Hello")),
        (json!({ "tools": tools(), "tool_choice": only, "max_tokens": 200 }), "/stop_reason", json!("tool_use")),
        (json!({ "tools": tools(), "tool_choice": only, "max_tokens": 200 }), "/content/0/name", json!("weather")),
    ] {
        let answer = server.post("/v1/messages", &body(more.clone()));
        assert_eq!(answer.status, 200, "{more}: {}", answer.text);
        assert_eq!(answer.json().pointer(place), Some(&expected), "{more} {place}: {}", answer.text);
    }
    let called =
        server.post("/v1/messages", &body(json!({ "tools": tools(), "tool_choice": only, "max_tokens": 200 })));
    let city = called.json()["content"][0]["input"]["city"].clone();
    assert!(["Rome", "Oslo"].iter().any(|name| city == *name), "{}", called.text);
}

/// The events of a stream in their order, and the text of the same answer whole.
#[test]
fn a_stream_tells_the_same() {
    let server = Server::start(&["--metrics", "--seed", "7"]);
    let whole = server.post("/v1/messages", &body(json!({})));
    let events = server.post("/v1/messages", &body(json!({ "stream": true }))).events();
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().expect("a type")).collect();
    assert_eq!(kinds[..3], ["message_start", "ping", "content_block_start"]);
    assert_eq!(kinds[kinds.len() - 3..], ["content_block_stop", "message_delta", "message_stop"]);
    let text: String = events.iter().filter_map(|event| event.pointer("/delta/text")?.as_str()).collect();
    assert_eq!(whole.json()["content"][0]["text"], text, "{events:?}");
    let last = &events[events.len() - 2];
    assert_eq!(last["delta"]["stop_reason"], whole.json()["stop_reason"]);
    assert_eq!(last["usage"]["output_tokens"], whole.json()["usage"]["output_tokens"]);
}

#[test]
fn tokens_are_counted_as_they_are_used() {
    let server = Server::start(&["--metrics", "--seed", "7"]);
    let asked = body(json!({ "system": [{ "type": "text", "text": "Be brief." }] }));
    let usage = server.post("/v1/messages", &asked).json()["usage"].clone();
    let of = |name: &str| usage[name].as_u64().expect("a count");
    let counted = server.post("/v1/messages/count_tokens", &asked).json()["input_tokens"].as_u64();
    assert_eq!(counted, Some(of("input_tokens") + of("cache_read_input_tokens")), "{usage}");
}

/// Fields that are refused, and a part of the message.
#[test]
fn errors_have_anthropics_shape() {
    let server = Server::start(&["--metrics", "--seed", "7"]);
    for (more, part) in [
        (json!({ "max_tokens": null }), "max_tokens is missing"),
        (json!({ "max_tokens": 0 }), "max_tokens"),
        (json!({ "messages": [] }), "1 to 10000 messages"),
        (json!({ "messages": [{ "role": "robot", "content": "x" }] }), "role"),
        (json!({ "messages": [{ "role": "user", "content": [{ "type": "image" }] }] }), "image"),
        (json!({ "system": 5 }), "system"),
        (json!({ "stop_sequences": [1] }), "stop_sequences"),
        (json!({ "thinking": { "type": "perhaps" } }), "thinking.type"),
        (json!({ "tools": [{ "name": "x" }] }), "input_schema"),
        (json!({ "tools": [{ "type": "bash_20250124", "name": "bash" }] }), "bash_20250124"),
        (json!({ "tool_choice": { "type": "perhaps" } }), "tool_choice.type"),
        (json!({ "tools": tools(), "tool_choice": { "type": "tool", "name": "nobody" } }), "nobody"),
        (json!({ "mirostat": 2 }), "mirostat"),
    ] {
        let answer = server.post("/v1/messages", &body(more.clone()));
        let found = answer.json();
        assert_eq!((answer.status, &found["type"]), (400, &json!("error")), "{more}: {}", answer.text);
        assert_eq!(found["error"]["type"], "invalid_request_error", "{more}");
        assert!(found["error"]["message"].as_str().is_some_and(|text| text.contains(part)), "{more}: {}", answer.text);
        assert!(answer.headers.contains_key("request-id"), "{more}");
    }
}
