"""Tests of campaigns: results are independent of the number of processes, and failures do not hide each other."""

from __future__ import annotations

import gc
from unittest.mock import patch

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.llama_cpp.server import Server
from cachesim.judging.fault_kinds import FaultKind
from cachesim.tools.search import campaign, run_properties
from cachesim.tools.search.campaign import (
    ALL,
    SPREAD,
    Campaign,
    CampaignBlock,
    CampaignPlan,
    Failure,
    block_count,
    blocks,
    findings,
    findings_in,
    gaps,
    joined,
    lost,
    run,
    shrunk,
    work,
)
from cachesim.tools.search.campaign_folder import campaign_data
from cachesim.tools.search.drawn_conversation import longest
from cachesim.tools.search.properties import PROPERTIES
from cachesim.tools.search.property_failure import SIMULATOR, PropertyFailure
from cachesim.tools.search.run_properties import CampaignCost
from tests.unit.tools.search.test_drawn_conversation import made

NAMES = tuple(PROPERTIES)
PROFILE = "mlx_lm@0.32.2"
SUBMIT = Server.submit


def plan(seed=3, profile=PROFILE, properties=NAMES, models=()):
    return CampaignPlan(profile, properties, models, "provenance", seed)


def found(profile, jobs, stop, start=0):
    out = Campaign(profile)
    for block in run(blocks(plan(profile=profile), stop, start), jobs):
        out.take(block)
    return out


@pytest.mark.long
def test_one_process_or_two_find_the_same():
    one, two = found(PROFILE, 1, 51), found(PROFILE, 2, 51)
    assert (one.played, one.refused, one.failures) == (two.played, two.refused, two.failures)
    assert one.played == 51
    assert one.failures


def test_blocks_cover_every_conversation_once():
    jobs = list(blocks(plan(2, models=("A",)), 130, 10))
    assert [(job.first, job.stop) for job in jobs] == [(10, 60), (60, 110), (110, 130)]
    assert {job.plan.seed for job in jobs} == {2}


def test_what_was_played_is_not_played_again():
    done = [(0, 20), (60, 70), (130, 140)]
    jobs = list(blocks(plan(2), 135, 10, done=done))
    assert [(job.first, job.stop) for job in jobs] == [(20, 60), (70, 120), (120, 130)]
    assert block_count(gaps(done, 10, 135)) == len(jobs)
    assert joined([*done, (140, 150), (5, 61), (7, 7)]) == [(0, 70), (130, 150)]
    assert joined([(3, 3)]) == gaps([(0, 9)], 2, 9) == []


def test_a_part_of_a_campaign_plays_nothing_of_the_parts_before_it():
    """``--shard 2/3 --resume``: the finished conversations lie before the shard's first conversation."""
    jobs = list(blocks(plan(2), 200, 100, done=[(0, 60), (70, 120)]))
    assert [(job.first, job.stop) for job in jobs] == [(120, 170), (170, 200)]
    assert gaps([(0, 60)], 100, 200) == [(100, 200)] and gaps([(210, 260)], 100, 200) == [(100, 200)]


@pytest.mark.long
def test_blocks_may_come_in_any_order():
    every = [work(job) for job in blocks(plan(), 60)]
    forth, back = Campaign(PROFILE), Campaign(PROFILE)
    for one, other in zip(every, reversed(every), strict=True):
        forth.take(one)
        back.take(other)
    assert (forth.failures, forth.done) == (back.failures, back.done) and forth.done == [(0, 60)]
    assert campaign_data(forth, plan()) == campaign_data(back, plan())


def test_a_block_at_which_processes_died_is_named():
    job = next(blocks(plan(), 250))
    block = lost(job, "killed by SIGKILL")
    [(number, finding)] = block.found
    assert (finding.name, finding.step) == (SIMULATOR, 0)
    assert (number, finding.kind, block.played, (block.first, block.stop)) == (3 * SPREAD, FaultKind.DIED, 0, (0, 50))
    assert finding.text == "conversations 0 .. 49 of seed 3 were not judged: killed by SIGKILL, twice"
    assert shrunk(Failure(number, finding), plan()) == Failure(number, finding)


def test_an_earlier_conversation_has_to_be_shrunk_again():
    late, early = (
        PropertyFailure("survives", 3, "R", {"error": "late"}),
        PropertyFailure("survives", 1, "R", {"error": "early"}),
    )
    out = Campaign("p", {late.group: Failure(9, late, 2, kept={"line": "A"})})
    assert out.failures[late.group].is_shrunk
    out.take(CampaignBlock([(11, late)], 1, 0))
    assert out.failures[late.group].is_shrunk
    out.take(CampaignBlock([(4, early)], 1, 0))
    assert out.failures[late.group] == Failure(4, early, 4) and not out.failures[late.group].is_shrunk


