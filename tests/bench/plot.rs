//! Pictures: what is in them, not how they look.

use std::{collections::BTreeSet, path::Path};

use qrun::bench::{
    plot::{Format, Series, draw, recorded::Recorded},
    report::Report,
    suite::Suite,
};
use roxmltree::{Document, Node};
use serde_json::{Value, json};

use super::{bench, refused, text};

/// Colours of the bars of the decode and of the prompt.
const DECODE: &str = "#0072B2";
const PROMPT: &str = "#E69F00";
/// The sides of the square that explains a colour, in pixels.
const KEY: f64 = 10.0;

/// A report of all seven configurations, each with shares of its own.
fn report() -> Value {
    let configs = Suite::Full.configs(512).into_iter().enumerate().map(|(i, config)| {
        let mut measured = serde_json::to_value(&config).expect("JSON");
        let steps: Vec<f64> = (0..16).map(|part| 20.0 + (part % 7) as f64).collect();
        let speeds = json!({
            "generated_tokens": config.n_gen, "eos_count": 1, "ttft_median_ms": 100.0,
            "prompt_throughput_median_tps": 30.0 * (i + 1) as f64, "prompt_limit_tps": 300.0,
            "decode_throughput_median_tps": 40.0 - 3.0 * i as f64, "decode_limit_tps": 50.0,
            "e2e_throughput_tps": 20.0, "per_step_latency_mean_ms": 23.0, "per_step_latency_p50_ms": 23.0,
            "per_step_latency_p90_ms": 25.0, "per_step_latency_p95_ms": 26.0, "per_step_latency_p99_ms": 26.0, "per_step_latency_min_ms": 20.0,
            "per_step_latency_max_ms": 26.0, "per_step_latency_n": 3 * (config.n_gen - 1), "wall_time_median_s": 3.0, "cache_memory_mb": 5.0,
            "peak_memory_gb": 1.0, "step_bytes": 1e9, "decode_gb_per_s": 20.0, "step_ms_by_position": steps, "wall_s": [3.0],
        });
        measured.as_object_mut().expect("an object").extend(speeds.as_object().expect("an object").clone());
        measured
    });
    json!({
        "suite": "full", "model": "A <model> & \"more\"", "dtype": "Q4_K_M", "arithmetic": "int8 activations",
        "kv_types": ["f16", "f16"], "use_kv_cache": true, "trials": 3, "warmup_runs": 2,
        "machine": {
            "device": "cpu", "cpu": "A processor", "cpu_mhz": null, "threads": 2, "gpu": null, "os": "linux",
            "qrun": "0.1.0", "commit": "0123456789ab", "timestamp": "2026-11-21T12:00:00Z",
        },
        "limits": { "read_gb_per_s": 30.0, "dot_gop_per_s": 100.0, "fma_gop_per_s": 50.0 },
        "n_params": 1000, "model_size": 1000, "weight_bytes_per_token": 1000, "load_ms": 5.0,
        "configs": configs.collect::<Vec<_>>(),
    })
}

fn read(report: &Value) -> Report {
    serde_json::from_value(report.clone()).expect("a report")
}

fn svg(series: &Series) -> String {
    text(&draw(series, Format::Svg).expect("a picture"))
}

fn texts(picture: &Document) -> BTreeSet<String> {
    let texts = picture.descendants().filter(|n| n.has_tag_name("text"));
    texts.map(|n| n.text().unwrap_or_default().trim().to_owned()).collect()
}

fn number(node: Node, name: &str) -> f64 {
    node.attribute(name).and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name}"))
}

/// Heights of the bars of a colour, from left to right.
fn bars(picture: &Document, color: &str) -> Vec<f64> {
    let rects = picture.descendants().filter(|n| n.has_tag_name("rect") && n.attribute("fill") == Some(color));
    let mut bars: Vec<(f64, f64)> =
        rects.filter(|n| number(*n, "width") != KEY).map(|n| (number(n, "x"), number(n, "height"))).collect();
    bars.sort_by(|a, b| a.0.total_cmp(&b.0));
    bars.into_iter().map(|bar| bar.1).collect()
}

