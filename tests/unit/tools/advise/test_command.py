"""Tests of ``cachesim advise``: partial results, sizes of real models, and single-line errors."""

from __future__ import annotations

import json
import re
import shlex
from itertools import count
from pathlib import Path

import pytest

import cachesim
from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.schema import DEFAULT_PROFILE
from cachesim.tools.advise import command as advise
from cachesim.tools.advise.case_facts import CaseFacts
from cachesim.tools.advise.memory_meter import UNITS
from cachesim.tools.advise.report import try_sentence
from cachesim.tools.advise.saved_tokens import RepairCase
from cachesim.tools.advise.search import AdviceSearch
from cachesim.tools.advise.setup_changes import Setup
from cachesim.tools.run.arguments import CaseOptions

EXCERPT = Path(__file__).parents[1] / "server_logs" / "excerpt.log"
LINE = "S40.A60/B80/S.C50/S.A.D5"
WRONG = ("A5/B10/B[:3].C3", "-np", "1")


def told(capsys, *words):
    """Return the exit code, stdout and stderr."""
    code = main(["advise", *words])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_everything_fits_a_terminal_but_the_commands(capsys):
    code, out, err = told(capsys, LINE, "--model", "A")
    assert (code, err) == (0, "")
    assert all(len(line) <= 80 for line in out.splitlines() if "cachesim run" not in line)
    assert "-np 2" in out and "llama_cpp@pr24143-on-b10587" in out


@pytest.mark.parametrize(("words", "said"), [
    (("nowhere.toml",), "no such file"), (("S4/",), "no words"), ((LINE, "--seconds", "0"), "at least 1"),
    ((LINE, "--sizes", "nothing"), "unknown sizes of K/V rows and states: model 'nothing' ("),
    ((LINE, "--model", "GGGA", "--sizes", "llama-3"), "unlike"),
    ((LINE, "--model", "lfm2swa", "--sizes", "llama-3"), "its own sizes"), ((LINE, "-p", "xyz"), "unknown profile"),
    ((LINE, "--model", "GGGA@1/x"), "expected two sizes in bytes"),
])  # fmt: skip
def test_what_cannot_be_used_is_refused_in_a_line(words, said, capsys):
    code, out, err = told(capsys, *words)
    assert (code, out, err.count("\n")) == (2, "", 1) and said in err


@pytest.mark.long
def test_mib_are_those_of_the_real_model(capsys):
    code, out, _ = told(capsys, LINE, "--sizes", "qwen3-next", "--json")
    (data,) = json.loads(out)["advise"]
    assert (code, data["model"]) == (0, "GGGA@24576/26345472")
    assert data["sizes"].endswith("Qwen3-Next-80B-A3B-Instruct")
    assert data["base"]["mib"] > 2 * 36 * 2195456 / (1 << 20)      # a state in the slot, another in the prompt cache
    assert "--model GGGA@24576/26345472" in data["advice"][0]["command"]
    _, out, _ = told(capsys, LINE, "--model", "qwen3-next", "--json", "-q")
    assert json.loads(out)["advise"][0]["base"] == data["base"]


@pytest.mark.parametrize("profile", ["vllm@latest", "sglang@latest"])
def test_a_pool_that_the_server_reserves_has_no_memory_at_the_fullest(capsys, profile):
    code, out, _ = told(capsys, "A40>8/A.B9", "-p", profile, "--model", "qwen3-8b", "--json")
    data = json.loads(out)["advise"][0]
    assert (code, data["sizes"], data["base"]["mib"]) == (exits.HOLDS, "config.json of Qwen/Qwen3-8B", None)
    assert {item["mib"] for item in data["advice"]} <= {None}


@pytest.mark.long
def test_a_log_can_have_the_sizes_of_a_real_model(capsys):
    code, out, _ = told(capsys, str(EXCERPT), "--sizes", "qwen3-next", "--json")
    (data,) = json.loads(out)["advise"]
    assert (code, data["model"]) == (0, "GGGA@24576/26345472") and data["base"]["evaluated"] > 1600


