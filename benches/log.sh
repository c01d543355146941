#!/usr/bin/env bash
# Measures the configurations of the public generation log on its three models, and writes benches/log.md from the
# reports: two warm-ups and three trials of each configuration, about 80 minutes on two cores (--decode-tokens 512: an hour).
# Usage: benches/log.sh [FLAGS OF qrun bench]; --write alone only writes the page anew from the recorded reports.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --quiet
date=$(date -u +%F) runs=benches/runs types="BF16 Q4_K_M" models="llama-3.2-1b qwen3-1.7b gemma-3-1b"
if [[ ${1-} != --write ]]; then
    for ty in $types; do
        for model in $models; do
            target/release/qrun bench --synthetic "$model:$ty" --suite full --json "$@" \
                >"$runs/$date-log-$ty-$model.json"
        done
    done
fi
{
    cat <<'TEXT'
# The generation log's tables, measured here

The seven configurations of a public generation log (an engine in Python and Triton on an RTX 5080, bf16), on the exact
shapes of its three models, with weights of random numbers. Made by `benches/log.sh` from the reports in `runs/`;
`benches/README.md` says what is inside each number. The log's own figures are for another machine and are not repeated
here; those that are to be compared with them come with `--device cuda` on that card.
TEXT
    for ty in $types; do
        # Of each model the newest: a line of the page says when and on which machine it was measured.
        reports=()
        for model in $models; do reports+=("$(printf '%s\n' $runs/*-log-"$ty-$model.json" | sort | tail -1)"); done
        printf '\n## %s\n\n' "$ty"
        target/release/qrun bench --tables "${reports[@]}"
    done
} >benches/log.md
