//! Ollama's dialect: lines, options, what is told of the model, and what is refused.

use serde_json::{Value, json};

use super::Server;

fn body(more: Value) -> Value {
    let mut body = json!({
        "model": "any", "messages": [{ "role": "user", "content": "Hello!" }], "prompt": "Hello!", "stream": false,
        "options": { "temperature": 0, "num_predict": 12 },
    });
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    body
}

/// Paths that are read, a place in what they tell, and what stands there.
#[test]
fn the_model_is_told_of() {
    let server = Server::start(&["--metrics", "--seed", "7"]);
    for (path, place, expected) in [
        ("/api/version", "/version", json!("0.12.6")),
        ("/api/tags", "/models/0/model", json!("qrun demo")),
        ("/api/tags", "/models/0/details/quantization_level", json!("Q4_K_M")),
        ("/api/ps", "/models/0/name", json!("qrun demo")),
    ] {
        assert_eq!(server.get(path).json().pointer(place), Some(&expected), "{path}");
    }
    let shown = server.post("/api/show", &json!({ "model": "any" })).json();
    let arch = shown["model_info"]["general.architecture"].as_str().expect("an architecture").to_owned();
    assert!(shown["model_info"][format!("{arch}.context_length")].is_u64(), "{shown}");
    assert!(shown["model_info"]["general.basename"].is_string() && shown["capabilities"][0] == "completion", "{shown}");
}

#[test]
fn lines_tell_the_same_as_the_whole() {
    let server = Server::start(&["--metrics", "--seed", "7"]);
    for (path, place) in [("/api/chat", "/message/content"), ("/api/generate", "/response")] {
        let whole = server.post(path, &body(json!({}))).json();
        let answer = server.post(path, &body(json!({ "stream": null })));
        assert_eq!(answer.headers["content-type"], "application/x-ndjson", "{path}");
        let lines: Vec<Value> = answer.text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let text: String = lines.iter().filter_map(|line| line.pointer(place)?.as_str()).collect();
        assert_eq!(whole.pointer(place), Some(&json!(text)), "{path}: {}", answer.text);
        let last = lines.last().expect("a line");
        assert!(lines.iter().filter(|line| line["done"] == true).count() == 1 && last["done"] == true, "{path}");
        for name in ["done_reason", "eval_count", "prompt_eval_count", "model"] {
            assert_eq!(last[name], whole[name], "{path} {name}");
        }
        assert!(last["total_duration"].is_u64() && last["eval_duration"].is_u64(), "{path}: {last}");
    }
}

/// A path, fields, a place in the answer, and what stands there.
#[test]
fn fields_do_what_they_say() {
    let server = Server::start(&["--metrics", "--seed", "7"]);
    let short = json!({ "temperature": 0, "num_predict": 2 });
    let long = json!({ "temperature": 0, "num_predict": 100 });
    let schema = json!({ "type": "object", "properties": { "x": { "const": 7 } }, "required": ["x"], "additionalProperties": false });
    for (path, more, place, expected) in [
        ("/api/chat", json!({ "options": short }), "/eval_count", json!(2)),
        ("/api/chat", json!({ "options": short }), "/done_reason", json!("length")),
        ("/api/chat", json!({ "options": { "temperature": 0, "stop": ["!"] } }), "/message/content", json!("Hello")),
        ("/api/chat", json!({ "messages": [] }), "/done_reason", json!("load")),
        ("/api/generate", json!({ "prompt": "" }), "/done_reason", json!("load")),
        ("/api/generate", json!({ "options": short, "raw": true }), "/eval_count", json!(2)),
    ] {
        let answer = server.post(path, &body(more.clone()));
        assert_eq!(answer.json().pointer(place), Some(&expected), "{path} {more}: {}", answer.text);
    }
    for (path, raw, place) in [
        ("/api/chat", false, "/message/content"),
        ("/api/generate", false, "/response"),
        ("/api/generate", true, "/response"),
    ] {
        let answer = server.post(path, &body(json!({ "format": schema, "options": long, "raw": raw })));
        let text = answer.json().pointer(place).and_then(Value::as_str).unwrap_or_default().to_owned();
        assert_eq!(serde_json::from_str::<Value>(&text).ok(), Some(json!({ "x": 7 })), "{path}: {}", answer.text);
    }
}

#[test]
fn what_there_is_not_is_refused() {
    let server = Server::start(&["--metrics", "--seed", "7"]);
    let picture = json!([{ "role": "user", "content": "x", "images": ["AA=="] }]);
    for (path, more, status, part) in [
        ("/api/chat", json!({ "messages": picture }), 400, "images"),
        ("/api/chat", json!({ "format": 5 }), 400, "format"),
        ("/api/chat", json!({ "think": "much" }), 400, "think"),
        ("/api/chat", json!({ "options": { "mirostat": 1 } }), 400, "mirostat"),
        ("/api/chat", json!({ "options": 5 }), 400, "options"),
        ("/api/generate", json!({ "images": ["AA=="] }), 400, "images"),
        ("/api/generate", json!({ "suffix": "x" }), 400, "suffix"),
        ("/api/generate", json!({ "template": "x" }), 400, "template"),
        ("/api/generate", json!({ "context": [1] }), 400, "context"),
        ("/api/generate", json!({ "raw": true, "format": { "type": "hiccup" } }), 400, "hiccup"),
        ("/api/pull", json!({}), 501, "/api/pull"),
        ("/api/create", json!({}), 501, "/api/create"),
        ("/api/embed", json!({}), 501, "embeddings"),
    ] {
        let answer = server.post(path, &body(more.clone()));
        assert_eq!(answer.status, status, "{path} {more}: {}", answer.text);
        let error = answer.json()["error"].as_str().unwrap_or_default().to_owned();
        assert!(error.contains(part), "{path} {more}: {}", answer.text);
    }
}

/// What stands at `/` for whom.
#[test]
fn the_root_is_a_page_for_browsers_only() {
    let server = Server::start(&["--metrics", "--seed", "7"]);
    assert_eq!(server.get("/").text, "Ollama is running");
    let page = server.get_with("/", &[("accept", "text/html")]);
    assert!(page.text.starts_with("<!doctype html>"), "{}", page.text);
    let policy = page.headers["content-security-policy"].to_str().expect("a header");
    assert!(policy.contains("default-src 'self'") && !policy.contains("unsafe"), "{policy}");
    let kind = |path: &str| server.get(path).headers["content-type"].to_str().expect("a header").to_owned();
    assert!(kind("/ui/app.js").starts_with("text/javascript") && kind("/ui/style.css").starts_with("text/css"));
    assert_eq!(server.get("/ui/other.js").status, 404);
}
