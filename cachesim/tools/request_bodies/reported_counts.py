"""Token counts that servers write into their replies, and what each of them counts.

| object of the reply | its fields | form of the API |
|---|---|---|
| ``timings`` | ``prompt_n`` evaluated, ``cache_n`` reused, ``predicted_n`` generated | llama.cpp, ik_llama.cpp |
| ``usage`` | ``prompt_tokens`` of the whole prompt, ``cached_tokens`` in ``prompt_tokens_details`` | chat |
| ``usage`` | ``input_tokens`` of the whole prompt, ``cached_tokens`` in ``input_tokens_details`` | Responses |
| ``usage`` | ``input_tokens`` without ``cache_read_input_tokens``, ``cache_creation_input_tokens`` | Anthropic |
| ``meta_info`` | ``prompt_tokens``, ``cached_tokens``, ``completion_tokens`` | SGLang's ``/generate`` |
| the reply | ``eval_count`` generated, ``prompt_eval_count`` of the whole prompt since 0.4 | Ollama |

Before 0.4, Ollama's ``prompt_eval_count`` is the evaluated part: it is read if the request shows a later version.
Sources: ``server_slot_stats::to_json`` and ``server-task.cpp`` of llama.cpp b11549, the runners of Ollama 0.4 to 0.33,
``entrypoints/anthropic/serving.py`` of vLLM 0.33.0, ``managers/tokenizer_manager.py`` of SGLang 0.5.23.
"""

from __future__ import annotations

import json
from typing import Any, Iterator, Mapping, NamedTuple, TypeGuard

Stated = dict[tuple[str, str], int]
"""Object of a reply, field -> count. A field of an inner object, such as ``prompt_tokens_details``, counts as one of
the object around it."""

OBJECTS = ("timings", "usage", "meta_info", "error")
WRAPPERS = ("message", "response")
"""Keys of an event that may contain the object with the counts."""
INNER = ("content", "body", "text", "response", "data", "json")
"""Keys of a dump that may contain the reply, or its text."""
DEEP = 4                     # nested wrappers of a reply, at most
LAST = 64                    # events with counts that are read of a stream: the first, and as many from the end
EVENT = "event"
"""Stands for the reply itself, in place of the name of an object."""
PROMPT_EVAL = "prompt_eval_count"
OF_EVENT = ("id_slot", "tokens_evaluated", "total_slots", "n_restored", "n_erased", "eval_count",
            PROMPT_EVAL)
"""Counts that a reply states outside of an object."""


class ReportedCounts(NamedTuple):
    """Tokens of a request as its reply states them, None = not stated."""

    prompt: int | None = None
    reused: int | None = None
    evaluated: int | None = None
    generated: int | None = None


NO_COUNTS = ReportedCounts()


def counts_of_answer(answer: Any, counts_whole_prompt: bool = False) -> ReportedCounts:
    """Return the counts in a recorded reply: JSON, its text, an event stream, or one of these in a wrapper of a dump.
    Never raises; without counts NO_COUNTS. ``counts_whole_prompt``: ``prompt_eval_count`` is the whole prompt."""
    stated: Stated = {}
    for event in _replies(answer):
        take_counts(event, stated)
    found = reported_counts(stated)
    whole = stated.get((EVENT, PROMPT_EVAL)) if counts_whole_prompt else None
    return found if whole is None else found._replace(prompt=whole)


def _replies(value: Any, deep: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a recorded reply, the last events of a stream in order."""
    if deep > DEEP:
        return
    if isinstance(value, str):
        for event in _events(value):
            yield from _replies(event, deep + 1)
    elif isinstance(value, list):
        for event in value[-LAST:]:
            if isinstance(event, dict):
                yield event
    elif isinstance(value, dict):
        if not any(name in value for name in (*OBJECTS, *OF_EVENT)):
            for key in INNER:
                yield from _replies(value.get(key), deep + 1)
        yield value


def _events(text: str) -> Iterator[Any]:
    """Yield the values of a text: JSON, or the events of a stream that may have counts."""
    whole = _parsed(text)
    if whole is not None:
        yield whole
        return
    lines = [line for line in text.splitlines() if any(f'"{name}"' in line for name in (*OBJECTS, *OF_EVENT))]
    for line in [*lines[:1], *lines[1:][-LAST:]]:
        event = _parsed(line.removeprefix("data:"))
        if event is not None:
            yield event


def _parsed(text: str) -> Any:
    """Return the value of a JSON object or list, None for any other text."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def take_counts(event: Mapping[str, Any], stated: Stated) -> None:
    """Add the counts of an event. A later event of the same reply replaces those of an earlier one."""
    inner = [event.get(key) for key in WRAPPERS]
    for holder in (event, *(one for one in inner if isinstance(one, dict))):
        for name in OBJECTS:
            found = holder.get(name)
            for counts in (found, *found.values()) if isinstance(found, dict) else ():
                for key, count in counts.items() if isinstance(counts, dict) else ():
                    if is_count(count):
                        stated[name, key] = count
    for key in OF_EVENT:
        if is_count(event.get(key)):
            stated[EVENT, key] = event[key]


def is_count(value: Any) -> TypeGuard[int]:
    """True if a JSON value is a plausible count."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31


def reported_counts(stated: Mapping[tuple[str, str], int]) -> ReportedCounts:
    """Return what the counts of a reply say about its request."""
    reused = _first(
        stated,
        ("timings", "cache_n"),
        ("usage", "cached_tokens"),
        ("usage", "cache_read_input_tokens"),
        ("meta_info", "cached_tokens"),
    )
    prompt = _prompt(stated)
    evaluated = stated.get(("timings", "prompt_n"))
    if evaluated is None and prompt is not None and reused is not None:
        evaluated = max(0, prompt - reused)
    generated = _first(
        stated,
        ("timings", "predicted_n"),
        ("usage", "completion_tokens"),
        ("usage", "output_tokens"),
        ("meta_info", "completion_tokens"),
        (EVENT, "eval_count"),
    )
    return ReportedCounts(prompt=prompt, reused=reused, evaluated=evaluated, generated=generated)


def _prompt(stated: Mapping[tuple[str, str], int]) -> int | None:
    """Return the tokens of the whole prompt."""
    evaluated = stated.get(("timings", "prompt_n"))
    cached = stated.get(("timings", "cache_n"))
    if evaluated is not None and cached is not None:
        return evaluated + cached
    whole = stated.get(("usage", "prompt_tokens"))
    if whole is not None:
        return whole
    sent = stated.get(("usage", "input_tokens"))
    if sent is not None:
        read = stated.get(("usage", "cache_read_input_tokens"), 0)
        written = stated.get(("usage", "cache_creation_input_tokens"), 0)
        return sent + read + written
    return _first(
        stated, ("meta_info", "prompt_tokens"), ("error", "n_prompt_tokens"), (EVENT, "tokens_evaluated"))


def _first(stated: Mapping[tuple[str, str], int], *places: tuple[str, str]) -> int | None:
    """Return the first of these counts that a reply states."""
    return next((stated[place] for place in places if place in stated), None)
