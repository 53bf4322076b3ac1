"""Tests of the cases of the playground: results, errors with their column, and words that a page may not use."""

from __future__ import annotations

import os
import re
import shlex

import pytest

import cachesim
from cachesim.base import limits
from cachesim.base.errors import BadInput
from cachesim.engines.registry import profiles
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.load import load, load_text
from cachesim.scenarios.schema import DEFAULT_PROFILE
from cachesim.tools.playground.case import answer, read_case, read_flags

LINE = "S40.A60>r4/B70/S.C25/S.A.D5"
CASE = {"line": LINE, "model": "GA", "flags": "-np 2 --cache-ram 0",
        "profiles": ["llama_cpp@b10587", "llama_cpp@b11549"]}  # fmt: skip


def test_a_case_has_its_line_model_flags_and_rule_sets():
    found = read_case(CASE)
    assert repr(found.scenario) == repr(cachesim.load(LINE)) and found.scenario.model == "GA"
    assert found.scenario.server == {"parallel": 2, "cache_ram": 0}
    assert found.profiles == found.scenario.profiles == ("llama_cpp@b10587", "llama_cpp@b11549")


def test_fields_have_defaults():
    found = read_case({"line": " A5/A\n"})
    assert found.profiles == cachesim.load("A5/A").profiles and found.scenario.model == "GGGA"
    assert read_case({"line": "A5", "profiles": ["llama_cpp@latest"] * 2}).profiles == (DEFAULT_PROFILE,)
    assert answer({})["error"].endswith("no words (expected at least 1 word, such as S40)")
    assert answer({"line": 5})["error"] == "line: expected a string, found 5"


def test_the_command_and_the_scenario_are_the_case():
    found = answer(CASE)
    words = shlex.split(found["command"])
    assert words[0] == "cachesim" and words[2] == LINE and words.count("-p") == 2
    assert shlex.split(found["command"])[-2:] == ["-p", "llama_cpp@b11549"]
    scenario = load_text(found["toml"], profiles().keys())
    assert repr(scenario) == LINE and scenario.server == {"parallel": 2, "cache_ram": 0}
    assert scenario.profiles == tuple(CASE["profiles"]) and scenario.model == "GA"


TOML = """schema = 2
id = "my-case"
title = "a case from the playground"
source = ["cachesim playground"]
why = "Requests A5/A."
engine = "llama_cpp"
model = "GA"
profiles = ["llama_cpp@b10587"]

[server]
parallel = 2

[words]
A = 5

[[request]]
prompt = "A"

[[request]]
prompt = "A"
"""


def test_a_result_has_every_part():
    found = answer({"line": "A5/A", "model": "GA", "flags": "-np 2 --verbose",
                    "profiles": ["llama_cpp@b10587", "mlx_lm@0.32.2"]})  # fmt: skip
    assert [*found] == ["html", "notes", "command", "toml"]
    assert found["notes"] == ["without effect: --verbose"]
    command = "cachesim run A5/A -p llama_cpp@b10587 --model GA --set parallel=2 -p mlx_lm@0.32.2"
    assert found["command"] == command and found["toml"] == TOML
    assert found["html"].startswith('<section class="engines">')
    assert answer({"line": "A5/A"})["notes"] == []


def test_a_section_begins_with_the_verdict_of_its_rule_set():
    found = answer({"line": "A5/A", "model": "A", "profiles": ["llama_cpp@b10587", "llama_cpp@b11549"]})["html"]
    heads = ["<h2>llama_cpp@b10587: <span>correct answers, 0 tokens re-evaluated</span></h2>",
             "<h2>llama_cpp@b11549: <span>correct answers, 0 tokens re-evaluated</span></h2>"]  # fmt: skip
    assert re.findall("<h2>.*?</h2>", found) == heads


