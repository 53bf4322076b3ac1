"""Handlers of log lines: each stores the values of its kinds of line in the request or in the facts about the
server."""

from __future__ import annotations

from typing import Callable

from cachesim.engines.shared.log_grammar import Read
from cachesim.tools.server_logs.session import LINE_HANDLERS, LineHandler, LoggedRequest, LogState

RequestHandler = Callable[[LogState, Read, LoggedRequest], None]

def handles(*kinds: str) -> Callable[[LineHandler], LineHandler]:
    """Return a decorator that registers a handler for lines of these kinds."""

    def enter(heard: LineHandler) -> LineHandler:
        LINE_HANDLERS.update(dict.fromkeys(kinds, heard))
        return heard

    return enter


def handles_request(
    *kinds: str, begins: bool = False, late: bool = False
) -> Callable[[RequestHandler], RequestHandler]:
    """Return a decorator that registers a handler for these kinds of line. The handler gets the request that the line
    is about (see ``LogState.request_of``), and is not called without a request."""

    def enter(heard: RequestHandler) -> RequestHandler:
        def with_request(reader: LogState, read: Read, number: int) -> None:
            if (request := reader.request_of(read, number, begins, late)) is not None:
                heard(reader, read, request)

        LINE_HANDLERS.update(dict.fromkeys(kinds, with_request))
        return heard

    return enter


def token_count(read: Read, name: str) -> int | None:
    """Return a token count from a line, None if it is missing or not a plausible count."""
    found = read.numbers.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 1 << 31 else None


def _share(read: Read, name: str) -> float | None:
    """Return a share between 0 and 1 from a line, None if it is missing or outside that range."""
    found = read.numbers.get(name)
    return float(found) if isinstance(found, int | float) and 0 <= found <= 1 else None


@handles("slot_by_lcp", "slot_by_lru", "slot_by_id")
def _chosen(reader: LogState, read: Read, number: int) -> None:
    slot = read.slot if read.slot is not None else token_count(read, "slot_arg")
    if slot is None:
        return
    how = read.line.ev.removeprefix("slot_by_")
    if (thold := _share(read, "thold")) is not None:
        reader.session.facts.setdefault("similarity", thold)
    before = reader.choice.get(slot, {})
    reader.choice = {slot_id: found for slot_id, found in reader.choice.items() if "chosen" in found}   # drop others
    reader.choice.pop(slot, None)
    reader.choice[slot] = {**before, "chosen": how, "f_sim": _share(read, "f_sim"), "f_keep": _share(read, "f_keep")}
    lengths = (token_count(read, name) for name in ("lcp", "max_lcp_len"))
    if how == "lcp" and (lcp := next((length for length in lengths if length is not None), None)) is not None:
        reader.choice[slot]["lcp"] = lcp


@handles("slot_sim")
def _similar(reader: LogState, read: Read, number: int) -> None:
    """Store the common prefix of `checking sim = x (lcp/n)` for the slot selected next, or for the slot already
    selected by id."""
    if (thold := _share(read, "thold")) is not None:
        reader.session.facts.setdefault("similarity", thold)
    if read.slot is not None:
        reader.choice.setdefault(read.slot, {})["lcp"] = token_count(read, "lcp")


@handles("pc_search", "pc_cand")
def _candidate(reader: LogState, read: Read, number: int) -> None:
    """Collect the prompt cache entries that the server lists before it loads the best entry."""
    if read.line.ev == "pc_search":
        reader.candidates.clear()
    reader.candidates.append(read)


@handles("pc_load")
def _load(reader: LogState, read: Read, number: int) -> None:
    """Mark the slot selected last as loaded from the prompt cache. Its prefix and length are those of the listed entry
    with the same f_keep, None if no entry was listed."""
    if not reader.choice:
        return
    choice = reader.choice[next(reversed(reader.choice))]
    choice.update({"loaded": True, "lcp": None, "held": None})
    for entry in reader.candidates:
        if entry.numbers.get("lcp") is not None and entry.numbers.get("f_keep") == read.numbers.get("f_keep"):
            choice.update({"lcp": token_count(entry, "lcp"), "held": token_count(entry, "n_tokens")})


@handles("launch")
def _launch(reader: LogState, read: Read, number: int) -> None:
    reader.request_of(read, number, begins=True)


@handles("new_prompt", "prompt_size")
def _prompt(reader: LogState, read: Read, number: int) -> None:
    request = reader.request_of(read, number, begins=read.line.ev == "new_prompt")
    if request is not None and request.n_tokens is None:
        request.n_tokens = token_count(read, "n_tokens")
    if (n_ctx := token_count(read, "n_ctx_slot")) is not None:
        reader.session.facts.setdefault("n_ctx_slot", n_ctx)


@handles("n_past", "prefix")
def _prefix(reader: LogState, read: Read, number: int) -> None:
    request = reader.request_of(read, number, begins=read.line.ev == "prefix")
    if request is not None:
        request.lcp, request.held = token_count(read, "n_past"), token_count(read, "held")
        request.pos_min = token_count(read, "pos_min")
    if (n_swa := token_count(read, "n_swa")) is not None:
        reader.session.facts.setdefault("n_swa", n_swa)


@handles("reused")
def _reused(reader: LogState, read: Read, number: int) -> None:
    """Store a request of mlx_lm. No other line is about its start; mlx_lm answers requests
    sequentially."""
    request = reader.request_of(read._replace(slot=0), number, begins=True)
    if request is not None:
        request.cache_n, request.n_tokens = token_count(read, "cache_n"), token_count(read, "n_tokens")
        request.prompt_n = token_count(read, "prompt_n")
        reader.open.pop(request.slot, None)


