"""Parser whose requests do what a hostile parser could do; it runs in the child process of test_bounded_child."""

from __future__ import annotations

import importlib
import os
import resource
import signal
import sys
import time

from cachesim.base.errors import BadInput


class Panic(BaseException):
    """Stands for the panic of a Rust extension, which is not an Exception."""


ERRORS = {
    "refused": BadInput("bad data", hint="try more"), "panic": Panic("over"), "memory": MemoryError(),
    "missing": ImportError("No module", name="parts"), "error": ValueError("x\ny"),
}  # fmt: skip


def report():
    """Return the limits, the open descriptors, and the network modules that are loaded or can be loaded."""
    names = ("RLIMIT_CPU", "RLIMIT_AS", "RLIMIT_CORE", "RLIMIT_FSIZE", "RLIMIT_NOFILE")
    network = ("socket", "ssl", "http", "http.client", "urllib.request", "asyncio", "ftplib")
    found = {name: resource.getrlimit(getattr(resource, name))[0] for name in names}
    with os.scandir("/proc/self/fd") as entries:
        links = [os.readlink(entry.path) for entry in entries if int(entry.name) > 2]
    return {**found, "fds": [link for link in links if not link.endswith("/fd")],
            "loaded": [name for name in network if sys.modules.get(name) is not None],
            "group": os.getpgid(0), "pid": os.getpid()}  # fmt: skip


def work(request):
    """Do what a request asks for, and return a result."""
    what = request["do"]
    if what == "import":
        importlib.import_module(request["name"])
    elif what == "raise":
        raise ERRORS[request["name"]]
    elif what == "exit":
        os._exit(request["code"])
    elif what == "signal":
        os.kill(os.getpid(), getattr(signal, request["name"]))
    elif what == "sleep":
        time.sleep(60)
    elif what == "loop":
        while True:
            pass
    elif what == "allocate":
        return len(bytearray(request["size"]))
    elif what == "write":
        return "x" * request["characters"]
    elif what == "garbage":
        os.write(1, b"\xff\n")
    elif what == "deep":
        os.write(1, b"[" * 100_000 + b"\n")
    elif what == "complain":
        os.write(2, b"a warning of a parser")
    elif what == "file":
        with open(request["name"], "w") as stream:
            stream.write("x")
    return request.get("text")


def open_parser(first, data):
    """Return the probe. ``first["inner"]``: module of a real parser, whose requests it passes on."""
    if first.get("inner"):
        inner = importlib.import_module(first["inner"]).open_parser(first, data)
        return lambda request: report() if request.get("do") == "report" else inner(request)
    if first.get("do"):
        work(first)
    size = len(data)
    return lambda request: {**report(), "data": size} if request["do"] == "report" else work(request)
