"""What importing costs and brings along."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import qrun
from conftest import program

HEAVY = ["asyncio", "json", "numpy", "subprocess", "typing", "dataclasses", "inspect", "warnings.warn"]


def import_ms(module: str) -> float:
    """What an import takes of the processor: of this process alone, what others take of a busy machine is not in it."""
    code = f"import time; t = time.process_time(); import {module}; print((time.process_time() - t) * 1e3)"
    return min(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5))


def test_importing_is_quick() -> None:
    # 20 ms on a machine of today, where asyncio takes some 35: a ratio holds on slow ones too.
    assert import_ms("qrun") <= 20 / 35 * import_ms("asyncio")


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


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_ctrl_c_ends_the_program_as_the_native_one() -> None:
    start = [sys.executable, "-c", "import sys, qrun; sys.exit(qrun.main())"]
    words = ["-p", "Hello", "--ignore-eos", "-n", "100000", "-c", "2048", "--device", "cpu"]
    process = subprocess.Popen([*start, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None and process.stdout.read(4)
    process.send_signal(signal.SIGINT)
    process.stdout.read()
    assert process.wait(20) == 130


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, ["--version"]),
        (0, ["-p", "Hello", "-n", "2", "--device", "cpu"]),
        (2, ["--no-such-flag"]),
        (3, ["no-such.gguf", "-p", "x"]),
        (4, ["-p", "x", "-c", "2000000000", "--device", "cpu"]),
        (5, ["-p", "x", "--device", "cuda9"]),
        (6, ["pull", "someone/some-model", "--offline"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_the_programs_exit_codes_are_the_readmes(code: int, words: "list[str]", tmp_path: Path) -> None:
    done = program(*words, env={**os.environ, "HF_HUB_CACHE": str(tmp_path)})
    assert done.returncode == code, done.stderr
    assert "error: " in done.stderr if code else done.stdout


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_what_cannot_be_written_is_an_exit_code_too() -> None:
    start = [sys.executable, "-m", "qrun", "-p", "Hello", "-n", "2", "--device", "cpu"]
    with open("/dev/full", "w") as full:
        assert subprocess.run(start, stdout=full, stderr=subprocess.DEVNULL, check=False).returncode == 1


def test_the_program() -> None:
    assert program("--version").stdout == f"qrun {qrun.__version__}\n"
    beside = Path(sys.executable).parent
    for name in ("qrun", "qrun-llm"):
        said = subprocess.run([beside / name, "--version"], capture_output=True, text=True, check=False)
        assert (said.returncode, said.stdout) == (0, f"qrun {qrun.__version__}\n"), said.stderr


def test_the_readmes_links_hold_on_the_package_index() -> None:
    """It is the page of the package there, beside no other file."""
    root = Path(__file__).parents[2]
    readme = (root / "src/python/README.md").read_text()
    host = re.search(r'^repository = "(.*)"$', (root / "Cargo.toml").read_text(), re.MULTILINE)
    assert host is not None
    links = re.findall(r"\]\(([^)]*)\)", readme)
    assert len(links) >= 3
    for link in links:
        assert link.startswith(f"{host[1]}/blob/main/"), link
        assert (root / link[len(f"{host[1]}/blob/main/") :]).is_file(), link
