"""Lost reuse that an exported program judges: the losing requests, their reasons, and the server to compare with."""

from __future__ import annotations

from typing import Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import BadInput
from cachesim.engines.build_names import point_of, resolve_name
from cachesim.engines.contract import Engine
from cachesim.engines.registry import engine_of, profiles
from cachesim.judging.judged_run import Run
from cachesim.judging.recompute_reasons import RecomputeReason, reasons
from cachesim.judging.reuse_reference import LostReuse, ReferenceSearch, ReuseReference
from cachesim.tools.live.llama_server.real.wheels import WHEELS, Wheel

NEAREST = 4                 # wheels next to a released rule set that are tried
PREDICTED = " (predicted)"
"""Mark of numbers of a rule set that no wheel has: no real server was compared."""


class JudgedLoss(NamedTuple):
    """Lost reuse of a case. ``wheel``: a real server without the loss, None = its reuse is predicted; ``reasons``: why
    each losing request evaluates tokens again."""

    reference: ReuseReference
    wheel: Wheel | None
    reasons: Mapping[int, Sequence[RecomputeReason]]

    @property
    def lost(self) -> tuple[LostReuse, ...]:
        """The requests that lose tokens."""
        return self.reference.lost

    @property
    def numbers(self) -> dict[int, tuple[int, int, int]]:
        """Tokens that each losing request reuses, those that it reuses under the reference, and those evaluated
        before."""
        return {one.request: (one.reused, one.regained, one.reusable) for one in self.lost}

    @property
    def label(self) -> str:
        """Short name of the reference: its build if there is a wheel."""
        return self.wheel.build if self.wheel else self.reference.label

    @property
    def mark(self) -> str:
        """Mark after the numbers of the reference, "" if a wheel has them."""
        return "" if self.wheel else PREDICTED

    @property
    def origin(self) -> str:
        """Where the numbers of the reference come from, in a phrase."""
        if self.wheel:
            return f"simulated; its server: pip install {self.wheel.requirement}"
        rules = f"{self.reference.rule} of" if self.reference.rule else "the rules of"
        return f"predicted with {rules} {self.reference.profile}, which no wheel has"

    @property
    def causes(self) -> set[int]:
        """The requests at which the tokens were lost."""
        return {reason.at for found in self.reasons.values() for reason in found if reason.at >= 0}

    def text(self, loss: LostReuse) -> str:
        """Return the loss of a request in a sentence without its end."""
        return f"{loss.reused} of {loss.reusable} tokens reused; with {self.label} {loss.regained}{self.mark}"


def judged_loss(run: Run) -> JudgedLoss | None:
    """Return the lost reuse of a run with a ledger, None if it loses nothing or no rule set reuses more. A case with a
    wrong answer is about this answer: a server without its fault may lose the same tokens."""
    if run.broken:
        return None
    search = ReferenceSearch(run)
    found = search.result()
    if found is None:
        return None
    reference, wheel = _with_wheel(search, found)
    return JudgedLoss(reference, wheel, {one.request: _reasons(run, one) for one in reference.lost})


def _with_wheel(search: ReferenceSearch, found: ReuseReference) -> tuple[ReuseReference, Wheel | None]:
    """Return a released build near the reference that reuses as many tokens and has a wheel, else the reference."""
    engine = engine_of(found.profile)
    if not found.rule and found.profile in engine.line:
        for profile, wheel in _wheels_near(engine, found.profile):
            near = search.best([profile])
            if near is not None and near.total >= found.total:
                return near, wheel
    return found, None


def _wheels_near(engine: Engine, profile: str) -> Iterator[tuple[str, Wheel]]:
    """Yield the wheels whose builds are nearest to a released rule set, each with the rule set of its build."""
    point = point_of(engine, profile)
    if point is None or not engine.when.builds:
        return
    number = point.number
    for wheel in sorted(WHEELS, key=lambda one: abs(one.number - number))[:NEAREST]:
        name = f"{engine.name}@{wheel.build}"
        try:
            resolved = resolve_name(name)
        except BadInput:                  # older than the oldest rule set
            continue
        if name in profiles():
            yield name, wheel
        elif resolved is not None:
            yield resolved.profile, wheel


def _reasons(run: Run, loss: LostReuse) -> list[RecomputeReason]:
    """Return why a request evaluates the tokens again that it reuses under the reference."""
    kept = engine_of(run.profile).keeps
    found = reasons(run.requests[loss.request], kept=kept)
    lost = [reason for reason in found if reason.rule and reason.start < loss.regained]
    return [reason._replace(stop=min(reason.stop, loss.regained)) for reason in lost]
