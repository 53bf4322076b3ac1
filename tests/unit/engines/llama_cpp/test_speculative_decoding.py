"""Speculative decoding: kept tokens, removed tokens, and aborts of the server."""

import pytest

from cachesim.base.media_items import image_items
from cachesim.engines.base import Draft
from cachesim.engines.build_names import resolve_name
from cachesim.engines.llama_cpp.rules import speculative
from cachesim.events import Advanced
from cachesim.scenarios.corpus import corpus_files
from cachesim.scenarios.load import load
from cachesim.scenarios.runner import play
from tests.unit.engines.llama_cpp.talk import Talk, word

A = word("A", 20)
ANSWER = word("r", 12)


def ask(kind, drafts, n=8, **flags):
    talk = Talk(kind, **flags)
    return talk, talk.ask(A, n, forced=ANSWER, drafts=tuple(Draft(*d) for d in drafts))


@pytest.mark.parametrize("kind", ["A", "W"])
def test_a_memory_that_can_be_cut_keeps_accepted_tokens(kind):
    talk, answer = ask(kind, [(20, 3, 1), (22, 2, 2)], spec_type="ngram-simple")
    assert talk.events(answer, "spec_step", "spec_ckpt") == [
        {"ev": "spec_step", "accepted": 1, "drafted": 3, "n_tokens": 22},
        {"ev": "spec_step", "accepted": 2, "drafted": 2, "n_tokens": 25},
    ]
    assert answer.tokens == list(ANSWER[:8])
    assert answer.tokens_cached == 27
    assert talk.right(answer) is True


@pytest.mark.parametrize("kind", ["R", "H"])
def test_a_memory_that_cannot_be_cut_restores_and_replays(kind):
    talk, answer = ask(kind, [(20, 3, 1)], spec_type="ngram-simple")
    assert talk.events(answer, "spec_ckpt", "spec_restore", "spec_step") == [
        {"ev": "spec_ckpt", "pos_min": 19, "pos_max": 19, "n_tokens": 20},
        {"ev": "spec_restore", "pos_min": 19, "pos_max": 19},
        {"ev": "spec_step", "accepted": 1, "drafted": 2, "n_tokens": 23},
    ]
    assert answer.tokens == list(ANSWER[:8])
    assert talk.right(answer) is True


@pytest.mark.parametrize("kind", ["A", "H"])
def test_a_slot_whose_draft_was_verified_waits_for_no_output(kind):
    talk = Talk(kind, spec_type="ngram-simple")
    answer = talk.send(A, 8, forced=ANSWER, drafts=(Draft(20, 3, 1),))
    slot, waiting = talk.server.core.slots[0], set()
    while not answer.done:
        talk.server.iterate()
        waiting.add(slot.i_batch)
    assert answer.draft_n == 3 and waiting == {-1}


class ObservedTalk(Talk):
    is_heard = True


@pytest.mark.parametrize("batch", [speculative.batch_is_shared, speculative.batch_is_own])
def test_an_observer_hears_of_the_drafted_tokens_before_they_are_verified(batch):
    """Three of the 25 tokens are drafted after the 22nd, and one of them is accepted."""
    talk = ObservedTalk("A", spec_type="ngram-simple", rules={"spec_batch": batch})
    talk.ask(word("a", 20), 6, drafts=(Draft(21, 3, 1),))
    heard = [event for event in talk.log.events if isinstance(event, Advanced)]
    assert {event.cause for event in heard} == {"evaluated"}
    assert [event.point.n for event in heard] == [20, 21, 25, 24, 25]


@pytest.mark.parametrize("accepted", [0, 1, 2, 3])
def test_planes_roll_a_recurrent_state_back(accepted):
    talk, answer = ask("GGGA+M", [(20, 3, accepted)], spec_type="draft-mtp", ubatch_size=8)
    assert talk.kinds(answer, "spec_ckpt", "spec_restore") == []
    assert talk.events(answer, "spec_step")[0]["n_tokens"] == 21 + accepted
    assert talk.right(answer) is True


