"""Stored objects that share more tokens with a prompt than the request reused, and why it could not use them.

The requests before are run again, and the server is inspected when the request arrives. A length is usable if
everything that the next token reads there equals a cold run's.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple, Sequence

from cachesim.base.errors import counted
from cachesim.base.tokens import Tokens, common_prefix
from cachesim.engines.inspection import Key
from cachesim.engines.point_kinds import RUNNING, slot_of
from cachesim.engines.registry import engine_of
from cachesim.engines.shared.rule_set import RuleSet
from cachesim.judging.foreign_reads import content_name
from cachesim.judging.judged_run import Run
from cachesim.judging.judging_observer import JudgingObserver
from cachesim.judging.restore_point_index import KnownPoint
from cachesim.judging.token_radix import RadixPlace
from cachesim.scenarios.runner import play
from cachesim.scenarios.schema import Step

MOST = 3                 # objects that are described


class UnusedPoint(NamedTuple):
    """A stored object when a request arrives: its ``kind``, the ``slot`` that holds it (-1 = none), its length
    ``tokens``, the tokens ``shared`` with the prompt, the longest ``usable`` length found (0 = none), and the
    ``obstacle`` to using all shared tokens, "" = none: a rule did not use it."""

    kind: str
    slot: int
    tokens: int
    shared: int
    usable: int
    obstacle: str

    @property
    def text(self) -> str:
        """Return the object and the obstacle in a sentence."""
        where = f" in slot {self.slot}" if self.slot >= 0 else ""
        name = f"slot {self.slot} with" if self.kind == RUNNING else f"{self.kind}{where} of"
        use = f"usable after {self.usable} tokens, but not used" if self.usable else "not usable"
        why = f" ({self.obstacle})" if self.obstacle else ""
        length = counted(self.tokens, "token")
        return f"still stored: {name} {length}, {self.shared} shared with this prompt; {use}{why}"


class _Arrived(Exception):
    """Ends a run when the request arrives."""


class _Inspector(JudgingObserver):
    """Inspects the restore points of the server when a request arrives."""

    def __init__(self, run: Run, number: int, profile: str, rules: RuleSet) -> None:
        super().__init__(run.scenario, profile, rules)
        one = run.requests[number]
        self.number = number
        self.prompt = one.request.prompt
        self.reused = one.answer.cache_n
        self.reader = run.reader
        self.unused: list[UnusedPoint] = []

    def begins(self, number: int, step: Step) -> None:
        """End the run at the request."""
        if number == self.number:
            for key, snapshot in self.ledger.snapshots.items():
                tokens = self._tokens(key, snapshot.place)
                shared = common_prefix(tokens, self.prompt)
                if shared > self.reused:
                    self.unused.append(self._described(key, tokens, shared, snapshot.known))
            raise _Arrived
        super().begins(number, step)

    def _tokens(self, key: Key, place: RadixPlace) -> Tokens:
        """Return the tokens of a point. A running state may be shorter than in its last report, by a rejected draft."""
        reported = self.ledger.radix.tokens(place)
        return reported[: len(self.server.inspection.tokens_of(key[1]))] if key[0] == RUNNING else reported

    def _described(self, key: Key, tokens: Tokens, shared: int, known: Sequence[KnownPoint]) -> UnusedPoint:
        most = min(shared, len(self.prompt) - 1)
        usable = max((point.reach(most) for point in known if point.lo <= most), default=0)
        obstacle = "" if usable == most else self._obstacle(key, tokens, most)
        useful = usable if usable > self.reused else 0
        return UnusedPoint(key[0], slot_of(key), len(tokens), shared, useful, obstacle)

    def _obstacle(self, key: Key, tokens: Tokens, most: int) -> str:
        """Return the first difference between the object and a cold run of its first ``most`` tokens. A recurrent state
        that the server records under another length is named by its origin."""
        stored = self.server.inspection.live(key[1]) if key[0] == RUNNING else self.server.inspection.stored(key)
        asked = stored._replace(tokens=tokens, resume=most)
        found = self.judge.stored(asked, self.judge.cold_runs.covering(tokens))
        held = self.reader.within(asked, most)[:1] if self.reader is not None and not found.equal_cold else []
        recorded = 0 if stored.state is None else stored.state.pos + 1
        if held and held[0].what == "state" and held[0].theirs not in (-1, 0, recorded):
            return f"it has {content_name(held[0])}"
        return "the server cannot resume there" if found.equal_cold else found.why


def unused_points(run: Run, number: int, rules: RuleSet | None = None) -> list[UnusedPoint] | None:
    """Return the objects that share more tokens with the prompt of request ``number`` than it reused, the most useful
    first; None for an answer that lost nothing. ``rules``: those of the run, None = those of its profile."""
    one, profile = run.requests[number], run.profile.removesuffix(" (changed)")
    known = rules or engine_of(profile).profiles.get(run.profile)
    if known is None or not one.judged.equal_cold or not any(charge.tokens for charge in one.ledger.charges):
        return None
    inspector = _Inspector(run, number, profile, known)
    with suppress(_Arrived):
        play(run.scenario, profile, "provenance", inspector, known)
    return sorted(dict.fromkeys(inspector.unused), key=lambda point: (-point.usable, -point.shared))[:MOST]


def unused_data(found: list[UnusedPoint] | None) -> list[dict[str, Any]] | None:
    """Return these objects as plain data with their sentences; None for an answer that lost nothing."""
    return None if found is None else [{**point._asdict(), "says": point.text} for point in found]
