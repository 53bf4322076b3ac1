"""For every outcome and every other answer to it: the first recording that disagrees."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from cachesim.engines.shared.rule_outcomes import Outcome
from tests.evidence.survey import disagrees
from tests.shared import ROOT

WORKLOAD = re.compile(r"^[a-z0-9]+-|-[0-9]+$")
"""In the name of a recording: its model, and the seed of what was drawn."""
BY_POSITION, BY_PROVENANCE = 150, 300
"""Recordings that are replayed at most for one pair, by positions only and with verdicts."""
CRASHES = 6
"""Recordings in which our server cannot go on before an answer is called not admissible."""


class Pair(NamedTuple):
    """An outcome, another answer to it, and the recordings in which it would be one, those to try first in front:
    ``by_position`` and with verdicts, where those with a wrong answer come first."""

    engine: str
    outcome: Outcome
    other: str
    by_position: tuple[Path, ...]
    judged: tuple[Path, ...]


class Found(NamedTuple):
    """What came of a pair. ``file`` None = no recording that was tried disagrees; ``crashes``: our server cannot go on
    with that answer in any of them, so that it is not admissible."""

    engine: str
    outcome: Outcome
    other: str
    file: Path | None = None
    step: int = -1
    what: str = ""
    crashes: bool = False


def pairs(surveys, known):
    """Every pair that occurs, with its recordings. ``known``: the recording that disagreed last time, by pair."""
    order = sorted((one for one in surveys if one.agrees), key=_cheap_first)
    found = {}
    for one in order:
        for outcome, others in one.met.items():
            for other in others:
                found.setdefault((one.engine, outcome, other), []).append(one)
    for name, mine in sorted(found.items()):
        first = [one.file for one in mine if one.file == known.get(name)]
        files = spread([one.file for one in mine])
        wrong = {one.file for one in mine if one.wrong}
        yield Pair(*name, _some([*first, *files], BY_POSITION),
                   _some([*first, *sorted(files, key=lambda file: file not in wrong)], BY_PROVENANCE))


def _some(files, most):
    """At most so many of them, each once."""
    return tuple(dict.fromkeys(files))[:most]


def _cheap_first(one):
    """Recordings that a checkout has before the others, those with requests sent together last, small ones first."""
    return one.groups, not _kept_here(one.file), one.size, str(one.file)


def _kept_here(file):
    return any((ROOT / "tests" / "data").joinpath(*file.parts[-n:]).exists() for n in (2, 3))


def spread(files):
    """One of every workload, then a second one of each, and so on."""
    place = Counter()
    ranked = []
    for file in files:
        workload = WORKLOAD.sub("", file.stem)
        ranked.append((place[workload], len(ranked), file))
        place[workload] += 1
    return [file for _, _, file in sorted(ranked)]


def search(pair):
    """Replay recordings with the other answer until one disagrees."""
    tried = crashed = 0
    for mode, files in (("none", pair.by_position), ("provenance", pair.judged)):
        for file in files:
            tried += 1
            try:
                found = disagrees(file, pair.outcome, pair.other, mode)
            except Exception:              # our server cannot go on: that answer is not admissible here
                crashed += 1
                if crashed == tried == CRASHES:
                    return Found(*pair[:3], crashes=True)
                continue
            if found is not None:
                return Found(*pair[:3], file, *found)
    return Found(*pair[:3], crashes=0 < crashed == tried)