@pytest.mark.long
def test_two_parts_find_what_the_whole_finds():
    whole, first, second = found(PROFILE, 1, 20), found(PROFILE, 1, 10), found(PROFILE, 1, 20, 10)
    for block in work_of(second):
        first.take(block)
    assert first.failures == whole.failures


def work_of(campaign_):
    """Return the failures of a campaign as the block that would have found them, with their counts."""
    pairs = [(one.first, one.finding) for one in campaign_.failures.values() for _ in range(one.times)]
    yield CampaignBlock(pairs, campaign_.played, campaign_.refused)


def test_the_first_conversation_of_a_group_is_kept():
    one, two = (
        PropertyFailure("survives", 3, "R", {"error": "late"}),
        PropertyFailure("survives", 1, "R", {"error": "early"}),
    )
    other = PropertyFailure("survives", 0, "S", {"error": "other"})
    out = Campaign("p")
    out.take(CampaignBlock([(9, one), (4, two), (7, other)], 10, 1))
    assert out.failures == {one.group: Failure(4, two, 2), other.group: Failure(7, other)}


def test_of_one_conversation_the_finding_that_came_first_is_kept():
    one, two = (
        PropertyFailure("survives", 1, "R", {"error": "early"}),
        PropertyFailure("survives", 3, "R", {"error": "late"}),
    )
    out = Campaign("p", {one.group: Failure(4, one, kept={"line": "A"})})
    out.take(CampaignBlock([(4, two)], 1, 0))
    assert out.failures == {one.group: Failure(4, one, 2, kept={"line": "A"})}


def test_a_crash_of_the_simulator_is_a_finding():
    job = next(blocks(plan(0), 3))
    with patch.object(campaign, "findings", side_effect=ZeroDivisionError("oops")):
        block = work(job)
    assert [(number, one.name, one.label, one.text) for number, one in block.found] == [
        (i, "simulator", "ZeroDivisionError in work", "oops") for i in range(3)
    ]
    assert shrunk(Failure(0, block.found[0][1]), plan(0), 5).finding == block.found[0][1]


def planted(server, request):
    """Raise an error in a later request of seven tokens or more, as a fault of the simulator."""
    if server.log.marks and len(request.prompt) >= 7:
        raise IndexError("list index out of range")
    return SUBMIT(server, request)


def test_a_crash_of_the_simulator_is_made_small_and_keeps_its_traceback():
    planted_plan = plan(0, "llama_cpp@b10587", ("survives",))
    with patch.object(Server, "submit", planted):
        out = Campaign("llama_cpp@b10587")
        out.take(work(next(blocks(planted_plan, 4))))
        [(group, failure)] = out.failures.items()
        small = shrunk(failure, planted_plan, 300)
    assert group == small.finding.group == ("simulator", "IndexError", "submit", "")
    assert small.finding.label == "IndexError in submit"
    assert (len(small.small.asked), longest(small.small)) == (2, 7)
    assert small.finding.text == "list index out of range"
    assert any("scenarios/runner.py" in line and "submit" in line for line in small.finding.causes)
    assert small.finding.causes[-1].startswith("test_campaign.py")


def test_a_conversation_that_cannot_even_be_drawn_stays_a_finding():
    failure = Failure(0, PropertyFailure("simulator", 0, "KeyError", {"error": "'x'"}, "draw_conversation"))
    with patch.object(campaign, "draw_conversation", side_effect=KeyError("x")):
        [(_, found)] = work(next(blocks(plan(0), 1))).found
        assert (found.name, found.text) == ("simulator", "'x'")
        assert shrunk(failure, plan(0), 50) == failure


@pytest.mark.long
def test_shrinking_keeps_the_group():
    out = found("ik_llama@1889-base", 1, 10)
    group, failure = next(iter(out.failures.items()))
    small = shrunk(failure, plan(profile="ik_llama@1889-base"), 300)
    assert small.finding.group == group
    assert len(small.small.asked) <= 4
    assert (small.first, small.times) == (failure.first, failure.times)
    assert small.first >> 32 == 3 * SPREAD >> 32


@pytest.mark.parametrize("name", ALL)
def test_a_plain_conversation_breaks_nothing(name):
    for engine, profile in (("llama_cpp", "llama_cpp@b10587"), ("ik_llama", "ik_llama@main"), ("mlx_lm", PROFILE)):
        case = made(engine, {"A": 12, "b": 5, "c": 4}, "A.b", "A.c", "A.b", model="AA")
        assert findings(case, profile, (name,), {}) == []


