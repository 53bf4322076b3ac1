"""What passes between the kit and an implementation: a request, its reply, and the three ways of not replying well.

A token is a non-negative integer. An implementation answers in plain data (a mapping with the keys of ``Reply``), so it
needs nothing of ours; ``read_reply`` is the only place that believes or refuses what it says.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Mapping, NamedTuple, Protocol, Sequence

from cachesim.base.errors import nearest
from cachesim.base.tokens import Tokens

ABILITIES = ("cache", "cancel_prompt", "cancel_answer", "burst", "limits", "reset", "sampling")
"""What an implementation may be able to do beside completing a prompt. A client disconnects while the prompt is
evaluated (``cancel_after=0``) or while the answer is generated."""
FORMER = {"computed": "evaluated"}
"""Keys of a reply that have another name now, and go on working."""


class Unsupported(Exception):
    """The implementation lacks an ability. Reported, never a failure."""


class Failed(Exception):
    """No usable reply: an exception, a dead or silent process, a reply of another form. A finding."""


class TimedOut(Failed):
    """No reply came in time."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request. ``n_predict``: tokens to generate, at least 1. ``cache`` False: reuse nothing. ``cancel_after``: the
    client disconnects after so many generated tokens, 0 = while the prompt is evaluated. ``sampling``: parameters of
    sampling by name, as the caller of ``conform`` gave them."""

    prompt: Tokens
    n_predict: int = 1
    cache: bool = True
    cancel_after: int | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def options(self) -> dict[str, Any]:
        """What is not the default, by name: only this is sent."""
        found: dict[str, Any] = {} if self.cache else {"cache": False}
        if self.cancel_after is not None:
            found["cancel_after"] = self.cancel_after
        return {**found, "sampling": dict(self.sampling)} if self.sampling else found


class Kept(NamedTuple):
    """Something that the implementation has stored: the tokens that it is filed under, and the tokens in its state."""

    tokens: Tokens
    length: int


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply. None = not reported; one of ``tokens`` and ``fingerprint`` has to be there.

    ``tokens``       tokens that were generated: a list of integers
    ``fingerprint``  what is equal if the model computed the same: logits (an array, a list of numbers), a digest
    ``cached``       prompt tokens that were reused; ``evaluated``: prompt tokens that the model processed
    ``stored``       what the cache stores now, a list of one mapping per entry: ``{"tokens": [5, 6, 7], "length": 3}``,
                     its key and the number of tokens that its state has seen
    ``used``         how much of each limit is used, ``{"entries": 3}``, by the names of ``limits()``
    ``refused``      why the request was refused: a text
    """

    tokens: Tokens | None = None
    fingerprint: Any = None
    cached: int | None = None
    evaluated: int | None = None
    stored: tuple[Kept, ...] | None = None
    used: Mapping[str, int] | None = None
    refused: str = ""


class Subject(Protocol):
    """An implementation behind its adapter. Every method may raise Failed; all but ``complete`` Unsupported."""

    def complete(self, ask: Ask) -> Reply:
        """Serve one request. Unsupported if it has an option that the implementation lacks."""

    def burst(self, asks: Sequence[Ask]) -> list[Reply]:
        """Serve requests that arrive at the same time; replies in their order."""

    def limits(self) -> Mapping[str, int]:
        """The limits that it promises to respect, by the names used in ``Reply.used``."""

    def reset(self) -> None:
        """Forget everything."""

    def close(self) -> None:
        """Give back what it occupies. Never raises."""


FIELDS = tuple(one.name for one in fields(Reply))


def read_reply(raw: Any, cancelled: bool = False) -> Reply:
    """The reply in what an implementation said. Raises Failed naming the first thing that is wrong."""
    if isinstance(raw, Reply):
        raw = {name: getattr(raw, name) for name in FIELDS}
    if not isinstance(raw, Mapping):
        raise Failed(f"a reply is a mapping, not {type(raw).__name__}")
    raw = {FORMER.get(key, key): value for key, value in raw.items()}
    for key in raw:
        if key not in FIELDS:
            raise Failed(f"unknown field {key!r} in a reply ({nearest(str(key), FIELDS) or ', '.join(FIELDS)})")
    read = {"tokens": _tokens, "cached": _count, "evaluated": _count, "stored": _kept, "used": counts}
    said: dict[str, Any] = {key: read_one(key, raw[key]) for key, read_one in read.items() if raw.get(key) is not None}
    reply = Reply(fingerprint=raw.get("fingerprint"), refused=_text(raw.get("refused") or ""), **said)
    if reply.tokens is None and reply.fingerprint is None and not reply.refused and not cancelled:
        raise Failed("a reply needs tokens or a fingerprint: there is nothing to compare")
    return reply


def _count(key: str, value: Any) -> int:
    try:
        number = value.__index__()
    except AttributeError:
        number = -1
    if isinstance(value, bool) or number < 0:
        raise Failed(f"{key} is {value!r:.40}, it must be an integer of at least 0")
    return int(number)


def _tokens(key: str, value: Any) -> Tokens:
    if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__iter__"):
        raise Failed(f"{key} is {value!r:.40}, it must be a list of tokens")
    return tuple(_count(f"a token of {key}", one) for one in value)


def _kept(key: str, value: Any) -> tuple[Kept, ...]:
    if not isinstance(value, Sequence) or not all(isinstance(one, Mapping) and len(one) == 2 for one in value):
        raise Failed(f"{key} must be a list of mappings with tokens and length")
    return tuple(Kept(_tokens("tokens of stored", one.get("tokens")), _count("length of stored", one.get("length")))
                 for one in value)  # fmt: skip


def counts(key: str, value: Any) -> dict[str, int]:
    """Counts by name. Raises Failed."""
    if not isinstance(value, Mapping):
        raise Failed(f"{key} must be a mapping from names to counts")
    return {_text(name): _count(f"{key}[{name!r:.40}]", count) for name, count in value.items()}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Failed(f"{value!r:.40} must be a text")
    return value
