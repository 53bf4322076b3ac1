"""Tests of the data of a page's script, part by part: what is read into a slot, words, sentences as forms."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from cachesim.engines.shared.slot_events import CkptRestore, PcLoad
from cachesim.events.unlogged import Decided, Decoded
from cachesim.tools.picture.event_stream import CaptionedWalk, EventWalk, SlotContents
from cachesim.tools.picture.scene import CacheContents, Word
from cachesim.tools.picture.script_data import _further_bars, _line, _reads, _slot, _words, script_data
from cachesim.tools.picture.svg import RunDrawing
from tests.unit.tools.picture.test_svg import part, row, scene

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


def test_the_data_of_a_run_are_its_sentences_its_memory_and_its_layout():
    """Request 0 is answered in slot 3 and saves an entry; request 1, in slot 1, removes it and is wrong."""
    again = part(0, 6, "again", "x", 0, "R", ("erased", "checkpoint"))
    rows = (row(0, part(0, 4), part(4, 6, "generated"), words=(Word("A", 0, 4),), slot=3,
                entries=CacheContents((6,), saved=(6,))),
            row(1, again, words=(Word("B", 0, 6, "größe"),), slot=1, is_wrong=True,
                entries=CacheContents(gone=(6,), is_consumed=True)))  # fmt: skip
    log = EventWalk([Decoded(1), Decided(1, "R", 1, {}), Decoded(1)], [0, 0, 1], [0, 2], [2, 3],
                    {1: [(0, SlotContents()), (1, SlotContents(4, ((0, 4),)))]}, {1: [(0, 0)]},
                    [(0, ()), (2, [(0, 6), (8, 9)])])  # fmt: skip
    told = CaptionedWalk(log, ["", "rows 0 to 3 written", "größe"], [False] * 3)
    text = script_data([RunDrawing(scene(*rows), alone=False)], [told])
    assert "größe" in text and ", " not in text
    nothing = [0, []]
    assert json.loads(text) == {"forms": ["", "rows \t to \t written", "größe"], "runs": [{
        "log": "0\n1 0 3\n2", "rows": [0, 0, 2, 1], "begins": [0, 2], "ends": [2, 3],
        "slots": {"1": {"owner": [0, 0], "tokens": [0, 0, 1, 4], "rows": [0, [], 1, [[0, 4]]], "window": nothing,
                        "index_rows": nothing, "state": [0, None], "checkpoints": nothing}},
        "entries": [0, [], 2, [[0, 6]]], "at": [0, 4, 6], "x": [187.0, 203.0, 219.0], "top": 102, "step": 74,
        "width": [560, 599], "names": 53, "head": [46, 86], "cache": [123.0, 128.0, 139.0], "lanes": [99.0, 67.0],
        "bars": [], "lower": 0.0, "state": "recurrent state", "taken": [1], "in": [3, 1],
        "words": [[[0, "A", 4], [4, "answer", 6]], [[0, "B (größe)", 6]]], "wrong": [1], "settled": [0, 2],
        "reads": [], "lost": [[1, 6, 1]]}]}  # fmt: skip
