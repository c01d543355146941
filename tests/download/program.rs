//! `qrun pull`, `qrun NAME` and the jobs that take a model, as people and scripts use them.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    process::{Command, Output, Stdio},
    sync::{Arc, Mutex},
    thread,
};

use serde_json::Value;

use super::{
    DEMO, Home, assert_bytes, gguf,
    stub::{Fault, Hub, Plan},
};

/// The program, with this hub and no other way to a network, and with this cache or an empty one.
pub fn qrun(hub: &Hub, home: Option<&Home>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qrun"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if ["HF_", "LLAMA_", "HUGGING", "MODEL_", "OLLAMA_"].iter().any(|prefix| name.starts_with(prefix))
            || name.to_ascii_uppercase().ends_with("_PROXY")
        {
            command.env_remove(name);
        }
    }
    let none = std::env::temp_dir().join("qrun-tests-no-cache");
    command.env("HF_ENDPOINT", hub.url()).env("HF_HUB_CACHE", home.map_or(none.clone(), Home::cache));
    command.env("HF_TOKEN_PATH", none).stdin(Stdio::null()).env_remove("NO_COLOR");
    command
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn run(hub: &Hub, home: &Home, words: &[&str]) -> Output {
    qrun(hub, Some(home)).args(words).output().expect("qrun starts")
}

#[track_caller]
fn fails(output: &Output, code: i32, parts: &[&str]) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
    parts.iter().for_each(|part| assert!(said.contains(part), "{part:?} is not in {said}"));
}

