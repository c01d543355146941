//! What is answered to whom: every route and field, and what is wrong with a request.

use serde_json::{Value, json};

use super::Server;

fn chat(more: Value) -> Value {
    let mut body =
        json!({ "messages": [{ "role": "user", "content": "What is qrun?" }], "temperature": 0, "max_tokens": 24 });
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    body
}

fn completion(more: Value) -> Value {
    let mut body = json!({ "prompt": "2 + 3 =", "temperature": 0, "max_tokens": 8 });
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    body
}

/// Paths that are read, a place in what they tell, and what stands there.
#[test]
fn what_is_served_and_how() {
    let server = Server::start(&["--metrics", "--seed", "7"]);
    for (path, place, expected) in [
        ("/health", "/status", json!("ok")),
        ("/v1/health", "/status", json!("ok")),
        ("/livez", "/status", json!("ok")),
        ("/openapi.json", "/openapi", json!("3.1.0")),
        ("/v1/models", "/data/0/id", json!("qrun demo")),
        ("/models", "/data/0/object", json!("model")),
        ("/v1/models/qrun demo", "/id", json!("qrun demo")),
        ("/props", "/total_slots", json!(16)),
        ("/props", "/deterministic", json!(true)),
        ("/props", "/default_generation_settings/params/seed", json!(7)),
        ("/slots", "/0/is_processing", json!(false)),
        ("/slots", "/15/id", json!(15)),
    ] {
        let answer = server.get(&path.replace(' ', "%20"));
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        assert_eq!(answer.json().pointer(place), Some(&expected), "{path}{place}: {}", answer.text);
        assert!(answer.headers.contains_key("x-request-id"), "{path}");
    }
    assert!(server.get("/slots").json().get(16).is_none());
}

