"""Lines that an excerpt lacks, as its other lines show."""

from __future__ import annotations

import pytest

from cachesim.tools.server_logs.facts.log_gaps import gap_lines
from cachesim.tools.server_logs.facts.session import LogSession
from tests.unit.tools.server_logs.records import logged, read_line


@pytest.mark.parametrize(("text", "is_mark"), [
    ("...", True), ("[...]", True), ("\u2026", True), ("--- snip ---", True), ("<truncated>", True),
    ("(120 lines omitted)", True), ("." * 40, False), ("a slot was cut", False), ("done ...", False),
])  # fmt: skip
def test_a_line_in_place_of_others_is_a_gap(text, is_mark):
    assert gap_lines(LogSession("llama_cpp", unknown=[(7, text)])) == [7] * is_mark


@pytest.mark.parametrize(("held", "loaded", "gaps"), [
    (90, False, []), ((80, 100), False, []), (70, False, [5]), (70, True, []), (0, False, []), (None, False, []),
])  # fmt: skip
def test_a_slot_that_holds_something_else_than_its_last_request_left_shows_a_gap(held, loaded, gaps):
    """It may have been emptied in between, or an entry of the prompt cache loaded into it."""
    first, other = logged(0, 1, (1, 2), end=90), logged(1, 2, (3, 4), end=50)
    later = logged(0, 3, (5, 6), held=held, is_loaded=loaded)
    assert gap_lines(LogSession("llama_cpp", requests=[first, other, later])) == gaps


def test_a_choice_without_its_launch_shows_a_gap():
    choices = [read_line("slot_by_lru", number) for number in (1, 3, 4)]
    launch = read_line("launch", 2)
    assert gap_lines(LogSession("llama_cpp", read_lines=[choices[0], launch, *choices[1:]])) == [4]
    assert gap_lines(LogSession("llama_cpp", read_lines=choices)) == []
