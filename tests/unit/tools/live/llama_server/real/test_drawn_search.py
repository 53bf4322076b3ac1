"""Tests of drawn conversations on real servers, with the simulator in their place."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from cachesim.base import exits
from cachesim.base.console import as_text
from cachesim.base.errors import BadInput
from cachesim.cli.main import main
from cachesim.tools.live.llama_server.real import drawn_search
from cachesim.tools.live.llama_server.real.comparison import RealComparison
from cachesim.tools.live.llama_server.real.drawn_search import PER_SERVER, RealSearchPlan, RealTally, search_real
from cachesim.tools.live.llama_server.real.drawn_servers import option_set
from cachesim.tools.live.llama_server.real.real_server import own_server
from cachesim.tools.live.llama_server.verify.case import Verification
from cachesim.tools.live.llama_server.verify.model_of import ComparedRequest, RequestResult
from cachesim.tools.live.real_report import search_report
from tests.unit.tools.live.real_llama import launcher


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def server(tmp_path):
    return own_server(launcher(tmp_path, "b9713", "llama_cpp@b9518"))


def differs_with(monkeypatch, tokens):
    """Let the real server differ wherever a conversation has a prompt of so many tokens."""

    def compare(scenario, server):
        longest = max(len(step.request.prompt) for step in scenario.steps)
        side = RequestResult(0, longest, 200, True)
        row = ComparedRequest(0, "A", side, side, longest < tokens, first="" if longest < tokens else "prompt_n")
        return RealComparison(scenario, server, Verification([row], scenario.model, server.profile, []))

    monkeypatch.setattr(drawn_search, "compare_case", compare)


def test_a_difference_is_shrunk_on_both_sides(monkeypatch, server):
    differs_with(monkeypatch, 4)
    tally = RealTally(server)
    search_real(tally, RealSearchPlan(0), 0, lambda: False)
    [found] = tally.differences
    assert len(found["line"]) < 20 and found["comparison"]["requests"][0]["ours"]["prompt_n"] < 8
    text = as_text(search_report(tally.data()))
    assert "conversation 0 differs: cachesim run" in text and "--real b9713" in text
    assert "1 conversation differs, 0 requests undecided" in " ".join(text.split())


@pytest.fixture
def rows(monkeypatch):
    """Let every conversation have these rows."""
    found = []
    monkeypatch.setattr(drawn_search, "compare_case", lambda scenario, server: RealComparison(
        scenario, server, Verification(found, scenario.model, server.profile, [])))  # fmt: skip
    return found


def made_row(same, why=""):
    side = RequestResult(0, 9, 200, True)
    return ComparedRequest(0, "A", side, side, same, why)


def test_requests_are_counted_by_their_result(rows, server):
    rows += [made_row(True), *(made_row(None, why) for why in ("request 1: late", "request 2: late", "log"))]
    tally = RealTally(server)
    search_real(tally, RealSearchPlan(0), 0, lambda: False)
    search_real(tally, RealSearchPlan(0), 1, lambda: False)
    assert tally.data() == {
        "build": "b9713", "server": server.source, "profile": "llama_cpp@b9713", "log_read": False,
        "conversations": 2, "requests": 8, "equal": 2, "differences": [], "left_out": [],
        "undecided": [{"why": "a request: late", "requests": 4}, {"why": "log", "requests": 2}]}  # fmt: skip


@pytest.mark.parametrize("shrinks", [False, True])
def test_a_difference_names_its_conversation(rows, server, shrinks):
    rows += [made_row(True), made_row(False)]
    tally = RealTally(server)
    search_real(tally, RealSearchPlan(0, ("A",), shrinks=shrinks), PER_SERVER + 2, lambda: False)
    [found] = tally.differences
    drawn = option_set(0, 1, ("A",)).case(2)
    assert (found["number"], found["shrunk"], found["comparison"]["same"]) == (PER_SERVER + 2, shrinks, False)
    assert (found["line"] == drawn.typed(server.profile)["line"]) is not shrinks
    assert (tally.requests, tally.equal, tally.conversations) == (2, 1, 1)


def test_a_conversation_that_is_not_a_valid_scenario_is_left_out(monkeypatch, server):
    def refuse(case, profile):
        raise BadInput("unknown option")

    monkeypatch.setattr(drawn_search.DrawnConversation, "scenario", refuse)
    tally = RealTally(server)
    search_real(tally, RealSearchPlan(0), 0, lambda: False)
    assert tally.data()["left_out"] == [{"why": "it is not a valid scenario", "conversations": 1}]
    assert (tally.conversations, tally.requests) == (0, 0)


def test_without_time_a_difference_is_kept_whole(monkeypatch, server):
    differs_with(monkeypatch, 4)
    short, whole = RealTally(server), RealTally(server)
    search_real(short, RealSearchPlan(0), 0, lambda: False)
    search_real(whole, RealSearchPlan(0), 0, lambda: True)
    assert len(whole.differences[0]["line"]) > len(short.differences[0]["line"])


def test_conversations_that_cannot_be_sent_are_counted_by_reason(monkeypatch, server):
    reasons = iter(["request 3: it cannot", "request 12: it cannot", "no such model"])
    monkeypatch.setattr(drawn_search, "compare_case",
                        lambda scenario, server: RealComparison(scenario, server, None, next(reasons)))  # fmt: skip
    tally = RealTally(server)
    for number in range(3):
        search_real(tally, RealSearchPlan(0), number, lambda: False)
    assert tally.left_out == Counter({"a request: it cannot": 2, "no such model": 1})
    assert tally.conversations == 0


def test_conversations_of_a_server_follow_each_other(monkeypatch, server):
    sent = []
    monkeypatch.setattr(drawn_search, "compare_case", lambda scenario, server: sent.append(scenario))
    for number in (0, 3, PER_SERVER, PER_SERVER + 3):
        search_real(RealTally(server), RealSearchPlan(5), number, lambda: False)
    drawn = [option_set(5, of, ()).case(at) for of, at in ((0, 0), (0, 3), (1, 0), (1, 3))]
    assert sent == [case.scenario(server.profile) for case in drawn]


@pytest.mark.long
def test_fuzz_compares_with_a_real_server(tmp_path, capsys):
    file = launcher(tmp_path, "b9713", "llama_cpp@b9518")
    assert main(["fuzz", "--real", str(file), "--examples", "2", "--model", "A", "--json"]) == exits.HOLDS
    [found] = json.loads(capsys.readouterr().out)["real"]
    assert found["build"] == "b9713" and found["differences"] == []
    assert found["conversations"] + sum(one["conversations"] for one in found["left_out"]) == 2


@pytest.mark.parametrize("words", [["-p", "b9713"], ["--out", "x"], ["--against", "b9713"], ["--property", "survives"]])
def test_fuzz_refuses_what_does_not_go_with_a_real_server(tmp_path, capsys, words):
    file = launcher(tmp_path, "b9713", "llama_cpp@b9518")
    assert main(["fuzz", "--real", str(file), *words]) == exits.BAD_INPUT
    assert f"{words[0]} does not go with --real" in capsys.readouterr().err
