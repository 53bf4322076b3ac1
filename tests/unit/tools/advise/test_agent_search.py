"""Tests of the search for settings of agents, on small workloads in which every setting can be run as a whole."""

from dataclasses import replace
from functools import cache

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.registry import engine_of
from cachesim.tools.advise import agent_search
from cachesim.tools.advise.agent_search import (
    SHOWN,
    WORTH,
    AgentCost,
    AgentSearch,
    CostlySetting,
    FittedSetting,
    agent_forms,
    summed,
)
from cachesim.tools.advise.agent_workload import recorded_workload
from cachesim.tools.workload.recorded_session import RecordedRequest, WorkloadSession
from cachesim.tools.workload.run_cell import Cell
from cachesim.tools.workload.shipped_sessions import shipped_sessions

GIB = 1 << 30
PROFILE = "llama_cpp@b11549"


def conversation(name, turns, each=128, size=64, start=0.0):
    """Return a session whose prompts grow by ``each`` blocks."""
    times = [start + 10 * i for i in range(turns)]
    requests = [RecordedRequest(at, at + 1, each * size * n + 5, 3, tuple(range(1, each * n + 1)))
                for n, at in enumerate(times, 1)]  # fmt: skip
    return WorkloadSession(name, "test", size, tuple(requests))


def alternating(model="llama-3", room=8, clients=2, profile=PROFILE, **more):
    """Return a search on conversations that take turns."""
    sessions = [conversation(f"s{i}", 4, start=float(i), **more) for i in range(clients)]
    return AgentSearch(profile, model, int(room * GIB), clients, recorded_workload(sessions, "sessions", clients, 0))


@cache
def alternated(model):
    """Return a completed search on conversations that take turns, and its advice."""
    search = alternating(model)
    return search, search.advice()


@pytest.mark.part(3)
@pytest.mark.parametrize("model", ["llama-3", "qwen3-next", "gpt-oss"])
def test_no_setting_is_better_than_the_best(model):
    search, found = alternated(model)
    every = [search.cost(one.setting, range(1), search.scale) for one in found.first]
    assert found.best[0].cost.unanswered == min(one.unanswered for one in every) == 0
    assert found.best[0].cost.units <= min(one.units for one in every)
    assert [one.rank for one in found.best[:-1]] == sorted(one.rank for one in found.best[:-1])
    assert len(found.best) <= SHOWN and all(one.cost.wrong == 0 for one in found.best)
    assert found.best[0].cost.scale == 1 and found.best[0].cost.requests == 8


def searched_again(change, clients=2, turns=(3, 2)):
    """Return the advice of a search, and that of a search for which ``change`` has changed the costs of the first. The
    sessions, of so many turns each, run on servers for so many clients."""
    sessions = [conversation(f"s{i}", n, start=float(i)) for i, n in enumerate(turns)]
    load, known = recorded_workload(sessions, "sessions", clients, 0), {}
    first = AgentSearch(PROFILE, "llama-3", 8 * GIB, clients, load, known).advice()
    changed = {key: change(cost, first) for key, cost in known.items()}
    return first, AgentSearch(PROFILE, "llama-3", 8 * GIB, clients, load, changed).advice()


def test_a_setting_that_costs_more_without_scaling_makes_way_for_the_next():
    first, found = searched_again(lambda cost, _: cost._replace(evaluated=cost.prompt) if cost.scale == 1 else cost)
    assert found.best[0].setting != first.best[0].setting and found.best[0].cost.scale == 1
    (dear,) = [one.cost for one in found.ran if one.setting == first.best[0].setting]
    assert dear.evaluated == dear.prompt and [one.rank for one in found.ran] == sorted(one.rank for one in found.ran)


def test_settings_are_judged_until_enough_answer_correctly_first_where_another_was_wrong(monkeypatch):
    """The second server, with 2 requests, answers wrongly under each setting of the first search."""
    monkeypatch.setattr(agent_search, "KEPT", 2)
    first, found = searched_again(lambda cost, _: cost._replace(wrong=1) if cost.requests == 2 and cost.wrong == 0
                                  else cost, turns=(2, 2, 1, 1))  # fmt: skip
    assert [one.cost.requests for one in found.wrong] == [6, 2]
    assert len(found.ran) == 2 == len(first.ran)
    assert not any(one.cost.wrong or one.setting.is_imprecise for one in found.ran)


def test_of_settings_that_cost_as_much_the_smallest_is_best():
    _, found = alternated("llama-3")
    best = found.best[0]
    assert best.setting.total == min(one.setting.total for one in found.first if one.cost.units == best.cost.units)


@pytest.mark.long
def test_settings_that_do_not_fit_are_left_out():
    found = alternating("qwen3-next", 2.5).advice()
    assert found.excluded and all(one.total > 2.5 * GIB for one in found.excluded)
    assert all(one.setting.total <= 2.5 * GIB for one in found.first)


def test_too_little_memory_is_refused():
    with pytest.raises(BadInput, match=r"no setting fits: the smallest takes 0\.3 GiB"):
        alternating(room=0.1).advice()


