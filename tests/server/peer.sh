#!/usr/bin/env bash
# llama-server's own test suite against qrun and its demo model: what becomes of each case has to be as peer-suite.txt says.
# tests/server/peer.sh [QRUN [PYTEST FLAGS…]]; QRUN: target/release/qrun by default.
set -euo pipefail
cd "$(dirname "$0")/../.."
qrun=$(realpath "${1:-target/release/qrun}")
shift $(($# > 0))
bin=$PWD/target/clients/bin
[ -x "$bin/python" ] || python3 -m venv target/clients
"$bin/python" -m pip install --quiet --disable-pip-version-check openai pytest requests filelock==4.3.1 wget==3.2

# The suite is in the source package of llama.cpp's Python bindings: of that only the suite and the templates it names are kept.
version=0.3.36
hash=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
room=$PWD/target/peer-suite
suite=$room/$version
if [ ! -d "$suite" ]; then
    rm -rf "$room"
    mkdir -p "$room/unpacked"
    echo "llama-cpp-python==$version --hash=sha256:$hash" > "$room/wanted"
    # pip asks a source package for its name before it hands it out; nothing is compiled for that.
    "$bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary llama-cpp-python \
        --require-hashes --requirement "$room/wanted" --dest "$room" || {
        echo "llama-server's suite cannot be fetched: not run (without CI, SKIP=peer leaves it out of run.sh)" >&2
        exit 1
    }
    tar --extract --gzip --file "$room"/llama_cpp_python-*.tar.gz --directory "$room/unpacked" --strip-components=3 \
        --wildcards '*/vendor/llama.cpp/tools/server/tests/*' '*/vendor/llama.cpp/models/templates/*'
    rm "$room"/llama_cpp_python-*.tar.gz
    mv "$room/unpacked" "$suite"
fi

# What the suite starts as llama-server. Models that it names by their repositories are the demo model here.
cat > "$room/llama-server" << 'EOF'
#!/bin/sh
named=
for word; do
    shift
    if [ -n "$named" ]; then
        named=
        continue
    fi
    case $word in
    --hf-repo | --hf-file) named=1 ;;
    --offline) ;;
    *) set -- "$@" "$word" ;;
    esac
done
exec "$QRUN" serve --model "$DEMO" --cors-origins '*' "$@"
EOF
chmod +x "$room/llama-server"

PORT=$("$bin/python" -c 'import socket; one = socket.create_server(("127.0.0.1", 0)); print(one.getsockname()[1])')
export PORT QRUN=$qrun DEMO=$PWD/models/demo/qrun-demo-Q4_K_M.gguf LLAMA_SERVER_BIN_PATH=$room/llama-server
export PYTHONPATH=$PWD/tests/server PYTHONDONTWRITEBYTECODE=1
# Plugins that lie beside it in the environment are not its own.
export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1
cd "$suite/tools/server/tests"
exec "$bin/python" -m pytest -p peer -p no:cacheprovider --basetemp "$room/temporary" -q --tb=short "$@"
