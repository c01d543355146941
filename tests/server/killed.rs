//! kill -9 in the middle of everything: what is left behind is whole, and the next server says what the last one would have.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use nix::sys::signal::Signal::SIGKILL;
use serde_json::{Value, json};

use super::{Server, until};

/// How often the server is killed.
const ROUNDS: u64 = 6;
/// Names of slots that are saved, in turns.
const NAMES: [&str; 3] = ["a.bin", "b.bin", "c.bin"];

/// Begins a request on a connection of its own; `None` where nobody is there any more.
fn begin(server: &Server, path: &str, body: &Value) -> Option<TcpStream> {
    let body = body.to_string();
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    let mut connection = TcpStream::connect(("127.0.0.1", server.port)).ok()?;
    connection.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    connection.write_all(request.as_bytes()).ok()?;
    Some(connection)
}

/// All that comes until the connection ends.
fn rest(mut connection: TcpStream) -> String {
    let mut bytes = Vec::new();
    let _ = connection.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The text of a stream, as far as whole events have come.
fn heard(stream: &str) -> String {
    let events = stream.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    events.filter_map(|event| event["content"].as_str().map(str::to_owned)).collect()
}

/// Saves slot 1 again and again until nobody answers; says how often it was done.
fn save_on(server: &Server) -> usize {
    let saved = |i: &usize| {
        let body = json!({ "filename": NAMES[i % NAMES.len()] });
        let answer = begin(server, "/slots/1?action=save", &body).map(rest).unwrap_or_default();
        answer.starts_with("HTTP/1.1 200 ")
    };
    (0..10_000).take_while(saved).count()
}

#[test]
fn nothing_is_broken_by_kill_9() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = ["--slot-save-path", folder.path().to_str().expect("a path"), "-np", "2", "-c", "8192"];
    let story =
        json!({ "prompt": "Once upon a time", "id_slot": 0, "temperature": 0, "n_predict": 3000, "ignore_eos": true });
    let prompt = "The sea is wide and the night is long. ".repeat(40);
    let sea = json!({ "prompt": prompt, "id_slot": 1, "temperature": 0, "n_predict": 8, "ignore_eos": true });
    let text = |server: &Server, body: &Value| {
        let answer = server.post("/completion", body).json();
        answer["content"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    };
    let act = |server: &Server, action: &str, name: &str| {
        let answer = server.post(&format!("/slots/1?action={action}"), &json!({ "filename": name }));
        (answer.status, answer.json())
    };
    let (whole, short, tokens) = {
        let server = Server::start(&words);
        let texts = (text(&server, &story), text(&server, &sea));
        let (status, saved) = act(&server, "save", NAMES[0]);
        assert_eq!(status, 200, "{saved}");
        (texts.0, texts.1, saved["n_saved"].clone())
    };
    let mut streamed = story.clone();
    streamed["stream"] = true.into();
    let (mut saves, mut pieces) = (0, 0);
    // Once more at the end, to look at what the last one has left.
    for round in 0..=ROUNDS {
        let server = Server::start(&words);
        for name in NAMES {
            let expected = if folder.path().join(name).is_file() { (200, tokens.clone()) } else { (400, Value::Null) };
            let (status, answer) = act(&server, "restore", name);
            assert_eq!((status, answer["n_restored"].clone()), expected, "round {round}, {name}: {answer}");
        }
        let entries = std::fs::read_dir(folder.path()).expect("a folder");
        let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"));
        let others: Vec<String> = names.filter(|name| !NAMES.contains(&name.as_str())).collect();
        // What was not whole has a name that nobody can ask for.
        assert!(others.iter().all(|name| name.starts_with('.')), "round {round}: {others:?}");
        assert_eq!(text(&server, &sea), short, "round {round}");
        if round == ROUNDS {
            assert_eq!(text(&server, &story), whole);
            break;
        }
        let stream = begin(&server, "/completion", &streamed).expect("a connection");
        let read = std::thread::scope(|scope| {
            let reader = scope.spawn(|| rest(stream));
            let saver = scope.spawn(|| save_on(&server));
            until("a token comes", || server.get("/slots").json()[0]["next_token"][0]["n_decoded"].as_u64() > Some(0));
            std::thread::sleep(Duration::from_millis(17 * round));
            server.signal(SIGKILL);
            saves += saver.join().expect("a number");
            heard(&reader.join().expect("a text"))
        });
        assert_eq!(server.wait().0, None, "killed");
        pieces += usize::from(!read.is_empty());
        assert!(read.len() < whole.len() && whole.starts_with(&read), "round {round}: {read:?} of {whole:?}");
    }
    assert!(saves > 0 && pieces > 0, "{saves} slots were saved, {pieces} streams had begun");
}
