//! `/v1/responses`: answers, the events of a stream, and what is refused.

use serde_json::{Value, json};

use super::Server;

fn body(more: Value) -> Value {
    let mut body = json!({ "input": "Hello!", "temperature": 0, "max_output_tokens": 12 });
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    body
}

fn tools() -> Value {
    let parameters = json!({ "type": "object", "properties": { "x": { "const": 7 } }, "required": ["x"], "additionalProperties": false });
    json!([{ "type": "function", "name": "f", "parameters": parameters }])
}

/// Fields, a place in the answer, and what stands there.
#[test]
fn responses_are_answered() {
    let server = Server::start(&["--metrics", "--seed", "7"]);
    let called =
        json!({ "tools": tools(), "tool_choice": { "type": "function", "name": "f" }, "max_output_tokens": 100 });
    let format = json!({ "text": { "format": { "type": "json_schema", "schema": tools()[0]["parameters"] } } });
    for (more, place, expected) in [
        (json!({}), "/object", json!("response")),
        (json!({}), "/output/0/type", json!("message")),
        (json!({ "max_output_tokens": 2 }), "/status", json!("incomplete")),
        (json!({ "max_output_tokens": 2 }), "/incomplete_details/reason", json!("max_output_tokens")),
        (json!({ "max_output_tokens": 2 }), "/usage/output_tokens", json!(2)),
        (json!({ "instructions": "Be brief." }), "/instructions", json!("Be brief.")),
        (json!({ "top_logprobs": 2 }), "/output/0/content/0/logprobs/0/token", json!("Hello")),
        (called.clone(), "/output/0/type", json!("function_call")),
        (called.clone(), "/output/0/name", json!("f")),
        (called, "/status", json!("completed")),
    ] {
        let answer = server.post("/v1/responses", &body(more.clone()));
        assert_eq!(answer.json().pointer(place), Some(&expected), "{more} {place}: {}", answer.text);
    }
    let mut asked = body(format);
    asked["max_output_tokens"] = 100.into();
    let text = server.post("/v1/responses", &asked).json()["output"][0]["content"][0]["text"].clone();
    let found: Option<Value> = text.as_str().and_then(|text| serde_json::from_str(text).ok());
    assert_eq!(found, Some(json!({ "x": 7 })), "{text}");
}

#[test]
fn events_are_numbered_and_end_with_the_whole() {
    let server = Server::start(&["--metrics", "--seed", "7"]);
    let whole = server.post("/v1/responses", &body(json!({}))).json();
    let events = server.post("/v1/responses", &body(json!({ "stream": true }))).events();
    let numbers: Vec<u64> = events.iter().map(|event| event["sequence_number"].as_u64().expect("a number")).collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    let told = server.post("/v1/responses", &body(json!({ "stream": true, "return_progress": true }))).events();
    let progress = told.iter().find_map(|event| event["prompt_progress"]["total"].as_u64());
    assert_eq!(progress, whole["usage"]["input_tokens"].as_u64(), "{told:?}");
    assert!(events.iter().all(|event| event["prompt_progress"].is_null()));
    let text: String = events.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(whole["output"][0]["content"][0]["text"], text);
    let last = events.last().expect("an event");
    let name = format!("response.{}", whole["status"].as_str().expect("a status"));
    assert_eq!((&last["type"], &last["response"]["status"]), (&json!(name), &whole["status"]));
    assert_eq!(last["timings"]["predicted_n"], whole["usage"]["output_tokens"], "{last}");
    assert_eq!(last["response"]["output"][0]["content"], whole["output"][0]["content"]);
}

/// Fields that are refused, and a part of the message.
#[test]
fn what_is_wrong_is_named() {
    let server = Server::start(&["--metrics", "--seed", "7"]);
    for (more, part) in [
        (json!({ "input": null }), "input is missing"),
        (json!({ "input": [] }), "input"),
        (json!({ "input": [{ "type": "item_reference", "id": "x" }] }), "item_reference"),
        (json!({ "input": [{ "role": "user", "content": [{ "type": "input_image" }] }] }), "input_image"),
        (json!({ "input": [{ "type": "function_call_output", "output": "x" }] }), "call_id"),
        (json!({ "previous_response_id": "resp_1" }), "previous_response_id"),
        (json!({ "conversation": "conv_1" }), "conversation"),
        (json!({ "background": true }), "background"),
        (json!({ "tools": [{ "type": "web_search" }] }), "web_search"),
        (json!({ "tool_choice": "always" }), "tool_choice"),
        (json!({ "text": { "format": { "type": "sound" } } }), "text.format.type"),
        (json!({ "top_logprobs": 21 }), "top_logprobs"),
    ] {
        let answer = server.post("/v1/responses", &body(more.clone()));
        assert_eq!(answer.status, 400, "{more}: {}", answer.text);
        let message = answer.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains(part), "{more}: {message}");
    }
}
