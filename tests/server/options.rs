//! Flags of the server that change when and how it works, and no text.

use serde_json::{Value, json};

use super::{Server, same};

/// Steps of any length give the same texts, those of one millisecond too.
#[test]
fn the_time_of_a_step_changes_no_text() {
    let requests = &same::requests()[..12];
    let texts: Vec<Vec<String>> = ["1", "30", "100000"]
        .into_iter()
        .map(|ms| {
            let server = Server::start(&["--step-ms", ms, "-np", "12", "-c", "16384"]);
            std::thread::scope(|scope| {
                let ask = |(path, body): &(&'static str, Value)| same::text(&server.post(path, body).json());
                let threads: Vec<_> = requests.iter().map(|request| scope.spawn(move || ask(request))).collect();
                threads.into_iter().map(|thread| thread.join().expect("an answer")).collect()
            })
        })
        .collect();
    assert!(texts.iter().all(|of| *of == texts[0]), "{texts:?}");
}

/// The vocabulary is made ready for grammars whether anybody asks for one or not.
#[cfg(unix)]
#[test]
fn grammars_are_ready_from_the_start() {
    let body = json!({ "prompt": "A number: ", "n_predict": 12, "seed": 3, "json_schema": { "type": "integer" } });
    let mut texts = Vec::new();
    for (words, ready) in [(&["-v"][..], false), (&["-v", "--grammar-warm"], true)] {
        let server = Server::start(words);
        texts.push(server.post("/completion", &body).json()["content"].clone());
        server.signal(nix::sys::signal::Signal::SIGTERM);
        let (code, _, log) = server.wait();
        assert_eq!((code, log.contains("ready for grammars")), (Some(0), ready), "{log}");
    }
    assert!(texts[0].as_str().is_some_and(|text| !text.is_empty()) && texts[0] == texts[1], "{texts:?}");
}

/// Thoughts stand in the text or apart from it, as the request says, else the flag, else apart. Who asks for thoughts in
/// Anthropic's or Ollama's words gets them apart in any case.
#[test]
fn thoughts_stand_where_the_flag_says() {
    // Every answer begins in a thought, and the demo model does not end it.
    let template = "{% for m in messages %}{{ m.content }}{% endfor %}<think>{# </think> #}";
    let messages = json!([{ "role": "user", "content": "What is qrun?" }]);
    let body = |more: Value| {
        let mut body = json!({ "messages": messages, "input": messages, "temperature": 0, "ignore_eos": true });
        for name in ["max_tokens", "max_output_tokens"] {
            body[name] = 8.into();
        }
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body["stream"] = false.into();
        body["options"] = json!({ "num_predict": 8, "temperature": 0, "ignore_eos": true });
        body
    };
    for (words, apart) in [
        (&[][..], true),
        (&["--reasoning-format", "none"], false),
        (&["--reasoning-format=deepseek"], true),
        (&["--reasoning-format", "auto"], true),
    ] {
        let server = Server::start(&[&["--chat-template", template], words].concat());
        let has_thoughts = |path: &str, more: Value| {
            let answer = server.post(path, &body(more));
            let found = ["reasoning_content\":\"", "type\":\"thinking", "type\":\"reasoning\"", "thinking\":\""];
            assert_eq!(answer.status, 200, "{}", answer.text);
            found.iter().any(|mark| answer.text.contains(mark))
        };
        for (path, more, expected) in [
            ("/v1/chat/completions", json!({}), apart),
            ("/v1/chat/completions", json!({ "reasoning_format": "none" }), false),
            ("/v1/chat/completions", json!({ "reasoning_format": "deepseek" }), true),
            ("/v1/responses", json!({}), apart),
            ("/v1/messages", json!({}), apart),
            ("/v1/messages", json!({ "thinking": { "type": "enabled", "budget_tokens": 1024 } }), true),
            ("/api/chat", json!({}), apart),
            ("/api/chat", json!({ "think": true }), true),
        ] {
            assert_eq!(has_thoughts(path, more.clone()), expected, "{words:?} {path} {more}");
        }
    }
}
