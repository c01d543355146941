//! Slots that are saved, restored and erased.

use serde_json::{Value, json};

use super::Server;

/// Tokens of the prompt that were computed, tokens that were cached, and the text.
fn ask(server: &Server, prompt: &str, slot: i64) -> (u64, u64, String) {
    let body = json!({ "prompt": prompt, "id_slot": slot, "temperature": 0, "n_predict": 24, "ignore_eos": true });
    let answer = server.post("/completion", &body).json();
    let number = |place: &str| answer.pointer(place).and_then(Value::as_u64).unwrap_or_else(|| panic!("{answer}"));
    assert_eq!(answer["id_slot"], slot, "{answer}");
    (number("/timings/prompt_n"), number("/timings/cache_n"), answer["content"].as_str().unwrap_or_default().to_owned())
}

fn act(server: &Server, slot: u32, action: &str, name: &str) -> Value {
    let answer = server.post(&format!("/slots/{slot}?action={action}"), &json!({ "filename": name }));
    assert_eq!(answer.status, 200, "{action} {name}: {}", answer.text);
    assert_eq!(answer.json()["id_slot"], slot);
    answer.json()
}

/// What is restored need not be computed, in the server that saved it and in another one, and changes no answer.
#[test]
fn a_saved_slot_goes_on_where_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = ["--slot-save-path", folder.path().to_str().expect("a path"), "-np", "2", "-c", "2048"];
    let prompt = "The sea is wide and the night is long. ".repeat(12);
    let server = Server::start(&words);
    let (all, cached, text) = ask(&server, &prompt, 1);
    assert!(all > 64 && cached == 0, "{all} {cached}");
    let saved = act(&server, 1, "save", "sea.bin");
    // All but the token that was chosen last, which has not been through the layers.
    assert_eq!(saved["n_saved"], all + 24 - 1, "{saved}");
    let size = std::fs::metadata(folder.path().join("sea.bin")).expect("a file").len();
    assert_eq!((&saved["n_written"], &saved["filename"]), (&json!(size), &json!("sea.bin")));
    assert!(saved["timings"]["save_ms"].as_f64() > Some(0.0), "{saved}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing else is left there");
    // Saved and erased, the slot is as it was before the request.
    assert_eq!(act(&server, 1, "erase", "")["n_erased"], saved["n_saved"]);
    assert_eq!(act(&server, 1, "erase", "")["n_erased"], 0);
    assert_eq!(ask(&server, &prompt, 1), (all, 0, text.clone()));
    assert_eq!(act(&server, 1, "erase", "")["n_erased"], saved["n_saved"]);
    let restored = act(&server, 0, "restore", "sea.bin");
    assert_eq!((&restored["n_restored"], &restored["n_read"]), (&saved["n_saved"], &json!(size)), "{restored}");
    assert!(restored["timings"]["restore_ms"].as_f64() > Some(0.0), "{restored}");
    assert_eq!(ask(&server, &prompt, 0), (1, all - 1, text.clone()));
    drop(server);
    let server = Server::start(&words);
    act(&server, 1, "restore", "sea.bin");
    assert_eq!(ask(&server, &prompt, 0), (1, all - 1, text));
    // What was restored can be saved again, and what nobody used is a file too.
    assert_eq!(act(&server, 1, "save", "again.bin")["n_saved"], saved["n_saved"]);
    let other = Server::start(&words);
    assert_eq!(act(&other, 1, "save", "empty.bin")["n_saved"], 0);
    assert_eq!(act(&other, 1, "restore", "empty.bin")["n_restored"], 0);
}

/// A slot whose request runs waits for its end; others need not.
#[test]
fn a_busy_slot_is_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a path");
    let server = Server::start(&["--slot-save-path", path, "-np", "2", "-c", "4096", "--queue-timeout", "1"]);
    let running = || server.get("/slots").json()[0]["is_processing"] == true;
    let endless = json!({ "prompt": "a", "id_slot": 0, "ignore_eos": true, "n_predict": 1900 });
    std::thread::scope(|scope| {
        let request = scope.spawn(|| server.post("/completion", &endless).json());
        super::until("the request runs", running);
        assert_eq!(act(&server, 1, "save", "free.bin")["n_saved"], 0);
        let mut answer = server.post("/slots/0?action=save", &json!({ "filename": "busy.bin" }));
        while answer.status == 503 {
            assert!(answer.text.contains("busy"), "{}", answer.text);
            answer = server.post("/slots/0?action=save", &json!({ "filename": "busy.bin" }));
        }
        let whole = request.join().expect("an answer");
        let held = whole["tokens_evaluated"].as_u64().zip(whole["tokens_predicted"].as_u64()).expect("numbers");
        assert_eq!(answer.json()["n_saved"], held.0 + held.1 - 1, "{}", answer.text);
    });
}

