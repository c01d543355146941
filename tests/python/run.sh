#!/usr/bin/env bash
# The Python package from a wheel in an empty environment: pytest, the examples in its docstrings, types of the package, of
# a user's program and of the native module.
# tests/python/run.sh [WHEEL] [PYTEST FLAGS…]; without a wheel one is built. QRUN_TEST_DEVICE=cuda runs the models on a GPU:
# the emulated one where this machine has none, and without flags only what is about texts and streams.
set -euo pipefail
cd "$(dirname "$0")/../.."
wheel=
case ${1:-} in *.whl) wheel=$1 && shift ;; esac

tools=target/python/tools
[ -x "$tools/bin/maturin" ] || python3 -m venv "$tools"
"$tools/bin/python" -m pip install --quiet --disable-pip-version-check "maturin>=1.9,<2" abi3audit
if [ -z "$wheel" ]; then
    rm -rf target/python/wheels
    # The profile of the program, whose crates are built already; .ci/release makes the wheel that people get.
    "$tools/bin/maturin" build --quiet --profile release --manifest-path src/python/Cargo.toml --out target/python/wheels
    wheel=$(ls target/python/wheels/*.whl)
fi

# The interface that all of these versions have, and nothing beyond it.
"$tools/bin/abi3audit" --strict "$wheel"

# Nothing but the wheel, what its extra brings, pytest and what a test asks for.
room=target/python/room
rm -rf "$room"
python3 -m venv "$room"
bin=$PWD/$room/bin
"$bin/python" -m pip install --quiet --disable-pip-version-check "$wheel"
"$bin/python" -c 'import qrun; print(qrun.Engine().generate("What is a page table?", max_tokens=4, temperature=0))'
"$bin/qrun" --version
"$bin/qrun-llm" --version
# What draws the notebook's pictures and widgets is the wheel's own extra.
"$bin/python" -m pip install --quiet --disable-pip-version-check "$wheel[notebook]" \
    pytest numpy mypy nbclient nbformat ipykernel

device=${QRUN_TEST_DEVICE:-cpu}
if [ "$device" = cuda ] && ! command -v nvidia-smi > /dev/null; then
    LD_LIBRARY_PATH=$(.ci/program gpu-counts --library)
    export LD_LIBRARY_PATH QRUN_EMULATOR=${QRUN_EMULATOR:-sm=75}
    # All of it takes an emulated GPU some minutes more; -k "" asks for it.
    texts="greedy or all_ways or test_streams or chunks or gpt_oss or keys_and_types or token_by_token or chat_template"
    texts+=" or callback or one_batch or zero_is_a_value or conversations or notebooks_cells or without_a_notebook"
    [ $# -gt 0 ] || set -- -k "$texts"
fi
export MYPY_CACHE_DIR=$PWD/target/python/mypy
package=$("$bin/python" -c 'import qrun, os; print(os.path.dirname(qrun.__file__))')
"$bin/python" -m pytest -q -p no:cacheprovider tests/python "$@"
[ "$device" = cpu ] || exit 0

"$bin/python" -m pytest -q -p no:cacheprovider -o doctest_optionflags=ELLIPSIS --doctest-modules "$package"
cd tests/python
"$bin/python" -m mypy --strict sample.py
"$bin/python" sample.py > /dev/null
"$bin/python" -m mypy --strict -p qrun
"$bin/python" -m mypy.stubtest qrun._qrun
cd ../..

# One wheel for every CPython from 3.9 on that is here.
for python in python3.{9..15} "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python; do
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2> /dev/null || continue
    PYTHONPATH=$(dirname "$package") "$python" -c \
        'import sys, qrun; assert len(qrun.Engine(n_ctx=64).generate("Hi", max_tokens=3).tokens) == 3; print(sys.version.split()[0])'
done