#[test]
fn a_picture_says_what_was_measured_where() {
    let report = read(&report());
    let svg = svg(&Series { reports: vec![report.clone()], peers: vec![] });
    let picture = Document::parse(&svg).expect("well-formed XML");
    let said = texts(&picture);
    for measured in &report.configs {
        assert!(said.contains(&measured.config.name), "{} is not in {said:?}", measured.config.name);
        assert!(said.contains(&format!("{} + {}", measured.config.n_prompt, measured.config.n_gen)), "{said:?}");
        let speed = measured.decode_throughput_median_tps;
        assert!(said.contains(&format!("{:.0} %", 100.0 * measured.decode_share())), "{said:?}");
        assert!(said.contains(&format!("{speed:.1} t/s")), "{speed} is not in {said:?}");
    }
    let all = said.into_iter().collect::<Vec<_>>().join("\n");
    for part in ["A <model> & \"more\" Q4_K_M", "int8 activations", "KV cache f16/f16", "A processor, 2 threads"] {
        assert!(all.contains(part), "{part:?} is not in {all}");
    }
    for part in ["commit 0123456789ab", "% of the limit", "ms per step", "position in the context, tokens"] {
        assert!(all.contains(part), "{part:?} is not in {all}");
    }
    let sizes = picture.descendants().filter(|n| n.has_tag_name("text")).map(|n| number(n, "font-size"));
    assert!(sizes.fold(f64::INFINITY, f64::min) >= 11.0, "letters smaller than 11 pixels");
    assert!(svg.contains("prefers-color-scheme: dark"));
}

#[test]
fn every_colour_has_one_for_the_dark() {
    let series = Series { reports: vec![read(&report()), read(&report())], peers: vec![] };
    let svg = svg(&series);
    let picture = Document::parse(&svg).expect("well-formed XML");
    let used: BTreeSet<&str> = picture
        .descendants()
        .flat_map(|n| [n.attribute("fill"), n.attribute("stroke")])
        .flatten()
        .filter(|color| *color != "none")
        .collect();
    assert!(used.len() >= 10, "{used:?}");
    for color in used {
        assert!(svg.contains(&format!("[fill=\"{color}\"]{{fill:#")), "{color} stays as it is in the dark");
    }
}

#[test]
fn bars_are_as_high_as_shares() {
    let report = read(&report());
    let svg = svg(&Series { reports: vec![report.clone()], peers: vec![] });
    let picture = Document::parse(&svg).expect("well-formed XML");
    let decode: Vec<f64> = report.configs.iter().map(|m| m.decode_share()).collect();
    let prompt: Vec<f64> = report.configs.iter().map(|m| m.prompt_share().expect("a limit")).collect();
    let (first, expected) = (bars(&picture, DECODE), [(DECODE, decode), (PROMPT, prompt)]);
    let unit = first[0] / report.configs[0].decode_share();
    for (color, shares) in expected {
        let heights = bars(&picture, color);
        assert_eq!(heights.len(), shares.len(), "{color}");
        for (height, share) in heights.iter().zip(&shares) {
            // Both ends are rounded to a tenth.
            assert!((height - share * unit).abs() <= 0.5, "{color}: {height} pixels for {share}, {unit} for 1");
        }
    }
}

#[test]
fn a_png_is_the_same_picture_in_dots() {
    let series = Series { reports: vec![read(&report())], peers: vec![] };
    let png = draw(&series, Format::Png).expect("a picture");
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    let side = |at: usize| f64::from(u32::from_be_bytes(png[at..at + 4].try_into().expect("four bytes"))) / 2.0;
    assert!(svg(&series).contains(&format!("viewBox=\"0 0 {} {}\"", side(16), side(20))));
    // Not one colour: letters and bars compress to more than an empty sheet.
    assert!(png.len() > 30_000, "{} bytes", png.len());
}

