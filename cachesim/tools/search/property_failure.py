"""Findings: failures of properties, as a kind and numbers. Sentences are made from these on output.

A group identifies findings of the same failure: property, kind, deciding rule, kind of stored object. Lengths,
positions and sentences are not part of it.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, NamedTuple

from cachesim.base import exits
from cachesim.judging.fault_kinds import SENTENCES, FaultKind, fault_sentence, pattern

SIMULATOR = "simulator"
"""Name of findings about the simulator itself. It is not the name of a property."""
USERS_RULE = "user's-rule"
"""Name of findings about a rule in a user's file. It is not the name of a property."""

Group = tuple[str, str, str, str]


class PropertyFailure(NamedTuple):
    """A property that does not hold in a conversation."""

    name: str                           # of the property
    step: int                           # number of the request or action
    kind: str                           # kind of failure
    numbers: Mapping[str, Any]          # of its sentence
    deciding: str = ""                  # the rule or option that decided
    stored: str = ""                    # kind of the wrong stored object, "" = none is wrong
    causes: tuple[str, ...] = ()        # lines of an explanation

    @property
    def group(self) -> Group:
        """Key by which findings are counted as the same failure."""
        return self.name, self.kind, self.deciding, self.stored

    @property
    def text(self) -> str:
        """The failure as a sentence; for a kind without one the error of the server."""
        if self.kind in SENTENCES:
            sentence = fault_sentence(FaultKind(self.kind), self.numbers).strip()
            tokens = self.numbers.get("stored_tokens")
            return sentence if tokens is None else f"{self.stored} of {tokens} tokens: {sentence}"
        return f"{self.numbers['error']}".strip()

    @property
    def label(self) -> str:
        """The group in words, displayed after the property: the deciding rule and, for some properties, the failure."""
        match self.name:
            case "warm-equals-cold":
                parts = filter(None, (self.deciding or "nothing reused", self.stored))
                return f"{' '.join(parts)}: {pattern(FaultKind(self.kind))}"
            case "stored-equals-cold":
                return f"{self.stored} {self.deciding}: {pattern(FaultKind(self.kind))}"
            case "survives":
                return masked(self._error)
            case "answered":
                return f"{self._error} {self.deciding}".strip()
            case "seq-rm-atomic":
                return "seq_rm"
            case "memory-sound":
                named: Mapping[str, str] = {FaultKind.ERASED: "erase", FaultKind.GAP: "gap"}
                return named.get(self.kind, "check")
        if self.name == USERS_RULE:
            return f"{self.kind} at {self.deciding}"
        if self.name == SIMULATOR:
            where = f" in {self.deciding}" if self.deciding else ""
            return "a process died" if self.kind == FaultKind.DIED else f"{self.kind}{where}"
        return self.deciding

    @property
    def _error(self) -> str:
        return str(self.numbers["error"]).partition(":")[0]


def masked(text: str) -> str:
    """Return the text with its numbers replaced by ``n``."""
    return re.sub(r"-?\d+", "n", text)


def parse_finding(data: Mapping[str, Any]) -> PropertyFailure:
    """Parse a stored finding. Raise KeyError, TypeError or ValueError if it is invalid or lacks a number."""
    kind, deciding, stored = (str(data[name]) for name in ("kind", "deciding", "stored"))
    numbers = data["numbers"]
    if not isinstance(numbers, dict):
        raise TypeError(f"{type(numbers).__name__} instead of dict")
    causes = tuple(map(str, data["causes"]))
    finding = PropertyFailure(str(data["name"]), int(data["step"]), kind, numbers, deciding, stored, causes)
    if not (finding.text and finding.label):
        raise ValueError("a finding without text")
    return finding


def exit_code(name: str) -> int:
    """Return the exit code for a finding about the simulator itself, a user's rule, or a property."""
    return {SIMULATOR: exits.CRASH, USERS_RULE: exits.BAD_INPUT}.get(name, exits.BROKEN)
