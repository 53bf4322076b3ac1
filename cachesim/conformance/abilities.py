"""What can an implementation do beside completing a prompt? Every ability is tried once, on an instance of its own.

Only a clear "unsupported" counts as lacking: what fails in another way is played, so that it is found and shrunk. After
a reply that did not come in time nothing more is tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Sequence

from cachesim.conformance.history_player import Make
from cachesim.conformance.protocol import ABILITIES, Ask, Failed, Subject, TimedOut, Unsupported


@dataclass(frozen=True, slots=True)
class Abilities:
    """``missing``: the reason for each ability that is not there."""

    missing: Mapping[str, str]

    @property
    def present(self) -> frozenset[str]:
        """The abilities that are there, or that fail."""
        return frozenset(ABILITIES) - self.missing.keys()


def probe(make: Make, tokens: Sequence[int]) -> Abilities:
    """Try every ability."""
    missing = {}
    for name in ABILITIES:
        try:
            reason = _reason(make, name, Ask(tuple(tokens[:2]), 2))
        except TimedOut:
            break
        if reason:
            missing[name] = reason
    return Abilities(missing)


def _reason(make: Make, name: str, ask: Ask) -> str:
    """Why the ability is missing, "" if it is not. Raises TimedOut."""
    try:
        subject = make()
    except (Failed, Unsupported):
        return ""
    try:
        _use(subject, name, ask)
    except Unsupported as gap:
        return str(gap)
    except TimedOut:
        raise
    except Failed:
        return ""
    finally:
        subject.close()
    return ""


def _use(subject: Subject, name: str, ask: Ask) -> None:
    if name == "cache":
        subject.complete(Ask(ask.prompt, ask.n_predict, cache=False))
    elif name == "cancel":
        subject.complete(Ask(ask.prompt, ask.n_predict, cancel_after=0))
    elif name == "burst":
        subject.burst([ask, ask])
    elif name == "limits":
        subject.limits()
    else:
        subject.reset()
