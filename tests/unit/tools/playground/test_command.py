"""Tests of `cachesim playground` as a process: its address, its end, and its errors."""

from __future__ import annotations

import builtins
import io
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from argparse import ArgumentTypeError, Namespace
from contextlib import contextmanager
from types import ModuleType

import pytest

from cachesim.base import exits
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.tools.playground.command import port, run
from tests.shared import ROOT
from tests.unit.tools.playground.asgi import got


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
    with served("--json", "-q") as (process, line):
        url = json.loads(line)["url"]
        [(host, port)] = re.findall(r"^http://([\d.]+):(\d+)/$", url)
        assert host == "127.0.0.1"
        with urllib.request.urlopen(url) as page:
            assert b"cachesim playground" in page.read() and page.headers["cache-control"] == "no-store"
        body = json.dumps({"line": "A5/A", "profiles": ["llama_cpp@b10587"]}).encode()
        headers = {"content-type": "application/json", "origin": url.rstrip("/")}
        asked = urllib.request.Request(f"{url}run", body, headers)
        with urllib.request.urlopen(asked) as reply:
            assert "timeline" in json.load(reply)["html"]
        with socket.socket() as other, pytest.raises(OSError):
            other.connect(("127.0.0.2", int(port)))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == exits.INTERRUPTED and err.splitlines()[-1] == "cachesim: interrupted"
        assert "Traceback" not in err


def test_a_port_in_use(capsys):
    pytest.importorskip("uvicorn", reason="the extra `playground` is not installed")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        used = other.getsockname()[1]
        assert main(["playground", "--port", str(used)]) == exits.BAD_INPUT
    [line] = capsys.readouterr().err.splitlines()
    assert str(used) in line


@pytest.mark.parametrize("number", ["65536", "-1", "x"])
def test_an_impossible_port(capsys, number):
    assert main(["playground", "--port", number]) == exits.BAD_INPUT
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_largest_port_is_accepted():
    assert (port("0"), port("65535")) == (0, 65535)
    with pytest.raises(ArgumentTypeError) as refused:
        port("65536")
    assert "65536" in str(refused.value)


def test_another_missing_module_is_a_fault_of_the_installation(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(BadInput):
        run(Namespace(port=0, json=False))
    monkeypatch.setitem(sys.modules, "uvicorn", ModuleType("uvicorn"))
    monkeypatch.setitem(sys.modules, "cachesim.tools.playground.app", None)
    with pytest.raises(ImportError):
        run(Namespace(port=0, json=False))


class Served:
    """What a server that is not run was given, and what was printed before. It asks ``read`` before it ends."""

    def __init__(self, monkeypatch, read):
        real = pytest.importorskip("uvicorn", reason="the extra `playground` is not installed")
        served, uvicorn = self, ModuleType("uvicorn")
        self.options, self.sockets, self.printed = {}, [], None

        class Server:
            def __init__(self, config):
                served.options = vars(config)

            def run(self, sockets):
                served.printed = read()
                for one in sockets:
                    served.sockets.append((one.getsockname(), one.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)))
                    with socket.create_connection(one.getsockname(), timeout=30):
                        pass

        vars(uvicorn).update(vars(real) | {"Server": Server})
        monkeypatch.setitem(sys.modules, "uvicorn", uvicorn)


def test_it_serves_one_listening_socket_on_the_port_that_is_named_with_a_bounded_server(monkeypatch):
    """Its address is sent before: a program that started the playground reads it through a pipe."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        free = other.getsockname()[1]
    pipe = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(pipe))
    served = Served(monkeypatch, pipe.getvalue)
    assert main(["playground", "--port", str(free), "-q"]) == exits.HOLDS
    assert served.printed == f"http://127.0.0.1:{free}/\n".encode()
    [(address, reused)] = served.sockets
    assert address == ("127.0.0.1", free) and reused
    wanted = {"ws": "none", "proxy_headers": False, "server_header": False, "log_level": "error", "access_log": False}
    assert {name: served.options[name] for name in wanted} == wanted
    assert served.options["limit_concurrency"] < 1_000
    assert got(served.options["app"], headers={"host": f"127.0.0.1:{free}"}).status == 200


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