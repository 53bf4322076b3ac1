"""Sentences that describe the decisions of an engine's rules.

Sentences are stored by family (the rule id up to its first dot); variants of a family (whole id) that have their own
condition are stored separately. Rules contain no prose and reports know no rules; the table in the engine's folder
connects them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Callable, Iterable, Mapping

from cachesim.engines.rule import RULES

Because = Mapping[str, Any]
Say = Callable[[Any, Because], str]


class NoEffect(str):
    """A sentence about a decision that changed nothing. Reports omit it unless all decisions are requested."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Sentences:
    """Sentences by family; ``variants``: sentences of single rules, which take precedence. A user-defined rule gets the
    sentence of its family, without the condition of any other rule."""

    families: Mapping[str, Say]
    variants: Mapping[str, Say] = field(default_factory=dict)

    def say(self, rule: str, value: Any, because: Because) -> str | None:
        """Return a sentence about a decision, None for an unknown family. A user-defined rule may return another form
        of value than its family; the result is None then, too. A failing sentence of a built-in rule is a bug and
        raises."""
        words = self.variants.get(rule) or self.families.get(rule.split(".")[0])
        try:
            return None if words is None else words(value, because)
        except (KeyError, TypeError, AttributeError, ValueError):
            if rule in RULES and RULES[rule].__module__.startswith("cachesim."):
                raise
            return None


def described(prefix: str) -> dict[str, Say]:
    """Return a sentence for each family of rules with this prefix, for rules whose answers are not logged: the first
    sentence of the docstring of its first rule, without "Return" or "True if" at its beginning."""

    def always(text: str) -> Say:
        return lambda value, because: text

    known = [name for name in RULES if name.startswith(prefix) and RULES[name].__module__.startswith("cachesim.")]
    first = {name: " ".join((RULES[name].__doc__ or "").split()).split(". ")[0] for name in reversed(known)}
    return {name.split(".")[0]: always(re.sub("^(?:Return|True if) ", "", text)) for name, text in first.items()}


def numbers(values: Iterable[object], none: str = "none") -> str:
    """Return numbers as a comma-separated list."""
    return ", ".join(map(str, values)) or none


def indices(values: Iterable[int]) -> str:
    """Return list indices as #0, #1."""
    return ", ".join(f"#{index}" for index in values)


def erasure_text(gone: Iterable[int], what: str, why: str) -> str:
    """Return a sentence about the checkpoints that a rule erases, and the reason; "no checkpoint erased", which has no
    effect, if there are none. ``what`` describes them: "invalidated", "older"."""
    listed = list(gone)
    if not listed:
        return NoEffect(f"no checkpoint erased{why and f': none with {why}'}")
    many = "s" if len(listed) > 1 else ""
    kind = f"{what} " if what else ""
    return f"erases {len(listed)} {kind}checkpoint{many} ({indices(listed)}){why and f': {why}'}"
