"""Rules for the segments of a prompt (since #1072). An entry can be stored at the end of each segment.

P   the prompt, with the generation suffix          sys_end   end of the part common to all chats with this system text
tail   start of the thought that the generation suffix opens
Source: mlx-lm mlx_lm/server.py _tokenize (3f9d179f to 0.32.2).
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

from cachesim.base.tokens import Tokens, common_prefix
from cachesim.engines.chat_template import THK
from cachesim.engines.mlx_lm.events import INDEX_ERROR, VALUE_ERROR
from cachesim.engines.mlx_lm.source_files import GENERATE, SERVER, mlx_lm
from cachesim.engines.rule import Decision, Role, rule


class Segment(NamedTuple):
    """Tokens of a prompt, and the type of an entry that ends with them."""

    tokens: Tokens
    cache_type: str


@rule("ML-SEG-SYSTEM", Role.PROMPT, mlx_lm(SERVER, "_tokenize", "3f9d179f"), since="#1072")
def system_end(prompt: Tokens, probe: Tokens | None) -> Decision:
    """Return the end of the system segment: the first token that differs from a rendering of the system messages with
    an empty user message. 0 without system messages, or if nothing differs (the user message is empty). Includes the
    header of the user message."""
    shared = 0 if probe is None else common_prefix(prompt, probe)
    sys_end = 0 if probe is None or shared == min(len(prompt), len(probe)) else shared
    return Decision(sys_end, {"shared": shared, "n_tokens": len(prompt)})


@rule("ML-SEG-TAIL.GUARDED", Role.PROMPT, mlx_lm(SERVER, "_tokenize", "3f9d179f"), until="#1114")
def tail_guarded(prompt: Tokens, sys_end: int) -> Decision:
    """Return the start of the tail: the last think token within the last 10 tokens, never in the system segment."""
    first = len(prompt) - min(10, len(prompt) - sys_end - 1)
    return find_tail(prompt, sys_end, first)


@rule("ML-SEG-TAIL.SEQUENCE", Role.PROMPT, mlx_lm(SERVER, "_tokenize", "ed1fca4c"), since="#1114")
def tail_anywhere(prompt: Tokens, sys_end: int) -> Decision:
    """Return the start of the tail: the last think token within the last 11 tokens, whatever they belong to. If it
    lies in the system segment, segments overlap, and the tokens between are evaluated twice."""
    return find_tail(prompt, sys_end, len(prompt) - 11)


def find_tail(prompt: Tokens, sys_end: int, first: int) -> Decision:
    """Return the last think token from ``first`` on, or the end of a prompt without think token."""
    found = [i for i in range(max(0, first), len(prompt)) if prompt[i] == THK]
    value = found[-1] if found else len(prompt)
    return Decision(value, {"first": first, "sys_end": sys_end, "n_tokens": len(prompt)})


@rule("ML-SEG-CUT.CHAT", Role.PROMPT, mlx_lm(SERVER, "_tokenize", "3f9d179f"), since="#1072")
def cut_chat(prompt: Tokens, sys_end: int, tail: int) -> Decision:
    """Cut a prompt into up to three segments: system, everything up to the tail (all history is a single "user"
    segment), the tail."""
    found = []
    if 0 < sys_end < len(prompt):
        found.append(Segment(prompt[:sys_end], "system"))
    if sys_end < tail:
        found.append(Segment(prompt[sys_end:tail], "user"))
    if tail < len(prompt):
        found.append(Segment(prompt[tail:], "assistant"))
    because = {"sys_end": sys_end, "tail": tail, "n_tokens": len(prompt)}
    return Decision(tuple(found) or (Segment(prompt, "assistant"),), because)


@rule("ML-SEG-CUT.WHOLE", Role.PROMPT, mlx_lm(SERVER, "_tokenize", "3f9d179f"), since="#1072")
def cut_none(prompt: Tokens, role: str) -> Decision:
    """Cut no segments: a text, or a chat whose last message is not from the user, is a single segment."""
    return Decision((Segment(prompt, "assistant"),), {"role": role, "n_tokens": len(prompt)})


class RemainingPrompt(NamedTuple):
    """Tokens of a request that are left to feed, by segment, and the types of the entries at the segment ends."""

    segments: tuple[Tokens, ...]
    types: tuple[str, ...]
    error: str = ""
    kind: str = ""


def _dropped(segments: Sequence[Segment], n_cached: int) -> tuple[list[Tokens], list[str]]:
    """Drop the first ``n_cached`` tokens: whole segments with their types, then a part of a segment."""
    left, types = [one.tokens for one in segments], [one.cache_type for one in segments]
    while left and n_cached >= len(left[0]):
        n_cached -= len(left.pop(0))
        types.pop(0)
    if left and n_cached:
        left[0] = left[0][n_cached:]
    return left, types


def _split(left: list[Tokens]) -> tuple[Tokens, ...]:
    """Make the last token a segment of its own: the first answer token is sampled from it."""
    return tuple(left) if len(left[-1]) == 1 else (*left[:-1], left[-1][:-1], left[-1][-1:])


@rule("ML-SEG-REST.INDEX", Role.PROMPT, mlx_lm(GENERATE, "insert_segments", "3f9d179f to d78bf58e"))
def rest_or_index_error(segments: Sequence[Segment], n_cached: int) -> Decision:
    """Return the tokens left to prefill, with the last token apart. IndexError if everything is cached."""
    left, types = _dropped(segments, n_cached)
    nothing = RemainingPrompt((), (), "IndexError: list index out of range", INDEX_ERROR)
    rest = RemainingPrompt(_split(left), tuple(types)) if left else nothing
    return Decision(rest, {"n_cached": n_cached, "left": [len(one) for one in rest.segments]})


@rule("ML-SEG-REST.VALUE", Role.PROMPT, mlx_lm(GENERATE, "insert_segments", "0.32.2"))
def rest_or_value_error(segments: Sequence[Segment], n_cached: int) -> Decision:
    """Return the tokens left to prefill, with the last token apart and without empty segments. If everything is
    cached: ValueError, which the server does not catch."""
    left, types = _dropped(segments, n_cached)
    left = [one for one in left if one]
    rest = (
        RemainingPrompt(_split(left), tuple(types))
        if left
        else RemainingPrompt((), (), "ValueError: an empty prompt", VALUE_ERROR)
    )
    return Decision(rest, {"n_cached": n_cached, "left": [len(one) for one in rest.segments]})


@rule("ML-CKPT-CREATE.SEGMENT", Role.CREATE, mlx_lm(SERVER, "_generate", "3f9d179f"), since="#1072")
def create_at_segment_end(start: int, end_of_segment: bool, types: int) -> Decision:
    """Store an entry at the end of a segment while the request has types left. ``start``: evaluated tokens."""
    because = {"start": start, "stop": start, "end_of_segment": end_of_segment, "types": types}
    return Decision(end_of_segment and types > 0, because)


@rule("ML-CKPT-CREATE.SINGLE", Role.CREATE, mlx_lm(SERVER, "_serve_single", "d78bf58e"))
def create_never(start: int) -> Decision:
    """Store no entry before the end of a request that is served alone."""
    return Decision(False, {"start": start, "stop": start})


@rule("ML-CANCEL.DROP", Role.CONSULT, mlx_lm(SERVER, "_generate", "3f9d179f"), since="#1072")
def cancel_drops() -> Decision:
    """Return False: the request of a disconnected client leaves only the entries that were stored before."""
    return Decision(False, {})


@rule("ML-THINKS.TOKENIZER", Role.PROMPT, mlx_lm(SERVER, "_tokenize", "3f9d179f to 0.32.2"))
def thinks_by_tokenizer(tokens: bool, opened: bool) -> Decision:
    """True if the tail of a prompt is looked for at a think token: if the tokenizer has one (``tokens``),
    whether or not the request asks for a thought (``opened``)."""
    return Decision(tokens, {"tokens": tokens, "opened": opened})


@rule("ML-THINKS.REQUEST", Role.PROMPT, mlx_lm("", "_has_thinking", "edbdc50a", pull=1030))
def thinks_by_request(tokens: bool, opened: bool) -> Decision:
    """True if the tail of a prompt is looked for at a think token: if the request asks for a thought."""
    return Decision(opened, {"tokens": tokens, "opened": opened})
