"""Plan of requests to a real llama-server whose causes are known before they are sent.

A world is a server with its flags, and steps. A step is a request, several requests sent at once, or an action on the
server. Each request states what its client did, what the server lost, how it ends, and what the lines of the log prove
about it. These statements follow from the order of the steps and from the flags alone; ``cachesim`` computes none.

The log: at the default verbosity a server prints the similarity of a slot only if it is above the threshold (0.1), and
the share of the slot that the prompt keeps. Lengths follow from the timings, which a request lacks if its client hung
up. With ``-lv 4`` it prints the similarities of all slots as tokens, which slots are empty, and the length of each
prompt. It never prints ``cache_prompt``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping, Sequence

NEW, EXTENDS, AGAIN, DIFFERS, NOTHING = "new", "extends", "again", "differs", ""
"""What the log proves: nothing in common with the slot; all of the slot's contents and more; the whole prompt is in the
slot; the prompt leaves the slot's contents before their end; nothing."""
WHOLE, REFUSED, HUNG_UP = "whole", "refused", "hung up"
OVERWRITTEN, ERASED, RESTARTED, FORBIDDEN = "overwritten", "erased", "restarted", "reuse forbidden"
UNREACHABLE = "unreachable"          # a relay alone sees only that the server refused a connection
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Planned:
    """A request. ``act``: what the client does with its conversation, a method of ``tests.live.watch_client``."""

    talk: str                            # conversation
    act: str                             # "open", "append", "same", ...
    client: str                          # cause in the bodies, a key of the bodies' causes
    log: str = NOTHING                   # what the lines of the log prove
    lost: str = ""                       # what the server lost before it, "" = nothing
    relay: str | None = None             # what the relay shows of this without a log, None = the same
    end: str = WHOLE
    causes: tuple[str, ...] = ()         # further causes that the lines prove
    fields: Mapping[str, object] = field(default_factory=dict)
    in_log: bool = True                  # the server starts a task for it


@dataclass(frozen=True)
class Action:
    """An action on the server: "erase", "save", "restore" (of the slot of a conversation), "restart", "props"."""

    what: str
    talk: str = ""


Step = Planned | Action | tuple[Planned, ...]
"""A tuple is sent at once."""


@dataclass(frozen=True)
class World:
    """A server and its steps. ``is_chat``: requests are chats, else prompts of tokens."""

    name: str
    model: str
    flags: tuple[str, ...]
    is_chat: bool
    steps: tuple[Step, ...]

    @property
    def requests(self) -> Sequence[Planned]:
        """Its requests in the order of sending."""
        groups = [step if isinstance(step, tuple) else (step,) for step in self.steps]
        return [one for group in groups for one in group if isinstance(one, Planned)]


CHAT = World("chat", "tiny-llama", ("-np", "1", "-c", "4096", "-cram", "0"), True, (
    Action("props"),
    Planned("A", "open", "new", NEW),
    Planned("A", "append", "extends", EXTENDS),
    Planned("A", "append", "extends", EXTENDS),
    Planned("A", "same", "same", AGAIN),
    Planned("A", "edit_last", "edited", DIFFERS),
    Planned("A", "append", "extends", EXTENDS),
    Planned("A", "edit_first", "edited", DIFFERS),
    Planned("A", "edit_system", "system prompt"),
    Planned("R", "open_reasoning", "new"),
    Planned("R", "append", "extends", EXTENDS),
    Planned("R", "strip_reasoning", "reasoning removed", DIFFERS),
    Planned("A", "append", "extends", lost=OVERWRITTEN),
    Planned("B", "open_like_A", "new", DIFFERS),
    Planned("A", "append", "extends", DIFFERS, lost=OVERWRITTEN),
    Planned("L", "open_too_long", "new", end=REFUSED),
    Planned("A", "append", "extends", EXTENDS),
    Planned("M", "open_malformed", "new", end=REFUSED, in_log=False),
))  # fmt: skip

