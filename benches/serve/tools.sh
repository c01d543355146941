#!/usr/bin/env bash
# Load from other people's tools: oha, wrk and guidellm ask `qrun serve` and llama-server in turns, both with the same
# file, context, threads and requests at once. Prints one line of JSON; --save FILE writes it as well.
# Usage: benches/serve/tools.sh QRUN [MODEL [LLAMA_SERVER]] [--save FILE] [--tools NAMES] [--seconds N] [--requests N]
#   MODEL: a GGUF file; without one the model inside qrun answers, alone. --tools: some of oha,wrk,guidellm.
#   --seconds: how long each load of wrk lasts [12]; --requests: how many guidellm sends at each of its rates [10].
# A tool that is not on PATH is installed below target/load-tools (wrk: by apt-get, as root). One that cannot be had is
# said and left out.
set -euo pipefail
cd "$(dirname "$0")/../.."
usage() { sed -n 's/^# Usage: //p' benches/serve/tools.sh >&2; exit 2; }
files=() save="" wanted=oha,wrk,guidellm seconds=12 requests=10
while [ $# -gt 0 ]; do
    case $1 in
        --save) save=${2?} && shift ;;
        --tools) wanted=${2?} && shift ;;
        --seconds) seconds=${2?} && shift ;;
        --requests) requests=${2?} && shift ;;
        -*) usage ;;
        *) files+=("$1") ;;
    esac
    shift
done
qrun=${files[0]-} model=${files[1]-} llama=${files[2]-}
[ -x "$qrun" ] || usage
here=benches/serve/tools tools=$PWD/target/load-tools
threads=2 parallel=8 context=4096 tokens=16
mkdir -p "$tools"
out=$(mktemp -d)
server=""
stop() { [ -z "$server" ] || { kill "$server" && wait "$server"; server=""; } 2> /dev/null || true; }
trap 'stop; rm -rf "$out"' EXIT
say() { echo "$*" >&2; }

# The tools: each prints where it is.

get_oha() {
    command -v oha && return
    # It does not build without TLS.
    [ -x "$tools/bin/oha" ] || nice -n 19 cargo install oha --version 1.16.0 --locked --quiet \
        --root "$tools" --target-dir "$tools/build" >&2 || return
    rm -rf "$tools/build"
    echo "$tools/bin/oha"
}

get_wrk() {
    command -v wrk && return
    local install=(nice apt-get install --yes --quiet=2 --no-install-recommends wrk)
    "${install[@]}" > /dev/null || { apt-get update --quiet=2 && "${install[@]}"; } > /dev/null || return
    command -v wrk
}

# guidellm asks for torch, which brings 5 GB for GPUs and here only iterates over prompts: tools/torch.py does that. A
# guidellm on PATH keeps its own.
get_guidellm() {
    command -v guidellm && return
    local bin=$tools/guidellm/bin
    local pip=(nice "$bin/python" -m pip install --quiet --disable-pip-version-check)
    if [ ! -e "$tools/guidellm/whole" ]; then
        python3 -m venv "$tools/guidellm" && "${pip[@]}" --no-deps guidellm==0.8.1 >&2 || return
        "$bin/python" - > "$out/requires" << 'PYTHON' || return
from importlib.metadata import requires
# jinja2 came with torch.
print(*(r for r in requires("guidellm") if "extra ==" not in r and not r.startswith("torch")), "jinja2", sep="\n")
PYTHON
        # What it says on stderr when all is well: torch is missing.
        "${pip[@]}" -r "$out/requires" 2> "$out/pip" || { cat "$out/pip" >&2; return 1; }
        touch "$tools/guidellm/whole"
    fi
    echo "$bin/guidellm"
}

# Starts the server of this name on a free port, waits until it is healthy, and sets $url.
start() {
    local port
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    url=http://127.0.0.1:$port
    local flags=(--port "$port" -c "$context" -np "$parallel" -t "$threads" ${model:+-m "$model"})
    case $1 in
        qrun) "$qrun" serve --device cpu "${flags[@]}" > "$out/log" 2>&1 & ;;
        llama-server) "$llama" --no-webui "${flags[@]}" > "$out/log" 2>&1 & ;;
    esac
    server=$!
    for _ in $(seq 600); do
        curl --silent --fail --output /dev/null "$url/health" && return
        kill -0 "$server" 2> /dev/null || break
        sleep 0.2
    done
    say "$1 did not start:"
    tail -5 "$out/log" >&2
    stop
    return 1
}

