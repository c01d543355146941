#!/usr/bin/env bash
# huggingface_hub's opinion on qrun's cache: its own code and qrun on one folder, against a server of the script.
# tests/download/run.sh [QRUN]; QRUN: target/release/qrun by default.
set -euo pipefail
cd "$(dirname "$0")/../.."
qrun=${1:-target/release/qrun}
bin=target/hub/bin
[ -x "$bin/python" ] || python3 -m venv target/hub
"$bin/python" -m pip install --quiet --disable-pip-version-check huggingface_hub==2.4.0
"$bin/python" tests/download/hub.py "$qrun" models/demo/qrun-demo-Q4_K_M.gguf
