"""Rounds of the server: what one leaves for the next, and what ends an answer or the process."""

from __future__ import annotations

import pytest

from cachesim.base.errors import BadInput, NotInBuild
from cachesim.base.media_items import image_items
from cachesim.engines.base import AS_MANY_AS_ALLOWED, Draft, Request
from cachesim.engines.ik_llama import start
from cachesim.engines.ik_llama.log_lines import memory
from cachesim.engines.ik_llama.server import Server
from cachesim.events import Decided, Log

P, Q = tuple(range(1000, 1080)), tuple(range(2000, 2040))


def server(model: str = "A", version: str = "main", **flags: object) -> Server:
    base = {"ctx_size": 512, "batch_size": 64, "ubatch_size": 16, "cache_ram": 0, "context_shift": False}
    return start(f"ik_llama@{version}", model, {**base, **flags}, "none", Log())


@pytest.mark.parametrize(("n_prompt", "tokens"), [(70, 5), (74, 1), (75, 1), (80, 1)])
def test_an_answer_without_a_limit_ends_with_the_context_of_the_training(n_prompt: int, tokens: int) -> None:
    answer = server(n_ctx_train=75).complete(Request(P[:n_prompt], -1))
    assert (answer.predicted_n, answer.stop_type) == (tokens, "limit")


def test_a_sampled_token_has_no_place_in_a_batch_until_the_next_round() -> None:
    srv = server()
    srv.submit(Request(P[:20], 3))
    places = []
    while srv.working:
        srv.iterate()
        places.append(srv.core.slots[0].at)
    assert len(places) >= 3 and set(places) == {-1}


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


def test_a_shift_that_discards_nothing_changes_nothing() -> None:
    srv = server(context_shift=True, ctx_size=256)
    answer = srv.submit(Request(P * 3, 30, n_keep=4, n_discard=-1))
    for _ in range(40):
        srv.iterate()
    assert answer.shifts == [] and not answer.truncated
    slot = srv.core.slots[0]
    assert (slot.kept, slot.discarded, slot.tokens[:240]) == (0, 0, [*P * 3])


def test_a_draft_may_be_as_long_as_the_limits_allow() -> None:
    srv = server("A+M", spec_type="mtp", spec_draft_n_max=3)
    answer = srv.complete(Request(P[:20], 9, drafts=(Draft(20, AS_MANY_AS_ALLOWED, 2),)))
    assert (answer.draft_n, answer.draft_n_accepted, answer.predicted_n) == (3, 2, 9)


def test_drafts_need_rows_that_can_be_removed() -> None:
    with pytest.raises(BadInput, match="drafts need a model with attention layers"):
        server("SS", spec_type="ngram-simple")


@pytest.mark.parametrize(("similarity", "unlogged"), [(0.0, True), (0.1, False)])
def test_a_request_that_finds_every_slot_busy_is_logged_unless_slots_are_not_compared(
    similarity: float, unlogged: bool
) -> None:
    assert server(slot_prompt_similarity=similarity).tasks.arrival_is_unlogged is unlogged


def test_adapters_and_truncated_slot_files_are_refused() -> None:
    srv = server()
    with pytest.raises(BadInput, match=r"adapters of ik_llama\.cpp's server are not simulated"):
        srv.set_adapters("0")
    with pytest.raises(BadInput, match=r"truncated slot files are simulated for llama\.cpp only"):
        srv.slot("restore", 0, None, 50)


@pytest.mark.parametrize(("version", "reused", "rows"), [("main", 0, [*range(10)]), ("1743", 5, [0, 1, 2, 3, 9])])
def test_another_system_prompt_clears_the_slots_or_only_the_memory(version: str, reused: int, rows: list[int]) -> None:
    """Older servers keep the list of the slot's tokens, whose rows are gone."""
    srv = server(version=version)
    srv.complete(Request(P[:6], 1))
    answer = srv.complete(Request((*Q[:4], *P[:5], 1), 1, extra={"system_tokens": 4}))
    assert (srv.core.system, answer.cache_n) == ([*Q[:4]], reused)
    assert srv.sequences.held(0).tolist() == rows