# Many prompts, so that few answers begin in a cache.
for i in $(seq 512); do
    printf '{"prompt": "%d ways to tell tale %d:", "max_tokens": %d, "temperature": 0, "ignore_eos": true}\n' \
        "$((i * 7))" "$i" "$tokens"
done > "$out/bodies"

# The loads: each leaves LOAD.json in folder $1. The number behind its name is how many clients are in a loop.

load_oha() {
    local clients count flags=(--no-tui --output-format json)
    timeout 120 "$program" "${flags[@]}" -n 20000 -c 32 "$url/health" > "$1/health 32.json"
    # Of 32 clients 24 are in the queue.
    for clients in 1 8 32; do
        count=$((clients == 1 ? 16 : clients == 8 ? 64 : 128))
        timeout 300 "$program" "${flags[@]}" -n $count -c $clients -t 120s -m POST -T application/json \
            -Z "$out/bodies" "$url/v1/completions" > "$1/completions $clients.json"
    done
}

load_wrk() {
    local flags=(-t 1 -d "${seconds}s" --timeout 60s -s "$here/wrk.lua") limit=$((seconds + 120))
    timeout $limit "$program" "${flags[@]}" -c 32 "$url/health" -- "$1/health 32.json" > /dev/null || return
    timeout $limit "$program" "${flags[@]}" -c 8 "$url/v1/completions" -- "$1/streams 8.json" "$out/bodies" > /dev/null
}

# One at a time, then as many as come, then two rates between. So many requests rather than so many seconds: guidellm
# sometimes loses one that it cancels, and then waits for it for ever.
load_guidellm() {
    local own=()
    [[ $program != "$tools"/* ]] || own=(USE_TORCH=0 PYTHONPATH="$here")
    env "${own[@]}" HF_HUB_OFFLINE=1 PYTHONDONTWRITEBYTECODE=1 timeout 400 "$program" run \
        --backend "kind=openai_http,target=$url,request_format=/v1/completions" \
        --profile "kind=sweep,sweep_size=4,max_concurrency=32" \
        --constraint "kind=max_requests,count=$requests" --constraint "kind=max_duration,seconds=90" \
        --tokenizer "kind=huggingface_auto,model=$vocabulary" \
        --data "kind=synthetic_text,prompt_tokens=128,output_tokens=32" \
        --metrics "kind=generative,sample_size=0" --output "kind=json,path=$1/sweep.json" \
        --disable-console > "$out/guidellm" 2>&1 || { tail -5 "$out/guidellm" >&2; return 1; }
}

servers=(qrun)
[ -z "$llama" ] || servers+=(llama-server)
mkdir "$out/runs"
for tool in ${wanted//,/ }; do
    program=$("get_$tool") || { say "$tool: missing, and could not be installed"; continue; }
    if [ "$tool" = guidellm ]; then
        # The file's own tokenizer, so that its prompts are as long as they should be.
        vocabulary=$tools/vocabulary/$(basename "${model:-demo}" .gguf)
        [ -e "$vocabulary/tokenizer.json" ] ||
            python3 "$here/vocabulary.py" "${model:-models/demo/qrun-demo-Q4_K_M.gguf}" "$vocabulary"
    fi
    mkdir "$out/runs/$tool"
    # wrk says it with exit 1.
    { "$program" --version || true; } 2>&1 | sed -n '1s/ \[.*//; 1p' > "$out/runs/$tool/version"
    for name in "${servers[@]}"; do
        say "$tool: $name"
        mkdir "$out/runs/$tool/$name"
        start "$name" || continue
        "load_$tool" "$out/runs/$tool/$name" || say "$tool: a load of $name failed"
        stop
    done
done
python3 "$here/record.py" "$out/runs" "${model:-demo}" \
    --count "tokens=$tokens" "threads=$threads" "parallel=$parallel" "context=$context" \
    --program "qrun=$qrun" ${llama:+"llama-server=$llama"} ${save:+--save "$save"}