def test_a_section_of_a_wrong_answer_is_marked():
    known = load(corpus_files()["mlx-1006-one-message-no-boundary-hybrid"])
    found = answer({"line": repr(known), "model": "GGGA", "flags": "thinking=true", "profiles": ["mlx_lm@0.31.1"]})
    verdict = "wrong answer at requests 0 and 1, 3 tokens re-evaluated"
    assert f'<h2>mlx_lm@0.31.1: <span class="bad">{verdict}</span></h2>' in found["html"]


def test_the_text_of_a_page_is_not_markup():
    html = answer({"line": "A5/A", "profiles": ["<b>"]})
    assert html["error"] == "unknown profile '<b>'" and "html" not in html


@pytest.mark.parametrize(("fields", "problem"), [
    ({"line": "A5/A..B"}, ("column 6, request 1: '' is not a word (letters, then an optional slice such as [2:9])", "",
                           6)),
    ({"flags": "-x=3"}, ("unknown flag '-x=3'", "cachesim options llama_cpp", 0)),
    ({"flags": "-np 2 what"}, ("unknown flag 'what'", "cachesim options llama_cpp", 0)),
    ({"flags": "what", "profiles": ["mlx_lm@0.32.2"]}, ("unknown flag 'what'", "cachesim options mlx_lm", 0)),
    ({"flags": "'"}, ("flags: a quote is not closed: \"'\"", "", 0)),
    ({"profiles": ["x.py"]}, ("the playground does not run files of rules: 'x.py'", "cachesim run LINE -p FILE.py", 0)),
    ({"flags": "real_model=/etc/passwd", "profiles": ["vllm@0.33.0"]},
     ("unknown model '/etc/passwd'", "a page names no file", 0)),
    ({"profiles": ["b9518", "b9230", "b9063", "b8392", "b10587", "b11549"]},
     ("at most 5 rule sets are compared", "", 0)),
])  # fmt: skip
def test_a_problem_has_its_cause_its_hint_and_its_column(fields, problem):
    error, hint, column = problem
    assert answer({"line": "A5/A", **fields}) == {"error": error, "hint": hint, "column": column}


def test_five_rule_sets_are_compared_each_once():
    names = [f"llama_cpp@{build}" for build in ("b9518", "b9230", "b9063", "b8392", "b10587")]
    assert read_case({"line": "A5", "profiles": [*names, "llama_cpp@b9518"]}).profiles == tuple(names)


def test_a_real_model_is_found_by_its_name():
    found = read_case({"line": "A5", "profiles": ["vllm@0.33.0"], "flags": "real_model=Qwen3-Next-80B-A3B"})
    assert found.scenario.server == {"real_model": "Qwen3-Next-80B-A3B"}


def test_a_case_has_the_model_of_the_page_without_blanks():
    found = read_case({"line": " A5/A ", "model": " GA ", "profiles": ["llama_cpp@b10587", "mlx_lm@0.32.2"]})
    assert {name: one.model for name, one in found.scenarios.items()} == {"llama_cpp": "GA", "mlx_lm": "GA"}
    assert found.scenario is found.scenario_of("llama_cpp@b10587")
    assert found.scenario_of("mlx_lm@0.32.2").profiles == ("mlx_lm@0.32.2",)
    assert found.silent == ()


def test_the_timeline_has_a_section_for_each_rule_set():
    assert answer(CASE)["html"].count('<section class="run"') == 2
    assert answer({**CASE, "profiles": ["mlx_lm@0.32.2"], "flags": ""})["html"].count('<section class="run"') == 1


def test_notes_explain_the_model_and_flags_without_effect():
    notes = answer({"line": "A5/A", "model": "qwen3-next", "flags": "--verbose", "profiles": []})["notes"]
    assert "qwen3-next is GGGA" in notes[0] and notes[1] == "without effect: --verbose"


@pytest.mark.parametrize(("line", "column", "says"), [
    ("S40.A60/S..B5", 11, "request 1"), ("", 1, "no words"), ("A5/A!!", 6, "cannot be read"),
    ("A5/\x00", 4, "not a word"),
    ("A5/<script>", 4, ""), ("(" * 100_000, 1, ""),
])  # fmt: skip
def test_an_error_in_the_line_has_its_column(line, column, says):
    found = answer({**CASE, "line": line})
    assert found["column"] == column and says in found["error"] and len(found["error"]) <= 400


