"""Rounds of the server: what one leaves for the next, and what ends an answer or the process."""

from __future__ import annotations

import pytest

from cachesim.base.media_items import image_items
from cachesim.engines.base import Request
from cachesim.engines.ik_llama import decode, start
from cachesim.engines.ik_llama.rules.common_prefix import prefix_strict
from cachesim.engines.ik_llama.server import Server
from cachesim.events import Decided, Log

P, Q = tuple(range(1000, 1080)), tuple(range(2000, 2040))


def server(model: str = "A", version: str = "main", **flags: object) -> Server:
    base = {"ctx_size": 512, "batch_size": 64, "ubatch_size": 16, "cache_ram": 0, "context_shift": False}
    return start(f"ik_llama@{version}", model, {**base, **flags}, "none", Log())


@pytest.mark.parametrize(("n_prompt", "tokens"), [(70, 5), (74, 1), (75, 1), (80, 1)])
def test_an_answer_without_a_limit_ends_with_the_context_of_the_training(
    monkeypatch: pytest.MonkeyPatch, n_prompt: int, tokens: int
) -> None:
    monkeypatch.setattr(decode, "TRAINED_ON", 75)
    answer = server().complete(Request(P[:n_prompt], -1))
    assert (answer.predicted_n, answer.stop_type) == (tokens, "limit")


def test_a_prompt_ends_with_a_checkpoint_that_is_known_as_such() -> None:
    """Without a tolerance it is created with the first token, and the last one with the answer."""
    for flags in ({}, {"ctx_checkpoints_tolerance": 5}):
        srv = server("GGGA", **{"ctx_checkpoints_tolerance": 0, **flags})
        srv.complete(Request(P, 3))
        facts = [(kept.facts.n_tokens, kept.facts.prompt_end) for kept in srv.core.slots[0].checkpoints]
        assert facts == [(75 if flags else 80, True), (82, False)]


def test_a_process_that_dies_answers_every_request_and_takes_no_more() -> None:
    """A prompt ends with an image; one request waits for the slot, and one arrives in the round."""
    srv = server(mmproj="causal", parallel=1)
    answers = [srv.submit(Request((*P[:9], *image_items("cat", 16, 16)), 2)), srv.submit(Request(P, 2))]
    srv.take_tasks()
    assert len(srv.core.deferred) == 1
    srv.update()
    assert not srv.core.dead, "the image is evaluated in a round of its own"
    answers.append(srv.submit(Request(Q, 2)))
    srv.update()
    assert srv.core.dead
    assert [(answer.died, answer.done, answer.error_kind) for answer in answers] == [(True, True, "empty-batch")] * 3
    assert not srv.working and not srv.core.queue and not srv.core.deferred
    assert [(slot.busy, slot.task) for slot in srv.core.slots] == [(False, None)]
    later = srv.submit(Request(Q, 2))
    assert later.died and not srv.core.queue


def test_an_image_that_failed_is_forgotten_when_it_fits() -> None:
    """The second slot leaves 24 cells; a shorter prompt makes room. Empty prompts then have rounds without tokens."""
    srv = server(mmproj="causal", parallel=2, ctx_size=256, batch_size=256, ubatch_size=256, flash_attn=False)
    srv.complete(Request(tuple(range(3000, 3232)), 1, id_slot=1))
    failed = srv.submit(Request((*image_items("cat", 40, 40), *Q[:4]), 1, id_slot=0))
    while srv.working:
        srv.iterate()
    assert (failed.status, srv.stuck, srv.core.spun) == (500, True, 2)
    srv.complete(Request(tuple(range(3000, 3009)), 1, id_slot=1))
    while srv.working:
        srv.iterate()
    assert (srv.stuck, srv.core.spun, srv.core.image_failed) == (False, 0, False)


def test_a_draft_context_reports_no_cells_that_it_does_not_read() -> None:
    """After a shift and a cut the slot has cells 0 .. 3 and 129 .. 154; the ends of their blocks are free."""
    srv = server("A+M", spec_type="mtp", spec_draft_n_max=2, context_shift=True, ctx_size=256, flash_attn=False)
    prompt = tuple(range(1000, 1250))
    srv.complete(Request(prompt, 10, n_keep=4))
    kept = srv.core.slots[0].tokens[:30]
    srv.complete(Request((*kept, *Q[:5]), 1))
    missed = [event for event in srv.log.events if isinstance(event, Decided) and event.rule.startswith("IK-KV-SEEN")]
    assert [event.value for event in missed] == [32]


def test_a_strict_comparison_counts_blanks() -> None:
    pieces = {1: "a", 2: " x", 3: "a ", 4: "y", 5: "a b"}.__getitem__
    assert prefix_strict([1, 2], [3, 4], pieces).value == (0, 0), "the common text ends within a token"
    assert prefix_strict([3, 4], [3, 2], pieces).value == (1, 1)
    assert prefix_strict([1, 2, 4], [5], pieces).value == (0, 0)