/// Bodies that are refused, with the status and a part of the message.
#[test]
fn what_is_wrong_with_a_request_is_named() {
    let server = Server::start(&["--metrics", "--seed", "7"]);
    let chats: &[(Value, &str)] = &[
        (json!({ "messages": null }), "messages is missing"),
        (json!({ "messages": [] }), "1 to 10000 messages"),
        (json!({ "messages": "text" }), "expected a list"),
        (json!({ "messages": [{}] }), "role"),
        (json!({ "messages": [{ "role": "user", "content": 5 }] }), "content"),
        (json!({ "messages": [{ "role": "user", "content": [{ "type": "image_url" }] }] }), "image_url"),
        (json!({ "temperature": "hot" }), "temperature: expected a number"),
        (json!({ "top_p": -1 }), "top_p"),
        (json!({ "min_p": 2 }), "min_p: expected a number from 0 to 1, found 2"),
        (json!({ "top_k": 1.5 }), "top_k: expected a whole number"),
        (json!({ "seed": -2 }), "seed"),
        (json!({ "n": 0 }), "n: expected a whole number from 1 to 16, found 0"),
        (json!({ "n": 17 }), "found 17"),
        (json!({ "stop": [1] }), "stop: expected a text"),
        (json!({ "stop": vec!["x"; 65] }), "at most 64"),
        (json!({ "logit_bias": 5 }), "logit_bias"),
        (json!({ "logit_bias": [[1]] }), "logit_bias"),
        (json!({ "mirostat": 2 }), "mirostat"),
        (json!({ "dry_multiplier": 0.8 }), "dry_multiplier"),
        (json!({ "xtc_probability": 0.5 }), "xtc_probability"),
        (json!({ "lora": [{ "id": 0, "scale": 1 }] }), "lora"),
        (json!({ "samplers": ["temperature", "top_k"] }), "samplers"),
        (json!({ "cache_salt": 5 }), "cache_salt: expected a string"),
        (json!({ "cache_salt": "x".repeat(257) }), "cache_salt: expected at most 256 bytes, found 257"),
        (json!({ "stream": "yes" }), "stream: expected true or false"),
        (json!({ "timings_per_token": "yes" }), "timings_per_token: expected true or false"),
        (json!({ "sse_ping_interval": 0.5 }), "sse_ping_interval: expected a whole number"),
        (json!({ "top_logprobs": 3 }), "logprobs"),
        (json!({ "top_logprobs": 21, "logprobs": true }), "top_logprobs"),
        (json!({ "response_format": { "type": "sound" } }), "json_object or json_schema"),
        (json!({ "response_format": { "type": "json_object", "schema": 123 } }), "schema"),
        (json!({ "response_format": { "type": "json_object", "schema": { "type": "hiccup" } } }), "hiccup"),
        (json!({ "response_format": { "type": "json_schema" } }), "schema is missing"),
        (json!({ "grammar": "root ::= this is (not valid" }), "line 1"),
        (json!({ "grammar": "root ::= \"a\"", "json_schema": {} }), "one of"),
        (json!({ "tools": [5] }), "tools"),
        (json!({ "tool_choice": "always" }), "tool_choice"),
        (json!({ "functions": [{ "name": "f" }] }), "functions"),
        (json!({ "add_generation_prompt": true, "continue_final_message": true }), "continue_final_message"),
    ];
    for (more, part) in chats {
        let answer = server.post("/v1/chat/completions", &chat(more.clone()));
        assert_eq!(answer.status, 400, "{more}: {}", answer.text);
        let message = answer.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains(part), "{more}: {message}");
        assert_eq!(answer.json()["error"]["type"], "invalid_request_error", "{more}");
    }
    let others: &[(&str, &str, Value, u16, &str)] = &[
        ("POST", "/v1/completions", json!({}), 400, "prompt is missing"),
        ("POST", "/v1/completions", json!({ "prompt": 5 }), 400, "prompt: expected a text"),
        ("POST", "/v1/completions", json!({ "prompt": [99999999] }), 400, "token ids from 0"),
        ("POST", "/v1/completions", json!({ "prompt": [1.5] }), 400, "prompt"),
        ("POST", "/v1/completions", json!({ "prompt": "x", "suffix": "y" }), 400, "suffix"),
        ("POST", "/completion", json!({ "prompt": "x", "n_probs": -1 }), 400, "n_probs"),
        ("POST", "/completion", json!({ "prompt": "x", "response_fields": "content" }), 400, "response_fields"),
        ("POST", "/detokenize", json!({ "tokens": [-1] }), 400, "tokens"),
        ("POST", "/tokenize", json!({ "content": 5 }), 400, "content"),
        ("POST", "/apply-template", json!({ "messages": 5 }), 400, "messages"),
        ("GET", "/v1/models/other", json!(null), 404, "other"),
        ("GET", "/v1/chat/completions", json!(null), 405, "GET"),
        ("GET", "/nowhere", json!(null), 404, "/nowhere"),
    ];
    for (method, path, body, status, part) in others {
        let answer = if *method == "GET" { server.get(path) } else { server.post(path, body) };
        assert_eq!(answer.status, *status, "{path} {body}: {}", answer.text);
        assert!(
            answer.json()["error"]["message"].as_str().unwrap_or_default().contains(part),
            "{path}: {}",
            answer.text
        );
    }
    for (body, part) in
        [("", "not JSON"), ("{", "not JSON"), ("[1]", "expected an object"), ("{\"prompt\": \"x\"", "not JSON")]
    {
        let answer = server.post_with("/v1/completions", body, &[]);
        assert_eq!((answer.status, answer.text.contains(part)), (400, true), "{body:?}: {}", answer.text);
    }
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    assert_eq!(server.post_with("/v1/completions", &format!("{{\"prompt\": {deep}}}"), &[]).status, 400);
    let words = "word ".repeat(9000);
    for (path, body) in [
        ("/v1/chat/completions", chat(json!({ "messages": [{ "role": "user", "content": words }] }))),
        ("/v1/completions", completion(json!({ "prompt": ["a", words] }))),
        ("/completion", completion(json!({ "prompt": words }))),
    ] {
        let long = server.post(path, &body);
        let error = &long.json()["error"];
        assert_eq!((long.status, &error["type"]), (400, &json!("exceed_context_size_error")), "{path}: {}", long.text);
        assert_eq!((&error["n_ctx"], error["n_prompt_tokens"].as_u64() > Some(4096)), (&json!(4096), true), "{error}");
    }
}

