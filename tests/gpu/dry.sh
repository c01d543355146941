#!/usr/bin/env bash
# What a machine with a GPU will do, tried out without one: build.sh's file and run.sh, in a folder of their own, with
# the emulated driver as libcuda.so.1 and, where the system permits it, neither the checkout nor the build to be seen; then
# whether the results are few and small enough to come back. Usage: tests/gpu/dry.sh OUT
set -euo pipefail
out=$1
mkdir -p "$out"
out=$(cd "$out" && pwd)
cd "$(dirname "$0")/../.."
root=$PWD target=${CARGO_TARGET_DIR:-$PWD/target}
tests/gpu/build.sh --as-built
library=$(.ci/program gpu-counts --library)

place=$(mktemp -d "${TMPDIR:-/tmp}/qrun on a GPU XXXXXX")
trap 'rm -rf "$place"' EXIT
mkdir "$place/driver" "$place/bin" "$place/results"
cp tests/gpu/run.sh tests/gpu/prebuilt.tar.xz "$place"
cp "$library"/kernels-*.so "$place/driver"
cp "$library/libcuda.so" "$place/driver/libcuda.so.1"
# NVIDIA's checker, as far as how it is called.
cat >"$place/bin/compute-sanitizer" <<'END'
#!/bin/sh
[ "$1 $3 $4" = "--tool --error-exitcode 9" ] || exit 1
if [ "$2" = memcheck ]; then [ "$5 $6" = "--report-api-errors no" ] && shift 2 || exit 1; fi
shift 4 && exec "$@"
END
chmod +x "$place/bin/compute-sanitizer"

# Empty folders over the checkout and the build, seen by what runs in here alone.
cat >"$place/hidden" <<'END'
set -e
for folder in "$1" "$2"; do
    if [ -d "$folder" ]; then mount -t tmpfs none "$folder"; fi
done
test ! -e "$1/Cargo.toml"
cd "$3" && shift 3 && exec "$@"
END
hide=()
for how in "unshare --mount" "unshare --map-root-user --mount"; do
    if $how sh "$place/hidden" "$root" "$target" "$place" true 2>/dev/null; then
        hide=($how sh "$place/hidden" "$root" "$target" "$place")
        break
    fi
done
((${#hide[@]})) || echo "this system permits no mounts: checkout and build stay in sight" >&2

export LD_LIBRARY_PATH=$place/driver QRUN_EMULATOR=sm=90,memory=4294967296 PATH=$place/bin:$PATH
status=0
${hide[@]+"${hide[@]}"} bash "$place/run.sh" --dry --out "$place/results" || status=$?
rm -rf "$out" && cp -r "$place/results" "$out"

files=$(cd "$out" && find . -type f | sed 's|^\./||')
(($(wc -l <<<"$files") <= 8)) || { echo "expected at most 8 files, found" $files >&2; exit 1; }
if odd=$(grep -vE '^([A-Za-z0-9._-]+/){0,2}[A-Za-z0-9._-]+$' <<<"$files"); then
    echo "files that would not come back: $odd" >&2
    exit 1
fi
large=$(find "$out" -type f -size +16M)
[[ -z $large ]] || { echo "files above 16 MiB: $large" >&2; exit 1; }
exit $status
