"""Tests of `cachesim playground` as a process: its address, its end, and its errors."""

from __future__ import annotations

import builtins
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from types import ModuleType

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from tests.shared import ROOT


@contextmanager
def served(*words):
    """Start the command; yield the process and its first line on stdout."""
    pytest.importorskip("uvicorn", reason="the extra `playground` is not installed")
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)         # background jobs ignore SIGINT
    with subprocess.Popen([sys.executable, "-m", "cachesim", "playground", *words], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:  # fmt: skip
        signal.signal(signal.SIGINT, handler)
        try:
            yield process, process.stdout.readline()
        finally:
            process.kill()


@pytest.mark.long
def test_it_serves_on_the_loopback_address_until_it_is_interrupted():
    with served() as (process, line):
        [(host, port)] = re.findall(r"^http://([\d.]+):(\d+)/\n$", line)
        assert host == "127.0.0.1"
        with urllib.request.urlopen(line.strip()) as page:
            assert b"cachesim playground" in page.read() and page.headers["cache-control"] == "no-store"
        body = json.dumps({"line": "A5/A", "profiles": ["llama_cpp@b10587"]}).encode()
        headers = {"content-type": "application/json", "origin": line.strip().rstrip("/")}
        asked = urllib.request.Request(f"{line.strip()}run", body, headers)
        with urllib.request.urlopen(asked) as reply:
            assert "timeline" in json.load(reply)["html"]
        with socket.socket() as other, pytest.raises(OSError):
            other.connect(("127.0.0.2", int(port)))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == exits.INTERRUPTED and err.splitlines()[-1] == "cachesim: interrupted"
        assert "Traceback" not in err


@pytest.mark.long
def test_the_address_as_json():
    with served("--json", "-q") as (_, line):
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", json.loads(line)["url"])


def test_a_port_in_use(capsys):
    pytest.importorskip("uvicorn", reason="the extra `playground` is not installed")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert main(["playground", "--port", str(port)]) == exits.BAD_INPUT
    assert capsys.readouterr().err == f"cachesim: port {port}: address already in use (--port 0 chooses a free port)\n"


@pytest.mark.parametrize("port", ["65536", "-1", "x"])
def test_an_impossible_port(capsys, port):
    assert main(["playground", "--port", port]) == exits.BAD_INPUT
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("package", ["starlette", "uvicorn"])
def test_a_missing_package_is_named_in_one_line(capsys, monkeypatch, package):
    real = builtins.__import__

    def missing(name, *rest, **more):
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
        return real(name, *rest, **more)

    monkeypatch.setitem(sys.modules, "uvicorn", ModuleType("uvicorn"))       # also where neither is installed
    for name in [name for name in sys.modules if name.startswith("cachesim.tools.playground.app")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", missing)
    assert main(["playground"]) == exits.BAD_INPUT
    err = capsys.readouterr().err
    assert f"needs the package {package} of the extra `playground` (pip install" in err
    assert len(err.splitlines()) == 1
