"""qrun under Ray Serve: each replica runs `qrun serve` on a Unix socket of its own, and bytes pass through it.

QRUN_COMMAND="qrun serve MODEL.gguf" serve run ray_serve:app
"""

import os
import shlex
import signal
import subprocess
import tempfile
import time

import httpx
from ray import serve
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import StreamingResponse

# Of one connection each, not of what is passed on.
HOP = {"connection", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}


@serve.deployment(
    num_replicas=2,
    # The server queues by itself, and says 503 when it is full.
    max_ongoing_requests=256,
    health_check_period_s=5,
    graceful_shutdown_timeout_s=45,
)
class Qrun:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        path = os.path.join(self.folder.name, "qrun.sock")
        command = shlex.split(os.environ.get("QRUN_COMMAND", "qrun serve"))
        self.process = subprocess.Popen([*command, "--host", path])
        transport = httpx.AsyncHTTPTransport(uds=path, limits=httpx.Limits(max_connections=None))
        # Prompts take their time.
        self.client = httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=httpx.Timeout(600))
        with httpx.Client(transport=httpx.HTTPTransport(uds=path), base_url="http://localhost") as client:
            while not self._is_ready(client):
                if self.process.poll() is not None:
                    raise RuntimeError(f"qrun ended with {self.process.returncode}")
                time.sleep(0.1)

    @staticmethod
    def _is_ready(client):
        try:
            return client.get("/health").status_code == 200
        except httpx.TransportError:
            return False

    async def check_health(self):
        # A full server is healthy; one that does not answer is replaced.
        (await self.client.get("/livez", timeout=10)).raise_for_status()

    async def __call__(self, request: Request):
        headers = [(name, value) for name, value in request.headers.items() if name not in HOP]
        url = httpx.URL(path=request.url.path, query=request.url.query.encode())
        asked = self.client.build_request(request.method, url, headers=headers, content=await request.body())
        answer = await self.client.send(asked, stream=True)
        headers = {name: value for name, value in answer.headers.items() if name not in HOP}
        # Who goes away closes this stream, and with it the request to the server, which then ends the answer.
        return StreamingResponse(answer.aiter_raw(), answer.status_code, headers, background=BackgroundTask(answer.aclose))

    def __del__(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(40)


app = Qrun.bind()
