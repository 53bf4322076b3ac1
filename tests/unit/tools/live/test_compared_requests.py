"""A recording of a real server, compared with the simulator request by request."""

from __future__ import annotations

import json

import pytest

from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.from_notation import from_line
from cachesim.scenarios.load import load
from cachesim.tools.live.llama_server.verify.compared_requests import (
    DISCONNECTED,
    ENDED_EARLY,
    LOST_ANSWER,
    NEVER_ANSWERED,
    RACED,
    RequestResult,
    compare_requests,
)
from cachesim.tools.live.player import Player
from tests.live.fake import Fake
from tests.shared import SMALL

NOW = "llama_cpp@b11549"
STALE = from_line("A5/B10/B[:3].C3>2", model="GA", profiles=(NOW,), server=SMALL)
"""The answer to its last request is wrong."""


def played(scenario):
    """Return the recording of a server in whose place the simulator answers."""
    player = Player(scenario)
    with Fake(NOW, scenario.model, player.write(scenario.server)) as fake:
        list(player.run(fake.play))
        return json.loads(json.dumps(fake.trace()))


def compared(scenario, change=None, sized=True):
    """Return the rows of a recording, after a change of it."""
    data = played(scenario)
    if change is not None:
        change(data)
    return compare_requests(data, NOW, [step.text for step in scenario.steps], sized)


def line(text, **server):
    return from_line(text, model="A", profiles=(NOW,), server={"parallel": 1, **server})


def with_cold(data, gap=0.0):
    """Compare every answer with that of a cold run."""
    for step in data["steps"]:
        if step["op"] == "completion":
            step["cold"] = {"equal": True, "max_dlogprob": gap}


def without_replies(data):
    """Let the server end at its only step, before it replies."""
    [step] = data["steps"]
    step["died"] = {"fatal": []}
    for member in step.get("steps", [step]):
        del member["response"]


def same(found):
    return [row.same for row in found]


def test_requests_have_their_numbers_and_words_also_when_they_are_sent_together():
    found = compared(line("A9/B5/A.C2{together}/A@0", parallel=2))
    assert [(row.number, row.text) for row in found] == [(0, "A"), (1, "B"), (2, "A.C{together}"), (3, "A@0")]
    assert all(row.ours[:3] == row.theirs[:3] for row in found)


@pytest.mark.parametrize(("scenario", "inexact", "gap", "last"), [
    (STALE, True, 0.5, True), (STALE, False, 0.0, False), (STALE, False, 0.25, None),
    (line("A9/A.B5/A"), False, 0.25, True), (line("A9/A.B5/A"), True, 0.5, False),
])  # fmt: skip
def test_both_sides_must_agree_whether_an_answer_is_wrong(scenario, inexact, gap, last):
    """A real answer that differs from its cold run by rounding leaves a wrong answer of the simulator undecided."""
    def change(data):
        with_cold(data, gap)
        data["inexact"] = [{"i": 2}] if inexact else []

    found = compared(scenario, change)
    assert same(found) == [True, True, last] and found[2].far == gap
    assert found[2].theirs.equal is not inexact and bool(found[2].why) is (last is None)


def test_without_a_comparison_with_a_cold_run_nothing_is_decided():
    assert same(compared(line("A9/A.B5"))) == [None, None]


def test_a_request_that_both_refuse_is_the_same():
    found = compared(line("A900/B5", ctx_size=512), with_cold)
    assert same(found) == [True, True] and (found[0].ours.status, found[0].theirs.status) == (400, 400)


@pytest.mark.parametrize("field", ["cache_n", "prompt_n", "status"])
def test_another_count_of_the_real_server_is_a_difference(field):
    def change(data):
        with_cold(data)
        data["steps"][1]["response"][field] = 3

    found = compared(line("A9/A.B5/A.B.C2"), change)
    assert same(found) == [True, False, True]
    assert field == "status" or found[1].first.startswith(f"{field}: 3 ")
    assert getattr(found[1].theirs, field) == 3


@pytest.mark.parametrize(("has_log", "racy", "is_same"), [
    (True, True, False), (False, False, False), (False, True, None)])  # fmt: skip
def test_requests_at_once_without_a_log_leave_a_difference_open(has_log, racy, is_same):
    def change(data):
        with_cold(data)
        for step in () if has_log else data["steps"]:
            del step["events"]
        data["log"] = has_log
        data["steps"][1]["racy"] = racy
        data["steps"][1]["response"]["cache_n"] = 3

    found = compared(line("A9/A.B5"), change)[1]
    assert (found.same, found.why) == (is_same, "" if is_same is False else RACED)


