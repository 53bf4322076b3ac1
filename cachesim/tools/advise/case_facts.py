"""What a log shows about its server, and the conditions under which a change helps: settings, builds and texts that the
log does not show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Mapping

from cachesim.engines.registry import engine_of
from cachesim.judging.reproduce_command import flag_text
from cachesim.scenarios.option_checks import in_force
from cachesim.scenarios.server_settings import server_options
from cachesim.tools.advise.setup_changes import ChangeKind, Setup, SetupChange

PRINTED, GIVEN, LEAST, ASSUMED = "printed", "given", "least", "assumed"
"""Sources of an option's value: a line of the log, the user, the least value that the lines allow, and a search for a
value that explains them. An option without a source has the default of the simulated build."""


@dataclass(frozen=True)
class CaseFacts:
    """What a log shows about its server. ``sources``: source of each option's value; ``low`` and ``high``: range of
    builds that the lines allow, None = open; ``is_build_given``: the user named the build; ``texts``: the assumption
    about the texts, "" = none; ``before``: requests that stand for the time before the log; ``contradicted``: numbers
    of the lines that the simulation contradicts, and ``differing``: numbers of the requests that differ."""

    sources: Mapping[str, str] = field(default_factory=dict)
    low: int | None = None
    high: int | None = None
    is_build_given: bool = False
    texts: str = ""
    before: int = 0
    contradicted: tuple[int, ...] = ()
    differing: tuple[int, ...] = ()

    @property
    def printed_build(self) -> int:
        """Build that the log prints, 0 = none."""
        return self.low if self.low is not None and self.low == self.high else 0

    @property
    def is_refuted(self) -> bool:
        """True if the simulation contradicts the log."""
        return bool(self.contradicted or self.differing)

    def allows(self, change: SetupChange, case: Setup) -> bool:
        """True if a change is more than what the log may show already: a later build than its own, and another
        value than the default of an option whose value is not known."""
        build = build_number(change.profile)
        if build and self.low is not None and build <= self.low:
            return False
        sources = {self.sources.get(name) for name in change.options}
        assumed = {name: value for name, value in change.options.items() if self.sources.get(name) == ASSUMED}
        defaults = in_force({}, case.profile)
        return LEAST not in sources and all(defaults[name] != value for name, value in assumed.items())

    def conditions(self, change: SetupChange, case: Setup) -> tuple[str, ...]:
        """Return what must hold for a change to help, as clauses: what the log does not show about the values that it
        changes."""
        found = [_condition(name, case, self.sources.get(name)) for name in change.options
                 if self.sources.get(name) not in (PRINTED, GIVEN)]  # fmt: skip
        if change.kind is ChangeKind.BUILD and not self._is_older(build_number(change.profile)):
            found.append(f"the server is older than {change.profile}")
        if change.client is not None and change.client.assumes:
            found.append(change.client.assumes if change.client.is_of_log else self.texts or change.client.assumes)
        return tuple(found)

    def assumed_options(self, case: Setup) -> tuple[str, ...]:
        """Return the conditions of all numbers of a case: the options whose values were assumed to explain the log."""
        return tuple(_condition(name, case, ASSUMED) for name, source in self.sources.items() if source == ASSUMED)

    def _is_older(self, build: int) -> bool:
        """True if the log or the user says that the server is older than a build."""
        return self.is_build_given or bool(self.high is not None and build and self.high < build)


NOTHING_KNOWN = CaseFacts()
"""Facts of a log that shows no options and no build."""


def _condition(name: str, case: Setup, source: str | None) -> str:
    """Return the clause that an option has its simulated value."""
    manual = engine_of(case.profile).manual
    flag = manual.flag(name)
    value = in_force(server_options(case.scenario), case.profile)[name]
    text = name if flag is None else flag_text(flag, value, manual.open_words)
    return f"{text} was set" if source else f"the server has the default {text}"


def build_number(profile: str) -> int:
    """Return the build number in the name of a rule set, 0 if it has none."""
    name = profile.partition("@")[2]
    return int(name[1:]) if name[:1] == "b" and name[1:].isdigit() else 0
