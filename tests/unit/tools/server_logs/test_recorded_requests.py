"""Requests of recorded logs: their numbers with the lines that prove them, and the view on their lines
(recorded_requests.txt)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from cachesim.tools.server_logs.facts.log_reader import read_session
from cachesim.tools.server_logs.facts.logged_requests import LoggedRequest
from cachesim.tools.server_logs.facts.session import LogSession
from cachesim.tools.server_logs.lines.recognise import grammars

FOLDER = Path(__file__).parent
TEXT = FOLDER.joinpath("recorded_requests.txt").read_text("utf-8")
EXPECTED = {part.partition("\n")[0]: part.splitlines()[1:] for part in TEXT.split("== ")[1:]}
SHOWN_ABOVE = {"numbers", "tied", "n_tokens", "cache_n", "prompt_n", "predicted_n", "lcp", "held", "end"}


def session_of(name: str) -> LogSession:
    lines = FOLDER.joinpath(name).read_text("utf-8").splitlines()
    return read_session("llama_cpp", grammars()["llama_cpp"], lines)


def numbers_of(session: LogSession) -> Iterator[str]:
    """Yield a line for each number that follows from the log."""
    for derived in session.derived:
        for name, value in derived.numbers.items():
            lines = " ".join(map(str, sorted(value.lines)))
            yield f"task {derived.request.task}, {name}: {value}; {value.how}; lines {lines}"


def view_of(request: LoggedRequest) -> str:
    """Return the fields of a request that are not their defaults."""
    shown = [field for field in fields(request) if field.name not in SHOWN_ABOVE]
    values = {field.name: (getattr(request, field.name), field.default) for field in shown}
    return " ".join(f"{name}={value}" for name, (value, default) in values.items()
                    if value != default and default is not MISSING)  # fmt: skip


def described(name: str) -> list[str]:
    session = session_of(name)
    return [*numbers_of(session), *map(view_of, session.requests)]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recorded_request_has_these_numbers_and_fields(name: str) -> None:
    assert described(name) == EXPECTED[name]
