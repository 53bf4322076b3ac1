"""Tests of a timeline's sentences: read one after the other, they tell the memory at each event."""

from __future__ import annotations

import json
import re

import pytest

from cachesim.engines.shared.slot_events import CtxShift, ReuseChunk
from cachesim.events import SeqRm
from cachesim.events.unlogged import Decoded
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.picture import event_sentences
from cachesim.tools.picture.event_sentences import at_event, minus, slot_change
from cachesim.tools.picture.event_stream import EventWalk, SlotContents
from cachesim.tools.picture.script_data import script_data
from cachesim.tools.picture.svg import RunDrawing
from cachesim.tools.run.pictured_runs import run_pictured
from tests.unit.tools.picture.test_walk import at, case_of

CHANGES = re.compile(r"(window rows|index rows|(?<!compressed )rows) (\d+) to (\d+) (written|erased)|"
                     r"state (erased)|state after (\d+) tokens|"
                     r"checkpoints? of ([\d and]+) tokens (created|erased)|"
                     r"entry of (\d+) tokens (saved|removed)")  # fmt: skip
WINDOW = from_line("S40.A600>r4/B70/S.A.D5", model="W8 A", server={"parallel": 1, "ubatch_size": 64})


INDEX = from_line("S40.A60>r4/B70/S.A.D5/S.E9", model="I8", server={"parallel": 1, "ubatch_size": 64})


def told(case):
    """Return the event log of a scenario and profile in sentences."""
    return run_pictured(*case, events=True).told()


def reads(case):
    """Return [event, what is read into a slot, its tokens], as the script of a page has them."""
    run = run_pictured(*case, events=True)
    return json.loads(script_data([RunDrawing(run.scene())], [run.told()]))["runs"][0]["reads"]


@pytest.mark.parametrize(("case", "found"), [
    (case_of("llama_cpp"), [["entry", 103]]), (case_of("ik_llama"), [])], ids=["entry", "none"])  # fmt: skip
def test_what_is_read_is_known_with_its_length(case, found):
    assert [one[1:] for one in reads(case)] == found


@pytest.mark.parametrize(("event", "numbers"), [
    (SeqRm(0, 5, 9, False), [5]), (CtxShift(0, 0, 4, 20, 10), [10, 4]),
    (ReuseChunk(0, 0, 7, 12, 19, 3, 10), [7, 12, 3]),
])  # fmt: skip
def test_refusals_and_moves_have_sentences_with_their_numbers(event, numbers):
    walk = EventWalk([event], [0], [0], [1], {0: [(0, SlotContents())]}, {}, [(0, ())])
    (says,) = event_sentences.told(walk).says
    assert [int(number) for number in re.findall(r"\d+", says)] == numbers


def replayed(text, memory, loaded):
    """Apply the changes of a sentence to a memory."""
    if loaded:
        memory.update({"rows": set(), "window rows": set(), "index rows": set(), "checkpoints": set()})
    for kind, low, high, verb, erased, state, marks, made, entry, stored in CHANGES.findall(text):
        if kind:
            positions = set(range(int(low), int(high) + 1))
            memory[kind] = memory[kind] | positions if verb == "written" else memory[kind] - positions
        elif marks:
            lengths, had = set(map(int, marks.split(" and "))), memory["checkpoints"]
            memory["checkpoints"] = had | lengths if made == "created" else had - lengths
        elif entry:
            memory["entries"] += [int(entry)] if stored == "saved" else []
            _ = memory["entries"].remove(int(entry)) if stored == "removed" else None
        else:
            memory["state"] = None if erased else int(state)


@pytest.mark.parametrize("case", [case_of("llama_cpp"), (WINDOW, "llama_cpp@b11549"),
                                  (INDEX, "llama_cpp@b11549")], ids=["entries", "window", "index"])  # fmt: skip
def test_the_sentences_tell_the_memory(case):
    log, slot = told(case), 0
    memory = {"rows": set(), "window rows": set(), "index rows": set(), "state": None, "checkpoints": set(),
              "entries": []}  # fmt: skip
    loads = [k for k, what, _ in reads(case) if what == "entry"]
    before, seen = -1, 0
    for k, says in enumerate(log.says):
        if not says:
            continue
        replayed(says, memory, any(before < one <= k for one in loads))
        before = k
        if log.decisions[k]:
            continue
        seen, held = seen + 1, at(log.walk.held[slot], k) if k >= log.walk.held[slot][0][0] else SlotContents()
        for kind, spans in (("rows", held.rows), ("window rows", held.window), ("index rows", held.index_rows)):
            assert memory[kind] == {pos for low, high in spans for pos in range(low, high)}, (k, says)
        assert (memory["state"], memory["checkpoints"]) == (held.state, {one[0] for one in held.checkpoints}), (k, says)
        assert sorted(memory["entries"]) == sorted(n for _, n in at(log.walk.entries, k)), (k, says)
    assert seen > 10


@pytest.mark.parametrize("name", ["llama_cpp", "ik_llama", "mlx_lm"])
def test_events_without_a_sentence_are_left_out(name):
    log = told(case_of(name))
    shown = [says for says in log.says if says]
    assert 10 < len(shown) < 0.6 * len(log.says)
    assert [says for says in shown if re.match(r"[a-z_]+: \w+ [\d.]", says)] == []
    assert all(says for says, wanted in zip(log.says, log.decisions, strict=True) if wanted)
    assert [says for says in shown if says.startswith("LC-END")] == []


