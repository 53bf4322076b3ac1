"""Recordings of a server's classes, driven step by step."""

from types import MappingProxyType, SimpleNamespace

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.base import Output, Request
from cachesim.engines.shared.class_recording import RecordedEvent, StepPlayer, answer_so_far, marked
from cachesim.events import Aborted, Log, frozen


@frozen
class Taken(RecordedEvent, ev="test_taken", logged=False):
    block: int
    keys: list


class Server:
    """Records what is submitted; a request takes the block of its number."""

    def __init__(self):
        self.log, self.slots, self.queue, self.aborted = Log(), [], [], []

    def submit(self, request):
        self.queue.append(request)

    def take_tasks(self):
        for request in self.queue:
            self.slots.append(SimpleNamespace(id=10 + len(self.slots), request=request))
            self.log.emit(Taken(len(self.slots), []))
        self.queue = []

    def abort(self, row):
        self.aborted.append(row.id)
        self.log.emit(Taken(7, [row.id]))


class Player(StepPlayer):
    named = MappingProxyType({"prio": "priority"})

    def _op_events(self, step):
        return {"ev": self.rows(step.get("stop"))}


@pytest.fixture
def player():
    return Player(Server(), {"requests": {"0": {"prompt": [1, 2, 3, 4], "answer": [5, 6], "prio": 3, "other": 1},
                                          "1": {"prompt": [1, 2, 3], "answer": [], "skip_read": True,
                                                "images": [[1, 2, "cat"]]}}})  # fmt: skip


def test_an_added_request_has_the_prompt_answer_and_fields_of_the_recording(player):
    step = player({"op": "add", "req": 0})
    assert (step.fields, step.said) == ({"req": 10}, ())
    sent = player.server.slots[0].request
    assert sent == Request((1, 2, 3, 4), 2, forced=(5, 6), extra={"priority": 3})
    assert sent.extra == {"priority": 3} and sent.cache_prompt


def test_an_image_takes_the_place_of_its_tokens_and_a_request_may_read_nothing(player):
    player({"op": "add", "req": 0})
    assert player({"op": "add", "req": 1}).fields == {"req": 11}
    sent = player.server.slots[1].request
    assert (len(sent.prompt), sent.prompt[0], sent.cache_prompt, sent.n_predict) == (3, 1, False, 0)
    assert sent.prompt[1] not in (2, 3) and sent.prompt[2] not in (2, 3)


def test_the_events_of_a_step_are_lists_without_an_empty_list_at_the_end(player):
    player({"op": "add", "req": 0})
    player.server.log.emit(Aborted("not recorded"))
    assert player({"op": "abort", "req": 0}).fields == {"ev": [["test_taken", 7, [10]]]}
    assert player.server.aborted == [10]
    assert player({"op": "events"}).fields == {"ev": []}


def test_an_event_keeps_its_fields_before_the_empty_list():
    assert Taken(3, []).rows() == Taken(3, ()).rows() == [["test_taken", 3]]
    assert Taken(3, [[]]).rows() == [["test_taken", 3, [[]]]]


def test_events_before_a_place_are_read_and_the_rest_later(player):
    player({"op": "events"})
    log = player.server.log
    for block in (1, 2, 3):
        log.emit(Taken(block, [block]))
    assert player.rows(2) == [["test_taken", 1, [1]], ["test_taken", 2, [2]]]
    assert player.rows() == [["test_taken", 3, [3]]]
    assert player.rows() == []


def test_an_unknown_operation_is_refused(player):
    with pytest.raises(BadInput, match="unknown operation 'fly'"):
        player({"op": "fly"})


def test_outputs_so_far_are_an_answer_to_be_judged():
    outputs = [Output(1, 5, None)]
    number, request, answer = answer_so_far(3, (1, 2), outputs, ((0, 9),))
    assert (number, request, answer.request, answer.cancelled) == (3, Request((1, 2)), 3, True)
    assert (answer.prompt, answer.slot_tokens, answer.outputs, answer.keys) == ((1, 2), (1, 2), outputs, ((0, 9),))


def test_requests_with_a_mark_are_found_by_number():
    assert marked({"bad": {"4": ["kv"], "12": ["kv", "state"]}}, "kv") == {4, 12}
    assert marked({"bad": {"4": ["kv"]}}, "state") == marked({}, "kv") == set()
