"""Files made from others, measurements, and what this machine can compute with."""

from __future__ import annotations

from qrun import _qrun
from qrun._errors import DeviceError, DownloadError, Error, ModelFileError, ModelNotFound, OutOfMemory, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any, Callable

    Path = str | os.PathLike[str]

BY_EXIT_CODE: dict[int, type[Error]] = {
    2: UsageError,
    3: ModelFileError,
    4: OutOfMemory,
    5: DeviceError,
    6: DownloadError,
}
"""What the program's exit codes mean here."""


def quantize(
    input: Path,
    output: Path,
    type: str = "Q4_K_M",
    *,
    n_threads: int = 0,
    allow_requantize: bool = False,
    force: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> dict[str, Any]:
    """Makes a smaller model of a model: Q4_K_M, Q5_K_M, Q6_K, Q8_0 … as `qrun quantize` does.

    Returns bytes before and after, the formats, and tensors that took another one. `allow_requantize`: also from tensors
    that are quantized already, whose errors add up; `force` replaces a file; `progress(done, total)` hears bytes.

    >>> import qrun, tempfile, os
    >>> folder = tempfile.mkdtemp()
    >>> qrun.synth("tiny-llama", os.path.join(folder, "big.gguf"), type="F16")
    >>> made = qrun.quantize(os.path.join(folder, "big.gguf"), os.path.join(folder, "small.gguf"), "Q4_K_M")
    >>> made["bytes_out"] < made["bytes_in"]
    True
    """
    import json

    options = {
        "type": type,
        "n_threads": n_threads,
        "allow_requantize": allow_requantize,
        "force": force,
        "progress": progress,
    }
    found: dict[str, Any] = json.loads(_qrun.quantize(input, output, options))
    return found


def synth(
    name: str,
    output: Path,
    type: str = "Q4_K_M",
    *,
    seed: int = 0,
    force: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> None:
    """Makes a model of random weights in the shapes of a real one, to measure and to test with.

    >>> import qrun, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "tiny.gguf")
    >>> qrun.synth("tiny-qwen3", path)
    >>> len(qrun.Engine(path, n_ctx=64).generate("Hello", max_tokens=3, ignore_eos=True).tokens)
    3
    """
    _qrun.synth(name, output, {"type": type, "seed": seed, "force": force, "progress": progress})


def bench(model: Path | None = None, **flags: Any) -> dict[str, Any] | list[dict[str, Any]]:
    """Measures a model in a process of its own, as `qrun bench` does, and returns its report.

    Keywords are that command's flags: `suite="quick"`, `max_new_tokens=64`, `prompts="file.txt"`, `startup=True`,
    `device="cpu"` …; without a mode, the rows of llama-bench. In place of a model, `synthetic="gemma-3-1b:Q4_K_M"`.

    >>> import qrun, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "tiny.gguf")
    >>> qrun.synth("tiny-llama", path)
    >>> rows = qrun.bench(path, device="cpu", n_prompt=8, n_gen=4, repetitions=1)
    >>> [row["n_gen"] for row in rows]
    [0, 4]
    """
    import errno
    import json
    import os
    import subprocess
    import sys

    words = ["bench", "--json"] if model is None else ["bench", "--json", "-m", str(model)]
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif value is not None and value is not False:
            words += [flag, str(value)]
    start = [sys.executable, "-c", "import sys, qrun; sys.exit(qrun.main())"]
    done = subprocess.run([*start, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.strip() or f"exit code {done.returncode}"
        if done.returncode == 3 and model is not None and not os.path.exists(model):
            raise ModelNotFound(errno.ENOENT, "no such file", str(model))
        raise BY_EXIT_CODE.get(done.returncode, Error)(f"qrun bench: {said}")
    found: dict[str, Any] | list[dict[str, Any]] = json.loads(done.stdout)
    return found


def doctor() -> dict[str, Any]:
    """What this machine can compute with: processor, threads, memory in bytes, GPUs, and why there is none.

    >>> import qrun
    >>> facts = qrun.doctor()
    >>> facts["auto"] == "cpu" or facts["auto"].startswith("cuda")
    True
    >>> (facts["no_gpu"] is None) == bool(facts["gpus"])
    True
    """
    import json

    found: dict[str, Any] = json.loads(_qrun.machine_facts())
    return found


def devices() -> list[dict[str, Any]]:
    """What a model can run on here: the GPUs, then the CPU; `id` is what `Engine(device=…)` takes.

    >>> import qrun
    >>> qrun.devices()[-1]["id"]
    'cpu'
    """
    facts = doctor()
    cpu = {
        "id": "cpu",
        "name": facts["cpu"],
        "memory": facts["memory_available"],
        "threads": facts["physical_cores"],
        "usable": True,
    }
    return [*facts["gpus"], cpu]
