"""huggingface_hub and qrun on one cache: each finds what the other has fetched, and one lock holds both.

hub.py QRUN MODEL.gguf, with huggingface_hub installed. The hub is a server of this script.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

QRUN, MODEL = sys.argv[1], Path(sys.argv[2]).read_bytes()
SUM = hashlib.sha256(MODEL).hexdigest()
COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAME = "x-Q4_K_M.gguf"

sent = 0  # bytes of the file that went out
count = threading.Lock()
gate = threading.Event()  # while it is not set, bodies wait after their first part


class Hub(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.answer(body=True)

    def answer(self, body):
        path = self.path.split("?")[0]
        if path.endswith(f"/{NAME}") and "/resolve/" in path:
            self.file(body)
        elif path.startswith("/api/models/u/r/revision/"):
            lfs = {"sha256": SUM, "size": len(MODEL), "pointerSize": 135}
            sibling = {"rfilename": NAME, "size": len(MODEL), "blobId": "a" * 40, "lfs": lfs}
            self.say(200, json.dumps({"id": "u/r", "sha": COMMIT, "siblings": [sibling]}).encode(), body)
        else:
            self.say(404, b"{}", body)

    def say(self, status, text, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if body:
            self.wfile.write(text)

    def file(self, body):
        global sent
        first, last, wanted = 0, len(MODEL) - 1, self.headers.get("Range")
        if wanted:
            a, b = wanted.removeprefix("bytes=").split("-")
            first, last = int(a), int(b or last)
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(MODEL)}")
        for name, value in [("ETag", f'"{SUM}"'), ("X-Linked-Etag", f'"{SUM}"'), ("X-Linked-Size", len(MODEL)),
                            ("X-Repo-Commit", COMMIT), ("Accept-Ranges", "bytes"), ("Content-Length", last + 1 - first)]:
            self.send_header(name, str(value))
        self.end_headers()
        if body:
            half = first + (last + 1 - first) // 2
            self.wfile.write(MODEL[first:half])
            gate.wait()
            self.wfile.write(MODEL[half : last + 1])
            with count:
                sent += last + 1 - first


server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
threading.Thread(target=server.serve_forever, daemon=True).start()
os.environ |= {
    "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
    "HF_HUB_DISABLE_XET": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "NO_PROXY": "127.0.0.1",
}

import huggingface_hub  # noqa: E402: it reads the environment when it is imported
from filelock import FileLock, Timeout  # noqa: E402
from huggingface_hub import hf_hub_download, scan_cache_dir  # noqa: E402
from huggingface_hub.utils import WeakFileLock  # noqa: E402


def start(cache, *words):
    environment = os.environ | {"HF_HUB_CACHE": str(cache)}
    return subprocess.Popen([QRUN, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ends(process):
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, (process.returncode, err)
    return Path(out.strip())


def theirs(cache, **options):
    return Path(hf_hub_download("u/r", NAME, cache_dir=cache, **options))


def check(what, cache):
    """`what` with an empty cache and a count of zero."""
    global sent
    sent = 0
    gate.set()
    with tempfile.TemporaryDirectory() as folder:
        cache(Path(folder) / "hub")
    print(f"{what}: as it should be")


def qrun_finds_theirs(cache):
    path = theirs(cache)
    assert sent == len(MODEL)
    assert ends(start(cache, "pull", "u/r", "--offline")) == path
    assert ends(start(cache, "pull", "u/r")) == path
    assert sent == len(MODEL), "nothing was fetched twice"


def they_find_qruns(cache):
    path = ends(start(cache, "pull", "u/r"))
    assert path.read_bytes() == MODEL and sent == len(MODEL)
    assert theirs(cache, local_files_only=True) == path
    assert theirs(cache) == path
    assert sent == len(MODEL), "nothing was fetched twice"
    found = scan_cache_dir(cache)
    assert not found.warnings, found.warnings
    (repo,) = found.repos
    assert (repo.repo_id, repo.size_on_disk, repo.nb_files) == ("u/r", len(MODEL), 1), repo


def their_lock_holds_qrun(cache):
    lock = cache / ".locks" / "models--u--r" / f"{SUM}.lock"
    lock.parent.mkdir(parents=True)
    with WeakFileLock(lock):
        process = start(cache, "pull", "u/r")
        time.sleep(1.5)
        assert process.poll() is None and sent == 0, "qrun waits"
    assert ends(process).read_bytes() == MODEL


def qruns_lock_holds_them(cache):
    gate.clear()
    process = start(cache, "pull", "u/r")
    partial = cache / "models--u--r" / "blobs" / f"{SUM}.qrun.incomplete"
    while not (partial.exists() and partial.stat().st_size > 0):
        assert process.poll() is None
        time.sleep(0.02)
    try:
        with FileLock(cache / ".locks" / "models--u--r" / f"{SUM}.lock", timeout=0.3):
            raise AssertionError("the lock was free while qrun fetched")
    except Timeout:
        pass
    waiting = []
    thread = threading.Thread(target=lambda: waiting.append(theirs(cache)))
    thread.start()
    time.sleep(0.3)
    gate.set()
    path = ends(process)
    thread.join(60)
    assert waiting == [path] and sent == len(MODEL), (waiting, sent)


print(f"huggingface_hub {huggingface_hub.__version__}")
check("qrun finds what huggingface_hub has fetched", qrun_finds_theirs)
check("huggingface_hub finds what qrun has fetched", they_find_qruns)
check("huggingface_hub's lock holds qrun", their_lock_holds_qrun)
check("qrun's lock holds huggingface_hub", qruns_lock_holds_them)
