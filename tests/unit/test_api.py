"""Public names: the guarantees for Python programs."""

from __future__ import annotations

import pickle
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from inspect import getdoc, signature
from pathlib import Path

import pytest

import cachesim
from cachesim.base.errors import BadInput
from cachesim.scenarios.corpus import corpus_files
from cachesim.tools.conformance import Report
from tests.shared import forget_engines

DENSE = "llama-24143-entry-removed-dense"


def test_every_public_name_is_there_and_documented():
    assert cachesim.__all__ == sorted(cachesim.__all__) and len(cachesim.__all__) == 13
    for name in cachesim.__all__:
        assert callable(getattr(cachesim, name)) and getdoc(getattr(cachesim, name)), name
        assert name in (cachesim.__doc__ or "")
    assert set(cachesim.__all__) <= set(dir(cachesim))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'juge'"):
        cachesim.juge  # noqa: B018


def test_the_package_itself_imports_nothing_heavy():
    code = "import sys, cachesim; print([one for one in ('numpy', 'rich', 'cachesim.api') if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.long
@pytest.mark.parametrize("first", ["cachesim.judging.judged_run", "cachesim.api", "cachesim.scenarios.load"])
def test_whatever_is_imported_first_the_names_are_no_modules(first):
    code = f"import {first}, cachesim; print([one for one in cachesim.__all__ if not callable(getattr(cachesim, one))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("error", [cachesim.BadInput("why"), cachesim.Nonconforming(Report(()))])
def test_an_error_has_the_name_of_its_import_and_can_be_copied(error):
    assert type(error).__module__ == "cachesim"
    copied = pickle.loads(pickle.dumps(error))
    assert type(copied) is type(error) and str(copied) == str(error)


def test_profiles_of_all_engines_and_of_an_engine():
    everything, mlx = cachesim.profiles(), cachesim.profiles("mlx_lm")
    assert mlx and set(mlx) < set(everything) and all(one.startswith("mlx_lm@") for one in mlx)
    with pytest.raises(BadInput, match="unknown engine 'mlx'"):
        cachesim.profiles("mlx")


@pytest.mark.parametrize("name", ["llama_cpp@b10587", "llama_cpp@latest", "llama_cpp"])
def test_rules_are_a_table(name):
    table = cachesim.rules(name)
    assert table.name in cachesim.profiles("llama_cpp")
    assert replace(table, name="llama_cpp@mine").name == "llama_cpp@mine"


def test_rules_of_an_unknown_profile():
    with pytest.raises(BadInput, match="unknown profile 'llama_cpp@b10587x'"):
        cachesim.rules("llama_cpp@b10587x")


def test_load_takes_a_file_an_id_and_a_line(tmp_path):
    file = corpus_files()[DENSE]
    copy = tmp_path / file.name
    copy.write_text(file.read_text("utf-8"), "utf-8")
    assert repr(cachesim.load(DENSE)) == repr(cachesim.load(file)) == repr(cachesim.load(str(copy)))
    line = cachesim.load("S4.A2/S.B3", profile="mlx_lm@0.32.2", model="GA")
    assert (line.engine, line.model, repr(line)) == ("mlx_lm", "GA", "S4.A2/S.B3")
    assert cachesim.load("S4.A2/S.B3", server={"ctx_size": 512}).server == {"ctx_size": 512}


@pytest.mark.parametrize("case, what", [
    ("no-such-id", "not a file, a scenario id or a line"), ("S4.A/", "request 0"), ("missing.toml", "no such file"),
])
def test_a_load_error_is_a_single_line(case, what):
    with pytest.raises(BadInput, match=what) as raised:
        cachesim.load(case)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("profile", ["llama_cpp@b10587x", "nosuch", "nosuch@x"])
def test_a_name_that_is_no_rule_set_is_refused_wherever_it_is_given(profile):
    for call in (lambda: cachesim.load("S4", profile=profile), lambda: cachesim.run("S4", profile),
                 lambda: cachesim.run(cachesim.load(DENSE), [profile]), lambda: cachesim.rules(profile)):
        with pytest.raises(BadInput) as bad:
            call()
        assert bad.value.cause == f"unknown profile '{profile}'"


