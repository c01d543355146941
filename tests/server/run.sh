#!/usr/bin/env bash
# Other people's code against a server of this checkout: the official Python clients of OpenAI, Anthropic and Ollama, and the
# chat page's modules where node is. tests/server/run.sh [QRUN]; QRUN: target/release/qrun by default.
set -euo pipefail
cd "$(dirname "$0")/../.."
qrun=${1:-target/release/qrun}
python=target/clients/bin/python
[ -x "$python" ] || python3 -m venv target/clients
"$python" -m pip install --quiet --disable-pip-version-check openai==3.54.0 anthropic==2.12.0 ollama==0.6.3

log=$(mktemp)
"$qrun" serve --port 0 --device cpu -c 8192 --metrics 2> "$log" &
server=$!
trap 'kill "$server" 2> /dev/null; rm -f "$log"' EXIT
for _ in $(seq 300); do
    grep -q ready "$log" && break
    kill -0 "$server" || { cat "$log"; exit 1; }
    sleep 0.1
done
url=$(sed -n 's/.*listening at \(http:[^ ]*\).*/\1/p' "$log" | head -1)
"$python" tests/server/clients.py "$url" || { tail -40 "$log"; exit 1; }
if command -v node > /dev/null; then
    node --test tests/server/page.mjs
else
    echo "no node: the page's modules were not run"
fi
