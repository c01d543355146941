"""What the tests share: where models run, the program beside the module, and scripts in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
import qrun

DEVICE = os.environ.get("QRUN_TEST_DEVICE", "cpu")
"""Where the models of the tests run: cpu, or cuda with the emulated driver in LD_LIBRARY_PATH."""

PROMPT = "Explain what a page table is."

Open = Callable[..., qrun.Engine]


@pytest.fixture
def open_engine() -> Iterator[Open]:
    """Opens engines on the device of this run; they are closed behind the test."""
    opened: list[qrun.Engine] = []

    def open_(model: Any = None, **options: Any) -> qrun.Engine:
        opened.append(qrun.Engine(model, **{"device": DEVICE, "n_ctx": 512, **options}))
        return opened[-1]

    yield open_
    for engine in opened:
        engine.close()


@pytest.fixture
def engine(open_engine: Open) -> qrun.Engine:
    """The demo model."""
    return open_engine()


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Files of small models with random weights."""
    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp("tiny") / f"{name}.gguf"
            done = program("synth", name, str(made[name]))
            assert done.returncode == 0, done.stderr
        return made[name]

    return make


def program(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs the program that is in the wheel."""
    start = [sys.executable, "-c", "import sys, qrun; sys.exit(qrun.main())"]
    return subprocess.run([*start, *arguments], capture_output=True, text=True, timeout=300, check=False, **options)


def script(code: str, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs Python in a process of its own; `DEVICE` is known there."""
    head = f"import qrun\nDEVICE = {DEVICE!r}\n"
    return subprocess.run(
        [sys.executable, "-c", head + textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        **options,
    )
