"""The notebook: committed without outputs, and it runs from top to bottom on the model inside, without network or GPU.

Needs nbclient, nbformat and ipykernel; matplotlib's pictures are drawn where it is there, as in the wheel's extra `notebook`.
"""

from __future__ import annotations

import importlib.util
import json
import resource
from pathlib import Path
from typing import Any

import pytest
from conftest import DEVICE

NOTEBOOK = Path(__file__).parents[2] / "src/python/notebook/qrun_t4.ipynb"


def cells(kind: str) -> "list[dict[str, Any]]":
    return [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == kind]


def test_it_is_committed_without_outputs() -> None:
    code = cells("code")
    assert len(code) > 10
    for cell in code:
        assert cell["outputs"] == [] and cell["execution_count"] is None, "".join(cell["source"])
    assert json.loads(NOTEBOOK.read_text())["metadata"].keys() == {"kernelspec", "language_info"}


def test_it_has_the_seeds_steps_and_names() -> None:
    source = "\n".join("".join(cell["source"]) for cell in cells("code"))
    words = [
        "import qrun.llcuda as llcuda",
        "check_gpu_compatibility()",
        "InferenceEngine()",
        "load_model(MODEL, silent=True, auto_start=True)",
        "batch_infer(prompts, max_tokens=80",
        "get_metrics()",
        'stop_sequences=["\\n\\n"]',
        "stream_generate",
        "with llcuda.InferenceEngine()",
        '"p95_ms"',
        ".plan()",
        "nvidia-smi",
        'recipe("llcuda")',
        'recipe("infer"',
        'recipe("eole"',
    ]
    for word in words:
        assert word in source, word
    assert "pip install qrun " not in source and '"qrun-llm[notebook]"' in source


def spent() -> float:
    """Seconds of the processors that children of this process took: what others take of a busy machine is not in it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.skipif(DEVICE != "cpu", reason="a minute is what the demo takes on a CPU; an emulated GPU is slower")
def test_it_runs_from_top_to_bottom_in_a_minute(tmp_path: Path, monkeypatch: Any) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("QRUN_NOTEBOOK_MODEL", "demo")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    # The kernel's own: pictures are outputs.
    monkeypatch.delenv("MPLBACKEND", raising=False)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    # A text that is the name of a file is shown as text all the same.
    (tmp_path / "qrun").mkdir()
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    before = spent()
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert spent() - before < 60
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    printed = "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")
    for word in ("qrun demo", "tok/s together", "of the limit", "paladin8/infer", "loaded: False"):
        assert word in printed, word
    shown = [output.data for output in outputs if output.output_type in ("display_data", "update_display_data")]
    assert any("text/markdown" in data and data["text/markdown"] for data in shown)
    # The latencies, and the shares of the limit.
    pictures = 2 if importlib.util.find_spec("matplotlib") else 0
    assert [len(data["image/png"]) > 4000 for data in shown if "image/png" in data] == [True] * pictures