@pytest.mark.parametrize(("ubatch", "died"), [(3, True), (4, True), (5, False)])
def test_a_micro_batch_that_is_no_longer_than_its_planes_ends_the_process(ubatch, died):
    """As the real b11549: 4 tokens, the last and the 3 before it, must stay in the same micro-batch."""
    _, answer = ask("GGGA+M", [], spec_type="draft-mtp", ubatch_size=ubatch)
    assert (answer.died, "n_ubatch > n_keep_tail" in answer.error) == (died, died)


def test_planes_hold_the_exact_numbers():
    drafts = [(20, 3, 0), (21, 3, 1), (23, 3, 2)]
    talk, answer = ask("GGGA+M", drafts, spec_type="draft-mtp", ubatch_size=8, mode="exact")
    assert talk.right(answer) is True


def test_a_stale_plane_gives_a_wrong_answer():
    """D15: with a single token in the last ubatch the plane before is older; the engine is wrong, too."""
    talk = Talk("GGGA+M", spec_type="draft-mtp", ubatch_size=8)
    talk.ask(A, 2, forced=ANSWER)
    server = talk.server
    assert server.core.memory.recr.seq_rm(0, 19, 1 << 30)        # two tokens back; the last ubatch had a single token
    stale = server.core.memory.recr.row(0)
    fresh = Talk("GGGA+M", spec_type="draft-mtp", ubatch_size=8)
    fresh.ask(A[:19], 1)
    assert stale[0].hash != fresh.server.core.memory.recr.row(0)[0].hash


def test_a_stop_inside_a_draft_leaves_accepted_tokens_in_the_slot():
    """D14: the slot has more tokens than the answer."""
    talk, answer = ask("A", [(20, 5, 5)], n=3, spec_type="ngram-simple")
    assert answer.tokens == list(ANSWER[:3])
    assert answer.tokens_cached == 20 + 2                   # the budget also bounds the draft
    talk = Talk("A", spec_type="ngram-simple")
    answer = talk.ask(word("B", 250), 20, forced=ANSWER, drafts=(Draft(250, 4, 4),))
    assert answer.truncated and answer.tokens_cached >= len(answer.tokens) + 249


def test_a_draft_context_that_cannot_trim_ends_the_process():
    talk, answer = ask("A", [(20, 3, 1)], spec_type="draft-simple", model_draft="SS")
    assert answer.died
    assert "failed to remove sequence 0 with p0=22, p1=-1" in answer.error
    assert talk.right(answer) is False
    after = talk.ask(A, 1)
    assert after.died


def test_the_draft_context_counts_in_every_size():
    plain, drafted = Talk("GGGA", ubatch_size=8), Talk("GGGA+M", spec_type="draft-mtp", ubatch_size=8)
    for talk in (plain, drafted):
        talk.ask(A, 1)
    one, two = (talk.server.core.slots[0].checkpoints[-1].facts for talk in (plain, drafted))
    assert one.n_tokens == two.n_tokens == 16
    assert two.size - one.size == 8 + 16 + 24 + 16 * (12 + 128)


def test_a_draft_context_of_another_conversation_fails_every_request(tmp_path):
    talk = Talk("A", spec_type="draft-simple", model_draft="AA")
    talk.ask(A, 1)
    talk.server.slot("save", 0, tmp_path / "a")
    talk.ask(word("B", 5), 1)
    talk.server.slot("restore", 0, tmp_path / "a")
    answer = talk.ask(A + word("C", 5), 1)
    assert answer.status == 500
    assert answer.error == "decode() failed: failed to process speculative batch"
    assert talk.held() == [25]                              # nothing is cleared
    assert [event.text for event in talk.log.of(answer.request) if event.ev == "error"][-4:] == [
        "failed to decode draft batch, ret = -1", "failed to process speculative batch",
        "decode() failed: failed to process speculative batch",
        "error: decode() failed: failed to process speculative batch"]


