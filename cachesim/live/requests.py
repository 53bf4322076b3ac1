"""A recorded request and its answer as a Request that does the same: forced tokens, message starts, hang-ups."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

from cachesim.engines.base import Request
from cachesim.live.drafts import read_drafts
from cachesim.live.vocab import starts_of, token_at_byte, tokenize
from cachesim.tokens import Tokens

CHAT = [("user", "<|im_start|>user\n"), ("assistant", "<|im_start|>assistant\n")]


def make_request(
    op: str, body: Mapping[str, Any], response: Mapping[str, Any], events: Sequence[Mapping[str, Any]], died: str = ""
) -> Request:
    """The request of one step. ``events`` are those of the step: they say where a hang-up took effect, and what was
    drafted; ``died`` is the last message of a process that ended in the step."""
    prompt = tuple(int(token) for token in body["prompt"])
    starts, byte_pos = _message_starts(op, body, prompt)
    reuse = body.get("n_cache_reuse")
    children = response.get("completions") or ()
    return Request(
        prompt=prompt,
        n_predict=int(body.get("max_tokens", body.get("n_predict", -1))),
        forced=tuple(response.get("tokens_in_slot") or response.get("tokens") or ()),
        cache_prompt=bool(body.get("cache_prompt", True)),
        id_slot=int(body.get("id_slot", -1)),
        user_starts=starts,
        chat=op == "chat",
        byte_pos=byte_pos,
        n_keep=int(body.get("n_keep", 0)),
        n_discard=int(body.get("n_discard", 0)),
        n_cache_reuse=None if reuse is None else int(reuse),
        n_cmpl=int(body.get("n_cmpl", body.get("n", 1))),
        children_forced=tuple(tuple(child.get("tokens", ())) for child in children),
        cancel_at=_cancel_at(body, events),
        stop=_stop_words(body),
        drafts=read_drafts(events, response, len(prompt), died),
    )


def _message_starts(op: str, body: Mapping[str, Any], prompt: Tokens) -> tuple[tuple[int, ...], int | None]:
    if body.get("message_spans"):
        users = [int(span["pos"]) for span in body["message_spans"] if span["role"] == "user"]
        return tuple(token_at_byte(prompt, byte) for byte in users), users[-1] if users else None
    if op == "chat" or body.get("message_delimiters"):
        marks = CHAT if op == "chat" else [(d["role"], d["delimiter"]) for d in body["message_delimiters"]]
        return starts_of(prompt, [(role, tokenize(text)) for role, text in marks]), None
    return (), None


def _stop_words(body: Mapping[str, Any]) -> tuple[str, ...]:
    stop = body.get("stop") or ()
    return (stop,) if isinstance(stop, str) else tuple(str(word) for word in stop)


def _cancel_at(body: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> int | None:
    """Tokens in the slot when a request whose client hung up was released; None = the client stayed."""
    if "cancel_after" not in body:
        return None
    ends = [int(event["n_tokens"]) for event in events if event["ev"] == "release"]
    return ends[-1] if ends else None
