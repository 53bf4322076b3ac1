"""Differences of the builds from b10587 to b11549, rule by rule."""

from __future__ import annotations

from itertools import pairwise

import pytest

from cachesim.base.errors import BadInput
from cachesim.engines.base import Draft
from cachesim.engines.llama_cpp.profiles import LINE, PROFILES
from cachesim.engines.llama_cpp.slot_save_restore import SCKP_ENTRY, SCKP_HEADER
from tests.unit.engines.llama_cpp.talk import Talk, word

A, B = word("A", 60), word("B", 30)
NEWER = ("b10587", "b10809", "b11063", "b11312", "b11549")
FIRST = {
    "slot_ctx": "b10809", "ctx_pool": "b10809", "ext_bytes": "b10809",
    "ckpt_spacing": "b11063", "ckpt_replace": "b11063",
    "spec_accept": "b11312", "task_reuse": "b11312", "task_whole": "b11312", "kv_fail": "b11312",
    "bad_batch_lines": "b11312",
    "shared": "b11549", "marks": "b11549", "file_ckpts": "b11549", "ckpt_unread": "b11549", "data_header": "b11549",
}
TWICE = {"rs_back": ("b10809", "b11549"), "outside": ("b10809", "b11549"), "state_form": ("b10809", "b11549")}


def test_every_change_has_its_build():
    """The rules of each build, as read in the source trees."""
    found = {}
    for old, new in pairwise(NEWER):
        a, b = PROFILES[f"llama_cpp@{old}"], PROFILES[f"llama_cpp@{new}"]
        for name in (*FIRST, *TWICE):
            if getattr(a, name) != getattr(b, name):
                found.setdefault(name, []).append(new)
    assert found == {**{name: [build] for name, build in FIRST.items()}, **{n: list(b) for n, b in TWICE.items()}}
    at = LINE.index(f"llama_cpp@{NEWER[0]}")
    assert LINE[at : at + len(NEWER)] == tuple(f"llama_cpp@{name}" for name in NEWER)


# --- checkpoints ---------------------------------------------------------------------------------------------


def test_a_creation_logs_too_close_then_old_then_superseded_then_created():
    """Specification b11312 2.1, example C: the limit comes before superseding, so the older point is lost in vain."""
    talk = Talk("R", "b11063", batch_size=128, ubatch_size=64, ctx_checkpoints=2, checkpoint_min_step=0)
    talk.ask(word("A", 20))
    talk.ask(word("A", 40))
    assert talk.lengths() == [20, 36]
    answer = talk.ask(word("A", 38) + word("C", 2))
    kinds = [e["ev"] for e in talk.events(answer, "ckpt_too_close", "ckpt_evict", "ckpt_supersede", "ckpt_create")]
    assert kinds == ["ckpt_evict", "ckpt_supersede", "ckpt_create"] and talk.lengths() == [36]
    made = talk.events(answer, "ckpt_create")[0]
    assert (made["n"], made["max"]) == (1, 2)


@pytest.mark.parametrize("profile, lists", [
    ("b10587", [[16], [16, 36], [16, 56], [16, 76], [16, 96]]),
    ("b11549", [[16], [16, 36], [16, 36, 56], [16, 56, 76], [16, 76, 96]]),
])
def test_the_list_stops_one_below_its_limit(profile, lists):
    """Specification b11312 2.1, example A."""
    talk = Talk("R", profile, ctx_checkpoints=4)
    found = []
    for n in (20, 40, 60, 80, 100):
        talk.ask(word("A", n))
        found.append(talk.lengths())
    assert found == lists


# --- slot files ----------------------------------------------------------------------------------------------


def test_a_file_carries_checkpoints_and_their_bytes(tmp_path):
    talk = Talk("H", "b11549")
    talk.ask(A, 2)
    ckpts = talk.server.core.slots[0].checkpoints
    bare = Talk("H", "b11312")
    bare.ask(A, 2)
    saved, without = talk.server.slot("save", 0, tmp_path / "a"), bare.server.slot("save", 0, tmp_path / "b")
    appendix = SCKP_HEADER + sum(SCKP_ENTRY + c.facts.size for c in ckpts)
    assert len(ckpts) == 1 and saved["n_written"] - without["n_written"] == appendix + 8       # 8: sizes of rotations
    talk.ask(B)
    restored = talk.server.slot("restore", 0, tmp_path / "a")
    assert restored["n_read"] == saved["n_written"] and talk.lengths() == [56]
    assert [c.facts.id_task for c in talk.server.core.slots[0].checkpoints] == [-1]
    answer = talk.ask(word("A", 58) + B)
    assert answer.cache_n == 56 and talk.right(answer) is True
    events = [e for e in talk.log.events if e.ev in ("ckpt_append", "ckpt_from_file")]
    assert [(e.ev, e.n) for e in events] == [("ckpt_append", 1), ("ckpt_from_file", 1)]


