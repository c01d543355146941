#!/usr/bin/env bash
# Counts what a token of decoding, batches and long texts, and on sm_75 a prompt of 512 execute in the shipped machine code;
# records it in benches/runs with the times that are predicted for cards; and writes benches/predictions.md. Needs nvdisasm, no GPU.
# Usage: benches/predictions.sh [SM ...] (all seven); --write alone only writes the page anew from the records.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --quiet --bin gpu-counts
commit=$(git describe --always --dirty --abbrev=12 --exclude='*')

# record NAME ARGUMENTS
record() {
    local to counts
    to=benches/runs/$(date -u +%F)-gpu-code-$1.json
    shift
    counts=$(target/release/gpu-counts --code sass "$@")
    printf '{\n"commit": "%s",\n"command": "gpu-counts --code sass %s",\n"counts": %s\n}\n' \
        "$commit" "$*" "$counts" >"$to"
}

if [[ ${1-} != --write ]]; then
    (($#)) || set -- 75 80 86 89 90 100 120
    for sm; do
        record "sm_$sm" --sm "$sm"
        # The table of cards has none of sm_100.
        if ((sm != 100)); then record "sm_$sm-decodes" --sm "$sm" --decodes; fi
        if ((sm == 75)); then record sm_75-prompt-512 --sm 75 --prompt 512; fi
    done
fi
{
    cat <<'TEXT'
# Predicted times of the shipped machine code

These times are predicted, not measured. An H100 alone has run the kernels: what it measured stands beside the prediction
in [gpu.md](gpu.md). A simulated SM (`isa/cost` of the emulator) is given what the shipped machine code executes, and
public numbers of each card. A cell is floor – low – high: no schedule of this code is faster than the floor; low and high
take the better and the worse end of all that is not known exactly of the card. Two designs are told apart only where their
ranges do not touch. Counts (instructions, sectors) are exact, and the same in every run.

Q4_K_M in the exact shapes of three models, with weights of zeros. A token of decoding is the second one, with next to
nothing in the KV cache, where nothing else is said: `8 x tg @ d2048` is a step of eight sequences, each behind 2048 tokens.
Weights and the KV cache come from DRAM, everything else from L2. Times have what a node of a graph costs, and nothing of
the host's; kernels begin when those before them have ended, so what dependent launch hides from SM 9.0 on is not in them.
Loads count as they are asked for, the activations, which every row reads anew, among them: much of that L1 has already. A
card that stands here twice has two clocks: under load a T4 rarely keeps the higher one. The table of cards has none of
sm_100: counts alone. Made by `benches/predictions.sh` from the records `runs/*-gpu-code-sm_*.json`.
TEXT
    target/release/gpu-counts --tables
} >benches/predictions.md
