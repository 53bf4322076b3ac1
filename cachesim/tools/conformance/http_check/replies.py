"""What is in the JSON of a reply? Nothing of it is believed: what has another form is not there."""

from __future__ import annotations

from math import isfinite, log
from typing import Any, Mapping

from cachesim.base.errors import BadInput, cut
from cachesim.tools.conformance.http_check.answers import Answered, Place
from cachesim.tools.conformance.protocol import Failed, Reply

LEAST = 1e-9                 # probability that stands for 0


def native(said: Mapping[str, Any], cancelled: bool = False) -> Reply:
    """A reply of POST /completion."""
    timings = mapping(said.get("timings"))
    evaluated, total, cached = timings.get("prompt_n"), said.get("tokens_evaluated"), timings.get("cache_n")
    if cached is None and isinstance(total, int) and isinstance(evaluated, int):
        cached = total - evaluated
    ids = tokens(said.get("tokens"))
    found = said.get("completion_probabilities")
    places = tuple(map(place, found)) if isinstance(found, list) else ()
    return Reply(ids, _answered(ids, said.get("content"), places), count(cached), count(evaluated))


def openai(said: Mapping[str, Any]) -> Reply | None:
    """A reply of POST /v1/completions or /v1/chat/completions, None if it has no answer."""
    choice = first(said.get("choices"))
    message = mapping(choice.get("message"))
    text = choice.get("text", message.get("content", message.get("reasoning")))
    if not isinstance(text, str) and not message:
        return None
    usage, timings = mapping(said.get("usage")), mapping(said.get("timings"))
    cached, total = mapping(usage.get("prompt_tokens_details")).get("cached_tokens"), count(usage.get("prompt_tokens"))
    cached = count(timings.get("cache_n")) if cached is None else count(cached)
    evaluated = total - cached if total is not None and cached is not None and cached <= total else None
    names, places = _logprobs(mapping(choice.get("logprobs")))
    return Reply(None, _answered(names, text, places), cached, evaluated)


def _logprobs(found: Mapping[str, Any]) -> tuple[tuple[Any, ...] | None, tuple[Place, ...]]:
    """Generated tokens and the likeliest ones at each place: of completions (``top_logprobs``) or of chats
    (``content``). All requests are greedy, so the likeliest was generated: not every server names the right one."""
    content, top = found.get("content"), found.get("top_logprobs")
    listed = content if isinstance(content, list) else top if isinstance(top, list) else []
    places = tuple(map(place, listed))
    names = tuple(max(one, key=lambda key: one[key]) for one in places if one)
    return (names if len(names) == len(places) and names else None), places


def place(found: Any) -> Place:
    """The likeliest tokens at one place, however they are written: token to log-probability, or a list of such."""
    if isinstance(found, Mapping):
        listed = found.get("top_logprobs") or found.get("top_probs") or found.get("probs")
        if isinstance(listed, Mapping | list):
            return place(listed)
        return {key: float(one) for key, one in found.items() if _number(one) and key != "logprob"}
    kept = [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
    likely = {name(one, -number): _logprob(one) for number, one in enumerate(kept, 1)}
    return {key: one for key, one in likely.items() if one is not None}


def name(one: Mapping[str, Any], other: Any = "") -> Any:
    """What a token is known by: its id if that is there, ``other`` where nothing is."""
    return next((one[key] for key in ("id", "token", "tok_str") if isinstance(one.get(key), int | str)), other)


def _logprob(one: Mapping[str, Any]) -> float | None:
    if _number(one.get("logprob")):
        return float(one["logprob"])
    return log(max(LEAST, float(one["prob"]))) if _number(one.get("prob")) else None


def _answered(ids: tuple[Any, ...] | None, text: Any, places: tuple[Place, ...]) -> Answered | None:
    """None where nothing is known but tokens: these are compared by themselves."""
    shown = text if isinstance(text, str) else ""
    return Answered(ids, shown, places) if any(places) or shown else None


def refused(status: int, said: Any) -> Reply:
    """A client error is an answer; anything else is none. Raises Failed, or BadInput where a key is wanted."""
    error = said.get("error") if isinstance(said, Mapping) else None
    text = error.get("message") if isinstance(error, Mapping) else error
    if status in (401, 403):
        raise BadInput("the server wants a key", hint="--key KEY")
    if 400 <= status < 500:
        return Reply(refused=f"{status}: {cut(str(text or 'refused'), 80)}")
    if status == 200:
        raise Failed(f"no answer in the reply: {cut(str(said), 80)}")
    raise Failed(f"status {status}: {cut(str(text or said), 80)}")


def first(found: Any) -> Mapping[str, Any]:
    """The first mapping of a list, an empty one if there is none."""
    return mapping(found[0]) if isinstance(found, list) and found else {}


def mapping(found: Any) -> Mapping[str, Any]:
    """The mapping, an empty one for anything else."""
    return found if isinstance(found, Mapping) else {}


def tokens(found: Any) -> tuple[int, ...] | None:
    """Token ids, None for anything else."""
    good = isinstance(found, list) and all(isinstance(one, int) and one >= 0 for one in found)
    return tuple(found) if good else None


def count(found: Any) -> int | None:
    """A count, None for anything else."""
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None


def _number(found: Any) -> bool:
    return isinstance(found, int | float) and not isinstance(found, bool) and isfinite(found)
