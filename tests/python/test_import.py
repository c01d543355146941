"""What importing costs and brings along."""

from __future__ import annotations

import subprocess
import sys

import qrun
from conftest import program

HEAVY = ["asyncio", "json", "numpy", "subprocess", "typing", "dataclasses", "inspect", "warnings.warn"]


def test_import_takes_at_most_20_ms() -> None:
    code = "import time; t = time.perf_counter(); import qrun; print((time.perf_counter() - t) * 1e3)"
    took = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(7)]
    assert min(took) <= 20, took


def test_import_brings_nothing_heavy() -> None:
    code = "import sys; before = set(sys.modules); import qrun; print(*set(sys.modules) - before)"
    brought = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert not set(brought) & set(HEAVY), brought


def test_every_public_name_says_what_it_is() -> None:
    missing = []
    for name in qrun.__all__:
        thing = getattr(qrun, name)
        if not (thing.__doc__ or "").strip():
            missing.append(name)
        if isinstance(thing, type):
            own = {key: value for key, value in vars(thing).items() if not key.startswith("_")}
            slots = set(getattr(thing, "__slots__", ()))
            missing += [f"{name}.{key}" for key, value in own.items() if key not in slots and not (value.__doc__ or "").strip()]
    assert missing == []


def test_the_program() -> None:
    assert program("--version").stdout == f"qrun {qrun.__version__}\n"
    assert program("no-such.gguf", "-p", "x").returncode == 3
    assert program("--no-such-flag").returncode == 2
