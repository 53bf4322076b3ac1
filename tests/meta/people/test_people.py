"""Every fault that a person wrote can still be planted: its text occurs once in its module."""

import ast

import pytest

from tests.meta.people.faults import EARLIER, LISTS, people_faults, survivors
from tests.shared import ROOT

FAULTS = people_faults((*LISTS, *EARLIER))


def statements_around(text: str, start: int, stop: int, body: list[ast.stmt]) -> str:
    """Return the lines of the statements of a module between which text[start:stop] stands: the others stay the same,
    and to parse them for each fault takes most of the time."""
    lines = text.splitlines(keepends=True)
    begins = [min([one.lineno, *(each.lineno for each in getattr(one, "decorator_list", ()))]) - 1 for one in body]
    first, last = text.count("\n", 0, start), text.count("\n", 0, stop)
    low = max((begin for begin in begins if begin <= first), default=0)
    high = min((begin for begin in begins if begin > last), default=len(lines))
    return "".join(lines[low:high])


@pytest.mark.parametrize("file", sorted({fault.file for fault in FAULTS}))
def test_the_text_to_replace_occurs_once_in_the_module(file):
    faults = [fault for fault in FAULTS if fault.file == file]
    text = (ROOT / "cachesim" / file).read_text("utf-8")
    assert [fault.name for fault in faults if text.count(fault.old) != 1] == []
    body = ast.parse(text).body
    for fault in faults:
        start = text.index(fault.old)
        part = statements_around(text, start, start + len(fault.old), body)
        assert ast.dump(ast.parse(part)) != ast.dump(ast.parse(part.replace(fault.old, fault.new))), fault.name


def test_names_are_unique():
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names)


def test_survivors_are_faults_of_the_lists():
    assert set(survivors()) <= {fault.name for fault in people_faults()}
