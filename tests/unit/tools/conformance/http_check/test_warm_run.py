"""Tests of a history on a server: warm requests first, new tokens in every run."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from cachesim.base.media_items import FIRST as IMAGE
from cachesim.tools.conformance.client_history import SLOTS, parse_history
from cachesim.tools.conformance.corpus import line_history
from cachesim.tools.conformance.fingerprint import near
from cachesim.tools.conformance.history_player import HistoryRun
from cachesim.tools.conformance.http_check import warm_run
from cachesim.tools.conformance.http_check.dialect import complete
from cachesim.tools.conformance.http_check.http_client import NoConnection, NoReply
from cachesim.tools.conformance.http_check.warm_run import (
    BARE,
    FOREIGN,
    POLLS,
    WASH,
    ServerRunner,
    _burst_sizes,
    _is_bare,
    await_answer,
)
from cachesim.tools.conformance.protocol import CacheRequest, Failed, Reply
from tests.unit.tools.conformance.http_check.in_process import InProcess, Toy, stage_of


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


class Noted:
    """Client of a server with these tokens; every request gets the reply of its number."""

    def __init__(self, *replies, costly=False, slots=1, dialect="native", missing=(), adapters=(), n_ctx=4096):
        self.replies, self.asked = list(replies), []
        server = replace(stage_of(Toy(), slots=slots).server, dialect=dialect, missing=dict(missing), n_ctx=n_ctx,
                         adapters=adapters)  # fmt: skip
        self.stage = ServerRunner(InProcess(None), server, near(0.0))
        costly_facts = SimpleNamespace(**{name: getattr(server, name) for name in server.__slots__})
        costly_facts.cold_is_costly = costly
        self.stage.server = costly_facts


@pytest.mark.parametrize(("spare", "costly", "groups", "cached", "twice", "asked"), [
    (False, False, [[0], [1]], (0, 0), 0, [0, 1]), (True, False, [[0], [1]], (0, 0), 0, []),
    (False, True, [[0], [1]], (0, 0), 0, []), (False, True, [[0, 1]], (0, 0), 0, [0, 1]),
    (True, False, [[0, 1]], (0, 0), 0, []), (True, False, [[0], [1]], (0, 3), 0, [1]),
    (True, False, [[0], [1]], (None, 0), 0, [0]), (False, False, [[0], [1]], (0, 0), 1, [0, 0, 1, 1]),
    (True, False, [[0], [1]], (0, 0), 1, []), (False, True, [[0], [1]], (0, 0), 1, [0, 1]),
])  # fmt: skip
def test_which_cold_answers_are_asked_for(spare, costly, groups, cached, twice, asked):
    """A warm reply that reused nothing may count as the cold one, unless it is costly and shared its batch."""
    noted = Noted(costly=costly)
    noted.stage.twice, seen = twice, []
    noted.stage.answer = lambda ask: seen.append(ask.prompt[0]) or Reply((9,))
    warm = [Reply((number,), cached=one) for number, one in enumerate(cached)]
    played = HistoryRun(parse_history("A5/B5"), [CacheRequest((0,)), CacheRequest((1,))], warm=warm, groups=groups)
    noted.stage._cold(played, spare)
    assert seen == asked and len(played.cold) == len(played.again) == 2
    assert noted.stage.twice == twice - (not spare)


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


@pytest.mark.parametrize(("prompt", "is_bare"), [
    ((1, 2, 3, IMAGE, 4), False), ((1, 2, IMAGE, 3), True), ((1, 2, 3, IMAGE), True), ((1, 2, 3, 4), False),
    ((), False), ((IMAGE,), True), ((1, 2, 3, IMAGE, IMAGE + 1, 4), False),
])  # fmt: skip
def test_an_image_lies_between_texts(prompt, is_bare):
    assert _is_bare(prompt) is is_bare


@pytest.mark.parametrize(("line", "sizes"), [
    ("A5/A.B3", []), ("A5>2/B3>4{together}/C9", [14]), ("A5>2{n_cmpl=3}", [11]),
    ("A5>2{n_cmpl=2}/B3>1{together}", [13]),
])  # fmt: skip
def test_requests_at_once_need_room_for_all_their_tokens(line, sizes):
    assert list(_burst_sizes(line_history(line, True))) == sizes


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


def test_tokens_of_earlier_runs_are_tried_again_three_times():
    stage = stage_of(Toy())
    runs = []

    def play(history, spare, serve):
        runs.append((spare, serve))
        stage.foreign = True
        return HistoryRun(history)

    stage._play = play
    assert stage.play(parse_history("A5"), spare=True).gap == "" and runs == [(True, complete)] * 3
    stage.server = replace(stage.server, adapters=("one",))
    assert stage.play(parse_history("A5")).gap == FOREIGN and len(runs) == 6


@pytest.mark.parametrize(("dialect", "slots", "line", "chosen"), [
    ("native", 2, "A5/A.B3", 0), ("native", 1, "A5/A.B3", -1), ("openai", 2, "A5", -1), ("native", 2, "A5@1/A", -1),
    ("native", 2, None, 0),
])  # fmt: skip
def test_a_history_has_slot_0_where_several_would_hide_reuse(dialect, slots, line, chosen):
    noted = Noted(dialect=dialect, slots=slots)
    assert noted.stage._slot(line_history(line, True) if line else None) == chosen


def test_a_request_names_its_slot_and_completions_on_native_servers():
    native, other = Noted(slots=2), Noted(slots=2, dialect="openai")
    asked = line_history("A5@1{n_cmpl=2}/B5@2/C5@0/D5", True).asked
    assert [native.stage._placed(one) for one in asked] == [{"id_slot": 1, "n_cmpl": 2}, {}, {"id_slot": 0}, {}]
    assert [other.stage._placed(one) for one in asked] == [{}] * 4


def test_a_run_without_drafts_asks_for_single_tokens():
    stage = stage_of(Toy())
    stage.twice, stage.server = 0, replace(stage.server, drafts=True)
    played = stage.play_undrafted(parse_history("A5>2"))
    assert [body["n_predict"] for body in bodies(stage)] == [1, 1, 1, 1, 1] and not played.has_drafts
    assert stage.play(parse_history("A5>2")).has_drafts


def test_each_run_has_words_of_its_own_and_all_tokens():
    stage = stage_of(Toy(), vocabulary=68)
    orders = []
    for stage.plays in (1, 2, 17):
        orders.append(stage._vocabulary())
    tokens = list(stage.server.tokens)
    assert all(sorted(order) == tokens for order in orders) and len({tuple(order) for order in orders}) == 3
    assert [order[:4] for order in orders] == [tokens[4:8], tokens[8:12], tokens[4:8]]


@pytest.mark.parametrize(("seed", "used", "begin"), [(0, 0, 4), (1, 0, 8), (0, 1, 8), (1, 2, 16), (2, 1, 16)])
def test_each_check_and_each_use_of_a_server_moves_the_first_words(seed, used, begin):
    stage = stage_of(Toy(), vocabulary=68)
    stage.seed, stage.plays, stage.server = seed, 1, replace(stage.server, used=used)
    assert stage._vocabulary()[:4] == list(stage.server.tokens)[begin : begin + 4]


def test_a_slot_is_washed_with_tokens_that_no_word_has():
    stage = stage_of(Toy())
    stage.play(parse_history("A5"))
    vocabulary = stage._vocabulary()
    assert {vocabulary.index(token) % SLOTS for token in bodies(stage)[0]["prompt"]} == {SLOTS - 1}


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


def test_the_rest_of_a_vocabulary_is_shuffled_from_its_end(monkeypatch):
    """A random number below the length of what is left that is always the last leaves the order as it is."""
    asked = []

    class Last:
        def __init__(self, seed, purpose):
            asked.append((seed, purpose))

        def below(self, number):
            return number - 1

    stage = stage_of(Toy(), vocabulary=68)
    monkeypatch.setattr(warm_run, "Rng", Last)
    stage.plays, stage.seed, tokens = 3, 2, list(stage.server.tokens)
    assert stage._vocabulary() == [*tokens[20:24], *tokens[:20], *tokens[24:]]
    assert asked == [(2 * 1_000_003 + 3, "check")]


def test_a_run_ends_where_any_request_of_a_burst_failed():
    toy = Toy()
    stage = stage_of(lambda body: (500, {"error": "gone"}) if len(body["prompt"]) == 7 else toy(body), slots=2)
    stage.twice = 0
    played = stage.play(parse_history("A5/B7{together}/C9"))
    assert [isinstance(one, Failed) for one in played.warm] == [False, True] and len(played.asks) == 2
    assert 9 not in {len(body["prompt"]) for body in bodies(stage)} and stage.end is None


def test_a_request_waits_for_the_first_one_in_the_slot_that_it_names():
    """Requests without a slot wait for none."""
    stage, waits = stage_of(Toy(), slots=2), {}

    def late(ask, slot, busy, serve):
        waits[ask.prompt[0]] = slot, None if busy is None else busy.result()
        return ask.prompt[0]

    stage._late = late
    slots = [0, -1, 0, 1, 0, -1, 1]
    asks = [CacheRequest((number,), fields={"id_slot": slot} if slot >= 0 else {}) for number, slot in enumerate(slots)]
    assert stage._send(asks, 0, None) == [0, 1, 2, 3, 4, 5, 6]
    assert waits == {0: (0, None), 1: (-1, None), 2: (0, 0), 3: (1, None), 4: (0, 0), 5: (-1, None), 6: (1, 3)}


def test_an_interrupt_of_requests_at_once_ends_all_of_them():
    def serve(http, server, ask, slot):
        if ask.prompt == (2,):
            raise KeyboardInterrupt
        return Reply((5,))

    stage = stage_of(Toy(), slots=2)
    with pytest.raises(KeyboardInterrupt):
        stage._send([CacheRequest((1,)), CacheRequest((2,))], -1, serve)
    assert stage.http.stopped == "interrupted"
