#!/usr/bin/env bash
# Tests of the CPU path for 64-bit ARM on another machine, under qemu: as a Cortex-A53 (plain NEON), as a Cortex-A76 (`sdot`)
# and with everything that qemu knows (`usmmla`). Needs `rustup target add aarch64-unknown-linux-gnu`, qemu-aarch64 and
# aarch64-linux-gnu-gcc (Debian: qemu-user, gcc-aarch64-linux-gnu). The emulator of CUDA and its tests stay on x86-64.
# Usage: tests/arm.sh [FILTERS]; without any, products and formats, about ten minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
[[ $# -gt 0 ]] || set -- cpu:: formats::
for cpu in cortex-a53 cortex-a76 max; do
    printf '== %s\n' "$cpu"
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu -cpu $cpu"
    cargo test --target aarch64-unknown-linux-gnu --test tests -- "$@"
done