@pytest.mark.parametrize(("field", "value", "says"), [
    ("model", "qwen4", "unknown model"), ("flags", "-np", "has no value"), ("flags", "--nope 3", "unknown flag"),
    ("flags", "what", "unknown flag"), ("flags", "'", "a quote is not closed"), ("flags", "ctx_sise=3", "did you mean"),
    ("profiles", ["llama_cpp@b0"], "older than the oldest rule set (llama_cpp@b1573"), ("profiles", ["x"], "unknown"),
    ("profiles", ["llama_cpp@nosuch"], "unknown profile"),
    ("profiles", ["llama_cpp@b10587", "mlx_lm@nosuch"], "unknown profile"),
    ("profiles", ["b9518", "b9230", "b9063", "b8392", "b10587", "b11549"], "at most 5"),
])  # fmt: skip
def test_other_errors_have_no_column(field, value, says):
    found = answer({**CASE, field: value})
    assert found["column"] == 0 and says in f"{found['error']} ({found['hint']})"


@pytest.mark.parametrize("name", ["my_rules.py", "./my_rules.py:MINE", "/etc/passwd", "../x.py", "rules.py:A:B"])
def test_a_file_is_neither_run_nor_looked_for(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_rules.py").write_text("raise SystemExit('executed')")
    opened = []
    for function in ("open", "stat", "listdir"):
        real = getattr(os, function)
        monkeypatch.setattr(os, function, lambda *a, real=real, **k: (opened.append(str(a[0])), real(*a, **k))[1])
    for fields in ({"profiles": [name]}, {"model": name, "profiles": ["llama_cpp@b10587"]}, {"line": name},
                   {"flags": f"-m {name} --slot-save-path {name}"}, {"flags": f"--model-draft {name}"}):  # fmt: skip
        answer({"line": "A5/A", **fields})
        with pytest.raises(BadInput):
            read_case({"line": "A5", "profiles": [name]})
    assert [file for file in opened if "rules" in file or "passwd" in file or "x.py" in file] == []


def test_flags_are_read_in_any_spelling():
    assert read_flags("-np 2 --cache-ram=0 kv_unified=true", "llama_cpp@b10587").settings == [
        "-np=2", "--cache-ram=0", "kv_unified=true",
    ]  # fmt: skip
    assert read_flags("", "llama_cpp@b10587") == ([], [])
    assert read_flags("--verbose '--alias' 'a b' -np 3", "llama_cpp@b10587") == (["-np=3"], ["--verbose", "--alias"])


def test_a_case_beyond_a_limit_is_sent_to_the_command_line():
    limits.lift({limits.NEW_TOKENS.name: 50})
    try:
        found = answer(CASE)
    finally:
        limits.lift({})
    assert "50" in found["error"] and found["hint"]


FIVE = ["llama_cpp@b11549", "vllm@0.33.0", "sglang@0.5.23", "mlx_lm@0.32.2", "ik_llama@2491"]


def test_one_conversation_runs_under_five_engines():
    found = answer({"line": LINE, "model": "GA", "profiles": FIVE})
    assert found["html"].count('<section class="run"') == 5
    assert found["html"].startswith('<section class="engines">')
    assert shlex.split(found["command"])[-2:] == ["-p", FIVE[-1]]
    scenario = load_text(found["toml"], profiles().keys())
    assert scenario.engine == "llama_cpp" and scenario.profiles == (FIVE[0],)


def test_another_engine_gets_the_flags_that_it_has():
    found = read_case({"line": LINE, "flags": "-np 2 --cache-ram 0 -b 64", "profiles": FIVE[:2] + FIVE[4:]})
    assert found.scenarios["llama_cpp"].server == {"parallel": 2, "cache_ram": 0, "batch_size": 64}
    assert found.scenarios["ik_llama"].server == {"parallel": 2, "cache_ram": 0, "batch_size": 64}
    assert found.scenarios["vllm"].server == {}