#[test]
fn a_name_answers_like_its_file() {
    let hub = Plan::of(&[("x-Q4_K_M.gguf", DEMO)]).start();
    let home = Home::new(&hub);
    let words = ["-p", "What is qrun?", "--temp", "0", "-n", "4", "--device", "cpu"];
    let answer = |model: &[&str]| {
        let output = run(&hub, &home, &[model, &words].concat());
        assert!(output.status.success(), "{model:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let wanted = answer(&["models/demo/qrun-demo-Q4_K_M.gguf"]);
    assert_eq!(hub.seen().len(), 0, "a path asks nobody");
    assert!(!wanted.trim().is_empty());
    assert_eq!(answer(&["u/r"]), wanted);
    let requests = hub.seen().len();
    for model in [&["hf:u/r"][..], &["-m", "u/r"], &["-hf", "u/r:Q4_K_M"], &["-hfr", "u/r", "-hff", "x-Q4_K_M.gguf"]] {
        assert_eq!(answer(model), wanted, "{model:?}");
    }
    assert_eq!(hub.seen().len(), requests, "what the cache has is taken from there");
    // What the command line names stands in place of what the environment does.
    let path = "models/demo/qrun-demo-Q4_K_M.gguf";
    for (model, right) in [(&["u/r"][..], true), (&["-m", path][..], true), (&[][..], false)] {
        let mut command = qrun(&hub, Some(&home));
        command.env("LLAMA_ARG_HF_REPO", "u/r:Q5_K_M").args([model, &words].concat());
        let output = command.output().expect("qrun starts");
        assert_eq!((text(&output.stdout) == wanted, output.status.success()), (right, right), "{model:?}");
    }
    let url = format!("{}/resolve/x-Q4_K_M.gguf", hub.url());
    assert_eq!(answer(&["-mu", &url]), wanted);
    // Jobs take names too.
    for words in
        [&["info", "u/r"][..], &["tokenize", "u/r", "-p", "x"], &["tokenize", "-m", "u/r", "--offline", "-p", "x"]]
    {
        let output = run(&hub, &home, words);
        assert!(output.status.success() && !output.stdout.is_empty(), "{words:?}: {}", text(&output.stderr));
    }
    let out = home.cache().join("out.gguf");
    let output = run(&hub, &home, &["quantize", "u/r", &out.display().to_string(), "Q8_0", "--allow-requantize"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn pull_models_and_rm() {
    let hub = Plan::of(&[("x-Q4_K_M.gguf", DEMO), ("x-Q8_0.gguf", &gguf("llama", 5000))]).start();
    let home = Home::new(&hub);
    let empty = text(&run(&hub, &home, &["models"]).stdout);
    assert!(empty.contains("no models in the cache"), "{empty}");
    let output = run(&hub, &home, &["pull", "u/r"]);
    assert_bytes(text(&output.stdout).trim_end().as_ref(), DEMO);
    let said = text(&output.stderr);
    assert!(said.starts_with("fetching x-Q4_K_M.gguf: "), "{said}");
    let output = run(&hub, &home, &["pull", "u/r:Q8_0", "--json"]);
    let lines: Vec<Value> = text(&output.stdout).lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    let done = lines.iter().rfind(|l| l["file"] == "x-Q8_0.gguf").expect("progress");
    assert_eq!((&done["done"], &done["total"]), (&5000.into(), &5000.into()));
    assert!(lines.last().expect("lines")["path"].as_str().expect("a path").ends_with("x-Q8_0.gguf"));
    for words in [&["models"][..], &["-cl"], &["--cache-list"]] {
        let listing = text(&run(&hub, &home, words).stdout);
        assert!(listing.contains("u/r:x-Q4_K_M.gguf  3.3 MB") && listing.lines().count() == 2, "{listing}");
        // What is listed is a name.
        let name = listing.split("  ").next().expect("a name");
        assert!(run(&hub, &home, &["info", name]).status.success(), "{name}");
    }
    let json: Value = serde_json::from_slice(&run(&hub, &home, &["models", "--json"]).stdout).expect("JSON");
    assert_eq!((&json[0]["file"], &json[0]["bytes"]), (&"x-Q4_K_M.gguf".into(), &DEMO.len().into()));
    assert!(text(&run(&hub, &home, &["models", "--aliases"]).stdout).starts_with("gemma-3-1b-Q4_K_M "));
    assert!(run(&hub, &home, &["rm", "u/r:Q8_0"]).status.success());
    assert!(run(&hub, &home, &["rm", "u/r"]).status.success());
    fails(&run(&hub, &home, &["rm", "u/r"]), 6, &["no such repository", "qrun models"]);
    assert_eq!(home.files(), [""; 0]);
}

#[test]
fn aliases_are_checked_without_fetching() {
    let all = [("x-Q4_K_M.gguf", DEMO), ("x-Q5_K_M.gguf", DEMO), ("x-Q8_0.gguf", DEMO)];
    let hub = Plan::of(&all).start();
    let home = Home::new(&hub);
    let output = run(&hub, &home, &["pull", "--check"]);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert!(said.contains("gemma-3-1b-Q5_K_M      unsloth/gemma-3-1b-it-GGUF: x-Q5_K_M.gguf\n"), "{said}");
    assert!(said.contains("phi-3-mini-Q4_K_M") && hub.sent() == 0 && home.files().is_empty(), "{said}");
    let hub = Plan::of(&all[..1]).start();
    fails(&run(&hub, &home, &["pull", "--check"]), 6, &["aliases stand for files that the hub does not have"]);
}

#[test]
fn exit_codes_say_what_went_wrong() {
    let phi = gguf("mamba", 3 << 20);
    let hub = Plan::of(&[("phi-Q4_K_M.gguf", &phi)]).start();
    let home = Home::new(&hub);
    fails(&run(&hub, &home, &["pull", "u/r:Q8_0"]), 6, &["error: u/r: no file with the tag \"Q8_0\"", "Q4_K_M"]);
    fails(&run(&hub, &home, &["u/r", "-p", "x"]), 3, &["found \"mamba\"", "it was not fetched"]);
    fails(&run(&hub, &home, &["u/r", "-p", "x", "--offline"]), 6, &["not in the cache", "--offline"]);
    fails(&run(&hub, &home, &["info", "u/r", "--offline"]), 6, &["not in the cache"]);
    fails(&run(&hub, &home, &["pull", "a b"]), 2, &["expected a model's name"]);
    fails(&run(&hub, &home, &["-hf", "x.gguf", "-p", "x"]), 2, &["expected a model's name"]);
    fails(&run(&hub, &home, &["m.gguf", "-hf", "u/r", "-p", "x"]), 2, &["two models"]);
    fails(
        &run(&hub, &home, &["gemma-3-1b", "-p", "x"]),
        2,
        &["neither a job nor a file", "did you mean the model gemma-3-1b-it?"],
    );
    fails(&run(&hub, &home, &["info", "u/r", "-hft", "hf_x"]), 2, &["-hft", "HF_TOKEN"]);
    let mut command = qrun(&hub, Some(&home));
    command.env("HF_HUB_OFFLINE", "1").args(["pull", "u/r"]);
    fails(&command.output().expect("qrun starts"), 6, &["not in the cache"]);
    // Nobody listens.
    let mut command = qrun(&hub, Some(&home));
    command.env("HF_ENDPOINT", "http://127.0.0.1:9").args(["pull", "u/r"]);
    fails(&command.output().expect("qrun starts"), 6, &["u/r: 127.0.0.1:9: ", "refused"]);
    // The token of a flag is in no message, also where it is asked for more words.
    let hub = Plan::of(&[("x.gguf", DEMO)]).faults(|_| Some(Fault::Status(403, vec![]))).start();
    let output = run(&hub, &home, &["-hf", "u/r", "-hft", "hf_abcdef", "-v", "-p", "x"]);
    fails(&output, 6, &["token"]);
    assert!(!text(&output.stderr).contains("abcdef"), "{}", text(&output.stderr));
    assert!(hub.seen().iter().all(|seen| seen.authorization.as_deref() == Some("Bearer hf_abcdef")));
}

/// Of a path, the embedded model and what shows something nobody hears: with a hub, and with proxies, that would.
#[test]
fn the_network_is_for_names_only() {
    let hub = Plan::of(&[("x-Q4_K_M.gguf", DEMO)]).start();
    let home = Home::new(&hub);
    let demo = "models/demo/qrun-demo-Q4_K_M.gguf";
    for words in [
        &["-p", "hi", "-n", "1"][..],
        &[demo, "-p", "hi", "-n", "1"],
        &["info", demo],
        &["models"],
        &["--help"],
        &["missing.gguf", "-p", "x"],
        &["src/missing", "-p", "x"],
        &["a/b/c", "-p", "x"],
        &["bnech", "x"],
        &["devices"],
    ] {
        let mut command = qrun(&hub, Some(&home));
        command.env("ALL_PROXY", hub.url()).args(words).output().expect("qrun starts");
        assert_eq!(hub.seen().len(), 0, "{words:?}");
    }
    assert_eq!(home.files(), [""; 0]);
}

#[test]
fn proxies_of_the_environment() {
    let hub = Plan::of(&[("x-Q4_K_M.gguf", DEMO)]).start();
    let (proxy, asked) = tunnel();
    for (name, value, through) in [
        ("ALL_PROXY", format!("http://{proxy}"), true),
        ("HTTP_PROXY", format!("http://{proxy}"), true),
        ("NO_PROXY", "127.0.0.1".to_owned(), false),
    ] {
        let home = Home::new(&hub);
        let mut command = qrun(&hub, Some(&home));
        if name == "NO_PROXY" {
            command.env("ALL_PROXY", format!("http://{proxy}"));
        }
        asked.lock().expect("a list").clear();
        let output = command.env(name, value).args(["pull", "u/r"]).output().expect("qrun starts");
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
        let asked = asked.lock().expect("a list").clone();
        assert_eq!(!asked.is_empty(), through, "{name}: {asked:?}");
        assert!(asked.iter().all(|line| line.contains(&format!("127.0.0.1:{}", hub.port))), "{asked:?}");
    }
}

/// A proxy that opens tunnels; its address, and the first lines of what it was asked.
fn tunnel() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let log = log.clone();
            thread::spawn(move || {
                let mut lines = Vec::new();
                let mut reader = BufReader::new(client.try_clone().expect("a socket"));
                loop {
                    let mut line = String::new();
                    if reader.read_line(&mut line).unwrap_or(0) == 0 || line.trim().is_empty() {
                        break;
                    }
                    lines.push(line);
                }
                let first = lines.first().cloned().unwrap_or_default();
                log.lock().expect("a list").push(first.clone());
                let to = first.split(' ').nth(1).expect("a host").to_owned();
                let mut client = client;
                let mut server = TcpStream::connect(to).expect("the hub");
                client.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").expect("sent");
                let (mut up, mut down) = (server.try_clone().expect("a socket"), client.try_clone().expect("a socket"));
                thread::spawn(move || {
                    let _ = std::io::copy(&mut reader, &mut up);
                    let _ = up.shutdown(std::net::Shutdown::Write);
                });
                let _ = std::io::copy(&mut server, &mut down);
                let _ = down.shutdown(std::net::Shutdown::Write);
            });
        }
    });
    (address, asked)
}
