"""Models by name, from a server of our own: no test asks the network."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import pickle
import threading
from pathlib import Path
from typing import Any, Iterator

import pytest
import qrun
from conftest import DEVICE, PROMPT


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Starts servers with a handler of this class; returns their addresses."""
    servers = []
    for name in ("HF_TOKEN", "HF_ENDPOINT", "MODEL_ENDPOINT", "HF_HUB_OFFLINE", "LLAMA_ARG_OFFLINE", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("LLAMA_CACHE", raising=False)

    def start(handler: Any) -> str:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_address[1]}"

    yield start
    for server in servers:
        server.shutdown()


class Files(http.server.SimpleHTTPRequestHandler):
    """The files of a folder."""

    def log_message(self, *_: object) -> None:
        pass


class Hub(http.server.BaseHTTPRequestHandler):
    """A hub with one repository, someone/model, whose files are those of a test."""

    files: "dict[str, bytes]" = {}

    def do_GET(self) -> None:
        path, found = self.path.split("?")[0], None
        if path == "/api/models/someone/model/revision/main":
            rows = [
                {"rfilename": name, "size": len(data), "lfs": {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)}}
                for name, data in self.files.items()
            ]
            found = json.dumps({"id": "someone/model", "sha": "0123456789" * 4, "siblings": rows}).encode()
        elif path.startswith("/someone/model/resolve/"):
            found = self.files.get(path.rsplit("/", 1)[1])
        self.send_response(200 if found is not None else 404)
        self.send_header("Content-Length", str(len(found or b"")))
        self.end_headers()
        self.wfile.write(found or b"")

    def log_message(self, *_: object) -> None:
        pass


class Gated(http.server.BaseHTTPRequestHandler):
    """A hub that asks for a licence to be accepted."""

    def do_GET(self) -> None:
        self.send_response(403)
        self.send_header("X-Error-Code", "GatedRepo")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        pass


def test_a_url_is_fetched_once_and_found_again(serve: Any, tiny: Any) -> None:
    model = tiny("tiny-llama")
    url = serve(functools.partial(Files, directory=str(model.parent))) + "/" + model.name
    assert qrun.find(url) is None and qrun.models() == []
    heard: list[tuple[int, int]] = []
    path = qrun.pull(url, progress=lambda done, total: heard.append((done, total)))
    assert Path(path).read_bytes() == model.read_bytes()
    assert heard[-1][0] == model.stat().st_size
    assert qrun.find(url) == path == qrun.pull(url, offline=True)
    (found,) = qrun.models()
    assert (found["bytes"], found["path"]) == (model.stat().st_size, path)
    with qrun.Engine(url, device=DEVICE, n_ctx=256, offline=True) as engine:
        assert len(engine.generate(PROMPT, max_tokens=3, ignore_eos=True).tokens) == 3
    assert qrun.remove(url)["bytes"] >= model.stat().st_size
    assert qrun.find(url) is None


def test_a_repository_is_opened_by_its_name(serve: Any, tiny: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"x-Q4_K_M.gguf": tiny("tiny-llama").read_bytes(), "y-Q8_0.gguf": tiny("tiny-qwen3").read_bytes()}
    monkeypatch.setenv("HF_ENDPOINT", serve(type("Filled", (Hub,), {"files": files})))
    how: "dict[str, Any]" = {"device": DEVICE, "n_ctx": 256}
    for opening, architecture in [
        (lambda: qrun.Engine("someone/model", **how), "llama"),
        (lambda: qrun.Engine("someone/model:Q8_0", **how), "qwen3"),
        (lambda: qrun.Engine.from_pretrained("someone/model", **how), "llama"),
        (lambda: qrun.Engine.from_pretrained("someone/model", "*Q8_0.gguf", **how), "qwen3"),
        (lambda: qrun.Engine.from_pretrained("someone/model", "y-Q8_0.gguf", **how, offline=True), "qwen3"),
        (lambda: qrun.Engine.from_pretrained("someone/model:Q8_0", **how), "qwen3"),
        # Patterns as llama-cpp-python takes them.
        (lambda: qrun.Engine.from_pretrained("someone/model", "*.gguf", **how), "llama"),
        (lambda: qrun.Engine.from_pretrained("someone/model", "X*Q4_K_M.gguf", **how), "llama"),
        (lambda: qrun.Engine.from_pretrained("someone/model", "*y*q8_0*", **how), "qwen3"),
    ]:
        with opening() as engine:
            assert engine.info()["architecture"] == architecture
    llama = qrun.Llama.from_pretrained("someone/model", "*Q8_0.gguf", n_ctx=128, verbose=False)
    assert llama.metadata["general.architecture"] == "qwen3" and llama.n_ctx() == 128
    again = pickle.loads(pickle.dumps(llama))
    assert again.model_path == llama.model_path == qrun.find("someone/model:Q8_0")
    with pytest.raises(qrun.ModelNotFound, match="Q5_K_M.*there are: Q4_K_M, Q8_0"):
        qrun.Engine.from_pretrained("someone/model", "*Q5_K_M.gguf")
    with pytest.raises(qrun.UsageError, match=r"'z\*Q8_0.gguf' was read as someone/model:Q8_0, which is y-Q8_0.gguf"):
        qrun.pull("someone/model", "z*Q8_0.gguf")
    assert qrun.find("someone/model", "z*Q8_0.gguf") is None
    assert qrun.find("someone/model", "y*.gguf", revision="main") is None  # Q4_K_M comes first, and that is x
    assert qrun.find("someone/model", "y*Q8_0.gguf") == qrun.find("someone/model:Q8_0")
    assert sorted(found["file"] for found in qrun.models()) == sorted(files)


def test_what_cannot_be_had(serve: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    url = serve(functools.partial(Files, directory=str(tmp_path)))
    for call, kind in [
        (lambda: qrun.pull("someone/model", offline=True), qrun.DownloadError),
        (lambda: qrun.pull(f"{url}/none.gguf"), qrun.Error),
        (lambda: qrun.pull("no name at all"), ValueError),
        (lambda: qrun.pull("someone/model", "*[48].gguf"), ValueError),
        (lambda: qrun.pull("someone/model", "*a/b.gguf"), ValueError),
        (lambda: qrun.pull("someone/model:Q8_0", "*Q4_K_M.gguf"), ValueError),
        (lambda: qrun.pull("someone/model", progress=5), TypeError),
        (lambda: qrun.remove("someone/model"), qrun.Error),
    ]:
        with pytest.raises(kind):
            call()
    monkeypatch.setenv("HF_ENDPOINT", serve(Gated))
    for call in (lambda: qrun.pull("someone/model", token="secret"), lambda: qrun.Engine("someone/model:Q4_K_M")):
        with pytest.raises(qrun.GatedModel, match="licence") as error:
            call()
        assert "secret" not in str(error.value)
