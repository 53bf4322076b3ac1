"""Which requests would make a server write this log? A scenario whose simulated numbers are those of the log.

What the log says is taken: lengths, slots, answers. What it leaves open is a free variable with few values: the common
prefix behind a rounded share, the conversation that an entry of the prompt cache held, the rule set, the kind of model.
Values are tried in order, the simplest first, and the first that makes the simulator reuse what the log says is taken.
"""

from __future__ import annotations

from typing import Any, Iterable, Mapping, NamedTuple, Sequence

from cachesim.limits import REBUILT
from cachesim.logs.rebuild_player import Builder
from cachesim.logs.rebuilt import Rebuild
from cachesim.logs.session import Session


class Open(NamedTuple):
    """What is not known of the server: rule sets and models in the order in which they are likely, options that are
    known (``server``), and values to try for others (``options``)."""

    profiles: Sequence[str]
    models: Sequence[str]
    server: Mapping[str, Any]
    options: Mapping[str, Sequence[Any]]


def solve(session: Session, known: Open) -> Rebuild | None:
    """The values under which the simulator says what the log says at most requests: one after the other, the model, the
    open options, the rule set. None if nothing of the log can be played. Raises BadInput for too many requests."""
    REBUILT.check(len(session.requests), "the log")
    if not any(one.n_tokens for one in session.requests):
        return None
    profile, server = known.profiles[0], dict(known.server)
    best = _better(None, (Builder(session, profile, model, server).build() for model in known.models))
    for name, values in known.options.items():
        if best is not None and best.score[1]:
            tries = ({**best.server, name: value} for value in values)
            best = _better(best, (Builder(session, profile, best.model, one).build() for one in tries))
    if best is not None and best.score[1]:
        model, server = best.model, dict(best.server)
        best = _better(best, (Builder(session, name, model, server).build() for name in known.profiles[1:]))
    return best


def _better(best: Rebuild | None, tried: Iterable[Rebuild]) -> Rebuild | None:
    """The first of the best; nothing more is tried once everything agrees."""
    for one in tried:
        if one.line and (best is None or one.score > best.score):
            best = one
        if best is not None and not best.score[1]:
            break
    return best
