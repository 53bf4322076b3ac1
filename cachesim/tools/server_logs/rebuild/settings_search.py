"""Search for the server settings and model under which a simulated server reproduces a log.

The log gives lengths, slots and answers. The rest are free variables with few values: the common prefix within a
rounded share, the conversation in a prompt cache entry, the rule set, the kind of model. Values are tried in order,
simplest first. The first value wins under which the simulator reuses the logged number of tokens and prints the logged
numbers.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Iterable, Iterator, Mapping, NamedTuple, Sequence

from cachesim.base.errors import NotInBuild
from cachesim.base.limits import REBUILT
from cachesim.tools.server_logs.facts.logged_requests import LoggedRequest
from cachesim.tools.server_logs.facts.session import LogSession
from cachesim.tools.server_logs.rebuild.assumed_lengths import has_length
from cachesim.tools.server_logs.rebuild.prefix_trials import ScenarioBuilder
from cachesim.tools.server_logs.rebuild.reconstruction import Reconstruction
from cachesim.tools.server_logs.rebuild.request_order import in_launch_order

ROUNDS = 2
FURTHER = 8      # 1/FURTHER of the work is for candidates that print other numbers but reuse the logged tokens


class SearchSpace(NamedTuple):
    """Search space: candidate values for everything about the server that the log does not contain."""

    profiles: Sequence[str]                  # rule sets, most likely first
    models: Sequence[str]                    # kinds of model, most likely first
    server: Mapping[str, Any]                # known options
    options: Mapping[str, Sequence[Any]]     # values to try for other options
    joint: Mapping[str, Sequence[Any]]       # values to try for options in combination with each model


def solve(session: LogSession, known: SearchSpace, most: int) -> Reconstruction | None:
    """Return the best reconstruction: model, open options and rule set that reproduce the log at most requests. Each is
    optimised in turn, ``ROUNDS`` times. None if the log contains no request with a known length. At most ``most`` work
    units are done: of a long log only the first requests are simulated, and the result lists what was not tried. Raise
    NotInBuild if no rule set that was tried loads the model."""
    session = replace(session, requests=in_launch_order(session.requests)[: REBUILT.now])
    if not any(map(_is_worth_a_run, session.requests)):
        return None
    with _only_new_objects_collected():
        return _Search(session, known, most).found()


@contextmanager
def _only_new_objects_collected() -> Iterator[None]:
    """Exempt the objects that exist before the search from garbage collection during the search. They live on, and
    each collection of a rejected candidate would examine all of them."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _is_worth_a_run(request: LoggedRequest) -> bool:
    """True if the log has a length of a request that a simulation can compare."""
    return has_length(request) or request.range_of("lcp") is not None or (
        request.range_of("cache_n") is not None and bool(request.least("cache_n") or request.is_whole))


class _Trial(NamedTuple):
    """Reconstruction by a candidate, the work units that it took, and whether its budget was exhausted."""

    found: Reconstruction
    work: int
    stopped_early: bool


