//! Who shares what was computed with whom.

use serde_json::{Value, json};

use super::Server;

/// Requests in their order: who asks, with which salt, and whether anything of the prompt is cached.
#[test]
fn only_the_same_salt_and_key_share() {
    let prompt = "The sea is wide and the night is long. ".repeat(8);
    for (words, asked) in [
        (
            &[][..],
            &[
                ("one", "", false),
                ("two", "", true),
                ("two", "a", false),
                ("one", "a", true),
                ("one", "b", false),
                ("one", "", true),
            ][..],
        ),
        (
            &["--cache-per-key"],
            &[
                ("one", "", false),
                ("two", "", false),
                ("two", "a", false),
                ("one", "a", false),
                ("one", "", true),
                ("two", "a", true),
            ],
        ),
    ] {
        let server = Server::start(&[&["--api-key", "one,two", "-c", "8192", "-np", "2"], words].concat());
        let mut texts = Vec::new();
        for (i, (key, salt, cached)) in asked.iter().enumerate() {
            // The last field is nobody's to set.
            let body =
                json!({ "prompt": prompt, "n_predict": 8, "temperature": 0, "cache_salt": salt, "cache_owner": "one" });
            let authorization = format!("Bearer {key}");
            let answer =
                server.post_with("/completion", &body.to_string(), &[("authorization", authorization.as_str())]);
            assert_eq!(answer.status, 200, "{}", answer.text);
            let answer = answer.json();
            assert_eq!(
                answer["timings"]["cache_n"].as_u64() > Some(0),
                *cached,
                "{words:?} {i}: {}",
                answer["timings"]
            );
            texts.push(answer["content"].clone());
        }
        assert!(texts.iter().all(|text| text == &texts[0]), "{texts:?}");
    }
}

/// At once, too: what runs now is shared by the same rule.
#[test]
fn running_requests_share_by_salt() {
    let server = Server::start(&["-c", "8192", "--metrics"]);
    let prompt = "The sea is wide and the night is long. ".repeat(8);
    let ask = |salt: usize| {
        let body = json!({ "prompt": prompt, "n_predict": 8, "temperature": 0, "cache_salt": salt.to_string() });
        server.post("/completion", &body).json()["timings"].clone()
    };
    let timings: Vec<(usize, Value)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|i| scope.spawn(move || (i % 4, ask(i % 4)))).collect();
        threads.into_iter().map(|thread| thread.join().expect("an answer")).collect()
    });
    for salt in 0..4 {
        let mut cached: Vec<bool> =
            timings.iter().filter(|(of, _)| *of == salt).map(|(_, t)| t["cache_n"].as_u64() > Some(0)).collect();
        cached.sort_unstable();
        assert_eq!(cached, [false, true], "{salt}: {timings:?}");
    }
}

/// Through Ollama's dialect too, and its `options` name nobody's key.
#[test]
fn keys_share_nothing_through_ollama() {
    let words = ["--api-key", "one,two", "--cache-per-key", "--metrics", "-c", "8192", "-np", "2"];
    let server = Server::start(&words);
    let prompt = "The sea is wide and the night is long. ".repeat(8);
    let cached = || {
        let text = server.get_with("/metrics", &[("x-api-key", "one")]).text;
        let line = text.lines().find_map(|line| line.strip_prefix("llamacpp:prompt_tokens_cached_total "));
        line.and_then(|n| n.parse::<f64>().ok()).unwrap_or_else(|| panic!("no such number: {text}"))
    };
    for (i, (key, salt, expected)) in
        [("one", "", false), ("two", "", false), ("one", "", true), ("two", "", true), ("two", "a", false)]
            .into_iter()
            .enumerate()
    {
        let before = cached();
        let options = json!({ "num_predict": 4, "temperature": 0, "cache_owner": "one" });
        let body = json!({ "prompt": prompt, "raw": true, "stream": false, "options": options, "cache_salt": salt });
        let answer = server.post_with("/api/generate", &body.to_string(), &[("x-api-key", key)]);
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!(cached() > before, expected, "{i}: {key} {salt:?}");
    }
}

/// A slot that another's request has left is empty, and so is the folder of another's files.
#[test]
fn slots_are_their_salts_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a path");
    let words = ["--slot-save-path", path, "--api-key", "one,two", "--cache-per-key", "-np", "1"];
    let server = Server::start(&words);
    let prompt = "The sea is wide and the night is long. ".repeat(8);
    let post = |key: &str, path: &str, body: Value| {
        let answer = server.post_with(path, &body.to_string(), &[("x-api-key", key)]);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        answer.json()
    };
    let cached = |key: &str| {
        post(key, "/completion", json!({ "prompt": prompt, "n_predict": 1 }))["timings"]["cache_n"].as_u64()
    };
    assert_eq!(cached("one"), Some(0));
    assert_eq!(post("two", "/slots/0?action=save", json!({ "filename": "two" }))["n_saved"], 0);
    assert_eq!(post("two", "/slots/0?action=erase", json!({}))["n_erased"], 0);
    let saved = post("one", "/slots/0?action=save", json!({ "filename": "one" }))["n_saved"].clone();
    assert!(saved.as_u64() > Some(64), "{saved}");
    let other = json!({ "filename": "one" }).to_string();
    let refused = server.post_with("/slots/0?action=restore", &other, &[("x-api-key", "two")]);
    assert!(refused.status == 400 && refused.text.contains("a saved slot"), "{}", refused.text);
    // Under one name each has a file of its own, and restores it for himself.
    assert_eq!(post("two", "/slots/0?action=save", json!({ "filename": "one" }))["n_saved"], 0);
    assert_eq!(cached("two"), Some(0));
    assert!(post("two", "/slots/0?action=erase", json!({}))["n_erased"].as_u64() > Some(64));
    assert_eq!(post("one", "/slots/0?action=restore", json!({ "filename": "one" }))["n_restored"], saved);
    assert!(post("one", "/slots/0?action=erase", json!({}))["n_erased"].as_u64() > Some(64));
    assert_eq!((cached("one"), cached("two")), (Some(0), Some(0)));
    // Folders are named so that nobody sees whose they are; a server that is started again finds them.
    drop(server);
    let server = Server::start(&words);
    let again = json!({ "filename": "one" }).to_string();
    let restored = server.post_with("/slots/0?action=restore", &again, &[("x-api-key", "one")]).json();
    assert_eq!(restored["n_restored"], saved, "{restored}");
    let entries = std::fs::read_dir(folder.path()).expect("a folder");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    let sum = |name: &String| name.len() == 32 && name.bytes().all(|c| c.is_ascii_hexdigit());
    assert!(names.len() == 3 && names[0] == ".salt" && names[1..].iter().all(sum), "{names:?}");
}
