"""Causes of a prompt that does not extend the previous prompt: classification, sentence and advice for the client."""

from __future__ import annotations

from typing import Mapping, NamedTuple

from cachesim.base.errors import counted
from cachesim.tools.request_bodies import changed_messages as messages
from cachesim.tools.request_bodies import changed_text as text
from cachesim.tools.request_bodies import changed_tools as tools
from cachesim.tools.request_bodies.body import IMAGE, TOOL, Body
from cachesim.tools.request_bodies.conversations import repeats_answer
from cachesim.tools.request_bodies.moved_text import find_moved_lines
from cachesim.tools.request_bodies.plain_render import BodyPlace, RenderedPrompt

NEW = "new"
EXTENDS = "extends"
SAME = "same"
BACK = "back"
TEMPLATE = "template"
OPENING = "opening"
CHANGED = "text"
DROPPED_ANSWER = "answer reasoning"
CHANGED_ANSWER = "newest answer"
FIELDS = "fields"
ADAPTERS = "adapters"
MOVED_LINES = "moved lines"
CUT_OUT = "removed text"
PUT_IN = "inserted text"
HARMLESS = (NEW, EXTENDS, SAME, BACK)
"""Causes that do not invalidate any token of the previous request."""
OF_ANSWER = (DROPPED_ANSWER, CHANGED_ANSWER)
"""Causes that invalidate only tokens of the previous answer."""


class CauseText(NamedTuple):
    """Texts about a cause. ``cure``: what the client does instead, in the imperative; a simulated cure does this.
    ``other``: another way."""

    says: str                # noun phrase or sentence that a place can follow
    cure: str = ""
    other: str = ""

    @property
    def advice(self) -> str:
        """Return the advice for the client: the cure and the other way, "" = none."""
        return ", or ".join(filter(None, (self.cure, self.other)))


CAUSES: Mapping[str, CauseText] = {
    NEW: CauseText("a new conversation"),
    EXTENDS: CauseText("extends the previous prompt"),
    SAME: CauseText("repeats the previous prompt"),
    BACK: CauseText("goes back to an earlier point of the conversation"),
    text.BILLING: CauseText(
        "the billing header of Claude Code, at the front of the system prompt",
        "remove it from the prompt (CLAUDE_CODE_ATTRIBUTION_HEADER=0, or a proxy)",
    ),
    text.DATE: CauseText(
        "the date or time",
        "keep its value for the whole conversation",
        "put it last (in the newest message)",
    ),
    text.ID: CauseText(
        "a random id",
        "keep it for the whole conversation",
        "leave it out of the prompt",
    ),
    text.LISTING: CauseText(
        "a working directory listing or git status",
        "keep it as it was first sent",
        "send it with the newest message only, and keep it in the history",
    ),
    text.COUNTER: CauseText(
        "a counter (tokens, cost, turns)",
        "keep its first value",
        "leave it out, or put it into the newest message",
    ),
    text.SPACE: CauseText("white space", "send past messages unchanged: do not trim them or convert line ends"),
    tools.ORDER: CauseText("the order of the tools", "keep the tools in one order (sort them, for example by name)"),
    tools.KEYS: CauseText("the order of keys or entries in a tool's JSON schema", "serialise schemas in a fixed order"),
    tools.LIST: CauseText("tools were added or removed", "send all tools of the conversation in each of its requests"),
    tools.ONE: CauseText("the definition of a tool", "keep tool definitions unchanged for the whole conversation"),
    messages.REMOVED: CauseText("the client removes the reasoning of a past answer",
                                "keep the reasoning in the history"),
    messages.ADDED: CauseText("reasoning was added to a past answer", "send answers back unchanged"),
    messages.CHANGED_REASONING: CauseText("the reasoning of a past answer was changed",
                                          "send answers back as generated"),
    messages.IMAGES: CauseText("an image, sound or file was changed, added or removed",
                               "send images, sounds and files of past messages unchanged"),
    messages.MOVED: CauseText("an image moved to another message", "leave images in their original message"),
    messages.DROPPED: CauseText(
        "the front of the history was truncated",
        "keep the whole history (raise the client's context limit)",
        "truncate rarely and in large steps",
    ),
    messages.INSERTED: CauseText("messages were inserted into the history", "append them after the newest message"),
    messages.TAKEN_OUT: CauseText(
        "messages were removed from the history",
        "keep them",
        "remove them rarely and in large steps",
    ),
    messages.MOVING: CauseText(
        "a text that the client inserts at a fixed distance from the end",
        "leave it where it was first sent",
        "put it last (into the newest message) and keep it there, or at the front of the system prompt if it never "
        "changes",
    ),
    messages.OTHER_PLACE: CauseText("a message moved to another place of the history",
                                    "leave messages at the place where they were first sent"),
    CUT_OUT: CauseText("text was removed", "keep it", "remove text rarely and in large steps"),
    PUT_IN: CauseText("text was inserted", "append it after everything that was sent before"),
    MOVED_LINES: CauseText("lines moved to another place of the text", "leave texts where they were first sent"),
    messages.SUMMARY: CauseText(
        "the history was summarised",
        "keep the whole history instead (raise the client's compaction threshold)",
    ),
    messages.PRUNED: CauseText(
        "old tool results are shortened or cleared",
        "keep them as they were first sent",
        "shorten them when they are first sent",
    ),
    messages.TAIL: CauseText(
        "text of the newest message is removed once the message is history",
        "keep it in the history",
        "send it as a separate message after the newest",
    ),
    messages.EDITED: CauseText("a user message was edited"),
    messages.ANSWER: CauseText("a past answer was changed", "send answers back as generated"),
    messages.RESULT: CauseText("a past tool result was changed", "send tool results back unchanged"),
    messages.SYSTEM: CauseText("the system prompt was changed", "keep it fixed",
                               "move changing parts to the newest message"),
    TEMPLATE: CauseText("the chat template renders past turns differently (reasoning of earlier turns, for example)",
                        "use a template, or an option of it, that renders past turns unchanged"),
    FIELDS: CauseText("fields beside the texts changed, and the chat template renders another prompt",
                      "keep these fields for the whole conversation"),
    OPENING: CauseText("the chat template begins an answer with text that is missing in the history",
                       "use a template that keeps it (only the last tokens are affected)"),
    DROPPED_ANSWER: CauseText(
        "the client does not send back the generated reasoning",
        "send the reasoning back (reasoning_content)",
        "disable thinking",
    ),
    CHANGED_ANSWER: CauseText(
        "the client sends the newest answer back otherwise than it was generated",
        "send answers back as generated",
    ),
    ADAPTERS: CauseText("other adapters", "keep them for a conversation",
                        "give each list its own slot (id_slot)"),
    CHANGED: CauseText("the text was changed"),
}  # fmt: skip
"""Texts about all causes, harmless causes first."""


