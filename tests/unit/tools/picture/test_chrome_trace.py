"""Trace of runs: a process for each run, a thread for each slot, a microsecond for each token."""

from __future__ import annotations

import json

from cachesim.tools.picture.chrome_trace import chrome_trace
from tests.unit.tools.picture.test_svg import part, row, scene


def events(*scenes):
    return json.loads(chrome_trace(scenes))["traceEvents"]


def test_processed_tokens_take_time_and_others_none():
    one = row(0, part(0, 4, "kept"), part(4, 9, "again", "gone"), part(9, 11), part(11, 14, "generated"), slot=2,
              cache_n=4, prompt_n=7, reason="how", rule="R", why="why")  # fmt: skip
    place = {"pid": 1, "tid": 3}
    said = {"prompt": "A", "reused": 4, "evaluated": 7, "verdict": "OK", "how": "how", "rule": "R", "why": "why"}
    assert events(scene(one)) == [
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "title, llama_cpp@b1"}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 3, "args": {"name": "slot 2"}},
        {"ph": "X", "name": "#0 A", "ts": 0, "dur": 10, "args": said, **place},
        {"ph": "X", "name": "again", "ts": 0, "dur": 5, "args": {"why": "gone"}, **place},
        {"ph": "X", "name": "evaluated", "ts": 5, "dur": 2, "args": {}, **place},
        {"ph": "X", "name": "generated", "ts": 7, "dur": 3, "args": {}, **place},
        {"ph": "C", "name": "tokens reused", "pid": 1, "ts": 10, "args": {"tokens": 4}}]  # fmt: skip


def test_requests_follow_each_other_in_the_threads_of_their_slots():
    found = events(scene(row(0, slot=1), row(1, slot=-1), row(2, slot=1)), scene(row(0)))
    assert [(one["pid"], one["tid"], one["args"]["name"]) for one in found if one["name"] == "thread_name"] == [
        (1, 0, "no slot"), (1, 2, "slot 1"), (2, 1, "slot 0")]  # fmt: skip
    requests = [one for one in found if one["name"].startswith("#")]
    assert [(one["pid"], one["tid"], one["ts"], one["dur"]) for one in requests] == [
        (1, 2, 0, 10), (1, 0, 10, 10), (1, 2, 20, 10), (2, 1, 0, 10)]  # fmt: skip


def test_the_unit_of_the_clock_is_named():
    assert json.loads(chrome_trace([])) == {"traceEvents": [], "displayTimeUnit": "ns",
                                            "otherData": {"unit": "1 us = 1 token evaluated or generated"}}  # fmt: skip
