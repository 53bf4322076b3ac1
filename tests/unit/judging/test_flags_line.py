"""Tests of the flags line of reports, in the server's own spelling."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.base.console import as_text
from cachesim.engines.registry import ENGINES, engine_named
from cachesim.judging.reproduce_command import flags_data, flags_line
from cachesim.judging.run_data import run_data
from cachesim.judging.why_data import answer_data
from cachesim.scenarios.from_notation import from_line
from cachesim.tools.run.bisect_report import bisect_report
from cachesim.tools.run.diff_report import diff_data, diff_report
from cachesim.tools.run.run_table import run_report
from tests.unit.tools.run.made import judgement, run, why_report

PLAIN = "flags: -c 131072 -b 2048 -ub 512 -np auto --ctx-checkpoints 32"


def line(profile, **given):
    return "".join(text.plain for text in flags_line(flags_data(profile, given)))


@pytest.mark.parametrize(("profile", "given", "said"), [
    ("llama_cpp@b11549", {}, PLAIN),
    ("llama_cpp@b6160", {}, "flags: -c 4096 -b 2048 -ub 512 -np auto --ctx-checkpoints 3"),
    ("llama_cpp@b6160", {"ctx_checkpoints": 32},
     "flags: -c 4096 -b 2048 -ub 512 -np auto; set: --ctx-checkpoints 32"),
    ("llama_cpp@b11549", {"ctx_size": 512, "parallel": 2, "kv_unified": True, "cache_idle_slots": False},
     "flags: -b 2048 -ub 512 --ctx-checkpoints 32; set: -c 512 -np 2 -kvu --no-cache-idle-slots"),
    ("llama_cpp@b11549", {"batch_size": 2048, "ubatch_size": 512}, PLAIN),
    ("llama_cpp@b11549", {"cache_ram": -1}, f"{PLAIN}; set: --cache-ram -1"),
    ("ik_llama@main", {}, "flags: -c 131072 -b 2048 -ub 512 --ctx-checkpoints-interval 512"),
    ("mlx_lm@0.32.2", {"template": "terse", "thinking": True},
     "flags: --prompt-cache-size 10 --prefill-step-size 2048; set: template=terse thinking=true"),
])  # fmt: skip
def test_flags_that_matter_and_those_that_are_set(profile, given, said):
    assert line(profile, **given) == said


@pytest.mark.parametrize("name", ENGINES)
def test_without_flags_it_fits_into_a_line_and_names_nothing_as_set(name):
    engine = engine_named(name)
    for profile in engine.profiles:
        assert len(line(profile)) <= 80 and "set:" not in line(profile)
    assert set(engine.manual.headline) | set(engine.manual.open_words) <= {flag.name for flag in engine.manual.flags}


def test_every_report_has_it_below_its_first_line():
    one, other = run(judgement()), run(judgement(), profile="llama_cpp@b6160")
    assert as_text(why_report(answer_data(one, 0, is_compared=True))).splitlines()[2] == PLAIN, "below the answer"
    for report in (run_report(run_data(one)), diff_report(diff_data(one, one)),
                   bisect_report(replace(from_line("S4"), steps=()), [])):  # fmt: skip
        assert as_text(report).splitlines()[1] == PLAIN
    lines = as_text(diff_report(diff_data(one, other))).splitlines()
    assert lines[1:3] == [f"A {PLAIN}", f"B {line('llama_cpp@b6160')}"]
