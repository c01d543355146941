//! The server on a GPU, an emulated one: the same request gives the same bytes, alone or among others.

use qrun::tools::{quantize::FileType, synth};
use serde_json::{Value, json};

use super::{Server, same};

fn text(server: &Server, (path, body): &(&'static str, Value)) -> String {
    same::text(&server.post(path, body).json())
}

#[test]
fn same_request_same_bytes() {
    let requests = &same::requests()[..6];
    let machine = Some("sm=80");
    let alone: Vec<String> = {
        let server = Server::start_on(machine, &["--device", "cuda", "-np", "1", "--no-cache-prompt"]);
        requests.iter().map(|request| text(&server, request)).collect()
    };
    assert!(alone.iter().filter(|text| text.len() > 20).count() > requests.len() / 2, "{alone:?}");
    let server = Server::start_on(machine, &["--device", "cuda", "-np", "6", "-c", "8192"]);
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
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| {
        let path = folder.path().join(name);
        synth::synth(name, FileType::Q8_0, 7, &path, &mut |_, _| {}).expect("a model");
        path.into_os_string().into_string().expect("UTF-8")
    };
    let (llama, gemma) = (file("tiny-llama"), file("tiny-gemma3"));
    let slots = |model: &str, words: &[&str], machine| {
        let server = Server::start_on(Some(machine), &[&[model], words].concat());
        let found = server.get("/slots").json().as_array().map(Vec::len);
        assert_eq!(server.get("/props").json()["total_slots"], json!(found), "{words:?}");
        found
    };
    let gpu = "sm=80";
    assert_eq!(slots(&llama, &["--device", "cuda"], gpu), Some(32));
    assert_eq!(slots(&llama, &["--device", "auto"], gpu), Some(32));
    assert_eq!(slots(&llama, &["--device", "auto"], "devices=0"), Some(16));
    assert_eq!(slots(&llama, &["--device", "cpu"], gpu), Some(16));
    assert_eq!(slots(&llama, &["--device", "cuda", "-np", "3"], gpu), Some(3));
    // The last of them can be dealt with.
    let path = folder.path().to_str().expect("a path");
    let server = Server::start_on(Some(gpu), &[llama.as_str(), "--device", "cuda", "--slot-save-path", path]);
    let erase = |slot: usize| server.post(&format!("/slots/{slot}?action=erase"), &json!({})).status;
    assert_eq!((erase(31), erase(32)), (200, 400));
    drop(server);
    // Sliding windows take pages per sequence.
    assert_eq!(slots(&gemma, &["--device", "cuda"], gpu), Some(16));
}
