"""Scenario files as recordings, such as those that an import of a log or of request bodies writes.

A block is one token, so that equal prefixes stay equal. Requests that are sent together overlap; all others wait for
the answers before them.
"""

from __future__ import annotations

from pathlib import Path

from cachesim.base.errors import BadInput
from cachesim.base.tokens import Tokens
from cachesim.scenarios.load import load
from cachesim.scenarios.runner import groups
from cachesim.scenarios.schema import Step
from cachesim.tools.workload.recorded_session import Blocks, RecordedRequest, WorkloadSession

FORM = "scenario"
SUFFIX = ".toml"
ANSWERED = 0.5              # seconds until the requests of a group are answered; the next group follows after 1


def scenario_session(path: Path) -> WorkloadSession:
    """Return the requests of a scenario. Raise BadInput for an invalid file, and for one with other steps."""
    scenario = load(path)
    numbers = _PrefixNumbers()
    requests = []
    for first, group in groups(scenario.steps):
        for step in group:
            if step.action is not None:
                raise BadInput("a workload has requests only, not the other steps of a scenario", file=str(path))
            requests.append(_request(step, float(first), numbers.blocks_of(step.request.prompt)))
    return WorkloadSession(scenario.id, FORM, 1, tuple(requests))


def _request(step: Step, start: float, blocks: Blocks) -> RecordedRequest:
    """Return a request that is sent at this time."""
    asked = step.request
    return RecordedRequest(
        start=start,
        end=start + ANSWERED,
        n_prompt=len(asked.prompt),
        n_answer=max(1, asked.n_predict),
        blocks=blocks,
        first_user=next(iter(asked.user_starts), 0),
    )


class _PrefixNumbers:
    """Numbers of tokens after their pasts: equal numbers mean equal prefixes."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, int], int] = {}

    def blocks_of(self, prompt: Tokens) -> Blocks:
        """Return the number of each token of a prompt."""
        found = []
        past = 0
        for token in prompt:
            past = self.known.setdefault((past, token), len(self.known) + 1)
            found.append(past)
        return tuple(found)
