#!/usr/bin/env bash
# Other people's code against servers of this checkout: the official clients of OpenAI (Python, JavaScript), Anthropic and
# Ollama, the chat page's modules and the page in Chromium, schemathesis over openapi.json, proxies before two servers,
# llama-server's own suite. What needs a program that is not here (node, npm, chromium, haproxy, nginx) is not run; with CI
# set, node, npm and chromium are installed.
# tests/server/run.sh [QRUN]; QRUN: target/release/qrun by default. Without CI, SKIP="peer browser" leaves suites out:
# clients, page, browser, javascript, requests, proxies, peer.
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

# Whether a suite of this name runs; says since when.
suite() {
    if [ -z "${CI-}" ] && [[ " ${SKIP-} " = *" $1 "* ]]; then
        echo "$1: left out"
        return 1
    fi
    echo "$1 ($SECONDS s)"
}
# Whether all of these programs are here; says which one is not.
have() {
    for program; do
        command -v "$program" > /dev/null || { echo "no $program: not run"; return 1; }
    done
}

# A browser by its names on several systems; Ubuntu's `chromium` is none.
browser() { command -v google-chrome chromium chromium-browser | head -1; }

if [ -n "${CI-}" ]; then
    missing=()
    have node npm > /dev/null || missing+=(nodejs npm)
    [ -n "$(browser)" ] || missing+=(chromium)
    if [ ${#missing[@]} -gt 0 ]; then
        as_root=()
        [ "$(id -u)" = 0 ] || as_root=(sudo)
        "${as_root[@]}" apt-get update -q > /dev/null
        "${as_root[@]}" apt-get install -qy --no-install-recommends "${missing[@]}" > /dev/null
        have node npm
    fi
fi
npm=target/clients/npm
if have npm; then
    npm install --prefix "$npm" --ignore-scripts --prefer-offline --no-audit --no-fund --loglevel error \
        openai@7.57.0 playwright-core@1.65.1 > /dev/null
fi
here=$PWD/tests/server

start -c 8192
if suite clients; then
    "$bin/python" tests/server/clients.py "$url" || { tail -40 "$log"; exit 1; }
fi
if suite page && have node; then
    node --test tests/server/page.mjs
fi
if suite browser && have node npm "$(browser || echo chromium)"; then
    (cd "$npm" && node "$here/browser.mjs" "$url" "$(browser)") || { tail -40 "$log"; exit 1; }
fi

if suite javascript && have node npm; then
    start -c 8192 -np 4 --api-key secret
    (cd "$npm" && node "$here/clients.mjs" "$url" secret) || { tail -40 "$log"; exit 1; }
fi

# Requests made from openapi.json: no answer is a 5xx, each has a status, a type and a shape that the document names.
if suite requests; then
    start -c 4096 -n 2 --slot-save-path "$slots"
    "$bin/schemathesis" run "$url/openapi.json" --exclude-tag absent --phases examples,coverage,fuzzing \
        --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
        --max-examples 20 --max-time 45 --seed 1 --warnings off || { tail -40 "$log"; exit 1; }
fi

if suite proxies; then
    PATH="$PWD/$bin:$PATH" tests/server/replicas/run.sh "$qrun"
fi

if suite peer; then
    tests/server/peer.sh "$qrun"
fi
