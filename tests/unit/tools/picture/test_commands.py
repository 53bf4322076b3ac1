"""Tests of picture options: every command that shows a run can draw it, with the same content."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET

import pytest

from cachesim.cli.main import main
from cachesim.engines.registry import profiles
from cachesim.replay.recorded_trace import read_trace
from cachesim.tools.picture.chrome_trace import chrome_trace
from cachesim.tools.picture.svg import draw
from cachesim.tools.replay.recorded_picture import SimulatorDifference, recorded_events, recorded_scene, words_of
from tests.shared import ROOT
from tests.unit.tools.picture.test_scene import HYBRID, seen

RECORDED = "tests/data/llama_cpp/mamba2-bug-stale-ckpt-pos0.json"
LOGS = "tests/unit/tools/server_logs"
COMMANDS = {
    "why": (f"why {HYBRID} 3 -p llama_cpp@b10587", "request 3 <code", 1),
    "diff": (f"diff {HYBRID} -p llama_cpp@b10587 -p llama_cpp@pr24143-on-b10587", "first difference at request 2", 2),
    "fuzz": ("fuzz -p ik_llama@1889-base --model GA --property warm-equals-cold --examples 12 --no-shrink",
             "warm-equals-cold: logits", 1),
    "replay": (f"replay {RECORDED}", "recorded: ", 1),
    "import": (f"import {LOGS}/verbosity_4.log", "<code id=\"command\">cachesim run &#x27;A", 1),
    "advise": (f"advise {HYBRID} -p llama_cpp@b10587", "<h2>now: 347 tokens evaluated", 2),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_draws_what_it_shows(monkeypatch, capsys, tmp_path, name):
    monkeypatch.chdir(ROOT)
    line, says, runs = COMMANDS[name]
    html, svg, trace = (tmp_path / f"x.{end}" for end in ("html", "svg", "json"))
    main([*line.split(), "--html", str(html), "--svg", str(svg), "--trace", str(trace), "-q"])
    assert capsys.readouterr().err.count("wrote ") == 3
    root = ET.fromstring(svg.read_text("utf-8"))
    page = html.read_text("utf-8")
    if name == "why":
        assert page.count("<details") > page.count(" open>") == 1 and 'id="d-r3" open>' in page and says in page
    else:
        assert says in page
    assert page.count('<section class="run"') == runs
    events = json.loads(trace.read_text())["traceEvents"]
    assert {one["pid"] for one in events} == set(range(1, runs + 1))
    drawn = [one for one in root.iter() if re.fullmatch(r"(p\d+-)?r\d+", one.get("id", ""))]
    assert len(drawn) == sum(one["ph"] == "X" and one["name"].startswith("#") for one in events)


def test_what_cannot_be_drawn_is_said_before_anything_is_played(capsys, tmp_path):
    svg = str(tmp_path / "x.svg")
    for line in (f"diff scenarios/llama_cpp/slow -p llama_cpp@b8392 -p llama_cpp@b10587 --svg {svg}",
                 f"replay {RECORDED} {RECORDED} --svg {svg}",
                 f"import {LOGS}/verbosity_4.log {LOGS}/default_verbosity.log --svg {svg}"):  # fmt: skip
        assert main(line.split()) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1) and "a picture " in err and " one " in err
    assert not list(tmp_path.iterdir())


def test_a_trace_is_as_long_as_what_was_evaluated():
    one = seen(HYBRID, "llama_cpp@b10587")
    events = json.loads(chrome_trace([one]))["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    whole = [event for event in spans if event["name"].startswith("#")]
    inside = [event for event in spans if not event["name"].startswith("#")]
    assert [event["args"]["evaluated"] for event in whole] == [row.prompt_n for row in one.rows]
    assert sum(event["dur"] for event in whole) == sum(event["dur"] for event in inside)
    ends = [event["ts"] + event["dur"] for event in whole]
    assert [event["ts"] for event in whole] == [0, *ends[:-1]]
    assert {event["tid"] for event in spans} == {row.slot + 1 for row in one.rows}
    named = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert named == {row.slot + 1: f"slot {row.slot}" for row in one.rows}


def test_words_end_where_texts_part():
    named = words_of([(1, 2, 3, 4), (1, 2, 5), (1, 2), (9,), (), (1, 2, 3, 4)])
    said = {text: [(word.start, word.stop) for word in words] for text, words in named.items()}
    assert said == {(1, 2, 3, 4): [(0, 2), (2, 4)], (1, 2, 5): [(0, 2), (2, 3)], (1, 2): [(0, 2)], (9,): [(0, 1)],
                    (): []}  # fmt: skip
    first = {text: words[0].name for text, words in named.items() if words}
    assert first[1, 2, 3, 4] == first[1, 2, 5] == first[1, 2] != first[9,]
    assert len({word.name for words in named.values() for word in words}) == 4


def test_a_recording_is_drawn_as_the_server_said_it():
    trace = read_trace(ROOT / RECORDED, profiles())
    said = [member.response for step in trace.steps for member in step.members]
    one = recorded_scene(trace, SimulatorDifference(trace.steps[0].number, "the simulator differs"))
    rows = [row for row in one.rows if row.words]
    assert [(row.cache_n, row.prompt_n) for row in rows] == [(reply["cache_n"], reply["prompt_n"]) for reply in said]
    assert {row.is_wrong for row in rows} == {False, True} and "differ from a cold run" in one.verdict
    assert rows[0].reason == "the simulator differs"
    for row in rows:
        assert [part.start for part in row.stretches] == [0, *(part.stop for part in row.stretches)][:-1]
    ET.fromstring(draw([one]))


def test_the_slider_of_a_recording_walks_its_events():
    trace = read_trace(ROOT / RECORDED, profiles())
    told, one = recorded_events(trace), recorded_scene(trace)
    assert len(told.says) == len(told.walk.rows) == sum(len(step.events) for step in trace.steps) > 0
    assert len(told.walk.begins) == len(told.walk.ends) == len(one.rows)
    for number, row in enumerate(told.walk.rows):
        assert told.walk.begins[row] <= number < told.walk.ends[row]
    assert told.says[0].startswith(f"{trace.steps[0].events[0]['ev']}")
