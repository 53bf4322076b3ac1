"""What was done to the messages of a history, from the first one on that is not as it was?"""

from __future__ import annotations

import re
from typing import Sequence

from cachesim.tools.request_bodies.body import IMAGE, REASONING, BodyMessage
from cachesim.tools.request_bodies.changed_text import SPACE, only_space
from cachesim.tools.request_bodies.conversations import core, key_of, summarised

REMOVED, ADDED, RETHOUGHT = "reasoning removed", "reasoning added", "reasoning changed"
IMAGES, MOVED = "image", "image moved"
DROPPED, INSERTED, SUMMARY, PRUNED, TAIL = "truncated", "inserted", "summary", "pruned", "tail"
EDITED, ANSWER, RESULT, SYSTEM = "edited", "answer", "tool result", "system prompt"
BY_ROLE = {"user": EDITED, "assistant": ANSWER, "tool": RESULT, "function": RESULT,
           "system": SYSTEM, "developer": SYSTEM}  # fmt: skip
_PLACEHOLDER = re.compile(r"clear|truncat|omit|remov|elid|prun|trimm|compact|\.\.\.|\[", re.I)


def of_one(a: BodyMessage, b: BodyMessage) -> str:
    """What differs of a message, if it still says the same: reasoning, an image, white space. "" if it does not."""
    if a.role != b.role:
        return ""
    if a.said(REASONING).strip() == b.said(REASONING).strip() and _kind(a, REASONING) != _kind(b, REASONING):
        old, new = _kind(a, REASONING), _kind(b, REASONING)
        return (RETHOUGHT if not only_space(old, new) else SPACE) if old and new else REMOVED if old else ADDED
    if a.said(IMAGE) == b.said(IMAGE) and _kind(a, IMAGE) != _kind(b, IMAGE):
        return IMAGES
    return SPACE if only_space(a.said(), b.said()) else ""


def _kind(message: BodyMessage, kind: str) -> str:
    return "".join(part.text for part in message.parts if part.kind == kind)


def image_moved(a: Sequence[BodyMessage], b: Sequence[BodyMessage]) -> bool:
    """Are the images that a message lost in another one now?"""
    old = {part.text for one in a for part in one.parts if part.kind == IMAGE}
    return bool(old) and old <= {part.text for one in b for part in one.parts if part.kind == IMAGE}


def of_history(a: Sequence[BodyMessage], b: Sequence[BodyMessage], at: int) -> tuple[str, int]:
    """What happened at message ``at``, the first that is not as it was, and to how many messages; ("", 0) if the
    message itself was changed."""
    old, new = [key_of(one) for one in a[at:]], [key_of(one) for one in b[at:]]
    dropped = _shift(old, new)
    if dropped:
        return DROPPED, dropped
    inserted = _shift(new, old)
    if inserted:
        return (SUMMARY if summarised(b[at : at + inserted]) and len(b) < len(a) else INSERTED), inserted
    if at < len(b) and summarised(b[at : at + 2]) and not summarised(a[at : at + 2]):
        return SUMMARY, max(0, len(a) - len(b))
    return "", 0


def _shift(longer: Sequence[int], shorter: Sequence[int]) -> int:
    """How many entries of ``longer`` must go so that the rest begins as ``shorter`` does; 0 = none do that."""
    for k in range(1, len(longer)):
        n = min(len(longer) - k, len(shorter))
        if n and longer[k] == shorter[0] and list(longer[k : k + n]) == list(shorter[:n]):
            return k
    return 0


def of_text(a: Sequence[BodyMessage], b: Sequence[BodyMessage], at: int) -> str:
    """What was done to the text of message ``at``: shortened once it is old, or stripped of what only the newest
    message has; "" if it is neither."""
    if at >= min(len(a), len(b)) or a[at].role != b[at].role:
        return ""
    old, new = core(a[at]), core(b[at])
    later = [key_of(one) for one in a[at + 1 :]]
    same = later == [key_of(one) for one in b[at + 1 :]][: len(later)]
    last = at == len(a) - 1 or all(one.system for one in a[at + 1 :])
    if last and not a[at].system and new and len(new) < len(old) and (old.startswith(new) or old.endswith(new)):
        return TAIL
    if same and later and len(new) * 2 < len(old) and (a[at].role == "tool" or _PLACEHOLDER.search(new[:200])):
        return PRUNED
    return ""
