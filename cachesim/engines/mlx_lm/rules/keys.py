"""Rules for the tokens under which a conversation is looked up and stored.

P   the prompt with the generation suffix      K   the key      G   the answer
Source: mlx-lm mlx_lm/server.py _generate, _serve_single (321e764e); ml-explore/mlx-lm#923, #929.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

from cachesim.base.tokens import Tokens
from cachesim.engines.mlx_lm.source_files import GENERATE, SERVER, mlx_lm
from cachesim.engines.rule import Decision, Role, rule


class ConversationKey(NamedTuple):
    """Key of a conversation. ``asked`` is looked up. ``stored``: "held" = stored under the tokens that the caches
    should hold, "asked" = under ``asked``. ``boundaries``: ends of messages, at which a snapshot may be taken."""

    asked: Tokens
    stored: str = "held"
    boundaries: tuple[int, ...] = ()


@rule("ML-KEY.PROMPT", Role.PLAN, mlx_lm(SERVER, "_generate", "321e764e"))
def key_prompt(prompt: Tokens, bare: Tokens, ends: Sequence[int]) -> Decision:
    """Look up the whole prompt; prompt and answer are stored."""
    return Decision(ConversationKey(prompt), {"n_tokens": len(prompt)})


@rule("ML-KEY.BARE.PR923", Role.PLAN, mlx_lm("", "", "c30598cf", pull=923))
def key_bare(prompt: Tokens, bare: Tokens, ends: Sequence[int]) -> Decision:
    """Look up and store the prompt without its generation suffix, whatever is evaluated after it. Boundaries are the
    ends of all messages but the last. ``bare``: the rendering without suffix; ``ends``: ends of the first 1, 2, .. all
    messages."""
    return _bare(prompt, bare, ends[:-1])


@rule("ML-KEY.BARE.FIRST", Role.PLAN, mlx_lm("", "_find_cache_boundaries", "ec281581", pull=923))
def key_bare_first(prompt: Tokens, bare: Tokens, ends: Sequence[int]) -> Decision:
    """Look up and store as PR923, with a single boundary: the end of the first message, from 10 tokens on."""
    return _bare(prompt, bare, [end for end in ends[:1] if end >= 10])


@rule("ML-KEY.BARE.PR929", Role.PLAN, mlx_lm("", "", "c1c0d8ef", pull=929))
def key_bare_all(prompt: Tokens, bare: Tokens, ends: Sequence[int]) -> Decision:
    """Look up and store as PR923, but the end of the last message is also a boundary. It is the end of the key, where
    no copy is ever stored."""
    return _bare(prompt, bare, ends)


def _bare(prompt: Tokens, bare: Tokens, ends: Sequence[int]) -> Decision:
    because = {"n_tokens": len(prompt), "suffix": len(prompt) - len(bare), "boundaries": list(ends)}
    return Decision(ConversationKey(bare, "asked", tuple(ends)), because)


@rule("ML-KEY-ALONE.HELD", Role.PLAN, mlx_lm(SERVER, "_serve_single", "321e764e to 0.32.2"))
def key_of_held(held: int, evaluated: int) -> Decision:
    """Return the key length of a conversation that was served alone: all tokens, even if the last token was never
    evaluated (with a draft model, unless it was an accepted draft)."""
    return Decision(held, {"held": held, "evaluated": evaluated})


@rule("ML-BATCH.WHOLE", Role.SETUP, mlx_lm(GENERATE, "BatchGenerator", "321e764e"), until="#1072")
def batch_whole() -> Decision:
    """Prefill prompts as a whole, between two decode steps, with a common checkpoint for all rows of a group."""
    return Decision("whole", {})


@rule("ML-BATCH.SEGMENTS", Role.SETUP, mlx_lm(GENERATE, "BatchGenerator", "3f9d179f"), since="#1072")
def batch_segments() -> Decision:
    """Prefill prompts segment by segment, beside the rows that generate."""
    return Decision("segments", {})


@rule("ML-BATCHABLE", Role.SETUP, mlx_lm(SERVER, "_is_batchable", "321e764e to 0.32.2"))
def is_batchable(drafts: bool, seed: bool) -> Decision:
    """True if a request may join a batch: it has neither a draft model nor a seed. All layers of the models
    here can be merged. 0.32.2 also checks ``kv_bits`` and images, which are not modelled."""
    return Decision(not drafts and not seed, {"drafts": drafts, "seed": seed})


@rule("ML-BATCHABLE-LAYERS.merge", Role.SETUP, mlx_lm(SERVER, "is_batchable", "7a86c128"), since="#743")
def merge_of_class(kinds: Sequence[str], merge: bool) -> Decision:
    """True if the layers of a model can be batched: if each class of cache has a merge. ``kinds``: the
    classes."""
    return Decision(merge, {"kinds": list(kinds)})


@rule("ML-BATCHABLE-LAYERS.rows", Role.SETUP, mlx_lm(SERVER, "_is_batchable", "eea2e5f5"), since="#655", until="#743")
def merge_of_rows(kinds: Sequence[str], merge: bool) -> Decision:
    """True if the layers of a model can be batched: if each is a KVCache or a RotatingKVCache."""
    return Decision(set(kinds) <= {"KVCache", "RotatingKVCache"}, {"kinds": list(kinds)})


@rule("ML-BATCHABLE-LAYERS.any", Role.SETUP, mlx_lm(SERVER, "_is_batchable", "0.28.4"), since="#626", until="#655")
def merge_any(kinds: Sequence[str], merge: bool) -> Decision:
    """Return True: this version looks at no layers. ``ML-EXTRACT.rows`` says what follows."""
    return Decision(True, {"kinds": list(kinds)})


@rule("ML-BATCHABLE-LAYERS.none", Role.SETUP, mlx_lm(SERVER, "handle_completion", "0.28.3"), until="#626")
def merge_never(kinds: Sequence[str], merge: bool) -> Decision:
    """Return False: this version has no batches; requests wait for each other."""
    return Decision(False, {"kinds": list(kinds)})


@rule("ML-EXTRACT", Role.SETUP, mlx_lm(GENERATE, "Batch.extract_cache", "7a86c128"), since="#743")
def extract_every(kinds: Sequence[str]) -> Decision:
    """True if the caches of a finished row can be taken out of its batch: every class has an extract."""
    return Decision(True, {"kinds": list(kinds)})


@rule("ML-EXTRACT.rows", Role.SETUP, mlx_lm(GENERATE, "Batch.extract_cache", "0.28.4"), until="#743")
def extract_rows(kinds: Sequence[str]) -> Decision:
    """True if the caches of a finished row can be taken out of its batch: recurrent states have no extract, nor have
    layers that hold several caches. The error ends the generation thread before the row's last token is sent."""
    return Decision(not set(kinds) & {"ArraysCache", "CacheList"}, {"kinds": list(kinds)})