def test_run_compares_nothing_and_keeps_every_event():
    played = cachesim.run(DENSE, "llama_cpp@b10587")
    assert played.profile == "llama_cpp@b10587" and len(played.log.events) > 0
    assert [answer.cache_n for _, answer in filter(None, played.requests)] == [0, 0, 40, 40]


def test_a_step_other_than_a_completion_has_no_answer():
    played = cachesim.run("S4.A4/{restart}/S.A")
    assert [one is None for one in played.requests] == [False, True, False]


def test_judge_finds_the_fault_and_its_absence():
    line = "S40.A20/S.A>3/B9@0/S.A.C5"
    wrong = cachesim.judge(cachesim.load(line, profile="ik_llama@1889-base", model="GA"))
    right = cachesim.judge(cachesim.load(line, profile="ik_llama@main", model="GA"))
    assert (wrong.verdict.word, right.verdict.word) == ("wrong", "correct")
    assert wrong.broken and not right.broken


def test_judge_takes_a_changed_table():
    case = cachesim.load("llama-24143-entry-removed-dense")
    base, fixed = (cachesim.rules(f"llama_cpp@{name}") for name in ("b9518", "pr24143-on-b9518"))
    runs = [cachesim.judge(case, name, table=table, mode="provenance")
            for name, table in ((base.name, fixed), (fixed.name, None), (base.name, None))]  # fmt: skip
    kept, same, lost = ([one.answer.cache_n for one in run.requests] for run in runs)
    assert kept == same != lost


@pytest.mark.parametrize("what, named", [
    ({"mode": "exactly"}, "unknown mode 'exactly'"), ({"mode": "none"}, "no contents"),
    ({"profile": "mlx_lm@nosuch"}, "unknown profile"),
])
def test_judge_refuses_what_it_cannot_do(what, named):
    with pytest.raises(BadInput, match=named):
        cachesim.judge(cachesim.load(DENSE), **what)


def test_a_run_is_a_picture_in_one_call():
    case = cachesim.load(DENSE)
    one, two = (cachesim.judge(case, f"llama_cpp@{name}", mode="provenance")
                for name in ("b10587", "pr24143-on-b10587"))  # fmt: skip
    text = cachesim.svg(one)
    assert ET.fromstring(text).tag.endswith("svg") and "first difference" not in text
    assert cachesim.svg(one, two).count(">first difference<") == 2
    table = replace(cachesim.rules("llama_cpp@b10587"), name="llama_cpp@mine")
    with pytest.raises(BadInput, match="unknown profile 'llama_cpp@mine'"):
        cachesim.svg(cachesim.judge(case, "llama_cpp@b10587", mode="provenance", table=table))


def test_a_picture_is_of_one_case():
    runs = [cachesim.judge(name, "llama_cpp@b10587", mode="provenance") for name in (DENSE,
        "llama-24143-entry-removed-hybrid")]
    for some in ([], runs):
        with pytest.raises(BadInput, match="a picture shows one case"):
            cachesim.svg(*some)


def test_signatures_are_the_documented_ones():
    first = ["case", "profile", "mode"]
    assert list(signature(cachesim.judge).parameters) == [*first, "table", "model", "server", "check"]
    assert list(signature(cachesim.run).parameters) == [*first, "model", "server"]
    assert list(signature(cachesim.load).parameters) == ["case", "profile", "model", "server"]


def test_a_file_of_rules_is_a_profile(tmp_path: Path, monkeypatch):
    forget_engines(monkeypatch)      # isolates other tests
    file = tmp_path / "api_rules.py"
    file.write_text(
        "from dataclasses import replace\n"
        "from cachesim.engines.llama_cpp.profiles import NEWEST, PROFILES\n"
        "MINE = replace(PROFILES[NEWEST], name='llama_cpp@api-test')\n"
    )
    assert cachesim.rules(str(file)).name == "llama_cpp@api-test"
    assert cachesim.judge("S4.A2/S.B3", str(file)).profile == "llama_cpp@api-test"


