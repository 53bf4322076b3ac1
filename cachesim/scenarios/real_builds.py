"""Real builds on which the bundled scenarios were run, and whether their fault showed there.

SEEN_ON.txt has a line for each scenario that came out as simulated: `ID: b9713+ b11549-`; + = the fault showed. Lines
that begin with a build count its scenarios: `b9713: equal=250 different=0`. `python -m tests.live.seen_on` writes it.
"""

from __future__ import annotations

from functools import cache
from typing import Mapping, NamedTuple, Sequence

from cachesim.scenarios.corpus import corpus_root

SEEN_ON = "SEEN_ON.txt"
MOST_NAMED = 3              # builds that a sentence names one by one


class RealBuilds(NamedTuple):
    """Real builds that answered a scenario as simulated, the oldest first: with its fault, and without."""

    shown: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


@cache
def _lines() -> Mapping[str, str]:
    text = (corpus_root() / SEEN_ON).read_text("utf-8")
    return {name: rest for name, _, rest in (line.partition(": ") for line in text.splitlines())}


def real_builds(scenario_id: str) -> RealBuilds:
    """Return the real builds that answered a bundled scenario as simulated; none for any other id."""
    words = _lines().get(scenario_id, "").split()        # the counts of a build end with neither mark
    return RealBuilds(tuple(word[:-1] for word in words if word.endswith("+")),
                      tuple(word[:-1] for word in words if word.endswith("-")))  # fmt: skip


def counts_on(build: str) -> Mapping[str, int]:
    """Return the numbers of scenarios on a real build: equal, different, undecided, not-sent; {} if none was run."""
    pairs = (word.partition("=") for word in _lines().get(build, "").split())
    return {name: int(number) for name, _, number in pairs}


def seen_text(found: RealBuilds) -> str:
    """Return where the fault of a scenario was seen, "" if the scenario was not run on a real build."""
    if not found.shown:
        return f"as simulated on {_listed(found.absent)}" if found.absent else ""
    oldest, newest = _number(found.shown[0]), _number(found.shown[-1])
    before = [build for build in found.absent if _number(build) < oldest]
    after = [build for build in found.absent if _number(build) > newest]
    parts = [f"seen on {_listed(found.shown)}"]
    parts += [f"not yet in {before[-1]}"] if before else []
    parts += [f"gone in {after[0]}"] if after else []
    return ", ".join(parts)


def _listed(builds: Sequence[str]) -> str:
    """Return builds, the oldest first, in words."""
    if len(builds) > MOST_NAMED:
        return f"{len(builds)} real builds, {builds[0]} to {builds[-1]}"
    return "the real " + " and ".join(filter(None, [", ".join(builds[:-1]), builds[-1]]))


def _number(build: str) -> int:
    return int(build.removeprefix("b"))
