"""Tests of adapters in older builds: what each build compares, refuses and keeps."""

from __future__ import annotations

import pytest

from cachesim.base.errors import NotInBuild
from cachesim.engines.base import Request
from cachesim.engines.llama_cpp import events as llama_ev
from tests.unit.engines.llama_cpp.talk import Talk, word

P, Q, R, M = word("p", 40), word("q", 40), word("r", 10), word("m", 3)
SCALES = "0,0,0@" + ".".join(map(str, M))
ZERO, ACTIVE = {"lora": "0:1"}, {"lora": "2:1"}


def talk(build, layers="AA", **flags):
    return Talk(layers, build, "provenance", lora_scaled=SCALES, parallel=1, **flags)


def right(server, answer):
    """True if the judge finds an answer right, and the state that it left."""
    request = server.requests[answer.request]
    return server.judge.judge(request, answer, server.server.inspection.live(answer.id_slot)).equal_cold


@pytest.mark.parametrize(("build", "reused"), [("b4579", 0), ("b6388", 0), ("b7400", 0), ("b7789", 40), ("b11312", 40)])
def test_a_request_without_a_list_is_compared_until_18263(build, reused):
    one = talk(build)
    one.ask(P, extra=ZERO)
    answer = one.ask(P + R)
    assert (answer.cache_n, right(one, answer)) == (reused, not reused)


@pytest.mark.parametrize(("build", "status"), [("b7400", 400), ("b7789", 200)])
def test_an_id_of_no_adapter_is_refused_until_18263(build, status):
    one = talk(build)
    assert one.ask(P, extra={"lora": "7:1"}).status == status
    reply = one.server.set_adapters("7:1")
    assert (reply["status"], reply["success"]) == ((500, False) if status == 400 else (200, True))


def test_the_log_counts_all_adapters_where_lists_are_complete():
    for build, named in (("b7400", 3), ("b7789", 1)):
        one = talk(build)
        one.ask(P, extra=ZERO)
        cleared = [event for event in one.log.events if isinstance(event, llama_ev.LoraClear)]
        assert [(event.n_slot, event.n_request) for event in cleared] == [(0, named)]


@pytest.mark.parametrize(("build", "died"), [("b6685", True), ("b6740", True), ("b6914", False), ("b11549", False)])
def test_a_prompt_that_begins_with_the_invocation_ends_the_process_until_16818(build, died):
    assert talk(build).ask(M + R, extra=ACTIVE).died is died


def test_a_prompt_that_is_not_cached_has_no_cap():
    one = talk("b6740")
    answer = one.ask(M + R, extra=ACTIVE, cache_prompt=False)
    assert not answer.died and not any(isinstance(event, llama_ev.AloraCap) for event in one.log.events)


def test_an_alora_is_a_plain_adapter_until_15327():
    for build, starts in (("b6388", 0), ("b6685", 1)):
        one = talk(build)
        assert right(one, one.ask(P + M + R, extra=ACTIVE))
        assert sum(isinstance(event, llama_ev.AloraStart) for event in one.log.events) == starts


@pytest.mark.parametrize(("build", "capped"), [("b7400", 0), ("b7789", 1)])
def test_a_refused_request_leaves_its_start_since_18547(build, capped):
    one = talk(build)
    one.ask((*P, *M, -1), extra=ACTIVE)
    one.ask(P, extra=ZERO)
    assert sum(isinstance(event, llama_ev.AloraCap) for event in one.log.events) == capped


@pytest.mark.parametrize(("build", "left"), [("b9765", 1), ("b10587", 0)])
def test_checkpoints_outlive_a_change_of_adapters_until_25649(build, left):
    one = talk(build, "W32 A", ubatch_size=16)
    one.ask(word("p", 100), extra=ZERO)
    [slot] = one.server.core.slots
    held = len(slot.checkpoints)
    one.ask((*Q, -1), extra={"lora": "1:1"})               # refused after the change
    assert held and len(slot.checkpoints) == held * left and not slot.tokens


def test_builds_before_10994_do_not_know_adapters():
    with pytest.raises(NotInBuild, match="from b4579 on"):
        talk("b4265")


@pytest.mark.parametrize(("build", "died"), [("b6685", False), ("b6740", True), ("b6998", True), ("b7400", False)])
def test_a_failed_request_that_leads_the_batch_ends_the_process_until_17263(build, died):
    one = Talk("AA", build, "provenance", lora_scaled=SCALES, parallel=2, ctx_size=256)
    first = one.server.submit(Request(word("l", 600), n_predict=1, extra=ZERO, id_slot=0))
    second = one.server.submit(Request(P, n_predict=1, extra={"lora": "1:1"}, id_slot=1))
    while not (first.done and second.done):
        one.server.take_tasks()
        one.server.update()
    assert second.died is died
