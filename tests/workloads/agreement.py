"""Does a scaled workload say what the unscaled one says? Both are played; tokens and deciding rules are compared.

What is scaled are tokens, options, numbers of rule sets, windows and bytes. What is not are constants inside of rules
(64 tokens before the first checkpoint), rounding (a token is the least), and the rounds of a server's loop: a scaled
answer takes fewer of them while a prompt takes as many. Requests that are at work together may therefore end in another
order, and be given other slots.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple

from cachesim.engines.capabilities import Option
from cachesim.tools.workload.cell_jobs import model_of, played_within
from cachesim.tools.workload.recorded_session import WorkloadSession
from cachesim.tools.workload.run_cell import Cell, cell
from cachesim.tools.workload.simulated_servers import served

CLOSE, SAME = 1, 99
"""How far apart the evaluated tokens may be, and the least share of requests with the same deciding rule: per cent."""


class Agreement(NamedTuple):
    """A session under a rule set, in both ways. ``scaled`` and ``unscaled`` are evaluated tokens, ``same`` the requests
    that the same rule settled, ``together`` those that were at work together with the one before."""

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
        """How far the scaled tokens are from the unscaled ones, as a share of these."""
        return self.scaled / self.unscaled - 1 if self.unscaled else 0.0

    @property
    def holds(self) -> bool:
        """Do they agree?"""
        near = 100 * abs(self.scaled - self.unscaled) <= CLOSE * self.unscaled
        return near and 100 * self.same >= SAME * self.requests


def agreement(session: WorkloadSession, profile: str, model: str, given: Mapping[str, Option], scale: int) -> Agreement:
    """Play a session scaled and unscaled. Raises BadInput."""
    fewer, whole = (_cell(session, profile, model, given, n) for n in (scale, 1))
    together = sum(one.together for one in played_within(session, scale))
    same = sum(a == b for a, b in zip(fewer.deciding, whole.deciding, strict=True))
    return Agreement(session.name, profile, len(session.requests), session.agents, together,
                     fewer.evaluated * scale, whole.evaluated, same)  # fmt: skip


def _cell(session: WorkloadSession, profile: str, model: str, given: Mapping[str, Option], scale: int) -> Cell:
    room = max(one.n_prompt + one.n_answer for one in session.requests)
    return cell(played_within(session, scale), served(profile, model_of(model), given, room, scale))