@pytest.mark.long
def test_settings_with_wrong_answers_are_left_out():
    """ik_llama.cpp restores checkpoints into wrong cells if two conversations of a hybrid model alternate (IK-D3)."""
    sessions = [one._replace(requests=one.requests[:3]) for one in shipped_sessions()
                if one.name in ("trace_0012", "trace_0462")]  # fmt: skip
    search = AgentSearch("ik_llama@main", "qwen3-next", 64 * GIB, 2, recorded_workload(sessions, "sessions", 2, 0))
    found = search.advice()
    assert {one.setting.options["parallel"] for one in found.wrong} == {2}
    assert {one.setting.options["parallel"] for one in found.best} == {1}
    assert all(one.cost.wrong for one in found.wrong)


@pytest.mark.long
def test_less_precise_rows_must_save_tokens():
    """In 8 GiB both conversations fit as F16, in 5 GiB only as Q8."""
    roomy, narrow = alternating(room=8.5), alternating(room=5)
    assert not any(one.setting.is_imprecise for one in roomy.advice().best)
    found = narrow.advice()
    best = min(one.cost.units for one in found.first if not one.setting.is_imprecise and not one.cost.unanswered)
    assert found.best[0].setting.is_imprecise
    assert (best - found.best[0].cost.units) * WORTH >= 1


@pytest.mark.part(2)
@pytest.mark.parametrize(("profile", "option"), [(PROFILE, "parallel"), ("mlx_lm@0.32.2", "decode_concurrency")])
def test_one_of_the_settings_serves_all_clients(profile, option):
    search = alternating("qwen3-next", 16, profile=profile)
    assert [search.serves_all(one) for one in search.advice().best if one.setting.options[option] >= 2]
    assert not any(search.serves_all(one) for one in search.first if one.setting.options[option] < 2)


@pytest.mark.long
def test_costs_of_another_workload_are_not_known():
    sessions, known = [conversation("a", 3), conversation("b", 4, start=1.0)], {}
    for clients in (1, 2):
        load = recorded_workload(sessions, "sessions", clients, 0)
        found = AgentSearch(PROFILE, "qwen3", 5 * GIB, clients, load, known).advice()
        assert found == AgentSearch(PROFILE, "qwen3", 5 * GIB, clients, load).advice()


def test_the_unscaled_run_costs_the_same_in_two_processes():
    load = recorded_workload([conversation("a", 2), conversation("b", 3)], "sessions", 1, 0)
    one, two = (AgentSearch(PROFILE, "qwen3", 5 * GIB, 1, load, jobs=jobs).advice() for jobs in (1, 2))
    assert one == two and one.best[0].cost.scale == 1


def test_an_engine_without_settings_is_refused():
    engine = replace(engine_of(PROFILE), memory=lambda: None)
    with pytest.raises(BadInput, match="no settings for agents are known for llama_cpp"):
        agent_forms(engine)


def costly(evaluated=500, gib=1, unanswered=0, imprecise=False, wrong=0, **options):
    setting = FittedSetting(options, gib * GIB, 4096, 0, imprecise)
    return CostlySetting(setting, AgentCost(10_000, evaluated, 90, 20, unanswered, wrong))


@pytest.mark.parametrize(("better", "worse"), [
    (costly(900, 9), costly(100, unanswered=1)), (costly(500, 9), costly(520)),
    (costly(509, 9), costly(500, imprecise=True)),
    (costly(481, 9, imprecise=True), costly(600)), (costly(500, 1), costly(500, 2)), (costly(a=1), costly(b=1)),
    (costly(500, 9), costly(400, imprecise=True)),
])  # fmt: skip
def test_settings_rank_by_answers_cost_precision_and_memory(better, worse):
    assert better.rank < worse.rank


def test_units_are_thousandths_of_the_prompt():
    assert [AgentCost(10_000, n, 0, 1, 0).units for n in (0, 4, 6, 10, 10_000)] == [0, 0, 1, 1, 1000]
    assert AgentCost(0, 5, 0, 1, 0).units == 0


@pytest.fixture
def search():
    return AgentSearch(PROFILE, "qwen3", 8 * GIB, 2, recorded_workload([conversation("s", 3)], "sessions", 2, 0))


def test_a_setting_serves_all_clients_with_a_slot_for_each(search):
    assert [search.serves_all(costly(parallel=n)) for n in (1, 2, 3)] == [False, True, True]
    search.agents = search.agents._replace(width="")
    assert search.serves_all(costly())


def test_costs_of_cells_are_added_in_recorded_tokens():
    cells = [Cell(requests=2, refused=1, died=1, prompt=10, evaluated=5, least=3),
             Cell(requests=3, prompt=1, evaluated=1)]  # fmt: skip
    assert summed(cells, 4) == AgentCost(44, 24, 12, 5, 2, None, 4)
    assert summed([Cell(wrong=0), Cell(wrong=2), Cell()], 1).wrong == 2


def test_a_setting_may_fill_the_memory(search):
    every = {one.total for one in (*search.fitted({}), *search.excluded)}
    search.room, search.excluded = max(one.total for one in search.fitted({})), []
    search.excluded.clear()
    assert {one.total for one in search.fitted({})} == {total for total in every if total <= search.room}
    assert {one.total for one in search.excluded} == {total for total in every if total > search.room}


def test_of_settings_that_cost_as_much_in_the_first_comparison_the_smallest_is_judged(search):
    first = [one._replace(cost=AgentCost(10_000, 500, 90, 3, 0)) for one in search.compared(search.fitted({}))]
    ([found], _) = search.judged(first, 1)
    assert found.setting.total == min(one.setting.total for one in first) < max(one.setting.total for one in first)
