"""What did the drafter do? Reads a step's drafting events into forced drafts.

Source: FORMAT.md, "What a step leaves open": which events follow which draft, and what is not said.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Any, Mapping, Sequence

from cachesim.engines.base import AS_MANY_AS_ALLOWED, Draft

Event = Mapping[str, Any]
NO_ROOM = "batch must be large enough"        # of the message with which the process ends
ANY_LENGTH = 1 << 20                          # more than any server allows
KINDS = ("spec_ckpt", "spec_restore", "spec_step", "release")


def read_drafts(
    events: Sequence[Event], response: Mapping[str, Any], n_prompt: int, died: str = "",
    lengths: Mapping[int, int] = MappingProxyType({}),
) -> tuple[Draft, ...]:
    """The drafts of one request of a step, from its own events. ``lengths`` are the tokens drafted where the slot held
    so many, if the recording says them."""
    mine = [e for e in events if e["ev"] in KINDS]
    unsaid = died and "p0=" not in died and [e["ev"] for e in mine[-1:]] == ["spec_ckpt"]
    if NO_ROOM in died or unsaid:           # a process that ends may leave its last line behind
        return (*read_drafts(mine, {}, n_prompt, lengths=lengths), _too_long(mine, n_prompt))
    if died:
        return _last_draft(died, n_prompt)
    if any(e["ev"] == "spec_ckpt" for e in mine):
        return tuple(_with_checkpoints(mine, lengths))
    steps = [e for e in mine if e["ev"] == "spec_step"]
    drafts = [
        Draft(e["n_tokens"] - 1 - e["accepted"], int(e.get("drafted", AS_MANY_AS_ALLOWED)), e["accepted"])
        for e in steps
    ]
    if any(draft.drafted == AS_MANY_AS_ALLOWED for draft in drafts):
        return tuple(drafts)          # an engine that logs every verification, and no lengths
    return (*drafts, *_unlogged(mine, response, drafts))


def _unlogged(events: Sequence[Event], response: Mapping[str, Any], drafts: Sequence[Draft]) -> list[Draft]:
    """The verification in which the generation stopped logs no step: what the sum of drafted tokens has beyond the
    logged ones was drafted there, and all of it was right."""
    left = int(response.get("draft_n", 0)) - sum(draft.drafted for draft in drafts)
    ends = [int(e["n_tokens"]) for e in events if e["ev"] == "release"]
    return [Draft(ends[-1] - left - 1, left, left)] if left > 0 and ends else []


def last_of_child(events: Sequence[Event], drafts: Sequence[Draft], n_prompt: int) -> tuple[Draft, ...]:
    """The draft in whose verification a further completion stopped, which is in no log and in no sum of its answer, for
    a drafter that guesses in every iteration: it brought all tokens behind the last logged verification but one."""
    held = next((int(e["n_tokens"]) for e in reversed(events) if e["ev"] == "spec_step"), n_prompt)
    end = next((int(e["n_tokens"]) for e in reversed(events) if e["ev"] == "release"), held)
    right = end - held - 1
    logged = any(draft.at == held for draft in drafts)
    return (Draft(held, right, right),) if right > 0 and not logged else ()


def second_rejection(events: Sequence[Event]) -> int | None:
    """Return the index of the first event that restores a checkpoint again although nothing was verified since it was
    restored last, None if there is none: the accepted tokens were evaluated again, and the model then chose another
    last token. The one that it chose first is in no recording."""
    last: dict[Any, str] = {}
    for place, event in enumerate(events):
        if event["ev"] in KINDS:
            if event["ev"] == last.get(event.get("task")) == "spec_restore":
                return place
            last[event.get("task")] = event["ev"]
    return None


def _with_checkpoints(events: Sequence[Event], lengths: Mapping[int, int]) -> list[Draft]:
    """A memory that cannot be cut: each draft begins with a checkpoint of what the slot held."""
    out = []
    for place, event in enumerate(events):
        if event["ev"] != "spec_ckpt":
            continue
        behind = list(events[place + 1 : place + 3])
        kinds = [e["ev"] for e in behind]
        held = int(event["n_tokens"])
        if kinds[:1] == ["spec_restore"]:
            # Rejected: as many were right as are replayed, but one; events do not say how many were drafted.
            replayed = _replayed(behind[1:], held)
            out.append(Draft(held, max(replayed, lengths.get(held, 0)), replayed - 1))
        elif kinds[:1] == ["spec_step"]:
            out.append(Draft(held, int(behind[0]["drafted"]), int(behind[0]["accepted"])))
        elif kinds[:1] == ["release"]:
            right = int(behind[0]["n_tokens"]) - held - 1
            out.append(Draft(held, max(1, right), max(1, right)))
    return out


def _replayed(behind: Sequence[Event], held: int) -> int:
    """Tokens that were replayed after a rejection: told by the step, or by where the slot ended."""
    if behind and behind[0]["ev"] == "spec_step":
        return int(behind[0]["drafted"])
    if behind and behind[0]["ev"] == "release":
        return max(1, int(behind[0]["n_tokens"]) - held - 1)
    return 1


def _too_long(events: Sequence[Event], n_prompt: int) -> Draft:
    """The draft for which the batch had no room: it began where the slot was last seen, and its length is nowhere."""
    seen = next((int(e["n_tokens"]) for e in reversed(events) if e["ev"] in ("spec_ckpt", "spec_step")), n_prompt)
    return Draft(seen, ANY_LENGTH, 0)


def _last_draft(died: str, n_prompt: int) -> tuple[Draft, ...]:
    """The draft at whose rejection the process ended: the message names the position of the first wrong token."""
    found = re.search(r"p0=(\d+)", died)
    if found is None:
        return ()
    right = int(found[1]) - n_prompt - 1
    return (Draft(n_prompt, right + 1, right),)