def test_an_unset_number_is_not_a_finding():
    class Unset:
        unset = True

    case = made("ik_llama", {"A": 3}, "A")
    with patch.object(run_properties, "observe_run", return_value=Unset()):
        assert findings(case, "ik_llama@main", NAMES, {}) == []


@pytest.mark.part(2)
def test_the_collector_works_as_before_when_a_job_is_done():
    before = gc.get_threshold()
    gc.set_threshold(701, 11, 12)
    try:
        work(next(blocks(plan(), 2)))
        assert gc.get_threshold() == (701, 11, 12)
    finally:
        gc.set_threshold(*before)


def test_a_plan_against_another_rule_set_finds_only_what_is_new():
    case, judges = made("mlx_lm", {"A": 5}, "A"), {}
    one, two = (PropertyFailure("survives", 0, kind, {"error": "it"}) for kind in ("a", "b"))
    compared = run_properties.CampaignDiff([two], [one], run_properties.CampaignCost(1))
    with (patch.object(campaign, "shown", lambda *_: [one, two]),
          patch.object(campaign, "compared", lambda *_: compared)):  # fmt: skip
        assert findings_in(case, plan(), judges) == [one, two]
        assert findings_in(case, plan()._replace(against="mlx_lm@m1072"), judges) == [two]


def test_a_block_against_another_rule_set_has_the_costs_of_its_conversations():
    one, two = (PropertyFailure("survives", 0, kind, {"error": "it"}) for kind in ("a", "b"))
    compared = run_properties.CampaignDiff([two], [one], run_properties.CampaignCost(1, 2, 3))
    job = campaign.CampaignJob(plan(seed=2)._replace(against="mlx_lm@m1072"), 4, 6)
    with patch.object(campaign, "compared", lambda *_: compared):
        block = work(job)
    numbers = [2 * SPREAD + 4, 2 * SPREAD + 5]
    assert block == CampaignBlock([(n, two) for n in numbers], 2, 0, 4, 6, [(n, one) for n in numbers],
                                  run_properties.CampaignCost(2, 4, 6))  # fmt: skip


def test_a_refused_conversation_is_counted_and_a_crash_is_a_finding():
    errors = iter([BadInput("no"), ValueError("as a test"), BadInput("no")])

    def fails(*_, **__):
        raise next(errors)

    with patch.object(campaign, "findings", fails):
        block = work(campaign.CampaignJob(plan(), 0, 3))
    assert (block.played, block.refused, [(n, one.name) for n, one in block.found]) == (
        3, 2, [(3 * SPREAD + 1, "simulator")])  # fmt: skip


def test_the_file_name_of_a_search_is_that_of_earlier_versions():
    """Without another rule set, its name is the one that versions without comparisons gave it."""
    one = CampaignPlan("mlx_lm@0.32.2", ("survives",), ("A",), "provenance", 3)
    assert one.stem == "campaign-mlx_lm@0.32.2-seed3-4b1eeec7"
    assert one._replace(against="mlx_lm@0.31.0").stem == "campaign-mlx_lm@0.32.2-seed3-38a964f9"


def test_a_search_has_a_file_name_of_its_own():
    one = plan()
    assert one.stem.startswith(f"campaign-{PROFILE}-seed3-") and one.stem == plan().stem and one.engine == "mlx_lm"
    others = [one._replace(**change) for change in ({"seed": 4}, {"models": ("A",)}, {"mode": "exact"},
                                                    {"properties": ("survives",)}, {"against": "x"})]  # fmt: skip
    assert len({each.stem for each in (one, *others)}) == 6
    assert one.rules == "" and one._replace(against=PROFILE).rules == " "


def test_blocks_add_up():
    """Conversations that ran, those that the simulator does not support, spans, findings of either profile, cost."""
    one, two = (PropertyFailure("survives", 1, "R", {"error": "x"}, rule) for rule in ("A", "B"))
    out = Campaign("p")
    out.take(CampaignBlock([(3, one)], 5, 2, 0, 5, [(4, two)], CampaignCost(1, 2, 3, 4, 5, 6)))
    out.take(CampaignBlock([(7, one)], 4, 1, 5, 9, [(6, two)], CampaignCost(10, 20, 30, 40, 50, 60)))
    out.take(CampaignBlock([], 1, 1, 20, 21))
    assert (out.played, out.refused, out.done) == (10, 4, [(0, 9), (20, 21)])
    assert out.cost == CampaignCost(11, 22, 33, 44, 55, 66)
    assert out.failures == {one.group: Failure(3, one, 2)} and out.mended == {two.group: Failure(4, two, 2)}
