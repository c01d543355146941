#!/usr/bin/env bash
# Other people's code against servers of this checkout: the official Python clients of OpenAI, Anthropic and Ollama, the
# chat page's modules where node is, schemathesis over openapi.json, proxies before two servers where they are.
# tests/server/run.sh [QRUN]; QRUN: target/release/qrun by default.
set -euo pipefail
cd "$(dirname "$0")/../.."
qrun=${1:-target/release/qrun}
bin=target/clients/bin
[ -x "$bin/python" ] || python3 -m venv target/clients
"$bin/python" -m pip install --quiet --disable-pip-version-check \
    openai==3.54.0 anthropic==2.12.0 ollama==0.6.3 schemathesis==4.32.5 pyyaml==6.0.3

log=$(mktemp)
slots=$(mktemp -d)
server=
trap 'kill $server 2> /dev/null; rm -rf "$log" "$slots"' EXIT
# Starts a server with these flags in place of the one before it, waits until it is ready, and sets $url.
start() {
    [ -z "$server" ] || { kill "$server"; wait "$server" || true; }
    "$qrun" serve --port 0 --device cpu --metrics "$@" 2> "$log" &
    server=$!
    for _ in $(seq 300); do
        grep -q ready "$log" && break
        kill -0 "$server" || { cat "$log"; exit 1; }
        sleep 0.1
    done
    url=$(sed -n 's/.*listening at \(http:[^ ]*\).*/\1/p' "$log" | head -1)
}

start -c 8192
"$bin/python" tests/server/clients.py "$url" || { tail -40 "$log"; exit 1; }
if command -v node > /dev/null; then
    node --test tests/server/page.mjs
else
    echo "no node: the page's modules were not run"
fi

# Requests made from openapi.json: no answer is a 5xx, each has a status, a type and a shape that the document names.
start -c 4096 -n 2 --slot-save-path "$slots"
"$bin/schemathesis" run "$url/openapi.json" --exclude-tag absent --phases examples,coverage,fuzzing \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
    --max-examples 20 --max-time 45 --seed 1 --warnings off || { tail -40 "$log"; exit 1; }

PATH="$PWD/$bin:$PATH" tests/server/replicas/run.sh "$qrun"
