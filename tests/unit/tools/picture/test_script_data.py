"""Tests of the data of a page's script, part by part: what is read into a slot, words, sentences as forms."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cachesim.engines.shared.slot_events import CkptRestore, PcLoad
from cachesim.tools.picture.event_stream import SlotContents
from cachesim.tools.picture.scene import Word
from cachesim.tools.picture.script_data import _further_bars, _line, _reads, _slot, _words
from tests.unit.tools.picture.test_svg import part, row

RESTORE = CkptRestore(0, 0, 40, 49, 50, 60, 0.5)


def walk(*events, held, owners=None):
    """Return a log whose events are all of request 7. ``held``: tokens of slot 0 by event."""
    return SimpleNamespace(events=events, rows=[7] * len(events), owners=owners or {},
                           held={0: [(at, SlotContents(tokens=n)) for at, n in held]})  # fmt: skip


@pytest.mark.parametrize(("held", "at"), [
    ([(0, 9), (2, 50), (5, 60)], 2), ([(0, 9), (3, 50), (4, 60)], 3), ([(0, 9)], 0), ([(9, 60)], 3),
])  # fmt: skip
def test_a_checkpoint_is_read_where_the_slot_last_changed(held, at):
    """At the event itself if the slot was empty before."""
    before = [SimpleNamespace()] * 3
    assert [*_reads(walk(*before, RESTORE, held=held))] == [[at, "checkpoint", 50]]
    assert [*_reads(walk(*before, CkptRestore(None, 0, 40, 49, 50, 60, 0.5), held=held))] == []


@pytest.mark.parametrize(("owners", "found"), [
    ([(0, 3), (2, 7), (4, 7)], [[2, "entry", 50]]), ([(0, 7), (4, 7)], [[4, "entry", 60]]), ([(2, 6)], []), ([], []),
])  # fmt: skip
def test_an_entry_is_read_where_the_slot_next_belongs_to_the_request(owners, found):
    held = [(0, 9), (2, 50), (4, 60)]
    assert [*_reads(walk(SimpleNamespace(), PcLoad(0.5, 0.5), held=held, owners={0: owners}))] == found


def test_words_have_their_titles_and_the_answer_its_end():
    words = [Word("S", 0, 40, "system"), Word("A", 40, 60)]
    assert _words(row(0, part(0, 60), part(60, 64, "generated"))._replace(words=words)) == [
        [0, "S (system)", 40], [40, "A", 60], [60, "answer", 64]]  # fmt: skip
    assert _words(row(0, part(0, 60))._replace(words=words))[-1] == [40, "A", 60]
    assert _words(row(0)._replace(words=[])) == []
    assert _words(row(0, part(0, 4, "generated"))._replace(words=[])) == [[0, "answer", 4]]


def test_the_contents_of_a_slot_are_changes_of_each_field():
    held = [(1, SlotContents(5, ((0, 5),), compressed=((4, 1), (8, 2)))), (4, SlotContents(5, ((0, 3),), state=3))]
    log = SimpleNamespace(held={0: held, 1: []}, owners={0: [(1, 7)]})
    nothing = [1, []]
    assert _slot(log, 0) == {
        "owner": [1, 7], "tokens": [1, 5], "rows": [1, [[0, 5]], 3, [[0, 3]]], "window": nothing,
        "index_rows": nothing, "state": [1, None, 3, 3], "checkpoints": nothing, "compressed4": [1, [[0, 1]], 3, []],
        "compressed8": [1, [[0, 2]], 3, []]}  # fmt: skip
    assert _slot(log, 1)["owner"] == [] and _slot(log, 1)["tokens"] == []


@pytest.mark.parametrize(("contents", "names"), [
    ({}, []), ({"index_rows": ((0, 4),)}, [("index_rows", "idx", "index: rows", 1)]),
    ({"compressed": ((8, 2), (4, 1))}, [("compressed4", "packed", "compressed rows of 4 tokens:", 4),
                                        ("compressed8", "packed", "compressed rows of 8 tokens:", 8)]),
])  # fmt: skip
def test_lines_below_the_window_are_those_of_rows_that_occur(contents, names):
    log = SimpleNamespace(held={0: [(0, SlotContents()), (1, SlotContents(**contents))]})
    bars = [*_further_bars(log, len(names))]
    assert [(field, kind, says, ratio) for field, kind, _, says, ratio in bars] == names
    places = [place for _, _, place, _, _ in bars]
    assert places == sorted({*places}) and places[:1] in ([], [11.0])


def test_a_sentence_is_its_form_and_its_numbers():
    forms = {}
    assert [_line(says, forms) for says in ("rows 0 to 1,024 written", "rows 5 to 9 written", "LC-A.B2 in x7 4.5 MiB",
                                            "a\ttab")] == ["0 0 1,024", "0 5 9", "1 4.5", "2"]  # fmt: skip
    assert [*forms] == ["rows \t to \t written", "LC-A.B2 in x7 \t MiB", "a tab"]
