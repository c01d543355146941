#!/usr/bin/env bash
# Makes what run.sh takes to a machine with a GPU and nothing but its driver: tests/gpu/prebuilt.tar.xz, at most 36 MB (64 MiB
# may be carried there, this checkout among them), of programs that run on every Linux since glibc 2.17 (2014), linked as
# .ci/release links. With --as-built the test programs are those that `cargo test --workspace` made, for this machine: cargo links
# no program of that build anew without building all that it is made of with other features.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=tests/gpu/prebuilt
linker=$(.ci/zig linker)
rm -rf $bin $bin.tar.xz && mkdir -p $bin

# NAME CARGO_ARGUMENTS: only the program itself is linked anew where other builds have the features that it asks for.
program() {
    local name=$1 words
    shift
    words=$(cargo rustc "$@" --message-format json-render-diagnostics -- -C linker="$linker") || return
    take "$name" "$words"
    .ci/binary "$bin/$name" 2.17 56000000
}
# NAME MESSAGES: the program of that name that cargo's messages tell of.
take() {
    cp "$(sed -n 's/.*"name":"'"$1"'".*"executable":"\([^"]*\)".*/\1/p' <<<"$2")" "$bin/$1"
    strip "$bin/$1"
}
program gpu-bench --release --package qrun-gpu --bin gpu-bench --no-default-features
if [[ ${1-} == --as-built ]]; then
    words=$(cargo build --workspace --tests --message-format json-render-diagnostics)
    take ops "$words"
    take tests "$words"
else
    program ops --package qrun-cuda --test ops
    program tests --package qrun --test tests
fi
program qrun --release --package qrun --bin qrun

# All of them hold the kernels: what repeats is stored once.
tar -C $bin -c . | xz -9 >$bin.tar.xz
bytes=$(wc -c <$bin.tar.xz)
if ((bytes > 36 * 1000 * 1000)); then
    echo "$bin.tar.xz: expected at most 36 MB, found $bytes bytes" >&2
    exit 1
fi
echo "$bin.tar.xz: $bytes bytes; tests/gpu/run.sh runs what is in it"
