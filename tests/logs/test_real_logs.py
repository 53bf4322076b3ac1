"""The statements about pasted logs agree with a list for each log that was written by reading it (`real_logs.toml`)."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Iterator, Mapping

import pytest

from cachesim.tools.server_logs.lines.explanations import explain_line
from tests.logs.importer import statements
from tests.shared import SHARED, absent

LOGS = SHARED / "logs"
LISTS: Mapping[str, Mapping[str, Any]] = tomllib.loads(Path(__file__).with_name("real_logs.toml").read_text("utf-8"))
pytestmark = pytest.mark.skipif(not LOGS.exists(), reason=absent(LOGS))

Said = Mapping[str, Any]


def lines_of(name: str) -> list[str]:
    return (LOGS / f"{name}.log").read_text("utf-8").splitlines()


def within(stated: Any, listed: Any) -> bool:
    """True if a stated number or word is the listed value, or a number or range within a listed range."""
    if isinstance(listed, list):
        low, high = stated if isinstance(stated, list) else (stated, stated)
        return low is not None and high is not None and listed[0] <= low and high <= listed[1]
    return bool(stated == listed)


def is_found(listed: Mapping[str, Any], said: Said) -> bool:
    """True if a statement is the listed statement."""
    same = said["what"] == listed["what"] and set(said["lines"]) & set(listed["lines"])
    where = all(listed.get(name) in (None, said[name]) for name in ("slot", "task"))
    numbers = said["numbers"]
    return bool(
        same
        and where
        and all(name in numbers and within(numbers[name], value) for name, value in listed.get("numbers", {}).items())
    )


def guesses(known: Mapping[str, Any], stated: list[Said]) -> Iterator[str]:
    """Yield the statements that the log does not support."""
    causes = {(one.get("task", -1), one["numbers"]["cause"]) for one in known["shows"] if one["what"] == "cause"}
    causes |= {(task, key) for task, key in known.get("may", [])}
    for said in stated:
        if said["numbers"].get("cause") == "server-warning":
            continue  # it quotes a line
        if (
            said["what"] == "cause"
            and (-1 if said["task"] is None else said["task"], said["numbers"]["cause"]) not in causes
        ):
            yield f"cause {said}"
        if said["what"] == "contradiction":
            yield f"contradiction {said}"
        if said["what"] == "build" and "build" in known:
            low, high = said["numbers"]["build"]
            if (low or 0) > known["build"][1] or (high is not None and high < known["build"][0]):
                yield f"build {said}"
        for unknown in known.get("unknown", []):
            if said["what"] == "request" and said["task"] == unknown["task"]:
                yield from (f"{name} {said}" for name in unknown["numbers"] if is_exact(said["numbers"].get(name)))


def is_exact(stated: Any) -> bool:
    """True if a stated number leaves no open end: 0 is the open end of what is only known to be at most so many."""
    return stated is not None and not (isinstance(stated, list) and (None in stated or stated[0] == 0))


def test_every_log_has_a_list():
    assert {path.stem for path in LOGS.glob("*.log")} == set(LISTS)


@pytest.mark.parametrize("name", LISTS)
def test_every_listed_statement_is_found(name):
    stated = statements(lines_of(name))
    missing = [one for one in LISTS[name]["shows"] if not any(is_found(one, said) for said in stated)]
    assert missing == []


@pytest.mark.parametrize("name", LISTS)
def test_nothing_is_guessed(name):
    assert list(guesses(LISTS[name], statements(lines_of(name)))) == []


def test_lines_about_caches_are_explained():
    """At least 95 in 100 lines about slots, checkpoints and caches have a statement or an explanation."""
    silent, total = [], 0
    for name, known in LISTS.items():
        lines, stated = lines_of(name), statements(lines_of(name))
        cited = {number for said in stated for number in said["lines"]}
        for number in known["about"]:
            total += 1
            if number not in cited and explain_line(lines[number - 1]) is None:
                silent.append(f"{name}:{number}: {lines[number - 1][:100]}")
    assert total > 150 and len(silent) <= 0.05 * total, silent


@pytest.mark.parametrize("listed, said, found", [
    ({"what": "request", "lines": [1], "task": 2, "numbers": {"lcp": [4, 6]}}, {"lcp": 5}, True),
    ({"what": "request", "lines": [1], "task": 2, "numbers": {"lcp": [4, 6]}}, {"lcp": [4, 7]}, False),
    ({"what": "request", "lines": [1], "task": 2, "numbers": {"lcp": 5}}, {"lcp": 4}, False),
    ({"what": "request", "lines": [3], "task": 2, "numbers": {"lcp": 5}}, {"lcp": 5}, False),
    ({"what": "request", "lines": [1], "task": 3, "numbers": {"lcp": 5}}, {"lcp": 5}, False),
    ({"what": "cause", "lines": [1], "task": 2, "numbers": {}}, {"lcp": 5}, False),
])  # fmt: skip
def test_the_comparison_finds_what_differs(listed, said, found):
    assert is_found(listed, {"what": "request", "lines": [1, 2], "slot": 0, "task": 2, "numbers": said}) is found


@pytest.mark.parametrize("said, guessed", [
    ({"what": "request", "task": 7, "numbers": {"end": 5}}, True),
    ({"what": "request", "task": 7, "numbers": {"end": [5, None]}}, False),
    ({"what": "request", "task": 7, "numbers": {"end": [5, 6]}}, True),
    ({"what": "cause", "task": 7, "numbers": {"cause": "trim-refused"}}, False),
    ({"what": "cause", "task": 8, "numbers": {"cause": "trim-refused"}}, True),
    ({"what": "contradiction", "task": 7, "numbers": {}}, True),
    ({"what": "build", "task": None, "numbers": {"build": [9400, None]}}, True),
    ({"what": "build", "task": None, "numbers": {"build": [9000, 9300]}}, False),
])  # fmt: skip
def test_guesses_are_found(said, guessed):
    known = {
        "shows": [],
        "may": [[7, "trim-refused"]],
        "unknown": [{"task": 7, "numbers": ["end"]}],
        "build": [9161, 9315],
    }
    assert bool(list(guesses(known, [said]))) is guessed
