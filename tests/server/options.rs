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