#[test]
fn odd_reports_are_drawn_too() {
    let whole = report();
    let mut cases = vec![Series::default()];
    let mut none = read(&whole);
    none.configs.clear();
    cases.push(Series { reports: vec![none.clone()], peers: vec![] });
    cases.push(Series { reports: vec![none.clone(), none], peers: vec![] });
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0, 1e-300, 1e300] {
        let mut odd = read(&whole);
        for m in &mut odd.configs {
            m.decode_limit_tps = value;
            m.prompt_limit_tps = Some(value);
            m.decode_throughput_median_tps = value;
            m.per_step_latency_p99_ms = value;
            m.step_ms_by_position.fill(value);
        }
        cases.push(Series { reports: vec![odd.clone()], peers: vec![] });
        cases.push(Series { reports: vec![read(&whole), odd], peers: vec![] });
    }
    let mut short = read(&whole);
    short.configs.truncate(1);
    short.configs[0].prompt_limit_tps = None;
    short.configs[0].step_ms_by_position.truncate(1);
    short.configs[0].config.name = "a\u{0}\u{1b}\nb".into();
    short.info.model = "long ".repeat(100);
    cases.push(Series { reports: vec![short.clone()], peers: vec![] });
    short.configs = vec![short.configs[0].clone(); 40];
    cases.push(Series { reports: vec![short], peers: vec![] });
    for series in cases {
        Document::parse(&svg(&series)).expect("well-formed XML");
        draw(&series, Format::Png).expect("a picture");
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
    let Ok(Recorded::Peers(peers)) = Recorded::read(run.to_string().as_bytes()) else { panic!("a run of peers") };
    let svg = svg(&Series { reports: vec![], peers: vec![peers] });
    let said = texts(&Document::parse(&svg).expect("well-formed XML"));
    // The best turns, and the second engine beside the first.
    for part in ["a-model", "Q8_0", "qrun", "llama.cpp", "absent", "24.0", "12.0", "240", "120", "×0.50", "–"] {
        assert!(said.contains(part), "{part:?} is not in {said:?}");
    }
}

#[test]
fn recorded_reports_become_a_picture_without_a_model() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("a.json"), report().to_string()).expect("a file");
    for end in ["svg", "png"] {
        let picture = path(&format!("out.{end}"));
        let output = bench(&format!("--plot {picture} --compare {0} --compare {0}", path("a.json")));
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(Path::new(&picture).metadata().expect("a picture").len() > 10_000);
    }
}

#[test]
fn what_cannot_be_drawn_is_exit_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    for name in ["out.pdf", "out", "svg"] {
        refused(&format!("--plot {name} --compare a.json"), &[".svg", ".png"]);
    }
    refused("--plot out.svg", &["no model named"]);
    refused("--compare a.json", &["--plot"]);
    refused(&format!("--plot out.svg --compare {}", path("none.json")), &["none.json"]);
    let mut without = report();
    without.as_object_mut().expect("an object").shift_remove("dtype");
    let mut within = report();
    within["configs"][2].as_object_mut().expect("an object").shift_remove("step_ms_by_position");
    let mut other = report();
    other["limits"]["read_gb_per_s"] = "fast".into();
    let cases = [
        ("not JSON".to_owned(), "JSON"),
        ("[1]".to_owned(), "JSON"),
        (without.to_string(), "missing field `dtype`"),
        (within.to_string(), "configs[2]: missing field `step_ms_by_position`"),
        (other.to_string(), "limits.read_gb_per_s: invalid type"),
        (json!({ "rows": [] }).to_string(), "missing field `machine`"),
    ];
    for (content, part) in cases {
        std::fs::write(path("bad.json"), content).expect("a file");
        refused(&format!("--plot out.svg --compare {}", path("bad.json")), &["bad.json", part]);
    }
}