def test_a_batch_without_room_for_the_drafts_ends_the_process():
    """A batch of four has room for a sampled token and three drafted tokens."""
    for n, died in ((3, False), (4, True)):
        _, answer = ask("A", [(20, n, 1)], batch_size=4, ubatch_size=4, spec_type="ngram-simple")
        assert answer.died is died
    assert answer.error == "GGML_ASSERT(batch must be large enough to hold the sampled and draft tokens) failed"


@pytest.mark.parametrize("profile", ["b8450", "b9518", "b9765"])
def test_before_24843_the_batch_itself_ended_the_process(profile):
    """#24843 (in b9765, not in b9518) checks first; the limit is unchanged."""
    flags = {"batch_size": 4, "ubatch_size": 4, "spec_type": "ngram-simple", "profile": profile}
    for n, died in ((3, False), (4, True)):
        _, answer = ask("A", [(20, n, 1)], **flags)
        assert answer.died is died
    older = 'batch.seq_id[batch.n_tokens] && "llama_batch size exceeded"'
    newer = "batch must be large enough to hold the sampled and draft tokens"
    assert answer.error == f"GGML_ASSERT({newer if profile == 'b9765' else older}) failed"


def cut_off(accepted, profile="b10587"):
    """Free cells for three of the four tokens of a draft: views of two tokens; index 2 is not in the first view."""
    flags = {"batch_size": 8, "ubatch_size": 8, "cache_ram": 0, "spec_type": "ngram-simple", "profile": profile}
    talk = Talk("A", parallel=2, kv_unified=True, **flags)
    other = talk.send(word("full", 232), 200, id_slot=1)
    for _ in range(40):
        talk.server.iterate()
    A = word("A", 256 - sum(talk.held()) - 4)
    answer = talk.send(A, 9, id_slot=0, drafts=(Draft(len(A), 3, accepted),))
    talk.work()
    return talk, A, answer, other


@pytest.mark.parametrize("accepted", [2, 3])
@pytest.mark.parametrize("profile", ["b8916", "b9518"])
def test_before_24843_a_cut_off_draft_ended_the_process_at_its_output(profile, accepted):
    """The second drafted token is accepted, and the next lies in the next view."""
    _, _, answer, other = cut_off(accepted, profile)
    assert (answer.died, other.died, answer.error) == (True, True, "GGML_ASSERT(logits != nullptr) failed")


@pytest.mark.parametrize("profile", ["b8916", "b9518"])
def test_a_draft_that_is_wrong_before_the_cut_is_not_missed_until_the_next_view(profile):
    """The first drafted token is rejected and the others are removed, but they are still in the rest of the batch."""
    talk, _, answer, other = cut_off(0, profile)
    assert (answer.status, answer.error, answer.died) == (500, "Invalid input batch.", False)
    assert (other.status, other.died) == (500, False)
    assert talk.held() == [0, 0]


def test_a_draft_cut_off_by_a_shortage_is_an_error_and_the_slot_keeps_its_tokens():
    talk, A, answer, _ = cut_off(3)
    texts = [e["text"] for e in talk.events(answer, "error")]
    first = next(text for text in texts if text.startswith("got exception"))
    assert first.startswith("got exception: speculative batch index ") and f"error: {first}" in texts
    assert (answer.status, answer.error, answer.tokens_cached) == (500, first, len(A) + 4)


def test_a_state_without_free_cells_is_logged_before_the_server_ends():
    scenario = load(corpus_files()["llama-repair-draft-undo"])
    said = [event.text for event in play(scenario, "llama_cpp@b11549", "none").events if event.ev == "error"]
    assert said == ["state_read_meta: failed to find 8 available cells in kv cache",
                    "state_seq_set_data: error loading state: failed to restore kv cache"]  # fmt: skip


