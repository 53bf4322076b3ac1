"""Tests of a history on a server: warm requests first, new tokens in every run."""

from __future__ import annotations

import pytest

from cachesim.tools.conformance.client_history import parse_history
from cachesim.tools.conformance.http_check.http_client import NoConnection, NoReply
from cachesim.tools.conformance.http_check.warm_run import WASH
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
