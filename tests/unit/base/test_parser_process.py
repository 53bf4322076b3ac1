"""Replies of a parser's process, without the process: requests are answered in order, and exceptions become replies."""

from __future__ import annotations

import io
import sys
from types import ModuleType

import pytest

from cachesim.base import parser_process
from cachesim.base.errors import BadInput
from cachesim.base.parser_process import (
    NETWORK,
    CPULimit,
    block_network,
    bound,
    error_reply,
    from_line,
    serve,
    to_line,
)


class Counter:
    """CPU limit that only counts the bytes of the requests."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def add(self, size: int) -> None:
        self.sizes.append(size)


@pytest.mark.parametrize(("error", "reply"), [
    (BadInput("no template", hint="give one"), {"refused": "no template", "hint": "give one"}),
    (ModuleNotFoundError("No module", name="jinja2"), {"missing": "jinja2"}),
    (ImportError("no name"), {"missing": "no name"}),
    (MemoryError(), {"memory": True}), (ValueError("x" * 400), {"failed": f"ValueError: {'x' * 288}"}),
    (KeyboardInterrupt(), {"failed": "KeyboardInterrupt: "}),
])  # fmt: skip
def test_an_exception_becomes_a_reply(error: BaseException, reply: dict[str, object]) -> None:
    assert error_reply(error) == reply


def test_the_first_request_carries_the_data_and_the_others_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    def open_parser(request, data):
        return lambda asked: [request["bytes"], data.decode(), 1 // asked["number"]]

    module = ModuleType("tests_parser")
    module.open_parser = open_parser
    monkeypatch.setitem(sys.modules, "tests_parser", module)
    first, good, bad = (to_line(one) for one in ({"bytes": 4}, {"number": 1}, {"number": 0}))
    stdout, cpu = io.BytesIO(), Counter()
    serve("tests_parser", cpu, io.BytesIO(first + b"data" + bad + good), stdout)
    assert [from_line(line) for line in stdout.getvalue().splitlines(keepends=True)] == [
        {"result": None}, {"failed": "ZeroDivisionError: integer division or modulo by zero"},
        {"result": [4, "data", 1]},
    ]  # fmt: skip
    assert cpu.sizes == [len(first), len(bad), len(good)]


class Flushed(io.BytesIO):
    """Output that notes what was written when it was flushed."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def flush(self):
        self.seen.append(self.getvalue())


def test_each_reply_is_sent_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("tests_parser")
    module.open_parser = lambda request, data: lambda asked: asked["number"]
    monkeypatch.setitem(sys.modules, "tests_parser", module)
    asked = b"".join(map(to_line, ({"bytes": 0}, {"number": 1}, {"number": 2})))
    stdout = Flushed()
    serve("tests_parser", Counter(), io.BytesIO(asked), stdout)
    replies = [to_line({"result": result}) for result in (None, 1, 2)]
    assert stdout.seen == [b"".join(replies[:n]) for n in (1, 2, 3)]


class Limits:
    """Stand-in for the module ``resource``: limits by name; ``hard`` are the hard limits, -1 = none."""

    RLIM_INFINITY = -1

    def __init__(self, **hard):
        self.hard, self.found = hard, {}

    def __getattr__(self, name):
        if name in ("RLIMIT_AS", "RLIMIT_CORE", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_CPU"):
            return name
        raise AttributeError(name)

    def getrlimit(self, name):
        return 7, self.hard.get(name, -1)

    def setrlimit(self, name, pair):
        self.found[name] = pair


@pytest.fixture
def limits(monkeypatch):
    def bounded(**hard):
        made = Limits(**hard)
        monkeypatch.setitem(sys.modules, "resource", made)
        return made

    return bounded


def test_a_process_is_bounded_by_what_it_may_use_at_most(limits):
    found = limits(RLIMIT_NOFILE=10, RLIMIT_FSIZE=100)
    bound(3, 200)
    assert found.found == {"RLIMIT_AS": (3 << 20, 3 << 20), "RLIMIT_CORE": (0, 0), "RLIMIT_FSIZE": (100, 100),
                           "RLIMIT_NOFILE": (10, 10)}  # fmt: skip
    found = limits()
    bound(1)
    assert (found.found["RLIMIT_FSIZE"], found.found["RLIMIT_NOFILE"]) == ((0, 0), (64, 64))


def test_a_limit_that_the_system_does_not_have_is_left_out(limits, monkeypatch):
    found = limits()
    found.setrlimit = lambda name, pair: found.found.update({name: pair}) if name != "RLIMIT_AS" else 1 // 0
    with pytest.raises(ZeroDivisionError):
        bound(1)

    def refused(name, pair):
        if name == "RLIMIT_AS":
            raise ValueError
        found.found[name] = pair

    found.setrlimit = refused
    bound(1)
    assert {*found.found} == {"RLIMIT_CORE", "RLIMIT_FSIZE", "RLIMIT_NOFILE"}
    monkeypatch.setitem(sys.modules, "resource", None)
    bound(1)


def test_the_cpu_limit_grows_with_the_requests(limits, monkeypatch):
    monkeypatch.setattr(parser_process.signal, "signal", lambda *given: None)
    found = limits()
    cpu = CPULimit(2.5)
    assert found.found == {"RLIMIT_CPU": (2, -1)}
    found.found.clear()
    cpu.add(1 << 16)                                          # 4 s for each MiB
    assert (cpu.seconds, found.found) == (2.75, {})
    cpu.add(1 << 20)
    assert found.found == {"RLIMIT_CPU": (6, -1)}
    found = limits(RLIMIT_CPU=4)
    CPULimit(9.0)
    assert found.found == {"RLIMIT_CPU": (4, 4)}


def test_modules_of_the_network_cannot_be_imported(monkeypatch):
    for name in NETWORK:
        monkeypatch.setitem(sys.modules, name, sys.modules.get(name))
    block_network()
    assert [sys.modules[name] for name in NETWORK] == [None] * len(NETWORK)


def test_a_line_keeps_every_text():
    for value in ({"a": [1, "ä\n"]}, "\ud800", None):
        assert from_line(to_line(value)) == value and to_line(value).count(b"\n") == 1
    assert to_line({"a": ["ä", 1]}) == '{"a":["ä",1]}\n'.encode()


def test_nothing_is_imported_without_a_request():
    stdout, cpu = io.BytesIO(), Counter()
    serve("no.such.module", cpu, io.BytesIO(b""), stdout)
    assert stdout.getvalue() == b"" and cpu.sizes == []


def test_the_kernel_ends_a_process_beyond_its_cpu_limit(limits, monkeypatch):
    """A handler that the parent had set would be inherited."""
    given = []
    monkeypatch.setattr(parser_process.signal, "signal", lambda *words: given.append(words))
    limits()
    CPULimit(2.5)
    assert given == [(parser_process.signal.SIGXCPU, parser_process.signal.SIG_DFL)]
