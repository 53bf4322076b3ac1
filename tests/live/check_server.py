"""A real server under default flags, as somebody would start it, for `cachesim check`."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from cachesim.tools.live.llama_server.process import HOST, Process

CONTEXT = 4096               # tokens of a context; the tiny models name a million
LOAD = 60                    # seconds to load a model
ALONE = ("--no-webui", "--offline")      # flags that only llama.cpp has
_OPENER = build_opener(ProxyHandler({}))


@contextmanager
def started(binary, model, *flags, context=CONTEXT, alone=ALONE):
    """The address of a server of its own. ``flags`` beyond those that only a small machine needs."""
    words = [binary, "-m", model, "-c", context, "-t", 1, "-tb", 1, *alone, *flags]

    def command(port):
        return [*words, "--host", HOST, "--port", port]

    with TemporaryDirectory(prefix="cachesim-") as folder, Process(command, Path(folder) / "log") as process:
        process.wait(lambda: ready(process.url), LOAD, "loading the model")
        yield process.url


def ready(url):
    """Returns True if the server answers."""
    try:
        with _OPENER.open(f"{url}/health", timeout=2) as reply:
            return reply.status == 200
    except (URLError, OSError):
        return False
