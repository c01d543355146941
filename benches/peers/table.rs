//! The README's table of a recorded run.

use serde_json::Value;

/// Markdown, or nothing where the JSON is not a run of this bench.
pub fn markdown(run: &Value) -> Option<String> {
    let machine = &run["machine"];
    let mut out = format!(
        "{}, {} threads, commit {}, llama-cpp-python {}, {}; tokens per second, best of the recorded turns\n\n",
        machine["cpu"].as_str()?,
        machine["threads"],
        machine["commit"].as_str()?,
        run["rows"][0]["llama.cpp"][0]["version"].as_str().unwrap_or("not run"),
        machine["date"].as_str()?,
    );
    let (prefill, decode) = (run["prefill"].as_u64()?, run["decode"].as_u64()?);
    out += &format!(
        "| model | type | pp{prefill} qrun | llama.cpp | ratio | tg{decode} qrun | llama.cpp | ratio | of memory bandwidth |\n"
    );
    out += "|---|---|--:|--:|--:|--:|--:|--:|--:|\n";
    for row in run["rows"].as_array()? {
        let best = |engine: &str, what: &str| {
            let turns = row[engine].as_array()?.iter().filter_map(|t| t[what].as_f64());
            turns.reduce(f64::max)
        };
        out += &format!("| {} | {} |", row["model"].as_str()?, row["type"].as_str()?);
        for what in ["prefill", "decode"] {
            let (ours, theirs) = (best("qrun", what)?, best("llama.cpp", what));
            out += &format!(" {ours:.1} | ");
            match theirs {
                Some(t) => out += &format!("{t:.1} | {:.2} |", ours / t),
                None => out += "– | – |",
            }
        }
        let share = best("qrun", "decode")? * row["bytes_per_token"].as_f64()? / 1e9 / row["read_gb_per_s"].as_f64()?;
        out += &format!(" {:.0} % |\n", 100.0 * share);
    }
    Some(out)
}