def test_where_fewer_are_allowed_the_oldest_are_dropped(tmp_path):
    many, few = Talk("R", "b11549", batch_size=64, ubatch_size=16), Talk("R", "b11549", ctx_checkpoints=1)
    many.ask(A, 2)
    assert many.lengths() == [40, 56]
    many.server.slot("save", 0, tmp_path / "a")
    few.server.slot("restore", 0, tmp_path / "a")
    assert few.lengths() == [56]


def test_a_file_of_another_state_format_empties_the_slot(tmp_path):
    old, new = Talk("R", "b11312"), Talk("R", "b11549")
    old.ask(A, 2)
    old.server.slot("save", 0, tmp_path / "a")
    new.ask(B)
    assert new.server.slot("restore", 0, tmp_path / "a")["status"] == 400 and new.held() == [0]


def test_a_draft_part_that_does_not_load_is_dropped(tmp_path):
    flags = {"spec_type": "draft-simple"}
    one = Talk("H", "b11549", model_draft="llama", **flags)
    one.ask(A, 2)
    one.server.slot("save", 0, tmp_path / "a")
    size = one.server.core.slots[0].checkpoints[0].facts.size
    for draft, fits in (("llama", True), ("mamba2", False)):
        two = Talk("H", "b11549", model_draft=draft, **flags)
        two.ask(B, 1)
        two.server.slot("restore", 0, tmp_path / "a")
        ckpt = two.server.core.slots[0].checkpoints[0]
        assert (ckpt.draft is not None) is fits and (ckpt.facts.size == size) is fits
        assert two.server.core.dft.memory.pos_max(0) == -1, "the trial empties the draft context"


# --- memory --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile, again", [("b10587", True), ("b10809", False), ("b11549", False)])
def test_a_second_rollback_before_anything_was_decoded(profile, again):
    """Specification b11312 2.4: planes 3, position 20, two removals."""
    talk = Talk("qwen35mtp", profile, spec_type="draft-mtp", ubatch_size=8, mode="none")
    talk.ask(word("A", 21))
    recr = talk.server.core.memory.recr
    assert recr.pos_max(0) == 20 and recr.seq_rm(0, 19, 1 << 30) and recr.pos_max(0) == 18
    assert recr.seq_rm(0, 18, 1 << 30) is again


# --- start-up and tasks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags, n_ctx, n_ctx_slot", [
    ({"ctx_size": 0, "parallel": 4, "kv_unified": True, "kv_unified_per_slot": 300}, 1280, 300),
    ({"ctx_size": 256, "parallel": 2, "kv_unified": True, "kv_unified_per_slot": 300}, 256, 256),
    ({"ctx_size": 512, "parallel": 2, "kv_unified": True, "kv_unified_per_slot": 400}, 512, 400),
])
def test_a_cap_of_the_slots(flags, n_ctx, n_ctx_slot):
    """The table of specification b11312 2.9."""
    settings = Talk("A", "b10809", **flags).server.core.settings
    assert (settings.n_ctx, settings.n_ctx_slot, settings.limit_tokens) == (n_ctx, n_ctx_slot, n_ctx)


@pytest.mark.parametrize("profile, again, first", [("b11063", 11, 0), ("b11312", 0, 0)])
@pytest.mark.parametrize("kind", ["embedding", "rerank"])
def test_embeddings_and_rerankings_are_stateless(profile, again, first, kind):
    talk = Talk("A", profile, pooling="last")
    assert talk.ask(word("A", 12), kind=kind).cache_n == first
    answer = talk.ask(word("A", 12), kind=kind)
    assert (answer.cache_n, answer.prompt_n, answer.predicted_n) == (again, 12 - again, 0)
    assert talk.ask(word("A", 14)).cache_n == 12


@pytest.mark.parametrize("profile, chat, lists", [
    ("b10587", False, True), ("b10587", True, True), ("b11549", False, False), ("b11549", True, True),
])
def test_only_a_chat_marks_user_messages(profile, chat, lists):
    talk = Talk("R", profile, checkpoint_min_step=0)
    talk.ask(word("A", 60), user_starts=(20,), chat=chat)
    assert (20 in talk.lengths()) is lists


# --- drafts --------------------------------------------------------------------------------------------------

a, E, b, c = 7_000_001, 7_000_002, 7_000_003, 7_000_004


