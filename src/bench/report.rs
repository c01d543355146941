//! A report of any mode, as tables and as a line.

use serde_json::Value;

use super::{prompts, record, requests, suite, text};

/// One line that can be pasted into an issue.
pub fn summary(report: &Value) -> String {
    let speeds = match text(report, "suite") {
        "prompts" => prompts::speeds(report),
        "requests" => requests::speeds(report),
        _ => suite::speeds(report),
    };
    format!("{}: {speeds}", record::line(report))
}

/// The tables of reports of one mode in Markdown.
pub fn tables(reports: &[Value]) -> String {
    match reports.first().map(|report| text(report, "suite")) {
        Some("prompts") => reports.iter().map(prompts::markdown).collect(),
        Some("requests") => reports.iter().map(requests::markdown).collect(),
        _ => suite::markdown(reports),
    }
}
