"""A real server under default flags, for ``cachesim check``."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from cachesim.tools.live.llama_server.process import HOST, Process

CONTEXT = 4096               # context size in tokens; the tiny models state a million
LOAD = 60                    # seconds to load a model
ALONE = ("--no-webui", "--offline")      # flags specific to llama.cpp
_OPENER = build_opener(ProxyHandler({}))


@contextmanager
def started(binary, model, *flags, context=CONTEXT, alone=ALONE):
    """Start a server; yield its URL. ``flags``: in addition to those required on a small machine."""
    words = [binary, "-m", model, "-c", context, "-t", 1, "-tb", 1, *alone, *flags]

    def command(port):
        return [*words, "--host", HOST, "--port", port]

    with TemporaryDirectory(prefix="cachesim-") as folder, Process(command, Path(folder) / "log") as process:
        process.wait(lambda: ready(process.url), LOAD, "loading the model")
        yield process.url


def ready(url):
    """True if the server answers."""
    try:
        with _OPENER.open(f"{url}/health", timeout=2) as reply:
            return reply.status == 200
    except (URLError, OSError):
        return False
