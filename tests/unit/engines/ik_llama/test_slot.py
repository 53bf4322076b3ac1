"""Slots: what a task finds in its slot, and what its request says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cachesim.base.media_items import image_items
from cachesim.engines.base import Answer, FixedTokens, Request
from cachesim.engines.ik_llama.slot import Slot, SpecCkpt, State, Task
from tests.unit.engines.ik_llama.feature_conversations import Client, P


def task(*prompt: int, **fields: object) -> Task:
    return Task(7, Request(prompt, extra=fields), Answer(0), [*prompt])


def used() -> Slot:
    """Return a slot whose fields have the values of a running request."""
    return Slot(2, State.GENERATING, [1, 2], [], None, 4, 3, 9, 1, 6, 5, 4, 3, 64, True, True, True, 8, 5, 3, (1, 2),
                [7], True, SpecCkpt(2), True, "entry", True, FixedTokens((1,)), False)  # fmt: skip


def test_a_task_begins_in_a_slot_without_the_shifts_and_drafts_of_the_one_before() -> None:
    slot, begun = used(), task(4, 5)
    slot.begin(begun, 32)
    assert slot == replace(
        used(), task=begun, state=State.LOADING, last_checkpoint=32, last_task=7, last_prompt=FixedTokens([4, 5]),
        n_prompt=0, kept=0, discarded=0, uncounted=0, due=False, after_image=False, draft=[], is_drafting=False,
        spec=None, at=-1, truncated=False)  # fmt: skip
    assert (slot.id_task, slot.busy) == (7, True)


def test_a_slot_that_leaves_has_no_place_in_a_batch_and_no_draft() -> None:
    core = Client("main", "A").server.core
    slot = core.slots[0] = used()
    core.leave(slot)
    assert slot == replace(used(), state=State.LEAVING, at=-1, draft=[], is_drafting=False) and slot.busy


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