def test_compressed_rows_are_written_hidden_and_erased():
    case = from_line("S40.A20>2/S.A.C30>6/D9", model="W8 D4.8.3", server={"parallel": 1, "cache_ram": 0})
    text = "; ".join(told((case, "llama_cpp@b11549")).says)
    found = re.findall(r"compressed rows (\d+) to (\d+) of 4 tokens (\w+)", text)
    assert [(int(low), int(high), verb) for low, high, verb in found] == [
        (0, 13, "written"), (14, 14, "written"), (14, 14, "hidden"), (14, 20, "written"), (21, 22, "written"),
        (0, 22, "erased"), (0, 0, "written"), (1, 1, "written"),
    ]  # fmt: skip


def test_a_loss_is_told_where_it_happens():
    log = told(case_of("llama_cpp"))
    k = log.walk.behind(2, "LC-PC-LOAD.TAKE", "consumed")
    assert next(says for says in log.says[k:] if says) == "entry of 103 tokens removed"


@pytest.mark.parametrize(("some", "others", "left"), [
    ([(0, 5)], [(5, 9)], [(0, 5)]), ([(5, 9)], [(0, 5)], [(5, 9)]), ([(0, 5)], [(0, 5)], []), ([], [(0, 5)], []),
    ([(0, 5)], [(0, 2)], [(2, 5)]), ([(0, 5)], [(3, 5)], [(0, 3)]),
    ([(0, 9)], [(6, 7), (2, 3)], [(0, 2), (3, 6), (7, 9)]),
    ([(0, 4), (6, 9)], [(3, 7)], [(0, 3), (7, 9)]), ([(0, 9)], [(2, 6), (4, 8)], [(0, 2), (8, 9)]),
])  # fmt: skip
def test_what_is_left_of_ranges(some, others, left):
    assert minus(some, others) == left


def test_the_value_at_an_event_is_the_last_that_is_not_later():
    changes = [(2, "a"), (5, "b"), (5, "c")]
    assert [at_event(changes, k, "-") for k in (0, 1, 2, 4, 5, 9)] == ["-", "-", "a", "a", "c", "c"]
    assert at_event([], 3, "-") == "-"


def test_a_change_belongs_to_the_next_event_at_which_the_timeline_stops():
    """Rows are written at event 1 and at event 3, at which the next request begins."""
    first, second = (SlotContents(tokens, ((0, tokens),)) for tokens in (4, 6))
    walk = EventWalk([Decoded(1)] * 5, [0, 0, 0, 1, 1], [0, 3], [3, 5],
                     {0: [(0, SlotContents()), (1, first), (3, second)]}, {0: [(0, 0)]}, [(0, ())])  # fmt: skip
    assert event_sentences.told(walk).says == ["", "", "rows 0 to 3 written", "", "rows 4 to 5 written"]


def walk_of(held, owners=None, entries=(), rows=(0,) * 6):
    return EventWalk([Decoded(1)] * len(rows), [*rows], [0], [len(rows)], held, owners or {}, [(0, ()), *entries])


ROWS = [SlotContents(tokens, ((0, tokens),)) for tokens in (4, 6, 8)]


@pytest.mark.parametrize(("owners", "before", "k", "was"), [
    ([], 1, 3, ROWS[0]), ([(3, 7)], 1, 3, SlotContents()), ([(3, 7)], 1, 2, ROWS[0]), ([(3, 7)], 3, 5, ROWS[1]),
    ([(2, 7)], 1, 3, ROWS[0]), ([(1, 6), (5, 7)], 1, 5, SlotContents()), ([(3, 7)], 0, 6, SlotContents()),
])  # fmt: skip
def test_a_slot_that_an_entry_replaced_counts_as_empty_before(owners, before, k, was):
    """Its rows change at events 1, 3 and 5. Another request that begins beside them replaces nothing."""
    changes = [(1, ROWS[0]), (3, ROWS[1]), (5, ROWS[2])]
    found = walk_of({0: changes}, {0: owners})
    assert slot_change(found, 0, before, k) == (was, at_event(changes, k, None))
    assert slot_change(walk_of({0: changes}), 0, 1, 3) == (ROWS[0], ROWS[1]), "no request began there"
    assert slot_change(walk_of({0: [*changes, (6, SlotContents())]}, {0: [(6, 7)]}), 0, 5, 6) == (
        ROWS[2], SlotContents()), "nothing was read"  # fmt: skip


@pytest.mark.parametrize(("slots", "prefix"), [(1, ""), (2, "slot 1: "), (3, "slot 1: ")])
def test_a_change_names_its_slot_if_there_are_several(slots, prefix):
    held = {slot: [(0, SlotContents())] for slot in range(slots)}
    held[slots and min(1, slots - 1)] = [(0, SlotContents()), (2, ROWS[0])]
    says = event_sentences.told(walk_of(held, entries=[(2, [(0, 5)])])).says
    assert [one for one in says if one] == [f"{prefix}rows 0 to 3 written; entry of 5 tokens saved"]
