"""What did a request leave behind? Its slot, checkpoints, prompt cache, context shifts and drafts, for ``-v``."""

from __future__ import annotations

from typing import Any, Iterable, Iterator, Mapping

from rich.padding import Padding

from cachesim.base.counted import counted
from cachesim.base.layout import indented

MOST = 12              # checkpoints that are listed one by one


def state_lines(requests: Iterable[Mapping[str, Any]]) -> Iterator[Padding]:
    """A line for each request that was answered."""
    for one in requests:
        said = "; ".join(_parts(one))
        if said:
            yield indented(f"after request {one['i']}: {said}", "dim")


def _parts(one: Mapping[str, Any]) -> Iterator[str]:
    if one["died"]:
        return
    if one["slot_held"] is not None:
        yield f"slot {one['id_slot']} holds {counted(one['tokens_cached'], 'token')}"
    if one["checkpoints"]:
        shown = ", ".join(map(str, one["checkpoints"][:MOST])) + ", .." * (len(one["checkpoints"]) > MOST)
        yield f"{counted(len(one['checkpoints']), 'checkpoint')} at {shown}"
    if one["entries"]:
        size = "" if one["stored_mib"] is None else f" of {one['stored_mib']} MiB"
        yield f"prompt cache: {counted(one['entries'], 'entry', 'entries')}{size}"
    for held, keep, discard in one["shifts"]:
        yield f"context shift at {held}: kept {keep}, dropped {discard}"
    if one["draft_n"]:
        yield f"drafts: {one['draft_n_accepted']} of {counted(one['draft_n'], 'token')} accepted"
    if one["completions"] > 1:
        yield f"{one['completions']} completions"
