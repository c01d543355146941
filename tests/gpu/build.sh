#!/usr/bin/env bash
# Makes the binaries that run.sh takes to a machine with a GPU and nothing but its driver: tests/gpu/prebuilt, at most
# 64 MB. Those that measure are linked as the release is; the test suites as `cargo test` links them.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target} bin=tests/gpu/prebuilt
.ci/release build --profile dist --package qrun --bin qrun --package qrun-gpu --bin gpu-bench --no-default-features
rm -rf $bin && mkdir -p $bin
cp "$target"/x86_64-unknown-linux-gnu/dist/{qrun,gpu-bench} $bin

suite() {
    local words
    words=$(cargo test "$@" --no-run 2>&1) || { echo "$words" >&2; return 1; }
    sed -n 's/.*Executable.*(\(.*\))/\1/p' <<<"$words"
}
cp "$(suite --package qrun-cuda --test ops)" $bin/ops
cp "$(suite --package qrun --test tests)" $bin/tests
strip $bin/*

bytes=$(cat $bin/* | wc -c)
ls -l $bin
if ((bytes > 64 * 1000 * 1000)); then
    echo "expected at most 64 MB, found $bytes bytes" >&2
    exit 1
fi
echo "$bytes bytes; tests/gpu/run.sh runs them"
