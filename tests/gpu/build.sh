#!/usr/bin/env bash
# Makes what run.sh takes to a machine with a GPU and nothing but its driver: tests/gpu/prebuilt.tar.gz, at most 56 MB (64 MiB
# may be carried there), of programs that run on every Linux since glibc 2.17 (2014), linked as .ci/release links.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=tests/gpu/prebuilt
linker=$(.ci/zig linker)
rm -rf $bin $bin.tar.gz && mkdir -p $bin

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

tar -C $bin -c . | gzip -9 >$bin.tar.gz
bytes=$(wc -c <$bin.tar.gz)
if ((bytes > 56 * 1000 * 1000)); then
    echo "$bin.tar.gz: expected at most 56 MB, found $bytes bytes" >&2
    exit 1
fi
echo "$bin.tar.gz: $bytes bytes; tests/gpu/run.sh runs what is in it"
