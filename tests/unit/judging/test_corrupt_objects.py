"""Tests of corrupt stored objects: the observer judges each object once, and reports it."""

from __future__ import annotations

import numpy as np
import pytest

from cachesim.engines.base import Answer, Request
from cachesim.engines.inspection import RestorePoint, RowsPart, StoredObject
from cachesim.engines.registry import engine_of
from cachesim.events import Gained, Lost, Release
from cachesim.judging.compare_answer import Judge
from cachesim.judging.fault_kinds import FaultKind
from cachesim.judging.judged_run import run_judged
from cachesim.judging.judging_observer import AnswerObserver
from cachesim.model import KVRows, make_model, parse
from cachesim.oracle.cold_run import cold
from cachesim.scenarios.from_notation import from_line

HELD = tuple(range(100, 112))
CKPT = ("checkpoint", 0, 1)


def model():
    return make_model(parse("AA"), exact=False)


class CountingJudge(Judge):
    """A judge that lists the objects that it compares."""

    def __init__(self, mine):
        super().__init__(mine)
        self.compared = []

    def each_stored(self, objects):
        self.compared += objects
        return super().each_stored(objects)


class Keeping:
    """Stub server that keeps objects of nine tokens, and an observer that receives its events."""

    def __init__(self, judge=None):
        self.objects, self.model, self.asked, self.inspection = {}, model(), [], self
        self.run = cold(self.model, HELD, logits_at=())
        self.judge = judge or CountingJudge(self.model)
        self.observer = AnswerObserver(from_line("A9"), "llama_cpp@b10587", None, self.judge)
        self.observer.started(self)

    def kept(self):
        return [*self.objects]

    def stored(self, key):
        self.asked.append(key)
        return self.objects[key]

    def is_further(self, slot):
        return False

    def answer_at(self, slot):
        return None

    def gain(self, key, wrong=False, owner=None, n=9):
        """Add an object, or replace the object with its key."""
        digest = self.run.rows(0).digest[:n] + np.uint64(wrong)
        part = RowsPart(0, np.arange(n), {0: KVRows(digest, None, None)})
        self.objects[key] = StoredObject(key[0], key[1] if owner is None else owner, HELD[:n], n, (part,), None)
        self.observer.on_event(Gained(0, RestorePoint(key, n, HELD[:n], 0, None, n, n), "stored", ""))

    def lose(self, key):
        """Remove an object."""
        del self.objects[key]
        self.observer.on_event(Lost(0, key, "evicted", ""))

    def request(self):
        """The verdicts about a request that asks for nothing, and what is reported with it."""
        return self.observer.judged(0, Request(()), Answer(0, done=True))

    def reported(self):
        """Kind, owner and length of each corrupt object that is reported with a request."""
        return [(one.kind, one.owner, one.resume) for one, _ in self.request().armed]


def test_a_corrupt_object_is_reported_and_does_not_break_the_request():
    server = Keeping()
    server.gain(CKPT, wrong=True)
    judged = server.request()
    [(stored, verdict)] = judged.armed
    assert (judged.equal_cold, stored) == (True, server.objects[CKPT])
    assert (verdict.equal_cold, verdict.rung, verdict.kind) == (False, "provenance", FaultKind.ROW)


def test_correct_objects_are_not_reported_and_not_asked_for_again():
    server = Keeping()
    server.gain(CKPT)
    server.gain(("entry", -1, 1))
    assert [server.reported() for _ in range(3)] == [[], [], []]
    assert server.asked == server.judge.compared == [CKPT, ("entry", -1, 1)]


def test_a_corrupt_object_is_reported_until_it_is_lost_and_judged_once():
    server = Keeping()
    server.gain(("checkpoint", 0, 2), wrong=True)
    server.gain(CKPT, wrong=True)
    assert [len(server.reported()) for _ in range(3)] == [2, 2, 2]
    server.gain(("checkpoint", 0, 3))
    assert len(server.reported()) == 2
    server.lose(CKPT)
    assert server.reported() == [("checkpoint", 0, 9)]
    server.lose(("checkpoint", 0, 2))
    assert server.reported() == []
    assert sorted(server.judge.compared) == [CKPT, ("checkpoint", 0, 2), ("checkpoint", 0, 3)]


@pytest.mark.parametrize(("first", "then"), [(True, False), (False, True), (True, True)])
def test_an_object_that_takes_the_place_of_another_is_judged_anew(first, then):
    server = Keeping()
    server.gain(CKPT, wrong=first)
    assert len(server.reported()) == first
    server.gain(CKPT, wrong=then, n=5)
    assert [server.reported() for _ in range(2)] == [[("checkpoint", 0, 5)] * then] * 2
    assert server.judge.compared == [CKPT, CKPT]


def test_an_object_that_is_lost_before_the_answer_is_not_judged():
    server = Keeping()
    server.gain(CKPT, wrong=True)
    server.lose(CKPT)
    assert (server.reported(), server.asked) == ([], [])


