"""Proposed rules for images: each is necessary, and with them no request ends the process or reads foreign rows."""

from __future__ import annotations

import pytest

from cachesim.base.media_items import image_items
from cachesim.engines.llama_cpp.profiles import PROFILES
from cachesim.judging.judged_run import run_judged
from cachesim.scenarios.from_notation import from_line
from tests.unit.engines.llama_cpp.talk import Talk, word

CAT, DOG = image_items("cat", 16, 16), image_items("dog", 16, 16)
P, Q, R = word("p", 40), word("q", 40), word("r", 10)
OLD, REPAIRED = PROFILES["llama_cpp@b11549"], "b11549-repaired"


def talk(field="", profile=REPAIRED, kind="AA", **flags):
    """A server with a repaired rule set, with the older rule in one field."""
    rules = PROFILES[f"llama_cpp@{profile}"].mixed(OLD, [field]) if field else PROFILES[f"llama_cpp@{profile}"]
    given = {name: getattr(rules, name) for name in ("media", "task_first", "kv_undo", "adapters")}
    return Talk(kind, profile, rules=given, **{"mmproj": "causal", **flags})


@pytest.mark.parametrize(("field", "died"), [("", False), ("media.last", True)])
def test_a_prompt_that_ends_with_an_image_is_refused(field, died):
    one = talk(field)
    answer = one.ask(P + CAT)
    assert answer.died if died else answer.status == 400
    assert died or (one.ask(P + CAT + R).status == 200 and one.held() == [66])


@pytest.mark.parametrize(("field", "status"), [("", 200), ("media.back", 500)])
def test_what_is_reused_never_ends_inside_an_image(field, status):
    invoke = word("m", 3)
    one = talk(field, lora_scaled="0@" + ".".join(map(str, invoke)))
    one.ask(P + CAT + invoke, extra={"lora": "0:0"})
    answer = one.ask(P + CAT + invoke, extra={"lora": "0:1"})
    assert answer.status == status and (status != 200 or answer.cache_n == len(P))


@pytest.mark.parametrize(("field", "died"), [("", False), ("task_first", True)])
@pytest.mark.parametrize("text", [(), Q])
def test_tokens_are_validated_before_slots_and_entries_are_compared(field, died, text):
    one = talk(field)
    one.ask(P + CAT + R)
    if text:
        one.ask(text)                   # the image is in an entry
    answer = one.ask((*P, -1))
    assert answer.died if died else answer.status == 400


def test_slots_and_entries_that_are_not_compared_end_no_process():
    one = talk("task_first", slot_prompt_similarity=0.0, cache_ram=0)
    one.ask(P + CAT + R)
    assert one.ask((*P, -1)).status == 400
    one = talk("task_first", parallel=2, kv_unified=True)
    one.ask(P + CAT + R, id_slot=0)
    assert one.ask((*P, -1), id_slot=1).status == 400


@pytest.mark.parametrize(("field", "died"), [("", False), ("media.size", True)])
def test_an_image_that_exceeds_the_micro_batch_is_refused(field, died):
    one = talk(field, mmproj="gemma3", ubatch_size=8)
    answer = one.ask(P + CAT + R)
    assert answer.died if died else answer.status == 400
    assert one.ask(P).died is died


@pytest.mark.parametrize(("field", "right"), [("", True), ("media.adapters", False)])
@pytest.mark.parametrize("profile", [REPAIRED, "b11549-lora-tried"])
def test_an_image_is_evaluated_under_the_adapters_of_its_slot(field, right, profile):
    one = talk(field, profile, lora_scaled="0,0")
    assert one.right(one.ask(P, extra={"lora": "0:1"}))
    assert one.right(one.ask(CAT + R, extra={"lora": "1:1"})) is right


@pytest.mark.parametrize(("field", "status"), [("", 200), ("media.again", 500)])
def test_an_idle_slot_is_cleared_for_an_image(field, status):
    one = talk(field, parallel=2, kv_unified=True, cache_ram=0)
    one.ask(P + P, id_slot=0)
    answer = one.ask(Q + image_items("big", 150, 150) + R, id_slot=1)
    assert answer.status == status and (status != 200 or one.right(answer))


def test_a_checkpoint_after_an_image_under_an_adapter_is_compared_at_its_own_length():
    line = from_line("A8x4.B10{lora=0:1}", model="qwen35-GA", server={"mmproj": "causal", "lora_scaled": "0"})
    run = run_judged(line, "llama_cpp@b11549-repaired", "provenance")
    assert [event.n_tokens for event in run.log.events if event.ev == "ckpt_create"]
    assert not run.requests[0].judged.armed


@pytest.mark.parametrize(("tail", "status"), [((), 400), ((9,), 200)])
def test_a_prompt_may_end_right_after_an_image_but_not_with_one(tail, status):
    one = Talk("A", "b11549-repaired", "none", mmproj="causal")
    prompt = (*word("a", 6), *image_items("dot", 1, 1), *tail)
    assert one.ask(prompt).status == status
    assert one.ask((*word("b", 6), *image_items("cat", 4, 4), *tail)).status == status


@pytest.mark.parametrize(("n_ubatch", "asked"), [(16, 0), (15, 1)])
def test_the_size_of_an_image_is_a_decision_where_it_exceeds_a_micro_batch(n_ubatch, asked):
    one = Talk("A", "b11549-repaired", "none", mmproj="gemma3", ubatch_size=n_ubatch)
    one.ask((*word("a", 6), *image_items("cat", 16, 16), *word("b", 6)))
    assert len([event for event in one.log.events if event.ev == "decided" and "MEDIA-SIZE" in event.rule]) == asked


@pytest.mark.parametrize(("least", "asked"), [(0, 0), (1, 0), (-1, 1)])
def test_a_token_is_a_decision_where_no_model_has_it(least, asked):
    one = Talk("A", "b11549-repaired", "none")
    one.ask((7, least, 8))
    assert len([event for event in one.log.events if event.ev == "decided" and "TASK-FIRST" in event.rule]) == asked