ROLES = {
    "system": "the system prompt",
    "developer": "the system prompt",
    "user": "a user message",
    "assistant": "an answer",
    "tool": "a tool result",
    "function": "a tool result",
}
ANYWHERE = frozenset({text.DATE, text.ID, text.LISTING, text.COUNTER, text.SPACE, CHANGED})
"""Causes whose sentence does not name the part of the prompt."""


def part_of_prompt(body: Body, place: BodyPlace | None, cause: str) -> str:
    """Return the part of a prompt that contains a change, in words; "" if the sentence of the cause names it."""
    if place is None or cause not in ANYWHERE:
        return ""
    if place.path.startswith(("tools", "functions")):
        return "the tools"
    if 0 <= place.message < len(body.messages):
        return ROLES.get(body.messages[place.message].role, "the prompt")
    return "the prompt"


class PromptCause(NamedTuple):
    """Cause of a change. ``name``: key of CAUSES; ``detail``: names or a number."""

    name: str
    detail: str = ""


def cause_of_bodies(a: Body, b: Body, old_prompt: RenderedPrompt, new_prompt: RenderedPrompt, at: int) -> PromptCause:
    """Return the cause for which two bodies differ at character ``at`` of their plain renderings."""
    if at >= old_prompt.history:
        return PromptCause(SAME if old_prompt.text == new_prompt.text else EXTENDS)
    if at >= new_prompt.history and not b.is_raw:
        return PromptCause(BACK)
    x, y = old_prompt.place(at), new_prompt.place(at)
    if (a.is_raw or b.is_raw) and IMAGE in (x.kind, y.kind):
        return PromptCause(messages.IMAGES)
    if a.is_raw or b.is_raw:
        return raw_cause(old_prompt.text, new_prompt.text, at)
    if _in_tools(x) or _in_tools(y):
        name, detail = tools.tools_change(a.tools, b.tools)
        begin = old_prompt.start(at)
        kind = text.kind_of_change(old_prompt.text, new_prompt.text, at, begin) if name == tools.ONE else ""
        if name:
            return PromptCause(kind or name, detail)
    return _of_messages(a, b, old_prompt, new_prompt, at)


