#!/usr/bin/env bash
# qrun beside llama.cpp on this machine's GPU, in turns on the same files of random weights: a prompt of 512 tokens and 128
# steps of each model, two rounds, into OUT/peers.json. Needs the driver, python3 and what build.sh made; nvcc, cmake and
# ninja to compile llama.cpp from an archive of its source, without which qrun is measured alone. What was compiled and the
# models stay in target/gpu-peers for the next call. --commit says which commit the archive has, --build-only compiles and
# makes the models, --dry takes a tiny model, on a CPU if need be.
# Usage: tests/gpu/peers.sh [--llama SOURCE.tar.xz [--commit ID]] [--out DIR] [--build-only] [--dry]
set -euo pipefail
llama='' commit=unknown out=target/gpu-peers/results build_only='' dry=''
while (($#)); do
    case $1 in
        --llama) llama=$(realpath "$2"); shift ;;
        --commit) commit=$2; shift ;;
        --out) out=$2; shift ;;
        --build-only) build_only=1 ;;
        --dry) dry=1 ;;
        *) sed -n '/^# Usage/s/^# //p' "$0" >&2; exit 2 ;;
    esac
    shift
done
mkdir -p "$out" && out=$(realpath "$out")
cd "$(dirname "$0")/../.."
place=$PWD/target/gpu-peers programs=$PWD/tests/gpu/prebuilt
bench=$place/build/bin/llama-bench log=$place/build.log
mkdir -p "$place/models"
if [[ $programs.tar.xz -nt $programs/gpu-bench ]]; then
    mkdir -p "$programs" && tar -xJmf "$programs.tar.xz" -C "$programs"
fi
models="gemma-3-1b:Q4_K_M llama-3.2-1b:Q4_K_M qwen3-1.7b:Q4_K_M gemma-3-1b:Q8_0 llama-3.2-1b:Q8_0 gemma-3-1b:BF16
llama-3.1-8b:Q4_K_M"
[[ -z $dry ]] || models=tiny-gemma3:Q4_K_M

# A file of this name, wherever the machine has it.
somewhere() { find / -path /proc -prune -o -name "$1" -not -type d -not -path '*/stubs/*' -print -quit 2>/dev/null || true; }

# llama-bench for this card, without the checkout around its source being taken for its own.
build() {
    local nvcc sm
    nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || somewhere nvcc)
    sm=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -1 | tr -d .) || return
    export CUDACXX=$nvcc GIT_CEILING_DIRECTORIES=$place
    rm -rf "$place/source" && mkdir "$place/source" && tar -xf "$llama" --strip-components=1 -C "$place/source" || return
    cmake -S "$place/source" -B "$place/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
        -DLLAMA_BUILD_TOOLS=ON -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_TESTS=OFF \
        -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_TOOLS_INSTALL=OFF \
        -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_COMMIT="$commit" -DGGML_CCACHE=OFF -DGGML_CUDA=ON \
        -DGGML_CUDA_NCCL=OFF -DCMAKE_CUDA_ARCHITECTURES="$sm" -DCMAKE_CUDA_COMPILER="$nvcc" &&
        cmake --build "$place/build" --target llama-bench -j "$(nproc)"
}
if [[ -n $llama && ! -x $bench ]]; then
    build >"$log" 2>&1 &
    building=$!
fi
making=()
for model in $models; do
    file=$place/models/$model.gguf
    if [[ ! -f $file ]]; then
        "$programs/qrun" synth "${model%:*}" "$file" --type "${model#*:}" >&2 &
        making+=($!)
    fi
done
for id in ${making[@]+"${making[@]}"}; do wait "$id"; done
if [[ -n ${building-} ]] && ! wait "$building"; then
    { echo "llama.cpp was not compiled:"; tail -5 "$log"; } >&2
fi
[[ -z $build_only ]] || exit 0
if [[ ! -x $bench ]]; then
    echo "no llama-bench: qrun is measured alone" >&2
    bench=''
fi
if [[ -n $bench ]]; then
    for name in libcudart.so libcublas.so; do
        library=$(somewhere "$name*")
        [[ -z $library ]] || export LD_LIBRARY_PATH=${library%/*}:${LD_LIBRARY_PATH-}
    done
fi

# shellcheck disable=SC2086 # One word for each model.
python3 - "$programs/qrun" "$bench" "$place/models" "$out/peers.json" "$dry" $models <<'END_OF_PYTHON'
import json, subprocess, sys, time

qrun, llama, folder, out, dry, *models = sys.argv[1:]
commands = {"qrun": [qrun, "bench", *([] if dry else ["--device", "cuda"])]}
if llama:
    commands["llama.cpp"] = [llama, "-ngl", "99", "-fa", "1"]
prompt, steps, times, depth = ("16", "4", "1", 32) if dry else ("512", "128", "3", 4096)


def turn(engine, model, depth):
    """Rows of llama-bench, or why there are none."""
    flags = ["-m", f"{folder}/{model}.gguf", "-p", prompt, "-n", steps, "-d", str(depth), "-r", times, "-o", "json"]
    try:
        ended = subprocess.run(commands[engine] + flags, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return "stopped after 120 s"
    if ended.returncode:
        return (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1]
    return json.loads(ended.stdout)


def first_line(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.split("\n")[0].strip()
    except OSError:
        return ""


name, _, driver = first_line("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").partition(", ")
engines = {engine: {} for engine in commands}
engines["qrun"]["version"] = first_line(qrun, "--version").removeprefix("qrun ")
work = [(model, 0) for model in models] + [(models[0], depth)]
rows = [
    {"model": model.split(":")[0], "type": model.split(":")[1], "depth": depth, "engines": {e: {} for e in commands}}
    for model, depth in work
]
record = {"date": time.strftime("%F", time.gmtime()), "device": {"name": name, "driver": driver}, "versions": engines}
record |= {"order": [], "rows": rows}
for number in range(1 if dry else 2):
    # The engine that begins finds the machine in another state than the one that follows.
    order = list(commands)[:: -1 if number % 2 else 1]
    record["order"].append(order)
    for (model, depth), row in zip(work, rows):
        for engine in order:
            found, result = row["engines"][engine], turn(engine, model, depth)
            if isinstance(result, str):
                found["failed"] = result
                print(f"{model} {engine}: {result}", file=sys.stderr)
                continue
            for test in result:
                engines[engine]["commit"] = test["build_commit"]
                kind = f"pp{test['n_prompt']}" if test["n_prompt"] else f"tg{test['n_gen']}"
                found.setdefault(kind, []).append(round(test["avg_ts"], 1))
                if "limit_share" in test and not test["n_prompt"]:
                    found.setdefault("share_of_limit", []).append(round(test["limit_share"], 3))
            print(f"{model} d{depth} {engine}: {found}", flush=True)
        # After each model, so that what is there survives whatever comes.
        with open(out, "w") as file:
            file.write(json.dumps(record, indent=1) + "\n")
END_OF_PYTHON
echo "written: $out/peers.json"
