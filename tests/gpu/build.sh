#!/usr/bin/env bash
# Makes what run.sh takes to a machine with a GPU and nothing but its driver: tests/gpu/prebuilt.tar.xz, at most 36 MB (64 MiB
# may be carried there, this checkout among them), of programs that run on every Linux since glibc 2.17 (2014), linked as
# .ci/release links.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=tests/gpu/prebuilt
linker=$(.ci/zig linker)
rm -rf $bin $bin.tar.xz && mkdir -p $bin

# NAME CARGO_ARGUMENTS: only the program itself is linked anew, all that it is made of is what other builds have.
program() {
    local name=$1 words
    shift
    words=$(cargo rustc "$@" --message-format json-render-diagnostics -- -C linker="$linker") || return
    cp "$(sed -n 's/.*"name":"'"$name"'".*"executable":"\([^"]*\)".*/\1/p' <<<"$words")" "$bin/$name"
    strip "$bin/$name"
    .ci/binary "$bin/$name" 2.17 56000000
}
program gpu-bench --release --package qrun-gpu --bin gpu-bench --no-default-features
program ops --package qrun-cuda --test ops
program tests --package qrun --test tests
program qrun --release --package qrun --bin qrun

# All of them hold the kernels: what repeats is stored once.
tar -C $bin -c . | xz -9 >$bin.tar.xz
bytes=$(wc -c <$bin.tar.xz)
if ((bytes > 36 * 1000 * 1000)); then
    echo "$bin.tar.xz: expected at most 36 MB, found $bytes bytes" >&2
    exit 1
fi
echo "$bin.tar.xz: $bytes bytes; tests/gpu/run.sh runs what is in it"
