"""llcuda.server: `qrun serve` as a child of this process."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from types import TracebackType
from typing import IO, Any, Dict, List, Optional, Type
from pathlib import Path

from .. import Error
from ._engine import WITHOUT_EFFECT
from .._arguments import note


class ServerManager:
    """Starts and ends `qrun serve`: any client of OpenAI, of llama-server or of llcuda can ask it.

    with ServerManager() as server:
        server.start_server("model.gguf")
    """

    def __init__(self, server_url: str = "http://127.0.0.1:8090") -> None:
        self.server_url = server_url
        self.server_process: Optional["subprocess.Popen[bytes]"] = None
        self._said: Optional[IO[bytes]] = None

    def find_llama_server(self) -> Optional[Path]:
        """The program that serves: this Python, which runs qrun."""
        return Path(sys.executable) if sys.executable else None

    def check_server_health(self, timeout: float = 2.0) -> bool:
        """Whether a server answers at `server_url` and has its model."""
        try:
            with urllib.request.urlopen(f"{self.server_url}/health", timeout=timeout) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError, ValueError):
            return False

    def start_server(
        self,
        model_path: str,
        port: int = 8090,
        host: str = "127.0.0.1",
        gpu_layers: int = 99,
        ctx_size: int = 2048,
        n_parallel: int = 1,
        batch_size: int = 512,
        ubatch_size: int = 128,
        timeout: int = 60,
        verbose: bool = True,
        skip_gpu_check: bool = False,
        silent: bool = False,
        **kwargs: Any,
    ) -> bool:
        """Starts the server and waits until it answers; True where one answers at that place already.

        `ctx_size` are the tokens of all `n_parallel` answers together. Further arguments become flags:
        `cache_type_k="q8_0"` is `--cache-type-k q8_0`, True a flag without a value. Raises with the server's own words
        where it ends or does not answer within `timeout` seconds.
        """
        self.server_url = f"http://{host}:{port}"
        if self.check_server_health():
            return True
        self.stop_server()
        command = self.command(model_path, port, host, gpu_layers, ctx_size, n_parallel, batch_size, ubatch_size)
        command += _flags(kwargs, verbose and not silent)
        self._said = tempfile.TemporaryFile()
        # The server's lines go to a file: nobody reads a pipe that fills up.
        self.server_process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self._said, stderr=self._said)
        started = time.monotonic()
        while not self.check_server_health(1.0):
            ended = self.server_process.poll()
            if ended is not None or time.monotonic() - started > timeout:
                why = f"ended with exit code {ended}" if ended is not None else f"did not answer within {timeout} s"
                words = self._words()
                self.stop_server()
                raise Error(f"qrun serve {why}: {words}")
            time.sleep(0.05)
        if verbose and not silent:
            print(f"qrun serve answers at {self.server_url}, {time.monotonic() - started:.1f} s after its start")
        return True

    def command(
        self,
        model_path: str,
        port: int,
        host: str,
        gpu_layers: int,
        ctx_size: int,
        n_parallel: int,
        batch_size: int,
        ubatch_size: int,
    ) -> List[str]:
        """The command line of the server."""
        words = [sys.executable, "-m", "qrun", "serve", *([] if model_path == "demo" else [os.fspath(model_path)])]
        pairs = {
            "--host": host,
            "--port": port,
            "-c": ctx_size,
            "-np": n_parallel,
            "-b": batch_size,
            "-ub": ubatch_size,
        }
        words += [str(word) for pair in pairs.items() for word in pair]
        return [*words, "--device", "cpu"] if gpu_layers == 0 else words

    def _words(self) -> str:
        """The last lines that the server said."""
        if self._said is None:
            return ""
        self._said.seek(0)
        return self._said.read()[-2000:].decode("utf-8", errors="replace").strip()

    def stop_server(self, timeout: float = 10.0) -> bool:
        """Ends the server that this object started: politely, and after `timeout` seconds by force."""
        process, self.server_process = self.server_process, None
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._said is not None:
            self._said.close()
            self._said = None
        return True

    def get_server_info(self) -> Dict[str, Any]:
        """`running, url, process_id, executable`."""
        running = self.server_process is not None and self.server_process.poll() is None
        process_id = self.server_process.pid if running and self.server_process is not None else None
        return {"running": running, "url": self.server_url, "process_id": process_id, "executable": sys.executable}

    def restart_server(self, model_path: str, **kwargs: Any) -> bool:
        """Ends the server and starts it anew."""
        self.stop_server()
        return self.start_server(model_path, **kwargs)

    def __enter__(self) -> "ServerManager":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.stop_server()

    def __del__(self) -> None:
        if getattr(self, "server_process", None) is not None:
            self.stop_server(1.0)


def _flags(kwargs: Dict[str, Any], verbose: bool) -> List[str]:
    """Arguments as flags of the program.

    >>> _flags({"cache_type_k": "q8_0", "metrics": True, "jinja": False}, False)
    ['--cache-type-k', 'q8_0', '--metrics']
    """
    words: List[str] = []
    for name, value in kwargs.items():
        if name in WITHOUT_EFFECT:
            note(name, WITHOUT_EFFECT[name], verbose)
        elif value is not None and value is not False:
            words += ["--" + name.replace("_", "-"), *([] if value is True else [str(value)])]
    return words
