"""Search for the first recording that disagrees, for every outcome and every alternative answer."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from cachesim.engines.rule_outcomes import Outcome
from tests.evidence.survey import disagrees
from tests.shared import ROOT

WORKLOAD = re.compile(r"^[a-z0-9]+-|-[0-9]+$")
"""Model and seed in the name of a recording."""
BY_POSITION, BY_PROVENANCE = 150, 300
"""Maximum recordings to replay for a pair, by positions only and with verdicts."""
CRASHES = 6
"""Number of crashes of the simulated server after which an answer is classified as inadmissible."""


class Pair(NamedTuple):
    """Outcome with an alternative answer, and the recordings in which it occurs, in the order to try them."""

    engine: str
    outcome: Outcome
    other: str
    by_position: tuple[Path, ...]      # recordings to replay by positions
    judged: tuple[Path, ...]           # recordings to replay with verdicts, those with a wrong answer first


class Found(NamedTuple):
    """Result for a pair."""

    engine: str
    outcome: Outcome
    other: str
    file: Path | None = None     # recording that disagrees, None = none of those tried
    step: int = -1
    what: str = ""
    crashes: bool = False        # inadmissible: the simulated server fails in all recordings


def pairs(surveys, known):
    """Yield every pair that occurs, with its recordings. ``known``: the recording that disagreed last time, by pair."""
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
    """Return at most ``most`` distinct files."""
    return tuple(dict.fromkeys(files))[:most]


def _cheap_first(recording):
    """Sort key of a recording: without concurrent requests first, then stored in the checkout, then small."""
    return recording.groups, not _kept_here(recording.file), recording.size, str(recording.file)


def _kept_here(file):
    return any((ROOT / "tests" / "data").joinpath(*file.parts[-n:]).exists() for n in (2, 3))


def spread(files):
    """Return the files in rounds: the first of every workload, then the second of each, and so on."""
    place = Counter()
    ranked = []
    for file in files:
        workload = WORKLOAD.sub("", file.stem)
        ranked.append((place[workload], len(ranked), file))
        place[workload] += 1
    return [file for _, _, file in sorted(ranked)]


def search(pair):
    """Replay recordings with the alternative answer until a recording disagrees."""
    tried = crashed = 0
    for mode, files in (("none", pair.by_position), ("provenance", pair.judged)):
        for file in files:
            tried += 1
            try:
                found = disagrees(file, pair.outcome, pair.other, mode)
            except Exception:              # the simulated server fails: the answer is inadmissible here
                crashed += 1
                if crashed == tried == CRASHES:
                    return Found(*pair[:3], crashes=True)
                continue
            if found is not None:
                return Found(*pair[:3], file, *found)
    return Found(*pair[:3], crashes=0 < crashed == tried)
