"""Rules of the older generator (before #1072): place of its only checkpoint, and the tokens that it feeds. Rules of
drafts.

P   the prompt         l   tokens of a row that are not cached
pc  prompt checkpoint: tokens after it, the same number for a whole group
A position below 0 counts from the end of the prompt, as the engine writes it.
Source: mlx-lm mlx_lm/server.py _compute_prompt_checkpoint, mlx_lm/generate.py _process_prompts (2105aaf9 to 4d3af3ce).
"""

from __future__ import annotations

from typing import Sequence

from cachesim.base.tokens import Tokens, common_prefix
from cachesim.engines.chat_template import THK
from cachesim.engines.mlx_lm.source_files import GENERATE, SERVER, mlx_lm
from cachesim.engines.rule import Decision, Role, rule


@rule("ML-PC-POSITION.NONE", Role.PLAN, mlx_lm(SERVER, "", "321e764e"))
def position_none(prompt: Tokens, role: str, thinks: bool, trimmable: bool, probe: Tokens | None) -> Decision:
    """Return None: this version has no prompt checkpoints."""
    return Decision(None, {"role": role})


@rule("ML-PC-POSITION.THINK", Role.PLAN, mlx_lm(SERVER, "_compute_prompt_checkpoint", "2105aaf9"), since="#911")
def position_think(prompt: Tokens, role: str, thinks: bool, trimmable: bool, probe: Tokens | None) -> Decision:
    """Return the position of the prompt checkpoint for a chat that ends with the user's message: one token before the
    last think token, if the tokenizer has a think token (``thinks``) and it is among the last few tokens; else one
    token before the end."""
    value = _think(prompt, thinks) if role == "user" else None
    return Decision(value, {"role": role, "n_tokens": len(prompt)})


def _think(prompt: Tokens, thinks: bool) -> int:
    last = range(1, min(11, len(prompt)) - 1) if thinks else ()
    return next((-(i + 1) for i in last if prompt[-i] == THK), -1)


@rule("ML-PC-POSITION.SENTINEL", Role.PLAN, mlx_lm("", "_compute_prompt_checkpoint", "f0402185", pull=1006))
def position_sentinel(prompt: Tokens, role: str, thinks: bool, trimmable: bool, probe: Tokens | None) -> Decision:
    """Return the position of the prompt checkpoint. For trimmable caches: as THINK. For others: where the prompt first
    differs from a rendering with another last message, if a message precedes it. ``probe``: that rendering; None
    without such a message."""
    because = {"role": role, "n_tokens": len(prompt), "trimmable": trimmable}
    if role != "user":
        return Decision(None, because)
    if trimmable:
        return Decision(_think(prompt, thinks), because)
    boundary = 0 if probe is None else common_prefix(prompt, probe)
    inside = 0 < boundary < len(prompt)
    return Decision(boundary - len(prompt) if inside else -1, {**because, "at": boundary})


@rule("ML-PC-BATCH.ONE", Role.PLAN, mlx_lm(GENERATE, "_process_prompts", "321e764e"))
def pc_one(lengths: Sequence[int], positions: Sequence[int | None]) -> Decision:
    """Return 1: everything but the last token is prefilled."""
    return Decision(1, {"lengths": list(lengths)})


@rule("ML-PC-BATCH.LARGEST", Role.PLAN, mlx_lm(GENERATE, "_process_prompts", "2105aaf9"), since="#911")
def pc_largest(lengths: Sequence[int], positions: Sequence[int | None]) -> Decision:
    """Return the distance for the whole batch: the largest that a row requests."""
    own = [n - pc if pc > 0 else -pc for n, pc in zip(lengths, (p or -1 for p in positions), strict=True)]
    return Decision(max(1, *own), {"lengths": list(lengths), "own": own})


@rule("ML-BATCH-FRESH.EMPTY", Role.PLAN, mlx_lm(GENERATE, "_process_prompts", "321e764e"))
def fresh_if_first_empty(empty: Sequence[bool], sizes: Sequence[int]) -> Decision:
    """True if a group starts from new caches: if the first layer of every row is empty."""
    return Decision(all(empty), {"empty": list(empty)})


@rule("ML-BATCH-FRESH.SIZE", Role.PLAN, mlx_lm(GENERATE, "_process_prompts", "0.30.2"), until="#743")
def fresh_if_no_tokens(empty: Sequence[bool], sizes: Sequence[int]) -> Decision:
    """True if a group starts from new caches: if no row holds a token."""
    return Decision(max(sizes) == 0, {"sizes": list(sizes)})


@rule("ML-PC-LENGTHS.TAIL", Role.PLAN, mlx_lm(GENERATE, "_process_prompts", "509f5aef"), since="#738")
def lengths_without_tail(rest: int, pc: int) -> Decision:
    """Return the length that a row announces to its caches: what is left to feed without the last pc tokens, which are
    fed later."""
    return Decision(rest - pc, {"rest": rest, "pc": pc})


