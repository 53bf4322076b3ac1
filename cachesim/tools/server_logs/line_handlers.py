"""What each kind of line adds to what is known of a request, or of the server."""

from __future__ import annotations

from typing import Callable

from cachesim.engines.shared.log_grammar import Read
from cachesim.tools.server_logs.session import HEARD, Heard, Logged, LogState

HeardOf = Callable[[LogState, Read, Logged], None]

def hears(*kinds: str) -> Callable[[Heard], Heard]:
    """What follows is done with lines of these kinds."""

    def enter(heard: Heard) -> Heard:
        HEARD.update(dict.fromkeys(kinds, heard))
        return heard

    return enter


def hears_of(*kinds: str, begins: bool = False, late: bool = False) -> Callable[[HeardOf], HeardOf]:
    """What follows is done with the request that lines of these kinds are about (see ``LogState.of``), if there is
    one."""

    def enter(heard: HeardOf) -> HeardOf:
        def with_request(reader: LogState, read: Read, number: int) -> None:
            if (one := reader.of(read, number, begins, late)) is not None:
                heard(reader, read, one)

        HEARD.update(dict.fromkeys(kinds, with_request))
        return heard

    return enter


def number_of(read: Read, name: str) -> int | None:
    """A count of tokens, None where the line has none (or garbage)."""
    found = read.numbers.get(name)
    return found if isinstance(found, int) and not isinstance(found, bool) and 0 <= found < 1 << 31 else None


def _share(read: Read, name: str) -> float | None:
    found = read.numbers.get(name)
    return float(found) if isinstance(found, int | float) and 0 <= found <= 1 else None


@hears("slot_by_lcp", "slot_by_lru", "slot_by_id")
def _chosen(reader: LogState, read: Read, number: int) -> None:
    slot = read.slot if read.slot is not None else number_of(read, "slot_arg")
    if slot is None:
        return
    how = read.line.ev.removeprefix("slot_by_")
    if (thold := _share(read, "thold")) is not None:
        reader.session.facts.setdefault("similarity", thold)
    before = reader.choice.get(slot, {})
    reader.choice = {one: found for one, found in reader.choice.items() if "chosen" in found}      # what lost is over
    reader.choice.pop(slot, None)
    reader.choice[slot] = {**before, "chosen": how, "f_sim": _share(read, "f_sim"), "f_keep": _share(read, "f_keep")}
    if how == "lcp" and number_of(read, "lcp") is not None:
        reader.choice[slot]["lcp"] = number_of(read, "lcp")


@hears("slot_sim")
def _similar(reader: LogState, read: Read, number: int) -> None:
    """`checking sim = x (lcp/n)` says the common prefix, for whichever slot is selected then, or was named before."""
    if (thold := _share(read, "thold")) is not None:
        reader.session.facts.setdefault("similarity", thold)
    if read.slot is not None:
        reader.choice.setdefault(read.slot, {})["lcp"] = number_of(read, "lcp")


@hears("pc_search", "pc_cand")
def _candidate(reader: LogState, read: Read, number: int) -> None:
    """Entries are listed one by one before the best is loaded."""
    reader.candidates = [*([] if read.line.ev == "pc_search" else reader.candidates), read]


@hears("pc_load")
def _load(reader: LogState, read: Read, number: int) -> None:
    """The slot that was selected last gets an entry: the one with these shares, if they were listed."""
    if not reader.choice:
        return
    mine = reader.choice[next(reversed(reader.choice))]
    mine.update({"loaded": True, "lcp": None, "held": None})
    for one in reader.candidates:
        if one.numbers.get("lcp") is not None and one.numbers.get("f_keep") == read.numbers.get("f_keep"):
            mine.update({"lcp": number_of(one, "lcp"), "held": number_of(one, "n_tokens")})


@hears("launch")
def _launch(reader: LogState, read: Read, number: int) -> None:
    reader.of(read, number, begins=True)


@hears("new_prompt", "prompt_size")
def _prompt(reader: LogState, read: Read, number: int) -> None:
    one = reader.of(read, number, begins=read.line.ev == "new_prompt")
    if one is not None and one.n_tokens is None:
        one.n_tokens = number_of(read, "n_tokens")
    if (n_ctx := number_of(read, "n_ctx_slot")) is not None:
        reader.session.facts.setdefault("n_ctx_slot", n_ctx)


@hears("n_past", "prefix")
def _prefix(reader: LogState, read: Read, number: int) -> None:
    one = reader.of(read, number, begins=read.line.ev == "prefix")
    if one is not None:
        one.lcp, one.held = number_of(read, "n_past"), number_of(read, "held")
        one.pos_min = number_of(read, "pos_min")
    if (n_swa := number_of(read, "n_swa")) is not None:
        reader.session.facts.setdefault("n_swa", n_swa)


@hears("reused")
def _reused(reader: LogState, read: Read, number: int) -> None:
    """mlx_lm's line is all that it says of a request's beginning; requests are answered one by one."""
    one = reader.of(read._replace(slot=0), number, begins=True)
    if one is not None:
        one.cache_n, one.n_tokens = number_of(read, "cache_n"), number_of(read, "n_tokens")
        one.prompt_n = number_of(read, "prompt_n")
        reader.open.pop(one.slot, None)


