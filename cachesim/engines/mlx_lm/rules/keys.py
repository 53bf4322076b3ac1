"""Rules for the tokens under which a conversation is looked up and stored.

P   the prompt with the generation suffix      K   the key      G   the answer
Source: mlx-lm mlx_lm/server.py _generate, _serve_single (321e764e); ml-explore/mlx-lm#923, #929.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

from cachesim.base.tokens import Tokens
from cachesim.engines.mlx_lm.source_files import GENERATE, SERVER, mlx_lm
from cachesim.engines.rule import Decision, Role, rule


class Key(NamedTuple):
    """Key of a conversation. ``asked`` is looked up. ``stored``: "held" = stored under the tokens that the caches
    should hold, "asked" = under ``asked``. ``boundaries``: ends of messages, at which a snapshot may be taken."""

    asked: Tokens
    stored: str = "held"
    boundaries: tuple[int, ...] = ()


@rule("ML-KEY.PROMPT", Role.PLAN, mlx_lm(SERVER, "_generate", "321e764e"))
def key_prompt(prompt: Tokens, bare: Tokens, ends: Sequence[int]) -> Decision:
    """Looks up the whole prompt; prompt and answer are stored."""
    return Decision(Key(prompt), {"n_tokens": len(prompt)})


@rule("ML-KEY.BARE.PR923", Role.PLAN, mlx_lm("", "", "c30598cf", pull=923))
def key_bare(prompt: Tokens, bare: Tokens, ends: Sequence[int]) -> Decision:
    """Looks up and stores the prompt without its generation suffix, whatever is evaluated after it. Boundaries are the
    ends of all messages but the last. ``bare``: the rendering without suffix; ``ends``: ends of the first 1, 2, .. all
    messages."""
    return _bare(prompt, bare, ends[:-1])


@rule("ML-KEY.BARE.PR929", Role.PLAN, mlx_lm("", "", "c1c0d8ef", pull=929))
def key_bare_all(prompt: Tokens, bare: Tokens, ends: Sequence[int]) -> Decision:
    """Looks up and stores as PR923, but the end of the last message is also a boundary. It is the end of the key, where
    no copy is ever stored."""
    return _bare(prompt, bare, ends)


def _bare(prompt: Tokens, bare: Tokens, ends: Sequence[int]) -> Decision:
    because = {"n_tokens": len(prompt), "suffix": len(prompt) - len(bare), "boundaries": list(ends)}
    return Decision(Key(bare, "asked", tuple(ends)), because)


@rule("ML-KEY-ALONE.HELD", Role.PLAN, mlx_lm(SERVER, "_serve_single", "321e764e to 0.32.2"))
def key_of_held(held: int, evaluated: int) -> Decision:
    """Returns the key length of a conversation that was served alone: all tokens, even if the last token was never
    evaluated (with a draft model, unless it was an accepted draft)."""
    return Decision(held, {"held": held, "evaluated": evaluated})


@rule("ML-BATCH.WHOLE", Role.SETUP, mlx_lm(GENERATE, "BatchGenerator", "321e764e"), until="#1072")
def batch_whole() -> Decision:
    """Prefills prompts as a whole, between two decode steps, with a common checkpoint for all rows of a group."""
    return Decision("whole", {})


@rule("ML-BATCH.SEGMENTS", Role.SETUP, mlx_lm(GENERATE, "BatchGenerator", "3f9d179f"), since="#1072")
def batch_segments() -> Decision:
    """Prefills prompts segment by segment, beside the rows that generate."""
    return Decision("segments", {})


@rule("ML-BATCHABLE", Role.SETUP, mlx_lm(SERVER, "_is_batchable", "321e764e to 0.32.2"))
def is_batchable(drafts: bool, seed: bool) -> Decision:
    """Returns True if a request may join a batch: it has neither a draft model nor a seed. All layers of the models
    here can be merged. 0.32.2 also checks ``kv_bits`` and images, which are not modelled."""
    return Decision(not drafts and not seed, {"drafts": drafts, "seed": seed})