def _of_messages(a: Body, b: Body, old_prompt: RenderedPrompt, new_prompt: RenderedPrompt, at: int) -> PromptCause:
    """Return the cause of a difference in the messages."""
    number = min(old_prompt.place(at).message, new_prompt.place(at).message)
    old, new = a.messages, b.messages
    begin = old_prompt.begins[number] if number < len(old_prompt.begins) else 0
    kind = text.kind_of_change(old_prompt.text, new_prompt.text, at, begin)
    if kind == text.BILLING or number >= min(len(old), len(new)):
        return PromptCause(kind or (messages.DROPPED if len(new) < len(old) else messages.INSERTED))
    if len(new) <= len(old) and repeats_answer(a.answer, new[number:]):
        return PromptCause(messages.SUMMARY, counted(len(old) - number, "message"))
    moved, depth = messages.moved_message(old, new, number)
    if moved:
        return PromptCause(moved, depth)
    change = messages.message_change(old[number], new[number])
    if change == messages.IMAGES and messages.image_moved(old, new):
        change = messages.MOVED
    if change:
        return PromptCause(change)
    if not old[number].is_system:
        name, count = messages.history_change(old, new, number)
        if name:
            return PromptCause(name, f"{count} messages" if count > 1 else "1 message" if count else "")
    if IMAGE in (old_prompt.place(at).kind, new_prompt.place(at).kind):
        return PromptCause(messages.IMAGES)
    if change := messages.text_change(old, new, number):
        return PromptCause(change)
    if old[number].role == new[number].role and (lines := _moved_lines(old_prompt.text, new_prompt.text, at)):
        return lines
    return PromptCause(kind or messages.BY_ROLE.get(old[number].role, CHANGED))


def _in_tools(place: BodyPlace) -> bool:
    """True if a place is in the tool definitions."""
    return place.kind == TOOL or place.path.startswith(("tools", "functions"))


def raw_cause(a: str, b: str, at: int) -> PromptCause:
    """Return the cause for which two raw prompts differ at character ``at``."""
    if at >= len(b):
        return PromptCause(BACK)
    old, new = a[at : at + 200].split()[:4], b[at : at + 200].split()[:4]
    if old == new and len(old) > 1:
        return PromptCause(text.SPACE)
    if moved := _moved_lines(a, b, at):
        return moved
    thought = a.find("</think>", at)
    if thought >= 0 and _continues_after_reasoning(a, b, at, thought):
        return PromptCause(messages.REMOVED)
    gone = _missing_characters(a, b, at)
    if gone:
        return PromptCause(CUT_OUT, counted(gone, "character"))
    kind = text.kind_of_change(a, b, at)
    if kind:
        return PromptCause(kind)
    more = _missing_characters(b, a, at)
    return PromptCause(PUT_IN, counted(more, "character")) if more else PromptCause(CHANGED)


def _missing_characters(longer: str, shorter: str, at: int) -> int:
    """Return the number of characters to remove from one text at character ``at`` so that one of both texts begins
    with the other; 0 if no number is found."""
    size = min(64, len(shorter) - at)
    found = longer.find(shorter[at : at + size], at + 1) if size >= 16 else -1
    rest = min(len(longer) - found, len(shorter) - at)
    return found - at if found > 0 and longer[found : found + rest] == shorter[at : at + rest] else 0


def _moved_lines(a: str, b: str, at: int) -> PromptCause | None:
    """Return the cause if lines at character ``at`` of ``a`` follow later in ``b`` and the rest is unchanged."""
    moved = find_moved_lines(a, b, at)
    if moved is None:
        return None
    if not moved.is_fixed:
        return PromptCause(MOVED_LINES)
    return PromptCause(messages.MOVING, f"{moved.before} lines before the end" if moved.before > 1 else
                       "1 line before the end")  # fmt: skip


def _continues_after_reasoning(a: str, b: str, at: int, end: int) -> bool:
    """True if ``b`` continues with the text after the reasoning that ``a`` has at this position."""
    rest = a[end + len("</think>") :].lstrip()[:24]
    opened = a.rfind("<think>", 0, at + len("<think>"))
    return opened >= 0 and a.find("</think>", opened) == end and bool(rest) and b[opened:].lstrip().startswith(rest)
