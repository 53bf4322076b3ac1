"""Under which tokens is a conversation asked for and stored?

P   the prompt with the generation suffix      K   the key      G   the answer
Source: mlx-lm mlx_lm/server.py _generate, _serve_single (321e764e); ml-explore/mlx-lm#923, #929; spec 4.2, 4.3.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

from cachesim.engines.base import Decision, rule
from cachesim.tokens import Tokens


class Key(NamedTuple):
    """``asked`` is looked up. ``stored`` under: "held", what the caches are believed to hold, or "asked".
    ``boundaries``: ends of messages, at which a snapshot may be taken."""

    asked: Tokens
    stored: str = "held"
    boundaries: tuple[int, ...] = ()


@rule("ML-KEY.PROMPT")
def key_prompt(prompt: Tokens, bare: Tokens, ends: Sequence[int]) -> Decision:
    """The whole prompt is asked for; prompt and answer are stored.
    Source: mlx-lm mlx_lm/server.py _generate (321e764e); spec 4.2."""
    return Decision("ML-KEY.PROMPT", Key(prompt), {"n_tokens": len(prompt)})


@rule("ML-KEY.BARE.PR923")
def key_bare(prompt: Tokens, bare: Tokens, ends: Sequence[int]) -> Decision:
    """The prompt without its generation suffix is asked for and stored, whatever is evaluated behind it. Boundaries are
    the ends of all messages but the last. ``bare``: the rendering without suffix; ``ends``: of the first 1, 2, .. all
    messages.
    Source: ml-explore/mlx-lm#923 (c30598cf); spec 4.3."""
    return _bare("ML-KEY.BARE.PR923", prompt, bare, ends[:-1])


@rule("ML-KEY.BARE.PR929")
def key_bare_all(prompt: Tokens, bare: Tokens, ends: Sequence[int]) -> Decision:
    """As before, and the end of the last message is a boundary too: it is the end of the key, at which no snapshot is
    ever taken.
    Source: ml-explore/mlx-lm#929 (c1c0d8ef); spec 4.3, 5.2."""
    return _bare("ML-KEY.BARE.PR929", prompt, bare, ends)


def _bare(name: str, prompt: Tokens, bare: Tokens, ends: Sequence[int]) -> Decision:
    because = {"n_tokens": len(prompt), "suffix": len(prompt) - len(bare), "boundaries": list(ends)}
    return Decision(name, Key(bare, "asked", tuple(ends)), because)


@rule("ML-BATCH.WHOLE")
def batch_whole() -> Decision:
    """Prompts are prefilled as a whole, between two decode steps, with one checkpoint for all rows of a group.
    Source: mlx-lm mlx_lm/generate.py BatchGenerator (321e764e), until #1072; spec 4.2, 4.4."""
    return Decision("ML-BATCH.WHOLE", "whole", {})


@rule("ML-BATCH.SEGMENTS")
def batch_segments() -> Decision:
    """Prompts are fed segment by segment, beside the rows that generate.
    Source: mlx-lm mlx_lm/generate.py BatchGenerator (3f9d179f), #1072; spec 3.3."""
    return Decision("ML-BATCH.SEGMENTS", "segments", {})


@rule("ML-BATCHABLE")
def is_batchable(drafts: bool, seed: bool) -> Decision:
    """May a request join a batch? Not beside a draft model, and not with a seed of its own: then it is served alone.
    All layers of all models here can be merged; ``kv_bits`` and images, for which 0.32.2 asks too, are not modelled.
    Source: mlx-lm mlx_lm/server.py _is_batchable (321e764e to 0.32.2); spec 1.11, 3."""
    return Decision("ML-BATCHABLE", not drafts and not seed, {"drafts": drafts, "seed": seed})
