//! The promise: the same request gives the same bytes, alone or among others, with a cold or a warm cache, after having been
//! put back, after a restart.

use serde_json::{Value, json};

use super::Server;

/// Requests of all kinds: greedy, sampled, with a mask, with common beginnings.
pub fn requests() -> Vec<(&'static str, Value)> {
    let mut all = Vec::new();
    for i in 0..8 {
        let asked = format!("What is {i} + {}? Say it and nothing else.", 3 * i);
        all.push((
            "/v1/chat/completions",
            json!({ "messages": [{ "role": "user", "content": asked }], "temperature": 0, "max_tokens": 40 }),
        ));
        all.push(("/v1/chat/completions", json!({
            "messages": [{ "role": "system", "content": "You are kind and answer in one sentence." }, { "role": "user", "content": format!("Hello number {i}!") }],
            "temperature": 1.3, "top_k": 0, "top_p": 1, "min_p": 0, "seed": i, "max_tokens": 60,
        })));
        all.push(("/completion", json!({ "prompt": "Once upon a time ".repeat(4 + i), "temperature": 1, "seed": 100 + i, "n_predict": 50, "repeat_penalty": 1.1 })));
        all.push(("/v1/chat/completions", json!({
            "messages": [{ "role": "user", "content": format!("Give me a number, {i}.") }], "temperature": 1, "seed": i, "max_tokens": 50,
            "response_format": { "type": "json_schema", "json_schema": { "schema": {
                "type": "object", "properties": { "n": { "type": "integer", "minimum": 0, "maximum": 999 }, "word": { "type": "string", "maxLength": 12 } },
                "required": ["n", "word"], "additionalProperties": false } } },
        })));
    }
    all
}

pub fn text(answer: &Value) -> String {
    let said = answer.pointer("/choices/0/message/content").or(answer.get("content"));
    said.and_then(Value::as_str).unwrap_or_else(|| panic!("no text: {answer}")).to_owned()
}

/// With `--deterministic` it holds for weights in BF16 too, and the server says so.
#[test]
fn same_request_same_bytes_in_bf16() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/models/demo/qrun-demo-BF16.gguf");
    let start = |words: &[&str]| Server::start(&[&[model], words].concat());
    let says = |server: &Server| server.get("/props").json()["deterministic"].clone();
    assert_eq!(says(&start(&[])), false);
    let requests = &requests()[..16];
    let alone: Vec<String> = {
        let server = start(&["--deterministic", "-np", "1", "--no-cache-prompt"]);
        assert_eq!(says(&server), true);
        requests.iter().map(|(path, body)| text(&server.post(path, body).json())).collect()
    };
    let server = start(&["--deterministic", "-np", "16", "-c", "20480"]);
    std::thread::scope(|scope| {
        let ask = |(path, body): &(&'static str, Value)| text(&server.post(path, body).json());
        let threads: Vec<_> = requests.iter().map(|request| scope.spawn(move || ask(request))).collect();
        for ((thread, expected), (_, body)) in threads.into_iter().zip(&alone).zip(requests) {
            assert_eq!(&thread.join().expect("an answer"), expected, "{body}");
        }
    });
}

#[test]
fn same_request_same_bytes() {
    let requests = requests();
    let alone = {
        let server = Server::start(&["-np", "1", "--no-cache-prompt"]);
        requests.iter().map(|(path, body)| text(&server.post(path, body).json())).collect::<Vec<_>>()
    };
    assert!(alone.iter().filter(|text| text.len() > 20).count() > requests.len() / 2, "{alone:?}");
    // Thirty-two at once; the pages of the last server hold only some of them, so that requests are put back.
    for words in [&["-np", "32", "-c", "20480"][..], &["-c", "640"]] {
        let server = Server::start(&[&["--metrics"], words].concat());
        for round in ["cold", "warm"] {
            std::thread::scope(|scope| {
                let ask = |(path, body): &(&'static str, Value)| (text(&server.post(path, body).json()), body.clone());
                let threads: Vec<_> = requests.iter().map(|request| scope.spawn(move || ask(request))).collect();
                for (thread, expected) in threads.into_iter().zip(&alone) {
                    let (said, body) = thread.join().expect("an answer");
                    assert_eq!(&said, expected, "{words:?}, {round}: {body}");
                }
            });
        }
    }
}
