"""Tests of the search for settings of agents, on small workloads in which every setting can be run as a whole."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from cachesim.base.console import ProgressBar
from cachesim.base.errors import BadInput
from cachesim.engines.registry import engine_of
from cachesim.tools.advise.agent_search import (
    SHOWN,
    WORTH,
    AgentCost,
    AgentSearch,
    CostlySetting,
    FittedSetting,
    _row,
    _unlike_first,
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


@pytest.mark.part(3)
@pytest.mark.parametrize("model", ["llama-3", "qwen3-next", "gpt-oss"])
def test_no_setting_is_better_than_the_best(model):
    search = alternating(model)
    found = search.advice()
    every = [search.cost(one.setting, range(1), search.scale) for one in found.first]
    assert found.best[0].cost.unanswered == min(one.unanswered for one in every) == 0
    assert found.best[0].cost.units <= min(one.units for one in every)
    assert [one.rank for one in found.best[:-1]] == sorted(one.rank for one in found.best[:-1])
    assert len(found.best) <= SHOWN and all(one.cost.wrong == 0 for one in found.best)
    assert found.best[0].cost.scale == 1 and found.best[0].cost.requests == 8


@pytest.mark.long
def test_a_setting_that_costs_more_without_scaling_is_not_the_best(monkeypatch):
    search, whole = alternating("qwen3-next", 16), AgentSearch.cost
    first, *others = search.confirmed(search.judged(search.compared(search.fitted({})), 5)[0])
    assert [one.cost.scale for one in (first, *others)] == [1, *(len(others) * [64])]

    def dearer(self, setting, servers, scale, how="counted"):
        cost = whole(self, setting, servers, scale, how)
        more = cost.prompt // 2 if scale == 1 and setting == first.setting else 0
        return cost._replace(evaluated=cost.evaluated + more)

    monkeypatch.setattr(AgentSearch, "cost", dearer)
    found = search.advice().best
    assert found[0].setting != first.setting and found[0].cost.scale == 1


def test_of_settings_that_cost_as_much_the_smallest_is_best():
    found = alternating().advice()
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
    sessions = [one._replace(requests=one.requests[:9]) for one in shipped_sessions()
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


def test_a_known_cost_is_not_computed_again():
    load, known = recorded_workload([conversation("s", 3)], "sessions", 1, 0), {}
    first = AgentSearch(PROFILE, "qwen3", 8 * GIB, 1, load, known).advice()
    number = len(known)
    again = AgentSearch(PROFILE, "qwen3", 8 * GIB, 1, load, known).advice()
    assert (again, len(known)) == (first, number)


@pytest.mark.long
def test_costs_of_another_workload_are_not_known():
    sessions, known = [conversation("a", 3), conversation("b", 4, start=1.0)], {}
    for clients in (1, 2):
        load = recorded_workload(sessions, "sessions", clients, 0)
        found = AgentSearch(PROFILE, "qwen3", 5 * GIB, clients, load, known).advice()
        assert found == AgentSearch(PROFILE, "qwen3", 5 * GIB, clients, load).advice()


def test_an_engine_without_settings_is_refused():
    engine = replace(engine_of(PROFILE), memory=lambda: None)
    with pytest.raises(BadInput, match="no settings for agents are known for llama_cpp"):
        agent_forms(engine)


def costly(evaluated=500, gib=1, unanswered=0, imprecise=False, wrong=0, **options):
    setting = FittedSetting(options, gib * GIB, 4096, imprecise)
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
    found = AgentSearch(PROFILE, "qwen3", 8 * GIB, 2, recorded_workload([conversation("s", 3)], "sessions", 2, 0))
    found.judged = lambda first, most: ([one for one in first][:most], [])
    return found


def test_the_last_setting_that_is_shown_serves_all_clients(search):
    few, many = [costly(500 + n, parallel=1) for n in range(6)], costly(900, parallel=2)
    assert search._shown([*few[:2], many]) == [*few[:2], many]
    assert search._shown([many, *few]) == [many, *few[:3]]
    assert search._shown([*few, many]) == [*few[:3], many]
    search.first = [*few, many, costly(950, parallel=3)]
    assert search._shown(few) == [*few[:3], many] and search._shown([]) == [many]
    search.first = few
    assert search._shown(few) == few[:4] and search._shown([]) == []


def test_a_setting_serves_all_clients_with_a_slot_for_each(search):
    assert [search.serves_all(costly(parallel=n)) for n in (1, 2, 3)] == [False, True, True]
    search.agents = search.agents._replace(width="")
    assert search.serves_all(costly())


@pytest.mark.parametrize(("evaluated", "unanswered", "much"), [(190, 0, False), (191, 0, True), (90, 1, True),
(90, 0, False)])
def test_a_hundredth_of_the_prompt_is_much(search, evaluated, unanswered, much):
    assert search._leaves_much(AgentCost(10_000, evaluated, 90, 20, unanswered)) is much


def test_settings_of_a_new_cost_are_tried_first():
    large, small, other, wide = costly(500, 2, a=1), costly(500, 1, b=1), costly(600, 5, c=1), costly(500, 3, d=1)
    assert _unlike_first([large, other, small, wide]) == [small, other, large, wide]


def test_costs_of_cells_are_added_in_recorded_tokens():
    cells = [Cell(requests=2, refused=1, died=1, prompt=10, evaluated=5, least=3),
             Cell(requests=3, prompt=1, evaluated=1)]  # fmt: skip
    assert summed(cells, 4) == AgentCost(44, 24, 12, 5, 2, None, 4)
    assert summed([Cell(wrong=0), Cell(wrong=2), Cell()], 1).wrong == 2


def test_a_row_is_the_largest_of_its_kinds():
    def use(token, window):
        return SimpleNamespace(token=token, window=window)

    model = SimpleNamespace(full=[1, 2], windows=[1])
    assert [_row(use(40, 10), model), _row(use(40, 30), model)] == [20, 30]
    assert _row(use(0, 30), SimpleNamespace(full=[], windows=[1])) == 30
    assert _row(use(0, 0), SimpleNamespace(full=[], windows=[])) == 0


def test_wrong_answers_end_the_judgement_and_their_server_comes_first(search, monkeypatch):
    judged = []
    search.load = SimpleNamespace(servers=range(3))

    def cost(setting, servers, scale, how):
        judged.append((*servers, scale, how))
        return AgentCost(10, 5, 1, 2, 0, int(servers == (1,)))

    search.cost = cost
    found = search._judged(costly().setting)
    assert found == AgentCost(20, 10, 2, 4, 0, 1, search.scale) and search.suspects == {1}
    search._judged(costly().setting)
    assert [one[0] for one in judged] == [0, 1, 1] and judged[0] == (0, search.scale, "judged")


def ranked(rank, is_imprecise=False):
    return SimpleNamespace(rank=rank, setting=SimpleNamespace(is_imprecise=is_imprecise), cost=rank)


@pytest.mark.parametrize(("best", "more", "shown"), [
    ([(2, False)], [(1, True), (3, True)], [1, 2, 3]), ([(1, False)], [(2, True)], [1]),
    ([], [(3, True), (2, True)], [2, 3]), ([(2, False)], [(1, False)], [2]), ([(5, False),
    (6, False)], [(4, True)], [4, 5, 6]),
])  # fmt: skip
def test_rows_of_fewer_bits_are_tried_where_much_is_left(best, more, shown):
    """They are named with the others, in order, only if the best of all settings has them."""
    search = AgentSearch.__new__(AgentSearch)
    rounds = iter([([ranked(*one) for one in best], ["wrong"]), ([ranked(*one) for one in more], ["bad"])])
    search.fitted = lambda options: [f"fitted {options}"]
    search.compared = lambda fitted: [ranked(9)]
    search.judged = lambda compared, most: next(rounds)
    search.listener = SimpleNamespace(begins=lambda n: None, leads=lambda basis, one: None)
    search.agents, search.first, search.excluded, search.scale = SimpleNamespace(smaller={"x": 1}), ["first"], [], 1
    search._leaves_much = lambda cost: True
    search.confirmed, search._shown = lambda found: found, lambda ran: [one.rank for one in ran]
    found = search.advice()
    assert (found.best, [one.rank for one in found[-1]], found.wrong) == (shown, shown, ["wrong", "bad"])


def test_settings_are_judged_until_there_are_enough_with_correct_answers():
    search, tried = AgentSearch.__new__(AgentSearch), []
    wrong = {2: 3}

    def judge(setting):
        tried.append(setting.options["parallel"])
        return AgentCost(10_000, 1000 - tried[-1], 1, 2, 0, wrong.get(tried[-1], 0))

    search._judged = judge
    some = [costly(100 * n, parallel=n) for n in range(1, 7)]
    best, bad = search.judged(some, 3)
    assert [one.setting.options["parallel"] for one in best] == [1, 3, 4] and tried == [1, 2, 3, 4]
    assert [one.setting.options["parallel"] for one in bad] == [2]
    assert [one.cost.evaluated for one in best] == [999, 997, 996]


def test_rows_have_the_size_of_the_setting_that_runs(search):
    asked = []
    search._cells = lambda model, *given: asked.append(model.row) or iter([Cell()])
    for row in (0, 77, 77):                                           # the last cost is known
        search.cost(costly(parallel=1).setting._replace(row=row), [0], 1)
    assert asked == [search.sizes.row, 77] and search.sizes.row != 77


def test_only_scaled_requests_are_kept(search):
    assert search._requests(0, 64) is search._requests(0, 64) and [*search._played] == [0]
    search._played.clear()
    whole = search._requests(0, 1)
    assert search._played == {} and whole is not search._requests(0, 1)
    assert search._requests(0, 2) is search._played[0]


def test_the_unscaled_run_is_named_while_it_lasts(search, monkeypatch):
    shown = []
    monkeypatch.setattr(ProgressBar, "show", lambda bar, what, done=0, total=None: shown.append(what))
    search.cost = lambda setting, servers, scale: AgentCost(10_000, 500, 0, 1, 0, scale=scale)
    (found,) = search.confirmed([costly(400)])
    assert shown == ["running the best setting unscaled"] and (found.cost.evaluated, found.cost.scale) == (500, 1)


def test_a_setting_that_costs_more_unscaled_makes_way_for_the_next(search):
    cost = {1: 900, 2: 450, 3: 460}
    search.cost = lambda setting, servers, scale: AgentCost(10_000, cost[setting.options["parallel"]], 0, 1, 0,
                                                            scale=scale)  # fmt: skip
    found = search.confirmed([costly(400, parallel=1)._replace(cost=AgentCost(10_000, 400, 0, 1, 0, scale=64)),
                              costly(500, parallel=2)._replace(cost=AgentCost(10_000, 500, 0, 1, 0, scale=64)),
                              costly(600, parallel=3)._replace(cost=AgentCost(10_000, 600, 0, 1, 0, scale=64))])
    assert [(one.setting.options["parallel"], one.cost.evaluated, one.cost.scale) for one in found] == [
        (2, 450, 1), (3, 600, 64), (1, 900, 1)]  # fmt: skip


def test_a_setting_may_fill_the_memory(search):
    every = {one.total for one in (*search.fitted({}), *search.excluded)}
    search.room, search.excluded = max(one.total for one in search.fitted({})), []
    search.excluded.clear()
    assert {one.total for one in search.fitted({})} == {total for total in every if total <= search.room}
    assert {one.total for one in search.excluded} == {total for total in every if total > search.room}


def test_options_that_change_only_sizes_have_flags_of_their_own(search):
    search.forms = SimpleNamespace(flags=[SimpleNamespace(name="x"), SimpleNamespace(name="y")])
    assert [search.flag_named(name).name for name in ("parallel", "y", "x")] == ["parallel", "y", "x"]
