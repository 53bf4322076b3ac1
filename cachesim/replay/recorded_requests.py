"""Conversion of a recorded request and its answer to a Request that reproduces it: forced tokens, message starts,
drafts and disconnects.

Sources of the drafts are a step's drafting events: FORMAT.md, "What a step leaves open", describes which events follow
which draft, and what is not recorded.
"""

from __future__ import annotations

import re
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Mapping, Sequence

from cachesim.base.errors import BadInput, quoted
from cachesim.base.media_items import image_items, is_item
from cachesim.base.tokens import Tokens
from cachesim.engines.base import AS_MANY_AS_ALLOWED, BEFORE_ITS_PROMPT, NO_TOKEN, Draft, Request
from cachesim.engines.shared.vocab import PIECES, SPECIAL
from cachesim.replay.event_owners import RequestEvents

REMEMBERED = 1024            # characters of a text whose tokens are remembered, at most
TOKENS = {text: token for token, text in enumerate(PIECES) if len(text) == 1 or token in SPECIAL}
PIECE = re.compile("|".join((*map(re.escape, SPECIAL.values()), ".")), re.S)


def tokenize(text: str) -> Tokens:
    """Return the tokens of a text of message marks and single characters (such as delimiters). Raise BadInput."""
    return _remembered(text) if len(text) <= REMEMBERED else _tokens(text)


@lru_cache(maxsize=256)
def _remembered(text: str) -> Tokens:
    return _tokens(text)


def _tokens(text: str) -> Tokens:
    out: list[int] = []
    for found in PIECE.finditer(text):
        token = TOKENS.get(found[0])
        if token is None:
            raise BadInput(f"character {quoted(found[0])} of a delimiter is not in the recorded vocabulary")
        out.append(token)
    return tuple(out)


def starts_of(prompt: Tokens, delimiters: list[tuple[str, Tokens]], role: str = "user") -> tuple[int, ...]:
    """Return the indices in the prompt at which a message of the role begins; the first matching delimiter counts."""
    out, first = [], {mark[0] for _, mark in delimiters if mark}
    for i, token in enumerate(prompt):
        for name, mark in delimiters if token in first else ():
            if mark and token == mark[0] and prompt[i : i + len(mark)] == mark:
                if name == role:
                    out.append(i)
                break
    return tuple(out)


def token_at_byte(prompt: Tokens, byte: int) -> int:
    """Return the number of tokens before a byte offset of the prompt's text."""
    seen = 0
    for i, token in enumerate(prompt):
        if seen >= byte:
            return i
        seen += len(PIECES[token].encode())
    return len(prompt)


Event = Mapping[str, Any]
NO_ROOM = "batch must be large enough"        # in the last message of a process that ends
ANY_LENGTH = 1 << 20                          # above the limit of every server
LENGTHS = (2, 4, 8, 16, 32, ANY_LENGTH)      # tried for drafts without a recorded length
KINDS = ("spec_ckpt", "spec_restore", "spec_step", "release")


def read_drafts(
    events: Sequence[Event], response: Mapping[str, Any], n_prompt: int, died: str = "",
    lengths: Mapping[int, int] = MappingProxyType({}), unknown: int = 0,
) -> tuple[Draft, ...]:
    """Return the drafts of a request from its own events. ``lengths``: drafted tokens by tokens held in the slot, if
    recorded; ``unknown``: drafted tokens of a replayed draft without a recorded length, at least those that its replay
    shows."""
    mine = [e for e in events if e["ev"] in KINDS]
    unlogged = died and "p0=" not in died and [e["ev"] for e in mine[-1:]] == ["spec_ckpt"]
    if NO_ROOM in died or unlogged:           # a process that ends may not write its last line
        # The batch had no room for the draft: it began at the last known length of the slot, its own is not recorded.
        seen = _last_length(mine, ("spec_ckpt", "spec_step"), n_prompt)
        return (*read_drafts(mine, {}, n_prompt, lengths=lengths, unknown=unknown), Draft(seen, ANY_LENGTH, 0))
    if died:
        seen = _last_length(mine, ("spec_ckpt", "spec_step"), n_prompt)
        return (*read_drafts(mine, {}, n_prompt, lengths=lengths, unknown=unknown), *_last_draft(died, seen))
    if any(e["ev"] == "spec_ckpt" for e in mine):
        return tuple(_with_checkpoints(mine, lengths, unknown))
    steps = [e for e in mine if e["ev"] == "spec_step"]
    drafts = [Draft(e["n_tokens"] - 1 - e["accepted"], int(e.get("drafted", AS_MANY_AS_ALLOWED)), e["accepted"])
              for e in steps]  # fmt: skip
    if any(draft.drafted == AS_MANY_AS_ALLOWED for draft in drafts):
        return tuple(drafts)          # an engine that logs every verification without lengths
    known = [*drafts, *_unlogged(mine, response, drafts)]
    return (*known, *_last_unlogged(mine, lengths, known))


