#!/usr/bin/env bash
# Everything that is to be known of this machine's GPU, in under nine minutes: what it is, how fast it can be, how fast qrun is
# on it, and whether qrun is right. Needs the driver and what build.sh made; nothing else. At most eight files in one folder.
# Usage: tests/gpu/run.sh [--out DIR] [--only PART]... [--dry]
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# The later --out counts.
if [[ $here/prebuilt.tar.xz -nt $here/prebuilt/gpu-bench ]]; then
    mkdir -p "$here/prebuilt" && tar -xJmf "$here/prebuilt.tar.xz" -C "$here/prebuilt" || exit
elif [[ ! -x $here/prebuilt/gpu-bench ]]; then
    echo "no $here/prebuilt.tar.xz: run tests/gpu/build.sh where there is a Rust toolchain, and bring the file here" >&2
    exit 2
fi
exec "$here/prebuilt/gpu-bench" --out "$here/results" "$@"