def test_a_case_runs_under_rule_sets_of_several_engines(capsys):
    case = cachesim.load("S40.A60/S.B20/S.A")
    runs = [cachesim.judge(case, profile, mode="provenance") for profile in ("llama_cpp", "vllm", "sglang")]
    assert [run.profile.partition("@")[0] for run in runs] == ["llama_cpp", "vllm", "sglang"]
    assert [run.requests[2].answer.cache_n for run in runs] == [0, 96, 64]
    assert '<g class="engines">' in cachesim.svg(*runs)
    assert cachesim.run(case, "vllm").requests[2][1].cache_n == 96


def test_options_of_another_engine_are_left_out_with_a_note(capsys):
    case = cachesim.load("llama-24143-entry-removed-dense")
    assert cachesim.judge(case, "mlx_lm").verdict.word == "correct"
    assert "its options are those of llama_cpp; mlx_lm runs with its own defaults" in capsys.readouterr().err


def test_a_line_takes_what_the_command_line_takes(capsys):
    run = cachesim.run("S40.A60/S.A", "llama_cpp@b11549", model="qwen3-next", server={"parallel": 2})
    assert (run.scenario.model, run.scenario.server["parallel"]) == ("GGGA@24576/26345472", 2)
    assert "qwen3-next is GGGA" in capsys.readouterr().err
    pasted = cachesim.run("S40.A60/S.A", server="vllm serve x --block-size 32", model="A")
    assert pasted.profile.startswith("vllm@") and [row["cache_n"] for row in pasted.table] == [0, 96]
    assert cachesim.run("S40.A60/S.A", "b9700").profile == "llama_cpp@b9700"


def test_a_list_of_rule_sets_gives_runs_in_its_order():
    runs = cachesim.run("S40.A60/S.A", ["vllm", "llama_cpp@b11549", "vllm@0.33.0-repaired"])
    assert [run.profile for run in runs] == ["vllm@0.33.0", "llama_cpp@b11549", "vllm@0.33.0-repaired"]
    assert [run.scenario.engine for run in runs] == ["vllm", "llama_cpp", "vllm"]
    case = cachesim.load(DENSE)
    assert [run.profile for run in cachesim.judge(case, case.profiles, mode="provenance")] == list(case.profiles)


def test_model_and_options_replace_those_of_a_file():
    case = cachesim.load(DENSE)
    changed = cachesim.judge(case, "llama_cpp@b10587", model="GGGA", server={"cache_ram": 0}, mode="provenance")
    assert (changed.scenario.model, changed.scenario.server["cache_ram"]) == ("GGGA", 0)
    assert changed.scenario.expect == {} and changed.scenario.server["ctx_size"] == case.server["ctx_size"]


def test_a_table_in_place_of_a_name_is_told_where_tables_go():
    table = cachesim.rules("llama_cpp@b11549")
    with pytest.raises(BadInput, match=r"<rule set .*> \(judge\(..., table=TABLE\) takes a table\)"):
        cachesim.run("A5/A", table)
    assert cachesim.judge("A5/A", table=table).profile == "llama_cpp@b11549"
    for other, found in ((7, "7"), (None, "None"), (b"vllm", "b'vllm'"), (["x" * 99], "['" + "x" * 78)):
        with pytest.raises(BadInput) as bad:
            cachesim.rules(other)
        assert str(bad.value) == f"profile: expected the name of a rule set, found {found}"


@pytest.mark.parametrize("what, named", [
    ({"profile": []}, "the list of rule sets is empty"), ({"profile": 3}, "profile: "),
    ({"profile": ["llama_cpp", 3]}, "expected the name of a rule set, found 3"),
    ({"server": {"paralel": 2}}, "unknown .*paralel"), ({"server": "nginx"}, "no known server"),
    ({"model": "nosuch"}, "nosuch"),
])
def test_run_refuses_what_it_cannot_use(what, named):
    with pytest.raises(BadInput, match=named) as raised:
        cachesim.run("S40.A60", **what)
    assert "\n" not in str(raised.value)


def test_the_traceback_of_a_bad_argument_ends_at_the_call():
    for call in (cachesim.load, cachesim.run, cachesim.judge, cachesim.profiles, cachesim.rules):
        with pytest.raises(BadInput) as raised:
            call("no-such-thing")
        assert [entry.name for entry in raised.traceback][1:] == ["called"], call
