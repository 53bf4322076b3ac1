"""The restore points that a server reports are those that it has, for any requests."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cachesim.base.errors import BadInput
from cachesim.engines.registry import ENGINES
from cachesim.scenarios.runner import play
from cachesim.tools.search.drawn_conversation import draw_conversation
from tests.properties.histories import PROFILE_NAMES, SMALL, flags, histories, requests
from tests.properties.reported_points import Compared
from tests.unit.engines.llama_cpp.talk import Talk

UNIFIED = ("parallel=3", "kv_unified=true", "ctx_size=256", "slot_prompt_similarity=0.1")
CHECKPOINTS = ("checkpoint_min_step=0", "ctx_checkpoints=3")
DRAFTS = ("spec_type=ngram-simple", "spec_draft_n_max=3")
WORLDS = {
    "llama_cpp any": (), "llama_cpp windows": ("W8 A", "W8 W8", "G W8", "C W8", *UNIFIED, *CHECKPOINTS),
    "llama_cpp states": ("GA", "S", "HH", "parallel=2", *CHECKPOINTS), "llama_cpp drafts": (*DRAFTS, "parallel=2"),
    "ik_llama any": (), "ik_llama states": ("GA", "GGGA", "ctx_checkpoints_interval=8"),
    "ik_llama shifts": ("A", "W8 A", "context_shift=true", "ctx_size=128"),
    "ik_llama drafts": (*DRAFTS, "parallel=1"),
    "mlx_lm any": (), "mlx_lm states": ("GA", "GGGA", "S", "W8 G", "prompt_cache_size=4"),
    "mlx_lm drafts": ("A", "AA", "draft_model=A", "num_draft_tokens=3"), "mlx_lm lent": ("A", "AA", "W8 A"),
}
"""Models and options that restrict the draw."""

ONLY = {"mlx_lm lent": ("mlx_lm@pr923", "mlx_lm@pr929")}
"""Profiles of a world that does not use all of its engine's: there rows continue on the caches of an entry."""

NEGATIVE = "llama_cpp@b8152"
"""Subtracts the whole batch from the tokens of a checkpoint, so some have a negative number."""
MASKED = "llama_cpp@b6388"
"""Its full attention loses rows outside the model's window (#15811), and checkpoints of such slots are reported."""
SAMPLED = "llama_cpp@b1573"
"""The list of a slot also names the last sampled token, which was never evaluated and is not reported."""

COMMON = {
    ("slot", "evaluated"), ("slot", "truncated"), ("slot", "overwritten"), ("checkpoint", "stored"),
    ("checkpoint", "lost: erased"), ("checkpoint", "lost: evicted"), ("entry", "stored"),
    ("entry checkpoint", "stored"), ("entry", "lost: consumed"),
}  # fmt: skip
HAPPENS = {
    "llama_cpp any": COMMON, "ik_llama any": COMMON,
    "mlx_lm any": {("entry", "stored"), *(("entry", f"lost: {cause}") for cause in ("erased", "evicted", "consumed"))},
    "mlx_lm lent": {("entry", "overwritten")},
}
"""Events of restore points that must occur in the drawn conversations."""


MANY = 50             # examples among which every event happens
EXAMPLES = pytest.mark.parametrize("examples", [8, pytest.param(MANY, marks=pytest.mark.long)])
"""Drawn cases: few in `make test`, which has four minutes."""


@pytest.mark.part(3)
@EXAMPLES
@pytest.mark.parametrize("world", WORLDS)
def test_what_is_reported_is_what_there_is(world, examples):
    engine, seen = world.partition(" ")[0], set()
    known = {*ENGINES[engine].line, *ENGINES[engine].beside} - {NEGATIVE, MASKED, SAMPLED}     # no composed builds
    profiles = ONLY.get(world, [one for one in ENGINES[engine].profiles if one in known])

    @settings(max_examples=examples)
    @given(st.sampled_from(profiles), st.integers(0, 2**32))
    def holds(profile, seed):
        compared = Compared(seen)
        try:
            play(draw_conversation(seed, engine, WORLDS[world]).scenario(profile), profile, "provenance", compared)
        except BadInput:                        # the drawn conversation does not fit the drawn server
            return
        assert compared.found == []

    holds()
    assert examples < MANY or HAPPENS.get(world, set()) <= seen


@pytest.mark.long
@EXAMPLES
def test_so_it_is_where_slots_take_the_windows_of_others(examples):
    @settings(max_examples=examples)
    @given(st.sampled_from(["W", "W8 W8", "HW", "G W8"]), st.sampled_from(PROFILE_NAMES), flags, histories)
    def holds(kind, profile, options, history):
        talk, compared = Talk(kind, profile, rules=SMALL, **{**options, "kv_unified": True}), Compared()
        compared.started(talk.server)
        for prompt, more in requests(history):
            talk.ask(prompt, **more)
            compared.compare()
        assert compared.found == []

    holds()
