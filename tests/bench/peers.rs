//! Turns of several engines, the peers played by scripts of a shell.

use std::{
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::Result;
use qrun::bench::{
    peers::{markdown, verdicts},
    record,
};
use serde_json::{Value, json};

#[path = "../../benches/peers/rounds.rs"]
mod rounds;
#[path = "../../benches/peers/turns.rs"]
mod turns;

/// More than a script needs that ends by itself.
const LONG: Duration = Duration::from_secs(120);
/// Less than `sleep 60` takes.
const SHORT: Duration = Duration::from_millis(300);

fn play(script: &str, limit: Duration) -> Result<Value> {
    turns::run(Command::new("sh").args(["-c", script]), limit)
}

#[test]
fn a_turn_is_the_json_of_its_last_line_or_says_what_went_wrong_and_how_long_it_took() {
    for (script, expected) in [
        (r#"echo noise; echo '{"decode": 2}'; echo warned >&2"#, 2),
        (r#"echo '{"decode": 2}'; echo; echo"#, 2),
        // More than a pipe holds, of which nobody reads the beginning.
        (r#"head -c 300000 /dev/zero | tr '\0' 'x'; echo; echo '{"decode": 3}'"#, 3),
        // What it leaves behind keeps nobody waiting.
        (r#"sleep 60 & echo '{"decode": 4}'"#, 4),
    ] {
        assert_eq!(play(script, LONG).expect(script), json!({ "decode": expected }), "{script}");
    }
    for (script, limit, words) in [
        ("sleep 60", SHORT, ["still running after ", "--limit SECONDS"]),
        ("sleep 60 & wait", SHORT, ["still running after ", "--limit SECONDS"]),
        ("trap '' TERM INT; while :; do sleep 1; done", SHORT, ["still running after ", "--limit SECONDS"]),
        ("kill -SEGV $$", LONG, ["signal: 11", " s: nothing; all that it said is on stderr"]),
        ("echo why >&2; echo >&2; exit 3", LONG, ["exit status: 3 after ", " s: why; all that it said is on stderr"]),
        ("echo hello", LONG, ["expected JSON, found hello", "stderr"]),
        ("echo '{\"decode\": NaN}'", LONG, ["expected JSON, found {\"decode\": NaN}", "stderr"]),
        ("true", LONG, ["expected JSON, found nothing", "stderr"]),
    ] {
        let error = format!("{:#}", play(script, limit).expect_err(script));
        for word in words {
            assert!(error.contains(word), "{script}: {word:?} is not in {error}");
        }
    }
    let missing = turns::run(&mut Command::new("no-such-program"), LONG).expect_err("no program");
    assert!(format!("{missing:#}").contains("no-such-program"), "{missing:#}");
}

#[cfg(target_os = "linux")]
#[test]
fn nothing_that_a_turn_started_outlives_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = [("stopped", "wait", 2), ("crashed", "exit 1", 120), ("done", "echo '{}'", 120)];
    for (name, then, limit) in cases {
        let file = folder.path().join(name);
        let turn = play(&format!("sleep 600 & echo $! > {}; {then}", file.display()), Duration::from_secs(limit));
        assert_eq!(turn.is_ok(), name == "done", "{name}: {turn:?}");
        let pid = std::fs::read_to_string(file).expect("its number");
        // Behind the name, in brackets: Z where it has ended and nobody has asked how.
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        let runs = || state().rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']));
        let start = Instant::now();
        while runs() && start.elapsed() < LONG {
            sleep(Duration::from_millis(10));
        }
        assert!(!runs(), "{name}: {}", state());
    }
}

#[test]
fn everyone_begins_in_turn() {
    let names = ["a", "b", "c", "d"];
    for n in 0..=names.len() {
        let (engines, order) = rounds::rounds("a test", &names[..n], 9, |_, name| Ok(json!({ "by": name })));
        let expected = |round| (round..round + n).map(|at| names[at % n]).collect::<Vec<_>>();
        assert_eq!(order, (0..9).map(expected).collect::<Vec<_>>(), "{n} engines");
        let all = |(name, taken): (&String, &Value)| *taken == json!({ "turns": vec![json!({ "by": name }); 9] });
        assert!(engines.iter().all(all));
    }
}

/// The record of four rounds of qrun, an engine that is well, one that hangs, and one that crashes in its second turn.
fn record(of_qrun: &str) -> Value {
    let well = r#"echo '{"prefill": 20.0, "decode": 2.0, "bytes_per_token": 1000000000}'"#;
    let names = ["qrun", "well", "hangs", "crashes"];
    let (engines, order) = rounds::rounds("a test", &names, 4, |round, name| match (name, round) {
        ("qrun", _) => play(of_qrun, LONG),
        ("hangs", _) => play("sleep 60", SHORT),
        ("crashes", 1) => play("kill -KILL $$", LONG),
        _ => play(well, LONG),
    });
    json!({
        "machine": { "cpu": "A processor", "threads": 2, "date": "2026-11-21", "commit": "0123456789ab" },
        "prefill": 512, "decode": 32, "skipped": {},
        "rows": [{
            "model": "a-model", "type": "Q8_0", "bytes_per_token": 1_000_000_000, "read_gb_per_s": 10.0,
            "order": order, "engines": engines,
        }],
    })
}

#[test]
fn rounds_go_on_without_those_that_failed() {
    let run = record(r#"echo '{"prefill": 40.0, "decode": 3.0}'"#);
    let row = &run["rows"][0];
    let order =
        json!([["qrun", "well", "hangs", "crashes"], ["well", "crashes", "qrun"], ["qrun", "well"], ["well", "qrun"]]);
    assert_eq!(row["order"], order);
    let turns = ["qrun", "well", "hangs", "crashes"].map(|name| row["engines"][name]["turns"].as_array().map(Vec::len));
    assert_eq!(turns, [4, 4, 0, 1].map(Some));
    assert!(row["engines"]["qrun"].get("failed").is_none());
    record::read(run.to_string().as_bytes()).expect("a picture can be made of it");
    let (table, without) = (markdown(std::slice::from_ref(&run)), markdown(&[record("exit 1")]));
    for (table, line) in [
        (&table, "| model | type | qrun pp512 / tg32 | well | hangs | crashes | tg of memory bandwidth |"),
        (
            &table,
            "| a-model | Q8_0 | 40.0 / 3.0 | 20.0 (×2.00) / 2.0 (×1.50) | failed | 20.0 (×2.00) / 2.0 (×1.50) | 30 % |",
        ),
        (&table, "* hangs: a-model Q8_0 failed: still running after"),
        (&table, "* crashes: a-model Q8_0 failed: signal: 9 (SIGKILL)"),
        // A run in which qrun fails is kept too.
        (&without, "| a-model | Q8_0 | failed | 20.0 / 2.0 | failed | 20.0 / 2.0 |  |"),
        (&without, "* qrun: a-model Q8_0 failed: exit status: 1"),
    ] {
        assert!(table.contains(line), "{line:?} is not in\n{table}");
    }
}

#[test]
fn a_verdict_is_about_times_as_fast_or_about_bandwidth() {
    let row = |model: &str, [prefill, decode]: [f64; 2], bytes: u64| {
        let turns = |prefill: f64, decode: f64| json!({ "turns": [{ "prefill": prefill, "decode": decode }] });
        json!({
            "model": model, "type": "Q8_0", "bytes_per_token": bytes, "read_gb_per_s": 10.0,
            "engines": { "qrun": turns(prefill, decode), "llama-cpp": turns(100.0, 4.0) },
        })
    };
    let mut run = json!({ "rows": [
        row("fast", [200.0, 5.0], 1_000_000_000),
        row("near", [199.0, 4.5], 1_900_000_000),
        row("slow", [100.0, 4.0], 1_000_000_000),
    ]});
    let expected = [
        "fast Q8_0: prefill ×2.00: reached; decode ×1.25, 50 % of bandwidth: reached",
        "near Q8_0: prefill ×1.99: missed (×2); decode ×1.12, 86 % of bandwidth: reached",
        "slow Q8_0: prefill ×1.00: missed (×2); decode ×1.00, 40 % of bandwidth: missed (×1.25)",
    ];
    assert_eq!(verdicts(&run), expected);
    // Without the other engine there is none; without bandwidth (on a GPU) times alone count.
    run["rows"][0]["engines"]["llama-cpp"] = json!({ "failed": "exit status: 1" });
    run["rows"][1]["read_gb_per_s"] = Value::Null;
    assert_eq!(verdicts(&run)[0], "near Q8_0: prefill ×1.99: missed (×2); decode ×1.12: missed (×1.25)");
}