/// What the cache had counts once for each prompt, and not what the choices of one request find of each other.
#[test]
fn choices_count_the_cache_once() {
    let server = Server::start(&["-c", "8192"]);
    let (sea, sky) = ("The sea is wide and deep. ".repeat(20), "A bird is high in the sky. ".repeat(20));
    for (path, body) in [
        (
            "/v1/chat/completions",
            chat(json!({ "messages": [{ "role": "user", "content": sea }], "n": 4, "max_tokens": 2 })),
        ),
        ("/v1/completions", completion(json!({ "prompt": sky, "n": 3, "max_tokens": 2 }))),
    ] {
        for warm in [false, true] {
            let usage = server.post(path, &body).json()["usage"].clone();
            let (cached, prompt) = (&usage["prompt_tokens_details"]["cached_tokens"], &usage["prompt_tokens"]);
            // The token that begins every text is there from the start.
            assert_eq!(cached.as_u64() > Some(1), warm, "{path}: {usage}");
            assert!(cached.as_u64() < prompt.as_u64(), "{path}: {usage}");
        }
    }
}

/// One conversation is one prompt in all dialects: their templates know the same.
#[test]
fn dialects_have_one_prompt() {
    let template =
        "{{ enable_thinking }} {{ date_string }} {{ datetime }} {% for m in messages %}{{ m.content }}{% endfor %}";
    let server = Server::start(&["--chat-template", template]);
    let messages = json!([{ "role": "user", "content": "Hello!" }]);
    let asked = json!({ "messages": messages, "input": messages, "stream": false, "options": { "num_predict": 1 } });
    let prompt = server.post("/apply-template", &asked).json()["prompt"].clone();
    let prompt = prompt.as_str().expect("a text");
    assert!(!prompt.starts_with(' ') && prompt.ends_with(" Hello!") && prompt.len() > 30, "{prompt}");
    let count = |path: &str, name: &str| {
        let answer = server.post(path, &asked);
        answer.json()[name].as_u64().unwrap_or_else(|| panic!("{path}: {}", answer.text))
    };
    let expected = count("/v1/chat/completions/input_tokens", "input_tokens");
    for (path, name) in [
        ("/v1/responses/input_tokens", "input_tokens"),
        ("/v1/messages/count_tokens", "input_tokens"),
        ("/api/chat", "prompt_eval_count"),
    ] {
        assert_eq!(count(path, name), expected, "{path}");
    }
}

