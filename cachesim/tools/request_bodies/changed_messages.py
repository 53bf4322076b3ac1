"""Classification of a change to the messages of a history, at the first message that differs."""

from __future__ import annotations

import re
from typing import Sequence

from cachesim.tools.request_bodies.body import IMAGE, REASONING, BodyMessage
from cachesim.tools.request_bodies.changed_text import SPACE, differs_in_space_only
from cachesim.tools.request_bodies.conversations import contains_summary, core_text, message_key

REMOVED, ADDED, CHANGED_REASONING = "reasoning removed", "reasoning added", "reasoning changed"
IMAGES, MOVED = "image", "image moved"
DROPPED, INSERTED, SUMMARY, PRUNED, TAIL = "truncated", "inserted", "summary", "pruned", "tail"
EDITED, ANSWER, RESULT, SYSTEM = "edited", "answer", "tool result", "system prompt"
BY_ROLE = {"user": EDITED, "assistant": ANSWER, "tool": RESULT, "function": RESULT,
           "system": SYSTEM, "developer": SYSTEM}  # fmt: skip
_PLACEHOLDER = re.compile(r"clear|truncat|omit|remov|elid|prun|trimm|compact|\.\.\.|\[", re.I)


def message_change(a: BodyMessage, b: BodyMessage) -> str:
    """Return the change to a message whose text is otherwise equal: reasoning, image or white space. "" if its text or
    role changed."""
    if a.role != b.role:
        return ""
    old, new = _text_of_kind(a, REASONING), _text_of_kind(b, REASONING)
    if a.text_without(REASONING).strip() == b.text_without(REASONING).strip() and old != new:
        if old and new:
            return SPACE if differs_in_space_only(old, new) else CHANGED_REASONING
        return REMOVED if old else ADDED
    if a.text_without(IMAGE) == b.text_without(IMAGE) and _text_of_kind(a, IMAGE) != _text_of_kind(b, IMAGE):
        return IMAGES
    return SPACE if differs_in_space_only(a.text_without(), b.text_without()) else ""


def _text_of_kind(message: BodyMessage, kind: str) -> str:
    """Return the joined text of the message's parts of a kind, such as IMAGE."""
    return "".join(part.text for part in message.parts if part.kind == kind)


def image_moved(a: Sequence[BodyMessage], b: Sequence[BodyMessage]) -> bool:
    """Return whether all images of the old messages are still in the new messages."""
    old = {part.text for message in a for part in message.parts if part.kind == IMAGE}
    return bool(old) and old <= {part.text for message in b for part in message.parts if part.kind == IMAGE}


def history_change(a: Sequence[BodyMessage], b: Sequence[BodyMessage], at: int) -> tuple[str, int]:
    """Return the change at message ``at``, the first that differs, and the number of messages concerned; ("", 0) if the
    message itself was edited."""
    old, new = [message_key(message) for message in a[at:]], [message_key(message) for message in b[at:]]
    dropped = _removed_count(old, new)
    if dropped:
        return DROPPED, dropped
    inserted = _removed_count(new, old)
    if inserted:
        return (SUMMARY if contains_summary(b[at : at + inserted]) and len(b) < len(a) else INSERTED), inserted
    if at < len(b) and contains_summary(b[at : at + 2]) and not contains_summary(a[at : at + 2]):
        return SUMMARY, max(0, len(a) - len(b))
    return "", 0


def _removed_count(longer: Sequence[int], shorter: Sequence[int]) -> int:
    """Return the number of leading entries of ``longer`` to remove so that the rest begins like ``shorter``; 0 if
    impossible."""
    for k in range(1, len(longer)):
        n = min(len(longer) - k, len(shorter))
        if n and longer[k] == shorter[0] and list(longer[k : k + n]) == list(shorter[:n]):
            return k
    return 0


def text_change(a: Sequence[BodyMessage], b: Sequence[BodyMessage], at: int) -> str:
    """Return the change to the text of message ``at``: shortened after it became old (PRUNED), or stripped of text that
    only the newest message has (TAIL); "" for other changes."""
    if at >= min(len(a), len(b)) or a[at].role != b[at].role:
        return ""
    old, new = core_text(a[at]), core_text(b[at])
    later = [message_key(message) for message in a[at + 1 :]]
    unchanged = later == [message_key(message) for message in b[at + 1 :]][: len(later)]
    last = at == len(a) - 1 or all(message.system for message in a[at + 1 :])
    if last and not a[at].system and new and len(new) < len(old) and (old.startswith(new) or old.endswith(new)):
        return TAIL
    if unchanged and later and len(new) * 2 < len(old) and (a[at].role == "tool" or _PLACEHOLDER.search(new[:200])):
        return PRUNED
    return ""
