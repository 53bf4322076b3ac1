"""What can an implementation do beside completing a prompt? Every ability is tried once, on an instance of its own.

Only a clear "unsupported" counts as lacking: what fails in another way is played, so that it is found and shrunk. After
a reply that did not come in time nothing more is tried.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Mapping, Sequence

from cachesim.tools.conformance.history_player import Make
from cachesim.tools.conformance.protocol import ABILITIES, Ask, Failed, TimedOut, Unsupported

CANCEL = ("cancel_prompt", "cancel_answer")


@dataclass(frozen=True, slots=True)
class Abilities:
    """``missing``: the reason for each ability that is not there."""

    missing: Mapping[str, str]

    @property
    def present(self) -> frozenset[str]:
        """The abilities that are there, or that fail."""
        return frozenset(ABILITIES) - self.missing.keys()

    def lack(self, name: str) -> str:
        """Why nothing of this kind can be played, "" if something can. "cancel" is both kinds of disconnecting."""
        if name != "cancel":
            return self.missing.get(name, "")
        return self.missing["cancel_answer"] if all(one in self.missing for one in CANCEL) else ""

    def partly(self, name: str) -> str:
        """What of "cancel" is missing where the other half is there."""
        gone = [one for one in CANCEL if one in self.missing]
        if name != "cancel" or len(gone) != 1:
            return ""
        phase = "the prompt is evaluated" if gone[0] == "cancel_prompt" else "the answer is generated"
        return f"not while {phase}: {self.missing[gone[0]]}"


def probe(make: Make, tokens: Sequence[int], sampling: Mapping[str, Any]) -> Abilities:
    """Try every ability; ``sampling`` only where parameters are given."""
    missing = {}
    for name in ABILITIES:
        if name == "sampling" and not sampling:
            continue
        try:
            reason = _reason(make, name, Ask(tuple(tokens[:2]), 2), sampling)
        except TimedOut:
            break
        if reason:
            missing[name] = reason
    return Abilities(missing)


def _reason(make: Make, name: str, ask: Ask, sampling: Mapping[str, Any]) -> str:
    """Why the ability is missing, "" if it is not. Raises TimedOut."""
    special = {"cache": replace(ask, cache=False), "cancel_prompt": replace(ask, cancel_after=0),
               "cancel_answer": replace(ask, cancel_after=1), "sampling": replace(ask, sampling=sampling)}  # fmt: skip
    try:
        subject = make()
    except (Failed, Unsupported):
        return ""
    try:
        if name in special:
            subject.complete(special[name])
        elif name == "burst":
            subject.burst([ask, ask])
        elif name == "limits":
            subject.limits()
        else:
            subject.reset()
    except Unsupported as gap:
        return str(gap)
    except TimedOut:
        raise
    except Failed:
        return ""
    finally:
        subject.close()
    return ""