def test_the_state_of_a_recurrent_draft_model_goes_back_with_the_target():
    talk = Talk("GA", "b11549", spec_type="draft-simple", model_draft="GA", spec_draft_n_max=4)
    answer = talk.ask(word("a", 20), 12, drafts=(Draft(20, 4, 1), Draft(22, 3, 0)))
    assert (answer.predicted_n, answer.draft_n, answer.draft_n_accepted) == (12, 4, 1)
    held = talk.server.sequences.draft_memory(0)
    assert (talk.held(), held.rows, held.pos_min, held.pos_max, held.state_pos) == ([31], 31, 30, 30, 30)
    alone = Talk("A", "b11549", spec_type="draft-simple", model_draft="GA", spec_draft_n_max=4)
    answer = alone.ask(word("a", 20), 12, drafts=(Draft(20, 4, 1),))
    assert (answer.died, answer.error) == (True, "failed to remove sequence 0 with p0=22, p1=-1")


@pytest.mark.parametrize("kind", ["ngram-simple", "ngram-cache"])
def test_a_draft_after_an_image_with_fewer_positions_than_tokens_is_undone(kind):
    talk = Talk("qwen35-GA", "b11549", spec_type=kind, spec_draft_n_max=4, mmproj="causal", batch_size=64,
                ubatch_size=16, ctx_size=512)  # fmt: skip
    prompt = A[:6] + image_items("wide", 12, 4) + A[6:11]
    n = len(prompt)
    answer = talk.ask(prompt, 12, drafts=(Draft(n, 4, 1), Draft(n + 2, 3, 0)))
    [undone] = [event for event in talk.log.events if event.ev == "spec_restore"]
    assert (n, undone.pos_max, answer.predicted_n, talk.held()) == (23, 14, 12, [34])
    assert talk.right(answer) is True and len(talk.server.sequences.held(0)) == 34


def test_a_checkpoint_restores_the_state_of_a_recurrent_draft_model_too():
    """Otherwise it would be that of 61 tokens, of which nothing can be removed."""
    talk = Talk("GA", "b11549", spec_type="draft-simple", model_draft="GA", checkpoint_min_step=0)
    talk.ask(word("a", 60), 2)
    answer = talk.ask(word("a", 58) + word("b", 5))
    assert (answer.died, answer.reused, talk.right(answer)) == (False, {"checkpoint": 56}, True)
    held = talk.server.sequences.draft_memory(0)
    assert (held.rows, held.pos_min, held.pos_max, held.state_pos) == (63, 62, 62, 62)


def test_only_an_mtp_head_is_given_the_hidden_states_of_the_target():
    plain = Talk("A", "b11549", spec_type="draft-simple", model_draft="AA", spec_draft_n_max=4)
    plain.ask(word("a", 20), 6, drafts=(Draft(20, 4, 1),))
    assert plain.server.core.carried == {}
    head = Talk("A+M", "b11549", spec_type="draft-mtp", spec_draft_n_max=4)
    head.ask(word("a", 20), 6, drafts=(Draft(20, 4, 1),))
    assert [*head.server.core.carried] == [0]


def test_a_sequence_that_a_recurrent_cache_does_not_have_is_saved_as_empty():
    cache = Talk("R", "b11549", parallel=2, ctx_size=512).server.core.memory.recr
    assert cache.size == len(cache.rs_idx) == 2
    assert [cache.save(seq).pos for seq in (-1, 0, 1, 2)] == [-1] * 4


def test_the_count_of_accepted_tokens_is_a_decision_only_for_a_replayed_draft():
    """A hybrid evaluates the accepted tokens of a rejected draft again."""
    for kind, replays in (("A", 0), ("H", 1)):
        talk = Talk(kind, "b11549", spec_type="ngram-simple", spec_draft_n_max=3)
        answer = talk.ask(word("a", 20), 6, drafts=(Draft(21, 3, 1),))
        counted = [event for event in talk.log.of(answer.request) if event.ev == "decided"
                   and event.rule.startswith("LC-SPEC-COUNT")]  # fmt: skip
        assert len(counted) == replays