@rule("ML-NEW-CACHE.limited", Role.MEMORY, mlx_lm(GENERATE, "BatchGenerator._make_new_cache", "d4eb136d",
                                                  note="from #834 to #1072: _make_cache"), since="#1106")
def new_limited(limit: int) -> Decision:
    """Return the size of the rings that the batch generator gives to a new request: its max_kv_size."""
    return Decision(limit, {"max_kv_size": limit})


@rule("ML-NEW-CACHE.unlimited", Role.MEMORY, mlx_lm(GENERATE, "BatchGenerator.insert_segments", "3f9d179f",
                                                    note="until #834: _make_cache"), until="#1106")
def new_unlimited(limit: int) -> Decision:
    """Return 0: the batch generator gives caches without a limit to a new request, whatever max_kv_size says."""
    return Decision(0, {"max_kv_size": limit})


@rule("ML-KEY-STOPPED.returned", Role.PLAN, mlx_lm(SERVER, "handle_completion", "d1718406"), since="#405")
def key_of_returned(prompt: int, held: int) -> Decision:
    """Return the key length of a conversation whose client left: the prompt and every token returned."""
    return Decision(held, {"prompt": prompt, "held": held})


@rule("ML-KEY-STOPPED.prompt", Role.PLAN, mlx_lm(SERVER, "handle_completion", "0.25.1"), until="#405")
def key_of_prompt(prompt: int, held: int) -> Decision:
    """Return the key length of a conversation whose client left: the prompt alone, although the caches also hold the
    tokens returned."""
    return Decision(min(prompt, held), {"prompt": prompt, "held": held})
