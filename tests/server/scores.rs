//! How probable tokens are: of prompts, before sampling and after it.

use serde_json::{Value, json};

use super::Server;

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value["logprobs"][name].as_array().map(Vec::as_slice).unwrap_or_else(|| panic!("no {name}: {value}"))
}

/// A prompt is scored as the same tokens were when they were generated.
#[test]
fn an_echo_scores_the_prompt() {
    let server = Server::start(&["-np", "4"]);
    let ask = |body: Value| {
        let answer = server.post("/v1/completions", &body);
        assert_eq!(answer.status, 200, "{body}: {}", answer.text);
        answer.json()["choices"].as_array().expect("choices").clone()
    };
    let prompt = "The sea is wide — and the night is long.";
    let tokens = |text: &str| -> Vec<Value> {
        let body = json!({ "content": text, "add_special": true });
        server.post("/tokenize", &body).json()["tokens"].as_array().expect("tokens").clone()
    };
    let ids = tokens(prompt);
    let plain = &ask(json!({ "prompt": ids, "temperature": 0, "max_tokens": 12, "logprobs": 3 }))[0];
    let whole = &ask(json!({ "prompt": ids, "temperature": 0, "max_tokens": 12, "logprobs": 3, "echo": true }))[0];
    let n = ids.len();
    for name in ["tokens", "token_logprobs", "top_logprobs"] {
        assert_eq!(list(whole, name)[n..], *list(plain, name), "{name}");
    }
    let text = whole["text"].as_str().expect("a text");
    assert!(text.contains(prompt) && text.ends_with(plain["text"].as_str().expect("a text")), "{text}");
    assert_eq!((&list(whole, "token_logprobs")[0], &list(whole, "top_logprobs")[0]), (&Value::Null, &Value::Null));
    // Every token stands where its offset says.
    let characters: Vec<char> = text.chars().collect();
    for (token, at) in list(whole, "tokens").iter().zip(list(whole, "text_offset")) {
        let (token, at) = (token.as_str().expect("a text"), at.as_u64().expect("a number") as usize);
        let here: String = characters[at..].iter().take(token.chars().count()).collect();
        assert!(token == here || token.contains('\u{fffd}'), "{token:?} at {at} of {text:?}");
    }
    // What was generated is scored the same as a prompt, nothing being generated.
    let generated = server
        .post("/completion", &json!({ "prompt": ids, "temperature": 0, "n_predict": 12, "return_tokens": true }))
        .json();
    let all: Vec<Value> = ids.iter().chain(generated["tokens"].as_array().expect("tokens")).cloned().collect();
    let scored = &ask(json!({ "prompt": all, "max_tokens": 0, "logprobs": 3, "echo": true }))[0];
    assert_eq!((list(scored, "tokens").len(), &scored["finish_reason"]), (all.len(), &json!("length")));
    for name in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        assert_eq!(list(scored, name), list(whole, name), "{name}");
    }
    // As it comes it is the same; so are several prompts, one of a single token, and several answers.
    let mut body = json!({ "prompt": [ids, [ids[n - 1]], all], "n": 2, "temperature": 1, "seed": 3, "max_tokens": 5, "logprobs": 2, "echo": true });
    for (logprobs, most) in [(json!(2), 5), (json!(2), 0), (Value::Null, 5)] {
        (body["logprobs"], body["max_tokens"], body["stream"]) = (logprobs.clone(), most.into(), false.into());
        let choices = ask(body.clone());
        assert_eq!(choices.len(), 6);
        body["stream"] = true.into();
        let events = server.post("/v1/completions", &body).events();
        for (index, choice) in choices.iter().enumerate() {
            let pieces: Vec<&Value> = events.iter().map(|e| &e["choices"][0]).filter(|p| p["index"] == index).collect();
            let text: String = pieces.iter().filter_map(|piece| piece["text"].as_str()).collect();
            assert_eq!(choice["text"], text, "{index}");
            if logprobs.is_null() {
                assert!(pieces.iter().chain([&choice]).all(|piece| piece["logprobs"].is_null()), "{choice}");
                continue;
            }
            for name in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
                let streamed: Vec<&Value> =
                    pieces.iter().filter_map(|p| p["logprobs"][name].as_array()).flatten().collect();
                assert_eq!(streamed, list(choice, name).iter().collect::<Vec<_>>(), "{index} {name}");
            }
        }
    }
}

/// After the sampler's steps: what is left of the tokens, and how it is drawn from.
#[test]
fn probabilities_after_sampling() {
    let server = Server::start(&["-np", "4"]);
    let body = |more: Value| {
        let mut body = json!({ "prompt": "Once upon a time", "n_predict": 6, "n_probs": 5, "seed": 3, "post_sampling_probs": true });
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        body
    };
    for (more, most) in [
        (json!({ "temperature": 0 }), 1),
        (json!({ "temperature": 1.5, "top_k": 3, "top_p": 1, "min_p": 0 }), 3),
        (json!({ "temperature": 1, "top_k": 3, "grammar": "root ::= [ab]+" }), 3),
    ] {
        let whole = server.post("/completion", &body(more.clone())).json();
        let probs = whole["completion_probabilities"].as_array().unwrap_or_else(|| panic!("{more}: {whole}"));
        assert_eq!(Some(probs.len() as u64), whole["tokens_predicted"].as_u64(), "{more}");
        assert_eq!(whole["generation_settings"]["post_sampling_probs"], true);
        for token in probs {
            let top = token["top_probs"].as_array().unwrap_or_else(|| panic!("{more}: {token}"));
            assert!((1..=most).contains(&top.len()) && token.get("logprob").is_none(), "{more}: {token}");
            let prob = |token: &Value| token["prob"].as_f64().filter(|&p| p > 0.0).unwrap_or_else(|| panic!("{token}"));
            assert!((top.iter().map(prob).sum::<f64>() - 1.0).abs() < 1e-6, "{more}: {token}");
            assert!(top.iter().map(prob).is_sorted_by(|a, b| a >= b), "{more}: {token}");
            let chosen = top.iter().find(|one| one["id"] == token["id"]).unwrap_or_else(|| panic!("{more}: {token}"));
            assert_eq!(prob(chosen), prob(token), "{more}");
        }
        let mut streamed = body(more.clone());
        streamed["stream"] = true.into();
        let events = server.post("/completion", &streamed).events();
        let each: Vec<&Value> =
            events.iter().filter_map(|e| e["completion_probabilities"].as_array()).flatten().collect();
        assert_eq!(each, probs.iter().collect::<Vec<_>>(), "{more}");
    }
}