@pytest.mark.parametrize(("numbers", "kind"), [
    ({"pos_min": 7, "pos_max": 7}, "none"), ({"pos_min": 0, "pos_max": 0}, ""), ({"pos_min": 3, "pos_max": 7}, ""),
    ({"pos_min": 7, "n_past": 8}, ""),
])  # fmt: skip
def test_a_line_shows_a_recurrent_memory_if_a_checkpoint_holds_its_last_position_alone(
    numbers: dict[str, int], kind: str
) -> None:
    assert memory(numbers) == kind


@pytest.mark.parametrize(("version", "held"), [("main", [*range(4, 9)]), ("1743", [*range(6), 8])])
def test_another_system_prompt_clears_the_draft_context_or_leaves_it(version: str, held: list[int]) -> None:
    srv = server("A+M", version, spec_type="mtp")
    srv.complete(Request(P[:6], 1))
    srv.complete(Request((*Q[:4], *P[:5]), 1, extra={"system_tokens": 4}))
    kv = srv.core.companion.kv
    assert sorted(kv.cells.pos[kv.cells.of(0)].tolist()) == held


def test_an_empty_system_prompt_replaces_the_one_before() -> None:
    srv = server()
    srv.complete(Request((*Q[:4], *P[:5]), 1, extra={"system_tokens": 4}))
    answer = srv.complete(Request(P[:5], 1, extra={"system_tokens": 0}))
    assert (srv.core.system, answer.prompt_n, dict(answer.reused)) == ([], 5, {"slot": 0})
    assert srv.sequences.held(0).tolist() == [*range(5)]


def test_tokens_that_no_model_has_are_known_since_images() -> None:
    with pytest.raises(NotInBuild, match=r"tokens that no model has are not known of ik_llama@1698") as refused:
        server(version="1698").submit(Request((5, -1), 1))
    assert refused.value.hint == "from #1758 on"
    for prompt in ((), (0,), (0, 5)):
        assert server().submit(Request(prompt, 1)).status == server(version="1698").submit(Request(prompt, 1)).status


@pytest.mark.parametrize(("version", "held"), [("main", 48), ("1743", 64)])
@pytest.mark.parametrize("system", [(), Q[:12]])
def test_a_client_that_leaves_during_its_prompt_leaves_the_evaluated_tokens(
    version: str, held: int, system: tuple[int, ...]
) -> None:
    """Three micro-batches of 16 tokens are evaluated; older servers keep the whole prompt listed. A system prompt does
    not count."""
    srv = server(version=version)
    fields = {"stream": False, **({"system_tokens": len(system)} if system else {})}
    answer = srv.complete(Request((*system, *P), 30, cancel_at=40, extra=fields))
    assert (answer.cancelled, len(srv.core.slots[0].tokens)) == (True, held)
    assert srv.sequences.held(0).tolist() == [*range(48 + len(system))]


@pytest.mark.parametrize(("leaves_at", "held"), [(47, 48), (48, 48), (49, 64)])
def test_a_client_leaves_as_soon_as_its_tokens_are_evaluated(leaves_at: int, held: int) -> None:
    srv = server()
    answer = srv.complete(Request(P, 30, cancel_at=leaves_at, extra={"stream": False}))
    assert (answer.cancelled, len(srv.core.slots[0].tokens)) == (True, held)


def test_no_draft_is_left_between_two_rounds() -> None:
    srv = server("A+M", spec_type="mtp", spec_draft_n_max=3)
    srv.submit(Request(P[:20], 9, draft_else=2))
    left = set()
    while srv.working:
        srv.iterate()
        slot = srv.core.slots[0]
        left.add((slot.at, slot.is_drafting, tuple(slot.draft)))
    assert left == {(-1, False, ())} and len([event for event in srv.log.events if event.ev == "spec_step"]) == 3
