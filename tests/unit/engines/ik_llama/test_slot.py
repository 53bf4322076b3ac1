"""Slots: what a task finds in its slot, and what its request says."""

from __future__ import annotations

import pytest

from cachesim.base.media_items import image_items
from cachesim.engines.base import Answer, Request
from cachesim.engines.ik_llama.slot import State, Task
from tests.unit.engines.ik_llama.feature_conversations import Client, P


def task(*prompt: int, **fields: object) -> Task:
    return Task(7, Request(prompt, extra=fields), Answer(0), [*prompt])


def test_a_released_slot_keeps_its_tokens_and_nothing_of_its_task() -> None:
    client = Client("main", "A")
    client.ask(P[:20], 3)
    [slot], [answer] = client.server.core.slots, client.answers
    assert (slot.state, slot.task, slot.at, slot.draft, slot.is_drafting) == (State.IDLE, None, -1, [], False)
    assert (slot.id_task, slot.busy, slot.t_last, len(slot.tokens), answer.tokens_cached) == (None, False, 0, 22, 22)


@pytest.mark.parametrize(("made", "images", "parses", "streams"), [
    (task(1, 2), False, False, True), (task(), False, False, True),
    (task(1, parser=True, stream=False), False, True, False), (task(1, *image_items("cat", 2, 2)), True, False, True),
])  # fmt: skip
def test_a_request_may_have_images_a_parser_and_a_stream(made: Task, images: bool, parses: bool, streams: bool) -> None:
    assert (made.has_images, made.parses, made.streams) == (images, parses, streams)


def test_waiting_requests_are_answered_in_the_order_of_their_arrival() -> None:
    client = Client("main", "A")
    for n in (20, 30, 40):
        client.send(P[:n])
    client.work()
    assert [answer.prompt_n for answer in client.answers] == [20, 10, 10]
    assert len(client.server.core.slots[0].tokens) == 40