def _last_unlogged(events: Sequence[Event], lengths: Mapping[int, int], known: Sequence[Draft]) -> list[Draft]:
    """Return the last draft if no step and no sum shows it: the batch with it failed, or its verification ended the
    generation of a client that had left. The tokens in the slot at the release include those that it added."""
    held = max(lengths, default=0)
    if held <= max((draft.at for draft in known), default=0):
        return []
    right = _last_length(events, ("release",), held) - held - 1
    return [Draft(held, lengths[held], min(lengths[held], max(0, right)))]


def _unlogged(events: Sequence[Event], response: Mapping[str, Any], drafts: Sequence[Draft]) -> list[Draft]:
    """Return the draft whose verification ended the generation, which logs no step: its length is the sum of drafted
    tokens minus the logged drafts, and all of it was accepted."""
    left = int(response.get("draft_n", 0)) - sum(draft.drafted for draft in drafts)
    ends = [int(e["n_tokens"]) for e in events if e["ev"] == "release"]
    return [Draft(ends[-1] - left - 1, left, left)] if left > 0 and ends else []


def last_of_child(events: Sequence[Event], drafts: Sequence[Draft], n_prompt: int) -> tuple[Draft, ...]:
    """Return the draft whose verification ended a further completion. It is in no log and in no sum; a drafter that
    drafts in every iteration drafted all tokens after the last logged verification but the last."""
    held = _last_length(events, ("spec_step",), n_prompt)
    right = _last_length(events, ("release",), held) - held - 1
    logged = any(draft.at == held for draft in drafts)
    return (Draft(held, right, right),) if right > 0 and not logged else ()


def second_rejection(events: Sequence[Event]) -> int | None:
    """Return the index of the first event that restores a checkpoint again although nothing was verified since its last
    restore, None without such an event. The accepted tokens were evaluated again, and the model then chose another
    last token; its first choice is not recorded."""
    last: dict[Any, str] = {}
    for place, event in enumerate(events):
        if event["ev"] in KINDS:
            if event["ev"] == last.get(event.get("task")) == "spec_restore":
                return place
            last[event.get("task")] = event["ev"]
    return None


def _with_checkpoints(events: Sequence[Event], lengths: Mapping[int, int], unknown: int) -> list[Draft]:
    """Return the drafts of a memory that cannot be truncated: each begins with a checkpoint of the slot."""
    out = []
    for place, event in enumerate(events):
        if event["ev"] != "spec_ckpt":
            continue
        behind = list(events[place + 1 : place + 3])
        kinds = [e["ev"] for e in behind]
        held = int(event["n_tokens"])
        if kinds[:1] == ["spec_restore"]:
            # Rejected: the accepted tokens and another token are replayed; the drafted number is not logged.
            replayed = _replayed(behind[1:], held)
            out.append(Draft(held, max(replayed, lengths.get(held, unknown)), replayed - 1))
        elif kinds[:1] == ["spec_step"]:
            out.append(Draft(held, int(behind[0]["drafted"]), int(behind[0]["accepted"])))
        elif kinds[:1] == ["release"]:
            right = int(behind[0]["n_tokens"]) - held - 1
            out.append(Draft(held, max(1, right), max(1, right)))
    return out


def _replayed(behind: Sequence[Event], held: int) -> int:
    """Return the tokens that were replayed after a rejection, from the step or from the end of the slot."""
    if behind and behind[0]["ev"] == "spec_step":
        return int(behind[0]["drafted"])
    return max(1, int(behind[0]["n_tokens"]) - held - 1) if behind and behind[0]["ev"] == "release" else 1


def _last_length(events: Sequence[Event], kinds: tuple[str, ...], otherwise: int) -> int:
    """Return the tokens in the slot at the last event of these kinds, ``otherwise`` without such an event."""
    return next((int(e["n_tokens"]) for e in reversed(events) if e["ev"] in kinds), otherwise)


def _last_draft(died: str, held: int) -> tuple[Draft, ...]:
    """Return the draft at whose rejection the process ended, after ``held`` tokens: the message contains the position
    of the first wrong token."""
    found = re.search(r"p0=(\d+)", died)
    if found is None:
        return ()
    right = int(found[1]) - held - 1
    return (Draft(held, right + 1, right),)


CHAT = [("user", "<|im_start|>user\n"), ("assistant", "<|im_start|>assistant\n")]