@pytest.mark.parametrize("profile, kind, spec, cached, accepted, replays", [
    ("b11063", "A", "ngram-simple", 4, 3, 0), ("b11312", "A", "ngram-simple", 2, 1, 0),
    ("b11063", "qwen35mtp", "draft-mtp", 4, 3, 0), ("b11312", "qwen35mtp", "draft-mtp", 2, 1, 0),
    ("b11063", "R", "ngram-simple", 4, 3, 0), ("b11312", "R", "ngram-simple", 3, 1, 1),
])
def test_an_end_of_generation_inside_a_draft(profile, kind, spec, cached, accepted, replays):
    """The table of specification b11312 4.1: N tokens, draft [a, E, b], the target agrees with all three."""
    talk = Talk(kind, profile, spec_type=spec, ubatch_size=8)
    n = 40
    answer = talk.ask(word("A", n), 20, forced=(9, a, E, b, c), eog=(E,), drafts=(Draft(n, 3, 3),))
    assert (answer.stop_type, answer.tokens, answer.tokens_cached) == ("eos", [9, a, E], n + cached)
    assert answer.draft_n_accepted == accepted
    assert len(talk.events(answer, "spec_restore")) == replays


def test_an_end_of_generation_in_last_place_is_accepted():
    for profile in ("b11063", "b11312"):
        talk = Talk("A", profile, spec_type="ngram-simple")
        answer = talk.ask(word("A", 40), 20, forced=(9, a, E, b), eog=(E,), drafts=(Draft(40, 2, 2),))
        assert (answer.tokens, answer.tokens_cached) == ([9, a, E], 43)


def test_defaults_that_a_client_notices():
    told = [PROFILES[f"llama_cpp@{name}"].outside for name in ("b10587", "b10809", "b11312", "b11549")]
    assert [one["port"] for one in told] == ["8080", "8080", "8080", "9931"]
    assert [one["preserve_reasoning"] == "on" for one in told] == [False, True, True, True]


# --- decisions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["A", "W", "R", "H", "HW"])
def test_decisions_about_a_common_prefix_evaluate_it_once(kind):
    """Three prompts that share 100 tokens: the first slot evaluates these, the other slots continue from copies."""
    talk = Talk(kind, "b11549", parallel=3)
    s = word("S", 100)
    mine, *others = (s + word(name, n) for name, n in (("x", 10), ("y", 20), ("z", 5)))
    answer = talk.ask(mine, kind="decision", others=tuple(others))
    assert (answer.cache_n, answer.prompt_n, answer.predicted_n) == (0, 110, 0)
    # A hybrid with a window needs a checkpoint even for an extension (D6), and decisions create none.
    kept = 0 if kind == "HW" else 100
    assert [(one.cache_n, one.prompt_n) for one in answer.children] == [(kept, 120 - kept), (kept, 105 - kept)]
    copies = [(e["n_tokens"], e["child"]) for e in talk.events(answer, "copy_shared")]
    assert copies == [(100, 0), (100, 1)]
    assert talk.held() == [0, 0, 110], "children are cleared when they end"
    for asked, one in zip((mine, *others), (answer, *answer.children), strict=True):
        cold = Talk(kind, "b11549").ask(asked, kind="decision")
        assert [o.digest for o in one.outputs] == [o.digest for o in cold.outputs]


def test_reuse_does_not_go_past_the_shared_prefix():
    talk = Talk("A", "b11549", parallel=2)
    s = word("S", 60)
    talk.ask(s + word("x", 10), kind="decision")
    answer = talk.ask(s + word("x", 12), kind="decision", others=(s + word("y", 4),))
    assert answer.cache_n == 60 and [one.cache_n for one in answer.children] == [60]


def test_prompts_of_a_decision_without_a_shared_prefix_become_requests_of_their_own():
    talk = Talk("A", "b11549", parallel=3)
    prompts = word("x", 10), word("y", 20), word("z", 5)
    talk.send(prompts[0], kind="decision", others=prompts[1:])
    asked = [task.request for task in talk.server.core.queue]
    assert sorted(request.prompt for request in asked) == sorted(prompts)
    assert [(request.others, request.n_cmpl) for request in asked] == [((), 1)] * 3


def test_prompts_that_share_nothing_are_tasks_of_their_own():
    talk = Talk("A", "b11549", parallel=2)
    answer = talk.ask(word("x", 10), kind="decision", others=(word("y", 20),))
    assert (answer.prompt_n, answer.children[0].prompt_n) == (10, 20)
    assert not talk.events(answer, "copy_shared")
    with pytest.raises(BadInput, match="more prompts than slots"):
        talk.ask(word("x", 10), kind="decision", others=(word("y", 20),) * 2)


def test_older_builds_do_not_support_decisions():
    answer = Talk("A", "b11312").ask(word("x", 10), kind="decision")
    assert (answer.status, answer.prompt_n) == (404, 0)