/// Names, slots, actions and files that are refused: status, and a part of the message.
#[test]
fn what_is_no_slot_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a path");
    let server = Server::start(&["--slot-save-path", path, "-np", "2", "-c", "1024"]);
    let saved = |name: &str| folder.path().join(name);
    ask(&server, "What is qrun?", 0);
    act(&server, 0, "save", "good.bin");
    let good = std::fs::read(saved("good.bin")).expect("a file");
    let files: Vec<(String, Vec<u8>)> = [0, 4, 30, 52, 60, good.len() / 2, good.len() - 1]
        .into_iter()
        .map(|n| (format!("cut{n}.bin"), good[..n].to_vec()))
        .chain([9, 13, 21, 29, 37, 53, good.len() - 2].into_iter().map(|at| {
            let mut bytes = good.clone();
            bytes[at] ^= 0x40;
            (format!("flip{at}.bin"), bytes)
        }))
        .chain([("text.bin".into(), b"a text of another kind, and longer than a header of this one is.".to_vec())])
        .collect();
    for (name, bytes) in &files {
        std::fs::write(saved(name), bytes).expect("a file");
        let answer = server.post("/slots/1?action=restore", &json!({ "filename": name }));
        let message = answer.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(answer.status == 400 && message.contains("expected") && !message.contains(path), "{name}: {message}");
    }
    std::fs::create_dir(saved("folder")).expect("a folder");
    let long = "x".repeat(129);
    for (query, body, part) in [
        ("0?action=save", json!({}), "filename is missing"),
        ("0?action=save", json!([]), "the body"),
        ("0?action=save", json!({ "filename": 5 }), "a string"),
        ("0?action=save", json!({ "filename": "" }), "a name of"),
        ("0?action=save", json!({ "filename": "../x" }), "a name of"),
        ("0?action=save", json!({ "filename": "a/x" }), "a name of"),
        ("0?action=save", json!({ "filename": "a\\x" }), "a name of"),
        ("0?action=save", json!({ "filename": "a\u{0}x" }), "a name of"),
        ("0?action=save", json!({ "filename": ".x" }), "a name of"),
        ("0?action=save", json!({ "filename": "a..x" }), "a name of"),
        ("0?action=save", json!({ "filename": long }), "a name of"),
        ("0?action=restore", json!({ "filename": "/etc/passwd" }), "a name of"),
        ("0?action=restore", json!({ "filename": "nobody.bin" }), "a saved slot"),
        ("0?action=restore", json!({ "filename": "folder" }), "a qrun session"),
        ("0?action=save", json!({ "filename": "text.bin" }), "that of a saved slot"),
        ("0?action=save", json!({ "filename": "folder" }), "that of a saved slot"),
        ("0?action=burn", json!({}), "save, restore or erase"),
        ("0", json!({}), "save, restore or erase"),
        ("2?action=erase", json!({}), "a number from 0 to 1"),
        ("-1?action=erase", json!({}), "a number from 0 to 1"),
        ("x?action=erase", json!({}), "a number from 0 to 1"),
    ] {
        let answer = server.post(&format!("/slots/{query}"), &body);
        assert_eq!(answer.status, 400, "{query} {body}: {}", answer.text);
        let message = answer.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains(part) && !message.contains(path), "{query} {body}: {message}");
    }
    // What was refused has changed nothing; what is a slot is replaced.
    assert!(std::fs::read(saved("text.bin")).expect("a file").starts_with(b"a text of another kind"));
    act(&server, 0, "save", "good.bin");
    assert_eq!(ask(&server, "What is qrun?", 0).0, 1);
    let plain = Server::start(&[]);
    let refused = plain.post("/slots/0?action=erase", &json!({}));
    assert_eq!((refused.status, &refused.json()["error"]["type"]), (501, &json!("not_supported_error")));
}

/// What a save has left that was killed is gone with the next one of its name, unless somebody may still write to it.
#[test]
fn what_a_killed_save_has_left_is_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let server =
        Server::start(&["--slot-save-path", folder.path().to_str().expect("a path"), "-np", "2", "-c", "1024"]);
    let hours_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * 3600);
    let id = "0123456789abcdef00000001";
    let files = [
        (format!(".a.bin.{id}"), true, true),
        (format!(".a.bin.{id}f"), true, true),
        (format!(".a.bin.f{}", &id[1..]), false, false),
        (format!(".b.bin.{id}"), true, false),
        (format!(".a.bin.x.{id}"), true, false),
        (format!(".a.bin.{}", &id[1..]), true, false),
        (format!("a.bin.{id}"), true, false),
        (".a.bin.notes".into(), true, false),
    ];
    for (name, old, _) in &files {
        let file = std::fs::File::create(folder.path().join(name)).expect("a file");
        if *old {
            file.set_modified(hours_ago).expect("a time");
        }
    }
    act(&server, 0, "save", "a.bin");
    for (name, _, gone) in &files {
        assert_eq!(!folder.path().join(name).exists(), *gone, "{name}");
    }
    act(&server, 0, "restore", "a.bin");
}
