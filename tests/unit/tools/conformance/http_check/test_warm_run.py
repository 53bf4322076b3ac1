"""Tests of a history on a server: warm requests first, new tokens in every run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.tools.conformance.client_history import parse_history
from cachesim.tools.conformance.corpus import line_history
from cachesim.tools.conformance.http_check.http_client import NoConnection, NoReply
from cachesim.tools.conformance.http_check.warm_run import (
    BARE,
    POLLS,
    WASH,
    await_answer,
)
from cachesim.tools.conformance.protocol import Failed
from tests.unit.tools.conformance.http_check.in_process import Toy, stage_of


def bodies(stage):
    return [body for _, body in stage.http.asked]


def test_warm_requests_come_before_cold_ones_behind_a_prompt_of_its_own():
    stage = stage_of(Toy())
    stage.twice = 0
    played = stage.play(parse_history("A5>2/A.B3/A[:4]"))
    assert [len(one["prompt"]) for one in bodies(stage)] == [WASH, 5, 8, 4, 5, 8, 4]
    assert [one["cache_prompt"] for one in bodies(stage)] == [True] * 4 + [False] * 3
    assert [one.cached for one in played.warm] == [0, 5, 3] and [one.cached for one in played.cold] == [0, 0, 0]
    assert [one["n_predict"] for one in bodies(stage)][1] == 2 and not played.gap
    assert not set(bodies(stage)[0]["prompt"]) & set(bodies(stage)[1]["prompt"])


def test_an_answer_is_sent_back_as_it_was_generated():
    played = stage_of(Toy()).play(parse_history("A5>a3/A.a.B1"))
    assert played.asks[1].prompt[5:8] == played.warm[0].tokens and played.warm[1].cached == 8


def test_the_first_plays_ask_for_cold_answers_twice():
    stage = stage_of(Toy())
    again = [stage.play(parse_history("A5/A.B3/C2/D3/E4")).again for _ in range(5)]
    assert [[one is not None for one in some] for some in again] == [[True] * 4 + [False]] * 4 + [[False] * 5]


def test_a_request_that_reused_nothing_may_be_its_own_cold_run():
    stage = stage_of(Toy())
    played = stage.play(parse_history("A5/A.B3/C4"), spare=True)
    assert [len(one["prompt"]) for one in bodies(stage)] == [WASH, 5, 8, 4, 8]
    assert played.cold[0] is played.warm[0] and played.cold[1] is not played.warm[1] and stage.twice == 4


@pytest.mark.parametrize("slots, line, chosen", [
    (1, "A5/A.B3", {None}), (4, "A5/A.B3", {0}), (4, "A5/A.B3{together}", {None}),
])  # fmt: skip
def test_several_slots_hide_what_one_keeps(slots, line, chosen):
    stage = stage_of(Toy(keeps=4), slots=slots)
    stage.twice = 0
    stage.play(parse_history(line))
    assert {body.get("id_slot") for body in bodies(stage)[: 1 + line.count("/") + 1]} == chosen


def test_every_play_begins_with_other_tokens():
    stage = stage_of(Toy(keeps=10_000))
    firsts = []
    for _ in range(20):
        stage.http.asked.clear()
        played = stage.play(parse_history("A5/B5/C5/D5"))
        firsts += [ask.prompt[0] for ask in played.asks]
        assert [one.cached for one in played.warm] == [0] * 4 and not stage.foreign
    assert len({*firsts}) == 80


def test_counts_of_what_the_history_shares_are_kept_though_earlier_plays_began_alike():
    """In a small vocabulary the first tokens repeat."""
    stage = stage_of(Toy(), vocabulary=68)
    for _ in range(40):
        assert stage.play(parse_history("A5/A[:1].B5")).warm[1].cached == 1
    assert len({one[0] for one in stage.before}) < 80 and not stage.foreign


def test_counts_that_an_earlier_play_explains_are_left_out():
    stage = stage_of(Toy(keeps=10_000), vocabulary=68)
    plays = [stage.play(parse_history("A5/B5")) for _ in range(60)]
    said = [one for played in plays for one in played.warm]
    assert {(one.cached, one.evaluated) for one in said} == {(0, 5), (None, None)}
    unknown = sum(any(one.cached is None for one in played.warm) for played in plays)
    assert stage.foreign and stage.plays >= 60 + 2 * unknown


def test_more_than_any_play_explains_is_kept_for_the_report():
    def complete(body):
        status, said = toy(body)
        said["timings"]["cache_n"] += 3 if body["cache_prompt"] else 0
        return status, said

    toy = Toy()
    played = stage_of(complete).play(parse_history("A5/A.B3"))
    assert [one.cached for one in played.warm] == [3, 8]


def fail(error):
    def complete(body):
        raise error

    return complete


@pytest.mark.parametrize("broken, gap", [
    (fail(NoConnection("connection failed: refused")), "the server died: connection failed: refused"),
    (fail(NoReply("no reply within 1 seconds")), "the server stopped answering: no reply within 1 seconds"),
    (lambda body: (500, {"error": "gone"}), "the server stopped answering: status 500: gone"),
    (lambda body: (400, {"error": "no"}), "the server stopped answering: refused (400: no)"),
])  # fmt: skip
def test_only_a_lost_connection_is_called_a_death(broken, gap):
    def complete(body):
        dead.append(1) if dead or len(body["prompt"]) == 8 else None
        return broken(body) if dead else toy(body)

    dead, toy = [], Toy()
    stage = stage_of(complete)
    played = stage.play(parse_history("A5/A.B3"))
    assert stage.end == (played, 1, gap.partition(":")[0].removeprefix("the server "))
    assert played.gap == gap and len(played.warm) == 2 and len(dead) == 2 and stage.http.is_spent


def test_nothing_more_is_sent_after_a_server_stopped_answering():
    toy = Toy()
    stage = stage_of(lambda body: (500, {"error": "gone"}) if len(body["prompt"]) in (3, 8) else toy(body))
    played = stage.play(parse_history("A5/A.B3/C4"))
    assert isinstance(played.warm[1], Failed) and len(played.warm) == 2 and stage.http.is_spent


def test_a_server_that_refuses_one_prompt_is_alive():
    toy = Toy()
    stage = stage_of(lambda body: (400, {"error": "too long"}) if len(body["prompt"]) == 8 else toy(body))
    played = stage.play(parse_history("A5/A.B3/C4"))
    assert stage.end is None and not played.gap and played.warm[1].refused == "400: too long"
    assert played.warm[2].cached == 0


def test_what_ends_a_play_is_said():
    played = stage_of(Toy(), most=7).play(parse_history("A5/A.B3"))
    assert played.gap == "stopped after 7 requests" and len(played.warm) == 2 and len(played.cold) < 2


@pytest.mark.parametrize(("line", "more", "gap"), [
    ("A5/A!", {"missing": {"cache": "no switch"}}, "no switch"), ("A5/A", {"missing": {"cache": "no switch"}}, ""),
    ("A40/B40{together}", {"n_ctx": 60}, "not sent: requests at once that exceed a context of 60 tokens"),
    ("A40/B40", {"n_ctx": 60}, ""), ("A2.I4x2.B3", {}, BARE), ("A5.I4x2", {}, BARE),
])  # fmt: skip
def test_a_history_that_is_not_sent_says_why(line, more, gap):
    stage = stage_of(Toy())
    stage.server = replace(stage.server, **more)
    played = stage.play(line_history(line, True))
    assert played.gap == gap and bool(played.warm) is not bool(gap) and bool(bodies(stage)) is not bool(gap)


class Slots:
    """Server whose slot has generated so many tokens at each poll."""

    def __init__(self, *pages):
        self.pages, self.polls = list(pages), 0

    def get(self, path):
        self.polls += 1
        return self.pages[min(self.polls, len(self.pages)) - 1]


def slot(decoded, number=0, shape=list):
    token = {"n_decoded": decoded}
    said = [token] if shape is list else token
    return [{"id": 7, "next_token": [{"n_decoded": 9}]}, {"id": number, "next_token": said}]


@pytest.mark.parametrize(("pages", "over", "polls"), [
    ([slot(0), slot(0), slot(1)], [False] * 9, 3), ([slot(0), slot(2, shape=dict)], [False] * 9, 2),
    ([[]], [False], 1), ([slot(0)], [False, False, True], 3), ([slot(1, number=1)], [False, True], 2),
])  # fmt: skip
def test_a_request_for_a_busy_slot_waits_until_the_slot_generates(pages, over, polls):
    http, ends = Slots(*pages), iter(over)
    await_answer(http, 0, lambda: next(ends))
    assert http.polls == polls


def test_a_slot_that_never_generates_is_asked_for_a_limited_time():
    http = Slots(slot(0))
    await_answer(http, 0, lambda: False)
    assert http.polls == POLLS


def test_a_run_without_drafts_asks_for_single_tokens():
    stage = stage_of(Toy())
    stage.twice, stage.server = 0, replace(stage.server, drafts=True)
    played = stage.play_undrafted(parse_history("A5>2"))
    assert [body["n_predict"] for body in bodies(stage)] == [1, 1, 1, 1, 1] and not played.has_drafts
    assert stage.play(parse_history("A5>2")).has_drafts


def test_the_request_after_a_refusal_has_tokens_of_its_own():
    toy = Toy()
    stage = stage_of(lambda body: (400, {"error": "no"}) if len(body["prompt"]) == 8 else toy(body))
    stage.twice, tokens = 0, stage.server.tokens
    sent = []
    for number in (1, 2):
        stage.http.asked.clear()
        assert stage.play(parse_history("A5/A.B3")).gap == ""
        sent += [body["prompt"] for body in bodies(stage) if len(body["prompt"]) == 3]
        assert sent[-1] == [tokens[number * 3], tokens[number * 7], tokens[number * 11]]
    assert len(sent) == 2
    stage.plays = len(tokens) - 1
    stage.play(parse_history("A5/A.B3"))
    assert [body["prompt"] for body in bodies(stage) if len(body["prompt"]) == 3][-1] == [tokens[0]] * 3


def test_a_runner_has_sent_nothing_yet():
    stage = stage_of(Toy())
    assert (stage.plays, stage.seed, stage.before, stage.twice, stage.foreign, stage.end) == (0, 0, [], 4, False, None)


def test_a_run_ends_where_any_request_of_a_burst_failed():
    toy = Toy()
    stage = stage_of(lambda body: (500, {"error": "gone"}) if len(body["prompt"]) == 7 else toy(body), slots=2)
    stage.twice = 0
    played = stage.play(parse_history("A5/B7{together}/C9"))
    assert [isinstance(one, Failed) for one in played.warm] == [False, True] and len(played.asks) == 2
    assert 9 not in {len(body["prompt"]) for body in bodies(stage)} and stage.end is None
