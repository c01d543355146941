#!/usr/bin/env bash
# Everything that is to be known of this machine's GPU, in under 8 minutes: is qrun right on it, how fast can it be, how fast
# is it. Needs the driver and what build.sh made; nothing else. Writes results.json and results.md into one folder.
# Usage: tests/gpu/run.sh [--out DIR] [--only PART]...; with --dry the emulated driver and tiny sizes, from a checkout.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=$here/prebuilt out=$here/results dry=()
pass=()
while (($#)); do
    case $1 in
        --out) out=$2; shift ;;
        --dry) dry=(--dry) ;;
        *) pass+=("$1") ;;
    esac
    shift
done

suites=(--tests "$bin/ops" --tests "$bin/tests device --skip cli::")
if ((${#dry[@]})); then
    # The binaries of `cargo test`, and of its suites the one that takes no time.
    cd "$here/../.."
    cargo build --quiet --package qrun-gpu || exit
    bin=${CARGO_TARGET_DIR:-$PWD/target}/debug
    words=$(cargo test --package qrun-cuda --test ops --no-run 2>&1) || { echo "$words" >&2; exit 1; }
    ops=$(sed -n 's/.*Executable.*(\(.*\))/\1/p' <<<"$words")
    suites=(--tests "$PWD/${ops#"$PWD"/} probe")
    LD_LIBRARY_PATH=$("$bin/gpu-counts" --library)
    export LD_LIBRARY_PATH QRUN_EMULATOR=sm=90,memory=4294967296
elif [[ ! -x $bin/gpu-bench ]]; then
    echo "no $bin/gpu-bench: run tests/gpu/build.sh where there is a Rust toolchain, and bring its folder here" >&2
    exit 2
fi
exec "$bin/gpu-bench" --out "$out" "${suites[@]}" "${dry[@]}" "${pass[@]}"
