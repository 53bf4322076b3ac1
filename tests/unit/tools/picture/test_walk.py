"""Tests of the slider's data: at every event the page has the contents of a run that is stopped there."""

from __future__ import annotations

import base64
import json
import re
import zlib
from bisect import bisect_right
from functools import cache

import pytest

import cachesim
from cachesim.events import Lost
from cachesim.events.unlogged import PointEvent
from cachesim.tools.picture.event_stream import CaptionedWalk
from cachesim.tools.picture.script_data import flat, packed, script_data
from cachesim.tools.picture.slot_lanes import SHOWN
from cachesim.tools.picture.svg import RunDrawing
from cachesim.tools.picture.timeline import timeline
from cachesim.tools.run.pictured_runs import run_pictured
from tests.unit.tools.picture import test_svg
from tests.unit.tools.picture.cut import cuts

HYBRID = "llama-24143-entry-removed-hybrid"
CASES = {
    "llama_cpp": (HYBRID, "llama_cpp@b10587", "GA"),
    "window": ("S40.A60>r4/B70/S.C25/S.A.D5", "llama_cpp@b11549", "W8 A"),
    "ik_llama": ("S40.A20/S.A>3/B9@0/S.A.C5", "ik_llama@1889-base", "GA"),
    "mlx_lm": ("S40.A60>r4/B70>q2{together}/S.A", "mlx_lm@0.32.2", "GA"),
    "index": ("S40.A20>4/B30/S.A.D5", "llama_cpp@b11549", "W8 I8"),
    "compressed": ("S40.A20>4/B30/S.A.D5/S[:9].E4", "llama_cpp@b11549", "W8 D4.8.3 D8.8"),
    "restart": ("S4.A4/{restart}/S.A", "llama_cpp@b10587", "GA"),
}


def case_of(name):
    line, profile, model = CASES[name]
    return cachesim.load(line, profile=profile, model=model), profile


def walk(case, profile):
    """Return the event log of a judged run with the memory."""
    return run_pictured(case, profile, events=True).told().walk


@cache
def pictured(name):
    """Return the scene of a case, and its event log with captions."""
    done = run_pictured(*case_of(name), events=True)
    return done.scene(), done.told()


def walk_of(name):
    """Return the event log of a case."""
    return pictured(name)[1].walk


def scene(case, profile):
    return run_pictured(case, profile, events=False).scene()


def at(changes, k):
    """Return the last value that is not later than event k."""
    return changes[bisect_right([when for when, _ in changes], k) - 1][1]


