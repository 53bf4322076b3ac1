"""Why does a prompt not go on from the one before it? The cause by its name, where it is, and what helps."""

from __future__ import annotations

from typing import Mapping, NamedTuple

from cachesim.tools.request_bodies import changed_messages as messages
from cachesim.tools.request_bodies import changed_text as text
from cachesim.tools.request_bodies import changed_tools as tools
from cachesim.tools.request_bodies.body import TOOL, Body
from cachesim.tools.request_bodies.plain_render import BodyPlace, Rendered

NEW, EXTENDS, SAME, BACK = "new", "extends", "same", "back"
TEMPLATE, OPENING, CHANGED, DROPPED_ANSWER = "template", "opening", "text", "answer reasoning"
HARMLESS = (NEW, EXTENDS, SAME, BACK)
"""What loses nothing that the request before had."""


class Known(NamedTuple):
    """``says``: what it is, in a sentence that goes on with its place; ``advice``: what the client can do."""

    says: str
    advice: str = ""


CAUSES: Mapping[str, Known] = {
    NEW: Known("a new conversation"),
    EXTENDS: Known("extends the prompt before"),
    SAME: Known("the same prompt again"),
    BACK: Known("goes back to an earlier point of the conversation"),
    text.BILLING: Known("the billing header of Claude Code, at the front of the system prompt",
                        "set CLAUDE_CODE_ATTRIBUTION_HEADER=0, or let a proxy remove the block"),
    text.DATE: Known("the date or time", "put it last (in the newest message), or fix it when the conversation begins"),
    text.ID: Known("a random id", "leave it out of the prompt, or draw it once for each conversation"),
    text.LISTING: Known("a working directory listing or git status",
                        "send it once, or with the newest message only and leave it in the history"),
    text.COUNTER: Known("a counter (tokens, cost, turns)", "leave it out, or put it into the newest message"),
    text.SPACE: Known("white space", "send past messages byte for byte as they were: no trim, no new line ends"),
    tools.ORDER: Known("the order of the tools", "sort the tools, by name for example"),
    tools.KEYS: Known("the order of keys or entries in a tool's JSON schema", "serialise schemas in one fixed order"),
    tools.LIST: Known("tools were added or removed", "keep one list of tools for the whole conversation"),
    tools.ONE: Known("the definition of a tool", "keep definitions of tools as they are for the whole conversation"),
    messages.REMOVED: Known("the client removes the reasoning of a past answer", "keep the reasoning in the history"),
    messages.ADDED: Known("reasoning was added to a past answer", "send answers back as they were first sent"),
    messages.RETHOUGHT: Known("the reasoning of a past answer was changed", "send answers back as they were generated"),
    messages.IMAGES: Known("an image was changed, added or removed", "keep images, and their encoding, as they were"),
    messages.MOVED: Known("an image moved to another message", "leave images in the message that they came with"),
    messages.DROPPED: Known("the front of the history was truncated",
                            "truncate rarely and by much at a time, or raise the limit of the client's context"),
    messages.INSERTED: Known("messages were inserted into the history", "append them behind the newest message"),
    messages.SUMMARY: Known("the history was summarised", "raise the length at which the client compacts the history"),
    messages.PRUNED: Known("old results of tools are shortened or cleared", "shorten them when they are first sent"),
    messages.TAIL: Known("text that only the newest message has is gone once it is history",
                         "leave it in the history, or send it as a message of its own behind the newest"),
    messages.EDITED: Known("a user's message was edited"),
    messages.ANSWER: Known("a past answer is not as it was", "send answers back as they were generated"),
    messages.RESULT: Known("a past result of a tool is not as it was", "send results of tools back unchanged"),
    messages.SYSTEM: Known("the system prompt was changed", "keep it fixed; put what changes into the newest message"),
    TEMPLATE: Known("the chat template renders past turns differently (reasoning of earlier turns, for example)",
                    "use a template, or its option, that renders past turns as at first"),
    OPENING: Known("the chat template begins an answer with text that it leaves out of the history",
                   "use a template that keeps it; only the last tokens are affected"),
    DROPPED_ANSWER: Known("the client does not send back the reasoning that was generated",
                          "send the reasoning back (reasoning_content), or switch thinking off"),
    CHANGED: Known("the text is not as it was"),
}  # fmt: skip
"""All causes, those that need no cure first."""