def test_the_largest_difference_of_several_completions_counts():
    def change(data):
        with_cold(data, 0.25)
        data["steps"][0]["response"]["completions"] = [{"index": 1, "tokens": [], "cold": {"max_dlogprob": 0.5}}]

    assert [row.far for row in compared(line("A9"), change)] == [0.5]


def test_after_an_early_end_of_an_answer_differences_are_undecided_until_a_restart():
    def change(data):
        with_cold(data)
        data["steps"][0]["response"]["stop_type"] = "eos"
        for step in data["steps"]:
            if step["op"] == "completion":
                step["response"]["cache_n"] = 3

    found = compared(line("A9/A.B5/{restart}/A"), change)
    assert [(row.same, row.why) for row in found] == [(None, ENDED_EARLY), (None, ENDED_EARLY), (False, "")]


@pytest.mark.parametrize(("what", "why"), [("event", DISCONNECTED), ("count", "")])
def test_after_a_disconnect_differences_of_decisions_are_undecided_and_those_of_answers_count(what, why):
    def change(data):
        with_cold(data)
        if what == "event":
            data["steps"][0]["events"].insert(0, data["steps"][0]["events"].pop())
        else:
            data["steps"][1]["response"]["cache_n"] = 3

    found = compared(line("A9>9{cancel_after=2}/B5"), change)
    assert found[0].theirs == RequestResult(None, None, None, None)
    assert (found[what == "count"].same, found[what == "count"].why) == (None if why else False, why)


@pytest.mark.parametrize(("several", "is_same"), [(" n_cmpl=2", None), ("", False)])
def test_where_one_of_several_completions_ended_is_open_after_a_disconnect(several, is_same):
    """No answer of this length was asked for."""

    def change(data):
        event = next(one for one in data["steps"][0]["events"] if one["ev"] == "release")
        event["n_tokens"] += 500

    [row] = compared(line(f"A9>9{{cancel_after=2{several}}}", parallel=2), change)
    assert (row.same, row.why) == (is_same, DISCONNECTED if several else "")


@pytest.mark.parametrize(("field", "sized", "is_same"), [
    ("mib", True, False), ("mib", False, True), ("n_tokens", False, False)])  # fmt: skip
def test_a_field_of_a_decision_counts_unless_it_is_a_size_of_another_model(field, sized, is_same):
    scenario = load(corpus_files()["llama-24143-entry-removed-hybrid"])

    def change(data):
        with_cold(data)
        event, name = next((event, name) for step in data["steps"] for event in step["events"] for name in event
                           if field in name)  # fmt: skip
        event[name] += 1

    found = compared(scenario, change, sized)
    assert all(row.same is not False for row in found) is is_same
    assert any(field in row.first for row in found) is not is_same


def test_the_last_lines_of_a_server_that_ends_may_be_missing():
    scenario = load(corpus_files()["llama-repair-shift-without-layers"])

    def change(data, events=lambda events: events):
        last = data["steps"][-1]
        del last["response"]                                # a server that ends does not answer
        last["events"] = events(last["events"])
        assert "died" in last

    whole = compared(scenario, change)[1]
    assert whole.same and whole.theirs == RequestResult(None, None, 0, False) and whole.ours.status == 0
    assert compared(scenario, lambda data: change(data, lambda events: events[:-1]))[1].same
    assert compared(scenario, lambda data: change(data, lambda events: [events[-1], *events[:-1]]))[1].same is False


def test_an_end_that_the_simulated_server_does_not_have_is_a_difference():
    assert same(compared(line("A9/B5{together}", parallel=2), without_replies)) == [False, False]
    assert same(compared(line("A9"), without_replies)) == [False]


def test_an_answer_before_the_end_of_the_server_may_be_lost_if_another_request_waited():
    """The second request ends the server as that of the scenario above does."""
    server = {"parallel": 1, "cache_reuse": 1, "ctx_size": 512, "batch_size": 512}
    scenario = from_line("A4/A[1:]{together}", model="W8 W8", profiles=(NOW,), server=server)

    def lost(data):
        assert "died" in data["steps"][0]
        without_replies(data)

    first, second = compared(scenario, lost)
    assert (first.ours.status, second.ours.status) == (200, 0)
    assert (first.same, first.why, second.same) == (None, LOST_ANSWER, True)


def test_requests_that_neither_side_answers_are_equal():
    """The conversation is that of D2, whose server spins."""
    found = compared(load(corpus_files()["llama-24755-busy-slot-spins"]))[2:]
    assert {row.ours.status for row in found} == {row.theirs.status for row in found} == {NEVER_ANSWERED}
    assert same(found) == [True, True]


# The model of a file or a server
