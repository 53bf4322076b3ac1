"""Comparison of scaled and unscaled runs of a workload: tokens and deciding rules.

Tokens, options, numbers of rule sets, windows and bytes are scaled. Constants inside rules (64 tokens before the first
checkpoint), rounding (to at least a token) and the rounds of a server's loop are not: a scaled answer takes fewer
rounds while a prompt takes as many. Simultaneous requests may therefore end in another order and get other slots.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple

from cachesim.engines.capabilities import Option
from cachesim.tools.workload.cell_jobs import model_of, played_within
from cachesim.tools.workload.recorded_session import WorkloadSession
from cachesim.tools.workload.run_cell import Cell, cell
from cachesim.tools.workload.simulated_servers import served

CLOSE, SAME = 1, 99
"""Maximum difference of evaluated tokens, and minimum share of requests with the same deciding rule, in per cent."""


class Agreement(NamedTuple):
    """A session under a rule set, both ways. ``scaled``, ``unscaled``: evaluated tokens. ``same``: requests with equal
    deciding rules. ``together``: requests that overlap the previous request."""

    session: str
    profile: str
    requests: int
    agents: int
    together: int
    scaled: int
    unscaled: int
    same: int

    @property
    def off(self) -> float:
        """Difference of scaled from unscaled tokens, as a share of the unscaled tokens."""
        return self.scaled / self.unscaled - 1 if self.unscaled else 0.0

    @property
    def holds(self) -> bool:
        """True if both agree within the limits."""
        near = 100 * abs(self.scaled - self.unscaled) <= CLOSE * self.unscaled
        return near and 100 * self.same >= SAME * self.requests


def agreement(session: WorkloadSession, profile: str, model: str, given: Mapping[str, Option], scale: int) -> Agreement:
    """Run a session scaled and unscaled. Raise BadInput for invalid options."""
    fewer, whole = (_cell(session, profile, model, given, n) for n in (scale, 1))
    together = sum(one.together for one in played_within(session, scale))
    same = sum(a == b for a, b in zip(fewer.deciding, whole.deciding, strict=True))
    return Agreement(session.name, profile, len(session.requests), session.agents, together,
                     fewer.evaluated * scale, whole.evaluated, same)  # fmt: skip


def _cell(session: WorkloadSession, profile: str, model: str, given: Mapping[str, Option], scale: int) -> Cell:
    room = max(one.n_prompt + one.n_answer for one in session.requests)
    return cell(played_within(session, scale), served(profile, model_of(model), given, room, scale))
