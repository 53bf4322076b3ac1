"""Replies of a parser's process, without the process: requests are answered in order, and exceptions become replies."""

from __future__ import annotations

import io
import sys
from types import ModuleType

import pytest

from cachesim.base.errors import BadInput
from cachesim.base.parser_process import error_reply, from_line, serve, to_line


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