class _Search:
    """Coordinate search with a work budget, and the best reconstruction so far."""

    def __init__(self, session: LogSession, known: SearchSpace, most: int) -> None:
        self.session, self.known = session, known
        self.best: Reconstruction | None = None
        self.left, self.further = most, most // FURTHER
        self.unmet: set[int] | None = None                # lines that every candidate contradicts
        self.untried_settings: list[str] = []
        self.played: set[tuple[str, str, str]] = set()
        self.refused: NotInBuild | None = None            # by the last rule set that does not load the model

    def found(self) -> Reconstruction | None:
        """Run the search and return the best reconstruction."""
        known, first = self.known, ""
        for first in known.profiles:                      # until one of them loads the model
            self._try("kinds of model", ((first, model, dict(known.server)) for model in known.models))
            if self.best is not None:
                break
        together = {name: values[0] for name, values in known.joint.items() if values}
        if len(together) > 1:
            self._try(" and ".join(together), ((profile, model, {**server, **together})
                                               for profile, model, server in self._best_settings()))  # fmt: skip
        for name, values in known.joint.items():
            models = [*(model for _, model, _ in self._best_settings()), *known.models]
            self._try(name, ((first, model, {**self._server_with(model), name: value})
                             for model in models for value in values))  # fmt: skip
        for _ in range(ROUNDS):
            if self._prints_other_numbers():
                self._try_rule_sets()
            for name, values in known.options.items():
                self._try(name, ((profile, model, {**server, name: value})
                                 for profile, model, server in self._best_settings() for value in values))  # fmt: skip
            self._try("kinds of model", ((profile, model, server) for profile, _, server in self._best_settings()
                                         for model in known.models))  # fmt: skip
            self._try_rule_sets()
        if self.best is not None:
            self.best.untried_settings, self.best.candidates = self.untried_settings, len(self.played)
            self.best.unmet = self.unmet or set()
        elif self.refused is not None:
            raise self.refused
        return self.best

    def _server_with(self, model: str) -> Mapping[str, Any]:
        """Return the options with which a kind of model was best so far, else the known ones."""
        best = self.best
        return self.known.server if best is None or best.model != model else best.server

    def _prints_other_numbers(self) -> bool:
        """True if the best reconstruction reuses the logged tokens but prints other numbers, as another build
        may."""
        return self.best is not None and self.best.score[1] == 0 and bool(self.best.contradicted)

    def _try_rule_sets(self) -> None:
        """Try all rule sets with the best settings."""
        self._try("rule sets", ((name, model, server) for _, model, server in self._best_settings()
                                for name in self.known.profiles))  # fmt: skip

    def _note_untried(self, what: str) -> None:
        """Keep the name of a setting of which a value was not tried."""
        if what not in self.untried_settings:
            self.untried_settings.append(what)

    def _note_unmet(self, found: Reconstruction) -> None:
        """Keep the lines that every candidate so far contradicts. The last request of an abandoned candidate was not
        compared completely."""
        lines = {line.line for line in found.contradicted}
        compared = found.requests if len(found.requests) == len(self.session.requests) else found.requests[:-1]
        end = max((request.logged.lines[1] for request in compared), default=0)
        self.unmet = lines if self.unmet is None else {line for line in self.unmet if line in lines or line > end}

    def _best_settings(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Return the settings of the best reconstruction in a list, [] before the first reconstruction."""
        best = self.best
        return [] if best is None else [(best.profile, best.model, dict(best.server))]

    def _try(self, what: str, servers: Iterable[tuple[str, str, dict[str, Any]]]) -> None:
        """Try candidates that differ in ``what`` and keep the best, unless all requests agree already and no line is
        contradicted. A worse candidate is abandoned early, and no candidate is tried twice."""
        for profile, model, server in servers:
            agrees = self.best is not None and self.best.score[1] == 0
            if agrees and not self._prints_other_numbers():
                return
            if (candidate := (profile, model, repr(sorted(server.items())))) in self.played:
                continue
            if self.left <= 0 or (agrees and self.further <= 0):
                self._note_untried(what)
                return
            self.played.add(candidate)
            trial = self._run(profile, model, server, min(self.left, self.further) if agrees else self.left)
            if trial is None:
                continue
            found = trial.found
            self.left -= trial.work
            if agrees:
                self.further -= trial.work
            self._note_unmet(found)
            if trial.stopped_early and self.best is not None:
                self._note_untried(what)
                continue
            if trial.stopped_early and found.line:
                self.session = replace(self.session, requests=self.session.requests[: len(found.requests)])
            if found.line and len(found.requests) == len(self.session.requests) and (
                self.best is None or found.score > self.best.score
            ):
                self.best = found

    def _run(self, profile: str, model: str, server: Mapping[str, Any], most: int) -> _Trial | None:
        """Run a candidate within a budget of ``most`` work units. Return None for a model or an option that this build
        lacks. The simulated server of the candidate before it is freed first: it is a reference cycle of few objects
        with large arrays, which the garbage collector would find only after many candidates."""
        gc.collect()
        try:
            builder = ScenarioBuilder(self.session, profile, model, server)
        except NotInBuild as error:
            self.refused = error
            return None
        found = builder.build(most, self.best)
        return _Trial(found=found, work=builder.work, stopped_early=builder.stopped_early)
