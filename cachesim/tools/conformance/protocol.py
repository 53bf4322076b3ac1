"""Requests and replies between the suite and an implementation, and the exceptions for missing or unusable replies.

A token is a non-negative integer. An implementation answers in plain data (a mapping with the keys of ``Reply``), so it
does not import cachesim. Only ``read_reply`` validates replies.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Mapping, NamedTuple, Protocol, Sequence

from cachesim.base.errors import nearest
from cachesim.base.tokens import Tokens

ABILITIES = ("cache", "cancel_prompt", "cancel_answer", "burst", "limits", "reset", "sampling", "key")
"""Optional abilities of an implementation. ``cancel_prompt``: the client disconnects while the prompt is evaluated
(``cancel_after=0``). ``cancel_answer``: it disconnects while the answer is generated."""


class RequestKey(NamedTuple):
    """What a prompt is computed under beside its tokens: an adapter, an image, a salt."""

    name: str = ""                       # "" = nothing
    start: int = 0                       # first token that depends on it, such as the first of an image
    kind: str = "key"                    # property that fails if something computed under another key is reused

    def __str__(self) -> str:
        return repr(self.name) + (f" from token {self.start} on" if self.start else "")

    def alike(self, key: RequestKey) -> int | None:
        """Return the number of leading tokens that mean the same under both keys, None = all."""
        return None if self == key else min(each.start for each in (self, key) if each.name)


NO_KEY = RequestKey()


class Unsupported(Exception):
    """Raised if the implementation lacks an ability. Reported, never a failure."""


class Failed(Exception):
    """Raised without a usable reply: an exception, a dead or silent process, a malformed reply. A finding."""

    def without_frames(self) -> Failed:
        """Return the failure as it is kept: with its message, and without the frames that raised it, which hold the
        reply (up to some 100 MB)."""
        return type(self)(*self.args)


class TimedOut(Failed):
    """Raised if a reply does not arrive in time."""


@dataclass(frozen=True, slots=True)
class CacheRequest:
    """A request to an implementation."""

    prompt: Tokens
    n_predict: int = 1                   # tokens to generate, at least 1
    cache: bool = True                   # False: reuse nothing
    cancel_after: int | None = None      # generated tokens after which the client disconnects, 0 = during the prompt
    sampling: Mapping[str, Any] = field(default_factory=dict, hash=False)    # parameters as given to ``conform``
    key: RequestKey = NO_KEY
    fields: Mapping[str, Any] = field(default_factory=dict, hash=False)      # further fields of a server's request

    def options(self) -> dict[str, Any]:
        """Return the options that differ from their defaults, by name; only these are sent."""
        found: dict[str, Any] = {} if self.cache else {"cache": False}
        if self.cancel_after is not None:
            found["cancel_after"] = self.cancel_after
        if self.key.name:
            found["key"] = self.key.name
        if self.key.start:
            found["key_start"] = self.key.start
        return {**found, "sampling": dict(self.sampling)} if self.sampling else found


class StoredEntry(NamedTuple):
    """An entry that the implementation has stored: the tokens of its key, and the number of tokens in its state."""

    tokens: Tokens
    length: int


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply. None = not reported; ``tokens`` or ``fingerprint`` is required.

    ``tokens``       generated tokens: a list of integers
    ``fingerprint``  a value that is equal if the model computed equal results: logits (an array, a list), a digest
    ``cached``       number of prompt tokens that were reused; ``evaluated``: number that the model processed
    ``stored``       current entries of the cache, a list with a mapping per entry:
                     ``{"tokens": [5, 6, 7], "length": 3}``, its key and the number of tokens that its state has seen
    ``used``         usage of each limit, ``{"entries": 3}``, by the names of ``limits()``
    ``refused``      reason for which the request was refused: a text
    """

    tokens: Tokens | None = None
    fingerprint: Any = None
    cached: int | None = None
    evaluated: int | None = None
    stored: tuple[StoredEntry, ...] | None = None
    used: Mapping[str, int] | None = None
    refused: str = ""


class Subject(Protocol):
    """Interface of an adapted implementation. Every method may raise Failed; all but ``complete`` Unsupported."""

    def complete(self, ask: CacheRequest) -> Reply:
        """Serve a request. Raise Unsupported for an option that the implementation lacks."""

    def burst(self, asks: Sequence[CacheRequest]) -> list[Reply]:
        """Serve requests that arrive at the same time; return the replies in order of the requests."""

    def limits(self) -> Mapping[str, int]:
        """Return the limits that the implementation promises to respect, by the names used in ``Reply.used``."""

    def reset(self) -> None:
        """Empty the cache."""

    def close(self) -> None:
        """Release all resources. Never raises."""


FIELDS = tuple(one.name for one in fields(Reply))


def read_reply(raw: Any, cancelled: bool) -> Reply:
    """Validate the raw reply of an implementation. Raise Failed that names the first error."""
    if isinstance(raw, Reply):
        raw = {name: getattr(raw, name) for name in FIELDS}
    if not isinstance(raw, Mapping):
            raise Failed(f"expected a mapping as the reply, found {type(raw).__name__}")
    for key in raw:
        if key not in FIELDS:
            raise Failed(f"unknown field {key!r} in a reply ({nearest(str(key), FIELDS) or ', '.join(FIELDS)})")
    read = {"tokens": _tokens, "cached": _count, "evaluated": _count, "stored": _kept, "used": counts}
    said: dict[str, Any] = {key: read_one(key, raw[key]) for key, read_one in read.items() if raw.get(key) is not None}
    reply = Reply(fingerprint=raw.get("fingerprint"), refused=_text(raw.get("refused") or ""), **said)
    if reply.tokens is None and reply.fingerprint is None and not reply.refused and not cancelled:
        raise Failed("expected tokens or a fingerprint in the reply, found neither: nothing can be compared")
    return reply


def _count(key: str, value: Any) -> int:
    try:
        number = value.__index__()
    except AttributeError:
        number = -1
    if isinstance(value, bool) or number < 0:
            raise Failed(f"{key}: expected an integer of at least 0, found {value!r:.40}")
    return int(number)


def _tokens(key: str, value: Any) -> Tokens:
    if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__iter__"):
            raise Failed(f"{key}: expected a list of tokens, found {value!r:.40}")
    return tuple(_count(f"a token of {key}", one) for one in value)


def _kept(key: str, value: Any) -> tuple[StoredEntry, ...]:
    if not isinstance(value, Sequence) or not all(isinstance(one, Mapping) and len(one) == 2 for one in value):
            raise Failed(f"{key}: expected a list of mappings with tokens and length")
    return tuple(StoredEntry(_tokens("tokens of stored", entry.get("tokens")),
                             _count("length of stored", entry.get("length"))) for entry in value)  # fmt: skip


def counts(key: str, value: Any) -> dict[str, int]:
    """Validate a mapping from names to counts. Raise Failed."""
    if not isinstance(value, Mapping):
            raise Failed(f"{key}: expected a mapping from names to counts")
    return {_text(name): _count(f"{key}[{name!r:.40}]", count) for name, count in value.items()}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Failed(f"expected a text, found {value!r:.40}")
    return value
