//! The table of a run of servers.

use qrun::bench::serve::markdown;
use serde_json::{Value, json};

fn turns(ours: &Value, peer: &Value) -> Value {
    json!({ "servers": { "qrun": { "turns": ours }, "llama-server": peer } })
}

#[test]
fn the_table_has_medians_and_how_many_times_as_fast_qrun_is() {
    let failed = json!({ "turns": [], "failed": "it ended" });
    let mut eight = turns(
        &json!([{ "tps": 90.0, "peak": 1 }, { "tps": 50.0, "peak": 1 }, { "tps": 80.0, "peak": 1 }]),
        &json!({ "turns": [{ "tps": 40.0 }] }),
    );
    eight["requests"] = 8.into();
    eight["servers"]["in process"] = json!({ "turns": [{ "tps": 100.0 }] });
    let mut sixteen = turns(&json!([{ "tps": 99.96, "peak": 912_300_000 }]), &failed);
    sixteen["requests"] = 16.into();
    let prefix =
        json!([{ "cached": { "last_ms": 15.6, "computed": 16 }, "cached_16": { "last_ms": 24.2, "computed": 64 } }]);
    let over = json!([{
        "refusal_p99_ms": 3.21, "gap_over_mean_ms": 11.0, "gap_full_mean_ms": 10.0,
        "rss_before": 900_000_000, "rss_after": 905_000_000,
    }]);
    let run = json!({
        "machine": { "cpu": "A processor", "threads": 2, "commit": "abc", "date": "2026-11-22" },
        "model": "a-model", "type": "Q4_K_M",
        "loads": {
            "decode": [eight, sixteen],
            "gap": [turns(&json!([{ "longest_ms": 210.4, "of_alone": 0.876 }]), &json!({ "turns": [{ "longest_ms": 9500, "of_alone": 1 }] }))],
            "prefix": [turns(&prefix, &failed)],
            "overload": [turns(&over, &Value::Null)],
            "idle": [turns(&json!([{ "connections": 10_000, "bytes": 41_000_000, "health_p99_ms": 1.256 }]), &failed)],
            "bytes": [turns(&json!([[{ "sent_ms": 0.119 }, { "sent_ms": 0.201 }]]), &Value::Null)],
        },
    });
    let table = markdown(&run);
    for line in [
        "A processor, 2 threads, commit abc, 2026-11-22; a-model Q4_K_M",
        "|  | qrun serve | llama-server |",
        "| tokens per second, 8 / 16 at once | 80.0 / 100.0 | 40.0 / – (×2.00 / –) |",
        "| of the same in process | 80 % / – | – |",
        "| memory of 16 at once, at most | 912 MB | – |",
        "speed alone | 210 ms; 88 % | 9500 ms; 100 % |",
        "prompt tokens computed | 16 (24) ms; 16 (64) | – |",
        "memory | 3.2 ms; ×1.10; +5 MB | – |",
        "| 10000 idle connections; `/health` beside them, p99 | 41 MB; 1.26 ms | – |",
        "1 stream, 4 | 0.12, 0.20 ms | – |",
    ] {
        assert!(table.contains(line), "{line:?} is not in\n{table}");
    }
}