@rule("ML-PC-LENGTHS.ALL", Role.PLAN, mlx_lm(GENERATE, "_process_prompts", "0.30.2"), until="#738")
def lengths_of_all(rest: int, pc: int) -> Decision:
    """Return the length that a row announces to its caches: all that is left to feed."""
    return Decision(rest, {"rest": rest, "pc": pc})


@rule("ML-PC-TAILS.PLAIN", Role.PLAN, mlx_lm(GENERATE, "_process_prompts", "2105aaf9"))
def tails_plain(rests: Sequence[Tokens], pc: int) -> Decision:
    """Return the last pc tokens of each row; None if rows have fewer, because a ragged array cannot be built."""
    tails = [rest[-pc:] for rest in rests]
    ragged = len({len(tail) for tail in tails}) > 1
    return Decision(None if ragged else tails, {"pc": pc, "lengths": [len(t) for t in tails]})


@rule("ML-PC-TAILS.ZEROS", Role.PLAN, mlx_lm("", "_process_prompts", "82574b4d", pull=1006))
def tails_zeros(rests: Sequence[Tokens], pc: int) -> Decision:
    """Return the last pc tokens of each row. Shorter rows are left padded with zeros, which enter the caches like
    tokens."""
    tails = [(0,) * (pc - len(rest)) + rest[-pc:] for rest in rests]
    return Decision(tails, {"pc": pc, "lengths": [min(pc, len(rest)) for rest in rests]})


@rule("ML-PC-ROW.LAST", Role.PLAN, mlx_lm(GENERATE, "_process_prompts", "2105aaf9"), until="#976")
def row_last(row: int, rows: int) -> Decision:
    """Return the row whose state is stored as the checkpoint of a row: the last row, because the expression is
    evaluated after its loop variable has reached the end."""
    return Decision(rows - 1, {"row": row, "rows": rows})


@rule("ML-PC-ROW.OWN", Role.PLAN, mlx_lm(GENERATE, "_lazy_extract_cache", "73c85504", pull=976))
def row_own(row: int, rows: int) -> Decision:
    """Return the row whose state is stored as the checkpoint of a row: the row itself."""
    return Decision(row, {"row": row, "rows": rows})


@rule("ML-CKPT-CREATE.CALLBACK", Role.CREATE, mlx_lm(SERVER, "checkpoint_callback", "2105aaf9"))
def create_if_asked(start: int, position: int | None, pc: int) -> Decision:
    """Store a checkpoint for every row that requests it: the batch's state at pc, under its prompt without the last
    pc tokens (``start`` tokens)."""
    because = {"start": max(0, start), "stop": max(0, start), "position": position, "pc": pc}
    return Decision(position is not None, because)


@rule("ML-CKPT-CREATE.OWN", Role.CREATE, mlx_lm("", "", "c2e01bcb", pull=1006, note="checkpoint_callback"))
def create_if_own(start: int, position: int | None, pc: int) -> Decision:
    """Store a checkpoint only for a row whose own distance is that of the batch."""
    because = {"start": max(0, start), "stop": max(0, start), "position": position, "pc": pc}
    return Decision(position is not None and -position == pc, because)


@rule("ML-CANCEL.REMOVE", Role.CONSULT, mlx_lm(SERVER, "_generate", "0.30.2"), until="#741")
def cancel_removes() -> Decision:
    """Return False: the request of a disconnected client is removed from the batch and stores nothing."""
    return Decision(False, {})


@rule("ML-CANCEL.STORE", Role.CONSULT, mlx_lm(SERVER, "_generate", "73c85504"), until="#1072")
def cancel_stores() -> Decision:
    """Return True: the state of a disconnected client's request is stored under its prompt and the answer so far."""
    return Decision(True, {})


# Start of a request with a draft model.
#
# Source: mlx-lm mlx_lm/generate.py speculative_generate_step (321e764e to 0.32.2).

@rule("ML-SPEC-START.ANY", Role.DRAFT, mlx_lm(GENERATE, "speculative_generate_step", "3f9d179f"), until="#1109")
def start_any(trimmable: bool, n_tokens: int, step: int) -> Decision:
    """Return the tokens left for the first round: the rest after full prefill steps. The rule does not check whether
    the target's caches are trimmable."""
    left = (n_tokens - 1) % step + 1
    return Decision(left, {"trimmable": trimmable, "n_tokens": n_tokens})


@rule("ML-SPEC-START.TRIMMABLE", Role.DRAFT, mlx_lm(GENERATE, "speculative_generate_step", "ed1fca4c"), since="#1109")
def start_trimmable(trimmable: bool, n_tokens: int, step: int) -> Decision:
    """Return the tokens left for the first round: 1, or 0 if the caches are not trimmable (the client gets an
    error)."""
    return Decision(int(trimmable), {"trimmable": trimmable, "n_tokens": n_tokens})


@rule("ML-SPEC-ROUND.ANY", Role.DRAFT, mlx_lm(GENERATE, "speculative_generate_step", "321e764e to 0.32.2"))
def round_any(usual: int, room: int) -> Decision:
    """Return how many tokens a round drafts: as many as num_draft and the budget allow, whether or not the target's
    caches can drop them again (``room``)."""
    return Decision(usual, {"usual": usual, "room": room})
