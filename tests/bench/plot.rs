//! Pictures: what is in them, not how they look.

use std::collections::BTreeSet;

use qrun::bench::{plot::draw, record, suite};
use roxmltree::{Document, Node};
use serde_json::{Value, json};

use super::{bench, printed, refused};

/// Colours of the bars of the decode and of the prompt.
const COLORS: [(&str, [&str; 2]); 2] = [("#0072B2", suite::DECODE), ("#E69F00", suite::PROMPT)];

/// A report of all seven configurations, each with shares of its own.
fn report() -> Value {
    let configs = suite::configs("full", 512).into_iter().enumerate().map(|(i, config)| {
        let mut row = json!({
            "generated_tokens": config.max_new_tokens, "eos_count": 1, "ttft_median_ms": 100.0,
            "prompt_throughput_median_tps": 30.0 * (i + 1) as f64, "prompt_limit_tps": 300.0,
            "decode_throughput_median_tps": 40.0 - 3.0 * i as f64, "decode_limit_tps": 50.0,
            "e2e_throughput_tps": 20.0, "per_step_latency_p50_ms": 23.0, "per_step_latency_p95_ms": 26.0,
            "per_step_latency_p99_ms": 26.0, "per_step_latency_n": 3 * (config.max_new_tokens - 1),
            "cache_memory_mb": 5.0, "decode_gb_per_s": 20.0,
            "step_ms_by_position": (0..16).map(|part| 20.0 + f64::from(part % 7)).collect::<Vec<_>>(),
        });
        row.as_object_mut().expect("an object").extend(json!(config).as_object().expect("an object").clone());
        row
    });
    json!({
        "suite": "full", "model": "A <model> & \"more\"", "dtype": "Q4_K_M", "arithmetic": "int8 activations",
        "kv_types": ["f16", "f16"], "trials": 3, "warmup_runs": 2,
        "machine": {
            "device": "cpu", "cpu": "A processor", "threads": 2, "gpu": null, "os": "linux", "qrun": "0.1.0",
            "commit": "0123456789ab", "timestamp": "2026-11-21T12:00:00Z",
        },
        "limits": { "read_gb_per_s": 30.0 }, "weight_bytes_per_token": 1000, "configs": configs.collect::<Vec<_>>(),
    })
}

fn svg(records: &[Value]) -> String {
    String::from_utf8(draw(records, false).expect("a picture")).expect("UTF-8")
}

fn texts(svg: &str) -> BTreeSet<String> {
    let picture = Document::parse(svg).expect("well-formed XML");
    let texts = picture.descendants().filter(|n| n.has_tag_name("text"));
    texts.map(|n| n.text().unwrap_or_default().trim().to_owned()).collect()
}

