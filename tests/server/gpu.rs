//! The server on a GPU, an emulated one: the same request gives the same bytes, alone or among others.

use serde_json::{Value, json};

use super::{Server, same};

fn text(server: &Server, (path, body): &(&'static str, Value)) -> String {
    same::text(&server.post(path, body).json())
}

/// Up to four rows go through the same kernels as one, so no more than four run at once (see `models/decoder.rs`).
#[test]
fn same_request_same_bytes() {
    let requests = &same::requests()[..8];
    let machine = Some("sm=80");
    let alone: Vec<String> = {
        let server = Server::start_on(machine, &["--device", "cuda", "-np", "1", "--no-cache-prompt"]);
        requests.iter().map(|request| text(&server, request)).collect()
    };
    assert!(alone.iter().filter(|text| text.len() > 20).count() > requests.len() / 2, "{alone:?}");
    let server = Server::start_on(machine, &["--device", "cuda", "-np", "4", "-c", "8192"]);
    for round in ["cold", "warm"] {
        std::thread::scope(|scope| {
            let threads: Vec<_> = requests.iter().map(|request| scope.spawn(|| text(&server, request))).collect();
            for ((thread, expected), (_, body)) in threads.into_iter().zip(&alone).zip(requests) {
                assert_eq!(&thread.join().expect("an answer"), expected, "{round}: {body}");
            }
        });
    }
}

#[test]
fn a_gpu_takes_more_at_once_than_the_cpu() {
    let slots = |words: &[&str], machine| {
        let server = Server::start_on(Some(machine), words);
        let found = server.get("/slots").json().as_array().map(Vec::len);
        assert_eq!(server.get("/props").json()["total_slots"], json!(found), "{words:?}");
        found
    };
    let gpu = "sm=80";
    assert_eq!(slots(&["--device", "cuda"], gpu), Some(32));
    assert_eq!(slots(&["--device", "auto"], gpu), Some(32));
    assert_eq!(slots(&["--device", "auto"], "devices=0"), Some(16));
    assert_eq!(slots(&["--device", "cpu"], gpu), Some(16));
    assert_eq!(slots(&["--device", "cuda", "-np", "3"], gpu), Some(3));
}
