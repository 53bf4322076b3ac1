"""Conversion of a server's responses into the format of a recording."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

from cachesim.base.errors import CAUSE, cut
from cachesim.base.http_client import HttpReply
from cachesim.base.json_shapes import INT64
from cachesim.engines.llama_cpp.log_events import Entry, read_event
from cachesim.replay.event_owners import further_completions
from cachesim.tools.live.llama_server.tasks import read_tasks

SLOT = ("n_saved", "n_written", "n_restored", "n_read", "n_erased")
ERROR = ("code", "message", "type")
TIMINGS = ("cache_n", "prompt_n", "predicted_n")
BODY = ("tokens_evaluated", "tokens_cached", "truncated", "stop_type", "tokens")


def read_completion(reply: HttpReply) -> dict[str, Any]:
    """Convert a completion; of several completions the first, with the others under ``completions``."""
    if reply.status != 200:
        return _error(reply)
    bodies = reply.body if isinstance(reply.body, list) else [reply.body]
    out = {"status": reply.status, **_one(bodies[0])}
    if len(bodies) > 1:
        children = [{"index": body["index"], **_one(body)} for body in bodies[1:]]
        out["completions"] = [{key: one[key] for key in one if key != "tokens_evaluated"} for one in children]
    return out


def _one(body: Mapping[str, Any]) -> dict[str, Any]:
    timings = body["timings"]
    out = {"id_slot": body["id_slot"], **{name: timings[name] for name in TIMINGS}}
    out |= {name: body[name] for name in BODY}
    return {**out, **{name: timings[name] for name in ("draft_n", "draft_n_accepted") if name in timings}}


def read_slot(reply: HttpReply) -> dict[str, Any]:
    """Convert the response of a slot operation, or of a change of adapters."""
    if reply.status != 200:
        return _error(reply)
    body = reply.body if isinstance(reply.body, Mapping) else {}
    done = {"success": True} if body.get("success") is True else {}
    return {"status": reply.status, **{name: body[name] for name in SLOT if _is_count(body.get(name))}, **done}


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= INT64


def _error(reply: HttpReply) -> dict[str, Any]:
    """Return status and error; fields of other types than those of llama-server are omitted."""
    error = reply.body.get("error") if isinstance(reply.body, Mapping) else None
    known = {name: error.get(name) for name in ERROR} if isinstance(error, Mapping) else {}
    kept = {name: cut(value, CAUSE) if isinstance(value, str) else value for name, value in known.items()
            if isinstance(value, str) or _is_count(value)}  # fmt: skip
    return {"status": reply.status, "error": kept}


def hung_up(seen: list[int], request: Mapping[str, Any], said: Sequence[Entry], task: int | None) -> dict[str, Any]:
    """Return the response of a request whose client disconnected after ``seen``. The log of its ``task`` shows the
    tokens left in the slot; None = the task was never launched."""
    out: dict[str, Any] = {"cancelled": True, "tokens": seen}
    if task is None:
        return out
    tasks, n_prompt = read_tasks(said), len(request["prompt"])
    end, made = tasks[task].end, tasks[task].tokens
    if end is not None and end >= n_prompt:
        out["tokens_in_slot"] = made[: end - n_prompt]
        out["streamed_tokens_match"] = made[: len(seen)] == seen
    if int(request.get("n_cmpl", 1)) > 1:
        events = [event for event in map(read_event, said) if event is not None and event["task"] is not None]
        out["completions"] = [{"index": index, "tokens": tasks[child].tokens}
                              for index, child in enumerate(further_completions(events, task), 1)]  # fmt: skip
    return out


def undelivered(body: Mapping[str, Any], request: Mapping[str, Any],
                cold: Callable[[Mapping[str, Any]], dict[str, Any] | None]) -> dict[str, Any]:  # fmt: skip
    """Return ``tokens_in_slot`` if a stop fell inside an accepted draft. The slot then holds more accepted tokens than
    were delivered; the cold server supplies the missing tokens."""
    if not body["timings"].get("draft_n") or body["truncated"]:
        return {}
    tokens = list(body["tokens"])
    more = int(body["tokens_cached"]) - (len(request["prompt"]) + len(tokens) - 1)
    if more <= 0:
        return {}
    longer = cold({**request, "n_predict": len(tokens) + more - 1}) if more > 1 else {"tokens": tokens}
    return {"tokens_in_slot": list(longer["tokens"])} if longer is not None else {}
