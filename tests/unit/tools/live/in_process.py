"""Server processes that run in this process, in place of subprocess.Popen: the simulator behind HTTP."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import subprocess
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from cachesim.tools.live.llama_server import process
from tests.unit.tools.live.real_llama import handler_of

GROUPS = itertools.count(1 << 23)        # larger than the id of any process
LAUNCHER = re.compile(r"FAR=(\S+) .*real_llama\.py' (\S+) ")
PLAIN = subprocess.Popen


class InProcess:
    """``words``: the command lines of the servers; ``rules``: rule set by the name of a build's folder, for the
    launchers of wheels; ``ends``: True for a prompt at which the process ends; ``spoil``: changes an answer, given the
    number of the recorded server (the first is 1), whether it is the cold one, the request and the answer."""

    def __init__(self):
        self.words, self.hot, self.rules = [], 0, {}
        self.ends = lambda prompt: False
        self.spoil = lambda number, is_cold, body, out: out

    def __call__(self, words, **streams):
        if words[1:2] != ["-c"]:
            return PLAIN(words, **streams)
        program, *flags = words[5:]
        if "--alias" not in flags:                                   # not a server
            return PLAIN(words, **streams)
        found = LAUNCHER.search(Path(program).read_text())
        build = Path(program).parent.name
        if found is None and build not in self.rules:
            return PLAIN(words, **streams)
        far, profile = found.groups() if found else ("1.0", self.rules[build])
        if profile == "none":
            return PLAIN([*words[:5], "/bin/false"], **streams)
        self.words.append(flags)
        return Started(self, handler_of(profile, flags, float(far)), flags, streams["stdout"])


class Started:
    def __init__(self, servers, handler, flags, stream):
        self.pid, self.stdin, self.code = next(GROUPS), self, None
        is_cold = "--ctx-checkpoints" in flags[flags.index("--alias") :] and flags[-2:] == ["-lv", "1"]
        servers.hot += not is_cold
        number, ended = servers.hot, self.end

        class Handler(handler):
            def complete(self, body):
                status, out = super().complete(body)
                return (status, servers.spoil(number, is_cold, body, out)) if status == 200 else (status, out)

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.rfile = io.BytesIO(body)
                if self.path == "/completion" and not is_cold and servers.ends(json.loads(body)["prompt"]):
                    self.close_connection = True
                    ended(134)
                else:
                    super().do_POST()
                self.rfile = self.connection.makefile("rb")

        Handler.log = self.log = os.fdopen(os.dup(stream.fileno()), "wb")
        Handler.begin()
        port = int(flags[flags.index("--port") + 1])
        self.http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=self.http.serve_forever, args=(0.005,), daemon=True).start()

    def end(self, code):
        if self.code is None:
            self.code = code
            threading.Thread(target=self.http.shutdown, daemon=True).start()
            self.http.server_close()
            self.log.close()

    def write(self, line):
        assert line == b"stop\n"

    def close(self):
        self.end(137)

    def poll(self):
        return self.code

    def wait(self, within=None):
        return self.code


@pytest.fixture
def servers(monkeypatch, tmp_path, tmp_path_factory):
    """Let server processes run in this process. All tests share the files of tiny models, which take long to write."""
    (models := tmp_path_factory.getbasetemp() / "tiny-models").mkdir(exist_ok=True)
    (own := tmp_path / "cache" / "cachesim" / "real").mkdir(parents=True)
    (own / "models").symlink_to(models)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(process.subprocess, "Popen", found := InProcess())
    return found
