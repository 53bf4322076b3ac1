"""A recorded request and its answer as a Request that does the same: forced tokens, message starts, hang-ups."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Mapping, Sequence

from cachesim.base.tokens import Tokens
from cachesim.engines.base import Draft, Request
from cachesim.replay.event_owners import Own
from cachesim.replay.recorded_drafts import last_of_child, read_drafts
from cachesim.replay.text_vocab import starts_of, token_at_byte, tokenize

CHAT = [("user", "<|im_start|>user\n"), ("assistant", "<|im_start|>assistant\n")]


def make_request(
    op: str, body: Mapping[str, Any], response: Mapping[str, Any], own: Own, died: str = "",
    by_model: bool = False, log: Mapping[str, Any] = MappingProxyType({}),
) -> Request:
    """The request of one step. Its ``own`` events say where a hang-up took effect, and what was drafted; ``died`` is
    the last message of a process that ended in the step; ``by_model``: a model drafts. ``log``: what the
    recording says of it beside its response (`drafts`, pairs of tokens held and tokens drafted; `generated`, the tokens
    of one that was never answered, or whose client had hung up when it came to its end)."""
    prompt = tuple(map(int, body["prompt"]))
    starts, byte_pos = _message_starts(op, body, prompt)
    reuse = body.get("n_cache_reuse")
    children = response.get("completions") or ()
    lengths = {int(held): int(drafted) for held, drafted in reversed(log.get("drafts") or ())}    # the first counts
    return Request(
        prompt=prompt,
        n_predict=int(body.get("max_tokens", body.get("n_predict", -1))),
        forced=_forced(body, response, log),
        cache_prompt=bool(body.get("cache_prompt", True)),
        id_slot=int(body.get("id_slot", -1)),
        user_starts=starts,
        chat=op == "chat",
        byte_pos=byte_pos,
        n_keep=int(body["n_keep"]) if "n_keep" in body else None,
        n_discard=int(body.get("n_discard", 0)),
        n_cache_reuse=None if reuse is None else int(reuse),
        n_cmpl=int(body.get("n_cmpl", body.get("n", 1))),
        children_forced=tuple(tuple(child.get("tokens_in_slot") or child.get("tokens", ())) for child in children),
        cancel_at=None if _came_to_its_end(body, response, log) else _cancel_at(body, own.events),
        cancel_order=_cancel_order(body, own),
        cancel_place=own.place if "cancel_after" in body else 0,
        stop=_stop_words(body),
        drafts=read_drafts(own.events, response, len(prompt), died, lengths),
        children_drafts=_drafts_of_children(own, response, len(prompt), by_model, died),
    )


def _forced(body: Mapping[str, Any], response: Mapping[str, Any], log: Mapping[str, Any]) -> Tokens:
    heard = response.get("tokens_in_slot") or response.get("tokens")
    generated = log.get("generated") or ()
    return tuple(generated if _came_to_its_end(body, response, log) else heard or generated)


def _came_to_its_end(body: Mapping[str, Any], response: Mapping[str, Any], log: Mapping[str, Any]) -> bool:
    """Did a request generate all its tokens before the server noticed that the client had hung up?"""
    return bool(response.get("cancelled")) and len(log.get("generated") or ()) == body.get("n_predict")


def _drafts_of_children(
    own: Own, response: Mapping[str, Any], n_prompt: int, by_model: bool, died: str = ""
) -> tuple[tuple[Draft, ...], ...]:
    """What was drafted in further completions. Their answers have no sum of drafted tokens: a model drafts in every
    iteration, and of the same text n-grams make the same drafts. Of a request that failed there are no answers; where
    the process ended, they drafted what the first one did."""
    found = []
    answers: Sequence[Mapping[str, Any]] = response.get("completions") or ()
    if not answers and not died:
        answers = [{} for _ in own.children]
    for events, child in zip(own.children, answers, strict=False):
        drafts = read_drafts(events, child, n_prompt)
        if "cancelled" not in response and by_model:
            drafts += last_of_child(events, drafts, n_prompt)
        elif child and child.get("tokens") == response.get("tokens"):
            drafts = read_drafts(own.events, response, n_prompt)
        found.append(drafts)
    return tuple(found)


def _message_starts(op: str, body: Mapping[str, Any], prompt: Tokens) -> tuple[tuple[int, ...], int | None]:
    if body.get("message_spans"):
        users = [int(span["pos"]) for span in body["message_spans"] if span["role"] == "user"]
        return _users_in_text(prompt, users), users[-1] if users else None
    if op == "chat" or body.get("message_delimiters"):
        marks = CHAT if op == "chat" else [(d["role"], d["delimiter"]) for d in body["message_delimiters"]]
        return starts_of(prompt, [(role, tokenize(text)) for role, text in marks]), None
    return (), None


def _users_in_text(prompt: Tokens, users: Sequence[int]) -> tuple[int, ...]:
    """Where the user messages at these byte offsets of the text that was sent begin. The server counted the tokens of
    the text before them; the text may have more bytes than the tokens that were made of it, so that a mark that the
    tokens have for every message is better than an offset."""
    marks = starts_of(prompt, [(role, tokenize(text)) for role, text in CHAT])
    return marks if len(marks) == len(users) else tuple(token_at_byte(prompt, byte) for byte in users)


def _stop_words(body: Mapping[str, Any]) -> tuple[str, ...]:
    stop = body.get("stop") or ()
    return (stop,) if isinstance(stop, str) else tuple(str(word) for word in stop)


def _cancel_at(body: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> int | None:
    """Tokens in the slot when a request whose client hung up was released; None = the client stayed."""
    if "cancel_after" not in body:
        return None
    if body.get("cancel_at_n") is not None:
        return int(body["cancel_at_n"])
    ends = [int(event["n_tokens"]) for event in events if event["ev"] == "release"]
    return ends[-1] if ends else None


def _cancel_order(body: Mapping[str, Any], own: Own) -> tuple[int, ...]:
    """The slots of several completions in the order in which a hang-up ended them: the order of a hash table, which is
    read from the log."""
    if "cancel_after" not in body or not own.children:
        return ()
    return own.released