@pytest.mark.parametrize("name", CASES)
def test_at_every_event_it_is_what_the_server_holds(name):
    case, profile = case_of(name)
    found = walk_of(name)
    heard = [k for k in range(len(found.events)) if k >= found.held[0][0][0]]
    for k, (slots, entries) in cuts(case, profile, heard[:: max(1, len(heard) // 40)]).items():
        assert sorted(tokens for _, tokens in at(found.entries, k)) == entries, k
        for slot, holds in slots.items():
            mine = at(found.held[slot], k)
            rows, window, index = ({pos for low, high in spans for pos in range(low, high)}
                                   for spans in (mine.rows, mine.window, mine.index_rows))  # fmt: skip
            got = (mine.tokens, rows, window, index, dict(mine.compressed), mine.state,
                   [tuple(one) for one in mine.checkpoints])  # fmt: skip
            assert got == tuple(holds), (k, slot)


@pytest.mark.parametrize("name", CASES)
def test_every_event_belongs_to_a_request(name):
    case, profile = case_of(name)
    found = walk_of(name)
    assert len(found.rows) == len(found.events)
    plain = cachesim.run(case, profile).log.events              # restore points are reported to listeners only
    unheard = [[one for one in events if not isinstance(one, PointEvent | Lost)] for events in (found.events, plain)]
    assert unheard[0] == unheard[1] != []
    assert set(found.rows) - {-1} == set(range(len(case.steps))) and found.rows.count(-1) == found.begins[0]
    assert found.begins == sorted(found.begins)
    assert all(begin <= end <= len(found.events) for begin, end in zip(found.begins, found.ends, strict=True))


def test_what_a_request_left_is_what_the_picture_shows():
    case, profile = case_of("llama_cpp")
    found, drawn = walk_of("llama_cpp"), scene(case, profile)
    for row in drawn.rows:
        mine, memory = at(found.held[row.slot], found.ends[row.number]), row.memory
        assert (mine.rows, mine.state) == ((memory.rows,), memory.state)
        assert [one[0] for one in mine.checkpoints] == list(memory.checkpoints)
        assert sorted(n for _, n in at(found.entries, found.ends[row.number])) == sorted(row.entries.lengths)


def test_the_slider_has_a_line_for_each_kind_of_row():
    def bars(name):
        drawn, told = pictured(name)
        return json.loads(script_data([RunDrawing(drawn)], [told]))["runs"][0]

    assert bars("window")["bars"] == [] and bars("window")["lower"] == 0
    assert bars("index")["bars"] == [["index_rows", "idx", 11.0, "index: rows", 1]]
    found = bars("compressed")
    assert [bar[0] for bar in found["bars"]] == ["compressed4", "compressed8"] and found["lower"] == 9.0
    assert {"compressed4", "compressed8"} <= {*found["slots"]["3"]} and "compressed" not in found["slots"]["3"]
    assert found["state"] == "last inputs of the compressors"


def test_a_loss_leads_to_the_event_that_lost_it():
    found = walk_of("llama_cpp")
    k = found.behind(2, "LC-PC-LOAD.TAKE", "consumed")
    assert k is not None and (found.events[k].ev, found.events[k].cause) == ("lost", "consumed")
    assert found.rows[k] == 2 and found.behind(0, "LC-PC-LOAD.TAKE", "consumed") is None


def test_pairs_that_change_nothing_are_left_out():
    assert flat([(0, 1), (3, 1), (4, 2), (9, 1)]) == [0, 1, 4, 2, 5, 1] and flat([]) == []


def test_the_log_comes_back_from_its_forms_and_numbers():
    case, profile = case_of("llama_cpp")
    found = walk_of("llama_cpp")
    says = [f"LC-X.CR10: tokens {n}..{n + 1}, 1,{n:03} of -1 (f_keep 0.500, #{n}) <b>"
            for n in range(len(found.events))]  # fmt: skip
    drawn = RunDrawing(scene(case, profile))
    text = script_data([drawn], [CaptionedWalk(found, says, [True] * len(says))])
    assert zlib.decompress(base64.b64decode(packed(text), validate=True)).decode("utf-8") == text
    data = json.loads(text)
    assert len(data["forms"]) <= 2 * len(says) and len(data["runs"]) == 1
    for line, wanted in zip(data["runs"][0]["log"].split("\n"), says, strict=True):
        form, *numbers = line.split(" ")
        left = iter(numbers)
        assert re.sub("\t", lambda _, left=left: next(left), data["forms"][int(form)]) == wanted


def test_the_slider_has_the_scale_of_the_drawing():
    case, profile = case_of("window")
    found, drawn = walk_of("window"), RunDrawing(scene(case, profile))
    says = [""] * len(found.events)
    (run,) = json.loads(script_data([drawn], [CaptionedWalk(found, says, [False] * len(says))]))["runs"]
    assert dict(zip(run["at"], run["x"], strict=True)) == {n: round(drawn.scale.px(n), 1) for n in drawn.scale.at}
    assert run["lanes"] == [drawn.lanes.slot(row.slot) for row in drawn.scene.rows] and len(set(run["lanes"])) > 1
    assert run["cache"] == [drawn.lanes.cache, drawn.lanes.entry(0), drawn.lanes.entry(1)]
    assert run["width"] == [round(drawn.plain), round(drawn.width)] and run["names"] == drawn.lanes.names
    assert (run["begins"], run["ends"], run["state"]) == (found.begins, found.ends, drawn.scene.state)
    assert run["in"] == [row.slot for row in drawn.scene.rows] and (run["wrong"], run["taken"]) == ([], [2])


def test_the_slider_of_a_timeline_has_the_narrow_scale_of_its_drawing():
    one = test_svg.scene(test_svg.row(0, *(test_svg.part(30 * n, 30 * n + 30) for n in range(11))))
    found = walk_of("window")
    told = [CaptionedWalk(found, [""] * len(found.events), [False] * len(found.events))]
    narrow, wide = (packed(script_data([RunDrawing(one, alone)], told)) for alone in (False, True))
    assert narrow != wide and narrow in timeline([one], told)


def test_the_slider_moves_the_entries_that_have_a_column():
    line = "/".join(f"{letter}20>q1" for letter in "ABCDEFGHIJKL")
    case, profile = cachesim.load(line, profile="mlx_lm@0.32.2", model="GA"), "mlx_lm@0.32.2"
    found = walk(case, profile)
    assert max(column for _, some in found.entries for column, _ in some) >= SHOWN
    drawn = RunDrawing(scene(case, profile))
    says = [""] * len(found.events)
    (run,) = json.loads(script_data([drawn], [CaptionedWalk(found, says, [False] * len(says))]))["runs"]
    assert {column for some in run["entries"][1::2] for column, _ in some} == set(range(SHOWN))