def test_only_what_cannot_be_rolled_back_is_saved_before_a_draft_and_in_a_checkpoint():
    """Of a hybrid target and a hybrid draft model: their states, and no attention rows."""
    talk = Talk("H", "b11549", spec_type="draft-simple", model_draft="GA", checkpoint_min_step=0)
    answer, slot = talk.send(A, 8, drafts=(Draft(21, 3, 1),)), talk.server.core.slots[0]
    while slot.spec_ckpt is None:
        talk.server.iterate()
    saved, [checkpoint] = slot.spec_ckpt, slot.checkpoints
    assert (saved.n_tokens, saved.pos_min, saved.pos_max) == (21, 20, 20)
    for blob, pos in ((saved.tgt, 20), (saved.dft, 20), (checkpoint.blob, 15), (checkpoint.draft, 15)):
        assert (blob.base, blob.recr.pos) == (None, pos)
    assert checkpoint.facts.size == checkpoint.blob.size + checkpoint.draft.size + 2 * 8
    talk.work()
    assert talk.right(answer)
    held = len(slot.tokens)
    talk.ask(word("other", 9))
    [entry] = talk.server.core.cache.entries
    assert [(len(blob.base.pos), blob.recr.pos) for blob in (entry.blob, entry.draft)] == [(held, held - 1)] * 2
    assert entry.size == entry.blob.size + entry.draft.size + 2 * 8 + checkpoint.facts.size


@pytest.mark.parametrize(("slots", "batch", "share", "drafted"), [(4, 4, 1, 0), (4, 2, 1, 0), (2, 8, 4, 1)])
def test_a_slot_has_at_least_a_token_as_its_share_of_a_batch(slots, batch, share, drafted):
    talk = Talk("A", "b11549-repaired", "none", spec_type="ngram-simple", parallel=slots, batch_size=batch,
                ctx_size=1024)  # fmt: skip
    answer = talk.ask(A, 4, drafts=(Draft(21, 3, 3),))
    found = {event.because["share"] for event in talk.log.events if event.ev == "decided" and "SPEC-MAX" in event.rule}
    assert (found, answer.draft_n) == ({share}, drafted)


@pytest.mark.parametrize(("build", "kind", "text"), [
    ("b9518", "warn", "draft: llama_decode[0] returned 1"), ("b9765", "warn", "draft: llama_decode[1] returned 1"),
    ("b9829", "error", "llama_decode[1] returned 1"), ("b11312", "error", "llama_process[1] returned 1"),
])  # fmt: skip
def test_a_draft_ends_where_the_memory_of_the_drafter_is_full(build, kind, text):
    """One of three drafted tokens finds a cell. Then the batch finds too few cells, too."""
    resolved = resolve_name(f"llama_cpp@{build}")
    profile = f"llama_cpp@{build}" if resolved is None else resolved.profile
    scenario = load(corpus_files()["llama-draft-ends-in-full-memory-mtp"])
    events = [event.record() for event in play(scenario, profile, "none").events]
    at = events.index({"ev": kind, "text": text})
    assert events[at - 1] == {"ev": "warn", "text": "decode: failed to find a memory slot for batch of size 1"}
    steps = [event["drafted"] for event in events[at:] if event["ev"] == "spec_step"]
    assert steps[0] == 1 and any(event["ev"] == "slot_purge" for event in events[at:])


def test_an_mtp_head_drafts_on_beyond_what_the_context_leaves():
    """Recorded on b11549: five of eight tokens find a cell, three fit into the context."""
    talk = Talk("qwen35mtp", "b11549", ubatch_size=16, spec_type="draft-mtp", spec_draft_n_max=8)
    answer = talk.ask(word("A", 251), 5, drafts=(Draft(251, 3, 1),))
    assert talk.events(answer, "error", "spec_step")[:2] == [
        {"ev": "error", "text": "llama_process[5] returned 1"},
        {"ev": "spec_step", "accepted": 1, "drafted": 3, "n_tokens": 253},
    ]