/// The same text whole and in pieces; usage, ends and ids as OpenAI has them.
#[test]
fn a_stream_says_what_the_whole_answer_says() {
    let server = Server::start(&["--metrics", "--seed", "7"]);
    for (path, body, text) in [
        ("/v1/chat/completions", chat(json!({})), "/message/content"),
        (
            "/v1/chat/completions",
            chat(json!({ "n": 3, "temperature": 1.2, "seed": 5, "logprobs": true, "top_logprobs": 2 })),
            "/message/content",
        ),
        ("/v1/completions", completion(json!({})), "/text"),
        (
            "/v1/completions",
            completion(json!({ "prompt": ["2 + 3 =", "Hello", [5, 6]], "n": 2, "temperature": 1, "seed": 3 })),
            "/text",
        ),
    ] {
        let whole = server.post(path, &body).json();
        let choices = whole["choices"].as_array().expect("choices").clone();
        let mut streamed = body.clone();
        streamed["stream"] = true.into();
        streamed["stream_options"] = json!({ "include_usage": true });
        let answer = server.post(path, &streamed);
        assert_eq!(answer.headers["content-type"], "text/event-stream");
        assert!(answer.text.ends_with("data: [DONE]\n\n"), "{}", answer.text);
        let events = answer.events();
        assert!(events.iter().all(|event| event["id"] == events[0]["id"]));
        let usage = events.last().expect("events");
        assert_eq!(
            (&usage["choices"], &usage["usage"]["completion_tokens"]),
            (&json!([]), &whole["usage"]["completion_tokens"])
        );
        for (index, choice) in choices.iter().enumerate() {
            let pieces: Vec<&Value> = events
                .iter()
                .filter_map(|event| event["choices"].get(0))
                .filter(|piece| piece["index"] == index)
                .collect();
            let said: String =
                pieces.iter().filter_map(|p| p["delta"]["content"].as_str().or(p["text"].as_str())).collect();
            assert_eq!(Some(said.as_str()), choice.pointer(text).and_then(Value::as_str), "{path} {index}");
            assert_eq!(pieces.last().expect("pieces")["finish_reason"], choice["finish_reason"]);
            let probs = |choice: &Value| choice["logprobs"]["content"].as_array().cloned().unwrap_or_default();
            let each: Vec<Value> = pieces.iter().flat_map(|piece| probs(piece)).collect();
            assert_eq!(each, probs(choice), "{path} {index}");
        }
    }
}

/// With each token its timings, where they are asked for; the last event has the engine's own in any case.
#[test]
fn timings_come_with_tokens() {
    let server = Server::start(&[]);
    for (path, mut body) in [
        ("/completion", completion(json!({ "ignore_eos": true }))),
        ("/v1/completions", completion(json!({ "ignore_eos": true }))),
        ("/v1/chat/completions", chat(json!({ "ignore_eos": true }))),
        ("/v1/responses", json!({ "input": "2 + 3 =", "temperature": 0, "max_output_tokens": 8, "ignore_eos": true })),
    ] {
        body["stream"] = true.into();
        for wanted in [false, true] {
            body["timings_per_token"] = wanted.into();
            let events = server.post(path, &body).events();
            let (_, before) = events.split_last().unwrap_or_else(|| panic!("{path}: no events"));
            let timings: Vec<&Value> =
                before.iter().map(|event| &event["timings"]).filter(|timings| timings.is_object()).collect();
            assert_eq!(timings.len() > 3, wanted, "{path}: {events:?}");
            let numbers: Vec<_> = timings.iter().map(|timings| timings["predicted_n"].as_u64()).collect();
            assert!(numbers.is_sorted() && numbers.iter().all(|n| *n > Some(0)), "{path}: {numbers:?}");
            assert!(timings.iter().all(|timings| timings["prompt_ms"].as_f64() >= Some(0.0)), "{path}: {timings:?}");
        }
    }
}

