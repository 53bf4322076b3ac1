"""What was found? A property that does not hold, as data: its kind and its numbers. Words are made from them last.

group   what makes two findings one failure: the property, the kind, the rule that decided, the kind of stored object.
        Neither lengths nor positions are in it, and no sentence.
"""

from __future__ import annotations

import re
from typing import Any, Mapping, NamedTuple

from cachesim.base import exits
from cachesim.judging.fault_kinds import SENTENCES, Kind, pattern, said

SIMULATOR = "simulator"
"""The name of findings about the simulator itself, which is no property."""
USERS_RULE = "user's-rule"
"""The name of findings about a rule from a file of the user, which is none either."""
CONSUMED, WASTED, UNBALANCED = "conversation-consumed", "restore-point-wasted", "bill-unbalanced"
TORN, INCONSISTENT, GAP, ERASED = "removal-torn", "memory-inconsistent", "gap-in-positions", "rows-behind-an-erase"
LESS, MISCOUNTED, EXCEEDED, DIED = "less-with-more", "tokens-miscounted", "limit-exceeded", "process-died"

TEXTS: Mapping[str, str] = {
    CONSUMED: "{tokens} tokens were removed from the prompt cache on load, at request {at}",
    WASTED: "{tokens} tokens of a {point} that would have served were {event}",
    UNBALANCED: "{account}",
    LESS: "{some} {option}: {before} reused; {plenty}: {after}",
    TORN: "seq_rm({seq}, {p0}, {p1}) was {answer}: {before} rows before, {after} after",
    INCONSISTENT: "{error}",
    GAP: "positions of sequence {seq} have a gap of {gap}",
    ERASED: "slot {slot} was erased and has {rows} rows",
    MISCOUNTED: "{found} found and {evaluated} evaluated of {prompt}",
    EXCEEDED: "{holder} {held} {what}, at most {most}",
    DIED: "conversations {first} .. {last} of seed {seed} were not judged: {how}, twice",
}
"""The sentence of each kind; those of verdicts are the judge's, all others are what the server said."""

Group = tuple[str, str, str, str]


class PropertyFailure(NamedTuple):
    """A property (``name``) does not hold: at this step, in this way, behind this rule or option (``deciding``), where
    an object of the kind ``stored`` is wrong ("" = none is); ``causes`` is how it came about, line by line."""

    name: str
    step: int
    kind: str
    numbers: Mapping[str, Any]
    deciding: str = ""
    stored: str = ""
    causes: tuple[str, ...] = ()

    @property
    def group(self) -> Group:
        """What makes two findings one failure."""
        return self.name, self.kind, self.deciding, self.stored

    @property
    def text(self) -> str:
        """What is wrong, in one sentence."""
        if self.kind in SENTENCES:
            sentence = said(Kind(self.kind), self.numbers)
            tokens = self.numbers.get("stored_tokens")
            return sentence if tokens is None else f"{self.stored} of {tokens} tokens: {sentence}"
        return TEXTS.get(self.kind, "{error}").format_map(self.numbers).strip()

    @property
    def label(self) -> str:
        """The group in words, to stand behind the property: the rule that decided, and of some what is wrong."""
        match self.name:
            case "warm-equals-cold":
                parts = filter(None, (self.deciding or "nothing reused", self.stored))
                return f"{' '.join(parts)}: {pattern(Kind(self.kind))}"
            case "stored-equals-cold":
                return f"{self.stored} {self.deciding}: {pattern(Kind(self.kind))}"
            case "survives":
                return masked(self._error)
            case "answered":
                return f"{self._error} {self.deciding}".strip()
            case "seq-rm-atomic":
                return "seq_rm"
            case "memory-sound":
                return {ERASED: "erase", GAP: "gap"}.get(self.kind, "check")
        if self.name == USERS_RULE:
            return f"{self.kind} at {self.deciding}"
        if self.name == SIMULATOR:
            where = f" in {self.deciding}" if self.deciding else ""
            return "a process died" if self.kind == DIED else f"{self.kind}{where}"
        return self.deciding

    @property
    def _error(self) -> str:
        return str(self.numbers["error"]).partition(":")[0]


def masked(text: str) -> str:
    """A text without its numbers."""
    return re.sub(r"-?\d+", "n", text)


def finding_of(data: Mapping[str, Any]) -> PropertyFailure:
    """A finding that was written down. Raises KeyError, TypeError or ValueError where its sentence lacks something."""
    kind, deciding, stored = (str(data[name]) for name in ("kind", "deciding", "stored"))
    numbers = data["numbers"]
    if not isinstance(numbers, dict):
        raise TypeError(f"{type(numbers).__name__} instead of dict")
    causes = tuple(map(str, data["causes"]))
    finding = PropertyFailure(str(data["name"]), int(data["step"]), kind, numbers, deciding, stored, causes)
    if not (finding.text and finding.label):
        raise ValueError("a finding without words")
    return finding


def exit_code(name: str) -> int:
    """The code of a finding: of the simulator itself, of a rule of the user, or of a property."""
    return {SIMULATOR: exits.CRASH, USERS_RULE: exits.BAD_INPUT}.get(name, exits.BROKEN)