@handles_request("in_cache", begins=True)
def _in_cache(reader: LogState, read: Read, request: LoggedRequest) -> None:
    request.cache_n, request.prompt_n = token_count(read, "n_past"), token_count(read, "prompt_n")


@handles_request("ckpt_check")
def _checked(reader: LogState, read: Read, request: LoggedRequest) -> None:
    lo, hi, thold = token_count(read, "pos_min"), token_count(read, "pos_max"), read.numbers.get("thold")
    if lo is not None and hi is not None and isinstance(thold, int):
        request.checked.append((lo, hi, thold))
        request.seen = max(request.seen, hi + 1)


@handles_request("ckpt_restore")
def _restored(reader: LogState, read: Read, request: LoggedRequest) -> None:
    n_past, hi = token_count(read, "n_past"), token_count(read, "pos_max")
    request.prefix_end = token_count(read, "prefix_end") if request.prefix_end is None else request.prefix_end
    request.restored = n_past if n_past is not None else None if hi is None else hi + 1
    request.cache_n = request.restored if request.cache_n is None else request.cache_n


@handles_request("ckpt_invalidate")
def _invalidated(reader: LogState, read: Read, request: LoggedRequest) -> None:
    """Store the common prefix that a fork prints. The checkpoint proves a minimum length of the slot's contents."""
    hi = token_count(read, "pos_max")
    if request.prefix_end is None:
        request.prefix_end = token_count(read, "prefix_end")
    if hi is not None and request.held is None:
        request.seen = max(request.seen, hi + 1)


@handles_request("full_reprocess", "trim_failed", late=True)
def _full(reader: LogState, read: Read, request: LoggedRequest) -> None:
    request.full, request.cache_n = True, 0


@handles_request("batch")
def _batch(reader: LogState, read: Read, request: LoggedRequest) -> None:
    p0 = token_count(read, "p0")
    if p0 is not None and request.whole and not request.evaluation_begun:
        request.cache_n, request.evaluation_begun = p0, True           # may be restored - 1 (last token again)


@handles_request("progress")
def _progress(reader: LogState, read: Read, request: LoggedRequest) -> None:
    """Store the share of the prompt that is evaluated. It gives the length of the prompt if a single integer fits."""
    done, share = token_count(read, "n_tokens"), _share(read, "share")
    if done is not None and share:
        request.share = done, share


@handles_request("prompt_done")
def _done(reader: LogState, read: Read, request: LoggedRequest) -> None:
    if request.n_tokens is None:
        request.n_tokens = token_count(read, "n_tokens")


@handles_request("reuse_chunk")
def _moved(reader: LogState, read: Read, request: LoggedRequest) -> None:
    """Store a reused chunk that the server moved in the slot. The first chunk follows the common prefix."""
    at, low, high = token_count(read, "p0"), token_count(read, "c0"), token_count(read, "c1")
    if at is not None and low is not None and high is not None:
        request.lcp = at if not request.chunks else request.lcp
        request.chunks.append((low, high))


@handles("ckpt_create")
def _created(reader: LogState, read: Read, number: int) -> None:
    """Store a new checkpoint. ik_llama.cpp creates a checkpoint after the end of a request."""
    request = reader.request_of(read, number, late=True)
    lo, hi = token_count(read, "pos_min"), token_count(read, "pos_max")
    n_tokens = token_count(read, "n_tokens")
    if request is not None and hi is not None:
        request.created.append(hi + 1 if n_tokens is None else n_tokens)
        request.spans.append((hi if lo is None else lo, hi))
    if (most := token_count(read, "max")) is not None:
        reader.session.facts.setdefault("max", most)


@handles("prompt_time", "eval_time")
def _timed(reader: LogState, read: Read, number: int) -> None:
    request, count = reader.timed_request(read, number), "prompt_n" if read.line.ev == "prompt_time" else "predicted_n"
    if request is not None and getattr(request, count) is None:
        setattr(request, count, token_count(read, count))


@handles_request("release")
def _released(reader: LogState, read: Read, request: LoggedRequest) -> None:
    request.end = token_count(read, "n_tokens")
    if request.end is None:
        request.end = token_count(read, "n_cache_tokens")
    request.truncated = bool(read.numbers.get("truncated", False))
    if request.end is not None:
        reader.ends[request.slot] = request.end
    reader.closed[request.slot] = request
    reader.open.pop(request.slot, None)


@handles_request("too_long")
def _refused(reader: LogState, read: Read, request: LoggedRequest) -> None:
    request.refused, request.n_tokens = True, token_count(read, "n_tokens")
    reader.open.pop(request.slot, None)


@handles_request("ctx_shift")
def _shifted(reader: LogState, read: Read, request: LoggedRequest) -> None:
    kept, gone = token_count(read, "n_keep"), token_count(read, "n_discard")
    if kept is not None and gone is not None:
        request.shifts.append((kept, gone))


@handles("slot_purge")
def _purged(reader: LogState, read: Read, number: int) -> None:
    slot = token_count(read, "slot_arg")
    if slot is not None:
        reader.ends.pop(slot, None)


FACTS_BY_KIND = {"no_limit": {"limit_mib": -1}, "no_cache": {"limit_mib": 0}, "no_ckpt": {"max": 0}}
"""Facts about the server from kinds of line without numbers."""


@handles("server", "memory", "version", "start_ckpt", "start_cache", "pc_state", *FACTS_BY_KIND)
def _facts(reader: LogState, read: Read, number: int) -> None:
    for name, found in FACTS_BY_KIND.get(read.line.ev, read.numbers).items():
        reader.session.facts.setdefault(name, found)