@hears_of("in_cache", begins=True)
def _in_cache(reader: LogState, read: Read, one: Logged) -> None:
    one.cache_n, one.prompt_n = number_of(read, "n_past"), number_of(read, "prompt_n")


@hears_of("ckpt_check")
def _checked(reader: LogState, read: Read, one: Logged) -> None:
    lo, hi, thold = number_of(read, "pos_min"), number_of(read, "pos_max"), read.numbers.get("thold")
    if lo is not None and hi is not None and isinstance(thold, int):
        one.checked.append((lo, hi, thold))
        one.seen = max(one.seen, hi + 1)


@hears_of("ckpt_restore")
def _restored(reader: LogState, read: Read, one: Logged) -> None:
    n_past, hi = number_of(read, "n_past"), number_of(read, "pos_max")
    one.prefix_end = number_of(read, "prefix_end") if one.prefix_end is None else one.prefix_end
    one.restored = n_past if n_past is not None else None if hi is None else hi + 1
    one.cache_n = one.restored if one.cache_n is None else one.cache_n


@hears_of("ckpt_invalidate")
def _invalidated(reader: LogState, read: Read, one: Logged) -> None:
    """A fork prints where the common prefix ends; the checkpoint says that the slot held as much."""
    hi = number_of(read, "pos_max")
    if one.prefix_end is None:
        one.prefix_end = number_of(read, "prefix_end")
    if hi is not None and one.held is None:
        one.seen = max(one.seen, hi + 1)


@hears_of("full_reprocess", "trim_failed", late=True)
def _full(reader: LogState, read: Read, one: Logged) -> None:
    one.full, one.cache_n = True, 0


@hears_of("batch")
def _batch(reader: LogState, read: Read, one: Logged) -> None:
    p0 = number_of(read, "p0")
    if p0 is not None and one.whole and not one.begun:
        one.cache_n, one.begun = p0, True           # behind a restored checkpoint one token may have been given back


@hears_of("progress")
def _progress(reader: LogState, read: Read, one: Logged) -> None:
    """The prompt's length follows from the share that is done, if it is one whole number."""
    done, share = number_of(read, "n_tokens"), _share(read, "share")
    if done is not None and share:
        one.share = done, share


@hears_of("prompt_done")
def _done(reader: LogState, read: Read, one: Logged) -> None:
    if one.n_tokens is None:
        one.n_tokens = number_of(read, "n_tokens")


@hears_of("reuse_chunk")
def _moved(reader: LogState, read: Read, one: Logged) -> None:
    """A piece of what the slot held goes on in the prompt; the first one stands behind the common prefix."""
    at, low, high = number_of(read, "p0"), number_of(read, "c0"), number_of(read, "c1")
    if at is not None and low is not None and high is not None:
        one.lcp = at if not one.chunks else one.lcp
        one.chunks.append((low, high))


@hears("ckpt_create")
def _created(reader: LogState, read: Read, number: int) -> None:
    """ik_llama.cpp makes one behind the end of a request."""
    one, lo, hi = reader.of(read, number, late=True), number_of(read, "pos_min"), number_of(read, "pos_max")
    n_tokens = number_of(read, "n_tokens")
    if one is not None and hi is not None:
        one.created.append(hi + 1 if n_tokens is None else n_tokens)
        one.spans.append((hi if lo is None else lo, hi))
    if (most := number_of(read, "max")) is not None:
        reader.session.facts.setdefault("max", most)


@hears("prompt_time", "eval_time")
def _timed(reader: LogState, read: Read, number: int) -> None:
    one, count = reader.timed(read, number), "prompt_n" if read.line.ev == "prompt_time" else "predicted_n"
    if one is not None and getattr(one, count) is None:
        setattr(one, count, number_of(read, count))


@hears_of("release")
def _released(reader: LogState, read: Read, one: Logged) -> None:
    one.end = number_of(read, "n_tokens")
    if one.end is None:
        one.end = number_of(read, "n_cache_tokens")
    one.truncated = bool(read.numbers.get("truncated", False))
    if one.end is not None:
        reader.ends[one.slot] = one.end
    reader.closed[one.slot] = one
    reader.open.pop(one.slot, None)


@hears_of("too_long")
def _refused(reader: LogState, read: Read, one: Logged) -> None:
    one.refused, one.n_tokens = True, number_of(read, "n_tokens")
    reader.open.pop(one.slot, None)


@hears_of("ctx_shift")
def _shifted(reader: LogState, read: Read, one: Logged) -> None:
    kept, gone = number_of(read, "n_keep"), number_of(read, "n_discard")
    if kept is not None and gone is not None:
        one.shifts.append((kept, gone))


@hears("slot_purge")
def _purged(reader: LogState, read: Read, number: int) -> None:
    slot = number_of(read, "slot_arg")
    if slot is not None:
        reader.ends.pop(slot, None)


WITHOUT_NUMBERS = {"no_limit": {"limit_mib": -1}, "no_cache": {"limit_mib": 0}, "no_ckpt": {"max": 0}}
"""What lines that hold no number say of the server."""


@hears("server", "memory", "version", "start_ckpt", "start_cache", "pc_state", *WITHOUT_NUMBERS)
def _facts(reader: LogState, read: Read, number: int) -> None:
    for name, found in WITHOUT_NUMBERS.get(read.line.ev, read.numbers).items():
        reader.session.facts.setdefault(name, found)