/// What fields do to an answer.
#[test]
fn fields_have_their_effect() {
    let server = Server::start(&["--metrics", "--seed", "7"]);
    let text =
        |body: &Value| server.post("/v1/chat/completions", body).json()["choices"][0]["message"]["content"].clone();
    let plain = text(&chat(json!({})));
    let plain = plain.as_str().expect("a text");
    assert!(plain.contains("qrun"), "{plain}");
    let whole = server.post("/v1/chat/completions", &chat(json!({}))).json();
    assert_eq!(whole.pointer("/choices/0/message/refusal"), Some(&Value::Null), "{whole}");
    // The program is named as llama-server names its builds.
    let named = whole["system_fingerprint"].as_str().and_then(|name| name.strip_prefix('b')?.split_once('-'));
    assert!(named.is_some_and(|(build, commit)| build.parse::<u32>().is_ok() && !commit.is_empty()), "{whole}");
    // What an assistant has refused is text like any other.
    let parts = |kind: &str| {
        let mut part = json!({ "type": kind });
        part[kind] = "No.".into();
        let turn = |role: &str, content: Value| json!({ "role": role, "content": content });
        json!([turn("user", "Hi".into()), turn("assistant", json!([part])), turn("user", "Hi".into())])
    };
    let prompt =
        |kind: &str| server.post("/apply-template", &json!({ "messages": parts(kind) })).json()["prompt"].clone();
    assert!(prompt("refusal").as_str().is_some_and(|text| text.contains("No.")) && prompt("refusal") == prompt("text"));
    // Stop texts are not part of the answer.
    let (before, _) = plain.split_once("program").expect("the demo model says what it is");
    let stopped = server.post("/v1/chat/completions", &chat(json!({ "stop": ["never", "program"] }))).json();
    assert_eq!(stopped["choices"][0]["message"]["content"], before);
    assert_eq!(stopped["choices"][0]["finish_reason"], "stop");
    // A seed says which text, at any temperature.
    let sampled =
        |seed: u64| text(&chat(json!({ "temperature": 1.5, "top_k": 0, "top_p": 1, "min_p": 0, "seed": seed })));
    assert_eq!(sampled(1), sampled(1));
    assert!((2..8).any(|seed| sampled(seed) != sampled(1)));
    assert!((1..8).any(|seed| sampled(seed | 1 << 62) != sampled(seed)));
    let limited = server.post("/v1/chat/completions", &chat(json!({ "max_completion_tokens": 3 }))).json();
    assert_eq!(
        (&limited["usage"]["completion_tokens"], &limited["choices"][0]["finish_reason"]),
        (&json!(3), &json!("length"))
    );
    // A bias that forbids what would be said.
    let first = server.post("/tokenize", &json!({ "content": plain.split(' ').next() })).json()["tokens"][0].clone();
    let forbidden = text(&chat(json!({ "logit_bias": [[first, false]] })));
    assert!(!forbidden.as_str().expect("a text").starts_with(plain.split(' ').next().expect("a word")), "{forbidden}");
    // The form of an answer.
    let schema = json!({ "type": "object", "properties": { "n": { "enum": [1, 2] } }, "required": ["n"], "additionalProperties": false });
    for more in [
        json!({ "response_format": { "type": "json_schema", "json_schema": { "schema": schema } } }),
        json!({ "json_schema": schema }),
        json!({ "grammar": "root ::= \"{\\\"n\\\":\" [12] \"}\"" }),
    ] {
        let mut plain = completion(more.clone());
        plain["max_tokens"] = 24.into();
        let plain = server.post("/v1/completions", &plain).json()["choices"][0]["text"].clone();
        for said in [text(&chat(more.clone())), plain] {
            let value: Value =
                serde_json::from_str(said.as_str().expect("a text")).unwrap_or_else(|_| panic!("{more}: {said}"));
            assert!([json!({ "n": 1 }), json!({ "n": 2 })].contains(&value), "{more}: {said}");
        }
    }
}

