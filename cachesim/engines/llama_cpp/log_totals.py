"""Conclusions from lines of llama-server's prompt cache, which name no request: entries that left it, and why.

A load removes the entry in all released builds (LC-PC-LOAD.TAKE); #24143 would keep it.
"""

from __future__ import annotations

from typing import Iterator, Sequence

from cachesim.engines.shared.log_totals import LoggedNumbers, LogTotal, of_kind

_EVICTED = ("pc_evict", "pc_evict_tokens")


def totals(lines: Sequence[LoggedNumbers]) -> Iterator[LogTotal]:
    """Yield the entries that were loaded for a part of their tokens, which removes them, and the evicted entries."""
    failed = {line.line for line in of_kind(lines, "pc_load_failed")}
    taken = [line for line in of_kind(lines, "pc_load") if _is_part(line.numbers.get("f_keep"))]
    if taken and not failed:
        shares = [float(line.numbers["f_keep"]) for line in taken]
        low, high = (f"{100 * share:.1f} %" for share in (min(shares), max(shares)))
        which = low if low == high else f"{low} to {high}"
        one, was = ("an entry", "was") if len(taken) == 1 else (f"{len(taken):,} entries", "were")
        last = taken[-1].line
        states = [line for line in of_kind(lines, "pc_state") if line.line > last]
        empty = [line.line for line in states if line.numbers.get("prompts") == 0]
        removed = "and removed" if empty else "(released builds then remove it)"
        yield LogTotal(
            (*(line.line for line in taken), *empty[:1]),
            {"entries_loaded_in_part": len(taken), "f_keep": [min(shares), max(shares)], "rule": "LC-PC-LOAD.TAKE"},
            f"{one} of the prompt cache {was} loaded for {which} of the tokens {removed}: the rest is lost for the "
            "conversation that stored it",
        )
    evicted = of_kind(lines, *_EVICTED)
    if evicted:
        count = "1 entry" if len(evicted) == 1 else f"{len(evicted):,} entries"
        says = f"{count} left the prompt cache to keep its limit (-cram)"
        yield LogTotal(tuple(line.line for line in evicted), {"entries_evicted": len(evicted)}, says)


def _is_part(share: object) -> bool:
    """True if a share of an entry's tokens is less than all."""
    return isinstance(share, int | float) and 0 < share < 1
