"""The lines of the generator are those that real servers print."""

from __future__ import annotations

import json
import re

import pytest

from cachesim.tools.server_logs.lines.recognise import grammars
from tests.logs.spelling import NAMES, TABLES, Style, prefixed, spell
from tests.shared import ROOT, SHARED, absent

RECORDED = [json.loads(line) for line in (ROOT / "tests/data/log_lines/b11549.jsonl").read_text("utf-8").splitlines()]
REAL = [real for real in RECORDED
        if real["event"]["ev"] not in ("warn", "error") and "failed to restore state" not in real["line"]]  # fmt: skip
"""Lines that are spelled from the numbers of their events: not a text that is part of its event, and not the second
line of an event."""
UNRECORDED = re.compile(r"t_last = \S+|prompt 0x\w+:|id_task = \d+|off = \d+|size = [\d.]+( MiB)?|'[^']*'|"
                        r"draft = [\d.]+ MiB|n_cache_reuse = \d+|is_processing = \d")  # fmt: skip
"""Parts of a line that its event does not contain."""


def masked(text: str) -> str:
    return UNRECORDED.sub("#", text)


@pytest.mark.parametrize("real", REAL, ids=lambda real: real["event"]["ev"])
def test_a_line_is_spelled_as_llama_server_prints_it(real):
    event = real["event"]
    fields = {name: value for name, value in event.items() if name not in ("ev", "slot", "task")}
    spelled = spell("llama_cpp", 11549, event["ev"], fields)
    assert spelled is not None
    task = -1 if event["task"] is None else event["task"]
    line = prefixed(Style("llama_cpp", 11549, True), event["ev"], spelled[0], event["slot"] or 0, task, 0)
    printed = re.sub(r"^\d+\.\d\d\.\d{3}\.\d{3}", "0.00.000.000", real["line"])
    assert masked(line[15:]) == masked(printed[15:])


@pytest.mark.parametrize("engine", TABLES)
def test_every_template_is_a_known_line(engine):
    """The kinds that ``NAMES`` maps to exist in the grammar."""
    kinds = {line.ev for line in grammars()[engine].lines}
    assert {NAMES.get(line.ev, (line.ev, {}))[0] for line in TABLES[engine]} <= kinds


LOGS = SHARED / "logs"
PASTED = (
    ("llama_cpp", 6992, "llamacpp-b6992-gptoss-17118", 7, "ckpt_search",
     {"n_past": 331, "n_tokens": 1986, "seq_id": 0, "pos_min": 1740, "n_swa": 128}),
    ("llama_cpp", 6992, "llamacpp-b6992-gptoss-17118", 23, "ckpt_create",
     {"n": 1, "max": 8, "pos_min": 166, "pos_max": 805, "mib": 15.008}),
    ("llama_cpp", 6992, "llamacpp-b6992-gptoss-17118", 20, "batch", {"n_tokens": 806, "p0": 806}),
    ("llama_cpp", 8871, "llamacpp-b8871-every8192-22275", 4, "ckpt_periodic",
     {"every": 8192, "last": 0, "n_tokens": 10240}),
    ("llama_cpp", 8871, "llamacpp-b8871-every8192-22275", 5, "progress",
     {"n_tokens": 10240, "batch": 2048, "share": 0.39555}),
    ("llama_cpp", 4384, "llamacpp-b4384-cachermi-10958", 3, "batch", {"n_tokens": 3520, "p0": 3520}),
    ("llama_cpp", 9479, "llamacpp-b9479-router-21831", 7, "ckpt_check", {"pos_min": 15, "pos_max": 15, "thold": 2}),
    ("llama_cpp", 9479, "llamacpp-b9479-router-21831", 15, "release", {"n_tokens": 63, "truncated": 0}),
    ("llama_cpp", 8000, "lmstudio-0.4.5-truncate-1563", 3, "trim_refused", {"p0": 1560}),
    ("llama_cpp", 8000, "lmstudio-0.4.5-truncate-1563", 4, "slot_clear", {"n_tokens": 1560}),
    ("ik_llama", 0, "ik-2026-07-restore-2088", 2, "ckpt_restore",
     {"pos_min": 50375, "pos_max": 50375, "n_tokens": 50376, "n_past": 50376, "mib": 150.012}),
    ("ik_llama", 0, "ik-2026-08-cap6-2226", 2, "cache_lcp", {"n_tokens": 0, "n_past": 0, "n_past_prompt": 0}),
)  # fmt: skip


@pytest.mark.skipif(not LOGS.exists(), reason=absent(LOGS))
@pytest.mark.parametrize("engine, build, name, number, ev, fields", PASTED, ids=lambda value: str(value)[:30])
def test_older_lines_are_spelled_as_in_pasted_logs(engine, build, name, number, ev, fields):
    line = (LOGS / f"{name}.log").read_text("utf-8").splitlines()[number - 1]
    spelled = spell(engine, build, ev, fields)
    assert spelled is not None and masked(spelled[0]) in masked(line)