class SlowClock:
    """Clock in which each question takes a minute."""

    def __init__(self):
        self.minutes = count()

    def monotonic(self):
        return 60.0 * next(self.minutes)


class Clock:
    """Clock whose time is asked after each change that was tried, and which does something then."""

    def __init__(self, *events):
        self.events = iter(events)

    def monotonic(self):
        next(self.events, lambda: None)()
        return 0.0


def interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize("profiles", [("b11549", "b11549-repaired"), ("b11549-repaired", "b11549")])
def test_a_wrong_answer_under_one_of_the_rule_sets_is_in_the_exit_code(capsys, monkeypatch, profiles):
    monkeypatch.setattr(advise, "time", SlowClock())
    words = [word for name in profiles for word in ("-p", f"llama_cpp@{name}")]
    code, out, _ = told(capsys, *WRONG, *words, "--seconds", "1", "--json")
    found = json.loads(out)["advise"]
    assert sorted(bool(data["base"]["wrong"]) for data in found) == [False, True] and code == exits.BROKEN


def test_ctrl_c_shows_what_was_found_so_far(capsys, monkeypatch):
    monkeypatch.setattr(advise, "time", Clock(*[lambda: None] * 16, interrupt))
    code, out, err = told(capsys, LINE, "--model", "A", "-p", "llama_cpp@b11549", "-p", "llama_cpp@b10587", "--json")
    (data,) = json.loads(out)["advise"]              # the second rule set is not searched
    assert (code, data["stopped"]) == (130, "interrupted") and data["advice"] and 0 < data["tried"] <= 16
    assert str(data["tried"]) in err


@pytest.mark.parametrize("words", [(LINE,), (LINE, "--json"), WRONG])
def test_the_case_is_printed_before_all_changes_are_tried(words, capsys, monkeypatch):
    """A wrong answer may evaluate fewer tokens than the lower bound: then a line on stderr comes first."""
    printed = []
    monkeypatch.setattr(advise, "time", Clock(lambda: None, lambda: printed.append(capsys.readouterr()), interrupt))
    code, rest, _ = told(capsys, *words)
    assert code == 130 and rest
    if words == (LINE,):
        assert "375" in printed[0].out and "235" in printed[0].out and printed[0].err == ""
    else:
        assert printed[0].out == "" and printed[0].err.count("\n") == (words == WRONG)


def test_a_search_ends_when_its_time_is_over(capsys, monkeypatch):
    now = iter(range(0, 10_000, 7))
    monkeypatch.setattr(advise.time, "monotonic", lambda: next(now))
    code, out, err = told(capsys, LINE, "--model", "A", "--json", "--seconds", "20")
    (data,) = json.loads(out)["advise"]
    assert (code, data["stopped"], data["tried"]) == (0, "seconds", 3) and "--seconds" in err


def test_the_best_advice_in_a_sentence(capsys):
    _, out, _ = told(capsys, "d2.S80.u5/e2.S.u", "--model", "A", "--json")
    (data,) = json.loads(out)["advise"]
    assert re.findall(r"\d+", try_sentence(data)) == ["174", "89"]
    assert try_sentence({**data, "advice": []}) == ""


@pytest.mark.long
def test_a_log_and_request_bodies_are_imported_and_advised(capsys):
    code, out, _ = told(capsys, "tests/unit/tools/server_logs/default_verbosity.log", "--seconds", "600")
    assert code == 0 and "7 requests" in out and "-ub 64" in out and "cachesim run 'A120>a5/A.B30" in out
    code, out, _ = told(capsys, "tests/unit/tools/request_bodies/agent.jsonl", "-p", "llama_cpp@b11549")
    assert code == 0 and "client: put the changing part after everything that stays the same" in out


def test_a_log_without_requests_is_refused(tmp_path, capsys):
    log = tmp_path / "server.log"
    log.write_text("srv  update_slots: all slots are idle\n" * 3, "utf-8")
    code, _, err = told(capsys, str(log))
    assert code == 2 and err.count("\n") == 1 and "no complete request" in err


