"""A real server in the foreground, for a person: the flags are the user's own."""

from __future__ import annotations

import os
import shutil
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp
from typing import Sequence

from cachesim.base.errors import BadInput
from cachesim.base.files import write_whole
from cachesim.base.untrusted_files import FILE, kind
from cachesim.tools.live.llama_server.client import Client
from cachesim.tools.live.llama_server.process import HOST, Process, ServerEnded, StoppedAtEnd
from cachesim.tools.live.llama_server.real.comparison import model_file
from cachesim.tools.live.llama_server.real.real_server import RealServer
from cachesim.tools.live.llama_server.server import START_WITHIN, alias, start_error

FOREVER = float("inf")


class Serving(StoppedAtEnd):
    """A server process with flags of the user. ``log``: the file with its output, by default in a temporary folder. The
    folder is removed at the end, unless an error names that file. The server ends with this process."""

    def __init__(self, server: RealServer, model: str, flags: Sequence[str], log: Path | None = None) -> None:
        """Start the server. ``model``: a GGUF, or layers of a tiny model; a name without a separator or ".gguf" is
        layers. Raise BadInput."""
        file = Path(model) if os.sep in model or model.endswith(".gguf") else model_file(model)
        if kind(file) != FILE:
            raise BadInput("no such model", file=str(file))
        port = _port_in(flags)
        if log is not None:
            write_whole(log, b"")
        self._folder = Path(mkdtemp(prefix="cachesim-real-"))
        self._slots = self._folder / "slots"
        self.log = log or self._folder / "log"
        self._server, self._names_log = server, False

        def command(port: int) -> list[str]:
            given = ["--host", HOST, "--port", str(port), "--alias", alias(port), "--slot-save-path", f"{self._slots}/"]
            return [str(server.binary), "-m", str(file), *given, *flags]

        try:
            self._slots.mkdir()
            self._process = Process(command, self.log, port, self._folder)
        except BaseException:
            self._remove()
            raise
        self._client = Client(self.url)

    @property
    def url(self) -> str:
        """The URL on which it listens."""
        return self._process.url

    def wait_ready(self) -> None:
        """Wait until the model is loaded. Raise BadInput if the server ends before, or takes too long."""
        try:
            self._process.wait(lambda: self._client.healthy(alias(self._process.port)), START_WITHIN,
                               "loading the model")  # fmt: skip
        except ServerEnded as error:
            raise start_error(self.log, error, self._server.binary) from None
        except BadInput:
            self._names_log = True
            raise

    def wait_end(self) -> None:
        """Wait until the server ends, which it does not by itself. Raise BadInput with its last words."""
        try:
            self._process.wait(lambda: False, FOREVER, "serving")
        except ServerEnded as error:
            self._names_log = True
            raise BadInput(str(error), file=str(self.log)) from None

    def stop(self) -> None:
        """End the process and remove its folder."""
        if hasattr(self, "_client"):
            self._client.close()
        self._process.stop()
        self._remove()

    def _remove(self) -> None:
        shutil.rmtree(self._slots if self._names_log else self._folder, ignore_errors=True)


def _port_in(flags: Sequence[str]) -> int:
    """Return the port that the user's flags name, 0 without one. Raise BadInput for another value."""
    words = [*flags, ""]
    text = next((after for word, after in pairwise(words) if word == "--port"), "")
    if not text:
        return 0
    if not text.isdecimal() or not 0 < int(text) < 1 << 16:
        raise BadInput(f"not a port: {text}")
    return int(text)
