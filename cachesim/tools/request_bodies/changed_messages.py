"""Classification of a change to the messages of a history, at the first message that differs."""

from __future__ import annotations

import re
from typing import Sequence

from cachesim.base.tokens import common_prefix
from cachesim.tools.request_bodies.body import IMAGE, REASONING, BodyMessage
from cachesim.tools.request_bodies.changed_text import SPACE, differs_in_space_only
from cachesim.tools.request_bodies.conversations import contains_summary, core_text, message_key
from cachesim.tools.request_bodies.moved_text import LEAST, find_moved, list_begins

REMOVED = "reasoning removed"
ADDED = "reasoning added"
CHANGED_REASONING = "reasoning changed"
IMAGES, MOVED = "image", "image moved"
DROPPED = "truncated"
INSERTED = "inserted"
SUMMARY = "summary"
PRUNED = "pruned"
TAIL = "tail"
TAKEN_OUT = "removed messages"
MOVING = "moving text"
OTHER_PLACE = "moved message"
EDITED = "edited"
ANSWER = "answer"
RESULT = "tool result"
SYSTEM = "system prompt"
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
    """True if all images of the old messages are still in the new messages."""
    old = {part.text for message in a for part in message.parts if part.kind == IMAGE}
    return bool(old) and old <= {part.text for message in b for part in message.parts if part.kind == IMAGE}


def history_change(a: Sequence[BodyMessage], b: Sequence[BodyMessage], at: int) -> tuple[str, int]:
    """Return the change at message ``at``, the first that differs, and the number of messages concerned; ("", 0) if the
    message itself was edited."""
    old, new = [message_key(message) for message in a[at:]], [message_key(message) for message in b[at:]]
    is_edited = len(old) > 1 and list_begins(new[1:], old[1:])        # all that follows is where it was
    dropped = 0 if is_edited else _removed_count(old, new)
    if dropped:
        pinned = any(not message.is_system for message in a[:at])
        return TAKEN_OUT if pinned else DROPPED, dropped
    inserted = 0 if is_edited else _removed_count(new, old)
    if inserted:
        return (SUMMARY if contains_summary(b[at : at + inserted]) and len(b) < len(a) else INSERTED), inserted
    if at < len(b) and contains_summary(b[at : at + 2]) and not contains_summary(a[at : at + 2]):
        return SUMMARY, max(0, len(a) - len(b))
    return "", 0


def moved_message(a: Sequence[BodyMessage], b: Sequence[BodyMessage], at: int) -> tuple[str, str]:
    """Return the change if message ``at``, the first that differs, follows later in ``b`` and the other messages are
    unchanged, and how many messages follow it; ("", "") for other changes."""
    old, new = [message_key(message) for message in a], [message_key(message) for message in b]
    moved = find_moved(old, new, at, list_begins)
    if moved is not None and moved.is_fixed:
        return MOVING, f"{moved.before} messages before the end" if moved.before > 1 else "1 message before the end"
    if moved is not None:
        return OTHER_PLACE, ""
    if _stays_last(a, b, at):
        return MOVING, "at the end"
    size = len(a) - at
    place = len(b) - size
    if size > 1 and place > at and _alike(a[at], b[place]) and list_begins([*new[at:place], *new[place + 1 :]],
                                                                        old[at + 1 :]):  # fmt: skip
        return MOVING, f"{size - 1} messages before the end" if size > 2 else "1 message before the end"
    return "", ""


def _stays_last(a: Sequence[BodyMessage], b: Sequence[BodyMessage], at: int) -> bool:
    """True if the last message of ``a`` follows a question, and ``b`` has its answer there and the same or a
    similar message at its end."""
    if not 0 < at == len(a) - 1 < len(b) - 1 or a[at - 1].role == "assistant" or a[at - 1].is_system:
        return False
    return b[at].role == "assistant" and (message_key(a[at]) == message_key(b[-1]) or _alike(a[at], b[-1]))


def _alike(a: BodyMessage, b: BodyMessage) -> bool:
    """True if a client may have written two messages in the same way: same role, and texts that begin alike."""
    if a.role != b.role or a.role not in ("user", "system", "developer"):
        return False
    return common_prefix(core_text(a), core_text(b)) >= LEAST


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
    last = at == len(a) - 1 or all(message.is_system for message in a[at + 1 :])
    if last and not a[at].is_system and new and len(new) < len(old) and _is_cut(old, new):
        return TAIL
    if unchanged and later and len(new) * 2 < len(old) and (a[at].role == "tool" or _PLACEHOLDER.search(new[:200])):
        return PRUNED
    return ""


def _is_cut(old: str, new: str) -> bool:
    """True if ``new`` is ``old`` without one stretch of text."""
    size = common_prefix(old, new)
    return new[size:] == old[len(old) - (len(new) - size) :] if size < len(new) else True