/// `/completion` and what stands beside it, in llama-server's shapes.
#[test]
fn llama_servers_own_endpoints() {
    let server = Server::start(&["--metrics", "--seed", "7"]);
    let body = json!({ "prompt": "2 + 3 =", "n_predict": 4, "temperature": 0, "return_tokens": true, "n_probs": 3 });
    let answer = server.post("/completion", &body).json();
    for name in [
        "index",
        "content",
        "tokens",
        "id_slot",
        "stop",
        "model",
        "tokens_predicted",
        "tokens_evaluated",
        "generation_settings",
        "prompt",
        "has_new_line",
        "truncated",
        "stop_type",
        "stopping_word",
        "tokens_cached",
        "timings",
        "completion_probabilities",
    ] {
        assert!(answer.get(name).is_some(), "{name}: {answer}");
    }
    let probs = answer["completion_probabilities"].as_array().expect("probabilities");
    assert_eq!(probs.len() as u64, answer["tokens_predicted"].as_u64().expect("a number"));
    for token in probs {
        let top = token["top_logprobs"].as_array().expect("the likeliest");
        assert_eq!((top.len(), &top[0]["id"]), (3, &token["id"]), "greedy takes the likeliest");
        assert!(token["logprob"].as_f64() <= Some(0.0));
    }
    let picked = server.post("/completion", &json!({ "prompt": "2 + 3 =", "n_predict": 4, "temperature": 0, "response_fields": ["content", "timings/predicted_n"] })).json();
    assert_eq!(picked, json!({ "content": answer["content"], "timings/predicted_n": answer["tokens_predicted"] }));
    let events = server
        .post(
            "/completion",
            &json!({ "prompt": "2 + 3 =", "n_predict": 4, "temperature": 0, "stream": true, "return_progress": true }),
        )
        .events();
    let text: String = events.iter().filter_map(|event| event["content"].as_str()).collect();
    assert_eq!(json!(text), answer["content"]);
    assert_eq!(events.last().expect("events")["stop"], true);
    assert!(events[0]["prompt_progress"]["total"].as_u64() > Some(0), "{}", events[0]);
    // The settings are the request's.
    let asked = json!({ "ignore_eos": true, "grammar": "root ::= \"b\"+", "samplers": ["top_k", "temperature"] });
    let settings = server.post("/completion", &completion(asked.clone())).json()["generation_settings"].clone();
    for name in ["ignore_eos", "grammar", "samplers"] {
        assert_eq!(settings[name], asked[name], "{settings}");
        assert_ne!(answer["generation_settings"][name], asked[name], "{name}");
    }
    let text = "Grüße, 世界 🙂";
    let tokens = server.post("/tokenize", &json!({ "content": text })).json()["tokens"].clone();
    assert_eq!(server.post("/detokenize", &json!({ "tokens": tokens })).json()["content"], text);
    let pieces = server.post("/tokenize", &json!({ "content": text, "with_pieces": true })).json()["tokens"].clone();
    assert_eq!(pieces.as_array().map(Vec::len), tokens.as_array().map(Vec::len));
    let prompt = server.post("/apply-template", &chat(json!({}))).json()["prompt"].clone();
    assert!(prompt.as_str().is_some_and(|prompt| prompt.contains("What is qrun?")), "{prompt}");
}

/// The numbers of `/metrics` follow the requests.
#[test]
fn metrics_count() {
    let server = Server::start(&["--metrics"]);
    let value = |name: &str| -> f64 {
        let text = server.get("/metrics").text;
        let line =
            text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap_or_else(|| panic!("{name}: {text}"));
        line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
    };
    let mut expected = [0.0; 3];
    for _ in 0..3 {
        let answer = server.post("/completion", &completion(json!({}))).json();
        let timings =
            ["prompt_n", "cache_n", "predicted_n"].map(|name| answer["timings"][name].as_f64().expect("a number"));
        expected.iter_mut().zip(timings).for_each(|(sum, n)| *sum += n);
    }
    let names =
        ["llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total", "llamacpp:tokens_predicted_total"];
    assert_eq!(names.map(value), expected);
    assert!(expected[1] > 0.0, "the second request finds the first one's prompt");
    assert_eq!(value("vllm:time_to_first_token_seconds_count"), 3.0);
    // Each step is in one bucket of its time, and in one of its rows.
    let steps = value("llamacpp:n_decode_total");
    for name in ["qrun:step_seconds", "qrun:step_rows"] {
        for row in ["count", "bucket{le=\"+Inf\"}"] {
            assert_eq!(value(&format!("{name}_{row}")), steps, "{name}_{row}");
        }
    }
    assert!(value("qrun:step_rows_sum") >= steps && value("qrun:step_seconds_sum") > 0.0);
    assert!(value("qrun:step_rows_bucket{le=\"1\"}") > 0.0, "one answer at a time: steps of one row");
    assert_eq!(value("llamacpp:requests_processing"), 0.0);
    let off = Server::start(&["--no-slots"]);
    assert_eq!((off.get("/metrics").status, off.get("/slots").status), (501, 501));
}
