"""Base classes of all caches: their rules, their saved form, and cheap copies.

Buffers are never written in place, so a deep copy shares them and copies only the counters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

from cachesim.engines.mlx_lm.caches.array_ops import Array, stored, with_room, written
from cachesim.engines.mlx_lm.caches.rule_table import AT_D78BF58E, CacheRules


class Cache(ABC):
    """Interface of all caches. ``WHOLE`` names the fields of the saved form that holds everything (0.32.2)."""

    step: ClassVar[int] = 256
    WHOLE: ClassVar[tuple[str, ...]] = ()
    rules: CacheRules = AT_D78BF58E

    @property
    def state(self) -> Any:
        """State that is saved; its layout is a rule."""
        return self.rules.state(self)

    @state.setter
    def state(self, state: Any) -> None:
        self.rules.restore(self, state)

    @property
    def meta_state(self) -> Any:
        """Counters as text. Raise AttributeError in versions without it."""
        return self.rules.meta_state(self)

    @meta_state.setter
    def meta_state(self, meta: Any) -> None:
        self.set_meta(meta)

    @classmethod
    def from_state(cls, state: Any, meta_state: Any = None, *, rules: CacheRules = AT_D78BF58E) -> Self:
        """Restore a cache from its saved form. ``meta_state`` None: this layout has none."""
        cache = cls.__new__(cls)
        cache.rules = rules
        cache.state = state
        if meta_state is not None:
            cache.meta_state = meta_state
        return cache

    def whole_state(self) -> Any:
        return tuple(getattr(self, name) for name in self.WHOLE)

    def set_whole_state(self, state: Any) -> None:
        for name, value in zip(self.WHOLE, state, strict=True):
            setattr(self, name, value)

    def cut_state(self) -> Any:
        return []

    def set_cut_state(self, state: Any) -> None:
        if state:
            raise ValueError("this cache holds no state")

    def meta(self) -> Any:
        return ""

    def set_meta(self, meta: Any) -> None:
        if meta:
            raise ValueError("this cache holds no counters that are saved as text")

    def is_trimmable(self) -> bool:
        """True if tokens can be removed from the end now."""
        return False

    def trimmable_after(self, n: int) -> bool:
        """True if tokens can be removed from the end once n more have been stored."""
        return self.is_trimmable()

    def size(self) -> int:
        """Return the number of tokens held, 0 if the class does not know it."""
        return 0

    @abstractmethod
    def empty(self) -> bool:
        """True if nothing was ever stored. A cache that was trimmed to 0 tokens is not empty."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Allocated bytes, including unused columns."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        twin.__dict__.update({name: _copied(value, memo) for name, value in self.__dict__.items()})
        return twin


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    if isinstance(value, Cache):
        return memo[id(value)] if id(value) in memo else value.__deepcopy__(memo)
    if isinstance(value, CacheRules):
        return memo.get(id(value), value)           # a fork has rules of its own, which log into its log
    if isinstance(value, list | tuple):
        return type(value)(_copied(item, memo) for item in value)
    return value


class KeysValues(Cache):
    """A cache with a buffer of keys and a buffer of values.

    ``CUT`` names the counter to which the older saved form cuts the buffers. ``LENGTH`` names the counter that
    restoring sets to their length.
    """

    CUT: ClassVar[str]
    LENGTH: ClassVar[str] = ""
    EXTRA: ClassVar[tuple[str, ...]] = ()
    BATCH: ClassVar[Any]                # class of a batch of these caches, set by that class's module
    keys: Array | None = None
    values: Array | None = None

    def pair(self) -> tuple[Array, Array]:
        """Return the buffer of keys and the buffer of values. Raise TypeError if nothing was stored yet."""
        return stored(self.keys), stored(self.values)

    def cut(self, stop: int, start: int = 0) -> tuple[Array, Array]:
        """Return the columns (tokens) start .. stop-1 of the keys and of the values. Raise TypeError if nothing was
        stored yet."""
        keys, values = self.pair()
        return keys[:, :, start:stop], values[:, :, start:stop]

    def append(self, held: int, keys: Array, values: Array) -> None:
        """Write the tokens of a step after ``held`` columns, growing the buffers in blocks of ``step``."""
        self.keys = written(with_room(self.keys, held, keys, self.step), held, keys)
        self.values = written(with_room(self.values, held, values, self.step), held, values)

    def cut_state(self) -> Any:
        return *self.cut(getattr(self, self.CUT)), *(getattr(self, name) for name in self.EXTRA)

    def set_cut_state(self, state: Any) -> None:
        self.keys, self.values, *extra = state
        for name, value in zip(self.EXTRA, extra, strict=True):
            setattr(self, name, value)
        if self.LENGTH:
            setattr(self, self.LENGTH, int(stored(self.keys).shape[2]))

    def empty(self) -> bool:
        return self.keys is None

    @property
    def nbytes(self) -> int:
        return 0 if self.keys is None else self.keys.nbytes + stored(self.values).nbytes
