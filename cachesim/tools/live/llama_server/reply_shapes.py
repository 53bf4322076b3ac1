"""Shapes of a llama-server's replies, checked before any field is read.

Fields that are not read may have any value. Source: llama.cpp tools/server/README.md (b11549).
"""

from __future__ import annotations

from typing import Any, Mapping

from cachesim.base.errors import BadInput
from cachesim.base.json_shapes import (
    INT32,
    Shape,
    ShapeMismatch,
    anything,
    check,
    each,
    flag,
    integer,
    integers,
    number,
    optional,
    record,
    text,
)
from cachesim.base.limits import SLOTS
from cachesim.base.untrusted_files import parse_json

EXCESS = 64                  # tokens of an answer beyond the requested number that are accepted
NAME = 4096                  # longest name [characters]

count = integer(0, INT32, "a count (0 to 2147483647)")


def name(value: Any) -> None:
    """Accept a string that can be a name or a path."""
    text(value)
    if len(value) > NAME:
        raise ShapeMismatch(f"more than {NAME:,} characters")


def read(fields: Mapping[str, Shape], *needs: str) -> Shape:
    """Return a shape for objects of which only these fields are read."""
    return record(fields, needs, others=anything)


PROPS = read({
    "total_slots": integer(1, SLOTS.value, f"a number of slots (1 to {SLOTS.value})"),
    "build_info": optional(name), "model_path": optional(name),
    "default_generation_settings": optional(read({"n_ctx": optional(count)})),
}, "total_slots")  # fmt: skip
MODELS = read({"data": optional(each(read({"meta": optional(read({"n_vocab": optional(count)}))})))})
TIMINGS = read(dict.fromkeys(("cache_n", "prompt_n", "predicted_n", "draft_n", "draft_n_accepted"), count),
               "cache_n", "prompt_n", "predicted_n")  # fmt: skip
LIKELIEST = optional(each(read({"id": count, "logprob": number}, "id")))
COMPLETION = read({
    "id_slot": integer(-1, INT32), "tokens_evaluated": count, "tokens_cached": count, "truncated": flag,
    "stop_type": name, "tokens": integers(0, INT32, "a token"), "timings": TIMINGS, "index": count,
    "completion_probabilities": optional(each(read({"top_logprobs": LIKELIEST, "top_probs": LIKELIEST}))),
}, "id_slot", "tokens_evaluated", "tokens_cached", "truncated", "stop_type", "tokens", "timings")  # fmt: skip
EVENT = read({"tokens": optional(integers(0, INT32, "a token"))})


def check_completions(body: Any, asked: Mapping[str, Any], shape: Shape, place: str) -> None:
    """Check the reply to a request, a completion or a list of several. Raise BadInput if a field that is read is
    missing or has another type, or if there are more completions or tokens than requested."""
    bodies = body if isinstance(body, list) else [body]
    requested = max(1, int(asked.get("n_cmpl", 1)))
    if not 1 <= len(bodies) <= requested:
        raise BadInput(f"{len(bodies)} completions in a reply", file=place)
    if isinstance(body, list) and requested == 1:
        raise BadInput("a list of completions in a reply, one was requested", file=place)
    for one in bodies:
        check(one, shape, place)
    if any("index" not in one for one in bodies[1:]):
        raise BadInput("missing key 'index' in one of several completions", file=place)
    for one in bodies:
        longest = max(len(one.get("tokens") or ()), len(one.get("completion_probabilities") or ()))
        if 0 <= (most := int(asked.get("n_predict", -1))) < longest - EXCESS:
            raise BadInput(f"{longest:,} tokens in a reply, {most:,} were requested", file=place)


def streamed_tokens(line: str, place: str) -> list[int]:
    """Return the tokens in a line of an event stream; other lines have none. Raise BadInput for an invalid event."""
    if not line.startswith("data: ") or line == "data: [DONE]":
        return []
    event = parse_json(line.removeprefix("data: ").encode(), place, "event")
    check(event, EVENT, place)
    return [] if event.get("stop") else list(event.get("tokens") or ())
