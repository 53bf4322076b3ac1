"""What a log shows about its server, for the advice on it: the source of each option, the builds, what was simulated
before the log, and where the simulation contradicts it."""

from __future__ import annotations

from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from cachesim.engines.contract import Engine
from cachesim.engines.shared.log_grammar import LogGrammar
from cachesim.scenarios.option_checks import in_force
from cachesim.tools.advise.case_facts import ASSUMED, GIVEN, LEAST, PRINTED, CaseFacts
from cachesim.tools.server_logs.facts.session import LogSession
from cachesim.tools.server_logs.rebuild.reconstruction import Reconstruction

NAMED_SLOT = "slot_by_id"
"""Kind of line that shows that a request named its slot."""
SLOT_CHANGE = "no id_slot"


class LoggedOptions(NamedTuple):
    """Options of a simulated server before a search: those that lines print, all that follow from the log, and those
    that the user gave."""

    printed: Mapping[str, Any]
    known: Mapping[str, Any]
    given: Mapping[str, Any]

    def sources(self, server: Mapping[str, Any], profile: str) -> dict[str, str]:
        """Return the source of each option of a simulated server, without those that have the default of their
        build and that no line prints."""
        return dict(self._sources(server, in_force({}, profile)))

    def _sources(self, server: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        for name, value in server.items():
            if name in self.given:
                yield name, GIVEN
            elif name in self.printed:
                yield name, PRINTED
            elif name in self.known:
                yield name, LEAST
            elif value != defaults.get(name):
                yield name, ASSUMED


def logged_options(
    engine: Engine, grammar: LogGrammar, session: LogSession, least: Mapping[str, Any], given: Mapping[str, Any]
) -> LoggedOptions:
    """Return the options that a log shows. ``least``: values that are not printed but needed by its lines, as facts;
    only options that the engine has, and values of their type, are returned."""
    printed = checked(engine, grammar.options(session.facts))
    known = checked(engine, grammar.options({**least, **session.facts}))
    return LoggedOptions(printed, {**known, **given}, given)


def checked(engine: Engine, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that the engine has, with values of their type."""
    flags = {name: engine.manual.flag(name) for name in options}
    return {name: value for name, value in options.items()
            if (flag := flags[name]) is not None and type(value) is type(flag.default)}  # fmt: skip


def case_facts(
    found: Reconstruction, options: LoggedOptions, statements: Sequence[Mapping[str, Any]], run: int, is_given: bool
) -> CaseFacts:
    """Return the facts about a reconstructed log. ``statements``: as in ``import --json``; ``run``: the server run that
    was reconstructed; ``is_given``: the user named the build."""
    ends = [said["numbers"]["build"] for said in statements if said["what"] == "build" and said["run"] == run]
    low = max((end[0] for end in ends if end[0]), default=None)
    high = min((end[1] for end in ends if end[1]), default=None)
    steps = [request for request in found.requests if request.step >= 0]
    return CaseFacts(
        sources=options.sources(found.server, found.profile), low=low, high=high, is_build_given=is_given,
        before=max(0, len(found.line.split("/")) - len(steps)) if found.line else 0,
        contradicted=tuple(line.line for line in found.contradicted),
        differing=tuple(request.step for request in steps if request.agrees is False),
    )  # fmt: skip


def unproved_changes(statements: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Return the client changes that the log gives no ground for: without a line that a request named its slot, the
    slots of the reconstruction are those that the server chose."""
    named = any(said["what"] == NAMED_SLOT for said in statements)
    return frozenset() if named else frozenset({SLOT_CHANGE})
