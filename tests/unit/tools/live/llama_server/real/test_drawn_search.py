"""Tests of drawn conversations on real servers, with the simulator in their place."""

from __future__ import annotations

import json
import re

import pytest

from cachesim.base import exits
from cachesim.cli.main import main
from cachesim.tools.live.llama_server.real.comparison import compare_case
from cachesim.tools.live.llama_server.real.drawn_search import PER_SERVER, RealSearchPlan, RealTally, search_real
from cachesim.tools.live.llama_server.real.drawn_servers import option_set
from cachesim.tools.live.llama_server.real.real_server import own_server
from tests.unit.tools.live.in_process import servers
from tests.unit.tools.live.real_llama import launcher

__all__ = ["servers"]       # a fixture


@pytest.fixture
def server(servers, tmp_path):
    return own_server(launcher(tmp_path, "b9538", "llama_cpp@b9518"))


@pytest.fixture
def lies(servers):
    """Let the real server report another number of reused tokens for prompts of four tokens or more."""
    def spoil(number, is_cold, body, out):
        more = not is_cold and len(body["prompt"]) >= 4
        return {**out, "timings": {**out["timings"], "cache_n": out["timings"]["cache_n"] + more}}

    servers.spoil = spoil


A = ("A", "ctx_size=512", "parallel=1")


def searched(server, *numbers, stop=False, **plan):
    tally = RealTally(server)
    for number in numbers:
        search_real(tally, RealSearchPlan(0, A, **plan), number, lambda: stop)
    return tally


def test_a_difference_is_shrunk_on_both_sides(lies, server):
    [found] = searched(server, 9).differences
    assert found["shrunk"] and len(found["line"]) < 20
    assert found["comparison"]["requests"][0]["ours"]["prompt_n"] < 8 and found["comparison"]["same"] is False


@pytest.mark.parametrize(("stop", "shrinks"), [(True, True), (False, False)])
def test_a_difference_is_kept_whole_without_time_or_if_asked_for(lies, server, stop, shrinks):
    number = PER_SERVER + 2
    tally = searched(server, number, stop=stop, shrinks=shrinks)
    [found] = tally.differences
    drawn = option_set(0, 1, A).case(2)
    assert (found["number"], found["shrunk"], found["line"]) == (number, shrinks, drawn.typed(server.profile)["line"])
    rows = found["comparison"]["requests"]
    assert (tally.conversations, tally.requests) == (1, len(rows))
    assert tally.equal == sum(row["same"] is True for row in rows)


def test_requests_are_counted_by_their_result(server, servers):
    """Each conversation is drawn for the options of its server; one that cannot be sent is left out."""
    numbers = (0, PER_SERVER + 3)
    drawn = [option_set(0, of, A).case(at) for of, at in ((0, 0), (1, 3))]
    compared = [compare_case(case.scenario(server.profile), server) for case in drawn]
    rows = [row for one in compared if one.found for row in one.found.rows]
    data = searched(server, *numbers).data()
    assert data["conversations"] == sum(one.found is not None for one in compared) > 0
    assert (data["requests"], data["equal"]) == (len(rows), sum(row.same is True for row in rows))
    assert sum(one["conversations"] for one in data["left_out"]) == len(drawn) - data["conversations"]
    assert sum(one["requests"] for one in data["undecided"]) == sum(row.same is None for row in rows)
    assert data["differences"] == [] and (data["build"], data["log_read"]) == ("b9538", True)


def test_a_conversation_that_the_rule_set_cannot_run_is_left_out(servers, tmp_path):
    """b7710 cannot load layers C W8 in the simulator, so that nothing is compared."""
    tally = RealTally(own_server(launcher(tmp_path, "b7710", "llama_cpp@b7710")))
    search_real(tally, RealSearchPlan(0, ("C W8", "ctx_size=512", "parallel=1", "spec_type=none")), 0, lambda: False)
    [left] = tally.data()["left_out"]
    assert (tally.conversations, left["conversations"]) == (0, 1) and "cannot be loaded" in left["why"]


def test_requests_without_a_cold_answer_are_undecided(server, servers):
    def breaks(number, is_cold, body, out):
        if is_cold:
            raise ConnectionError
        return out

    servers.spoil = breaks
    data = searched(server, 0).data()
    assert data["equal"] == 0 and sum(one["requests"] for one in data["undecided"]) == data["requests"] > 0


def test_reasons_are_counted_without_the_number_of_their_request(server):
    """Builds whose log is not read do not show when a client disconnected."""
    data = searched(server._replace(build="b7375"), 6, 8, 10, 11, 40, 41).data()
    assert [one["conversations"] for one in data["left_out"]] == [2, 2, 2] and data["conversations"] == 0
    assert not any(re.search(r"request \d", one["why"]) for one in data["left_out"])


def test_fuzz_compares_with_a_real_server(servers, tmp_path, capsys):
    file = launcher(tmp_path, "b9538", "llama_cpp@b9518")
    assert main(["fuzz", "--real", str(file), "--examples", "1", "--model", "A", "--json"]) == exits.HOLDS
    [found] = json.loads(capsys.readouterr().out)["real"]
    assert found["build"] == "b9538" and found["differences"] == []
    assert found["conversations"] + sum(one["conversations"] for one in found["left_out"]) == 1


@pytest.mark.parametrize("words", [["-p", "b9538"], ["--out", "x"], ["--against", "b9538"], ["--property", "survives"]])
def test_fuzz_refuses_what_does_not_go_with_a_real_server(tmp_path, capsys, words):
    file = launcher(tmp_path, "b9538", "llama_cpp@b9518")
    assert main(["fuzz", "--real", str(file), *words]) == exits.BAD_INPUT
    assert f"{words[0]} does not go with --real" in capsys.readouterr().err
