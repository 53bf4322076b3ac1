"""The ways of a value through the code in ARCHITECTURE: each function exists, and the command calls them in this
order."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
from functools import cache
from typing import NamedTuple

import pytest

from tests.shared import ROOT

PACKAGE = ROOT / "cachesim"
TEXT = (PACKAGE / "ARCHITECTURE.md").read_text("utf-8")
SECTION = re.compile(
    r"^### (?P<letter>[a-f])\. [^\n]+\n\n`(?P<command>cachesim [^`]+)`\n(?P<rows>.*?)(?=^##|\Z)", re.S | re.M
)
PLACE = re.compile(r"`([\w/]+\.py):([\w.]+)`")


class Way(NamedTuple):
    """A command, and the places of one value in the order of its table: file below cachesim/, and qualified name."""

    command: str
    places: list[tuple[str, str]]


WAYS = {
    found["letter"]: Way(found["command"], PLACE.findall("\n".join(re.findall(r"^\| `.*$", found["rows"], re.M))))
    for found in SECTION.finditer(TEXT)
}
TRACER = """
import contextlib, io, json, sys
from cachesim.cli.main import main
root, wanted = sys.argv[1], {tuple(place) for place in json.loads(sys.argv[2])}
files = {f"{root}/{file}": file for file, _ in wanted}
called = []
def note(frame, event, argument):
    if event == "call" and frame.f_code.co_filename in files:
        place = files[frame.f_code.co_filename], frame.f_code.co_qualname.replace(".<locals>", "")
        if place in wanted and called[-1:] != [place]:
            called.append(place)
printed = io.StringIO()
sys.settrace(note)
with contextlib.redirect_stdout(printed):
    main(sys.argv[3:])
sys.settrace(None)
print(json.dumps(called))
"""
"""Print the calls of some functions of the package by a command. Arguments: folder of the package, places, command."""


@cache
def functions(file: str) -> frozenset[str]:
    """Return the qualified names of the functions in a file of the package, those inside functions, too."""
    found = set()
    todo = [("", ast.parse((PACKAGE / file).read_text("utf-8")))]
    while todo:
        prefix, parent = todo.pop()
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                todo.append((f"{prefix}{node.name}.", node))
                if not isinstance(node, ast.ClassDef):
                    found.add(f"{prefix}{node.name}")
    return frozenset(found)


def test_six_ways_are_found():
    assert sorted(WAYS) == ["a", "b", "c", "d", "e", "f"]
    assert min(len(way.places) for way in WAYS.values()) > 8


def test_each_function_exists_in_its_file():
    """Of the ways, and of the other tables with functions."""
    places = PLACE.findall(TEXT)
    assert len(places) > sum(len(way.places) for way in WAYS.values())
    assert [place for place in places if place[1] not in functions(place[0])] == []


def without_order(places, called):
    """Return the places that are not called after all places before them."""
    calls = iter(called)
    return [place for place in places if not any(call == place for call in calls)]


def test_a_wrong_order_is_found():
    assert without_order(["a", "b"], ["b", "a", "b"]) == []
    assert without_order(["b", "a"], ["a", "b"]) == ["a"]


@pytest.mark.long
@pytest.mark.parametrize("letter", WAYS)
def test_the_command_calls_them_in_this_order(letter):
    way = WAYS[letter]
    words = [sys.executable, "-c", TRACER, str(PACKAGE), json.dumps(way.places), *shlex.split(way.command)[1:]]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    called = [tuple(place) for place in json.loads(done.stdout)]
    assert without_order(way.places, called) == []
