//! The results for people: one table per part, whatever a part has found.

use serde_json::{Map, Value};

/// Results as Markdown.
pub fn markdown(results: &Value) -> String {
    let mut out = String::from("# qrun on a GPU\n");
    if results["dry"] == true {
        out.push_str("\nA dry run with tiny sizes: the numbers mean nothing.\n");
    }
    for (name, part) in results["parts"].as_object().into_iter().flatten() {
        out.push_str(&format!("\n## {name} ({} s)\n\n", part["seconds"]));
        match &part["result"] {
            Value::Array(rows) => out.push_str(&table(rows)),
            Value::Object(properties) => out.push_str(&list(properties)),
            other => out.push_str(&format!("{other}\n")),
        }
    }
    out
}

fn list(properties: &Map<String, Value>) -> String {
    properties.iter().map(|(key, value)| format!("- {key}: {}\n", cell(value))).collect()
}

/// Columns in the order in which the rows first name them.
fn table(rows: &[Value]) -> String {
    let mut columns: Vec<&str> = Vec::new();
    for key in rows.iter().filter_map(Value::as_object).flat_map(Map::keys) {
        if !columns.contains(&key.as_str()) {
            columns.push(key);
        }
    }
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut out = line(columns.iter().map(|c| c.to_string()).collect());
    out.push_str(&line(vec!["---".into(); columns.len()]));
    for row in rows {
        out.push_str(&line(columns.iter().map(|c| row.get(c).map(cell).unwrap_or_default()).collect()));
    }
    out
}

fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => text.replace('|', "\\|").replace('\n', " "),
        Value::Array(all) => all.iter().map(cell).collect::<Vec<_>>().join(", "),
        Value::Object(all) => all.iter().map(|(k, v)| format!("{k} {}", cell(v))).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_part_is_shown() {
        let results = json!({ "dry": false, "parts": {
            "kernels": { "seconds": 1.5, "result": [{ "a": 1, "b": "x|y" }, { "b": null, "c": [2, 3] }] },
            "launches": { "seconds": 2, "result": { "failed": "no\ndevice" } },
        }});
        let expected = "# qrun on a GPU\n\n## kernels (1.5 s)\n\n| a | b | c |\n| --- | --- | --- |\n| 1 | x\\|y |  |\n|  | null | 2, 3 |\n\n## launches (2 s)\n\n- failed: no device\n";
        assert_eq!(markdown(&results), expected);
    }
}
