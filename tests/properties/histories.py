"""Random request histories: conversations that grow, are cut, edited, interleaved. States are never drawn."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

from tests.unit.engines.llama_cpp.talk import word

KINDS = ("A", "W", "R", "H", "HW")
PROFILE_NAMES = ("b10587", "pr24143-on-b10587", "24035-v3", "b9518", "pr24143-on-b9518", "b9473", "24035-v1")

SMALL = {"ctx_pad": 8, "window_pad": 8}
"""Rules that make contexts and rings so small that they fill up and wrap."""


class Turn(NamedTuple):
    """A request: ``keep`` tokens of a known conversation, then new tokens."""

    after: int              # known conversation that it extends, modulo their number; none yet = from nothing
    keep: int               # tokens kept of it; negative: all but so many
    name: str               # word of the new tokens
    new: int                # number of new tokens
    n_predict: int
    id_slot: int
    cache_prompt: bool
    marked: bool            # user message starts are given


def turns(most_kept, most_new):
    """Draw turns whose prompts keep and add at most so many tokens."""
    return st.builds(
        Turn,
        after=st.integers(0, 5),
        keep=st.one_of(st.integers(0, most_kept), st.integers(-6, 0)),
        name=st.sampled_from("abcd"),
        new=st.integers(1, most_new),
        n_predict=st.integers(0, 4),
        id_slot=st.sampled_from([-1, -1, -1, 0, 1, 2]),
        cache_prompt=st.sampled_from([True, True, True, True, False]),
        marked=st.booleans(),
    )


histories = st.lists(turns(40, 24), min_size=3, max_size=9)
short_histories = st.lists(turns(12, 8), min_size=3, max_size=9)

flags = st.fixed_dictionaries({
    "ctx_size": st.sampled_from([48, 80, 200]),
    "batch_size": st.sampled_from([2, 7, 16, 64]),
    "ubatch_size": st.sampled_from([1, 3, 4, 16]),
    "parallel": st.integers(1, 3),
    "kv_unified": st.booleans(),
    "ctx_checkpoints": st.sampled_from([0, 1, 3, 32]),
    "checkpoint_min_step": st.sampled_from([0, 4, 8192]),
    "slot_prompt_similarity": st.sampled_from([0.0, 0.1, 0.5]),
    "cache_ram": st.sampled_from([-1, 0, 1, 8192]),
    "cache_idle_slots": st.booleans(),
})
keen = st.fixed_dictionaries({
    "ctx_size": st.just(200),
    "batch_size": st.just(64),
    "ubatch_size": st.sampled_from([1, 2, 4]),
    "checkpoint_min_step": st.sampled_from([0, 2, 8192]),
    "slot_prompt_similarity": st.sampled_from([0.0, 0.1]),
    "cache_ram": st.sampled_from([0, 8192]),
})
"""One slot with many closely spaced checkpoints, which exposes the known defects."""


def requests(history):
    """Yield the turns as (prompt, keywords of ``Talk.ask``). A prompt extends an earlier prompt."""
    known: list[tuple[int, ...]] = [()]
    for turn in history:
        before = known[turn.after % len(known)]
        kept = before[: turn.keep] if turn.keep else before
        prompt = kept + word(turn.name, turn.new, first=len(kept))
        known.append(prompt)
        starts = tuple(sorted({0, len(kept)})) if turn.marked else ()
        yield prompt, {
            "n": turn.n_predict, "id_slot": turn.id_slot, "cache_prompt": turn.cache_prompt, "user_starts": starts,
        }