def test_nothing_is_remembered_of_a_lost_object():
    server, key = Keeping(), ("entry", -1, 1)
    server.gain(key, wrong=True)
    server.request()
    assert [*server.observer.corrupt] == [*server.observer.texts] == [key]
    server.lose(key)
    assert (server.observer.new, server.observer.corrupt, server.observer.texts) == ({}, {}, {})


def test_a_report_shows_the_object_as_it_is_now():
    """The tokens of a slot, under which its checkpoints stand, may change without a new verdict."""
    server = Keeping()
    server.gain(CKPT, wrong=True)
    server.request()
    server.objects[CKPT] = server.objects[CKPT]._replace(owner=4)
    assert server.reported() == [("checkpoint", 4, 9)]


def test_stored_conversations_are_reported_with_their_present_numbers():
    """The observer counts conversations where the engine does not number them."""
    server = Keeping()
    server.gain(("checkpoint", 4, 1), wrong=True)
    for number, wrong in [(1, False), (2, True), (3, True)]:
        server.gain(("entry", -1, number), wrong)
        server.gain(("entry checkpoint", number, 9), wrong, owner=-1)
    server.gain(("entry", -1, 4), wrong=True, owner=7)
    assert [one[:2] for one in server.reported()] == [
        ("checkpoint", 4), ("entry", 1), ("entry checkpoint", 1), ("entry", 2), ("entry checkpoint", 2), ("entry", 7),
    ]  # fmt: skip
    server.lose(("entry", -1, 1))
    server.lose(("entry checkpoint", 1, 9))
    assert [one[1] for one in server.reported()] == [4, 0, 0, 1, 1, 7]
    before = {("entry", -1, number): server.objects["entry", -1, 2] for number in (8, 9)}
    server.objects = before | server.objects
    assert [one[1] for one in server.reported()] == [4, 2, 2, 3, 3, 7], "correct ones count, too"


def test_without_a_model_every_kept_object_is_undecided():
    server = Keeping(Judge(None))
    server.gain(CKPT)
    assert [[verdict.equal_cold for _, verdict in server.request().armed] for _ in range(2)] == [[None], [None]]


def test_an_object_that_cannot_be_compared_leaves_the_request_undecided():
    server = Keeping()
    server.gain(CKPT)
    server.objects[CKPT] = server.objects[CKPT]._replace(rows=None)
    for _ in range(2):                  # it stays undecided as long as the object is there
        judged = server.request()
        assert (judged.answer.equal_cold, judged.answer.kind, judged.armed) == (None, FaultKind.JUDGE_FAILED, [])


def test_what_a_request_leaves_behind_is_copied_when_its_slot_is_released():
    """A further completion leaves nothing behind that is judged; nor does a request that failed."""
    server = Keeping()
    answers = [Answer(0), Answer(1), Answer(2, status=500), None]
    server.inspection.answer_at, server.inspection.is_further = answers.__getitem__, lambda slot: slot == 1
    server.inspection.live, server.inspection.memory_matches = lambda slot: f"slot {slot}", lambda slot: slot == 0
    for slot in (0, 1, 2, 3, None):
        server.observer.on_event(Release(slot, 0, 9, 0))
    assert server.observer.left == {0: ("slot 0", True)}


def test_only_the_error_of_a_living_server_is_compared_with_a_cold_run():
    """A request that ends its server is wrong whatever a cold run does; a request that an ended server never answered
    is undecided."""
    failed = []
    server = Keeping()
    server.dead = True
    server.observer.failed = lambda number, answer, judged: failed.append(number)
    ends = [{"status": 500, "done": True}, {"status": 500, "died": True}, {"done": True}, {"status": 500}]
    found = [server.observer.judged(i, Request(()), Answer(i, **fields)).answer.kind for i, fields in enumerate(ends)]
    assert (failed, found[1:]) == ([0], [FaultKind.PROCESS_ENDED, None, FaultKind.NEVER_ANSWERED])


@pytest.mark.parametrize("profile", ["llama_cpp@b10587", "ik_llama@main", "mlx_lm@0.32.2"])
def test_each_kept_object_of_a_run_is_compared_once(profile):
    """An object that replaces another under its key is compared again."""
    scenario = from_line("A40>4/B40>4/A40.C9>4/B40.D9>2/A40.C9.E5>2", model="GA", profiles=(profile,))
    judge = CountingJudge(make_model(engine_of(profile).start(profile, "GA", {}, "provenance").model.spec, exact=False))
    run = run_judged(scenario, profile, "provenance", judge)
    gained = [one.point.key for one in run.log.events if isinstance(one, Gained)]
    assert run.verdict.equal_cold and not any(one.judged.armed for one in run.requests)
    assert len(judge.compared) >= 4 and not set(judge.compared) - set(gained)
    assert all(judge.compared.count(key) <= gained.count(key) for key in gained)
