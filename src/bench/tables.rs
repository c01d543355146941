//! The tables of the public generation log, for one model or several beside each other.

use std::fmt::Write;

use super::report::{Measured, Report};

/// One column group per report, one row per configuration.
type Cell<'a> = &'a dyn Fn(&Measured) -> String;

/// All tables in Markdown.
pub fn markdown(reports: &[Report]) -> String {
    let mut out = String::new();
    for report in reports {
        let bytes = report.info.weight_bytes_per_token as f64 / 1e6;
        let (trials, warmups) = (report.trials, report.warmup_runs);
        out += &report
            .info
            .describe(&format!("{bytes:.0} MB of weights per token, {trials} trials after {warmups} warm-ups"));
    }
    let one = |x: f64| format!("{x:.1}");
    let tables: [(&str, &[(&str, Cell)]); 5] = [
        ("End-to-end throughput (tok/s; prompt, sampling and text included)", &[("", &|m| one(m.e2e_throughput_tps))]),
        (
            "Decode throughput (tok/s) and its share of the memory limit",
            &[
                ("", &|m| one(m.decode_throughput_median_tps)),
                ("GB/s", &|m| one(m.decode_gb_per_s)),
                ("limit", &|m| one(m.decode_limit_tps)),
                ("share", &|m| percent(Some(m.decode_share()))),
            ],
        ),
        (
            "Per-step decode latency (ms)",
            &[
                ("P50", &|m| one(m.per_step_latency_p50_ms)),
                ("P95", &|m| one(m.per_step_latency_p95_ms)),
                ("P99", &|m| one(m.per_step_latency_p99_ms)),
            ],
        ),
        (
            "Time to first token (ms), prompt tok/s and its share of the arithmetic limit",
            &[
                ("TTFT", &|m| one(m.ttft_median_ms)),
                ("tok/s", &|m| one(m.prompt_throughput_median_tps)),
                ("share", &|m| percent(m.prompt_share())),
            ],
        ),
        (
            "KV cache (MB, 10⁶), peak memory (GiB), tokens that would have ended the answer",
            &[
                ("cache", &|m| one(m.cache_memory_mb)),
                ("peak", &|m| m.peak_memory_gb.map_or("–".into(), |gb| format!("{gb:.2}"))),
                ("EOS", &|m| format!("{} of {}", m.eos_count, m.generated_tokens)),
            ],
        ),
    ];
    for (title, columns) in tables {
        let _ = write!(out, "\n### {title}\n\n{}", table(reports, columns));
    }
    out
}

fn table(reports: &[Report], columns: &[(&str, Cell)]) -> String {
    let mut out = String::from("| Config | prompt | gen |");
    for report in reports {
        for (name, _) in columns {
            // A single model is named above the tables already.
            let model = if reports.len() == 1 { String::new() } else { report.info.name() + " " };
            let name = if name.is_empty() && reports.len() == 1 { "tok/s" } else { name };
            let _ = write!(out, " {model}{name} |");
        }
    }
    out += "\n|---|--:|--:|";
    out += &"--:|".repeat(reports.len() * columns.len());
    out.push('\n');
    for config in rows(reports) {
        let _ = write!(out, "| {} | {} | {} |", config.config.name, config.config.n_prompt, config.config.n_gen);
        for report in reports {
            let measured = report.configs.iter().find(|m| m.config == config.config);
            for (_, cell) in columns {
                let _ = write!(out, " {} |", measured.map_or("–".into(), cell));
            }
        }
        out.push('\n');
    }
    out.replace("  |", " |")
}

/// The configurations of all reports, each one once, in their order.
fn rows(reports: &[Report]) -> Vec<&Measured> {
    let mut rows: Vec<&Measured> = Vec::new();
    for measured in reports.iter().flat_map(|r| &r.configs) {
        if rows.iter().all(|row| row.config != measured.config) {
            rows.push(measured);
        }
    }
    rows
}

fn percent(share: Option<f64>) -> String {
    share.map_or("–".into(), |share| format!("{:.0} %", 100.0 * share))
}