def asked(sizes="", **options):
    return advise.AskedCase("A5", CaseOptions(**options), sizes)


@pytest.mark.parametrize(("more", "source", "layers"), [
    ({}, "", "GGGA"), ({"model": "GA"}, "", "GA"), ({"model": "qwen3-next"}, "Qwen3-Next", "GGGA"),
    ({"sizes": "gpt-oss"}, "gpt-oss", "W128 A"), ({"model": "W8 A", "sizes": "gpt-oss"}, "gpt-oss", "W8 A"),
    ({"model": "qwen3-next", "sizes": "qwen3.5-4b"}, "Qwen3.5-4B", "GGGA"),
])  # fmt: skip
def test_sizes_are_those_that_are_named_or_those_of_the_model(more, source, layers):
    """A line has the layers of the named sizes unless it has a model of its own."""
    _, [scenario], sizes = advise.sized(asked(**more))
    assert (sizes.source.rpartition("/")[2].startswith(source), bool(sizes.source)) == (True, bool(source))
    assert scenario.model.partition("@")[0] == layers and ("@" in scenario.model) is bool(source)


OLD, MIDDLE, NEW, DRAFT = (f"llama_cpp@{name}" for name in ("b9231", "b9473", "b9518", "24035-v3"))
FIXED = "llama-24110-extension-re-evaluated-hybrid"          # by the rule set NEW


@pytest.mark.parametrize(("case", "own", "found"), [
    (FIXED, (OLD, NEW, MIDDLE), MIDDLE), (FIXED, (OLD, NEW), OLD), (FIXED, (NEW,), NEW),
    ("A40", (OLD, NEW, MIDDLE), NEW), (FIXED, (DRAFT, NEW), NEW), (FIXED, (DRAFT,), DRAFT),
])  # fmt: skip
def test_a_case_is_advised_under_its_newest_rule_set_that_loses_tokens(case, own, found):
    assert advise.newest_with_losses(cachesim.load(case), own).case.profile == found


def test_an_imported_case_is_that_of_its_engine_or_of_every_rule_set():
    scenario = from_line("A5", profiles=(DEFAULT_PROFILE,), server={"parallel": 2})
    both = asked(profiles=[DEFAULT_PROFILE, "vllm@0.33.0"], settings=["enable_prefix_caching=false"])
    found = advise.sized(both, RepairCase(scenario)).scenarios
    assert [(case.engine, case.profiles) for case in found] == [
        ("llama_cpp", (DEFAULT_PROFILE,)), ("vllm", ("vllm@0.33.0",))]  # fmt: skip
    assert [case.server for case in found] == [{"parallel": 2}, {"enable_prefix_caching": False}]
    one = asked(profiles=["vllm@0.33.0"])
    assert advise.sized(one, RepairCase(scenario, facts=CaseFacts())).scenarios == [scenario]


@pytest.mark.parametrize(("facts", "is_tried"), [(CaseFacts(contradicted=(1,)), False), (None, True)])
def test_a_refuted_log_is_not_searched(facts, is_tried):
    scenario = from_line("A60/B60/A.C9", model="A", profiles=(DEFAULT_PROFILE,))
    search = AdviceSearch(Setup(scenario, DEFAULT_PROFILE))
    advice = advise.advice_for(search, RepairCase(scenario, facts=facts), UNITS)
    assert bool(advice.data["tried"]) is is_tried


def test_suggestions_name_the_case_as_it_was_asked_for(capsys):
    words = "--model", "A", "--set", "cache_ram=0", "--limit", "tokens=2000000", "--limit", "workload=900"
    _, out, _ = told(capsys, LINE, *words, "-p", "llama_cpp@b11549", "--json", "-q")
    data = json.loads(out)["advise"][0]
    best = next(one for one in data["advice"] if all(each["kind"] == "flag" for each in one["changes"]))
    _, *run = shlex.split(best["command"])
    assert run[:2] == ["run", LINE] and {*words[1::2]} - {"cache_ram=0", "workload=900"} <= {*run}
    assert "workload=900" not in run                                # no limit of `run`