TOKENS = World("tokens", "tiny-llama", ("-np", "1", "-c", "4096", "-cram", "0", "-lv", "4"), False, (
    Planned("A", "open", "new", NEW),
    Planned("A", "append", "extends", EXTENDS),
    Planned("A", "append", "extends", EXTENDS),
    Planned("A", "same", "same", AGAIN),
    Planned("A", "back", "back", AGAIN),
    Planned("A", "edit_first", "text"),
    Planned("A", "append", "extends", EXTENDS),
    Planned("A", "edit_last", "text", DIFFERS),
    Planned("A", "append", "extends", EXTENDS, lost=FORBIDDEN, fields={"cache_prompt": False}),
    Planned("A", "append", "extends", EXTENDS),
    Action("erase", "A"),
    Planned("A", "same", "same", NEW, lost=ERASED),
    Planned("A", "append", "extends", EXTENDS),
    Action("save", "A"),
    Planned("B", "open", "new", NEW),
    Action("restore", "A"),
    Planned("A", "append", "extends", EXTENDS),
    Planned("A", "leave_answer", "extends", EXTENDS, end=HUNG_UP),
    Planned("A", "append_prompt", "extends", DIFFERS),
    Planned("A", "leave_prompt", "extends", EXTENDS, end=HUNG_UP),
    Planned("L", "open_too_long", "new", NEW, end=REFUSED),
))  # fmt: skip

SLOTS = World("slots", "tiny-llama", ("-np", "2", "-c", "4096", "-cram", "0"), False, (
    Planned("A", "open", "new", NEW),
    Planned("B", "open", "new", NEW),
    Planned("A", "append", "extends", EXTENDS),
    Planned("B", "append", "extends", EXTENDS),
    (Planned("A", "append", "extends", EXTENDS), Planned("B", "append", "extends", EXTENDS)),
    (Planned("C", "open", "new"), Planned("D", "open", "new")),
    Planned("A", "append", "extends", lost=OVERWRITTEN),
    Planned("B", "append", "extends", lost=OVERWRITTEN),
    (Planned("A", "append", "extends", EXTENDS), Planned("B", "leave_answer", "extends", end=HUNG_UP)),
    Planned("C", "append_in_slot_of_A", "extends", lost=OVERWRITTEN),
    Planned("A", "append", "extends", lost=OVERWRITTEN),
))  # fmt: skip

RESTART = World("restart", "tiny-llama", ("-np", "1", "-c", "4096", "-cram", "0"), True, (
    Planned("A", "open", "new", NEW),
    Planned("A", "append", "extends", EXTENDS),
    Action("restart"),
    Planned("A", "append", "extends", NEW, lost=RESTARTED, relay=UNREACHABLE),
    Planned("A", "append", "extends", EXTENDS),
    Planned("B", "open", "new"),
    Planned("A", "append", "extends", lost=OVERWRITTEN, relay=UNKNOWN),
))  # fmt: skip

CACHE = World("prompt cache", "tiny-llama", ("-np", "1", "-c", "4096", "-lv", "4"), False, (
    Planned("A", "open", "new", NEW),
    Planned("B", "open", "new", NEW),
    Planned("A", "append", "extends", EXTENDS),
    Planned("B", "append", "extends", EXTENDS),
    Planned("B", "same", "same", AGAIN),
    Action("erase", "B"),
    Planned("B", "append", "extends", NEW, lost=ERASED),
))  # fmt: skip

HYBRID = World("hybrid", "tiny-qwen35", ("-np", "1", "-c", "4096", "-cram", "0", "-lv", "4"), False, (
    Planned("A", "open", "new", NEW),
    Planned("A", "append", "extends", EXTENDS),
    Planned("A", "edit_first", "text", DIFFERS, causes=("no-checkpoint",)),
    Planned("A", "append", "extends", EXTENDS),
    Planned("A", "append", "extends", EXTENDS, lost=FORBIDDEN, fields={"cache_prompt": False}),
    Planned("A", "same", "same", AGAIN, causes=("checkpoint-too-late",)),
))  # fmt: skip

QUEUE = World("queue", "tiny-llama", ("-np", "1", "-c", "4096", "-cram", "0"), False, (
    Planned("A", "open", "new", NEW),
    (Planned("A", "append", "extends", EXTENDS, fields={"n_predict": 1_000}),
     Planned("B", "leave_open", "new", end=HUNG_UP, in_log=False)),
    Planned("A", "append", "extends", EXTENDS),
    (Planned("A", "append", "extends", EXTENDS, fields={"n_predict": 500}), Planned("C", "open", "new")),
    Planned("A", "append", "extends", lost=OVERWRITTEN),
))  # fmt: skip
"""The second request of a pair waits for the slot; the first client that waits hangs up before it gets one."""

WORLDS = (CHAT, TOKENS, SLOTS, RESTART, CACHE, HYBRID, QUEUE)
SHORT = (RESTART, SLOTS)