def make_request(
    op: str, body: Mapping[str, Any], response: Mapping[str, Any], own: RequestEvents, died: str = "",
    by_model: bool = False, log: Mapping[str, Any] = MappingProxyType({}), unknown: int = 0,
) -> Request:
    """Return the request of a step. Its ``own`` events show the drafts and when a disconnect took effect; ``died``:
    last message of a process that ended in the step; ``by_model``: a model drafts. ``log``: what the recording contains
    besides the response (`drafts`: pairs of tokens held and tokens drafted; `generated`: tokens of a request that was
    never answered, or whose client had disconnected before it ended; `kind` of its task); ``unknown``: see
    ``read_drafts``."""
    prompt = tuple(token if token < len(PIECES) or is_item(token) else NO_TOKEN for token in body["prompt"])
    starts, byte_pos = _message_starts(op, body, prompt)
    reuse = body.get("n_cache_reuse")
    children = response.get("completions") or ()
    lengths = {int(held): int(drafted) for held, drafted in reversed(log.get("drafts") or ())}    # the first counts
    generated, answers_checked = log.get("generated") or (), response.get("tokens_in_slot") or response.get("tokens")
    # True if it generated all its tokens before the server noticed that the client had disconnected.
    came_to_its_end = bool(response.get("cancelled")) and len(generated) == body.get("n_predict")
    gone = "cancel_after" in body or bool(response.get("cancelled"))
    stop = body.get("stop") or ()
    return Request(
        prompt=prompt, user_starts=starts, byte_pos=byte_pos, chat=op == "chat", kind=log.get("kind", "completion"),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        n_predict=int(body.get("max_tokens", body.get("n_predict", -1))),
        forced=tuple(generated if came_to_its_end else answers_checked or generated),
        cache_prompt=bool(body.get("cache_prompt", True)), id_slot=int(body.get("id_slot", -1)),
        n_keep=int(body["n_keep"]) if "n_keep" in body else None, n_discard=int(body.get("n_discard", 0)),
        n_cache_reuse=None if reuse is None else int(reuse),
        n_cmpl=int(body.get("n_cmpl", body.get("n", 1))),
        children_forced=tuple(tuple(child.get("tokens_in_slot") or child.get("tokens", ())) for child in children),
        cancel_at=_cancel_at(body, own.events) if gone and not (came_to_its_end or own.has_failed) else None,
        # A disconnect ends several completions in the order of a hash table, which the log shows.
        cancel_order=own.released if gone and own.children else (),
        cancel_place=own.place if gone else 0,
        extra={"lora": scales_text(body["lora"])} if body.get("lora") else {},
        drafts=read_drafts(own.events, response, len(prompt), died, lengths, unknown),
        children_drafts=_drafts_of_children(own, response, len(prompt), by_model, died, unknown),
    )


def with_images(step: Mapping[str, Any], images: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a recorded step in which images of prompts are replaced by their items. Raise BadInput."""
    out = dict(step)
    if "steps" in step:
        out["steps"] = [with_images(member, images) for member in step["steps"]]
    if "prompt" in (step.get("request") or ()):
        out["request"] = {**step["request"], "prompt": _expanded(step["request"]["prompt"], images)}
    return out


def _expanded(prompt: Sequence[Any], images: Mapping[str, Mapping[str, Any]]) -> list[int]:
    out: list[int] = []
    for token in prompt:
        if not isinstance(token, int):
            image = images.get(token["image"])
            if image is None:
                raise BadInput(f"image {quoted(token['image'])} is not among the recorded images")
            out.extend(image_items(image["sha256"], image["n_tokens"], image["n_pos"]))
        else:
            out.append(token)
    return out


def scales_text(scales: Sequence[Mapping[str, Any]]) -> str:
    """Return a recorded list of adapters in the form of the request's field; without its id a scale belongs to -1."""
    return ", ".join(f"{one.get('id', -1)}:{one.get('scale', 0)!r}" for one in scales)


def _drafts_of_children(
    own: RequestEvents, response: Mapping[str, Any], n_prompt: int, by_model: bool, died: str, unknown: int
) -> tuple[tuple[Draft, ...], ...]:
    """Return the drafts of further completions, whose answers have no sum of drafted tokens: a model drafts in every
    iteration, and n-grams make equal drafts of equal text. A failed request has no answers; if the process ended, they
    drafted what the first completion did."""
    found = []
    answers: Sequence[Mapping[str, Any]] = response.get("completions") or ()
    if not answers and not died:
        answers = [{} for _ in own.children]
    for events, child in zip(own.children, answers, strict=False):
        drafts = read_drafts(events, child, n_prompt, unknown=unknown)
        if "cancelled" not in response and by_model:
            drafts += last_of_child(events, drafts, n_prompt)
        elif child and child.get("tokens") == response.get("tokens"):
            drafts = read_drafts(own.events, response, n_prompt, unknown=unknown)
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
    """Return the token positions of user messages, given by byte offsets of the sent text. The server counted the
    tokens of the text before them. The text may have more bytes than its tokens, so delimiters found in the tokens are
    preferred to offsets."""
    marks = starts_of(prompt, [(role, tokenize(text)) for role, text in CHAT])
    return marks if len(marks) == len(users) else tuple(token_at_byte(prompt, byte) for byte in users)


def _cancel_at(body: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the tokens in the slot at the release of a request that was cancelled, or that its prompt did not begin;
    None if the log has no release."""
    kinds = {event["ev"] for event in events}
    if "launch" in kinds and kinds.isdisjoint(("new_prompt", "batch")):
        return BEFORE_ITS_PROMPT
    if body.get("cancel_at_n") is not None:
        return int(body["cancel_at_n"])
    return next((int(event["n_tokens"]) for event in reversed(events) if event["ev"] == "release"), None)