fn number(node: Node, name: &str) -> f64 {
    node.attribute(name).and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn a_picture_says_what_was_measured_where_and_bars_are_as_long_as_shares() {
    let report = report();
    let svg = svg(std::slice::from_ref(&report));
    let (picture, said) = (Document::parse(&svg).expect("well-formed XML"), texts(&svg));
    let value = |m: &Value, field: &str| m[field].as_f64().expect("a number");
    let mut unit = None;
    for (color, [speed, limit]) in COLORS {
        let bars = picture.descendants().filter(|n| n.has_tag_name("rect") && n.attribute("fill") == Some(color));
        // Squares explain colours.
        let bars: Vec<f64> = bars.map(|n| number(n, "width")).filter(|width| *width != 10.0).collect();
        let configs = report["configs"].as_array().expect("configurations");
        assert_eq!(bars.len(), configs.len(), "{color}");
        for (long, m) in bars.iter().zip(configs) {
            let (speed, share) = (value(m, speed), value(m, speed) / value(m, limit));
            let unit = *unit.get_or_insert(long / share);
            assert!((long - share * unit).abs() <= 0.5, "{color}: {long} pixels for {share}, {unit} for 1");
            assert!(said.contains(&format!("{:.0} %", 100.0 * share)), "{share} is not in {said:?}");
            let written = if speed < 99.95 { format!("{speed:.1} t/s") } else { format!("{speed:.0} t/s") };
            assert!(said.contains(&written), "{written} is not in {said:?}");
            let sizes = format!("{} + {}", m["prompt_tokens"], m["max_new_tokens"]);
            assert!(said.contains(m["config_name"].as_str().expect("a name")) && said.contains(&sizes), "{said:?}");
        }
    }
    let all = said.into_iter().collect::<Vec<_>>().join("\n");
    for part in [
        "A <model> & \"more\" Q4_K_M",
        "int8 activations",
        "KV f16/f16",
        "A processor, 2 threads",
        "(0123456789ab)",
        "share of the memory limit",
        "ms per step",
        "position in the context, tokens",
    ] {
        assert!(all.contains(part), "{part:?} is not in {all}");
    }
    let letters = picture.descendants().filter(|n| n.has_tag_name("text")).map(|n| number(n, "font-size"));
    assert!(letters.fold(f64::INFINITY, f64::min) >= 11.0, "letters smaller than 11 pixels");
    assert!(svg.contains("prefers-color-scheme: dark"));
}

#[test]
fn a_png_is_the_same_picture_in_dots() {
    let records = [report()];
    let png = draw(&records, true).expect("a picture");
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    let side = |at: usize| f64::from(u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes"))) / 2.0;
    assert!(svg(&records).contains(&format!("viewBox=\"0 0 {} {}\"", side(16), side(20))));
    // Not one colour: letters and bars compress to more than an empty sheet.
    assert!(png.len() > 30_000, "{} bytes", png.len());
}

#[test]
fn odd_reports_are_drawn_too() {
    let with = |change: &dyn Fn(&mut Value)| {
        let mut odd = report();
        change(&mut odd);
        odd
    };
    let none = with(&|r| r["configs"] = json!([]));
    let short = with(&|r| {
        let mut row = r["configs"][0].clone();
        (row["prompt_limit_tps"], row["step_ms_by_position"]) = (Value::Null, json!([20.0]));
        row["config_name"] = "a\u{0}\u{1b}\nb".into();
        (r["model"], r["configs"]) = ("long ".repeat(100).into(), vec![row; 40].into());
    });
    let mut cases = vec![vec![], vec![none.clone()], vec![none.clone(), none], vec![short.clone()], vec![short; 6]];
    for value in [json!(null), json!(0.0), json!(-1.0), json!(1e-300), json!(1e300)] {
        let odd = with(&|r| {
            for m in r["configs"].as_array_mut().expect("configurations") {
                let fields = [suite::DECODE, suite::PROMPT].concat();
                fields.iter().chain(&["per_step_latency_p99_ms"]).for_each(|field| m[*field] = value.clone());
                m["step_ms_by_position"] = vec![value.clone(); 16].into();
            }
        });
        cases.extend([vec![odd.clone()], vec![report(), odd]]);
    }
    for records in cases {
        Document::parse(&svg(&records)).expect("well-formed XML");
        draw(&records, true).expect("a picture");
    }
}

#[test]
fn peers_stand_beside_qrun() {
    let turns = |speeds: &[f64]| {
        let turns: Vec<Value> = speeds.iter().map(|s| json!({ "prefill": 10.0 * s, "decode": s })).collect();
        json!({ "turns": turns })
    };
    let run = json!({
        "machine": { "cpu": "A processor", "threads": 2, "date": "2026-11-21", "commit": "0123456789ab" },
        "prefill": 512, "decode": 32,
        "rows": [{ "model": "a-model", "type": "Q8_0", "engines": {
            "qrun": turns(&[20.0, 24.0]), "llama.cpp": turns(&[12.0, 11.0]), "absent": { "turns": [], "failed": "no" },
        } }],
    });
    let said = texts(&svg(&[record::read(run.to_string().as_bytes()).expect("a run of peers")]));
    // The best turns, and the second engine beside the first.
    for part in ["a-model", "Q8_0", "qrun", "llama.cpp", "absent", "24.0", "12.0", "240", "120", "×0.50", "–"] {
        assert!(said.contains(part), "{part:?} is not in {said:?}");
    }
}

#[test]
fn recorded_reports_become_a_picture_and_what_cannot_be_drawn_is_exit_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("a.json"), report().to_string()).expect("a file");
    for end in ["svg", "png"] {
        let picture = path(&format!("out.{end}"));
        printed(&bench(&format!("--plot {picture} --compare {0} --compare {0}", path("a.json"))));
        assert!(std::fs::metadata(&picture).expect("a picture").len() > 10_000);
    }
    for name in ["out.pdf", "out", "svg"] {
        refused(&format!("--plot {name} --compare a.json"), &[".svg", ".png"]);
    }
    refused("--plot out.svg", &["no model named"]);
    refused("--compare a.json", &["--plot"]);
    refused(&format!("--plot out.svg --compare {}", path("none.json")), &["none.json"]);
    let without = |object: &str, field: &str| {
        let mut report = report();
        report.pointer_mut(object).and_then(Value::as_object_mut).expect(object).shift_remove(field);
        report.to_string()
    };
    let mut other = report();
    other["limits"]["read_gb_per_s"] = "fast".into();
    for (content, part) in [
        ("not JSON".to_owned(), "JSON"),
        ("[1]".to_owned(), "missing field `suite`"),
        (without("", "dtype"), "missing field `dtype`"),
        (without("/configs/2", "step_ms_by_position"), "missing field `configs[2].step_ms_by_position`"),
        (other.to_string(), "field limits.read_gb_per_s: expected a number, found \"fast\""),
        (json!({ "rows": [] }).to_string(), "missing field `machine.cpu`"),
    ] {
        std::fs::write(path("bad.json"), content).expect("a file");
        refused(&format!("--plot out.svg --compare {}", path("bad.json")), &["bad.json", part]);
    }
}
