"""How does an engine say in words what its rules decided? A table of sentences by family (the id up to its first dot),
and one of variants of a family (the whole id) whose condition is their own.

The rule holds no prose, and the report knows no rule: between them stands this table, in the engine's own folder.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Mapping

from cachesim.engines.rule import RULES

Because = Mapping[str, Any]
Say = Callable[[Any, Because], str]


class NoEffect(str):
    """A sentence about a decision that changed nothing. A report leaves it out unless everything is wanted."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Sentences:
    """Sentences by family; ``variants`` those of single rules, which come first. A rule of somebody's own is said in
    the words of its family, without the condition of any other rule."""

    families: Mapping[str, Say]
    variants: Mapping[str, Say] = field(default_factory=dict)

    def say(self, rule: str, value: Any, because: Because) -> str | None:
        """One plain sentence about a decision, None for an unknown family. A rule of somebody's own may say something
        of another form than its family: then there is no sentence for it either. A sentence that fails for a rule of
        the package is a fault, and raises."""
        words = self.variants.get(rule) or self.families.get(rule.split(".")[0])
        try:
            return None if words is None else words(value, because)
        except (KeyError, TypeError, AttributeError, ValueError):
            if rule in RULES and RULES[rule].__module__.startswith("cachesim."):
                raise
            return None


def numbers(values: Iterable[object], none: str = "none") -> str:
    """Several numbers in a row, separated by commas."""
    return ", ".join(map(str, values)) or none


def indices(values: Iterable[int]) -> str:
    """Places in a list, as #0, #1."""
    return ", ".join(f"#{one}" for one in values)


def erasure_text(gone: Iterable[int], what: str, why: str) -> str:
    """Which checkpoints a rule erases, and why; "no checkpoint erased" where it erases none. ``what`` describes
    them: "invalidated", "older"."""
    listed = list(gone)
    if not listed:
        return f"no checkpoint erased{why and f': none with {why}'}"
    many = "s" if len(listed) > 1 else ""
    kind = f"{what} " if what else ""
    return f"erases {len(listed)} {kind}checkpoint{many} ({indices(listed)}){why and f': {why}'}"