class PromptCause(NamedTuple):
    """``name``: a key of CAUSES; ``detail``: names or a number that belong to it."""

    name: str
    detail: str = ""


def cause_of_bodies(a: Body, b: Body, one: Rendered, other: Rendered, at: int) -> PromptCause:
    """Why two bodies differ at character ``at`` of their plain renderings."""
    if at >= one.history:
        return PromptCause(SAME if one.text == other.text else EXTENDS)
    if at >= other.history and not b.raw:
        return PromptCause(BACK)
    x, y = one.place(at), other.place(at)
    if a.raw or b.raw:
        return _of_raw(one.text, other.text, at)
    if _in_tools(x) or _in_tools(y):
        name, detail = tools.tools_changed(a.tools, b.tools)
        kind = text.kind_of_change(one.text, other.text, at) if name == tools.ONE else ""
        if name:
            return PromptCause(kind or name, detail)
    return _of_messages(a, b, one, other, at)


def _of_messages(a: Body, b: Body, one: Rendered, other: Rendered, at: int) -> PromptCause:
    number = min(one.place(at).message, other.place(at).message)
    old, new = a.messages, b.messages
    kind = text.kind_of_change(one.text, other.text, at)
    if kind == text.BILLING or number >= min(len(old), len(new)):
        return PromptCause(kind or (messages.DROPPED if len(new) < len(old) else messages.INSERTED))
    same = messages.of_one(old[number], new[number])
    if same == messages.IMAGES and messages.image_moved(old, new):
        same = messages.MOVED
    if same:
        return PromptCause(same)
    if not old[number].system:
        name, count = messages.of_history(old, new, number)
        if name:
            return PromptCause(name, f"{count} messages" if count > 1 else "1 message" if count else "")
    role = messages.BY_ROLE.get(old[number].role, CHANGED)
    return PromptCause(messages.of_text(old, new, number) or kind or role)


def _in_tools(place: BodyPlace) -> bool:
    return place.kind == TOOL or place.path.startswith(("tools", "functions"))


def _of_raw(a: str, b: str, at: int) -> PromptCause:
    """Why two texts without messages differ at character ``at``."""
    if at >= len(b):
        return PromptCause(BACK)
    old, new = a[at : at + 200].split()[:4], b[at : at + 200].split()[:4]
    if old == new and len(old) > 1:
        return PromptCause(text.SPACE)
    thought = a.find("</think>", at)
    if thought >= 0 and _thought(a, b, at, thought):
        return PromptCause(messages.REMOVED)
    size = min(64, len(b) - at)
    gone = a.find(b[at : at + size], at + 1) if size >= 16 else -1
    if gone > 0:
        return PromptCause(messages.DROPPED, f"{gone - at} characters")
    kind = text.kind_of_change(a, b, at)
    if kind:
        return PromptCause(kind)
    more = b.find(a[at : at + 64], at + 1) if len(a) - at >= 16 else -1
    return PromptCause(messages.INSERTED, f"{more - at} characters") if more > 0 else PromptCause(CHANGED)


def _thought(a: str, b: str, at: int, end: int) -> bool:
    """Does ``b`` go on behind the thoughts that ``a`` has at this place?"""
    rest = a[end + len("</think>") :].lstrip()[:24]
    opened = a.rfind("<think>", 0, at + len("<think>"))
    return opened >= 0 and a.find("</think>", opened) == end and bool(rest) and b[opened:].lstrip().startswith(rest)
