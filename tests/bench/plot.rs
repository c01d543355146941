//! Pictures: what is in them, not how they look.

use qrun::bench::{plot::draw, record, suite};
use roxmltree::{Document, Node};
use serde_json::{Value, json};

use super::{bench, printed, refused};

/// Colours of the bars of the decode and of the prompt.
const COLORS: [(&str, [&str; 2]); 2] = [("#0072B2", suite::DECODE), ("#E69F00", suite::PROMPT)];

/// A recorded report of all seven configurations, of a model whose name XML has to escape.
fn report() -> Value {
    let json = include_bytes!("../../benches/runs/2026-11-22-log-BF16-gemma-3-1b.json");
    let mut report = record::read(json).expect("a recorded report");
    report["model"] = "A <model> & \"more\"".into();
    report
}

fn svg(records: &[Value]) -> String {
    String::from_utf8(draw(records, false).expect("a picture")).expect("UTF-8")
}

/// In their order.
fn texts(svg: &str) -> Vec<String> {
    let picture = Document::parse(svg).expect("well-formed XML");
    let texts = picture.descendants().filter(|n| n.has_tag_name("text"));
    texts.map(|n| n.text().unwrap_or_default().trim().to_owned()).collect()
}

#[test]
fn a_picture_says_what_was_measured_where_and_bars_are_as_long_as_shares() {
    let report = report();
    let svg = svg(std::slice::from_ref(&report));
    let (picture, said) = (Document::parse(&svg).expect("well-formed XML"), texts(&svg));
    let number = |node: Node, name: &str| node.attribute(name).and_then(|v| v.parse::<f64>().ok()).expect("a number");
    let value = |m: &Value, field: &str| m[field].as_f64().expect("a number");
    let fixed = ["A <model> & \"more\" BF16", "KV f16/f16", "2 threads", "share of the memory limit", "ms per step"];
    let mut parts: Vec<String> = fixed.map(str::to_owned).into();
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
            parts.push(format!("{:.0} %", 100.0 * share));
            parts.push(if speed < 99.95 { format!("{speed:.1} t/s") } else { format!("{speed:.0} t/s") });
            parts.push(m["config_name"].as_str().expect("a name").to_owned());
            parts.push(format!("{} + {}", m["prompt_tokens"], m["max_new_tokens"]));
        }
    }
    parts.extend(["cpu", "commit"].map(|field| report["machine"][field].as_str().expect("a name").to_owned()));
    parts.push("position in the context, tokens".into());
    parts.push(report["arithmetic"].as_str().expect("a precision").to_owned());
    // Long ones are broken between words.
    let all = said.join(" ");
    for part in parts {
        assert!(all.contains(&part), "{part:?} is not in {all}");
    }
    let letters = picture.descendants().filter(|n| n.has_tag_name("text")).map(|n| number(n, "font-size"));
    assert!(letters.fold(f64::INFINITY, f64::min) >= 11.0, "letters smaller than 11 pixels");
    assert!(svg.contains("prefers-color-scheme: dark"));
}

#[test]
fn axes_have_round_values_of_which_no_two_are_the_same() {
    for (highest, of_time) in [(0.26, "0.00 0.05 0.10 0.15 0.20 0.25"), (118.0, "0 20 40 60 80 100")] {
        let mut report = report();
        for m in report["configs"].as_array_mut().expect("configurations") {
            // A fifth of the height stays free.
            m["step_ms_by_position"] = vec![highest / 1.2; 16].into();
        }
        let svg = svg(&[report]);
        let picture = Document::parse(&svg).expect("well-formed XML");
        let axis = |anchor: &str| {
            let texts = picture.descendants().filter(|n| n.attribute("text-anchor") == Some(anchor));
            texts.filter_map(|n| n.text()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(axis("end"), of_time);
        assert_eq!(axis("middle"), "500 1000 1500 2000 position in the context, tokens");
    }
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
        assert!(said.iter().any(|text| text == part), "{part:?} is not in {said:?}");
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
    for (line, words) in [
        ("--plot out.pdf --compare a.json", [".svg", ".png"]),
        ("--plot out --compare a.json", [".svg", ".png"]),
        ("--plot svg --compare a.json", [".svg", ".png"]),
        ("--plot out.svg", ["no model named", "--synthetic"]),
        ("--compare a.json", ["--plot", "--plot"]),
        ("--plot out.svg --compare none.json", ["--compare", "none.json"]),
    ] {
        refused(line, &words);
    }
    let with = |pointer: &str, value: Value| {
        let mut report = report();
        *report.pointer_mut(pointer).expect(pointer) = value;
        report.to_string()
    };
    for (content, part) in [
        ("not JSON".to_owned(), "JSON"),
        ("[1]".to_owned(), "missing field `suite`"),
        (with("/dtype", Value::Null), "missing field `dtype`"),
        (with("/configs/2", json!({ "config_name": "x" })), "missing field `configs[2].prompt_tokens`"),
        (with("/limits/read_gb_per_s", "fast".into()), "limits.read_gb_per_s: expected a number, found \"fast\""),
        (json!({ "rows": [] }).to_string(), "missing field `machine.cpu`"),
    ] {
        std::fs::write(path("bad.json"), content).expect("a file");
        refused(&format!("--plot out.svg --compare {}", path("bad.json")), &["bad.json", part]);
    }
}
