//! Circles that are still to be cut: the root of the crate, and the files. Only ever shorter.

/// The list.
pub const OPEN: &[(&str, &[&str])] = &[
    ("cuda/lib.rs", &["cuda/driver/graph.rs", "cuda/driver/stream.rs"]),
    ("cuda/lib.rs", &["cuda/image.rs", "cuda/image/archive.rs"]),
    ("models/lib.rs", &["models/cpu.rs", "models/fallback.rs"]),
    (
        "models/lib.rs",
        &[
            "models/decoder.rs",
            "models/decoder/draw.rs",
            "models/decoder/memory.rs",
            "models/decoder/sequences.rs",
            "models/decoder/step.rs",
        ],
    ),
    ("models/lib.rs", &["models/kv.rs", "models/kv/element.rs", "models/memory.rs"]),
    (
        "src/lib.rs",
        &[
            "src/bench/plot.rs",
            "src/bench/plot/comparison.rs",
            "src/bench/plot/latency.rs",
            "src/bench/plot/page.rs",
            "src/bench/plot/shares.rs",
        ],
    ),
    ("src/lib.rs", &["src/bench/plot/raster.rs", "src/bench/plot/style.rs"]),
    ("src/lib.rs", &["src/sampler.rs", "src/sampler/params.rs", "src/sampler/penalties.rs", "src/sampler/select.rs"]),
    ("src/lib.rs", &["src/session.rs", "src/session/answer.rs", "src/session/engine.rs", "src/session/file.rs"]),
    (
        "src/lib.rs",
        &["src/tools/synth.rs", "src/tools/synth/models.rs", "src/tools/synth/shape.rs", "src/tools/synth/weights.rs"],
    ),
    ("src/lib.rs", &["src/tools/synth/vocab.rs", "src/tools/synth/vocab/special.rs"]),
    ("src/lib.rs", &["src/text/template.rs", "src/text/template/engine.rs"]),
    (
        "src/lib.rs",
        &[
            "src/text/tokenizer.rs",
            "src/text/tokenizer/bpe.rs",
            "src/text/tokenizer/json.rs",
            "src/text/tokenizer/run.rs",
            "src/text/tokenizer/spm.rs",
        ],
    ),
    (
        "src/main.rs",
        &[
            "src/cli.rs",
            "src/cli/bench.rs",
            "src/cli/bench/machine.rs",
            "src/cli/bench/prompts.rs",
            "src/cli/bench/rows.rs",
            "src/cli/bench/startup.rs",
            "src/cli/bench/suite.rs",
            "src/cli/chat.rs",
            "src/cli/chat/commands.rs",
            "src/cli/chat/lines.rs",
            "src/cli/completions.rs",
            "src/cli/devices.rs",
            "src/cli/info.rs",
            "src/cli/jobs.rs",
            "src/cli/perplexity.rs",
            "src/cli/quantize.rs",
            "src/cli/run.rs",
            "src/cli/tokenize.rs",
        ],
    ),
    ("src/main.rs", &["src/cli/args.rs", "src/cli/exit.rs", "src/cli/terminal.rs"]),
    (
        "src/main.rs",
        &[
            "src/cli/flags.rs",
            "src/cli/flags/foreign.rs",
            "src/cli/flags/server.rs",
            "src/cli/flags/speculative.rs",
            "src/cli/flags/used.rs",
        ],
    ),
];
